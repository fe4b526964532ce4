/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c - the one loop over tiles of attention.
 *
 * A task is a tile of query rows of one head, transposed once so that its rows are the lanes of
 * vectors. It processes the keys one tile at a time:
 *
 *     scores_t = key . query_t (or the  -> scores       each map is written as soon as it is
 *         additive score of each pair)                  known, if it is wanted; the computation
 *     cap                               -> softcapped   does not depend on which are wanted
 *     ALiBi, bounds of each row, mask   -> masked
 *     online softmax                    max, sum, and by how much older sums shrink
 *     dropout                           only for the context
 *     context_t = rescale * context_t + value . weights_t
 *
 * (Dao et al. 2022, with rows and lanes as in kernels.h; compensated.h keeps long sums exact.) Only
 * the weights output needs the final max and sum of its rows: its rows hold masked scores until the
 * last tile is done. Keys that no row of the task can see are skipped, also those that the caller's
 * mask hides, unless a map shows them. Tensors that are not F32 are widened or rounded a tile at a
 * time (convert.h). Weights that are not F32 are computed in a second pass over the keys, because
 * their rows could not hold the scores. */
#include "base/compensated.h"
#include "base/random.h"
#include "forward/decode.h"
#include "forward/forward_tile.h"
#include "forward/matrix_plan.h"
#include "forward/sparsemax.h"

#include <math.h>
#include <string.h>

/* -------------------------------------------------------------------- before the keys -- */

static void row_task_begin(struct attn_row_task *task, const struct attn_plan_full *plan,
                           int64_t number, void *workspace)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t row = number % plan->q_tiles * plan->q_tile;

    attn_workspace_cut(&task->work, plan, workspace);
    attn_task_place(task, plan, number / plan->q_tiles, row,
                    attn_min(plan->q_tile, problem->query.shape[2] - row));
    const float sink = attn_mask_sink(problem, task->q_head);
    *task->prefetch = (struct attn_prefetch){ 0 };

    const struct attn_block block = attn_task_block(task, 0, problem->query.shape[3]);
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
    attn_compensated_begin(plan, &task->work);
}

/* --------------------------------------------------------------------- a tile of keys -- */

/* Turn the masked scores of the tile, scores_t, into weights and add them. */
static void accumulate(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *scores_t)
{
    attn_tile_softmax(task, tile, scores_t);
    attn_compensated_rescale(task->plan, &task->work);
    if (task->sums_context)
        attn_tile_context(task, tile, scores_t);
}

static void run_tile(const struct attn_row_task *task, int64_t first, int64_t n)
{
    const struct attn_problem *problem = task->problem;
    struct attn_tile visible = attn_tile_visible(task, first, n);
    struct attn_tile tile =
        task->needs.pairs ? (struct attn_tile){ first, 0, n, ATTN_SEES_ALL } : visible;
    const bool is_visible = visible.from < visible.to && attn_tile_scan(task, &tile);
    visible.sees = tile.sees;
    if (!is_visible && !task->needs.pairs)
        return;

    if (is_visible || task->needs.scores)
        attn_tile_score(task, &tile);
    if (is_visible)
        attn_tile_mask(task, &tile);
    if (is_visible && task->needs.pairs)
        attn_tile_bound(task, &tile);
    if (!is_visible)
        attn_tile_mask_whole(task, &tile);
    attn_tile_store(task, &problem->masked, &tile);
    if (task->needs.weight_rows)
        attn_tile_store(task, &problem->weights, &tile);
    if (is_visible && task->needs.softmax)
        accumulate(task, &visible,
                   task->work.scores_t + (visible.from - tile.from) * task->plan->width);
}

/* ----------------------------------------------------------------------- a second pass -- */

/* Compute the masked scores of the visible part of a tile once more. Maps that are written again
 * get the same numbers. */
static bool score_again(const struct attn_row_task *task, int64_t first, struct attn_tile *tile)
{
    const int64_t kv_len = task->problem->key.shape[2];

    *tile = attn_tile_visible(task, first, attn_min(task->plan->kv_tile, kv_len - first));
    if (tile->from >= tile->to || !attn_tile_scan(task, tile))
        return false;
    attn_tile_score(task, tile);
    attn_tile_mask(task, tile);
    attn_tile_bound(task, tile);
    return true;
}

