/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c - lib/rows.h against its formulas written plainly: norms to the bit, the rest within
 * the rounding of floats. */
#include "fill.h"
#include "number.h"
#include "rows.h"
#include "test.h"

enum { ROWS = 37, COLUMNS = 530, STRIDE = COLUMNS + 5, NUMBERS = ROWS * STRIDE };

static float x[NUMBERS], y[NUMBERS], want[NUMBERS], weight[COLUMNS], bias[COLUMNS];

static void fill_rows(uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, x, NUMBERS, -3, 5);
    fill_floats(&fill, y, NUMBERS, -3, 5);
    fill_floats(&fill, weight, COLUMNS, -2, 2);
    fill_floats(&fill, bias, COLUMNS, -2, 2);
    memcpy(want, y, sizeof y);
}

/* --------------------------------------------------------------------------- norms -- */

/* The order of every operation is part of the promise. */
static void norm_plainly(const struct attn_norm *norm, const float *row, float *out,
                         int64_t columns)
{
    double mean = 0, sum = 0;
    for (int64_t c = 0; norm->is_centred && c < columns; c++)
        mean += (double)row[c];
    mean /= (double)columns;
    for (int64_t c = 0; c < columns; c++)
        sum += ((double)row[c] - mean) * ((double)row[c] - mean);
    const float factor = (float)(1 / sqrt(sum / (double)columns + norm->eps));
    for (int64_t c = 0; c < columns; c++)
        out[c] = (row[c] - (float)mean) * factor * norm->weight[c]
                 + (norm->bias != NULL ? norm->bias[c] : 0.0f);
}

TEST(norms_are_exact)
{
    static const int64_t columns[] = { 1, 2, 3, 4, 5, 8, 127, 128, 530 };
    static const int64_t rows[] = { 1, 2, 7, 8, 9, 16, 23, 37 };
    for (int i = 0; i < 9 * 8 * 4; i++) {
        const int64_t n = rows[i / 4 % 8], d = columns[i / 32];
        const struct attn_norm norm = { .weight = weight,
                                        .eps = i % 3 == 0 ? 0 : 1e-5,
                                        .bias = i % 2 ? bias : NULL,
                                        .scope = ATTN_NORM_ROW,
                                        .is_centred = i / 2 % 2 == 1 };
        fill_rows((uint64_t)i);
        for (int64_t r = 0; r < n; r++)
            norm_plainly(&norm, x + r * STRIDE, want + r * STRIDE, d);
        attn_rows_norm(&norm, y, STRIDE, x, STRIDE, n, d);
        if (d > 1 || norm.eps > 0 || !norm.is_centred)
            assert_memory_equal(y, want, sizeof y);
        attn_rows_norm(&norm, x, STRIDE, x, STRIDE, n, d);
        for (int64_t r = 0; r < n; r++)
            assert_memory_equal(x + r * STRIDE, y + r * STRIDE, (size_t)d * sizeof *x);
    }
}

TEST(a_norm_may_be_absent)
{
    const struct attn_norm none = { .weight = NULL };
    fill_rows(1);
    for (int64_t r = 0; r < 9; r++)
        memcpy(want + r * STRIDE, x + r * STRIDE, 100 * sizeof *x);
    attn_rows_norm(&none, y, STRIDE, x, STRIDE, 9, 100);
    assert_memory_equal(y, want, sizeof y);
    attn_rows_norm(&none, y, STRIDE, y, STRIDE, 9, 100);
    assert_memory_equal(y, want, sizeof y);
}

/* ---------------------------------------------------------------------------- sums -- */

static void expect_near(double scale)
{
    for (int64_t i = 0; i < NUMBERS; i++)
        if (!(fabs((double)y[i] - (double)want[i]) <= 2e-6 * scale))
            fail_msg("number %d is %.9g; want %.9g", (int)i, (double)y[i], (double)want[i]);
}

