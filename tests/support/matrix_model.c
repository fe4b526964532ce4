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

/* All tiles are whole here. */
static void tile_configure(const struct tile_config *config)
{
    (void)config;
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
    for (int r = 0; r < ROWS; r++)
        memcpy(tiles[t][r], (const char *)from + r * stride, ROW_BYTES);
}

static void tile_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < ROWS; r++)
        memcpy((char *)to + r * stride, tiles[t][r], ROW_BYTES);
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

/* One row of the result: 16 numbers, each the sum over 16 pairs. */
static void dot_row(float *sum, const uint32_t *left, const uint32_t *right)
{
    float even[COLUMNS] = { 0 }, odd[COLUMNS] = { 0 };
    for (int k = 0; k < ROW_BYTES / 4; k++) {
        const float first = flush(float_of(left[k] << 16));
        const float second = flush(float_of(left[k] & 0xffff0000));
        for (int n = 0; n < COLUMNS; n++) {
            const uint32_t pair = right[k * COLUMNS + n];
            even[n] = flush(__builtin_fmaf(first, flush(float_of(pair << 16)), even[n]));
            odd[n] = flush(__builtin_fmaf(second, flush(float_of(pair & 0xffff0000)), odd[n]));
        }
    }
    for (int n = 0; n < COLUMNS; n++)
        sum[n] = flush(flush(sum[n]) + flush(even[n] + odd[n]));
}

static void tile_dot(int c, int a, int b)
{
    for (int r = 0; r < ROWS; r++) {
        float sum[COLUMNS];
        memcpy(sum, tiles[c][r], sizeof sum);
        dot_row(sum, (const uint32_t *)(const void *)tiles[a][r],
                (const uint32_t *)(const void *)tiles[b]);
        memcpy(tiles[c][r], sum, sizeof sum);
    }
}

#define ATTN_MATRIX             matrix_model
#define ATTN_MATRIX_TAKES_SMALL true
#include "kernels/body_matrix.h"