/* Pass over the keys until every row has its threshold. */
static void find_thresholds(const struct attn_row_task *task)
{
    struct attn_threshold *rows = task->work.thresholds;
    const float sink = attn_mask_sink(task->problem, task->q_head);
    struct attn_tile tile;
    bool again = true;

    for (int64_t r = 0; r < task->row_count; r++)
        attn_threshold_init(&rows[r], task->work.max[r], sink);
    while (again) {
        for (int64_t key = attn_first_tile(task); key < task->any.high; key += task->plan->kv_tile)
            if (score_again(task, key, &tile))
                attn_threshold_add(rows, task->row_count, task->work.scores_t, tile.to - tile.from,
                                   task->plan->width);
        again = false;
        for (int64_t r = 0; r < task->row_count; r++)
            again = attn_threshold_improve(&rows[r]) || again;
    }
}

static void add_sparse_context(const struct attn_row_task *task)
{
    const struct attn_workspace *work = &task->work;
    const int64_t width = task->plan->width;
    struct attn_tile tile;

    for (int64_t r = 0; r < width; r++) {
        work->rescale[r] = 1.0f;
        work->sum[r] = 1.0f;
    }
    for (int64_t key = attn_first_tile(task); key < task->any.high; key += task->plan->kv_tile) {
        if (!score_again(task, key, &tile))
            continue;
        for (int64_t r = 0; r < task->row_count; r++)
            attn_sparsemax_row(&work->thresholds[r], work->scores_t + r, tile.to - tile.from,
                               width);
        attn_tile_context(task, &tile, work->scores_t);
    }
}

/* --------------------------------------------------------------------- after the keys -- */

/* Turn the masked scores of row r, for n keys from key on, into weights. */
static void finish_row(const struct attn_row_task *task, int64_t r, float *row, int64_t key,
                       int64_t n)
{
    if (task->is_sparse)
        attn_sparsemax_row(&task->work.thresholds[r], row, n, 1);
    else
        task->kernels->weights_row(row, task->work.max[r], task->work.sum[r], n);
    if (task->problem->options.dropout > 0.0f)
        attn_dropout_row(task->problem, task->batch, task->q_head, task->row + r, key, n, row, 1);
}

