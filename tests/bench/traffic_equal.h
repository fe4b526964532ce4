/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_equal.h - sends calls of all kinds in changing numbers at a time, and compares every
 * answer with that of the same call to an idle daemon. */
#ifndef BENCH_TRAFFIC_EQUAL_H
#define BENCH_TRAFFIC_EQUAL_H

#include "traffic_connection.h"
#include "traffic_kinds.h"

#include <stdint.h>

/* An answer without what may differ. */
struct equal_answer {
    int status;
    char type[64]; /* its Content-Type */
    char *body;
    size_t size;
};

struct equal_counts {
    int64_t answers, differ;
    int64_t refused;    /* 429 and 503: no answers, and asked again */
    int64_t unanswered; /* connections that ended without an answer after SIGTERM */
};

/* Takes out of a body in JSON what may differ between two answers to equal requests: times, and
 * names that are made at random. Returns the bytes that are left. */
size_t equal_strip(char *body, size_t size);

/* Sends the calls that come before all others, then each of the others, alone; answers has a place
 * for each call. If an answer does not come, it ends the program. */
void equal_ask_alone(int port, const struct kind_calls *kinds, struct equal_answer *answers);
void equal_answers_free(struct equal_answer *answers, int count);

struct equal_load {
    int port;
    int pid; /* gets SIGTERM when count answers have come, while callers wait for more */
    const struct kind_calls *kinds;
    const struct equal_answer *wanted;
    int64_t count;
    uint64_t seed;
    const char *name; /* of the daemon, for the lines that say what differs */
};

/* Adds to the counts. A connection that breaks earlier, or a call that is refused without end, ends
 * the program. */
void equal_run(const struct equal_load *load, struct equal_counts *counts);

#endif
