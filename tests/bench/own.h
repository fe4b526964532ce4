/* SPDX-License-Identifier: Apache-2.0 */
/* own.h - our library as a contender of a bench: a problem with memory of its own, run by
 * threads. */
#ifndef BENCH_OWN_H
#define BENCH_OWN_H

#include "attn.h"
#include "bench_shape.h"

struct own {
    struct attn_problem problem;
    struct attn_plan plan;
    int threads;
    float *query, *key, *value, *context;
    void *narrowed[3]; /* keys, values and queries that are not floats, or NULL */
    void *workspace[2], *shared;
};

/* Makes the problem of the shape; its one output is the context. Change it as you like, then
 * call own_plan(). */
void own_init(struct own *own, const struct bench_shape *shape);
void own_plan(struct own *own);

/* Rounds keys and values to F16 or BF16; before own_plan(). Reading is that of floats then. */
void own_narrow(struct own *own, enum attn_dtype dtype);
void own_narrow_query(struct own *own, enum attn_dtype dtype);
void own_free(struct own *own);

/* Seconds of one run: CPU time with one thread, by the clock with two. */
double own_time(const struct own *own);

/* The same of count runs, after one run that fills the caches. They follow each other at once, as
 * those of a peer do (peers.h): in the milliseconds that it takes to wake a thread, neighbours take
 * their part of a shared cache. */
void own_times(const struct own *own, int count, double *seconds);

/* Seconds of reading keys and values once, shared out to as many threads as a run has. */
double own_time_read(const struct own *own);
void own_times_read(const struct own *own, int count, double *seconds);

void own_sums(const struct own *own, double sums[2]);

double now_s(int threads); /* the clock of both */

double median(double *numbers, int count); /* sorts them */

#endif