TEST(rows_are_added)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t columns = 1; columns <= COLUMNS; columns += 23)
            for (int scaled = 0; scaled < 2; scaled++) {
                fill_rows((uint64_t)columns);
                for (int64_t r = 0; r < ROWS; r++)
                    for (int64_t c = 0; c < columns; c++)
                        want[r * STRIDE + c] += (float)(0.75 * (double)x[r * STRIDE + c]
                                                        * (scaled ? (double)weight[c] : 1));
                attn_rows_add(*k, y, STRIDE, x, STRIDE, 0.75f, scaled ? weight : NULL, ROWS,
                              columns);
                expect_near(10);
            }
}

/* ------------------------------------------------------------------------- a table -- */

TEST(rows_are_gathered)
{
    static const enum attn_dtype dtypes[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
    static const int64_t numbers[] = { 8, 0, 3, 3, 8 };
    static uint16_t halves[9 * COLUMNS];
    static float floats[9 * COLUMNS];
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < 3 * 4 * 3; i++) {
            static const int64_t widths[] = { 1, 100, 256, COLUMNS };
            const enum attn_dtype dtype = dtypes[i % 3];
            const int64_t columns = widths[i / 3 % 4];
            const bool adds = i / 12 > 0;
            const struct attn_rows_table table = { dtype == ATTN_F32 ? (void *)floats
                                                                     : (void *)halves,
                                                   dtype, columns };
            fill_rows((uint64_t)i);
            for (int64_t j = 0; j < 9 * columns; j++) {
                if (dtype != ATTN_F32)
                    number_set(halves, dtype, j, (double)x[j]);
                floats[j] = dtype == ATTN_F32 ? x[j] : (float)number_get(halves, dtype, j);
            }
            for (int64_t r = 0; r < 5; r++)
                for (int64_t c = 0; c < columns; c++)
                    want[r * STRIDE + c] = (adds ? want[r * STRIDE + c] : 0)
                                           + floats[numbers[r] * columns + c] * (i < 24 ? 1 : 2);
            attn_rows_gather(*k, &table, numbers, 5, i < 24 ? 1 : 2, adds, y, STRIDE);
            assert_memory_equal(y, want, sizeof y);
        }
}

/* -------------------------------------------------------------------------- logits -- */

TEST(logits_are_capped)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < 4; i++) {
            const double scale = i % 2 ? 12.5 : 1, softcap = i / 2 ? 30 : 0;
            fill_rows(2);
            for (int64_t j = 0; j < COLUMNS; j++)
                want[j] = (float)(softcap > 0 ? softcap * tanh(scale * (double)y[j] / softcap)
                                              : scale * (double)y[j]);
            attn_rows_cap(*k, y, COLUMNS, (float)scale, (float)softcap);
            expect_near(30);
        }
}

TEST(logarithms_sum_to_one)
{
    double sum = 0;
    fill_rows(3);
    x[7] = -INFINITY;
    x[9] = 80;
    const struct attn_row_sums sums = attn_row_sums(x, COLUMNS);
    assert_true(sums.max == 80);
    for (int64_t c = 0; c < COLUMNS; c++)
        sum += exp((double)x[c] - (double)sums.max - sums.log_sum);
    assert_true(fabs(sum - 1) < 1e-14);

    for (int64_t c = 0; c < 4; c++)
        x[c] = -INFINITY;
    assert_true(attn_row_sums(x, 4).log_sum == -INFINITY && attn_row_sums(x, 4).max == -INFINITY);
    assert_true(attn_row_sums(x, 0).log_sum == -INFINITY);
    x[2] = NAN;
    assert_true(isnan(attn_row_sums(x, 4).log_sum));
    x[3] = 1;
    assert_true(isnan(attn_row_sums(x, 4).log_sum));
    x[2] = INFINITY;
    assert_true(isnan(attn_row_sums(x, 4).log_sum));
}
