/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_additive.c - the additive score of a tile, of every table that this CPU can run,
 * against arithmetic in double.
 *
 * Counts go around the vector's length. Memory ends at a guard page and is aligned to a float
 * only. The sums under the tanh are small enough to be linear, large enough to saturate, or no
 * number. */
#include "buffers.h"
#include "test.h"

#include <float.h>

static const int64_t COUNTS[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 31, 33 };
enum { COUNTS_LENGTH = sizeof COUNTS / sizeof COUNTS[0] };

typedef void (*check_fn)(const struct attn_kernels *kernels, int64_t width);

/* Calls check for every table and width; every other case is not aligned. */
static void for_all(check_fn check)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t width = (*k)->lanes; width <= ATTN_WIDTH_MAX; width += (*k)->lanes) {
            buffers_shift = width / (*k)->lanes % 2;
            check(*k, width);
        }
}

static void fail_at(const struct attn_kernels *kernels, int64_t width, int64_t j, int64_t r,
                    double got, double want)
{
    fail_msg("%s, width %" PRId64 ": key %" PRId64 ", lane %" PRId64 ": %.9g, want %.9g",
             kernels->name, width, j, r, got, want);
}

static void scale_all(float *numbers, int64_t count, float factor)
{
    for (int64_t i = 0; i < count; i++)
        numbers[i] *= factor; /* the NaN between the rows stays NaN */
}

/* size is the size of the sums under the tanh. */
static void check_tile(const struct attn_kernels *kernels, int64_t width, int64_t n,
                       int64_t head_dim, int64_t gap, float size)
{
    struct fill fill = { (uint64_t)(width * 1000 + n * 10 + head_dim) };
    const int64_t stride = head_dim + gap > 0 ? head_dim + gap : 1;
    const float scale = fill_float(&fill, -2, 2);
    float *query_t = buffers_filled(&fill, head_dim * width, -size, size);
    float *key = buffers_rows(&fill, n, head_dim, stride);
    float *weight = buffers_filled(&fill, head_dim, -1, 1);
    float *scores_t = buffers_floats(n * width);
    scale_all(key, n > 0 ? (n - 1) * stride + head_dim : 0, size);
    kernels->additive_tile(scores_t, query_t, key, stride, weight, scale, n, head_dim, width);
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < width; r++) {
            double want = 0, bound = 0;
            for (int64_t d = 0; d < head_dim; d++) {
                const float sum = key[j * stride + d] + query_t[d * width + r];
                want += (double)weight[d] * tanh((double)sum);
                bound += fabs((double)weight[d] * tanh((double)sum));
            }
            const double got = (double)scores_t[j * width + r];
            if (!(fabs(got - (double)scale * want) <= 8e-7 * fabs((double)scale) * bound))
                fail_at(kernels, width, j, r, got, (double)scale * want);
        }
    buffers_free();
}

static void check_tiles(const struct attn_kernels *kernels, int64_t width)
{
    static const float sizes[] = { 1.0f, 1e-20f, 5.0f, 1e-3f, 100.0f, 1e30f, 0.3f };
    for (int n = 0; n < COUNTS_LENGTH; n++)
        for (int d = 0; d < COUNTS_LENGTH; d++)
            check_tile(kernels, width, COUNTS[n], COUNTS[d], d % 3, sizes[(n + d) % 7]);
    check_tile(kernels, width, 96, 64, 0, 2.0f);
    check_tile(kernels, width, 97, 80, 5, 2.0f);
}

TEST(tiles)
{
    for_all(check_tiles);
}

