/* score_row.h - reduced weight maps of a row, made from its masked scores.
 *
 * A greater score never has a smaller weight: subtracting the maximum, e^x as the kernels compute
 * it, multiplying by 1 / sum, and the rounding of each keep the order. So the greatest are searched
 * among the scores, and only the results are turned into weights, with the same bits as in the
 * whole map. */
#ifndef ATTN_SCORE_ROW_H
#define ATTN_SCORE_ROW_H

#include "kernels/kernels.h"

struct attn_score_row {
    const struct attn_kernels *kernels;
    float max, sum; /* those of softmax_tile() for the row */
};

/* The greatest weight of each cell of a row of n masked scores, in place. Number j is in cell j *
 * cells / n; cells <= n. NaN is ignored. */
void attn_score_row_pool(const struct attn_score_row *row, float *scores, int64_t n, int64_t cells);

/* attn_top_k() of the weights of n masked scores, k <= ATTN_BOUND_MAX. Overwrites scores. */
void attn_score_row_top_k(const struct attn_score_row *row, float *scores, int64_t n, int64_t k,
                          float *values, int64_t *indices);

#endif
