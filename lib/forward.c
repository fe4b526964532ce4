/* forward.c - the one loop nest of attention.
 *
 * A task is a tile of query rows of one head, transposed once so that its rows are the lanes of
 * vectors. It meets the keys a tile at a time:
 *
 *     scores_t = key . query_t (or the  -> scores       each map leaves as soon as it is there,
 *         additive score of each pair)
 *     cap                               -> softcapped   for those who asked; what is computed
 *     ALiBi, bounds of each row, mask   -> masked       does not depend on it
 *     online softmax                    max, sum, and by how much older sums shrink
 *     dropout                           of what the context is made of
 *     context_t = rescale * context_t + value . weights_t
 *
 * (Dao et al. 2022, with the roles of rows and lanes as kernels.h has them; fold.h keeps long sums
 * exact.) Only weights need the
 * last max and sum of their row: their rows hold masked scores until the last tile is done. Keys
 * that no row of the task can see are skipped, unless a map has to show them. What is not F32
 * is widened or rounded a tile at a time (convert.h); weights that are not are made in a second
 * pass over the keys, for their rows could not hold the scores. */
#include "convert.h"
#include "dropout.h"
#include "few.h"
#include "fold.h"
#include "internal.h"
#include "mask.h"
#include "seen.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

struct row_task {
    const struct attn_plan *plan;
    const struct attn_problem *problem;
    const struct attn_kernels *kernels;
    struct attn_workspace work;
    int64_t batch, q_head, kv_head;
    int64_t row, row_count; /* query rows [row, row + row_count) */

    /* Of the key ranges of these rows: what any row may see, and what every row may see. */
    struct key_range any, every;

    bool needs_map;     /* of the first pass: somebody wants to see every pair, hidden or not */
    bool keeps_weights; /* their rows hold masked scores until the last tile is done */
    bool needs_softmax; /* else the work ends with the masked scores */
    bool sums_context;  /* beside the softmax */
    bool is_sparse;     /* the weights are those of sparsemax; max and lse still the softmax's */
};

/* Keys [first + from, first + to) of the tile that begins at key first. */
struct tile {
    int64_t first;
    int64_t from, to;
};

static bool is_wanted(const struct attn_tensor *output)
{
    return output->data != NULL;
}

/* columns columns from column on of the task's rows. */
static struct attn_block block_of(const struct row_task *task, int64_t column, int64_t columns)
{
    return (struct attn_block){ task->batch,     task->q_head, task->row,
                                task->row_count, column,       columns };
}

/* -------------------------------------------------------------------- before the keys -- */

static void find_ranges(struct row_task *task)
{
    const int64_t kv_len = task->problem->key.shape[2];
    struct attn_workspace *work = &task->work;

    task->any = (struct key_range){ kv_len, 0 };
    task->every = (struct key_range){ 0, kv_len };
    for (int64_t r = 0; r < task->plan->width; r++) {
        struct key_range range = { 0, kv_len }; /* lanes without a row: nothing to hide */
        if (r < task->row_count) {
            range = attn_mask_row(task->problem, task->batch, task->row + r);
            task->every.low = attn_max(task->every.low, range.low);
            task->every.high = attn_min(task->every.high, range.high);
            if (range.low < range.high) {
                task->any.low = attn_min(task->any.low, range.low);
                task->any.high = attn_max(task->any.high, range.high);
            }
        }
        work->low[r] = range.low;
        work->high[r] = range.high;
    }
    if (task->any.low >= task->any.high)
        task->any = (struct key_range){ 0, 0 };
}

static void begin(struct row_task *task, const struct attn_plan *plan, int64_t number,
                  void *workspace)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t head = number / plan->q_tiles;
    const int64_t q_heads = problem->query.shape[1];
    const float sink = problem->sinks != NULL ? problem->sinks[head % q_heads] : -INFINITY;

    task->plan = plan;
    task->problem = problem;
    task->kernels = plan->kernels;
    attn_workspace_cut(&task->work, plan, workspace);
    task->batch = head / q_heads;
    task->q_head = head % q_heads;
    task->kv_head = task->q_head / (q_heads / problem->key.shape[1]);
    task->row = number % plan->q_tiles * plan->q_tile;
    task->row_count = attn_min(plan->q_tile, problem->query.shape[2] - task->row);
    task->keeps_weights = is_wanted(&problem->weights) && problem->weights.dtype == ATTN_F32;
    task->needs_map = is_wanted(&problem->scores) || is_wanted(&problem->softcapped)
                      || is_wanted(&problem->masked) || task->keeps_weights;
    task->needs_softmax =
        is_wanted(&problem->context) || is_wanted(&problem->lse) || is_wanted(&problem->weights);
    task->is_sparse = problem->options.normalizer == ATTN_SPARSEMAX;
    task->sums_context = is_wanted(&problem->context) && !task->is_sparse;
    find_ranges(task);

    const struct attn_block block = block_of(task, 0, problem->query.shape[3]);
    int64_t stride;
    const float *query =
        attn_block_read(task->kernels, &problem->query, &block, task->work.rows, &stride);
    task->kernels->transpose_in(
        task->work.query_t, query, stride, task->row_count, block.columns,
        problem->additive_weight != NULL ? 1.0f : (float)problem->options.scale, plan->width);
    for (int64_t r = 0; r < plan->width; r++) {
        task->work.max[r] = sink;
        task->work.sum[r] = sink == -INFINITY ? 0.0f : 1.0f;
    }
    memset(task->work.context_t, 0,
           (size_t)(problem->value.shape[3] * plan->width) * sizeof(float));
    attn_fold_begin(plan, &task->work);
}

