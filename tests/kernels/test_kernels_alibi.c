/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_alibi.c - the linear biases of every table of kernels against arithmetic in double.
 */
#include "buffers.h"
#include "test.h"

/* Distances on both sides of the tile, exact in a float, and one that is not. */
static float distance_of(int64_t lane)
{
    static const float distances[] = { 0.0f, 40.0f, -3.0f, 1e6f, -16777000.0f, 1e18f };
    return distances[lane % 6] + (float)lane;
}

static void check(const struct attn_kernels *kernels, int64_t width, int64_t n, int64_t first,
                  float slope)
{
    struct fill fill = { (uint64_t)(width * 100 + n) };
    float *scores_t = buffers_filled(&fill, n * width, -4, 4);
    float *given = buffers_copy(scores_t, n * width);
    float *distance = buffers_floats(width);
    for (int64_t r = 0; r < width; r++)
        distance[r] = distance_of(r);
    kernels->alibi_tile(scores_t, slope, distance, first, n, width);
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < width; r++) {
            const double score = (double)given[j * width + r];
            const double bias = -(double)slope * fabs((double)distance_of(r) - (double)(first + j));
            const double got = (double)scores_t[j * width + r], want = score + bias;
            if (!(fabs(got - want) <= 0x1p-22 * (fabs(score) + fabs(bias))))
                fail_msg("%s, width %" PRId64 ": key %" PRId64 ", lane %" PRId64
                         ": %.9g, want %.9g",
                         kernels->name, width, first + j, r, got, want);
        }
    buffers_free();
}

TEST(alibi_tile)
{
    static const int64_t counts[] = { 0, 1, 2, 3, 5, 17, 96 };
    static const float slopes[] = { 0.0f, 0.5f, 0x1p-8f, -0.25f, 3.0f };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t width = (*k)->lanes; width <= ATTN_WIDTH_MAX; width += (*k)->lanes)
            for (int64_t i = 0; i < 7; i++) {
                buffers_shift = i % 2;
                check(*k, width, counts[i], i % 3 == 2 ? 90 : i, slopes[(width + i) % 5]);
            }
}

/* Where the score and every step are exact, the sum is exact too, and a tile cut in two gives
 * the same. */
TEST(alibi_parts)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        const int64_t width = (*k)->lanes, n = 12, cut = 5;
        float *whole = buffers_floats(n * width), *parts = buffers_floats(n * width);
        float *distance = buffers_floats(width);
        for (int64_t r = 0; r < width; r++)
            distance[r] = (float)(r - 1);
        for (int64_t i = 0; i < n * width; i++)
            whole[i] = parts[i] = 1.0f;
        (*k)->alibi_tile(whole, 0.25f, distance, 0, n, width);
        (*k)->alibi_tile(parts, 0.25f, distance, 0, cut, width);
        (*k)->alibi_tile(parts + cut * width, 0.25f, distance, cut, n - cut, width);
        for (int64_t j = 0; j < n; j++)
            for (int64_t r = 0; r < width; r++) {
                assert_true(whole[j * width + r] == 1.0f - 0.25f * fabsf((float)(r - 1 - j)));
                assert_true(parts[j * width + r] == whole[j * width + r]);
            }
        buffers_free();
    }
}

/* A forbidden score stays forbidden, and NaN stays in its place. */
TEST(alibi_nonfinite)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        const int64_t width = (*k)->lanes;
        float *scores_t = buffers_floats(width), *distance = buffers_floats(width);
        for (int64_t r = 0; r < width; r++) {
            scores_t[r] = r == 1 ? NAN : r == 2 ? -INFINITY : 0.0f;
            distance[r] = 3.0f;
        }
        (*k)->alibi_tile(scores_t, 2.0f, distance, 1, 1, width);
        for (int64_t r = 0; r < width; r++)
            assert_true(buffers_same(scores_t[r], r == 1 ? NAN : r == 2 ? -INFINITY : -4.0f));
        buffers_free();
    }
}
