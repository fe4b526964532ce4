/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_pack.h - rows of floats as parts in blocks of tiles, for body_matrix.h. */
#ifndef ATTN_BODY_MATRIX_PACK_H
#define ATTN_BODY_MATRIX_PACK_H

#include "matrix.h"

#define INLINE static inline __attribute__((always_inline))

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#ifdef __aarch64__
#include "lanes_neon.h"
#else
#include <immintrin.h>
#endif

enum { LANES = 16 };

#define HIGH_HALVES _mm512_set1_epi32((int)0xffff0000)

/* The first n of 16 lanes, for n of any size. */
INLINE __mmask16 first_lanes(int64_t n)
{
    return n >= LANES ? (__mmask16)0xffff : n <= 0 ? (__mmask16)0 : (__mmask16)((1u << n) - 1);
}

/* Columns [column, column + 16) of row number row; 0 past the end of either. */
INLINE __m512 load_row(const float *rows, int64_t row_stride, int64_t row, int64_t row_count,
                       int64_t column, int64_t columns)
{
    const __mmask16 present = row < row_count ? first_lanes(columns - column) : (__mmask16)0;

    return present == 0 ? _mm512_setzero_ps()
                        : _mm512_maskz_loadu_ps(present, rows + row * row_stride + column);
}

/* The nearest bf16 number, ties to even, in the high half of each lane; the rest is 0. */
INLINE __m512i round_to_bf16(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

    return _mm512_and_si512(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), HIGH_HALVES);
}

/* The parts of x, each in the high half of a lane. Each is the nearest to what those before it have
 * left, so that its sign is random: were all of one sign, the products that are left out would add
 * up. Three parts hold x. */
INLINE void cut(__m512i part[ATTN_MATRIX_PARTS_MAX], __m512 x)
{
    part[0] = round_to_bf16(x);
    for (int p = 1; p < ATTN_MATRIX_PARTS_MAX; p++) {
        x = _mm512_sub_ps(x, _mm512_castsi512_ps(part[p - 1]));
        part[p] = round_to_bf16(x);
    }
}

/* The high halves of a and b as pairs, a first. */
INLINE __m512i pair(__m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, HIGH_HALVES, 0xf8);
}

/* The high halves of low, then those of high. */
INLINE __m512i narrow(__m512i low, __m512i high)
{
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_srli_epi32(low, 16))),
        _mm512_cvtepi32_epi16(_mm512_srli_epi32(high, 16)), 1);
}

INLINE __m512 magnitude(__m512 x)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

/* Is a lane not finite, or so large that rounding could make it so? */
INLINE bool overflows(__m512 x)
{
    return _mm512_cmp_ps_mask(magnitude(x), _mm512_set1_ps(0x1p127f), _CMP_NLT_UQ) != 0;
}

/* attn_matrix_is_odd(), for each lane. */
INLINE __mmask16 odd_lanes(__m512 x)
{
    const __m512 size = magnitude(x);
    const __mmask16 small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-90f), _CMP_LT_OQ);
    const __mmask16 nonzero = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_OQ);

    return _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p64f), _CMP_NLT_UQ)
           | (__mmask16)(small & nonzero);
}

