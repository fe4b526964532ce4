/* SPDX-License-Identifier: Apache-2.0 */
/* dots_model.c - the kernels of body_matrix.h on a model of VDPBF16PS, for CPUs with AVX-512 and
 * without AVX512-BF16.
 *
 * As Intel describes it: the product of the odd numbers of a pair is added to the sum, then that of
 * the even ones, each in one multiply-add that rounds to nearest; subnormal inputs, sums and
 * results are 0. A Zen 5 gave these bits in each of 10^7 sums of random and of extreme numbers;
 * NaNs differ in sign and payload. */
#include "kernel_tables.h"

#include "kernels/body_matrix_pack.h"

/* 0 of the same sign where the number is subnormal. */
INLINE __m512 flush(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __mmask16 small = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));

    return _mm512_castsi512_ps(
        _mm512_mask_and_epi32(bits, small, bits, _mm512_set1_epi32((int)0x80000000)));
}

INLINE __m512 odd_of(__m512i numbers)
{
    return flush(_mm512_castsi512_ps(_mm512_and_si512(numbers, HIGH_HALVES)));
}

INLINE __m512 even_of(__m512i numbers)
{
    return flush(_mm512_castsi512_ps(_mm512_slli_epi32(numbers, 16)));
}

INLINE __m512 dot_pairs(__m512 sum, __m512i a, __m512i b)
{
    sum = flush(_mm512_fmadd_ps(odd_of(a), odd_of(b), flush(sum)));
    return flush(_mm512_fmadd_ps(even_of(a), even_of(b), sum));
}

#define ATTN_MATRIX      dots_model
#define ATTN_MATRIX_RULE .takes_small = true, .rows_min = 128, .products_max = 3
#include "kernels/body_matrix_dots.h"

#include "kernels/body_matrix.h"
