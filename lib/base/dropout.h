/* dropout.h - which weights dropout drops. */
#ifndef ATTN_DROPOUT_H
#define ATTN_DROPOUT_H

#include "attn.h"

/* Multiply the weights of one query row, for keys [first, first + n), by 0 or by 1 / (1 -
 * options.dropout); the weights are stride apart. first is an index of the problem's keys.
 *
 * The word of a pair is number k mod 4 of the four that Philox4x32-10 (philox.h) gives for the seed
 * and the counter (k div 4, row, head, batch), where k is the position of the key. */
void attn_dropout_row(const struct attn_problem *problem, int64_t batch, int64_t head, int64_t row,
                      int64_t first, int64_t n, float *weights, int64_t stride);
void attn_dropout_row_double(const struct attn_problem *problem, int64_t batch, int64_t head,
                             int64_t row, int64_t first, int64_t n, double *weights,
                             int64_t stride);

#endif
