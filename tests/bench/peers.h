/* peers.h - other implementations as children of a bench; peer_main.h describes the
 * conversation. */
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
    bool takes_bf16; /* heeds BENCH_BF16 */
    bool is_there;
    pid_t pid;
    FILE *to, *from;
};

/* Starts the peer with the number of threads. If it is absent, prints a line and returns false. */
bool peer_start(struct peer *peer, const char *folder, int threads);

/* Returns false if the peer cannot compute this shape. sums: of the context and of its absolute
 * numbers. */
bool peer_shape(struct peer *peer, const struct bench_shape *shape, double sums[2]);

/* Gives the seconds of count runs, after one run that wakes the threads and fills the caches. */
bool peer_time(struct peer *peer, int count, double *seconds);

double peer_peak_mib(const struct peer *peer); /* of the peer's whole process, so far */

void peer_stop(struct peer *peer);

#endif
