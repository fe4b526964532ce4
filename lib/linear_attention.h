/* SPDX-License-Identifier: Apache-2.0 */
/* linear_attention.h - attention whose past is a state of fixed size in place of keys and values.
 *
 * The state S of a head is [k_head_dim][v_head_dim]. A row with query q, key k and value v changes
 * it and reads it:
 *
 *     S = e^g S                     where there is a decay g
 *     u = beta (v - S^T k)          where there is a beta, else u = v
 *     S = S + k u^T
 *     y = scale S^T q
 *
 * With both it is the gated delta rule of Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks",
 * S = e^g S (I - beta k k^T) + beta v k^T with their state transposed, as Hugging Face transformers
 * has it (torch_recurrent_gated_delta_rule); with a beta alone the delta rule (Schlag et al. 2021),
 * with a decay alone gated linear attention (Yang et al. 2023), with neither linear attention
 * (Katharopoulos et al. 2020): the update rules of the ONNX operator LinearAttention, opset 27.
 *
 * A step goes through the rows of one sequence in their order: before is the state before the first
 * row, NULL for zeros, and after becomes that behind the last one. Both may be the same memory, and
 * nothing else that is written overlaps anything.
 *
 *     for (task = 0; task < attn_linear_attention_tasks(&problem); task++)
 *         attn_linear_attention_run(&problem, task, workspace);
 *
 * Tasks may run in any order and on any threads; each running task needs its own workspace. Every
 * row is one step of the same arithmetic, however many rows a call has: rows in several calls, the
 * state taken from one to the next, have the bits of one call of all rows. Numbers are F32; strides
 * count elements from one row to the next. What runs after a check cannot fail. */
#ifndef ATTN_LINEAR_ATTENTION_H
#define ATTN_LINEAR_ATTENTION_H

#include "attn.h"
#include "work.h"

struct attn_linear_attention {
    /* There is a state for each head of values. k_heads divides v_heads, and q_heads divides
     * v_heads or is a multiple of it: head i of the larger number goes with head i / (larger /
     * smaller) of the smaller. y has as many heads as the larger of q_heads and v_heads. */
    int64_t q_heads, k_heads, v_heads;
    bool heads_take_turns; /* head i of values goes with heads i % q_heads and i % k_heads instead;
                              not with more heads of queries */
    int64_t k_head_dim, v_head_dim; /* of queries and keys; of values and y */

    bool has_decay, has_beta;
    bool decay_has_columns; /* each column of the key has its own g, for its row of the state */
    bool beta_is_logit;     /* beta = 1 / (1 + e^-b) of the numbers b of a problem */

    /* [v_heads], borrowed; NULL: the decays of a problem are g. Else g = rate log(1 + e^(a + bias))
     * of the numbers a of a problem, in double. No rate is above 0. */
    const float *decay_rate, *decay_bias;

    bool is_normalized; /* queries and keys of each head become x / sqrt(sum(x^2) + norm_eps) */
    double norm_eps;    /* 0 or more, finite */
    double scale;       /* finite */
};

struct attn_linear_attention_problem {
    const struct attn_linear_attention *attention;
    const float *query; /* [row_count][q_heads][k_head_dim] */
    const float *key;   /* [row_count][k_heads][k_head_dim] */
    const float *value; /* [row_count][v_heads][v_head_dim] */
    const float *decay; /* [row_count][v_heads], or [row_count][v_heads][k_head_dim] if
                           decay_has_columns; of has_decay */
    const float *beta;  /* [row_count][v_heads]; of has_beta */
    int64_t query_stride, key_stride, value_stride, decay_stride, beta_stride; /* 0 or more */
    float *y; /* [row_count][heads of y][v_head_dim]; NULL: only the state is wanted */
    int64_t y_stride;
    const float
        *before; /* attn_linear_attention_state() numbers: [v_heads][k_head_dim][v_head_dim] */
    float *after;
    int64_t row_count;
    const struct attn_kernels *kernels; /* not NULL */
};

/* *where names a field; it may be NULL. */
enum attn_status attn_linear_attention_check(const struct attn_linear_attention *attention,
                                             const char **where);
int64_t attn_linear_attention_state(const struct attn_linear_attention *attention);

/* 0 if there are no rows: then after is not written. Which numbers a task computes follows from the
 * shapes alone. */
int64_t attn_linear_attention_tasks(const struct attn_linear_attention_problem *problem);

/* Bytes of one task's workspace, 64-byte aligned. They do not depend on the number of rows. */
size_t attn_linear_attention_workspace_bytes(const struct attn_linear_attention *attention);

void attn_linear_attention_run(const struct attn_linear_attention_problem *problem, int64_t task,
                               void *workspace);
void attn_linear_attention_work(const struct attn_linear_attention_problem *problem,
                                struct attn_work *work);

#endif