/* Write weights that are not F32, from scores that are computed again. */
static void store_weights(const struct attn_row_task *task)
{
    const struct attn_tensor *weights = &task->problem->weights;
    const int64_t kv_len = weights->shape[3];
    float *rows = task->work.rows;
    struct attn_tile tile;

    for (int64_t key = 0; key < kv_len; key += task->plan->kv_tile) {
        const int64_t n = attn_min(task->plan->kv_tile, kv_len - key);
        const struct attn_block block = attn_task_block(task, key, n);
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

static void finish_weights(const struct attn_row_task *task)
{
    const struct attn_tensor *weights = &task->problem->weights;

    if (!task->needs.weight_rows) {
        store_weights(task);
        return;
    }
    for (int64_t r = 0; r < task->row_count; r++)
        finish_row(task, r, attn_tensor_row(weights, task->batch, task->q_head, task->row + r), 0,
                   weights->shape[3]);
}

static void finish_numbers(const struct attn_row_task *task)
{
    const struct attn_workspace *work = &task->work;

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        if (!attn_output_is_number(i) || !attn_is_wanted(&task->problem->out[i]))
            continue;
        for (int64_t r = 0; r < task->plan->width; r++)
            work->factor[r] = (float)attn_row_number(i, (double)work->max[r], (double)work->sum[r]);
        attn_task_store(task, &task->problem->out[i], 0, 1, work->factor, NULL);
    }
}

/* The largest score has the weight 1 / sum. */
static void keep_largest(const struct attn_row_task *task)
{
    const struct attn_problem *problem = task->problem;
    const int64_t head = task->batch * problem->query.shape[1] + task->q_head;
    float *largest = task->plan->largest_weights + head * problem->query.shape[2] + task->row;

    for (int64_t r = 0; r < task->row_count; r++)
        largest[r] = task->work.sum[r] == 0.0f ? 0.0f : 1.0f / task->work.sum[r];
}

static void finish_context(const struct attn_row_task *task)
{
    const struct attn_tensor *context = &task->problem->context;
    float *factor = task->work.factor;

    for (int64_t r = 0; r < task->plan->width; r++)
        factor[r] = task->work.sum[r] == 0.0f ? 0.0f : 1.0f / task->work.sum[r];
    attn_task_store(task, context, 0, context->shape[3], task->work.context_t, factor);
}

/* One tile of query rows. */
static void run_rows(const struct attn_plan_full *plan, int64_t task, void *workspace)
{
    const int64_t kv_len = plan->problem.key.shape[2];
    struct attn_prefetch prefetch;
    struct attn_row_task rows = { .prefetch = &prefetch };
    struct attn_plan_full narrow;
    const int64_t width = attn_plan_tile_width(plan, task % plan->q_tiles);
    if (width < plan->width) {
        narrow = *plan;
        narrow.width = width;
        plan = &narrow;
    }
    row_task_begin(&rows, plan, task, workspace);
    const int64_t first = rows.needs.pairs ? 0 : attn_first_tile(&rows);
    const int64_t end = rows.needs.pairs ? kv_len : rows.any.high;
    for (int64_t key = first; key < end; key += plan->kv_tile) {
        attn_task_look_ahead(&rows, key, end);
        run_tile(&rows, key, attn_min(plan->kv_tile, kv_len - key));
        attn_compensated_tile(plan, &rows.work, key, rows.sums_context);
    }
    attn_compensated_end(plan, &rows.work, rows.sums_context);
    finish_numbers(&rows);
    if (plan->largest_weights != NULL)
        keep_largest(&rows);
    if (rows.is_sparse
        && (attn_is_wanted(&plan->problem.weights) || attn_is_wanted(&plan->problem.context)))
        find_thresholds(&rows);
    if (attn_is_wanted(&plan->problem.weights) && !plan->keeps_scores)
        finish_weights(&rows);
    if (rows.is_sparse && attn_is_wanted(&plan->problem.context))
        add_sparse_context(&rows);
    if (attn_is_wanted(&plan->problem.context))
        finish_context(&rows);
}

/* What the matrix unit leaves of tasks: maps, and the context if there is dropout. It runs last,
 * because the sums of its rows stay in the workspace for weight_map.c. */
static void run_rest(const struct attn_plan_full *plan, int64_t first, int64_t end, void *workspace)
{
    struct attn_plan_full rest = *plan;

    rest.problem.lse.data = NULL;
    if (attn_matrix_sums_context(&plan->problem))
        rest.problem.context.data = NULL;
    for (int64_t task = first; task < end && attn_wants_output(&rest.problem); task++)
        run_rows(&rest, task, workspace);
}

void attn_plan_run(const struct attn_plan *plan, int64_t task, void *workspace)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    if (full->in_double) {
        attn_double_run(full, task, workspace);
    } else if (full->is_decode) {
        attn_decode_run(full, task, workspace);
    } else if (full->is_matrix) {
        attn_matrix_run(full, task, workspace);
        run_rest(full, task, task + 1, workspace);
    } else {
        run_rows(full, task, workspace);
    }
}

void attn_plan_run_part(const struct attn_plan *plan, int64_t part, void *shared, void *workspace)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    if (full->is_matrix)
        attn_matrix_run_part(full, part, shared, workspace);
    else
        attn_decode_run_part(full, part, shared, workspace);
}

void attn_plan_run_join(const struct attn_plan *plan, int64_t number, void *shared, void *workspace)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    if (!full->is_matrix) {
        attn_decode_run_join(full, number, shared, workspace);
        return;
    }
    const struct attn_matrix_tiles tiles = attn_matrix_tiles_of(full, number);
    attn_matrix_run_join(full, number, shared, workspace);
    run_rest(full, tiles.head * full->q_tiles + tiles.first, tiles.head * full->q_tiles + tiles.end,
             workspace);
}
