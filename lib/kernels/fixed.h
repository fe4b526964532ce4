/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.h - the interface to products of weights in blocks with rows in fixed point.
 *
 * 32 inputs of a row, from a multiple of 32 on, become whole multiples X of one power of two, their
 * unit, rounded to nearest: of three digits of 8 bits, or of two. The weights are integers with a
 * scale for each group of 16 or 32 inputs, number = by * integer - less. So the sum of a group is
 * exact for each digit, on any unit and in any order. From y = bias on,
 *
 *     sum = the digits' sums of integer * X, added from the least digit on, each time rounded
 *     y = fma(by, sum * unit, y)
 *     y = fma(-less, (sum of X) * unit, y)        of kinds that have less
 *
 * for one group after the other. These are all roundings, and therefore the bits of an output
 * depend only on its row, its parameters and the number of digits, never on what computes them:
 * vectors of bytes or tiles of bf16 numbers, for one row or for many.
 *
 * The greatest of 32 inputs has the 23 bits of a float but one or two, the others have the same
 * last place. All memory is 64-byte aligned, except for rows and blocks. */
#ifndef ATTN_FIXED_H
#define ATTN_FIXED_H

#include "kernels.h"

enum {
    ATTN_FIXED_UNIT = 32,    /* inputs that have one unit */
    ATTN_FIXED_PART = 256,   /* inputs of a panel */
    ATTN_FIXED_OUTPUTS = 16, /* of a panel */
    ATTN_FIXED_TILE = 512,   /* numbers of a tile */
    ATTN_FIXED_DIGITS_MAX = 3
};

struct attn_fixed_project {
    float *const *y;
    const float *const *x;
    int64_t row_count; /* at most ATTN_PROJECT_ROWS_MAX */
    int64_t out, in;   /* in is whole blocks */
    const void *weight;
    int64_t weight_stride; /* whole blocks */
    const float *bias;     /* [out], or NULL for 0 */
    enum attn_blocks blocks;
    int digits;  /* 2 or 3 */
    float *work; /* [ATTN_PROJECT_WORK] */
};

/* Weights of some outputs and of a part of the inputs, for tiles. */
struct attn_fixed_panel {
    /* [step][pair of inputs][output][2] of bf16, a step for each group: one of 16 inputs has zeros
     * in place of its neighbour's. */
    uint16_t tiles[ATTN_FIXED_PART / 16][ATTN_FIXED_TILE];
    float by[ATTN_FIXED_PART / 16][ATTN_FIXED_OUTPUTS];
    float less[ATTN_FIXED_PART / 16][ATTN_FIXED_OUTPUTS];
};

struct attn_fixed_kernels {
    /* y[r][o] = bias[o] + the products of row r with the parameters of output o. */
    void (*project)(const struct attn_fixed_project *project);

    /* A bit for each row that fixed point does not hold: its greatest magnitude is not finite, or
     * 2^64 or more, or below 2^-64 and not 0. */
    uint64_t (*odd_rows)(const float *const *x, int64_t row_count, int64_t in);

    /* For tiles. Rows, inputs from first on, to [ATTN_FIXED_PART / 32][tile of 16 rows][digit] and
     * rows of 32 bf16 numbers, the least digit first; and the sums of the groups of step inputs,
     * [group][ATTN_PROJECT_ROWS_MAX]. */
    void (*cut)(uint16_t *tiles, float *sums, const struct attn_fixed_project *project,
                int64_t first);

    /* Outputs from output on, inputs from input on. */
    void (*lay)(struct attn_fixed_panel *panel, const struct attn_fixed_project *project,
                int64_t output, int64_t input);
};

/* The inputs that share a scale. */
static inline int attn_fixed_group(enum attn_blocks blocks)
{
    return blocks == ATTN_BLOCKS_Q2_K || blocks == ATTN_BLOCKS_Q3_K || blocks == ATTN_BLOCKS_Q6_K
               ? 16
               : 32;
}

static inline bool attn_fixed_has_less(enum attn_blocks blocks)
{
    return blocks == ATTN_BLOCKS_Q4_1 || blocks == ATTN_BLOCKS_Q5_1 || blocks == ATTN_BLOCKS_Q2_K
           || blocks == ATTN_BLOCKS_Q4_K || blocks == ATTN_BLOCKS_Q5_K;
}

#ifdef __x86_64__
extern const struct attn_fixed_kernels attn_fixed_vnni;
#endif

#endif
