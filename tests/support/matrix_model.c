/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_model.c - the kernels of body_matrix.h on a model of the tile instructions in C, for CPUs
 * with AVX-512 and without tiles.
 *
 * TDPBF16PS as Intel describes it: for each number of the result one chain of multiply-adds over
 * the even numbers of a row and one over the odd, each step rounded to nearest; both added, then
 * added to the sum; subnormal inputs, sums and results are 0. On a CPU with AMX the model gave its
 * bits in each of 10^6 tiles of random and of extreme numbers; NaNs differ in sign and payload. */
#include "kernel_tables.h"

#include <stdint.h>
#include <string.h>

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} __attribute__((packed));

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, COLUMNS = 16 };

static _Thread_local uint8_t tiles[TILES][ROWS][ROW_BYTES] __attribute__((aligned(64)));

/* The bytes of a row. All tiles have 16 rows here. */
static _Thread_local uint16_t row_bytes[TILES];

static void tile_configure(const struct tile_config *config)
{
    memcpy(row_bytes, config->row_bytes, sizeof row_bytes);
    memset(tiles, 0, sizeof tiles);
}

/* What is left in tiles must not matter. */
static void tile_release(void)
{
    memset(tiles, 0xFF, sizeof tiles);
}

static void tile_zero(int t)
{
    memset(tiles[t], 0, sizeof tiles[t]);
}

static void tile_load(int t, const void *from, int64_t stride)
{
    memset(tiles[t], 0, sizeof tiles[t]);
    for (int r = 0; r < ROWS; r++)
        memcpy(tiles[t][r], (const char *)from + r * stride, row_bytes[t]);
}

static void tile_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < ROWS; r++)
        memcpy((char *)to + r * stride, tiles[t][r], row_bytes[t]);
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 0 of the same sign if the number is subnormal. */
static inline float flush(float x)
{
    const uint32_t bits = bits_of(x);
    return float_of((bits & 0x7f800000) != 0 ? bits : bits & 0x80000000);
}

typedef float vector __attribute__((vector_size(4 * COLUMNS)));

enum { PAIRS = ROW_BYTES / 4 };

/* The numbers of a tile, flushed, as floats: [row][pair] of the left one, [pair][column] of the
 * right one. */
struct wide_tile {
    float even[ROWS][PAIRS] __attribute__((aligned(64))), odd[ROWS][PAIRS];
};

typedef uint32_t words __attribute__((vector_size(4 * PAIRS)));
typedef int32_t word_mask __attribute__((vector_size(4 * PAIRS)));

/* 16 numbers, flushed; least: for each the lesser of what was there and of its exponent field,
 * where the number is not 0. */
static inline words flush_words(words numbers, words *least)
{
    const words fields = numbers >> 23 & 0xff;
    const words normal = (words)(fields != 0);
    const words lesser = (words)((word_mask)(fields < *least) & (word_mask)normal);
    *least = (fields & lesser) | (*least & ~lesser);
    return numbers & (normal | 0x80000000);
}

/* Returns the least exponent field of the numbers that are not 0; 255: all are 0. */
static uint32_t widen(int t, struct wide_tile *wide)
{
    words least = (words){ 0 } + 255;
    uint32_t least_of_all = 255;
    for (int r = 0; r < ROWS; r++) {
        words pairs;
        memcpy(&pairs, tiles[t][r], sizeof pairs);
        const words even = flush_words(pairs << 16, &least);
        const words odd = flush_words(pairs & 0xffff0000, &least);
        memcpy(wide->even[r], &even, sizeof even);
        memcpy(wide->odd[r], &odd, sizeof odd);
    }
    for (int k = 0; k < PAIRS; k++)
        least_of_all = least[k] < least_of_all ? least[k] : least_of_all;
    return least_of_all;
}

static inline vector multiply_add(float factor, const float *numbers, vector sum, bool is_small)
{
    for (int n = 0; n < COLUMNS; n++)
        sum[n] = __builtin_fmaf(factor, numbers[n], sum[n]);
    for (int n = 0; is_small && n < COLUMNS; n++)
        sum[n] = flush(sum[n]);
    return sum;
}

/* One row of the result: 16 numbers, each the sum over 16 pairs. is_small: a sum of some of the
 * products may be subnormal. */
static inline void dot_row(float *sum, const struct wide_tile *left, int row,
                           const struct wide_tile *right, bool is_small)
{
    vector even = { 0 }, odd = { 0 };
    for (int k = 0; k < PAIRS; k++) {
        even = multiply_add(left->even[row][k], right->even[k], even, is_small);
        odd = multiply_add(left->odd[row][k], right->odd[k], odd, is_small);
    }
    for (int n = 0; n < COLUMNS; n++)
        sum[n] = flush(flush(sum[n]) + flush(even[n] + odd[n]));
}

static void tile_dot(int c, int a, int b)
{
    struct wide_tile left, right;
    /* Products are multiples of the last places of their factors, and so are their sums: none is
     * subnormal where those places multiply to a normal number. */
    const bool is_small = widen(a, &left) + widen(b, &right) < 2 * (127 + 7) - 126;
    for (int r = 0; r < ROWS; r++) {
        float sum[COLUMNS];
        memcpy(sum, tiles[c][r], sizeof sum);
        if (is_small)
            dot_row(sum, &left, r, &right, true);
        else
            dot_row(sum, &left, r, &right, false);
        memcpy(tiles[c][r], sum, sizeof sum);
    }
}

#define ATTN_MATRIX      matrix_model
#define ATTN_MATRIX_RULE .takes_small = true, .rows_min = 64
#include "kernels/body_matrix_tiles.h"

#include "kernels/body_matrix.h"
