/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_dots.h - products of blocks on one instruction of vectors, for body_matrix.h. The
 * including file defines
 *
 *     dot_pairs(sum, a, b)     sum[l] + a[2l + 1] * b[2l + 1], and then + a[2l] * b[2l]
 *
 * of bf16 numbers, each multiply-add rounded to float. Rows of the left operand are repeated to all
 * lanes, and lanes are columns of the right. The multiply-adds of a number of the result are one
 * chain, in the order of the blocks, of the products of parts and of the pairs: how many registers
 * of sums there are changes no bit. */
#ifndef ATTN_BODY_MATRIX_DOTS_H
#define ATTN_BODY_MATRIX_DOTS_H

#include "body_matrix_apart.h"

#include <string.h>

/* Two neighbouring numbers in every lane. */
INLINE __m512i repeat_pair(const uint16_t *numbers)
{
    int32_t word;

    memcpy(&word, numbers, sizeof word);
    return _mm512_set1_epi32(word);
}

/* Rows of sums that registers hold, by two vectors. */
enum { DOT_ROWS = 8 };

/* sums += DOT_ROWS rows of a block of the left times a block of the right. */
INLINE void dot_block(__m512 sums[DOT_ROWS][2], const uint16_t *left, const uint16_t *right)
{
    for (int64_t pair = 0; pair < LANES; pair++) {
        const __m512i low = _mm512_load_si512(right + pair * ATTN_MATRIX_COLUMNS);
        const __m512i high =
            _mm512_load_si512(right + ATTN_MATRIX_TILE + pair * ATTN_MATRIX_COLUMNS);
        UNROLL
        for (int r = 0; r < DOT_ROWS; r++) {
            const __m512i numbers = repeat_pair(left + r * ATTN_MATRIX_COLUMNS + 2 * pair);
            sums[r][0] = dot_pairs(sums[r][0], numbers, low);
            sums[r][1] = dot_pairs(sums[r][1], numbers, high);
        }
    }
}

/* sums_t += or = the products of these blocks; it is 32 rows of ATTN_MATRIX_LANES. */
INLINE void add_blocks(float *sums_t, const struct product_blocks *blocks, const bool adds)
{
    const struct attn_matrix_products *products = blocks->products;

    for (int64_t row = 0; row < ATTN_MATRIX_STEP; row += DOT_ROWS) {
        float *to = sums_t + row * ATTN_MATRIX_LANES;
        __m512 sums[DOT_ROWS][2];
        UNROLL
        for (int r = 0; r < DOT_ROWS; r++)
            for (int half = 0; half < 2; half++)
                sums[r][half] = adds ? _mm512_load_ps(to + r * ATTN_MATRIX_LANES + half * LANES)
                                     : _mm512_setzero_ps();
        for (int64_t b = blocks->first; b < blocks->end; b++) {
            const int64_t at = blocks->steps != NULL ? blocks->steps[b] : b;
            for (int i = 0; i < products->count; i++)
                dot_block(sums,
                          blocks->left
                              + (at * products->left_parts + products->left[i]) * ATTN_MATRIX_BLOCK
                              + row * ATTN_MATRIX_COLUMNS,
                          blocks->right
                              + (b * products->right_parts + products->right[i])
                                    * ATTN_MATRIX_BLOCK);
        }
        UNROLL
        for (int r = 0; r < DOT_ROWS; r++)
            for (int half = 0; half < 2; half++)
                _mm512_store_ps(to + r * ATTN_MATRIX_LANES + half * LANES, sums[r][half]);
    }
}

#endif
