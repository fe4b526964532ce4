/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_int8.c - rows of int8 with scales, on every table of kernels: what they become as
 * floats, and that scores and contexts have the bits of these floats. Memory ends at a guard page.
 */
#include "buffers.h"
#include "test.h"

#include <float.h>

enum { NUMBERS = 256, ROWS_MAX = 7 };

static const int64_t KEYS[] = { 1, 3, 16, 63, 64, 100, 211 };
static const int64_t AT[] = { 0, 1, 63, 64, 80 };
static const int64_t MORE_COLUMNS[] = { 0, 1, 7, 16, 48, 112 };
enum { KEY_COUNTS = 7, AT_COUNTS = 5, COLUMN_COUNTS = 6 };

/* Products of a number of 8 bits and one of 24 are doubles. */
static float product(int8_t number, float scale)
{
    return (float)((double)number * (double)scale);
}

/* ------------------------------------------------------------------------- widening -- */

static void check_widening(const struct attn_kernels *kernels, int64_t n, float least, float most)
{
    struct fill fill = { (uint64_t)n };
    int8_t *from = buffers_bytes((size_t)n);
    float *scale = buffers_filled(&fill, n, least, most);
    float *to = buffers_floats(n);
    for (int64_t i = 0; i < n; i++)
        from[i] = (int8_t)(i % NUMBERS - 128);
    kernels->widen_i8_channels(to, from, scale, n);
    for (int64_t i = 0; i < n; i++)
        assert_true(buffers_same(to[i], product(from[i], scale[i])));
    kernels->widen_i8_row(to, from, scale[0], n);
    for (int64_t i = 0; i < n; i++)
        assert_true(buffers_same(to[i], product(from[i], scale[0])));
    buffers_free();
}

TEST(widening)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t n = 1; n < 600; n += n < 70 ? 1 : 97) {
            buffers_shift = n % 2;
            check_widening(*k, n, 0, 1);
            check_widening(*k, n, 0, FLT_MIN);
            check_widening(*k, n, 1e36f, 1e37f);
        }
}

/* --------------------------------------------------------------------------- decoding -- */

static int8_t *numbers_of(struct fill *fill, int64_t count)
{
    int8_t *numbers = buffers_bytes((size_t)count);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (int8_t)(fill_below(fill, NUMBERS) - 128);
    return numbers;
}

static int64_t padded(const struct attn_kernels *kernels, int64_t columns)
{
    return (columns + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
}

static void expect_same(const struct attn_kernels *kernels, const char *what, const float *got,
                        const float *want, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!buffers_same(got[i], want[i]))
            fail_msg("%s, %s: number %" PRId64 " is %.9g, as floats %.9g", kernels->name, what, i,
                     (double)got[i], (double)want[i]);
}

static void check_scores(const struct attn_kernels *kernels, int64_t rows, int64_t n,
                         int64_t head_dim, int64_t at)
{
    struct fill fill = { (uint64_t)(rows * 10000 + n * 100 + head_dim) };
    const int64_t stride = head_dim + 3, query_stride = padded(kernels, head_dim);
    const int64_t groups = (at + n + ATTN_KERNELS_I8_ROWS - 1) / ATTN_KERNELS_I8_ROWS;
    const int8_t *key = numbers_of(&fill, (n - 1) * stride + head_dim);
    const float *scale = buffers_filled(&fill, groups * head_dim, 0, 0.02f);
    const float *query = buffers_filled(&fill, rows * query_stride, -1, 1);
    float *floats = buffers_floats(n * head_dim);
    float *got = buffers_floats(rows * n), *want = buffers_floats(rows * n);
    for (int64_t j = 0; j < n; j++)
        for (int64_t d = 0; d < head_dim; d++)
            floats[j * head_dim + d] =
                product(key[j * stride + d], scale[(at + j) / ATTN_KERNELS_I8_ROWS * head_dim + d]);
    kernels->decode_scores_i8(got, n, query, query_stride, rows, key, stride, n, head_dim,
                              n % 2 ? key : NULL, scale, at);
    kernels->decode_scores[ATTN_NUMBERS_F32](want, n, query, query_stride, rows, floats, head_dim,
                                             n, head_dim, NULL);
    expect_same(kernels, "scores", got, want, rows * n);
    buffers_free();
}

/* If hides is set, every third weight is 0 and the scale of its value NaN. */
static void check_context(const struct attn_kernels *kernels, int64_t rows, int64_t n,
                          int64_t columns, bool hides)
{
    struct fill fill = { (uint64_t)(rows * 10000 + n * 100 + columns) };
    const int64_t stride = columns + 5, context_stride = padded(kernels, columns);
    const int8_t *value = numbers_of(&fill, (n - 1) * stride + columns);
    float *scale = buffers_filled(&fill, n, 0, 0.02f);
    float *weights = buffers_filled(&fill, rows * n, 0, 1);
    float *got = buffers_filled(&fill, rows * context_stride, -1, 1);
    float *want = buffers_copy(got, rows * context_stride);
    const float *rescale = buffers_filled(&fill, rows, 0, 1);
    float *floats = buffers_floats(n * columns);
    for (int64_t j = 0; hides && j < n; j += 3) {
        for (int64_t r = 0; r < rows; r++)
            weights[r * n + j] = 0.0f;
        scale[j] = NAN;
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < columns; c++)
            floats[j * columns + c] = product(value[j * stride + c], scale[j]);
    kernels->decode_context_i8(got, context_stride, rescale, weights, n, rows, value, stride, n,
                               columns, n % 2 ? value : NULL, 0, hides ? 0 : n, scale);
    kernels->decode_context[ATTN_NUMBERS_F32](want, context_stride, rescale, weights, n, rows,
                                              floats, columns, n, columns, NULL, 0, hides ? 0 : n);
    expect_same(kernels, "context", got, want, rows * context_stride);
    for (int64_t i = 0; i < rows * context_stride; i++)
        assert_true(isfinite(got[i]));
    buffers_free();
}

TEST(decoding)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t rows = 1; rows <= ROWS_MAX; rows++)
            for (int i = 0; i < KEY_COUNTS; i++)
                for (int c = 0; c < COLUMN_COUNTS; c++) {
                    const int64_t columns = (*k)->lanes + MORE_COLUMNS[c];
                    buffers_shift = (i + c) % 2;
                    check_scores(*k, rows, KEYS[i], columns, AT[(i + c) % AT_COUNTS]);
                    check_context(*k, rows, KEYS[i], columns, false);
                    check_context(*k, rows, KEYS[i], columns, true);
                }
}
