/* SPDX-License-Identifier: Apache-2.0 */
/* vector.h - one vector of VEC_BYTES: loads, stores and the functions that the kernels need.
 *
 * Accuracies are in units in the last place of the exact result and hold for every lane alone. */
#ifndef ATTN_VECTOR_H
#define ATTN_VECTOR_H

#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(VEC_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t uvec __attribute__((vector_size(VEC_BYTES)));

#define LANES ((int64_t)(VEC_BYTES / sizeof(float)))

#define INLINE static inline __attribute__((always_inline))

#ifdef __clang__
#define UNROLL      _Pragma("clang loop unroll(full)")
#define KEEP_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#ifdef __SANITIZE_ADDRESS__
#define KEEP_ROLLED /* checks split loops, and gcc warns of one that it cannot find any more */
#else
#define KEEP_ROLLED _Pragma("GCC unroll 1")
#endif
#endif

INLINE vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

/* The first n lanes of p, n <= LANES, the rest 0. Reads no further. */
INLINE vec load_part(const float *p, int64_t n)
{
    vec v = { 0 };
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

INLINE void store_part(float *p, vec v, int64_t n)
{
    memcpy(p, &v, (size_t)n * sizeof(float));
}

INLINE vec broadcast(float x)
{
    return x - (vec){ 0 };
}

INLINE vec select(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

/* Interleave the numbers of a and b within each 16 bytes: a0 b0 a1 b1, or a2 b2 a3 b3. That is one
 * instruction on every CPU; moving numbers from one 16 bytes to another is slower. */
#if VEC_BYTES == 16
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#elif VEC_BYTES == 32
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#elif VEC_BYTES == 64
#define INTERLEAVE_LOW(a, b)                                                                       \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define INTERLEAVE_HIGH(a, b)                                                                      \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#endif

/* The first, third, ... 16 bytes of a, then those of b; and the second, fourth, .... */
#if VEC_BYTES == 16
#define EVEN_QUARTERS(a, b) (a)
#define ODD_QUARTERS(a, b)  (b)
#elif VEC_BYTES == 32
#define EVEN_QUARTERS(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define ODD_QUARTERS(a, b)  __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#elif VEC_BYTES == 64
#define EVEN_QUARTERS(a, b)                                                                        \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define ODD_QUARTERS(a, b)                                                                         \
    __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#endif

/* Transpose a square of LANES vectors. First four rows at a time within each 16 bytes, in two
 * passes that interleave them; then whole groups of 16 bytes among the fours, interleaved in the
 * same way. */
INLINE void transpose_square(vec square[LANES])
{
    enum { FOURS = LANES / 4 };

    UNROLL
    for (int i = 0; i < 2 * FOURS; i++) {
        vec *four = square + i % FOURS * 4;
        const vec interleaved[4] = { INTERLEAVE_LOW(four[0], four[2]),
                                     INTERLEAVE_HIGH(four[0], four[2]),
                                     INTERLEAVE_LOW(four[1], four[3]),
                                     INTERLEAVE_HIGH(four[1], four[3]) };
        UNROLL
        for (int k = 0; k < 4; k++)
            four[k] = interleaved[k];
    }
    UNROLL
    for (int pass = 1; pass < FOURS; pass *= 2) {
        vec interleaved[LANES];
        UNROLL
        for (int i = 0; i < LANES / 2; i++) {
            const int at = i / 4 * 8 + i % 4;
            /* cppcheck-suppress arrayIndexOutOfBounds ; vectors of 4 lanes have no such pass */
            interleaved[i] = EVEN_QUARTERS(square[at], square[at + 4]);
            /* cppcheck-suppress arrayIndexOutOfBounds ; as above */
            interleaved[LANES / 2 + i] = ODD_QUARTERS(square[at], square[at + 4]);
        }
        UNROLL
        for (int i = 0; i < LANES; i++)
            square[i] = interleaved[i];
    }
}

/* The greater of a and b; b if either is NaN or both are 0. */
#if defined(__AVX512F__) && VEC_BYTES == 64 && defined(__clang__)
INLINE vec greater(vec a, vec b)
{
    return __builtin_ia32_maxps512(a, b, 4);
}
#elif defined(__AVX512F__) && VEC_BYTES == 64
INLINE vec greater(vec a, vec b)
{
    return __builtin_ia32_maxps512_mask(a, b, (vec){ 0 }, -1, 4);
}
#elif defined(__AVX__) && VEC_BYTES == 32
INLINE vec greater(vec a, vec b)
{
    return __builtin_ia32_maxps256(a, b);
}
#elif defined(__SSE__) && VEC_BYTES == 16
INLINE vec greater(vec a, vec b)
{
    return __builtin_ia32_maxps(a, b);
}
#else
INLINE vec greater(vec a, vec b)
{
    return select(a > b, a, b);
}
#endif

/* The result is 0 where e^x would be subnormal, and also for e^-inf, whose polynomial is NaN. */
INLINE vec exp_above_least(vec x, vec power)
{
    return (vec)(~(x < -87.33654f) & (ivec)power);
}

#if VEC_BYTES >= 32
/* 2^(i / 16), each minus i << 19: adding i sixteenths to the exponent adds those bits too. */
static const uint32_t sixteenths[16] __attribute__((aligned(64))) = {
    0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
    0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d,
};

/* The table entry of each lane's lowest four bits. */
#if VEC_BYTES == 64 && defined(__clang__)
INLINE vec sixteenth(ivec index)
{
    /* cppcheck-suppress invalidPointerCast ; the table holds the bits of floats */
    return __builtin_ia32_permvarsf512(load((const float *)sixteenths), index);
}
#elif VEC_BYTES == 64
INLINE vec sixteenth(ivec index)
{
    /* cppcheck-suppress invalidPointerCast ; the table holds the bits of floats */
    return __builtin_shuffle(load((const float *)sixteenths), index);
}
#else
INLINE vec sixteenth(ivec index)
{
    return __builtin_ia32_blendvps256(
        /* cppcheck-suppress invalidPointerCast ; the table holds the bits of floats */
        __builtin_ia32_permvarsf256(load((const float *)sixteenths), index),
        /* cppcheck-suppress invalidPointerCast ; as above */
        __builtin_ia32_permvarsf256(load((const float *)(sixteenths + 8)), index),
        (vec)((uvec)index << 28));
}
#endif

/* e^x for x <= 0. Let x = n ln 2 + r, where n is a multiple of 1/16 and |r| <= ln 2 / 32. Then e^r
 * is 1 + r + r^2 (a + b r), relative error 2e-9, and 2^n comes from a table for the fraction of n
 * and from the exponent bits for the rest: adding 1.5 * 2^19 leaves n in the low bits of the sum.
 * One table and four operations fewer than a polynomial for |r| <= ln 2 / 2. */
#define EXP_SHIFT 786432.0f /* 1.5 * 2^19 */

INLINE vec exp_of_rest(vec x, vec shifted, vec r)
{
    const vec q = (0.50001624f + 0.166669015f * r) * (r * r) + r;
    const vec two_to_n = (vec)((uvec)sixteenth((ivec)shifted) + ((uvec)shifted << 19));
    return exp_above_least(x, two_to_n * q + two_to_n);
}
#else
/* e^x for x <= 0. Let x = n ln 2 + r and |r| <= ln 2 / 2. Then e^r is 1 + r + r^2 q(r), where q
 * interpolates (e^r - 1 - r) / r^2 at the Chebyshev nodes (relative error 1.1e-8), and 2^n is made
 * in the exponent bits: adding 1.5 * 2^23 leaves n in the low bits of the sum. */
#define EXP_SHIFT 12582912.0f /* 1.5 * 2^23 */

INLINE vec exp_of_rest(vec x, vec shifted, vec r)
{
    vec q = broadcast(1.392626805e-3f);
    q = q * r + 8.363246670e-3f;
    q = q * r + 4.166655411e-2f;
    q = q * r + 1.666657658e-1f;
    q = q * r + 0.5f;
    const vec power = (q * r) * r + r + 1.0f;
    const vec two_to_n = (vec)(((uvec)shifted << 23) + (1u << 23) * 127u);
    return exp_above_least(x, power * two_to_n);
}
#endif

INLINE vec exp_nonpositive(vec x)
{
    const vec shifted = x * 1.44269504f + EXP_SHIFT;
    const vec n = shifted - EXP_SHIFT;
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    return exp_of_rest(x, shifted, r);
}

/* e^(high + low), high + low <= 0, where low is what high lacks of a number with more bits than a
 * float has: much smaller than high. */
INLINE vec exp_of_parts(vec high, vec low)
{
    const vec x = high + low;
    const vec shifted = x * 1.44269504f + EXP_SHIFT;
    const vec n = shifted - EXP_SHIFT;
    const vec r = ((high - n * 0.693359375f) + n * 2.12194440e-4f) + low;
    return exp_of_rest(x, shifted, r);
}

/* tanh of a number that is 0 or more: below 0.625 the odd polynomial of Cephes' tanhf, from there
 * on (1 - e^-2y) / (1 + e^-2y). */
INLINE vec tanh_nonnegative(vec y)
{
    const vec z = y * y;
    vec p = broadcast(-5.70498872745e-3f);
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const vec near = (p * z) * y + y;
    const vec e = exp_nonpositive(y * -2.0f);
    const vec far = (1.0f - e) / (1.0f + e);
    return select(y < 0.625f, near, far);
}

/* 1 - tanh^2 of a number that is 0 or more, as 4e / (1 + e)^2 with e = e^-2y, which cancels nothing
 * where tanh is near 1. */
INLINE vec tanh_slope(vec y)
{
    const vec e = exp_nonpositive(y * -2.0f);
    const vec half = 1.0f + e;
    return 4.0f * e / (half * half);
}

/* magnitude with the sign of x; the sign of magnitude must be clear. */
INLINE vec with_sign(vec magnitude, vec x)
{
    return (vec)((ivec)magnitude | ((ivec)x & (ivec)broadcast(-0.0f)));
}

INLINE vec absolute(vec x)
{
    return (vec)((ivec)x & ~(ivec)broadcast(-0.0f));
}

#endif
