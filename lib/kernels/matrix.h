/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - the interface to a matrix unit: products of tiles of bf16 numbers, added up in float.
 *
 * A float is cut into up to three bf16 parts of 8 bits each, the greatest first, and a product of
 * two floats is the sum of products of their parts. With three parts of each, the six products
 * that reach into 24 bits are as exact as a product of floats.
 *
 * Keys are taken in steps of ATTN_MATRIX_STEP, queries in groups of ATTN_MATRIX_LANES, which are
 * the lanes: scores_t is [ATTN_MATRIX_STEP][ATTN_MATRIX_LANES], context_t [v_head_dim, padded to
 * 32][ATTN_MATRIX_LANES]. A block is what one product of parts reads: two tiles of 16 rows by 32
 * bf16 numbers. All memory is 64-byte aligned, except for rows. The result of one lane does not
 * depend on other lanes. */
#ifndef ATTN_MATRIX_H
#define ATTN_MATRIX_H

#include "fixed.h"
#include "kernels.h"

enum {
    ATTN_MATRIX_STEP = 32,
    ATTN_MATRIX_LANES = 32,
    ATTN_MATRIX_COLUMNS = 32, /* columns of a row that one block holds */
    ATTN_MATRIX_TILE = 512,
    ATTN_MATRIX_BLOCK = 2 * ATTN_MATRIX_TILE,
    ATTN_MATRIX_CHUNK = 16, /* steps between two visits to the context */
    ATTN_MATRIX_PARTS_MAX = 3,
    ATTN_MATRIX_PRODUCTS_MAX = 6,
    ATTN_MATRIX_PROJECT_PART = 512 /* inputs whose products one chain of a projection's sum adds */
};

/* Which parts of the left and of the right are multiplied, and in which order. */
struct attn_matrix_products {
    int count, left_parts, right_parts;
    uint8_t left[ATTN_MATRIX_PRODUCTS_MAX], right[ATTN_MATRIX_PRODUCTS_MAX];
    bool loads_left[ATTN_MATRIX_PRODUCTS_MAX]; /* the part is not that of the product before */
    bool loads_right[ATTN_MATRIX_PRODUCTS_MAX];
};

/* Products of tiles, which the matrix unit makes beside vector arithmetic: first the scores of a
 * step, then a piece of the context. Either may be absent. */
struct attn_matrix_beside {
    /* scores_t = keys . queries over blocks of columns; blocks 0: absent */
    const struct attn_matrix_products *score;
    const uint16_t *keys, *queries; /* [blocks][part][ATTN_MATRIX_BLOCK] */
    int64_t blocks;
    float *scores_t;

    /* context_t += values . weights over count steps, for 32 columns of the values; count 0:
     * absent. The values of steps[i] of a chunk meet the weights of slot i. */
    const struct attn_matrix_products *context;
    const uint16_t *values;  /* [ATTN_MATRIX_CHUNK][part][ATTN_MATRIX_BLOCK] */
    const uint16_t *weights; /* [slot][part][ATTN_MATRIX_BLOCK] */
    const uint8_t *steps;    /* [slot] */
    int64_t first, count;    /* slots */
    float *context_t;
};

/* From the scores of a step to its weights, 2^((score - offset) * to_power - base). */
struct attn_matrix_weights {
    uint16_t *weights; /* [part][ATTN_MATRIX_BLOCK] */
    float *sums;       /* [ATTN_MATRIX_LANES], of the weights that are multiplied */
    const float *scores_t;
    const float *offset; /* [ATTN_MATRIX_LANES], as base */
    const float *base;   /* whole numbers */
    float to_power;      /* positive */
};

/* A projection of rows with parameters of BF16 or F16, as in kernels.h. Parameters are the left
 * operand, one part of BF16 and two of F16, and rows the right. The bits of a sum depend only on
 * its row, the output's parameters, their format and the products. */
