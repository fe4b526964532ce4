/* score_row.h - the smaller weight maps of a row, made of its masked scores.
 *
 * A greater score never has a smaller weight: subtracting the maximum, e^x as the kernels compute
 * it, multiplying by 1 / sum, and the rounding of each keep the order. So what is greatest is found
 * among the scores, and only what is answered is turned into weights, with the bits that it has in
 * the whole map. */
#ifndef ATTN_SCORE_ROW_H
#define ATTN_SCORE_ROW_H

#include "kernels/kernels.h"

struct attn_score_row {
    const struct attn_kernels *kernels;
    float max, sum; /* what softmax_tile() left for the row */
};

/* The greatest weight of each cell of a row of n masked scores, in place; cells <= n, number j
 * being in cell j * cells / n. What is not a number is passed over. */
void attn_score_row_pool(const struct attn_score_row *row, float *scores, int64_t n, int64_t cells);

/* attn_top_k() of the weights of n masked scores, k <= ATTN_BOUND_MAX. scores are used up. */
void attn_score_row_top_k(const struct attn_score_row *row, float *scores, int64_t n, int64_t k,
                          float *values, int64_t *indices);

#endif
