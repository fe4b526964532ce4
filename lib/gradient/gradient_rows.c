/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_rows.c - tiles of query rows: what later tasks need of each row, the gradient of an
 * additive score's query, and each tile's part of the sums over rows (gradient_masking.c).
 *
 * If the forward pass has left its context and lse, nothing else is needed: lse combines maximum
 * and sum, and delta is G . context (Dao 2023). But the errors of G . context and dP do not cancel
 * where one weight is nearly 1, and there the truth is the small rest. For such rows, as otherwise
 * for all, a task passes over its keys twice or more. The first pass finds the maximum and the sum
 * of each row's softmax, and delta as a third running sum, in double: the sum of P * dP over the
 * keys equals G . context in Dao 2023, but needs no context and uses the same numbers that delta is
 * later subtracted from. Sparsemax needs further passes for its threshold and one for delta. In the
 * last pass each tile of weights is computed again, with the same bits, and turned into gradients.
 */
#include "base/random.h"
#include "forward/sparsemax.h"
#include "gradient/gradient_internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* A row that gives one key more than this loses a digit by G . context. */
static const float LARGEST_RECALLED = 0.5f;

/* ------------------------------------------------------------------------- before the keys -- */

static void find_ranges(struct attn_row_tile *tile)
{
    const struct attn_problem *attention = &tile->plan->problem.attention;
    struct key_range *ranges = tile->work.ranges;

    attn_mask_rows(attention, tile->batch, tile->row, tile->row_count, ranges, &tile->any,
                   &tile->every);
    /* Lanes without a row see everything, so that they need no bounds. */
    for (int64_t r = tile->row_count; r < tile->plan->row_width; r++)
        ranges[r] = (struct key_range){ 0, attention->key.shape[2] };
}

void attn_row_tile_begin(struct attn_row_tile *tile, const struct attn_gradient_plan_full *plan,
                         int64_t batch, int64_t q_head, int64_t row,
                         const struct attn_gradient_rows *rows, void *workspace)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *query = &attention->query;

    tile->plan = plan;
    attn_gradient_workspace_cut(&tile->work, plan, workspace);
    tile->batch = batch;
    tile->q_head = q_head;
    tile->kv_head = q_head / (query->shape[1] / attention->key.shape[1]);
    tile->row = row;
    tile->row_count = attn_min(plan->row_tile, query->shape[2] - row);
    tile->first = (batch * query->shape[1] + q_head) * query->shape[2] + row;
    tile->thresholds = rows->thresholds != NULL ? rows->thresholds + tile->first : NULL;
    find_ranges(tile);
}

void attn_row_tile_load(const struct attn_row_tile *tile)
{
    const struct attn_gradient_plan_full *plan = tile->plan;
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *query = &attention->query;
    const struct attn_tensor *context = &plan->problem.context_gradient;
    const int64_t batch = tile->batch, q_head = tile->q_head, row = tile->row;

    plan->kernels->transpose_in(tile->work.first_t, attn_tensor_row(query, batch, q_head, row),
                                query->stride[2], tile->row_count, query->shape[3],
                                attn_gradient_query_factor(attention), plan->row_width);
    plan->kernels->transpose_in(tile->work.second_t, attn_tensor_row(context, batch, q_head, row),
                                context->stride[2], tile->row_count, context->shape[3], 1.0f,
                                plan->row_width);
    for (int64_t r = 0; r < plan->row_width; r++)
        tile->work.ones[r] = 1.0f;
}

/* --------------------------------------------------------------------------- a tile of keys -- */

/* May some pair of the tile be hidden? */
static bool hides(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    return attn_range_cuts(&tile->every, key, key + n)
           || tile->plan->problem.attention.mask.data != NULL || tile->thresholds != NULL;
}

/* Compute into gradient_t the gradients of the weights of n keys. The context is computed from
 * weights after dropout, so these gradients pass through the same dropout. */
