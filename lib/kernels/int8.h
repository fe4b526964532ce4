/* int8.h - rows of int8_t numbers to float, times their scales. The conversion is exact, the
 * product is rounded once: every table gives the same bits. */
#ifndef ATTN_INT8_H
#define ATTN_INT8_H

#include "vector.h"

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
    bytes_vec bytes = { 0 };
    memcpy(&bytes, p, (size_t)n);
    return __builtin_convertvector((ivec)__builtin_ia32_pmovsxbd256(bytes), vec);
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
