/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_masking.c - the gradients of an F32 mask, and of what all rows of a head, or all heads,
 * share: the slopes of ALiBi, the sinks and the weight of additive scores.
 *
 * A mask is added to the scores after the softcap, so its gradient is that of the masked scores,
 * summed over every dimension that the mask broadcasts: batch items, heads, query rows or keys. A
 * task owns its rows of the mask and adds all pairs that share them in a fixed order.
 *
 * Each of the others is a sum over query rows of results of stage 0. One task adds them in double
 * and in the order of the rows, so the sums do not depend on which thread computed the parts. */
#include "forward/sparsemax.h"
#include "gradient/gradient_internal.h"

#include <math.h>
#include <string.h>

/* The mask's stride of dimension d: 0 if the mask broadcasts it. */
static int64_t mask_step(const struct attn_tensor *mask, int d)
{
    return mask->shape[d] == 1 ? 0 : mask->stride[d];
}

/* Add the gradients of the masked scores of one tile of query rows. */
static void add_tile(const struct attn_row_tile *tile)
{
    const struct attn_gradient_plan_full *plan = tile->plan;
    const struct attn_tensor *mask = &plan->problem.mask_gradient;
    const int64_t row_step = mask_step(mask, 2), key_step = mask_step(mask, 3);
    float *gradient = (float *)mask->data + tile->batch * mask_step(mask, 0)
                      + tile->q_head * mask_step(mask, 1) + tile->row * row_step;

    for (int64_t key = tile->any.low; key < tile->any.high; key += plan->other_tile) {
        const int64_t n = attn_min(plan->other_tile, tile->any.high - key);
        attn_row_tile_gradient(tile, key, n);
        for (int64_t r = 0; r < tile->row_count; r++)
            for (int64_t j = 0; j < n; j++)
                gradient[r * row_step + (key + j) * key_step] +=
                    tile->work.gradient_t[j * plan->row_width + r];
    }
}

/* Process the query rows of one tile and one head; rows holds their results of stage 0. */
static void run_tile(const struct attn_gradient_plan_full *plan, int64_t batch, int64_t q_head,
                     int64_t row, const struct attn_gradient_rows *rows, void *workspace)
{
    struct attn_row_tile tile;

    attn_row_tile_begin(&tile, plan, batch, q_head, row, rows, workspace);
    attn_row_tile_load(&tile);
    for (int64_t r = 0; r < plan->row_width; r++) {
        const bool is_row = r < tile.row_count;
        tile.work.max[r] = is_row ? rows->max[tile.first + r] : 0.0f;
        tile.work.sum[r] = is_row ? rows->factor[tile.first + r] : 0.0f;
        tile.work.delta[r] = is_row ? rows->delta[tile.first + r] : 0.0f;
        tile.work.delta_low[r] = is_row ? rows->delta_low[tile.first + r] : 0.0f;
    }
    add_tile(&tile);
}

void attn_gradient_run_mask(const struct attn_gradient_plan_full *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace)
{
    const struct attn_tensor *mask = &plan->problem.mask_gradient;
    const int64_t *query = plan->problem.attention.query.shape;
    const int64_t head = task / plan->mask_row_tiles;
    const int64_t first_tile = task % plan->mask_row_tiles;
    const int64_t b0 = head / mask->shape[1], h0 = head % mask->shape[1];
    /* In a dimension that the mask broadcasts, one index of the mask stands for all. */
    const int64_t b1 = mask->shape[0] == query[0] ? b0 + 1 : query[0];
    const int64_t h1 = mask->shape[1] == query[1] ? h0 + 1 : query[1];
    const int64_t last_tile = mask->shape[2] == query[2] ? first_tile + 1 : plan->row_tiles;
    const int64_t first_row = first_tile * plan->row_tile;
    const int64_t row_count =
        attn_min(mask->shape[2] == query[2] ? plan->row_tile : 1, mask->shape[2] - first_row);

    for (int64_t i = 0; i < row_count; i++) {
        float *row = attn_tensor_row(mask, b0, h0, first_row + i);
        memset(row, 0, (size_t)mask->shape[3] * sizeof(float));
    }
    for (int64_t b = b0; b < b1; b++)
        for (int64_t h = h0; h < h1; h++)
            for (int64_t t = first_tile; t < last_tile; t++)
                run_tile(plan, b, h, t * plan->row_tile, rows, workspace);
}

/* ---------------------------------------------------------------------------- sums over rows -- */

/* The gradient of the sink in row number row: its slope times 0 - delta, since a sink has no
 * value. */
static double sink_gradient(const struct attn_gradient_rows *rows, int64_t row, float sink)
{
    if (sink == -INFINITY)
        return 0.0;
    if (rows->thresholds != NULL)
        return rows->thresholds[row].sink > rows->thresholds[row].threshold
                   ? -(double)rows->delta[row]
                   : 0.0;
    return -exp((double)sink - (double)rows->max[row]) * (double)rows->factor[row]
           * (double)rows->delta[row];
}

static void sum_head(const struct attn_gradient_plan_full *plan,
                     const struct attn_gradient_rows *rows, int64_t q_head)
{
    const struct attn_gradient_problem *problem = &plan->problem;
    const int64_t *query = problem->attention.query.shape;
    double slopes = 0.0, sinks = 0.0;

    for (int64_t b = 0; b < query[0]; b++)
        for (int64_t i = 0; i < query[2]; i++) {
            const int64_t row = (b * query[1] + q_head) * query[2] + i;
            if (problem->alibi_slopes_gradient != NULL)
                slopes += rows->slopes[row];
            if (problem->sinks_gradient != NULL)
                sinks += sink_gradient(rows, row, problem->attention.sinks[q_head]);
        }
    if (problem->alibi_slopes_gradient != NULL)
        problem->alibi_slopes_gradient[q_head] = (float)slopes;
    if (problem->sinks_gradient != NULL)
        problem->sinks_gradient[q_head] = (float)sinks;
}

void attn_gradient_run_sums(const struct attn_gradient_plan_full *plan,
                            const struct attn_gradient_rows *rows)
{
    const struct attn_gradient_problem *problem = &plan->problem;
    const int64_t head_dim = problem->attention.query.shape[3];

    for (int64_t h = 0; h < problem->attention.query.shape[1]; h++)
        sum_head(plan, rows, h);
    for (int64_t d = 0; problem->additive_weight_gradient != NULL && d < head_dim; d++) {
        double sum = 0.0;
        for (int64_t task = 0; task < plan->task_count[0]; task++)
            sum += rows->weight_sums[task * head_dim + d];
        problem->additive_weight_gradient[d] = (float)sum;
    }
}
