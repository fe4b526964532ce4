/* matrix_scores.c - from the products of a step to its masked scores, and keys and values into
 * parts. */
#include "forward/matrix_run.h"

#include <math.h>

/* ------------------------------------------------------------------- keys into parts -- */

/* count rows of a head's keys or values from row on. */
static struct attn_block rows_of(const struct attn_tensor *tensor, int64_t batch, int64_t kv_head,
                                 int64_t row, int64_t count)
{
    return (struct attn_block){
        .batch = batch, .head = kv_head, .row = row, .row_count = count, .columns = tensor->shape[3]
    };
}

void attn_matrix_pack(const struct attn_plan_full *plan, const struct attn_matrix *matrix,
                      const struct attn_matrix_place *place, const struct attn_matrix_chunk *chunk,
                      float *rows)
{
    const struct attn_problem *problem = &plan->problem;
    const struct attn_matrix_kernels *kernels = plan->kernels->matrix;
    const int64_t first = (place->number * ATTN_MATRIX_CHUNK + place->step) * ATTN_MATRIX_STEP;
    const int64_t n = attn_min(problem->key.shape[2] - first, ATTN_MATRIX_STEP);
    struct attn_matrix_marks *marks = &chunk->marks[place->step];
    struct attn_block block = rows_of(&problem->key, place->batch, place->kv_head, first, n);
    int64_t stride;
    const float *from = attn_block_read(plan->kernels, &problem->key, &block, rows, &stride);

    *marks = (struct attn_matrix_marks){ 0 };
    marks->odd_keys = kernels->pack_keys(attn_matrix_keys(matrix, chunk, place->step), from, stride,
                                         n, block.columns, matrix->score.left_parts);
    if (!attn_matrix_sums_context(problem))
        return;
    block = rows_of(&problem->value, place->batch, place->kv_head, first, n);
    from = attn_block_read(plan->kernels, &problem->value, &block, rows, &stride);
    marks->has_odd_values =
        kernels->pack_values(attn_matrix_values(matrix, chunk, 0)
                                 + place->step * matrix->context.left_parts * ATTN_MATRIX_BLOCK,
                             from, stride, n, block.columns, matrix->context.left_parts);
}

/* ------------------------------------------------------------------ from products to scores -- */

/* Rounding would carry some NaNs over into numbers. */
static void make_nans_plain(float *scores_t, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (isnan(scores_t[i]))
            scores_t[i] = NAN;
}

static void hide(float *scores_t, int64_t from, int64_t to)
{
    for (int64_t i = from * ATTN_MATRIX_LANES; i < to * ATTN_MATRIX_LANES; i++)
        scores_t[i] = -INFINITY;
}

void attn_matrix_mask(struct attn_matrix_run *run, const struct attn_matrix_item *item)
{
    const struct attn_matrix *matrix = &run->matrix;
    const struct attn_tile *tile = &item->tile;
    struct attn_row_task *task = &item->group->task;
    const struct attn_problem *problem = task->problem;
    float *scores_t = run->scores_t[run->at];
    float *visible_t = scores_t + tile->from * ATTN_MATRIX_LANES;
    const int64_t n = tile->to - tile->from;
    const bool is_odd = run->chunk.marks[item->step].odd_keys != 0 || item->group->odd_queries != 0;

    if (is_odd)
        attn_matrix_odd_scores(run, item);
    if (matrix->score_factor != 1.0f)
        for (int64_t i = 0; i < n * ATTN_MATRIX_LANES; i++)
            visible_t[i] *= matrix->score_factor;
    if (problem->options.softcap > 0.0)
        task->kernels->softcap_tile(visible_t, (float)problem->options.softcap, n,
                                    ATTN_MATRIX_LANES);
    task->work.scores_t = visible_t;
    attn_tile_mask(task, tile);
    attn_tile_bound(task, tile);
    if (is_odd || tile->sees == ATTN_SEES_BIASES)
        make_nans_plain(visible_t, n * ATTN_MATRIX_LANES);
    hide(scores_t, 0, tile->from);
    hide(scores_t, tile->to, ATTN_MATRIX_STEP);
}
