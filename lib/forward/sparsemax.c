/* SPDX-License-Identifier: Apache-2.0 */
/* sparsemax.c - the rounds that find a threshold, in double: a threshold is a difference of sums,
 * and the numbers near it decide whether a weight is 0. Comparisons are written so that NaN counts
 * as above the threshold and reaches the weights of its row, as in a softmax. */
#include "forward/sparsemax.h"

#include <math.h>

static void begin_round(struct attn_threshold *row)
{
    const bool has_sink = row->sink > row->threshold;

    row->sum = has_sink ? row->sink : 0.0;
    row->count = has_sink ? 1 : 0;
}

void attn_threshold_init(struct attn_threshold *row, double max, double sink)
{
    *row = (struct attn_threshold){
        .base = max == -INFINITY ? 0.0 : max,
        .threshold = -1.0,
        .last_count = -1,
    };
    row->sink = sink - row->base;
    begin_round(row);
}

void attn_threshold_see(struct attn_threshold *row, double masked)
{
    const double score = masked - row->base;

    if (row->is_found || score <= row->threshold)
        return;
    row->sum += score;
    row->count++;
}

void attn_threshold_add(struct attn_threshold *rows, int64_t row_count, const float *scores_t,
                        int64_t n, int64_t width)
{
    for (int64_t r = 0; r < row_count; r++)
        for (int64_t j = 0; !rows[r].is_found && j < n; j++)
            attn_threshold_see(&rows[r], (double)scores_t[j * width + r]);
}

bool attn_threshold_improve(struct attn_threshold *row)
{
    if (row->is_found)
        return false;
    /* The count falls in each round; a number exactly at the rounded threshold must not restart the
     * search. */
    row->is_found = row->count == 0 || (row->last_count >= 0 && row->count >= row->last_count);
    if (row->is_found)
        return false;
    row->threshold = (row->sum - 1.0) / (double)row->count;
    row->last_count = row->count;
    begin_round(row);
    return true;
}

double attn_sparsemax(const struct attn_threshold *row, double masked)
{
    const double score = masked - row->base;

    return score <= row->threshold ? 0.0 : score - row->threshold;
}

void attn_sparsemax_row(const struct attn_threshold *row, float *scores, int64_t n, int64_t stride)
{
    for (int64_t j = 0; j < n; j++)
        scores[j * stride] = (float)attn_sparsemax(row, (double)scores[j * stride]);
}