static void differentiate(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_gradient_plan_full *plan = tile->plan;
    const struct attn_problem *attention = &plan->problem.attention;
    const int64_t width = plan->row_width;
    float *gradient_t = tile->work.gradient_t;

    plan->kernels->score_tile(gradient_t, tile->work.second_t,
                              attn_tensor_row(&attention->value, tile->batch, tile->kv_head, key),
                              attention->value.stride[2], n, attention->value.shape[3], width,
                              NULL);
    for (int64_t r = 0; attention->options.dropout > 0.0f && r < tile->row_count; r++)
        attn_dropout_row(attention, tile->batch, tile->q_head, tile->row + r, key, n,
                         gradient_t + r, width);
}

/* Compute into weights_t the masked scores of n keys. */
static void score(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_gradient_plan_full *plan = tile->plan;
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t width = plan->row_width;
    const float softcap = (float)attention->options.softcap;

    attn_gradient_score(plan, work,
                        attn_tensor_row(&attention->key, tile->batch, tile->kv_head, key),
                        attention->key.stride[2], n, width);
    if (softcap > 0.0f) {
        plan->kernels->softcap_tile(work->weights_t, softcap, n, width);
        memcpy(work->capped_t, work->weights_t, (size_t)(n * width) * sizeof(float));
    }
    if (attention->alibi_slopes != NULL) {
        attn_mask_distances(attention, tile->batch, tile->row, key, width, work->distance);
        plan->kernels->alibi_tile(work->weights_t, attention->alibi_slopes[tile->q_head],
                                  work->distance, 0, n, width);
    }
    if (hides(tile, key, n)) {
        for (int64_t r = 0; r < width; r++) {
            work->low[r] = (int32_t)attn_max(0, attn_min(work->ranges[r].low - key, n));
            work->high[r] = (int32_t)attn_max(0, attn_min(work->ranges[r].high - key, n));
        }
        plan->kernels->bound_tile(work->weights_t, work->low, work->high, n, width);
    }
    if (attention->mask.data != NULL) {
        attn_mask_gather(attention, plan->kernels, tile->batch, tile->q_head, tile->row,
                         tile->row_count, key, n, width, work->bias_t);
        plan->kernels->bias_tile(work->weights_t, work->bias_t, n, width);
    }
}

/* Turn weights_t from masked scores into the weights of sparsemax. */
static void make_sparse(const struct attn_row_tile *tile, int64_t n)
{
    for (int64_t r = 0; r < tile->row_count; r++)
        attn_sparsemax_row(&tile->thresholds[r], tile->work.weights_t + r, n,
                           tile->plan->row_width);
}

void attn_row_tile_gradient(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_kernels *kernels = tile->plan->kernels;
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t width = tile->plan->row_width;

    score(tile, key, n);
    differentiate(tile, key, n);
    if (tile->thresholds != NULL)
        make_sparse(tile, n);
    else
        kernels->weights_tile(work->weights_t, work->max, work->sum, 0, n, width);
    attn_gradient_normalize(tile->plan, work, work->delta, work->delta_low, 0, n, width);
}

/* --------------------------------------------------------------------------------- the task -- */

/* How many keys the next step from key on has; false if no row may see any more. */
static bool next_keys(const struct attn_row_tile *tile, int64_t key, int64_t *n)
{
    *n = attn_min(tile->plan->other_tile, tile->any.high - key);
    return key < tile->any.high;
}

static void set_delta(const struct attn_gradient_workspace *work, int64_t r, double delta)
{
    work->delta[r] = (float)delta;
    work->delta_low[r] = (float)(delta - (double)work->delta[r]);
}

/* From the two sums; a row that sees nothing has 0. */
static void divide(const struct attn_gradient_workspace *work, int64_t width)
{
    for (int64_t r = 0; r < width; r++)
        set_delta(work, r, work->divisor[r] == 0.0 ? 0.0 : work->dividend[r] / work->divisor[r]);
}

/* Compute max, 1 / sum and delta of each row's softmax; for sparsemax, max alone is used. */
static void measure_softmax(const struct attn_row_tile *tile, float sink)
{
    const struct attn_kernels *kernels = tile->plan->kernels;
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t width = tile->plan->row_width;
    int64_t n;

    for (int64_t r = 0; r < width; r++) {
        work->max[r] = sink;
        work->sum[r] = sink == -INFINITY ? 0.0f : 1.0f;
        work->dividend[r] = 0.0;
        work->divisor[r] = tile->thresholds == NULL ? (double)work->sum[r] : 0.0;
    }
    for (int64_t key = tile->any.low; next_keys(tile, key, &n); key += n) {
        score(tile, key, n);
        kernels->softmax_tile(work->weights_t, work->max, work->sum, work->rescale, n, width);
        if (tile->thresholds != NULL)
            continue;
        differentiate(tile, key, n);
        kernels->delta_tile(work->dividend, work->divisor, work->rescale, work->weights_t,
                            work->gradient_t, n, width);
    }
    for (int64_t r = 0; r < width; r++)
        work->sum[r] = work->divisor[r] == 0.0 ? 0.0f : (float)(1.0 / work->divisor[r]);
    divide(work, width);
}