/* --------------------------------------------------------------------- a tile of keys -- */

/* What some row of the task may see of the tile; empty where from == to. */
static struct tile visible_part(const struct row_task *task, int64_t first, int64_t n)
{
    const int64_t from = attn_max(task->any.low - first, 0);
    const int64_t to = attn_min(task->any.high - first, n);

    return from < to ? (struct tile){ first, from, to } : (struct tile){ first, 0, 0 };
}

/* Whether a key of the tile lies outside some row's range. */
static bool is_cut(const struct row_task *task, const struct tile *tile)
{
    return task->every.low > tile->first + tile->from || task->every.high < tile->first + tile->to;
}

/* A transposed tile to the columns of an output from column on. */
static void store(const struct row_task *task, const struct attn_tensor *output, int64_t column,
                  int64_t columns, const float *tile, const float *factor)
{
    const struct attn_block block = block_of(task, column, columns);
    int64_t stride;
    float *rows = attn_block_place(output, &block, task->work.rows, &stride);

    task->kernels->transpose_out(rows, stride, tile, factor, task->row_count, columns,
                                 task->plan->width);
    attn_block_written(task->kernels, output, &block, rows);
}

static void store_map(const struct row_task *task, const struct attn_tensor *map,
                      const struct tile *tile)
{
    if (is_wanted(map))
        store(task, map, tile->first + tile->from, tile->to - tile->from, task->work.scores_t,
              NULL);
}

/* The keys or values of the tile as floats. */
static const float *rows_of(const struct row_task *task, const struct attn_tensor *tensor,
                            const struct tile *tile, int64_t *stride)
{
    const struct attn_block block = { .batch = task->batch,
                                      .head = task->kv_head,
                                      .row = tile->first + tile->from,
                                      .row_count = tile->to - tile->from,
                                      .columns = tensor->shape[3] };

    return attn_block_read(task->kernels, tensor, &block, task->work.rows, stride);
}

/* Where the tile of the first visible key begins. */
static int64_t first_tile(const struct row_task *task)
{
    return task->any.low / task->plan->kv_tile * task->plan->kv_tile;
}

/* The cut tile for seen.h. */
static struct attn_seen seen_of(const struct row_task *task, const struct tile *tile)
{
    return (struct attn_seen){ task->kernels,
                               &task->work,
                               task->row_count,
                               task->plan->width,
                               tile->first + tile->from,
                               tile->to - tile->from };
}

static void score(const struct row_task *task, const struct tile *tile)
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
    else if (is_cut(task, tile) && !is_wanted(&problem->scores)
             && !is_wanted(&problem->softcapped)) {
        const struct attn_seen seen = seen_of(task, tile);
        attn_seen_scores(&seen, scores_t, key, key_stride, head_dim);
    } else
        kernels->score_tile(scores_t, task->work.query_t, key, key_stride, n, head_dim, width);
    store_map(task, &problem->scores, tile);
    if (problem->options.softcap > 0.0)
        kernels->softcap_tile(scores_t, (float)problem->options.softcap, n, width);
    store_map(task, &problem->softcapped, tile);
}

static void mask(const struct row_task *task, const struct tile *tile)
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
    if (is_cut(task, tile)) {
        for (int64_t r = 0; r < width; r++) {
            work->tile_low[r] = (int32_t)attn_max(0, attn_min(work->low[r] - key, n));
            work->tile_high[r] = (int32_t)attn_max(0, attn_min(work->high[r] - key, n));
        }
        task->kernels->bound_tile(work->scores_t, work->tile_low, work->tile_high, n, width);
    }
    if (task->problem->mask.data != NULL) {
        attn_mask_gather(task->problem, task->kernels, task->batch, task->q_head, task->row,
                         task->row_count, key, n, width, work->bias_t);
        task->kernels->bias_tile(work->scores_t, work->bias_t, n, width);
    }
}

