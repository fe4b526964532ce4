/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_recurrence.c - one row of a convolution and of a linear recurrence, against the
 * formulas in double. */
#include "buffers.h"
#include "test.h"

/* Within the rounding of a sum of so many floats, terms being the sum of their magnitudes. */
static void expect_near(double got, double want, double terms, int64_t count)
{
    if (!(fabs(got - want) <= (double)(count + 4) * 0x1p-24 * terms + 1e-37))
        fail_msg("%.9g for %.9g, a sum of %" PRId64 " numbers", got, want, count);
}

/* --------------------------------------------------------------------- convolution -- */

static void check_convolution(const struct attn_kernels *kernels, int64_t n, int64_t taps)
{
    struct fill fill = { (uint64_t)(n * 31 + taps) };
    const int64_t stride = n + 3;
    float *weight = buffers_filled(&fill, taps * stride - 3, -2, 2);
    float *bias = buffers_filled(&fill, n, -2, 2), *y = buffers_floats(n);
    const float *rows[8];
    for (int64_t t = 0; t < taps; t++)
        rows[t] = buffers_filled(&fill, n, -3, 3);
    kernels->convolve_row(y, rows, weight, stride, taps, bias, n);
    for (int64_t c = 0; c < n; c++) {
        double want = (double)bias[c], terms = fabs(want);
        for (int64_t t = 0; t < taps; t++) {
            const double term = (double)rows[t][c] * (double)weight[t * stride + c];
            want += term;
            terms += fabs(term);
        }
        expect_near((double)y[c], want, terms, taps);
    }
}

TEST(a_row_of_a_convolution)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (buffers_shift = 0; buffers_shift <= 1; buffers_shift++)
            for (int64_t n = 1; n < 75; n++)
                for (int64_t taps = 1; taps <= 4; taps++) {
                    check_convolution(*k, n, taps);
                    buffers_free();
                }
}

/* ------------------------------------------------------------------------- scan -- */

static void check_scan(const struct attn_kernels *kernels, int64_t head_dim, int64_t state_dim)
{
    struct fill fill = { (uint64_t)(head_dim * 129 + state_dim) };
    float *state = buffers_filled(&fill, head_dim * state_dim, -2, 2);
    float *before = buffers_copy(state, head_dim * state_dim);
    float *x = buffers_filled(&fill, head_dim, -2, 2), *y = buffers_floats(head_dim);
    float *b = buffers_filled(&fill, state_dim, -2, 2),
          *c = buffers_filled(&fill, state_dim, -2, 2);
    const struct attn_scan_factors factors = { fill_float(&fill, 0, 1), fill_float(&fill, 0, 2),
                                               fill_float(&fill, -1, 1) };
    kernels->scan_row(state, y, x, b, c, factors, state_dim, head_dim);
    for (int64_t p = 0; p < head_dim; p++) {
        double sum = (double)x[p] * (double)factors.skip, terms = fabs(sum);
        for (int64_t n = 0; n < state_dim; n++) {
            const int64_t at = n * head_dim + p;
            const double kept = (double)before[at] * (double)factors.decay;
            const double own = (double)x[p] * (double)factors.step * (double)b[n];
            expect_near((double)state[at], kept + own, fabs(kept) + fabs(own), 2);
            sum += (kept + own) * (double)c[n];
            terms += (fabs(kept) + fabs(own)) * fabs((double)c[n]);
        }
        expect_near((double)y[p], sum, terms, state_dim + 2);
    }
}

TEST(a_row_of_a_recurrence)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (buffers_shift = 0; buffers_shift <= 1; buffers_shift++)
            for (int64_t head_dim = 1; head_dim < 100; head_dim++)
                for (int64_t state_dim = 1; state_dim < 40; state_dim += 6) {
                    check_scan(*k, head_dim, state_dim);
                    buffers_free();
                }
}
