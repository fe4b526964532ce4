/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c - norms of rows.
 *
 * Sources: Zhang and Sennrich 2019 (root mean square), Ba et al. 2016 (LayerNorm). Means are summed
 * in double, so long rows lose no precision; each number is then scaled and weighted in float.
 *
 * A sum has one order, that of the columns, so each of its additions waits for the one before.
 * Several rows are therefore summed side by side: the CPU adds to one while it waits for another,
 * and the bits are those of each row alone. The kernels are compiled with multiply-adds, which
 * would round differently; so these loops are not kernels. */
#include "rows/rows_internal.h"

#include "base/internal.h"

#include <math.h>
#include <string.h>

/* Rows that are summed side by side, two to a vector. */
enum { SIDE_PAIRS = 4, SIDE_ROWS = 2 * SIDE_PAIRS };

typedef double pair __attribute__((vector_size(16)));
typedef float four __attribute__((vector_size(16)));

static struct attn_norm_moments moments_of(const struct attn_norm *norm, double mean, double sum,
                                           int64_t columns)
{
    return (struct attn_norm_moments){ mean, 1 / sqrt(sum / (double)columns + norm->eps) };
}

struct attn_norm_moments attn_norm_moments(const struct attn_norm *norm, const float *x,
                                           int64_t columns)
{
    double mean = 0, sum = 0;

    for (int64_t c = 0; norm->is_centred && c < columns; c++)
        mean += (double)x[c];
    mean /= (double)columns;
    for (int64_t c = 0; c < columns; c++)
        sum += ((double)x[c] - mean) * ((double)x[c] - mean);
    return moments_of(norm, mean, sum, columns);
}

/* Column c of two rows. */
static pair pair_at(const float *x, int64_t stride, int64_t c)
{
    return (pair){ (double)x[c], (double)x[stride + c] };
}

/* attn_norm_moments() of SIDE_ROWS rows. */
static void side_moments(const struct attn_norm *norm, const float *x, int64_t stride,
                         int64_t columns, struct attn_norm_moments moments[SIDE_ROWS])
{
    const int64_t step = 2 * stride;
    pair m0 = { 0 }, m1 = { 0 }, m2 = { 0 }, m3 = { 0 };
    pair s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };

    for (int64_t c = 0; norm->is_centred && c < columns; c++) {
        m0 += pair_at(x, stride, c);
        m1 += pair_at(x + step, stride, c);
        m2 += pair_at(x + 2 * step, stride, c);
        m3 += pair_at(x + 3 * step, stride, c);
    }
    m0 /= (double)columns;
    m1 /= (double)columns;
    m2 /= (double)columns;
    m3 /= (double)columns;
    for (int64_t c = 0; c < columns; c++) {
        const pair d0 = pair_at(x, stride, c) - m0;
        const pair d1 = pair_at(x + step, stride, c) - m1;
        const pair d2 = pair_at(x + 2 * step, stride, c) - m2;
        const pair d3 = pair_at(x + 3 * step, stride, c) - m3;
        s0 += d0 * d0;
        s1 += d1 * d1;
        s2 += d2 * d2;
        s3 += d3 * d3;
    }
    const pair means[SIDE_PAIRS] = { m0, m1, m2, m3 }, sums[SIDE_PAIRS] = { s0, s1, s2, s3 };
    for (int i = 0; i < SIDE_ROWS; i++)
        moments[i] = moments_of(norm, means[i / 2][i % 2], sums[i / 2][i % 2], columns);
}

static four load_four(const float *numbers)
{
    four v;

    memcpy(&v, numbers, sizeof v);
    return v;
}

static void scale_row(const struct attn_norm *norm, const struct attn_norm_moments *moments,
                      float *y, const float *x, int64_t columns)
{
    const float mean = (float)moments->mean, factor = (float)moments->factor;
    int64_t c = 0;

    for (; c + 4 <= columns; c += 4) {
        const four bias = norm->bias != NULL ? load_four(norm->bias + c) : (four){ 0 };
        const four v = (load_four(x + c) - mean) * factor * load_four(norm->weight + c) + bias;
        memcpy(y + c, &v, sizeof v);
    }
    for (; c < columns; c++)
        y[c] =
            (x[c] - mean) * factor * norm->weight[c] + (norm->bias != NULL ? norm->bias[c] : 0.0f);
}

static void copy_rows(float *y, int64_t y_stride, const float *x, int64_t x_stride,
                      int64_t row_count, int64_t columns)
{
    for (int64_t r = 0; x != y && r < row_count; r++)
        memcpy(y + r * y_stride, x + r * x_stride, (size_t)columns * sizeof *y);
}

void attn_rows_norm(const struct attn_norm *norm, float *y, int64_t y_stride, const float *x,
                    int64_t x_stride, int64_t row_count, int64_t columns)
{
    struct attn_norm_moments moments[SIDE_ROWS];
    int64_t r = 0;

    if (norm->weight == NULL) {
        copy_rows(y, y_stride, x, x_stride, row_count, columns);
        return;
    }
    for (; r + SIDE_ROWS <= row_count; r += SIDE_ROWS) {
        side_moments(norm, x + r * x_stride, x_stride, columns, moments);
        for (int64_t i = r; i < r + SIDE_ROWS; i++)
            scale_row(norm, &moments[i - r], y + i * y_stride, x + i * x_stride, columns);
    }
    for (; r < row_count; r++) {
        moments[0] = attn_norm_moments(norm, x + r * x_stride, columns);
        scale_row(norm, &moments[0], y + r * y_stride, x + r * x_stride, columns);
    }
}
