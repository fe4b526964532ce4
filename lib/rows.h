/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what a transformer does with rows of numbers between its products: norms, sums, rows of
 * a table, and what is read off a row of logits.
 *
 * A block of rows is F32; a stride counts elements from one row to the next. Each function works on
 * the rows that it is given, so callers divide rows into tasks as they like: the bits of a row
 * depend on that row alone. Rows to write overlap rows to read only where a comment says so. No
 * function fails. kernels is not NULL. */
#ifndef ATTN_ROWS_H
#define ATTN_ROWS_H

#include "linear.h"

/* Which numbers of a row of heads are normalized together, and the shape of the norm's weights. */
enum attn_norm_scope {
    ATTN_NORM_HEAD,  /* each head alone; weight and bias [head_dim], the same for all heads */
    ATTN_NORM_HEADS, /* each head alone; [heads, head_dim] */
    ATTN_NORM_ROW,   /* all heads of the row together; [heads * head_dim] */
};

/* y = weight * x / sqrt(mean(x^2) + eps) + bias (RMSNorm: Zhang and Sennrich 2019). If is_centred,
 * x is first reduced by its mean (LayerNorm: Ba et al. 2016). If all numbers are 0, they stay 0
 * when eps is above 0 and become NaN when eps is 0. */
struct attn_norm {
    const float *weight; /* borrowed; NULL: no norm */
    double eps;          /* 0 or more, finite */
    const float *bias;   /* borrowed; NULL: none */
    enum attn_norm_scope scope;
    bool is_centred;
};

/* y = norm(x), over whole rows whatever the norm's scope. Means are summed in double, in the order
 * of the columns. If the norm's weight is NULL, y = x. y may be x, with the same stride. */
void attn_rows_norm(const struct attn_norm *norm, float *y, int64_t y_stride, const float *x,
                    int64_t x_stride, int64_t row_count, int64_t columns);

/* y += scale * x, or with column_scales, [columns], y += scale * column_scales * x. */
void attn_rows_add(const struct attn_kernels *kernels, float *y, int64_t y_stride, const float *x,
                   int64_t x_stride, float scale, const float *column_scales, int64_t row_count,
                   int64_t columns);

/* y *= activation(gate); gate stays as it is. The activation is not ATTN_XIELU. */
void attn_rows_gate(const struct attn_kernels *kernels, float *y, int64_t y_stride,
                    const float *gate, int64_t gate_stride, enum attn_activation activation,
                    int64_t row_count, int64_t columns);

/* Rows of a table by their numbers. */
struct attn_rows_table {
    const void *rows;      /* [count][columns], dense */
    enum attn_dtype dtype; /* F32, F16, BF16, or one with blocks (attn.h) */
    int64_t columns;       /* whole blocks */
};

/* y[i] = scale * table[numbers[i]] for i < row_count, or, if adds, y[i] += that. Numbers are those
 * of rows that exist. */
void attn_rows_gather(const struct attn_kernels *kernels, const struct attn_rows_table *table,
                      const int64_t *numbers, int64_t row_count, float scale, bool adds, float *y,
                      int64_t y_stride);

/* x = softcap * tanh(scale * x / softcap) of count numbers in place; softcap 0: x = scale * x. */
void attn_rows_cap(const struct attn_kernels *kernels, float *numbers, int64_t count, float scale,
                   float softcap);

/* The logarithm of the softmax of a row of logits is row[i] - max - log_sum. */
struct attn_row_sums {
    float max;      /* -INFINITY if count is 0 */
    double log_sum; /* log(sum over i of exp(row[i] - max)), in double */
};

/* A number of -INFINITY adds nothing. If all are -INFINITY, or count is 0, log_sum is -INFINITY; if
 * one is NaN or +INFINITY, it is NaN. attn_top_k() finds the largest logits. */
struct attn_row_sums attn_row_sums(const float *row, int64_t count);

/* Write the k largest of count numbers, largest first, and their indices; k <= count. Among equal
 * numbers the lower index comes first; NaN comes after all numbers. */
void attn_top_k(const float *row, int64_t count, int64_t k, float *values, int64_t *indices);

#endif
