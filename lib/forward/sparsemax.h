/* SPDX-License-Identifier: Apache-2.0 */
/* sparsemax.h - sparsemax: weights as the nearest point of the simplex (Martins and Astudillo
 * 2016).
 *
 *     weights = max(masked - threshold, 0), with the one threshold at which they sum to 1
 *
 * The threshold is found tile by tile. It lies above max - 1. From any threshold below it, the mean
 * of the scores above that threshold, minus 1 / count, is a better one (Newton's method on a
 * piecewise linear function, Michelot 1986). In each round both the excess and the count fall, and
 * their product falls at least to a quarter, so some tens of rounds are enough. */
#ifndef ATTN_SPARSEMAX_H
#define ATTN_SPARSEMAX_H

#include <stdbool.h>
#include <stdint.h>

/* The search for one query row. Numbers are relative to the row's greatest score. */
struct attn_threshold {
    double base;        /* the greatest score, or 0 if the row has none */
    double sink;        /* of the row, relative; -INFINITY: none */
    double threshold;   /* the best so far */
    double sum;         /* of the scores above the threshold, in the current round */
    int64_t count;      /* of the scores above the threshold */
    int64_t last_count; /* count of the round before; -1: this is the first */
    bool is_found;
};

/* max is the greatest score of the row, its sink included; -INFINITY if there is none. */
void attn_threshold_init(struct attn_threshold *row, double max, double sink);

/* Add one masked score of the row to the round. */
void attn_threshold_see(struct attn_threshold *row, double masked);

/* Add a tile of masked scores, [n][width] transposed, for lanes 0 to row_count - 1. */
void attn_threshold_add(struct attn_threshold *rows, int64_t row_count, const float *scores_t,
                        int64_t n, int64_t width);

/* End a round. Does the row need another one? */
bool attn_threshold_improve(struct attn_threshold *row);

/* The weight of a masked score, once the threshold is found. */
double attn_sparsemax(const struct attn_threshold *row, double masked);

/* Turn n masked scores, stride apart, into weights. */
void attn_sparsemax_row(const struct attn_threshold *row, float *scores, int64_t n, int64_t stride);

#endif
