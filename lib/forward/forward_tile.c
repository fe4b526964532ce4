/* SPDX-License-Identifier: Apache-2.0 */
/* forward_tile.c - one tile, from keys to context, and what is read next. Hidden keys and values
 * may hold anything, so only the part of a tile that some row sees is read. While a tile is
 * computed, the next one is prefetched (kernels/prefetch.h). */
#include "forward/forward_tile.h"

#include "base/random.h"

#include <math.h>

/* -------------------------------------------------------------------- rows of a task -- */

static void find_ranges(struct attn_row_task *task)
{
    struct key_range *ranges = task->work.ranges;

    attn_mask_rows(task->problem, task->batch, task->row, task->row_count, ranges, &task->any,
                   &task->every);
    /* Lanes without a row see everything, so that they need no bounds. */
    for (int64_t r = task->row_count; r < task->plan->width; r++)
        ranges[r] = (struct key_range){ 0, task->problem->key.shape[2] };
}

void attn_task_place(struct attn_row_task *task, const struct attn_plan_full *plan, int64_t head,
                     int64_t row, int64_t row_count)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t q_heads = problem->query.shape[1];

    task->plan = plan;
    task->problem = problem;
    task->kernels = plan->kernels;
    task->batch = head / q_heads;
    task->q_head = head % q_heads;
    task->kv_head = task->q_head / (q_heads / problem->key.shape[1]);
    task->row = row;
    task->row_count = row_count;
    task->needs = attn_needs_of(problem);
    task->is_sparse = problem->options.normalizer == ATTN_SPARSEMAX;
    task->sums_context = attn_is_wanted(&problem->context) && !task->is_sparse;
    find_ranges(task);
}

struct attn_block attn_task_block(const struct attn_row_task *task, int64_t column, int64_t columns)
{
    return (struct attn_block){ task->batch,     task->q_head, task->row,
                                task->row_count, column,       columns };
}

/* -------------------------------------------------------------------- what comes next -- */

static const struct attn_upcoming no_rows = { NULL, 0, 0, 0 };

/* count rows of one head, from row on, as far as they lie together; an absent tensor has none. */
static struct attn_upcoming upcoming_rows(const struct attn_tensor *tensor, int64_t batch,
                                          int64_t head, int64_t row, int64_t count)
{
    if (tensor->data == NULL || count <= 0)
        return no_rows;
    const struct attn_run run = attn_tensor_run(tensor, batch, head, row, count);
    const int64_t bytes = (int64_t)attn_dtype_size(run.dtype);
    return (struct attn_upcoming){ run.row, tensor->stride[2] * bytes, tensor->shape[3] * bytes,
                                   run.count };
}

/* The keys of the tile that begins at first. */
static struct attn_upcoming upcoming_keys(const struct attn_row_task *task, int64_t batch,
                                          int64_t kv_head, int64_t first, int64_t end)
{
    return upcoming_rows(&task->problem->key, batch, kv_head, first,
                         attn_min(task->plan->kv_tile, end - first));
}

static void append(struct attn_row_task *task, int *count, struct attn_upcoming rows)
{
    if (rows.count > 0)
        task->upcoming[(*count)++] = rows;
}

/* Append the query rows of the next task by number, and its first keys. The thread that runs this
 * task may be given a different task next; then some lines were prefetched in vain. */
static void append_next_task(struct attn_row_task *task, int *count)
{
    const struct attn_plan_full *plan = task->plan;
    const struct attn_problem *problem = task->problem;
    const int64_t q_heads = problem->query.shape[1];
    const int64_t number =
        (task->batch * q_heads + task->q_head) * plan->q_tiles + task->row / plan->q_tile + 1;
    const int64_t batch = number / plan->q_tiles / q_heads;
    const int64_t head = number / plan->q_tiles % q_heads;
    const int64_t row = number % plan->q_tiles * plan->q_tile;

    if (number >= plan->task_count)
        return;
    const struct key_range range = attn_mask_row(problem, batch, row);
    append(task, count,
           upcoming_rows(&problem->query, batch, head, row,
                         attn_min(plan->q_tile, problem->query.shape[2] - row)));
    append(task, count,
           upcoming_keys(task, batch, head / (q_heads / problem->key.shape[1]),
                         range.low / plan->kv_tile * plan->kv_tile, problem->key.shape[2]));
}

void attn_task_look_ahead(struct attn_row_task *task, int64_t first, int64_t end)
{
    const struct attn_problem *problem = task->problem;
    const int64_t next = first + task->plan->kv_tile;
    const struct attn_tile tile = attn_tile_visible(task, first, attn_min(next, end) - first);
    int count = 0;

    append(task, &count,
           upcoming_rows(&problem->value, task->batch, task->kv_head, first + tile.from,
                         tile.to - tile.from));
    if (next < end) {
        append(task, &count, upcoming_keys(task, task->batch, task->kv_head, next, end));
    } else {
        append(task, &count,
               upcoming_rows(&problem->context, task->batch, task->q_head, task->row,
                             task->row_count));
        append_next_task(task, &count);
    }
    task->upcoming[count] = no_rows;
    *task->prefetch = (struct attn_prefetch){ .list = task->upcoming };
}

