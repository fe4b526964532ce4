/* traffic.h - requests sent at a rate or by so many callers, and what became of them.
 *
 * A client of its own, because what measures a server of 20 000 requests a second on the same
 * machine must cost little: one thread, sockets that never block, epoll, requests made beforehand.
 *
 * Closed loop: each of so many callers sends its next request when it has its answer. That
 * measures what a server can carry, but a slow server is then asked less, so that its latencies
 * look better than users would find them. Open loop: requests arrive when they will, by Poisson
 * at a rate, whatever has been answered, and latency counts from the moment a request was to be
 * sent, not from when a connection was free for it. */
#ifndef BENCH_TRAFFIC_H
#define BENCH_TRAFFIC_H

#include "traffic_requests.h"
#include "traffic_samples.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRAFFIC_STATUS_MAX = 600 };

struct traffic_load {
    int port; /* of 127.0.0.1 */
    const struct traffic_request *requests;
    int request_count;
    double seconds;    /* counted; a fifth of it goes before, as a warm-up */
    double rate;       /* arrivals a second; 0: closed loop */
    int callers;       /* of a closed loop; of an open one the most connections there may be */
    double deadline_s; /* later answers are no good, and twice as late ones are not waited for;
                          0: none */
    bool spins;        /* never sleeps: for a CPU of its own */
};

/* Of the requests that arrived in the counted time. */
struct traffic_result {
    double seconds;
    int64_t arrived;
    int64_t statuses[TRAFFIC_STATUS_MAX];
    int64_t good;                      /* 200 within the deadline */
    double good_bytes;                 /* of their requests */
    int64_t abandoned;                 /* closed by us at twice the deadline, without an answer */
    int64_t broken;                    /* closed by the server, or no HTTP */
    int64_t unsent;                    /* no connection was free for twice the deadline */
    struct traffic_samples latency_ms; /* of those that were answered with 200 */
    struct traffic_samples compute_ms; /* what Server-Timing said of them */
    struct traffic_samples late_ms;    /* of sending, of all */
    double cpu_s;                      /* our own, all the time */
    double elapsed_s;                  /* all the time */
};

/* Ends the program with a message where it cannot be done. */
void traffic_run(const struct traffic_load *load, struct traffic_result *result);
void traffic_result_free(struct traffic_result *result);

/* Sends each request once, and ends the program with the answer where that is not 200. */
void traffic_try(int port, const struct traffic_request *requests, int request_count);

#endif