/* Transpose 16 x 16 words of 32 bits. */
INLINE void transpose_words(__m512i square[LANES])
{
    __m512i t[LANES];

    UNROLL
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(square[i], square[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(square[i], square[i + 1]);
    }
    UNROLL
    for (int i = 0; i < LANES; i += 4) {
        square[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        square[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        square[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        square[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i a = _mm512_shuffle_i32x4(square[i], square[i + 4], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(square[i], square[i + 4], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(square[i + 8], square[i + 12], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(square[i + 8], square[i + 12], 0xdd);
        t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
    UNROLL
    for (int i = 0; i < LANES; i++)
        square[i] = t[i];
}

/* Rows as the left operand: each tile is 16 rows of 32 columns. */
static uint32_t pack_keys(uint16_t *packed, const float *rows, int64_t row_stride,
                          int64_t row_count, int64_t columns, int parts)
{
    uint32_t odd = 0;

    for (int64_t j = 0; j < ATTN_MATRIX_STEP; j++)
        for (int64_t c = 0; c < columns; c += ATTN_MATRIX_COLUMNS) {
            const __m512 low = load_row(rows, row_stride, j, row_count, c, columns);
            const __m512 high = load_row(rows, row_stride, j, row_count, c + LANES, columns);
            uint16_t *to = packed + c / ATTN_MATRIX_COLUMNS * parts * ATTN_MATRIX_BLOCK
                           + j * ATTN_MATRIX_COLUMNS;
            __m512i a[ATTN_MATRIX_PARTS_MAX], b[ATTN_MATRIX_PARTS_MAX];
            cut(a, low);
            cut(b, high);
            for (int p = 0; p < parts; p++)
                _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK, narrow(a[p], b[p]));
            if (overflows(low) || overflows(high))
                odd |= (uint32_t)1 << j;
        }
    return odd;
}

/* 16 rows as one tile of the right operand: a row of it is a pair of columns of all rows. */
INLINE uint32_t pack_query_tile(uint16_t *to, const float *rows, int64_t row_stride,
                                int64_t row_count, int64_t column, int64_t columns, int parts,
                                __m512 factor)
{
    __m512i square[ATTN_MATRIX_PARTS_MAX][LANES];
    uint32_t odd = 0;

    for (int i = 0; i < LANES; i++) {
        const __m512 low =
            _mm512_mul_ps(factor, load_row(rows, row_stride, i, row_count, column, columns));
        const __m512 high = _mm512_mul_ps(
            factor, load_row(rows, row_stride, i, row_count, column + LANES, columns));
        __m512i a[ATTN_MATRIX_PARTS_MAX], b[ATTN_MATRIX_PARTS_MAX];
        cut(a, low);
        cut(b, high);
        for (int p = 0; p < parts; p++)
            square[p][i] = narrow(a[p], b[p]);
        if (overflows(low) || overflows(high))
            odd |= (uint32_t)1 << i;
    }
    for (int p = 0; p < parts; p++) {
        transpose_words(square[p]);
        for (int i = 0; i < LANES; i++)
            _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK + i * ATTN_MATRIX_COLUMNS, square[p][i]);
    }
    return odd;
}

static uint32_t pack_queries(uint16_t *packed, const float *rows, int64_t row_stride,
                             int64_t row_count, int64_t columns, int parts, float factor)
{
    uint32_t odd = 0;

    for (int half = 0; half < 2; half++)
        for (int64_t c = 0; c < columns; c += ATTN_MATRIX_COLUMNS)
            odd |=
                pack_query_tile(packed + c / ATTN_MATRIX_COLUMNS * parts * ATTN_MATRIX_BLOCK
                                    + half * ATTN_MATRIX_TILE,
                                rows + half * LANES * row_stride, row_stride,
                                row_count - half * LANES, c, columns, parts, _mm512_set1_ps(factor))
                << half * LANES;
    return odd;
}

/* 16 columns of all rows, transposed, as one tile of the left operand: a row of it is a column. */
INLINE bool pack_value_tile(uint16_t *to, const float *rows, int64_t row_stride, int64_t row_count,
                            int64_t column, int64_t columns, int parts)
{
    __m512i square[ATTN_MATRIX_PARTS_MAX][LANES];
    __mmask16 odd = 0;

    for (int i = 0; i < LANES; i++) {
        const __m512 even = load_row(rows, row_stride, 2 * i, row_count, column, columns);
        const __m512 next = load_row(rows, row_stride, 2 * i + 1, row_count, column, columns);
        const __mmask16 odd_even = odd_lanes(even), odd_next = odd_lanes(next);
        __m512i a[ATTN_MATRIX_PARTS_MAX], b[ATTN_MATRIX_PARTS_MAX];
        cut(a, _mm512_maskz_mov_ps((__mmask16)~odd_even, even));
        cut(b, _mm512_maskz_mov_ps((__mmask16)~odd_next, next));
        for (int p = 0; p < parts; p++)
            square[p][i] = pair(a[p], b[p]);
        odd |= (__mmask16)(odd_even | odd_next);
    }
    for (int p = 0; p < parts; p++) {
        transpose_words(square[p]);
        for (int i = 0; i < LANES; i++)
            _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK + i * ATTN_MATRIX_STEP, square[p][i]);
    }
    return odd != 0;
}

static bool pack_values(uint16_t *packed, const float *rows, int64_t row_stride, int64_t row_count,
                        int64_t columns, int parts)
{
    const int64_t block = (int64_t)ATTN_MATRIX_CHUNK * parts * ATTN_MATRIX_BLOCK;
    bool odd = false;

    for (int64_t c = 0; c < columns; c += ATTN_MATRIX_COLUMNS)
        for (int half = 0; half < 2; half++)
            odd =
                pack_value_tile(packed + c / ATTN_MATRIX_COLUMNS * block + half * ATTN_MATRIX_TILE,
                                rows, row_stride, row_count, c + half * LANES, columns, parts)
                || odd;
    return odd;
}

#endif
