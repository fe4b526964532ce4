/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_compensated.c - folding a part of a long sum into its total, of every table, against
 * arithmetic in double. */
#include "buffers.h"
#include "test.h"

static void fail_at(const struct attn_kernels *kernels, int64_t i, double got, double want)
{
    fail_msg("%s: [%" PRId64 "] = %.17g, want %.17g", kernels->name, i, got, want);
}

/* Total and lost together are the sum, up to the rounding of lost. After the last part, part
 * holds the sum as one float. */
static void check_compensated(const struct attn_kernels *kernels, int64_t columns, int64_t width,
                              bool is_last)
{
    enum { PARTS = 50 };
    const int64_t count = columns * width;
    struct fill fill = { (uint64_t)(columns * 100 + width) };
    float *total = buffers_floats(count), *lost = buffers_floats(count);
    float *rescale = buffers_floats(width);
    double *sum = calloc((size_t)count + 1, sizeof *sum), *size = calloc((size_t)count + 1, 8);
    memset(total, 0, (size_t)count * sizeof *total);
    memset(lost, 0, (size_t)count * sizeof *lost);
    for (int n = 1; n <= PARTS; n++) {
        float *part = buffers_filled(&fill, count, -1, 1);
        for (int64_t r = 0; r < width; r++)
            rescale[r] = n % 10 == 0 ? 0.5f : 1.0f; /* exact, so that the sum in double is, too */
        for (int64_t i = 0; i < count; i++) {
            sum[i] = sum[i] * (double)rescale[i % width] + (double)part[i];
            size[i] = fmax(size[i], fabs(sum[i]));
        }
        kernels->compensated_tile(total, lost, part, rescale, columns, width,
                                  is_last && n == PARTS);
        for (int64_t i = 0; i < count; i++) {
            const double got = (double)total[i] + (double)lost[i];
            if (fabs(got - sum[i]) > 0x1p-44 * size[i])
                fail_at(kernels, i, got, sum[i]);
            const float after = is_last && n == PARTS ? (float)got : 0.0f;
            if (part[i] != after)
                fail_at(kernels, i, (double)part[i], (double)after);
        }
        guard_free(&buffers[--buffers_count]);
    }
    free(sum);
    free(size);
    buffers_free();
}

TEST(compensated)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t width = (*k)->lanes; width <= ATTN_WIDTH_MAX; width += (*k)->lanes)
            for (int64_t columns = 0; columns <= 5; columns++) {
                buffers_shift = columns % 2;
                check_compensated(*k, columns, width, false);
                check_compensated(*k, columns, width, true);
            }
}

/* Numbers that are not finite go through as in any sum, and stay in their lane. */
TEST(compensated_not_finite)
{
    static const float specials[] = { INFINITY, -INFINITY, NAN, 3e38f };
    buffers_shift = 0;
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (size_t s = 0; s < sizeof specials / sizeof specials[0]; s++) {
            const int64_t width = 2 * (*k)->lanes;
            float *total = buffers_floats(width), *lost = buffers_floats(width);
            float *part = buffers_floats(width), *rescale = buffers_floats(width);
            for (int64_t r = 0; r < width; r++) {
                total[r] = r == 3 ? specials[s] : 1.0f;
                part[r] = r == 3 || r == 5 ? specials[s] : 2.0f;
                lost[r] = 0;
                rescale[r] = 1;
            }
            (*k)->compensated_tile(total, lost, part, rescale, 1, width, true);
            for (int64_t r = 0; r < width; r++) {
                const float want = r == 3   ? specials[s] + specials[s]
                                   : r == 5 ? 1.0f + specials[s]
                                            : 3.0f;
                if (!buffers_same(part[r], want))
                    fail_at(*k, r, (double)part[r], (double)want);
            }
            buffers_free();
        }
}
