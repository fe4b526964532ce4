/* SPDX-License-Identifier: Apache-2.0 */
/* rows_internal.h - how the parameters of a matrix lie in memory, one block of a product, and what
 * a norm does to a row. */
#ifndef ATTN_ROWS_INTERNAL_H
#define ATTN_ROWS_INTERNAL_H

#include "base/internal.h"
#include "linear.h"
#include "rows.h"

#include "kernels/kernels.h"

/* Elements from one row of the weight to the next; the same for its gradient. */
int64_t attn_linear_stride(const struct attn_linear *linear);

/* The address of number index of the weight. */
const void *attn_linear_at(const struct attn_linear *linear, int64_t index);

/* Whether the weight is [in, out] in blocks, which no product reads. */
bool attn_linear_turns_blocks(const struct attn_linear *linear);

/* The matrix that takes gradients of the outputs to gradients of the inputs: the same memory, read
 * transposed. */
struct attn_linear attn_linear_back(const struct attn_linear *linear);

/* What multiplies, and how exactly. */
struct attn_linear_how {
    const struct attn_kernels *kernels;
    enum attn_precision precision;
};

/* Whether a matrix unit computes products with these parameters, or fixed point does. */
bool attn_linear_is_matrix(const struct attn_kernels *kernels, const struct attn_linear *linear);

/* The most outputs of a task of a matrix unit. */
enum { ATTN_LINEAR_OUTPUTS_MAX = 1024 };

/* How a product of row_count rows is divided: into blocks of ATTN_PROJECT_ROWS_MAX rows, by blocks
 * of outputs outputs. Task number task is rows task % row_blocks and outputs task / row_blocks, so
 * that tasks that share parameters follow each other, while the parameters are still in the caches.
 */
struct attn_linear_blocks {
    int64_t row_blocks, output_blocks;
    int64_t outputs; /* of a block */
};
struct attn_linear_blocks attn_linear_blocks(const struct attn_kernels *kernels,
                                             const struct attn_linear *linear, int64_t row_count);

/* The sizes of a task's part of a product: rows, outputs, and the first of each. */
struct attn_linear_part {
    int64_t first_row, row_count;
    int64_t first_output, output_count;
};
struct attn_linear_part attn_linear_part(const struct attn_kernels *kernels,
                                         const struct attn_linear *linear, int64_t row_count,
                                         int64_t task);

/* y[r][o] = output first_output + o of row x[r], for o < output_count and r < row_count, which is
 * at most ATTN_PROJECT_ROWS_MAX. work is [ATTN_PROJECT_WORK]. */
void attn_linear_multiply(const struct attn_linear_how *how, const struct attn_linear *linear,
                          const float *const *x, float *const *y,
                          const struct attn_linear_part *part, float *work);

/* For columns numbers of a row that is normalized: what is subtracted from them (0 if the norm is
 * not centred), and the factor that they are then multiplied by. */
struct attn_norm_moments {
    double mean, factor;
};
struct attn_norm_moments attn_norm_moments(const struct attn_norm *norm, const float *x,
                                           int64_t columns);

#endif
