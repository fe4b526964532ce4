/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_apart.h - products of blocks on instructions of vectors, for body_matrix.h: what
 * body_matrix_dots.h and body_matrix_squares.h have in common. */
#ifndef ATTN_BODY_MATRIX_APART_H
#define ATTN_BODY_MATRIX_APART_H

#include "body_matrix_pack.h"

#include <stddef.h>

static void begin(void)
{
}

static void end(void)
{
}

/* Blocks [first, end) of the right; the left ones have the same numbers, or those of steps. */
struct product_blocks {
    const struct attn_matrix_products *products;
    const uint16_t *left, *right; /* [block][part][ATTN_MATRIX_BLOCK] */
    const uint8_t *steps;
    int64_t first, end;
};

/* sums_t += or = the products of these blocks; it is 32 rows of ATTN_MATRIX_LANES. */
INLINE void add_blocks(float *sums_t, const struct product_blocks *blocks, bool adds);

static void multiply(const struct attn_matrix_beside *beside)
{
    if (beside->blocks > 0)
        add_blocks(beside->scores_t,
                   &(struct product_blocks){ .products = beside->score,
                                             .left = beside->keys,
                                             .right = beside->queries,
                                             .end = beside->blocks },
                   false);
    if (beside->count > 0)
        add_blocks(beside->context_t,
                   &(struct product_blocks){ .products = beside->context,
                                             .left = beside->values,
                                             .right = beside->weights,
                                             .steps = beside->steps,
                                             .first = beside->first,
                                             .end = beside->first + beside->count },
                   true);
}

/* The same unit makes these products and weights, so nothing is gained by mixing them: all are done
 * before the weights. */
struct stream {
    int64_t all;
};

INLINE struct stream begin_stream(const struct attn_matrix_beside *beside)
{
    multiply(beside);
    return (struct stream){ 0 };
}

INLINE void run_stream(const struct stream *stream, int64_t until)
{
    (void)stream;
    (void)until;
}

#define MATRIX_PROJECT  NULL
#define MATRIX_ODD_ROWS NULL

#define MATRIX_MULTIPLY_FIXED NULL

#endif
