/* SPDX-License-Identifier: Apache-2.0 */
/* given.c - contexts of given weights, in double, a block of columns and rows of the value at a
 * time; and the keys that a row sees, one pair at a time. */
#include "given.h"
#include "base/convert.h"
#include "base/internal.h"
#include "forward/mask.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 64, ROWS = 32, BIASES = 256 };

void attn_row_seen(const struct attn_problem *problem, int64_t head, int64_t row, bool *seen)
{
    const int64_t kv_len = problem->key.shape[2];
    const struct key_range range = attn_mask_row(problem, 0, row);
    const struct key_range gap = attn_mask_gap(problem, 0, row);
    const struct attn_kernels *kernels =
        problem->kernels != NULL ? problem->kernels : attn_kernels_available()[0];
    double biases[BIASES];

    for (int64_t key = 0; key < kv_len; key += BIASES) {
        const int64_t n = attn_min(kv_len - key, BIASES);
        if (problem->mask.data != NULL)
            attn_mask_biases(problem, kernels, 0, head, row, key, n, biases);
        for (int64_t j = 0; j < n; j++) {
            const bool is_in_gap = key + j >= gap.low && key + j < gap.high;
            seen[key + j] = key + j >= range.low && key + j < range.high && !is_in_gap
                            && (problem->mask.data == NULL || biases[j] > -INFINITY);
        }
    }
}

/* sums[columns] += weights . the value's columns from column on. */
static void add_values(const struct attn_problem *problem, int64_t kv_head, const float *weights,
                       int64_t column, int64_t columns, double *sums)
{
    const int64_t kv_len = problem->value.shape[2];
    const struct attn_kernels *kernels =
        problem->kernels != NULL ? problem->kernels : attn_kernels_available()[0];
    float buffer[ROWS * COLUMNS];
    int64_t stride;

    for (int64_t key = 0; key < kv_len; key += ROWS) {
        const struct attn_block block = { .head = kv_head,
                                          .row = key,
                                          .row_count = attn_min(kv_len - key, ROWS),
                                          .column = column,
                                          .columns = columns };
        const float *rows = attn_block_read(kernels, &problem->value, &block, buffer, &stride);
        for (int64_t j = 0; j < block.row_count; j++)
            for (int64_t c = 0; c < columns && weights[key + j] != 0.0f; c++)
                sums[c] += (double)weights[key + j] * (double)rows[j * stride + c];
    }
}

static void set_context(const struct attn_problem *problem, int64_t head, int64_t row,
                        const float *weights)
{
    const struct attn_tensor *context = &problem->context;
    const int64_t group = problem->query.shape[1] / problem->value.shape[1];
    const int64_t v_head_dim = problem->value.shape[3];
    float *to = (float *)context->data + head * context->stride[1] + row * context->stride[2];

    for (int64_t column = 0; column < v_head_dim; column += COLUMNS) {
        const int64_t columns = attn_min(v_head_dim - column, COLUMNS);
        double sums[COLUMNS] = { 0 };
        add_values(problem, head / group, weights, column, columns, sums);
        for (int64_t c = 0; c < columns; c++)
            to[column + c] = (float)sums[c];
    }
}

void attn_given_run(const struct attn_problem *problem, const float *const *given, int64_t head,
                    int64_t first_row, int64_t row_count)
{
    const struct attn_tensor *map = &problem->weights;

    for (int64_t row = first_row; row < first_row + row_count; row++) {
        const float *weights = given[head * problem->query.shape[2] + row];
        if (weights == NULL)
            continue;
        if (map->data != NULL)
            memcpy((float *)map->data + head * map->stride[1] + row * map->stride[2], weights,
                   (size_t)problem->key.shape[2] * sizeof *weights);
        if (problem->context.data != NULL)
            set_context(problem, head, row, weights);
    }
}
