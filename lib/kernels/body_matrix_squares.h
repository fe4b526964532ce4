/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_squares.h - products of blocks on an instruction for products of 2 x 4 by 4 x 2
 * numbers, for body_matrix.h. The including file defines
 *
 *     multiply_squares(sums, a, b)     sums[i][j] += a[i][0..4] . b[j][0..4]
 *
 * of bf16 numbers into floats, each argument in one vector of NEON, row by row. The additions to a
 * number of the result are one chain, in the order of the blocks, of the products of parts and of
 * the columns: how many registers of sums there are changes no bit. */
#ifndef ATTN_BODY_MATRIX_SQUARES_H
#define ATTN_BODY_MATRIX_SQUARES_H

#include "body_matrix_apart.h"

/* Rows of the left and lanes of the right whose sums registers hold, by 2: a square each. */
enum { SQUARE_ROWS = 4, SQUARE_LANES = 4 };

/* The first halves of two vectors, and the second ones. */
INLINE uint64x2_t low_halves(uint64x2_t a, uint64x2_t b)
{
    return vzip1q_u64(a, b);
}

INLINE uint64x2_t high_halves(uint64x2_t a, uint64x2_t b)
{
    return vzip2q_u64(a, b);
}

/* Four columns of two rows of the left. */
INLINE uint64x2_t load_left(const uint16_t *rows)
{
    return vreinterpretq_u64_u16(
        vcombine_u16(vld1_u16(rows), vld1_u16(rows + ATTN_MATRIX_COLUMNS)));
}

/* Four columns of two times two lanes of the right, from two rows of pairs. */
INLINE void load_right(uint64x2_t right[2], const uint16_t *pairs)
{
    const uint32x4_t first = vreinterpretq_u32_u16(vld1q_u16(pairs));
    const uint32x4_t next = vreinterpretq_u32_u16(vld1q_u16(pairs + ATTN_MATRIX_COLUMNS));

    right[0] = vreinterpretq_u64_u32(vzip1q_u32(first, next));
    right[1] = vreinterpretq_u64_u32(vzip2q_u32(first, next));
}

/* sums += 8 rows of a block of the left times 8 lanes of a block of the right. */
INLINE void square_block(float32x4_t sums[SQUARE_ROWS][SQUARE_LANES], const uint16_t *left,
                         const uint16_t *right)
{
    for (int64_t column = 0; column < ATTN_MATRIX_COLUMNS; column += 4) {
        uint64x2_t lanes[SQUARE_LANES];
        UNROLL
        for (int l = 0; l < SQUARE_LANES; l += 2)
            load_right(lanes + l, right + column / 2 * ATTN_MATRIX_COLUMNS + l * 4);
        UNROLL
        for (int r = 0; r < SQUARE_ROWS; r++) {
            const uint64x2_t rows = load_left(left + 2 * r * ATTN_MATRIX_COLUMNS + column);
            UNROLL
            for (int l = 0; l < SQUARE_LANES; l++)
                sums[r][l] = multiply_squares(sums[r][l], rows, lanes[l]);
        }
    }
}

/* Two rows of four lanes as two squares. */
INLINE void load_squares(float32x4_t squares[2], const float *rows)
{
    const uint64x2_t even = vreinterpretq_u64_f32(vld1q_f32(rows));
    const uint64x2_t odd = vreinterpretq_u64_f32(vld1q_f32(rows + ATTN_MATRIX_LANES));

    squares[0] = vreinterpretq_f32_u64(low_halves(even, odd));
    squares[1] = vreinterpretq_f32_u64(high_halves(even, odd));
}

INLINE void store_squares(float *rows, const float32x4_t squares[2])
{
    const uint64x2_t low = vreinterpretq_u64_f32(squares[0]);
    const uint64x2_t high = vreinterpretq_u64_f32(squares[1]);

    vst1q_f32(rows, vreinterpretq_f32_u64(low_halves(low, high)));
    vst1q_f32(rows + ATTN_MATRIX_LANES, vreinterpretq_f32_u64(high_halves(low, high)));
}

/* sums_t += or = the products of these blocks for 8 rows, from row on, and 8 lanes, from lane on.
 */
INLINE void add_squares(float *sums_t, const struct product_blocks *blocks, int64_t row,
                        int64_t lane, const bool adds)
{
    const struct attn_matrix_products *products = blocks->products;
    const int64_t of_row = row * ATTN_MATRIX_COLUMNS;
    const int64_t of_lane = lane / LANES * ATTN_MATRIX_TILE + lane % LANES * 2;
    float *to = sums_t + row * ATTN_MATRIX_LANES + lane;
    float32x4_t sums[SQUARE_ROWS][SQUARE_LANES];

    UNROLL
    for (int r = 0; r < SQUARE_ROWS; r++)
        for (int l = 0; l < SQUARE_LANES; l += 2) {
            sums[r][l] = sums[r][l + 1] = vdupq_n_f32(0.0f);
            if (adds)
                load_squares(sums[r] + l, to + 2 * r * ATTN_MATRIX_LANES + 2 * l);
        }
    for (int64_t b = blocks->first; b < blocks->end; b++) {
        const int64_t at = blocks->steps != NULL ? blocks->steps[b] : b;
        for (int i = 0; i < products->count; i++)
            square_block(sums,
                         blocks->left + of_row
                             + (at * products->left_parts + products->left[i]) * ATTN_MATRIX_BLOCK,
                         blocks->right + of_lane
                             + (b * products->right_parts + products->right[i])
                                   * ATTN_MATRIX_BLOCK);
    }
    UNROLL
    for (int r = 0; r < SQUARE_ROWS; r++)
        for (int l = 0; l < SQUARE_LANES; l += 2)
            store_squares(to + 2 * r * ATTN_MATRIX_LANES + 2 * l, sums[r] + l);
}

INLINE void add_blocks(float *sums_t, const struct product_blocks *blocks, const bool adds)
{
    for (int64_t row = 0; row < ATTN_MATRIX_STEP; row += 2 * SQUARE_ROWS)
        for (int64_t lane = 0; lane < ATTN_MATRIX_LANES; lane += 2 * SQUARE_LANES)
            add_squares(sums_t, blocks, row, lane, adds);
}

#endif
