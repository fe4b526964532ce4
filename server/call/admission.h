/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h - whether the daemon takes a request or refuses it, decided as early as possible.
 *
 * Each request is judged up to three times, each time with more known: when the headers of a long
 * body have arrived (and again if the body had to wait to be read), when the body has arrived, and
 * when the request has been planned. Before the plan only the cost of reading the body is certain,
 * and the request is judged by that; in the queue it counts with the recent cost of such bodies
 * (cost_guess_ns()).
 *
 * A share of several (job_share.h) may have as many items in the queue, and as much cost, as would
 * still fit besides: dynamic thresholds, Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches" (IEEE/ACM Transactions on Networking 6, 1998), with alpha 1. So
 * one flood of requests leaves half of the queue to others, and n floods leave a part of 1 / (n +
 * 1). A share that has nothing in the queue is not bounded by this: it may bring a batch of many
 * more items. For the other shares such a batch counts as no more than the rule lets a share have,
 * so their requests find places beside it.
 *
 * A batch of more items than the queue has places is judged by what it would count as for others,
 * where there is no other batch of its share. By its own items it would never find the queue empty
 * enough: the jobs that have not been planned are there, and they may be such batches too. */
#ifndef ATTND_ADMISSION_H
#define ATTND_ADMISSION_H

#include "call/service.h"

#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------ the decision -- */

struct admission_limits {
    int64_t items_max;   /* accepted and not done; each item of a batch counts */
    int64_t cost_ns_max; /* predicted time of all workers together for these items */
    int64_t one_ns_max;  /* and for one request, by its size alone; a larger one never fits */
};

/* The requests that are accepted and not done. */
struct admission_queue {
    int64_t items;
    int64_t cost_ns;   /* predicted time of one worker */
    int64_t before_ns; /* the part of cost_ns that goes before the judged request, and more_ns for
                          each of it */
    int worker_count;
    double slowdown; /* cost_slowdown() */
    int64_t more_ns; /* struct scheduler_load */

    int64_t batch_items; /* of batches, but the first of each; where is_shared, of its share's */

    bool is_shared;                     /* the judged request is of one share of several */
    int64_t share_items, share_cost_ns; /* of its share, within items and cost_ns */
    double share_part; /* of the workers that its share gets if all shares ask for more */
};

struct admission_request {
    int64_t items;
    int64_t by_size_ns; /* predicted time of one worker by its size alone: cost_by_size_ns() */
    int64_t certain_ns; /* predicted time of one worker for the work that is certain */
    int64_t likely_ns;  /* and for the work that is likely */
    int64_t left_ns;    /* until its deadline */
    int64_t begins_ns;  /* it cannot begin for so long from now */
    bool was_judged;    /* it was taken when less was known of it */
    int64_t counted_items, counted_ns; /* its own part of the queue so far, which struct
                                          admission_queue does not include */
};

enum admission_verdict {
    ADMISSION_TAKEN,
    ADMISSION_TOO_LARGE, /* it would not fit into an empty queue */
    ADMISSION_FULL,
    ADMISSION_TOO_LATE, /* it would not be answered before its deadline */
};

/* Decides. The prediction for one request may be wrong, so a request is refused for its own cost
 * only where half of the prediction is too much. Predictions grow with the load, so TOO_LARGE,
 * which tells the client never to try again, depends on the size alone. A request that has its
 * place in the queue keeps it, unless it has more items, or more than twice the cost, than it was
 * counted with. *retry_after_s, 1 or more, says where the queue is FULL in how many seconds there
 * will be room, and where it is TOO_LATE in how many so much less will go before the request that
 * it would be in time; the request alone may take too long all the same. */
enum admission_verdict admission_judge(const struct admission_limits *limits,
                                       const struct admission_queue *queue,
                                       const struct admission_request *request, int *retry_after_s);

/* For the requests of others, a taken request counts as so many items, 1 or more: at most as many
 * as leave its share no more than what is free besides. Without shares a quarter of what was free
 * is left. So one batch, however large, leaves places for small requests. */
int64_t admission_counted_items(const struct admission_limits *limits,
                                const struct admission_queue *queue, int64_t items);

/* ------------------------------------------------------------- in the daemon -- */

/* The cost of a request as far as it is known. */
struct admission_cost {
    int64_t ns;         /* predicted time of one worker */
    int64_t by_size_ns; /* cost_by_size_ns(); 0 where admission_weighs_size() is false */
};

/* Whether there is a bound on the size of one request: --queue-cost-max. */
bool admission_weighs_size(const struct service *service);

/* Only bodies of at least so many bytes are refused before they arrive. Shorter bodies have arrived
 * by then, or nearly, and an early refusal costs the client its connection. */
enum { ADMISSION_EARLY_BYTES = 16 * 1024 };

/* Called when the headers have arrived, and again before a long body is read. False, with the
 * fault, where the body need not come; a short body may always come. certain is the cost of reading
 * the body, outlook->cost_ns its likely cost. Sets outlook->latest_ns, the deadline. */
bool admission_takes_body(struct service *service, const struct exchange *exchange,
                          struct body_outlook *outlook, struct admission_cost certain,
                          struct fault *fault);

/* Called when the body has arrived, before scheduler_submit(). job has its deadline, its share and
 * its likely cost. was_judged: exchange_was_judged(). */
bool admission_takes(struct service *service, const struct job *job, struct admission_cost certain,
                     bool was_judged, struct fault *fault);

/* The same for a disk job (disk_job.h), which takes a place in the queue and no worker. */
bool admission_takes_disk_job(struct service *service, struct job_share *share,
                              struct fault *fault);

/* The items of a batch but the first. */
struct admission_more_items {
    int64_t counted; /* for all: admission_counted_items() */
    int64_t own;     /* for the share itself: each of them */
};

/* Called in the first task of the job, when its request is planned: left is the cost of computing
 * and writing its items. Sets job->cost_ns. Where the request is taken, sets *more_items, to be
 * passed to admission_ends() when the job is done. */
bool admission_takes_planned(struct service *service, struct job *job, int64_t items,
                             struct admission_cost left, struct admission_more_items *more_items,
                             struct fault *fault);
void admission_ends(struct service *service, const struct job *job,
                    struct admission_more_items more_items);

/* The likely cost of a request whose body has not been read.
 *
 * Requests of the same path and about the same size mostly cost about the same. So a table keeps a
 * moving average of the planned cost for each path and size that comes often. */

/* Requests with the same key are alike: of one path, one type, and one size within a fifth. */
uint64_t cost_guess_key(const char *path, const char *type, size_t body_bytes);

/* Predicted time of one worker; 0: no request with this key has been planned lately. */
int64_t cost_guess_ns(uint64_t key);

/* A request with this key has been planned at ns. */
void cost_guess_learn(uint64_t key, int64_t ns);

#endif
