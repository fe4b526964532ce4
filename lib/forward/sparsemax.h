/* sparsemax.h - weights as the nearest point of the simplex (Martins and Astudillo 2016).
 *
 *     weights = max(masked - threshold, 0), with the one threshold at which they sum to 1
 *
 * Found tile by tile: the threshold lies above max - 1, and from any threshold below it the mean of
 * what exceeds it, less 1 / count, is a better one (Newton's method on a piecewise linear function,
 * Michelot 1986; both the excess and the count fall, and their product at least to a quarter, so
 * that some tens of rounds are enough). */
#ifndef ATTN_SPARSEMAX_H
#define ATTN_SPARSEMAX_H

#include <stdbool.h>
#include <stdint.h>

/* The search for one query row. Numbers are relative to the row's greatest score. */
struct attn_threshold {
    double base;        /* that score, or 0 where the row has none */
    double sink;        /* of the row, relative; -INFINITY: none */
    double threshold;   /* the best yet */
    double sum;         /* of the scores above it, in the round under way */
    int64_t count;      /* of these */
    int64_t last_count; /* of the round before; -1: there was none */
    bool is_found;
};

/* max is the greatest score of the row, its sink included; -INFINITY where there is none. */
void attn_threshold_init(struct attn_threshold *row, double max, double sink);

/* One masked score of the row. */
void attn_threshold_see(struct attn_threshold *row, double masked);

/* Of a tile of masked scores, [n][width] transposed, those of lanes 0 to row_count - 1. */
void attn_threshold_add(struct attn_threshold *rows, int64_t row_count, const float *scores_t,
                        int64_t n, int64_t width);

/* Ends a round: whether the row needs another one. */
bool attn_threshold_improve(struct attn_threshold *row);

/* The weight of a masked score, once the threshold is found. */
double attn_sparsemax(const struct attn_threshold *row, double masked);

/* n masked scores, stride apart, become weights. */
void attn_sparsemax_row(const struct attn_threshold *row, float *scores, int64_t n, int64_t stride);

#endif
