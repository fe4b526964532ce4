/* SPDX-License-Identifier: Apache-2.0 */
/* recurrence.h - steps of layers that keep a state of a fixed size in place of keys and values: a
 * causal convolution of each column, and linear recurrences over rows.
 *
 * A step goes through the rows of one sequence in their order, and takes its state from row to row:
 * before is the state before the first row, NULL for zeros, and after becomes that behind the last
 * one. Both may be the same memory, and nothing else of a problem overlaps.
 *
 *     for (task = 0; task < attn_ssd_tasks(&problem); task++)
 *         attn_ssd_run(&problem, task);
 *
 * Tasks may run in any order and on any threads. Every row is one step of the same arithmetic,
 * however many rows a call has: rows in several calls, the state taken from one to the next, have
 * the bits of one call of all rows. Numbers are F32; a stride counts elements from one row to the
 * next. What runs after a check cannot fail. */
#ifndef ATTN_RECURRENCE_H
#define ATTN_RECURRENCE_H

#include "linear.h"
#include "work.h"

/* ------------------------------------------------------------------------ convolution -- */

enum { ATTN_CONVOLUTION_TAPS_MAX = 16 };

/* A causal convolution of each column alone:
 *
 *     y[i][c] = activation(bias[c] + sum over t < taps of weight[c][t] * u[i - (taps - 1) + t][c])
 *
 * where u is x, or x times a factor of the same shape; rows of u before the first are the state.
 * With a gate, y is multiplied by it at last. Sources: Dauphin et al. 2017 (gated convolutions), Gu
 * and Dao 2023 (before a recurrence). */
struct attn_convolution {
    int64_t columns, taps;           /* taps: 1 to ATTN_CONVOLUTION_TAPS_MAX */
    const float *weight;             /* [columns][taps], borrowed; the last tap is the row's own */
    const float *bias;               /* [columns], borrowed; NULL: 0 */
    enum attn_activation activation; /* not ATTN_XIELU */
};

struct attn_convolution_problem {
    const struct attn_convolution *convolution;
    const float *x, *factor, *gate; /* [row_count][columns]; factor, gate NULL: none */
    int64_t x_stride;               /* of all three */
    float *y;                       /* [row_count][columns] */
    int64_t y_stride;
    const float *before; /* attn_convolution_state() numbers: [taps - 1][columns], the last rows */
    float *after;        /* of u, the oldest first */
    int64_t row_count;
    const struct attn_kernels *kernels; /* not NULL */
};

/* *where names a field; it may be NULL. */
enum attn_status attn_convolution_check(const struct attn_convolution *convolution,
                                        const char **where);
int64_t attn_convolution_state(const struct attn_convolution *convolution);
int64_t attn_convolution_tasks(const struct attn_convolution_problem *problem);
void attn_convolution_run(const struct attn_convolution_problem *problem, int64_t task);
void attn_convolution_work(const struct attn_convolution_problem *problem, struct attn_work *work);

/* ----------------------------------------------------------------------- state space -- */

/* The recurrence of Mamba-2 (state space duality: Dao and Gu 2024, equation 6 of the recurrent
 * form), of each head alone, with the state S [state_dim][head_dim]:
 *
 *     t = clamp(log(1 + e^(dt + dt_bias)), dt_min, dt_max)
 *     S = e^(t * a) * S + t * b x^T
 *     y = S^T c + d * x
 *
 * b and c are those of the head's group: heads / groups consecutive heads have the same. t and its
 * exponential are computed in double, the rest in float. */
struct attn_ssd {
    int64_t heads, head_dim;   /* of x and y */
    int64_t groups, state_dim; /* of b and c; groups divides heads */
    const float *a;            /* [heads], borrowed: no number is above 0 */
    const float *dt_bias;      /* [heads], borrowed */
    const float *d;            /* [heads], borrowed; NULL: 0 */
    double dt_min, dt_max;     /* 0 <= dt_min <= dt_max; dt_max may be INFINITY */
};

struct attn_ssd_problem {
    const struct attn_ssd *ssd;
    const float *x;                        /* [row_count][heads][head_dim] */
    const float *b, *c;                    /* [row_count][groups][state_dim] */
    const float *dt;                       /* [row_count][heads] */
    int64_t x_stride, b_stride, dt_stride; /* b_stride: of c too */
    float *y;                              /* [row_count][heads][head_dim] */
    int64_t y_stride;
    const float *before; /* attn_ssd_state() numbers: [heads][state_dim][head_dim] */
    float *after;
    int64_t row_count;
    const struct attn_kernels *kernels; /* not NULL */
};

enum attn_status attn_ssd_check(const struct attn_ssd *ssd, const char **where);
int64_t attn_ssd_state(const struct attn_ssd *ssd);
int64_t attn_ssd_tasks(const struct attn_ssd_problem *problem);
void attn_ssd_run(const struct attn_ssd_problem *problem, int64_t task);
void attn_ssd_work(const struct attn_ssd_problem *problem, struct attn_work *work);

#endif
