/* score_row.c - see score_row.h. */
#include "maps/score_row.h"

#include "top_k.h"

#include <math.h>

/* Of 2048 random numbers, 12 reach the bound for k = 8 and 48 that for k = 32. */
enum { CANDIDATES_MAX = 4 * ATTN_BOUND_MAX };

void attn_score_row_pool(const struct attn_score_row *row, float *scores, int64_t n, int64_t cells)
{
    row->kernels->greatest_of_cells(scores, scores, n, cells);
    row->kernels->weights_row(scores, row->max, row->sum, cells);
    for (int64_t c = 0; c < cells; c++)
        scores[c] = scores[c] > 0.0f ? scores[c] : 0.0f;
}

/* Find the indices of all scores whose weight may be among the k greatest. Return 0 if there are
 * too many or if that cannot be decided. Equal weights are ordered by index, and different scores
 * may have equal weights. So a score is left out only if k other scores have a strictly greater
 * weight. */
static int64_t find_candidates(const struct attn_score_row *row, const float *scores, int64_t n,
                               int64_t k, int64_t places[CANDIDATES_MAX])
{
    const float bound = row->kernels->bound_of_greatest(scores, n, k);
    const float below = bound - (1e-5f + 1e-6f * fabsf(bound));
    float weights[2] = { bound, below };

    if (isnan(row->sum) || !isfinite(below))
        return 0;
    row->kernels->weights_row(weights, row->max, row->sum, 2);
    if (!(weights[1] < weights[0]))
        return 0;
    const int64_t count = row->kernels->find_reaching(places, CANDIDATES_MAX, scores, n, below);
    return count <= CANDIDATES_MAX ? count : 0;
}

void attn_score_row_top_k(const struct attn_score_row *row, float *scores, int64_t n, int64_t k,
                          float *values, int64_t *indices)
{
    int64_t places[CANDIDATES_MAX];
    float candidates[CANDIDATES_MAX];
    const int64_t count = find_candidates(row, scores, n, k, places);

    if (count == 0) {
        row->kernels->weights_row(scores, row->max, row->sum, n);
        attn_top_k(scores, n, k, values, indices);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        candidates[i] = scores[places[i]];
    row->kernels->weights_row(candidates, row->max, row->sum, count);
    attn_top_k(candidates, count, k, values, indices);
    for (int64_t i = 0; i < k; i++)
        indices[i] = places[indices[i]];
}
