/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - rows of 16-bit numbers, IEEE 754 binary16 and bfloat16, to float and back.
 *
 * The conversions use integers: the same few operations in every table. They need no CPU support
 * for these formats, and floating-point arithmetic never meets a subnormal. To float is exact; from
 * float rounds to nearest, ties to even, and a number too large becomes infinite (IEEE 754, 4.3.1).
 *
 * There is one exception: binary16 to float is an instruction of F16C and of AVX-512, and reading
 * keys and values from memory waits for it, so those tables use it. Its result is the same, also
 * for subnormals and for all floating-point settings of the thread; only a signaling NaN becomes
 * quiet. */
#ifndef ATTN_NUMBERS_H
#define ATTN_NUMBERS_H

#include "vector.h"

typedef uint16_t hvec __attribute__((vector_size(VEC_BYTES / 2)));
typedef int16_t signed_hvec __attribute__((vector_size(VEC_BYTES / 2)));

/* The first n numbers of p, n <= LANES, the rest 0. Reads no further. */
INLINE hvec load_halves(const uint16_t *p, int64_t n)
{
    hvec v = { 0 };
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

INLINE void store_halves(uint16_t *p, uvec halves, int64_t n)
{
    const hvec v = __builtin_convertvector(halves, hvec);
    memcpy(p, &v, (size_t)n * sizeof *p);
}

/* Built-in functions that both compilers have, because <immintrin.h> defines a select() of its own.
 * The arguments of the first mean: all lanes, and the thread's rounding mode; the conversion is
 * exact. */
#if VEC_BYTES == 64 && defined(__AVX512F__)
INLINE vec float_of_f16(hvec halves)
{
    return __builtin_ia32_vcvtph2ps512_mask((signed_hvec)halves, (vec){ 0 }, -1, 4);
}
#elif VEC_BYTES == 32 && defined(__F16C__)
INLINE vec float_of_f16(hvec halves)
{
    return __builtin_ia32_vcvtph2ps256((signed_hvec)halves);
}
#else
/* A subnormal of binary16 is a multiple of 2^-24. */
INLINE vec float_of_f16(hvec halves)
{
    const uvec half = __builtin_convertvector(halves, uvec);
    const ivec magnitude = (ivec)(half & 0x7fffu);
    const ivec shifted = magnitude << 13;
    const ivec normal = shifted + ((127 - 15) << 23);
    const vec tiny = __builtin_convertvector(magnitude, vec) * 0x1p-24f;
    const vec finite = select(magnitude < 0x0400, tiny, (vec)normal);
    const vec number = select(magnitude >= 0x7c00, (vec)(shifted | 0x7f800000), finite);
    return (vec)((uvec)number | (half & 0x8000u) << 16);
}
#endif

/* From 2^-14 up, the exponent is rebased and 13 bits are rounded away, which may carry up to
 * infinity. Below 2^-14, adding 0.5 leaves a multiple of 2^-24 in the low bits, and the addition
 * rounds. */
INLINE uvec f16_of_float(vec number)
{
    const uvec bits = (uvec)number;
    const uvec magnitude = bits & 0x7fffffffu;
    const ivec order = (ivec)magnitude; /* ordered like the number */
    const uvec normal =
        (magnitude - (uint32_t)((127 - 15) << 23) + 0x0fffu + (magnitude >> 13 & 1u)) >> 13;
    const uvec tiny = (uvec)((vec)magnitude + 0.5f) - (126u << 23);
    vec half = select(order < 0x38800000, (vec)tiny, (vec)normal);
    half = select(order >= 0x47800000, (vec)((uvec){ 0 } + 0x7c00u), half);
    half = select(order > 0x7f800000, (vec)((uvec){ 0 } + 0x7e00u), half);
    return (uvec)half | (bits >> 16 & 0x8000u);
}

/* Widen to 32 bits: one instruction that gcc 12 does not find. It takes five, in two halves. */
#if VEC_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
INLINE uvec words_of(hvec halves)
{
    return (uvec)__builtin_ia32_pmovzxwd512_mask((signed_hvec)halves, (ivec){ 0 }, -1);
}
#elif VEC_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
INLINE uvec words_of(hvec halves)
{
    return (uvec)__builtin_ia32_pmovzxwd256((signed_hvec)halves);
}
#else
INLINE uvec words_of(hvec halves)
{
    return __builtin_convertvector(halves, uvec);
}
#endif

INLINE vec float_of_bf16(hvec halves)
{
    return (vec)(words_of(halves) << 16);
}

INLINE uvec bf16_of_float(vec number)
{
    const uvec bits = (uvec)number;
    const uvec rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uvec quiet = bits >> 16 | 0x40u;
    return (uvec)select((ivec)(bits & 0x7fffffffu) > 0x7f800000, (vec)quiet, (vec)rounded);
}

static void widen_f16(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(to + i, float_of_f16(load_halves(from + i, LANES)));
    if (i < n)
        store_part(to + i, float_of_f16(load_halves(from + i, n - i)), n - i);
}

static void widen_bf16(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(to + i, float_of_bf16(load_halves(from + i, LANES)));
    if (i < n)
        store_part(to + i, float_of_bf16(load_halves(from + i, n - i)), n - i);
}

static void narrow_f16(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_halves(to + i, f16_of_float(load(from + i)), LANES);
    if (i < n)
        store_halves(to + i, f16_of_float(load_part(from + i, n - i)), n - i);
}

static void narrow_bf16(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_halves(to + i, bf16_of_float(load(from + i)), LANES);
    if (i < n)
        store_halves(to + i, bf16_of_float(load_part(from + i, n - i)), n - i);
}

/* ------------------------------------------------------------------------ int8 numbers -- */

/* Rows of int8_t numbers to float, times their scales. The conversion is exact, the product is
 * rounded once: every table gives the same bits. */

typedef int8_t bvec __attribute__((vector_size(VEC_BYTES / 4)));
typedef char bytes_vec __attribute__((vector_size(16)));

/* The first n numbers of p, n <= LANES, the rest 0. Reads no further. The widening is one
 * instruction that gcc 12 does not find. */
#if VEC_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
INLINE vec float_of_i8(const int8_t *p, int64_t n)
{
    bytes_vec bytes = { 0 };
    memcpy(&bytes, p, (size_t)n);
    return __builtin_convertvector((ivec)__builtin_ia32_pmovsxbd512_mask(bytes, (ivec){ 0 }, -1),
                                   vec);
}
#elif VEC_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
INLINE vec float_of_i8(const int8_t *p, int64_t n)
{
    /* A word goes to a vector by a register; bytes would go by memory, and wait there. */
    typedef int64_t words_vec __attribute__((vector_size(16)));
    int64_t word = 0;
    memcpy(&word, p, (size_t)n);
    return __builtin_convertvector(
        (ivec)__builtin_ia32_pmovsxbd256((bytes_vec)(words_vec){ word, 0 }), vec);
}
#else
INLINE vec float_of_i8(const int8_t *p, int64_t n)
{
    bvec bytes = { 0 };
    memcpy(&bytes, p, (size_t)n);
    return __builtin_convertvector(__builtin_convertvector(bytes, ivec), vec);
}
#endif

static void widen_i8_channels(float *to, const int8_t *from, const float *scale, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(to + i, float_of_i8(from + i, LANES) * load(scale + i));
    if (i < n)
        store_part(to + i, float_of_i8(from + i, n - i) * load_part(scale + i, n - i), n - i);
}

static void widen_i8_row(float *to, const int8_t *from, float scale, int64_t n)
{
    const vec factor = broadcast(scale);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(to + i, float_of_i8(from + i, LANES) * factor);
    if (i < n)
        store_part(to + i, float_of_i8(from + i, n - i) * factor, n - i);
}

#endif
