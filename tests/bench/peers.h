/* peers.h - other implementations as children of a bench; peer_main.h has what is said. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench_shape.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct peer {
    const char *name;
    const char *setting;     /* NAME=VALUE of its environment, or NULL */
    const char *interpreter; /* NULL: program is a binary beside the bench */
    const char *program;
    bool is_there;
    pid_t pid;
    FILE *to, *from;
};

/* Starts it with the number of threads. False, with a line that says so, where it is absent. */
bool peer_start(struct peer *peer, const char *folder, int threads);

/* False where it cannot compute this shape. sums: of the context and of its absolute numbers. */
bool peer_shape(struct peer *peer, const struct bench_shape *shape, double sums[2]);

/* Seconds of count runs, after one that wakes its threads and fills the caches. */
bool peer_time(struct peer *peer, int count, double *seconds);

double peer_peak_mib(const struct peer *peer); /* of its whole process, so far */

void peer_stop(struct peer *peer);

#endif
