/* dropout.h - which weights a dropout drops. */
#ifndef ATTN_DROPOUT_H
#define ATTN_DROPOUT_H

#include "attn.h"

/* Philox4x32 of 10 rounds (Salmon, Moraes, Dror and Shaw 2011): four random words for each counter,
 * the same on every machine. */
void attn_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);

/* Multiplies the weights of one query row, those of keys [first, first + n), by 0 or by
 * 1 / (1 - options.dropout); they lie stride apart. first is an index of the problem's keys. */
void attn_dropout_row(const struct attn_problem *problem, int64_t batch, int64_t head, int64_t row,
                      int64_t first, int64_t n, float *weights, int64_t stride);

#endif
