/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - requests sent at a rate or by a number of callers, and what became of them.
 *
 * The benches have a client of their own, because what measures a server of 20 000 requests a
 * second on the same machine must cost little: one thread, sockets that never block, epoll,
 * requests made beforehand.
 *
 * Closed loop: each caller sends its next request when it has its answer. That measures what a
 * server can carry. But a slow server then gets fewer requests, so that its latencies look
 * better than users would find them. Open loop: requests arrive by Poisson at a rate, whatever
 * the server has answered. Latency counts from the moment at which a request should go out, not
 * from the moment at which a connection was free for it. */
#ifndef BENCH_TRAFFIC_H
#define BENCH_TRAFFIC_H

#include "traffic_requests.h"
#include "traffic_samples.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRAFFIC_STATUS_MAX = 600, TRAFFIC_SLICES_MAX = 400 };

static const double TRAFFIC_SLICE_S = 0.1;

struct traffic_load {
    int port;              /* of 127.0.0.1 */
    const char *unix_path; /* in place of the port; NULL: none */
    bool is_tls;
    const struct traffic_request *requests;
    int request_count;
    double seconds;    /* counted; a fifth of it goes before, as a warm-up */
    double rate;       /* arrivals a second; 0: closed loop */
    double burst_rate; /* in place of rate, for burst_s from burst_at_s of the counted time on; 0:
                          there is no burst */
    double burst_at_s, burst_s;
    int callers;       /* of a closed loop; in an open one the most connections there may be */
    double deadline_s; /* later answers are no good, and twice as late ones are not waited for;
                          0: none */
    bool spins;        /* never sleeps: for a client with a CPU of its own */
};

/* The result of the requests that arrived in the counted time. */
struct traffic_result {
    double seconds;
    int64_t arrived;
    int64_t statuses[TRAFFIC_STATUS_MAX];
    int64_t answered;                  /* in all the time, warm-up included, with any status */
    int64_t good;                      /* answers of 200 within the deadline */
    double good_bytes;                 /* of their requests */
    int64_t abandoned;                 /* closed by us at twice the deadline, without an answer */
    int64_t broken;                    /* closed by the server, or no HTTP */
    int64_t unsent;                    /* no connection was free for twice the deadline */
    struct traffic_samples latency_ms; /* of requests that were answered with 200 */
    struct traffic_samples compute_ms; /* what Server-Timing said of them */
    struct traffic_samples late_ms;    /* how late requests were sent, all of them */
    double cpu_s;                      /* our own, all the time */
    double elapsed_s;                  /* all the time */
    double server_cpu_s, could_s;      /* by traffic_measure(): taken, and what it could take */

    /* Of the counted time, in slices of TRAFFIC_SLICE_S, by when a request was to go out. */
    int64_t arrived_in[TRAFFIC_SLICES_MAX], good_in[TRAFFIC_SLICES_MAX];
};

/* Runs the load. If that cannot be done, it ends the program with a message. */
void traffic_run(const struct traffic_load *load, struct traffic_result *result);
void traffic_result_free(struct traffic_result *result);

/* Sends each request once. If an answer is not 200, it prints the answer and ends the program. */
void traffic_try(int port, const struct traffic_request *requests, int request_count);

#endif