/* Find the threshold of each row, in passes over the keys as in forward.c, and delta as the mean
 * over the support. */
static void measure_sparsemax(const struct attn_row_tile *tile, float sink)
{
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t width = tile->plan->row_width;
    bool again = true;
    int64_t n;

    for (int64_t r = 0; r < tile->row_count; r++)
        attn_threshold_init(&tile->thresholds[r], work->max[r], sink);
    while (again) {
        for (int64_t key = tile->any.low; next_keys(tile, key, &n); key += n) {
            score(tile, key, n);
            attn_threshold_add(tile->thresholds, tile->row_count, work->weights_t, n, width);
        }
        again = false;
        for (int64_t r = 0; r < tile->row_count; r++)
            again = attn_threshold_improve(&tile->thresholds[r]) || again;
    }
    for (int64_t key = tile->any.low; next_keys(tile, key, &n); key += n) {
        score(tile, key, n);
        differentiate(tile, key, n);
        make_sparse(tile, n);
        attn_gradient_support(work, n, width);
        tile->plan->kernels->delta_tile(work->dividend, work->divisor, work->ones, work->support_t,
                                        work->gradient_t, n, width);
    }
    for (int64_t r = 0; r < tile->row_count; r++)
        work->divisor[r] = (double)tile->thresholds[r].count; /* with the sink */
    divide(work, width);
}

/* The same from the results of the forward pass. */
static void recall(const struct attn_row_tile *tile)
{
    const struct attn_problem *attention = &tile->plan->problem.attention;
    const struct attn_tensor *gradient = &tile->plan->problem.context_gradient;
    const struct attn_gradient_workspace *work = &tile->work;

    tile->plan->kernels->dot_rows(
        work->dividend, attn_tensor_row(&attention->context, tile->batch, tile->q_head, tile->row),
        attention->context.stride[2],
        attn_tensor_row(gradient, tile->batch, tile->q_head, tile->row), gradient->stride[2],
        tile->row_count, gradient->shape[3]);
    for (int64_t r = 0; r < tile->row_count; r++) {
        const float lse =
            *attn_tensor_row(&attention->lse, tile->batch, tile->q_head, tile->row + r);
        work->max[r] = lse;
        work->sum[r] = lse == -INFINITY ? 0.0f : 1.0f;
        set_delta(work, r, lse == -INFINITY ? 0.0 : work->dividend[r]);
    }
}

/* Are the results of the forward pass there, and exact enough for every row of the tile? */
static bool can_recall(const struct attn_row_tile *tile)
{
    const struct attn_gradient_problem *problem = &tile->plan->problem;

    if (!problem->has_forward || tile->thresholds != NULL)
        return false;
    for (int64_t r = 0; problem->largest_weights != NULL && r < tile->row_count; r++)
        if (problem->largest_weights[tile->first + r] > LARGEST_RECALLED)
            return false;
    return true;
}

static void measure(const struct attn_row_tile *tile, const struct attn_gradient_rows *rows)
{
    const struct attn_gradient_workspace *work = &tile->work;
    const float sink = attn_mask_sink(&tile->plan->problem.attention, tile->q_head);
    const size_t bytes = (size_t)tile->row_count * sizeof(float);

    if (can_recall(tile))
        recall(tile);
    else {
        attn_row_tile_load(tile);
        measure_softmax(tile, sink);
    }
    if (tile->thresholds != NULL)
        measure_sparsemax(tile, sink);
    memcpy(rows->ranges + tile->first, work->ranges,
           (size_t)tile->row_count * sizeof *work->ranges);
    memcpy(rows->max + tile->first, work->max, bytes);
    memcpy(rows->factor + tile->first, work->sum, bytes);
    memcpy(rows->delta + tile->first, work->delta, bytes);
    memcpy(rows->delta_low + tile->first, work->delta_low, bytes);
}

