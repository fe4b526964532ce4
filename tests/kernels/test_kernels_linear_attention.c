/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_linear_attention.c - rows through the state of linear attention, against the formula
 * in double, in memory that ends at an unreadable page. */
#include "buffers.h"
#include "test.h"

/* The kernel's lines for one column, in double; terms is about the largest magnitude of a sum. */
static double change_column(const struct attn_state_rows *rows, double *column, int64_t t,
                            int64_t c, int64_t read)
{
    const float *key = rows->key + t * rows->depth, *decay = rows->decay + t * rows->depth;
    const float *erase = rows->erase + t * rows->depth;
    double update = (double)rows->value[t * rows->value_stride + c], found = 0, y = 0;
    for (int64_t d = 0; d < rows->depth; d++)
        found += (double)erase[d] * column[d];
    if (rows->beta != NULL)
        update = (double)rows->beta[t] * (update - found);
    for (int64_t d = 0; d < rows->depth; d++)
        column[d] = (double)decay[d] * column[d] + (double)key[d] * update;
    for (int64_t d = 0; d < rows->depth && rows->reads > 0; d++)
        y += (double)rows->query[(t * rows->reads + read) * rows->depth + d] * column[d];
    return y;
}

static void check_column(const struct attn_state_rows *rows, const float *before, int64_t c)
{
    double column[40];
    for (int64_t read = 0; read == 0 || read < rows->reads; read++) {
        for (int64_t d = 0; d < rows->depth; d++)
            column[d] = (double)before[d * rows->state_stride + c];
        for (int64_t t = 0; t < rows->count; t++) {
            const double y = change_column(rows, column, t, c, read);
            if (rows->reads > 0)
                assert_float_equal(rows->y[t * rows->y_stride + read * rows->y_step + c], y, 1e-5);
        }
    }
    for (int64_t d = 0; d < rows->depth; d++)
        assert_float_equal(rows->state[d * rows->state_stride + c], column[d], 1e-5);
}

static void check(const struct attn_kernels *kernels, int64_t columns, int64_t depth, int64_t reads,
                  bool has_beta)
{
    enum { COUNT = 3 };
    struct fill fill = { (uint64_t)(columns * 64 + depth * 4 + reads) };
    const int64_t stride = columns + 2, y_stride = reads * stride + 1;
    float *state = buffers_rows(&fill, depth, columns, stride);
    const float *before = buffers_copy(state, (depth - 1) * stride + columns);
    struct attn_state_rows rows = {
        .state = state,
        .state_stride = stride,
        .depth = depth,
        .columns = columns,
        .count = COUNT,
        .key = buffers_filled(&fill, COUNT * depth, -0.3f, 0.3f),
        .erase = buffers_filled(&fill, COUNT * depth, -0.3f, 0.3f),
        .decay = buffers_filled(&fill, COUNT * depth, 0, 1),
        .query = buffers_filled(&fill, COUNT * reads * depth, -1, 1),
        .beta = has_beta ? buffers_filled(&fill, COUNT, 0, 1) : NULL,
        .value = buffers_rows(&fill, COUNT, columns, stride),
        .reads = reads,
        .value_stride = stride,
        .y_stride = y_stride,
        .y_step = stride,
    };
    if (reads > 0)
        rows.y = buffers_floats((COUNT - 1) * y_stride + (reads - 1) * stride + columns);
    kernels->change_state(&rows);
    for (int64_t c = 0; c < columns; c++)
        check_column(&rows, before, c);
}

TEST(rows_change_a_state)
{
    static const int64_t depths[] = { 1, 2, 3, 16, 33 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (buffers_shift = 0; buffers_shift <= 1; buffers_shift++)
            for (int64_t columns = 1; columns < 70; columns++)
                for (int i = 0; i < 5 * 3 * 2; i++) {
                    check(*k, columns, depths[i % 5], i / 5 % 3, i / 15 == 1);
                    buffers_free();
                }
}
