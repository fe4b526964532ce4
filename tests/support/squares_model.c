/* SPDX-License-Identifier: Apache-2.0 */
/* squares_model.c - the kernels of body_matrix.h on a model of BFMMLA, for 64-bit ARM with or
 * without FEAT_BF16.
 *
 * As Arm describes it, where FPCR.EBF is 0: of four products of a sum, first two are added and then
 * the other two, and each pair is added to the sum; every product and every addition is rounded to
 * odd, that is cut, with a last bit of 1 where something was cut off; subnormal inputs and results
 * are 0. */
#include "kernel_tables.h"

#include "kernels/body_matrix_pack.h"

#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x + rest, rounded to odd, where rest is less than the last place of x. */
static float round_to_odd(double x, double rest)
{
    const uint64_t cut_off = ((uint64_t)1 << 29) - 1; /* what a double has more than a float */
    uint64_t bits = bits_of(x);
    if (!isfinite(x))
        return (float)x;
    if (rest != 0 && (rest < 0) != (x < 0))
        bits--; /* the next toward 0 */
    const bool is_inexact = rest != 0 || (bits & cut_off) != 0;
    bits &= ~cut_off;
    if (fabs(double_of(bits)) < (double)FLT_MIN)
        return copysignf(0, (float)x);
    if (fabs(double_of(bits)) > (double)FLT_MAX)
        return copysignf(INFINITY, (float)x);
    return (float)double_of(is_inexact ? bits | (cut_off + 1) : bits);
}

static float flush(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

static float add(float a, float b)
{
    const double x = (double)flush(a), y = (double)flush(b);
    const double sum = x + y;
    const double of_y = sum - x;
    return round_to_odd(sum, isfinite(sum) ? (x - (sum - of_y)) + (y - of_y) : 0);
}

static float product(uint16_t a, uint16_t b)
{
    const uint32_t words[2] = { (uint32_t)a << 16, (uint32_t)b << 16 };
    float x[2];
    memcpy(x, words, sizeof x);
    return round_to_odd((double)flush(x[0]) * (double)flush(x[1]), 0);
}

static float32x4_t multiply_squares(float32x4_t squares, uint64x2_t a, uint64x2_t b)
{
    float sums[4];
    uint16_t left[8], right[8];
    vst1q_f32(sums, squares);
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int n = 0; n < 4; n++) {
        const uint16_t *row = left + n / 2 * 4, *column = right + n % 2 * 4;
        for (int pair = 0; pair < 4; pair += 2)
            sums[n] = add(sums[n], add(product(row[pair], column[pair]),
                                       product(row[pair + 1], column[pair + 1])));
    }
    return vld1q_f32(sums);
}

#define ATTN_MATRIX      squares_model
#define ATTN_MATRIX_RULE .takes_small = true, .rows_min = 128, .products_max = 3
#include "kernels/body_matrix_squares.h"

#include "kernels/body_matrix.h"