/* Add the gradients of n masked scores with respect to the slope of ALiBi, row by row. */
static void add_slopes(const struct attn_row_tile *tile, double *slopes, int64_t n)
{
    const struct attn_gradient_workspace *work = &tile->work;

    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < tile->row_count; r++)
            slopes[r] -= (double)work->gradient_t[j * tile->plan->row_width + r]
                         * fabs((double)work->distance[r] - (double)j);
}

/* Add the gradients of the scores to those of the query and to the sums over rows. */
static void add_scores(const struct attn_row_tile *tile, const struct attn_gradient_rows *rows)
{
    const struct attn_gradient_plan_full *plan = tile->plan;
    const struct attn_tensor *keys = &plan->problem.attention.key;
    const size_t sum_bytes = (size_t)(keys->shape[3] * plan->row_width) * sizeof(float);
    int64_t n;

    attn_row_tile_load(tile);
    memset(tile->work.first_sum_t, 0, sum_bytes);
    if (rows->weight_sums != NULL)
        memset(tile->work.weight_sum_t, 0, sum_bytes);
    for (int64_t r = 0; rows->slopes != NULL && r < tile->row_count; r++)
        rows->slopes[tile->first + r] = 0.0;
    for (int64_t key = tile->any.low; next_keys(tile, key, &n); key += n) {
        attn_row_tile_gradient(tile, key, n);
        if (rows->slopes != NULL)
            add_slopes(tile, rows->slopes + tile->first, n);
        if (plan->problem.attention.additive_weight == NULL)
            continue;
        attn_gradient_uncap(plan, &tile->work, n, plan->row_width);
        attn_gradient_add(plan, &tile->work, attn_tensor_row(keys, tile->batch, tile->kv_head, key),
                          keys->stride[2], n, plan->row_width, hides(tile, key, n), true);
    }
}

/* Write the query's gradient, or set it to 0 where key tasks add to it later. */
static void store_query(const struct attn_row_tile *tile)
{
    const struct attn_gradient_plan_full *plan = tile->plan;
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *gradient = &plan->problem.query_gradient;

    if (gradient->data == NULL)
        return;
    if (attn_gradient_keys_make_query(&plan->problem)) {
        for (int64_t r = 0; r < tile->row_count; r++)
            memset(attn_tensor_row(gradient, tile->batch, tile->q_head, tile->row + r), 0,
                   (size_t)gradient->shape[3] * sizeof(float));
        return;
    }
    for (int64_t r = 0; r < plan->row_width; r++)
        tile->work.rescale[r] = attn_gradient_query_factor(attention);
    plan->kernels->transpose_out(attn_tensor_row(gradient, tile->batch, tile->q_head, tile->row),
                                 gradient->stride[2], tile->work.first_sum_t, tile->work.rescale,
                                 tile->row_count, gradient->shape[3], plan->row_width);
}

void attn_gradient_run_rows(const struct attn_gradient_plan_full *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace)
{
    const struct attn_gradient_problem *problem = &plan->problem;
    const int64_t head = task / plan->row_tiles;
    const int64_t q_heads = problem->attention.query.shape[1];
    const int64_t head_dim = problem->attention.query.shape[3];
    const int64_t width = plan->row_width;
    struct attn_row_tile tile;

    attn_row_tile_begin(&tile, plan, head / q_heads, head % q_heads,
                        task % plan->row_tiles * plan->row_tile, rows, workspace);
    measure(&tile, rows);
    if (rows->slopes != NULL || rows->weight_sums != NULL
        || (problem->query_gradient.data != NULL && !attn_gradient_keys_make_query(problem)))
        add_scores(&tile, rows);
    store_query(&tile);
    for (int64_t d = 0; rows->weight_sums != NULL && d < head_dim; d++) {
        double sum = 0.0;
        for (int64_t r = 0; r < tile.row_count; r++)
            sum += (double)tile.work.weight_sum_t[d * width + r];
        rows->weight_sums[task * head_dim + d] = sum;
    }
}