/* The middle, where tanh bends, step by step: one feature, weight 1. */
static void check_sweep(const struct attn_kernels *kernels, int64_t width)
{
    enum { STEPS = 4000 };
    const float weight = 1.0f;
    float *query_t = buffers_floats(width);
    float *scores_t = buffers_floats(STEPS * width);
    float *key = buffers_floats(STEPS);
    for (int64_t r = 0; r < width; r++)
        query_t[r] = 0.002f * (float)r;
    for (int64_t j = 0; j < STEPS; j++)
        key[j] = 24.0f * (float)j / STEPS - 12.0f;
    kernels->additive_tile(scores_t, query_t, key, 1, &weight, 1.0f, STEPS, 1, width);
    for (int64_t j = 0; j < STEPS; j++)
        for (int64_t r = 0; r < width; r++) {
            const float sum = key[j] + query_t[r];
            const double want = tanh((double)sum), got = (double)scores_t[j * width + r];
            if (!(fabs(got - want) <= 5e-7 * fabs(want)) || fabs(got) > 1.0)
                fail_at(kernels, width, j, r, got, want);
        }
    buffers_free();
}

TEST(sweep)
{
    for_all(check_sweep);
}

/* A key of NaN spoils its own scores only, a query of NaN its own lane only. An infinite number
 * counts as a large one. */
static void check_poison(const struct attn_kernels *kernels, int64_t width)
{
    enum { N = 13, HEAD_DIM = 11 };
    struct fill fill = { (uint64_t)width };
    float *query_t = buffers_filled(&fill, HEAD_DIM * width, -1, 1);
    float *key = buffers_rows(&fill, N, HEAD_DIM, HEAD_DIM);
    float *weight = buffers_filled(&fill, HEAD_DIM, -1, 1);
    float *scores_t = buffers_floats(N * width);
    float *large_t = buffers_floats(N * width);
    key[5 * HEAD_DIM + 3] = NAN;
    query_t[2 * width + 1] = NAN;
    key[6 * HEAD_DIM + 3] = FLT_MAX;
    query_t[4 * width + 2] = -FLT_MAX;
    kernels->additive_tile(large_t, query_t, key, HEAD_DIM, weight, 1.0f, N, HEAD_DIM, width);
    key[6 * HEAD_DIM + 3] = INFINITY;
    query_t[4 * width + 2] = -INFINITY;
    kernels->additive_tile(scores_t, query_t, key, HEAD_DIM, weight, 1.0f, N, HEAD_DIM, width);
    for (int64_t j = 0; j < N; j++)
        for (int64_t r = 0; r < width; r++) {
            const float got = scores_t[j * width + r], large = large_t[j * width + r];
            if ((j == 5 || r == 1) != (bool)isnan(got) || !buffers_same(got, large))
                fail_at(kernels, width, j, r, (double)got, (double)large);
        }
    buffers_free();
}

TEST(poison)
{
    for_all(check_poison);
}

/* The same numbers give equal bits in lane r of a wide tile and in lane r % lanes of a narrow
 * one. */
static void check_lane_independence(const struct attn_kernels *kernels, int64_t width)
{
    enum { N = 7, HEAD_DIM = 21 };
    const int64_t lanes = kernels->lanes;
    struct fill fill = { (uint64_t)width };
    float *wide = buffers_filled(&fill, HEAD_DIM * width, -1, 1);
    float *narrow = buffers_filled(&fill, HEAD_DIM * lanes, -1, 1);
    float *key = buffers_rows(&fill, N, HEAD_DIM, HEAD_DIM);
    float *weight = buffers_filled(&fill, HEAD_DIM, -1, 1);
    float *wide_scores = buffers_floats(N * width);
    float *narrow_scores = buffers_floats(N * lanes);
    const int64_t from = width - 1, to = 1;
    for (int64_t d = 0; d < HEAD_DIM; d++)
        narrow[d * lanes + to] = wide[d * width + from];
    kernels->additive_tile(wide_scores, wide, key, HEAD_DIM, weight, 0.7f, N, HEAD_DIM, width);
    kernels->additive_tile(narrow_scores, narrow, key, HEAD_DIM, weight, 0.7f, N, HEAD_DIM, lanes);
    for (int64_t j = 0; j < N; j++)
        assert_true(wide_scores[j * width + from] == narrow_scores[j * lanes + to]);
    buffers_free();
}

TEST(lane_independence)
{
    for_all(check_lane_independence);
}
