/* SPDX-License-Identifier: Apache-2.0 */
/* difference.h - derivatives of what the double reference computes, by finite differences.
 *
 * The loss is the sum over all numbers of context * context_gradient. A number x of an input is
 * moved by h and 2h both ways. h is a power of two, so if x is a multiple of 2^-12, the float
 * holds the moved number exactly. The five points give the derivative with an error of h^4.
 * Nothing here knows how lib/ computes a gradient. */
#ifndef DIFFERENCE_H
#define DIFFERENCE_H

#include "layer.h"

#include "fill.h"

/* Rounds numbers to multiples of 2^-12, so that they can be moved exactly. */
void difference_round(float *numbers, int64_t count);

/* Numbers from seed, uniform in [-1, 1) in steps of 2^-12. */
void difference_fill(struct fill *fill, float *numbers, int64_t count);

/* The loss of a bare call. context_gradient is F32 [batch, q_heads, q_len, v_head_dim]. */
double difference_loss(const struct attn_problem *problem,
                       const struct attn_tensor *context_gradient);

/* The loss of a layer's call; context_gradient is [q_len, d_out]. */
double difference_layer_loss(const struct attn_layer_problem *problem,
                             const float *context_gradient);

/* The derivative of the loss by *x. *x belongs to the problem; it has its old value afterwards. */
double difference_by(const struct attn_problem *problem, const struct attn_tensor *context_gradient,
                     float *x);
double difference_layer_by(const struct attn_layer_problem *problem, const float *context_gradient,
                           float *x);

/* The sum of the derivatives by count different numbers, each times its direction, which is 1 or
 * -1. */
enum { DIFFERENCE_ALONG_MAX = 8 };
double difference_layer_along(const struct attn_layer_problem *problem,
                              const float *context_gradient, float *const x[],
                              const float directions[], int count);

/* The derivative from the losses at -2, -1, 1 and 2 steps of this size. */
double difference_of(const double at[4], double step);

/* Whether no weight changes between 0 and not 0 while *x moves, as weights of sparsemax can. */
bool difference_is_smooth(const struct attn_problem *problem, float *x);

#endif
