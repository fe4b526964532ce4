/* SPDX-License-Identifier: Apache-2.0 */
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

/* Runs the work as thread 0, and on two threads as thread 1 beside it. The second thread waits
 * awake for its next turn, as that of our own library does (own.c): to start one for each run would
 * take a peer 0.1 to 0.4 ms. */
void peer_share(void (*work)(int thread), int threads);

#endif
