/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h - what check.c asks of a kernel: one call of it is one attention. */
#ifndef KERNEL_H
#define KERNEL_H

/* Query head h reads the key and value head h / (q_heads / kv_heads). Row i of the queries stands
 * at position past_len + i, and sees key j where
 *
 *     j < kv_len_of_row[i],
 *     j <= past_len + i                    where causal,
 *     j >= past_len + i - window_left      where window_left >= 0.
 *
 * A row that sees no key has context 0 and lse -INFINITY. */
struct kernel_problem {
    int q_heads, kv_heads, head_dim;
    int q_len, kv_len, past_len;
    int causal, window_left;
    float scale;
    const int *kv_len_of_row; /* [q_len] */
    const float *query;       /* [q_len][q_heads][head_dim] */
    const float *key, *value; /* [kv_len][kv_heads][head_dim] */
};

/* Writes context [q_len][q_heads][head_dim], lse [q_heads][q_len], with the natural logarithm, and
 * weights [q_heads][q_len][kv_len]. A kernel that has no weights leaves them as they are. */
void kernel(const struct kernel_problem *problem, float *context, float *lse, float *weights);

#endif