/* Every row of the task is barred from the whole tile. */
static void mask_whole(const struct row_task *task, const struct tile *tile)
{
    const int64_t count = (tile->to - tile->from) * task->plan->width;

    for (int64_t i = 0; i < count; i++)
        task->work.scores_t[i] = -INFINITY;
}

/* Of a tile of weights. */
static void drop(const struct row_task *task, const struct tile *tile, float *weights_t)
{
    const int64_t width = task->plan->width;

    for (int64_t r = 0; r < task->row_count; r++)
        attn_dropout_row(task->problem, task->batch, task->q_head, task->row + r,
                         tile->first + tile->from, tile->to - tile->from, weights_t + r, width);
}

/* The weights of a tile, which have their max and sum in the workspace, into the context. */
static void add_context(const struct row_task *task, const struct tile *tile, float *weights_t)
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
    const bool hides = is_cut(task, tile) || problem->mask.data != NULL || drops || task->is_sparse;
    const bool guarded = hides && !kernels->all_finite(rows, stride, n, value->shape[3]);
    if (guarded)
        kernels->context_tile_guarded(work->context_t, work->rescale, weights_t, rows, stride, n,
                                      value->shape[3], width);
    else if (is_cut(task, tile)) {
        const struct attn_seen seen = seen_of(task, tile);
        attn_seen_context(&seen, weights_t, rows, stride, value->shape[3]);
    } else
        kernels->context_tile(work->context_t, work->rescale, weights_t, rows, stride, n,
                              value->shape[3], width);
}

/* scores_t are the masked scores of the tile; they become weights. */
static void accumulate(const struct row_task *task, const struct tile *tile, float *scores_t)
{
    const struct attn_workspace *work = &task->work;

    task->kernels->softmax_tile(scores_t, work->max, work->sum, work->rescale,
                                tile->to - tile->from, task->plan->width);
    attn_fold_rescale(task->plan, work);
    if (task->sums_context)
        add_context(task, tile, scores_t);
}

static void run_tile(const struct row_task *task, int64_t first, int64_t n)
{
    const struct attn_problem *problem = task->problem;
    const struct tile visible = visible_part(task, first, n);
    const struct tile tile = task->needs_map ? (struct tile){ first, 0, n } : visible;
    const bool is_visible = visible.from < visible.to;

    if (is_visible || is_wanted(&problem->scores) || is_wanted(&problem->softcapped))
        score(task, &tile);
    if (is_visible)
        mask(task, &tile);
    else
        mask_whole(task, &tile);
    store_map(task, &problem->masked, &tile);
    if (task->keeps_weights)
        store_map(task, &problem->weights, &tile);
    if (is_visible && task->needs_softmax)
        accumulate(task, &visible,
                   task->work.scores_t + (visible.from - tile.from) * task->plan->width);
}

/* ----------------------------------------------------------------------- a second pass -- */

/* The masked scores of what is visible of a tile, once more. Maps that are written again get what
 * they have. */
static bool score_again(const struct row_task *task, int64_t first, struct tile *tile)
{
    const int64_t kv_len = task->problem->key.shape[2];

    *tile = visible_part(task, first, attn_min(task->plan->kv_tile, kv_len - first));
    if (tile->from >= tile->to)
        return false;
    score(task, tile);
    mask(task, tile);
    return true;
}

/* Rounds over the keys until every row has its threshold. */
static void find_thresholds(const struct row_task *task)
{
    struct attn_threshold *rows = task->work.thresholds;
    const float sink =
        task->problem->sinks != NULL ? task->problem->sinks[task->q_head] : -INFINITY;
    struct tile tile;
    bool again = true;

    for (int64_t r = 0; r < task->row_count; r++)
        attn_threshold_init(&rows[r], task->work.max[r], sink);
    while (again) {
        for (int64_t key = first_tile(task); key < task->any.high; key += task->plan->kv_tile)
            if (score_again(task, key, &tile))
                attn_threshold_add(rows, task->row_count, task->work.scores_t, tile.to - tile.from,
                                   task->plan->width);
        again = false;
        for (int64_t r = 0; r < task->row_count; r++)
            again = attn_threshold_improve(&rows[r]) || again;
    }
}

