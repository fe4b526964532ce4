/* gradient_rows.c - tiles of query rows: what later tasks need of each row, and the gradient of the
 * query.
 *
 * A task meets its keys twice. The first time it finds the maximum and the sum of each row's
 * softmax, and delta, as a third running sum beside them: the sum of P * dP over the keys is what
 * Dao 2023 takes from G . context, here without the context and from the very numbers it is
 * subtracted from. The second time each tile of weights is computed again, to the same bits, and
 * becomes gradients. */
#include "dropout.h"
#include "gradient_internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------- before the keys -- */

static void find_ranges(struct attn_row_tile *tile)
{
    const struct attn_problem *attention = &tile->plan->problem.attention;
    const int64_t kv_len = attention->key.shape[2];

    tile->any = (struct key_range){ kv_len, 0 };
    tile->every = (struct key_range){ 0, kv_len };
    for (int64_t r = 0; r < tile->plan->row_width; r++) {
        struct key_range range = { 0, kv_len }; /* lanes without a row: nothing to hide */
        if (r < tile->row_count) {
            range = attn_mask_row(attention, tile->batch, tile->row + r);
            tile->every.low = attn_max(tile->every.low, range.low);
            tile->every.high = attn_min(tile->every.high, range.high);
            if (range.low < range.high) {
                tile->any.low = attn_min(tile->any.low, range.low);
                tile->any.high = attn_max(tile->any.high, range.high);
            }
        }
        tile->work.ranges[r] = range;
    }
    if (tile->any.low >= tile->any.high)
        tile->any = (struct key_range){ 0, 0 };
}

void attn_row_tile_begin(struct attn_row_tile *tile, const struct attn_gradient_plan *plan,
                         int64_t batch, int64_t q_head, int64_t row, void *workspace)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *query = &attention->query;
    const struct attn_tensor *context = &plan->problem.context_gradient;

    tile->plan = plan;
    attn_gradient_workspace_cut(&tile->work, plan, workspace);
    tile->batch = batch;
    tile->q_head = q_head;
    tile->kv_head = q_head / (query->shape[1] / attention->key.shape[1]);
    tile->row = row;
    tile->row_count = attn_min(plan->row_tile, query->shape[2] - row);
    find_ranges(tile);
    plan->kernels->transpose_in(tile->work.first_t, attn_tensor_row(query, batch, q_head, row),
                                query->stride[2], tile->row_count, query->shape[3],
                                (float)attention->options.scale, plan->row_width);
    plan->kernels->transpose_in(tile->work.second_t, attn_tensor_row(context, batch, q_head, row),
                                context->stride[2], tile->row_count, context->shape[3], 1.0f,
                                plan->row_width);
    for (int64_t r = 0; r < plan->row_width; r++)
        tile->work.ones[r] = 1.0f;
}

/* --------------------------------------------------------------------------- a tile of keys -- */

/* Whether some pair of the tile may be hidden. */
static bool hides(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    return tile->every.low > key || tile->every.high < key + n
           || tile->plan->problem.attention.mask.data != NULL;
}

/* gradient_t become the gradients of the weights of n keys: what the context is made of has passed
 * through dropout, and so does the way back. */
static void differentiate(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_gradient_plan *plan = tile->plan;
    const struct attn_problem *attention = &plan->problem.attention;
    const int64_t width = plan->row_width;
    float *gradient_t = tile->work.gradient_t;

    plan->kernels->score_tile(gradient_t, tile->work.second_t,
                              attn_tensor_row(&attention->value, tile->batch, tile->kv_head, key),
                              attention->value.stride[2], n, attention->value.shape[3], width);
    for (int64_t r = 0; attention->options.dropout > 0.0f && r < tile->row_count; r++)
        attn_dropout_row(attention, tile->batch, tile->q_head, tile->row + r, key, n,
                         gradient_t + r, width);
}

/* weights_t become the masked scores of n keys, and gradient_t the gradients of their weights. */
static void score(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_gradient_plan *plan = tile->plan;
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t width = plan->row_width;
    const float softcap = (float)attention->options.softcap;

    plan->kernels->score_tile(work->weights_t, work->first_t,
                              attn_tensor_row(&attention->key, tile->batch, tile->kv_head, key),
                              attention->key.stride[2], n, attention->key.shape[3], width);
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
    differentiate(tile, key, n);
}

