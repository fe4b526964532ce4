/* SPDX-License-Identifier: Apache-2.0 */
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
    const char *version; /* a shell command that prints it, or NULL */
    bool takes_bf16;     /* heeds BENCH_BF16 */
    bool is_there;
    pid_t pid;
    FILE *to, *from;
    int threads;           /* of the last shape */
    double cpu_s, clock_s; /* of the runs since then, all threads */
    double others_s;       /* CPU seconds of all others meanwhile */
};

/* Starts the peer with the number of threads. If it is absent, prints a line and returns false. */
bool peer_start(struct peer *peer, const char *folder, int threads);

/* Returns false if the peer cannot compute this shape. sums: of the context and of its absolute
 * numbers. */
bool peer_shape(struct peer *peer, const struct bench_shape *shape, double sums[2]);

/* Gives the seconds of count runs, after one run that wakes the threads and fills the caches. */
bool peer_time(struct peer *peer, int count, double *seconds);

/* A contender that waits, for a network, a timer or another program, says nothing of how fast it
 * computes: a ratio to it would be one of the bench. So each is held to this share of the CPU
 * seconds that it could have taken. */
enum { PEER_BUSY_PERCENT = 80 };

bool peer_is_busy(double cpu_s, double could_s);

/* What a peer took, that another way than peer_time() runs: called before and behind a run. */
struct peer_watch {
    double clock_s, cpu_s, busy_s;
};
void peer_watch_start(struct peer_watch *watch, const struct peer *peer);
void peer_watch_stop(const struct peer_watch *watch, struct peer *peer);

/* The CPU seconds that so many threads could take in clock_s: all of it, or what others have left
 * of a machine of so many CPUs. */
double peer_could_s(double clock_s, int threads, int cpus, double others_s);

/* Whether the peer was busy with its last shape, with all its threads. */
bool peer_was_busy(const struct peer *peer);

/* The CPU seconds that it could have taken for that shape. */
double peer_could_of(const struct peer *peer);

/* "not busy: 8% CPU", of could_s. */
enum { PEER_IDLE_BYTES = 40 };
void peer_describe_idle(char text[PEER_IDLE_BYTES], double cpu_s, double could_s);

double peer_cpu_s(pid_t pid); /* of all threads of the process, so far; 0: there is none */

double peer_peak_mib(const struct peer *peer); /* of the peer's whole process, so far */

void peer_stop(struct peer *peer);

#endif