static void add_sparse_context(const struct row_task *task)
{
    const struct attn_workspace *work = &task->work;
    const int64_t width = task->plan->width;
    struct tile tile;

    for (int64_t r = 0; r < width; r++) {
        work->rescale[r] = 1.0f;
        work->sum[r] = 1.0f;
    }
    for (int64_t key = first_tile(task); key < task->any.high; key += task->plan->kv_tile) {
        if (!score_again(task, key, &tile))
            continue;
        for (int64_t r = 0; r < task->row_count; r++)
            attn_sparsemax_row(&work->thresholds[r], work->scores_t + r, tile.to - tile.from,
                               width);
        add_context(task, &tile, work->scores_t);
    }
}

/* --------------------------------------------------------------------- after the keys -- */

/* The masked scores of row r and of n keys from key on become weights. */
static void finish_row(const struct row_task *task, int64_t r, float *row, int64_t key, int64_t n)
{
    if (task->is_sparse)
        attn_sparsemax_row(&task->work.thresholds[r], row, n, 1);
    else
        task->kernels->weights_row(row, task->work.max[r], task->work.sum[r], n);
    if (task->problem->options.dropout > 0.0f)
        attn_dropout_row(task->problem, task->batch, task->q_head, task->row + r, key, n, row, 1);
}

/* Weights that are not F32, from the scores computed again. */
static void store_weights(const struct row_task *task)
{
    const struct attn_tensor *weights = &task->problem->weights;
    const int64_t kv_len = weights->shape[3];
    float *rows = task->work.rows;
    struct tile tile;

    for (int64_t key = 0; key < kv_len; key += task->plan->kv_tile) {
        const int64_t n = attn_min(task->plan->kv_tile, kv_len - key);
        const struct attn_block block = block_of(task, key, n);
        const bool is_visible = score_again(task, key, &tile);
        memset(rows, 0, (size_t)(task->row_count * n) * sizeof *rows);
        if (is_visible) {
            const int64_t visible = tile.to - tile.from;
            task->kernels->transpose_out(rows + tile.from, n, task->work.scores_t, NULL,
                                         task->row_count, visible, task->plan->width);
            for (int64_t r = 0; r < task->row_count; r++)
                finish_row(task, r, rows + r * n + tile.from, key + tile.from, visible);
        }
        attn_block_written(task->kernels, weights, &block, rows);
    }
}

static void finish_weights(const struct row_task *task)
{
    const struct attn_tensor *weights = &task->problem->weights;

    if (!task->keeps_weights) {
        store_weights(task);
        return;
    }
    for (int64_t r = 0; r < task->row_count; r++)
        finish_row(task, r, attn_tensor_row(weights, task->batch, task->q_head, task->row + r), 0,
                   weights->shape[3]);
}

static void finish_lse(const struct row_task *task)
{
    const struct attn_workspace *work = &task->work;

    for (int64_t r = 0; r < task->plan->width; r++)
        work->factor[r] = work->sum[r] == 0.0f
                              ? -INFINITY
                              : (float)((double)work->max[r] + log((double)work->sum[r]));
    store(task, &task->problem->lse, 0, 1, work->factor, NULL);
}

static void finish_context(const struct row_task *task)
{
    const struct attn_tensor *context = &task->problem->context;
    float *factor = task->work.factor;

    for (int64_t r = 0; r < task->plan->width; r++)
        factor[r] = task->work.sum[r] == 0.0f ? 0.0f : 1.0f / task->work.sum[r];
    store(task, context, 0, context->shape[3], task->work.context_t, factor);
}

void attn_plan_run(const struct attn_plan *plan, int64_t task, void *workspace)
{
    const int64_t kv_len = plan->problem.key.shape[2];
    struct row_task rows;

    if (plan->in_double) {
        attn_double_run(plan, task, workspace);
        return;
    }
    if (plan->is_few) {
        attn_few_run(plan, task, workspace);
        return;
    }
    begin(&rows, plan, task, workspace);
    const int64_t first = rows.needs_map ? 0 : first_tile(&rows);
    const int64_t end = rows.needs_map ? kv_len : rows.any.high;
    for (int64_t key = first; key < end; key += plan->kv_tile) {
        run_tile(&rows, key, attn_min(plan->kv_tile, kv_len - key));
        attn_fold_tile(plan, &rows.work, key, rows.sums_context);
    }
    attn_fold_end(plan, &rows.work, rows.sums_context);
    if (is_wanted(&plan->problem.lse))
        finish_lse(&rows);
    if (rows.is_sparse && (is_wanted(&plan->problem.weights) || is_wanted(&plan->problem.context)))
        find_thresholds(&rows);
    if (is_wanted(&plan->problem.weights))
        finish_weights(&rows);
    if (rows.is_sparse && is_wanted(&plan->problem.context))
        add_sparse_context(&rows);
    if (is_wanted(&plan->problem.context))
        finish_context(&rows);
}