void attn_row_tile_gradient(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_kernels *kernels = tile->plan->kernels;
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t width = tile->plan->row_width;

    score(tile, key, n);
    kernels->weights_tile(work->weights_t, work->max, work->sum, 0, n, width);
    kernels->softmax_gradient_tile(work->gradient_t, work->weights_t, work->delta, 0, n, width);
}

/* --------------------------------------------------------------------------------- the task -- */

/* Leaves max, 1 / sum and delta of each row in the workspace and in rows. */
static void measure(const struct attn_row_tile *tile, const struct attn_gradient_rows *rows)
{
    const struct attn_gradient_plan *plan = tile->plan;
    const struct attn_kernels *kernels = plan->kernels;
    const struct attn_gradient_workspace *work = &tile->work;
    const int64_t *query = plan->problem.attention.query.shape;
    const int64_t first = (tile->batch * query[1] + tile->q_head) * query[2] + tile->row;
    const int64_t width = plan->row_width;
    const float *sinks = plan->problem.attention.sinks;
    const float sink = sinks != NULL ? sinks[tile->q_head] : -INFINITY;

    for (int64_t r = 0; r < width; r++) {
        work->max[r] = sink;
        work->sum[r] = sink == -INFINITY ? 0.0f : 1.0f;
        work->delta[r] = 0.0f;
    }
    for (int64_t key = tile->any.low; key < tile->any.high; key += plan->other_tile) {
        const int64_t n = attn_min(plan->other_tile, tile->any.high - key);
        score(tile, key, n);
        kernels->softmax_tile(work->weights_t, work->max, work->sum, work->rescale, n, width);
        kernels->delta_tile(work->delta, work->rescale, work->weights_t, work->gradient_t, n,
                            width);
    }
    for (int64_t r = 0; r < width; r++) {
        work->sum[r] = work->sum[r] == 0.0f ? 0.0f : 1.0f / work->sum[r];
        work->delta[r] *= work->sum[r];
    }
    memcpy(rows->max + first, work->max, (size_t)tile->row_count * sizeof(float));
    memcpy(rows->factor + first, work->sum, (size_t)tile->row_count * sizeof(float));
    memcpy(rows->delta + first, work->delta, (size_t)tile->row_count * sizeof(float));
}

/* first_sum_t += gradients of the scores . keys. */
static void add_keys(const struct attn_row_tile *tile, int64_t key, int64_t n)
{
    const struct attn_gradient_plan *plan = tile->plan;
    const struct attn_kernels *kernels = plan->kernels;
    const struct attn_tensor *keys = &plan->problem.attention.key;
    const struct attn_gradient_workspace *work = &tile->work;
    const float *rows = attn_tensor_row(keys, tile->batch, tile->kv_head, key);
    const bool guarded =
        hides(tile, key, n) && !kernels->all_finite(rows, keys->stride[2], n, keys->shape[3]);

    (guarded ? kernels->context_tile_guarded
             : kernels->context_tile)(work->first_sum_t, work->ones, work->gradient_t, rows,
                                      keys->stride[2], n, keys->shape[3], plan->row_width);
}

void attn_gradient_run_rows(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *gradient = &plan->problem.query_gradient;
    const int64_t head = task / plan->row_tiles;
    const int64_t q_heads = attention->query.shape[1];
    const int64_t width = plan->row_width;
    const float softcap = (float)attention->options.softcap;
    struct attn_row_tile tile;

    attn_row_tile_begin(&tile, plan, head / q_heads, head % q_heads,
                        task % plan->row_tiles * plan->row_tile, workspace);
    measure(&tile, rows);
    if (gradient->data == NULL)
        return;
    memset(tile.work.first_sum_t, 0, (size_t)(gradient->shape[3] * width) * sizeof(float));
    for (int64_t key = tile.any.low; key < tile.any.high; key += plan->other_tile) {
        const int64_t n = attn_min(plan->other_tile, tile.any.high - key);
        attn_row_tile_gradient(&tile, key, n);
        if (softcap > 0.0f)
            plan->kernels->softcap_gradient_tile(tile.work.gradient_t, tile.work.capped_t, softcap,
                                                 n, width);
        add_keys(&tile, key, n);
    }
    for (int64_t r = 0; r < width; r++)
        tile.work.rescale[r] = (float)attention->options.scale;
    plan->kernels->transpose_out(attn_tensor_row(gradient, tile.batch, tile.q_head, tile.row),
                                 gradient->stride[2], tile.work.first_sum_t, tile.work.rescale,
                                 tile.row_count, gradient->shape[3], width);
}
