/* admission.h - whether a request is taken, as soon as that can be told.
 *
 * It is asked three times, each time with more known: when the headers of a long body are there
 * (and once more where it had to wait to be read), when the body is, and when the request has been
 * planned. By its body a request is judged by what
 * is certain, reading it, and counts in the queue as what such bodies cost of late (cost_guess.h).
 */
#ifndef ATTND_ADMISSION_H
#define ATTND_ADMISSION_H

#include "service/service.h"

/* ------------------------------------------------------------ the decision -- */

struct admission_limits {
    int64_t items_max;   /* accepted and not done, each item of a batch counted */
    int64_t cost_ns_max; /* predicted time that the workers together may need for these */
    int64_t one_ns_max;  /* and for one alone, by its size; what is over it, never fits */
};

/* What is accepted and not done. */
struct admission_queue {
    int64_t items;
    int64_t cost_ns;   /* predicted time of one worker */
    int64_t before_ns; /* the part of it that goes before this request */
    int worker_count;
    double slowdown; /* cost_slowdown() */
};

struct admission_request {
    int64_t items;
    int64_t by_size_ns; /* what that is by its size alone: cost_by_size_ns() */
    int64_t certain_ns; /* predicted time of one worker for what it will certainly need */
    int64_t likely_ns;  /* the same for what it will probably need */
    int64_t left_ns;    /* until its deadline */
    int64_t begins_ns;  /* not before so long from now */
    bool was_judged;    /* and taken, when less was known of it */
    int64_t counted_items, counted_ns; /* that the queue has of it already; they are not in what the
                                          queue is said to have */
};

enum admission_verdict {
    ADMISSION_TAKEN,
    ADMISSION_TOO_LARGE, /* it would not fit into an empty queue */
    ADMISSION_FULL,
    ADMISSION_TOO_LATE, /* it could not be answered in time */
};

/* What a request itself takes is a prediction of one case, which may be off; it is refused for that
 * alone where even half of it is too much, and for good only by its size, which is the same
 * whenever it comes: what is predicted grows with the load. What has its place in the queue keeps
 * it, unless it turns out to be of more items or more than twice the cost. *retry_after_s says,
 * where it is full, after how many seconds there will be room; 1 or more. */
enum admission_verdict admission_judge(const struct admission_limits *limits,
                                       const struct admission_queue *queue,
                                       const struct admission_request *request, int *retry_after_s);

/* ------------------------------------------------------------- in the daemon -- */

/* What a request costs as far as it is known. */
struct admission_cost {
    int64_t ns;         /* predicted time of one worker */
    int64_t by_size_ns; /* cost_by_size_ns(); 0 where admission_weighs_size() says no */
};

/* Whether there is a bound on the size of one request: --queue-cost-max. */
bool admission_weighs_size(const struct service *service);

/* Bodies that are refused before they come have at least so many bytes: shorter ones have come by
 * then, or nearly so, and a refusal would cost the connection. */
enum { ADMISSION_EARLY_BYTES = 16 * 1024 };

/* When the headers are there, and when a long body's turn has come: false, with its fault, for one
 * that need not come. certain is the cost of reading it, outlook->cost_ns what it will probably
 * cost; outlook->latest_ns is said here. Short ones are taken. */
bool admission_takes_body(struct service *service, const struct exchange *exchange,
                          struct body_outlook *outlook, struct admission_cost certain,
                          struct fault *fault);

/* When the body is there, before scheduler_submit(); job has its deadline and its cost. was_judged:
 * exchange_was_judged(). */
bool admission_takes(struct service *service, const struct job *job, struct admission_cost certain,
                     bool was_judged, struct fault *fault);

/* The same of what waits for the disk (disk_job.h), which takes a place and no worker. */
bool admission_takes_disk_job(struct service *service, struct fault *fault);

/* In the first task of the job, when its request is planned: it has so many items, left.ns
 * are to be computed and written. Where it is taken, sets job->cost_ns and gives in *more_items
 * what admission_ends() takes back when the job is done. */
bool admission_takes_planned(struct service *service, struct job *job, int64_t items,
                             struct admission_cost left, int64_t *more_items, struct fault *fault);
void admission_ends(struct service *service, int64_t more_items);

#endif
