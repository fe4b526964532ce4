/* peer_main.h - another implementation of attention as a child of bench_attention.
 *
 * The child reads lines and answers each with one:
 *
 *     shape BATCH Q_HEADS KV_HEADS Q_LEN KV_LEN HEAD_DIM CAUSAL THREADS -> ok SUM ABSOLUTE_SUM
 *                                                                          or no REASON
 *     run COUNT                                                         -> t SECONDS ...
 *
 * SUM and ABSOLUTE_SUM are those of the context, so that all are seen to compute the same thing.
 * One thread is timed in CPU seconds of the process, which a busy machine hardly changes; more are
 * timed by the clock. Arrays are [batch, heads, length, head_dim], filled by bench_fill(). */
#ifndef BENCH_PEER_MAIN_H
#define BENCH_PEER_MAIN_H

#include "bench_shape.h"

/* What each peer implements. setup returns NULL, or the reason why it cannot compute this shape. */
const char *peer_setup(const struct bench_shape *shape, const float *query, const float *key,
                       const float *value, float *context);
void peer_run(void);
void peer_release(void);

#endif