struct attn_matrix_project {
    float *const *y;
    const float *const *x;
    int64_t row_count; /* at most ATTN_PROJECT_ROWS_MAX */
    int64_t out, in;
    const void *weight;
    int64_t weight_stride;
    enum attn_numbers kind; /* BF16 or F16 */
    bool by_inputs;
    const struct attn_matrix_products *products;
    float *work; /* [ATTN_PROJECT_WORK] */
};

struct attn_matrix_kernels {
    /* For tests: take problems of every shape, also where the vectors of the table are faster. */
    bool takes_small;

    /* For fewer query rows or keys than these, to cut numbers into parts costs more than is gained.
     */
    int64_t rows_min;

    /* The most products of parts, those of scores and of context together, that take no longer than
     * the products of floats on the vectors of the table: the unit takes no problems with more. 0:
     * it takes any number. Where there is a limit, the precision says how many parts F16 has; else
     * it always has two, which lose nothing. */
    int products_max;

    /* Before the first and after the last product of a task, on its thread. */
    void (*begin)(void);
    void (*end)(void);

    /* Rows of keys to blocks [columns / 32][part][block] of one step; row_count <=
     * ATTN_MATRIX_STEP. Returns a bit for each row with a number that is not finite, or is about to
     * overflow: its products say nothing. */
    uint32_t (*pack_keys)(uint16_t *packed, const float *rows, int64_t row_stride,
                          int64_t row_count, int64_t columns, int parts);

    /* The same for queries, each number times factor. */
    uint32_t (*pack_queries)(uint16_t *packed, const float *rows, int64_t row_stride,
                             int64_t row_count, int64_t columns, int parts, float factor);

    /* Rows of values of one step to blocks, [columns / 32][ATTN_MATRIX_CHUNK][part][block], of
     * which packed is the first of this step. Numbers that attn_matrix_is_odd() are taken as 0.
     * Returns whether there are such numbers. */
    bool (*pack_values)(uint16_t *packed, const float *rows, int64_t row_stride, int64_t row_count,
                        int64_t columns, int parts);

    void (*multiply)(const struct attn_matrix_beside *beside);

    /* The weights of a step, and beside is done meanwhile. The index: parts of the weights less
     * one. A score of -INFINITY has weight 0. */
    void (*weigh[ATTN_MATRIX_PARTS_MAX])(const struct attn_matrix_weights *weights,
                                         const struct attn_matrix_beside *beside);

    /* max[r] = the greatest of scores_t[j][r]; NaN is ignored. */
    void (*greatest)(float *max, const float *scores_t);

    /* y[r][o] += the products of row r with the parameters of output o. Configures tiles, and
     * releases them. NULL: the unit takes no projections, and has no odd_rows. */
    void (*project)(const struct attn_matrix_project *project);

    /* A bit for each of up to 64 rows that parts of bf16 numbers do not hold: its greatest
     * magnitude is not finite, or 2^64 or more, or below 2^-64 and not 0. */
    uint64_t (*odd_rows)(const float *const *x, int64_t row_count, int64_t in);

    /* project() of fixed.h for many rows, with the same bits. NULL: the unit does not. */
    void (*multiply_fixed)(const struct attn_fixed_kernels *kernels,
                           const struct attn_fixed_project *project);
};

/* A value that products of parts and weights could overflow or lose: not finite, 2^64 or more, or
 * so small that its parts are subnormal. */
static inline bool attn_matrix_is_odd(float value)
{
    const float magnitude = value < 0.0f ? -value : value;

    return !(magnitude < 0x1p64f) || (magnitude < 0x1p-90f && value != 0.0f);
}

#ifdef __x86_64__
extern const struct attn_matrix_kernels attn_matrix_amx;
extern const struct attn_matrix_kernels attn_matrix_avx512_bf16;
#endif
#ifdef __aarch64__
extern const struct attn_matrix_kernels attn_matrix_neon_bf16;
#endif

#endif