/* --------------------------------------------------------------------- a tile of keys -- */

struct attn_tile attn_tile_visible(const struct attn_row_task *task, int64_t first, int64_t n)
{
    const int64_t from = attn_max(task->any.low - first, 0);
    const int64_t to = attn_min(task->any.high - first, n);

    return from < to ? (struct attn_tile){ first, from, to, ATTN_SEES_ALL }
                     : (struct attn_tile){ first, 0, 0, ATTN_SEES_NOTHING };
}

bool attn_tile_scan(const struct attn_row_task *task, struct attn_tile *tile)
{
    tile->sees = attn_mask_scan(task->problem, task->kernels, task->batch, task->q_head, task->row,
                                task->row_count, tile->first + tile->from, tile->to - tile->from,
                                task->work.bits);
    return tile->sees != ATTN_SEES_NOTHING;
}

/* Is a key of the tile outside of some row's range? */
static bool is_cut(const struct attn_row_task *task, const struct attn_tile *tile)
{
    return attn_range_cuts(&task->every, tile->first + tile->from, tile->first + tile->to);
}

void attn_task_store(const struct attn_row_task *task, const struct attn_tensor *output,
                     int64_t column, int64_t columns, const float *tile, const float *factor)
{
    const struct attn_block block = attn_task_block(task, column, columns);
    int64_t stride;
    float *rows = attn_block_place(output, &block, task->work.rows, &stride);

    task->kernels->transpose_out(rows, stride, tile, factor, task->row_count, columns,
                                 task->plan->width);
    attn_block_written(task->kernels, output, &block, rows);
}

void attn_tile_store(const struct attn_row_task *task, const struct attn_tensor *map,
                     const struct attn_tile *tile)
{
    if (attn_is_wanted(map))
        attn_task_store(task, map, tile->first + tile->from, tile->to - tile->from,
                        task->work.scores_t, NULL);
}

/* The keys or values of the tile as floats. */
static const float *rows_of(const struct attn_row_task *task, const struct attn_tensor *tensor,
                            const struct attn_tile *tile, int64_t *stride)
{
    const struct attn_block block = { .batch = task->batch,
                                      .head = task->kv_head,
                                      .row = tile->first + tile->from,
                                      .row_count = tile->to - tile->from,
                                      .columns = tensor->shape[3] };

    return attn_block_read(task->kernels, tensor, &block, task->work.rows, stride);
}

/* The tile as visible_ranges.c takes it; the tile is cut. */
static struct attn_seen seen_of(const struct attn_row_task *task, const struct attn_tile *tile)
{
    return (struct attn_seen){ task->kernels,
                               &task->work,
                               task->row_count,
                               task->plan->width,
                               tile->first + tile->from,
                               tile->to - tile->from };
}

void attn_tile_score(const struct attn_row_task *task, const struct attn_tile *tile)
{
    const struct attn_problem *problem = task->problem;
    const struct attn_kernels *kernels = task->kernels;
    int64_t key_stride;
    const float *key = rows_of(task, &problem->key, tile, &key_stride);
    const int64_t head_dim = problem->key.shape[3];
    const int64_t n = tile->to - tile->from;
    const int64_t width = task->plan->width;
    float *scores_t = task->work.scores_t;

    if (problem->additive_weight != NULL)
        kernels->additive_tile(scores_t, task->work.query_t, key, key_stride,
                               problem->additive_weight, (float)problem->options.scale, n, head_dim,
                               width);
    else if (is_cut(task, tile) && !task->needs.scores) {
        const struct attn_seen seen = seen_of(task, tile);
        attn_seen_scores(&seen, scores_t, key, key_stride, head_dim, task->prefetch);
    } else
        kernels->score_tile(scores_t, task->work.query_t, key, key_stride, n, head_dim, width,
                            task->prefetch);
    attn_tile_store(task, &problem->scores, tile);
    if (problem->options.softcap > 0.0)
        kernels->softcap_tile(scores_t, (float)problem->options.softcap, n, width);
    attn_tile_store(task, &problem->softcapped, tile);
}

void attn_tile_mask(const struct attn_row_task *task, const struct attn_tile *tile)
{
    const struct attn_workspace *work = &task->work;
    const int64_t n = tile->to - tile->from;
    const int64_t key = tile->first + tile->from;
    const int64_t width = task->plan->width;

    if (task->problem->alibi_slopes != NULL) {
        attn_mask_distances(task->problem, task->batch, task->row, tile->first, width,
                            work->distance);
        task->kernels->alibi_tile(work->scores_t, task->problem->alibi_slopes[task->q_head],
                                  work->distance, tile->from, n, width);
    }
    if (tile->sees == ATTN_SEES_BITS)
        task->kernels->mask_tile(work->scores_t, work->bits, n, width);
    if (tile->sees == ATTN_SEES_BIASES) {
        attn_mask_gather(task->problem, task->kernels, task->batch, task->q_head, task->row,
                         task->row_count, key, n, width, work->bias_t);
        task->kernels->bias_tile(work->scores_t, work->bias_t, n, width);
    }
}

/* The keys of a cut tile that each lane sees, counted from the tile's first key. */
static void find_bounds(const struct attn_row_task *task, const struct attn_tile *tile)
{
    const struct attn_workspace *work = &task->work;
    const int64_t n = tile->to - tile->from;
    const int64_t key = tile->first + tile->from;

    for (int64_t r = 0; r < task->plan->width; r++) {
        work->tile_low[r] = (int32_t)attn_max(0, attn_min(work->ranges[r].low - key, n));
        work->tile_high[r] = (int32_t)attn_max(0, attn_min(work->ranges[r].high - key, n));
    }
}

void attn_tile_bound(const struct attn_row_task *task, const struct attn_tile *tile)
{
    const struct attn_workspace *work = &task->work;

    if (!is_cut(task, tile))
        return;
    find_bounds(task, tile);
    task->kernels->bound_tile(work->scores_t, work->tile_low, work->tile_high,
                              tile->to - tile->from, task->plan->width);
}

/* The weights of the last keys of a tile are added one by one, those of whole steps of
 * ATTN_SOFTMAX_KEYS together. Hidden keys up to a whole step make the sum that of a longer tile. */
static int64_t pad_to_step(const struct attn_row_task *task, int64_t n, float *scores_t)
{
    const int64_t width = task->plan->width;
    const int64_t padded = attn_divide_up(n, ATTN_SOFTMAX_KEYS) * ATTN_SOFTMAX_KEYS;

    if (!task->problem->options.is_prefix_stable)
        return n;
    for (int64_t i = n * width; i < padded * width; i++)
        scores_t[i] = -INFINITY;
    return padded;
}

void attn_tile_softmax(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *scores_t)
{
    const struct attn_workspace *work = &task->work;
    const int64_t n = pad_to_step(task, tile->to - tile->from, scores_t);
    const int64_t width = task->plan->width;

    if (task->needs.pairs || !is_cut(task, tile)) {
        task->kernels->softmax_tile(scores_t, work->max, work->sum, work->rescale, n, width);
        return;
    }
    find_bounds(task, tile);
    task->kernels->softmax_bounded_tile(scores_t, work->tile_low, work->tile_high, work->max,
                                        work->sum, work->rescale, n, width);
}

void attn_tile_mask_whole(const struct attn_row_task *task, const struct attn_tile *tile)
{
    const int64_t count = (tile->to - tile->from) * task->plan->width;

    for (int64_t i = 0; i < count; i++)
        task->work.scores_t[i] = -INFINITY;
}

/* Apply dropout to a tile of weights. */
static void drop(const struct attn_row_task *task, const struct attn_tile *tile, float *weights_t)
{
    const int64_t width = task->plan->width;

    for (int64_t r = 0; r < task->row_count; r++)
        attn_dropout_row(task->problem, task->batch, task->q_head, task->row + r,
                         tile->first + tile->from, tile->to - tile->from, weights_t + r, width);
}

void attn_tile_context(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *weights_t)
{
    const struct attn_workspace *work = &task->work;
    const struct attn_problem *problem = task->problem;
    const struct attn_tensor *value = &problem->value;
    const struct attn_kernels *kernels = task->kernels;
    const int64_t n = tile->to - tile->from;
    const int64_t width = task->plan->width;
    const bool drops = problem->options.dropout > 0.0f;

    if (drops)
        drop(task, tile, weights_t);
    int64_t stride;
    const float *rows = rows_of(task, value, tile, &stride);
    const bool hides =
        is_cut(task, tile) || tile->sees != ATTN_SEES_ALL || drops || task->is_sparse;
    const bool guarded = hides && !kernels->all_finite(rows, stride, n, value->shape[3]);
    if (guarded)
        kernels->context_tile_guarded(work->context_t, work->rescale, weights_t, rows, stride, n,
                                      value->shape[3], width, task->prefetch);
    else if (is_cut(task, tile)) {
        const struct attn_seen seen = seen_of(task, tile);
        attn_seen_context(&seen, weights_t, rows, stride, value->shape[3], task->prefetch);
    } else
        kernels->context_tile(work->context_t, work->rescale, weights_t, rows, stride, n,
                              value->shape[3], width, task->prefetch);
}
