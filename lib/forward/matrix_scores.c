/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_scores.c - keys and values into parts, from the products of a step to its masked scores,
 * and what the weights of each row are relative to: the first keys that it sees, until the weights
 * of a step outgrow their limit. */
#include "base/compensated.h"
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
        attn_matrix_fallback_scores(run, item);
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

/* -------------------------------------------------------------- what weights are relative to -- */

static const double LOG2_E = 1.4426950408889634;

/* Give a lane the base for weights of this score to be at most 1, and at least a half. */
static void set_base(const struct attn_matrix_run *run, struct attn_matrix_group *group, int64_t r,
                     float score)
{
    const float power = score * run->matrix.to_power;
    const bool is_usual = fabsf(power) < 0x1p20f;

    group->offset[r] = is_usual ? 0.0f : score;
    group->base[r] = is_usual ? ceilf(power) : 0.0f;
}

/* What a lane's weights are relative to, as a power of 2. */
static double power_of_base(const struct attn_matrix_run *run,
                            const struct attn_matrix_group *group, int64_t r)
{
    return (double)group->offset[r] * (double)run->matrix.to_power + (double)group->base[r];
}

void attn_matrix_begin_sums(const struct attn_matrix_run *run, struct attn_matrix_group *group)
{
    const struct attn_row_task *task = &group->task;
    const float sink = attn_mask_sink(task->problem, task->q_head);
    const bool has_sink = sink != -INFINITY;

    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++) {
        set_base(run, group, r, has_sink ? (float)((double)sink / run->matrix.natural) : 0.0f);
        task->work.sum[r] =
            has_sink ? (float)exp2((double)sink * LOG2_E - power_of_base(run, group, r)) : 0.0f;
    }
    group->unset = has_sink ? 0 : UINT32_MAX;
}

void attn_matrix_set_bases(struct attn_matrix_run *run, struct attn_matrix_group *group)
{
    if (group->unset == 0)
        return;
    run->kernels->greatest(run->greatest, run->scores_t[run->at]);
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        if ((group->unset >> r & 1) != 0 && run->greatest[r] > -INFINITY) {
            set_base(run, group, r, run->greatest[r]);
            group->unset &= ~((uint32_t)1 << r);
        }
}

static bool exceeds_limit(const struct attn_matrix_run *run, int64_t r)
{
    return !(run->sums[r] <= run->limits[r]);
}

bool attn_matrix_any_exceeds(const struct attn_matrix_run *run)
{
    bool any = false;

    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        any = any || exceeds_limit(run, r);
    return any;
}

static void scale_lane(float *tile_t, int64_t rows, int64_t r, float factor)
{
    for (int64_t c = 0; c < rows; c++)
        tile_t[c * ATTN_MATRIX_LANES + r] *= factor;
}

void attn_matrix_raise_bases(struct attn_matrix_run *run, struct attn_matrix_group *group)
{
    const struct attn_workspace *work = &group->task.work;
    const int64_t columns = run->plan.problem.value.shape[3];

    run->kernels->greatest(run->greatest, run->scores_t[run->at]);
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++) {
        const float offset = group->offset[r], base = group->base[r];
        const double old = power_of_base(run, group, r);
        work->rescale[r] = 1.0f;
        if (!exceeds_limit(run, r))
            continue;
        set_base(run, group, r, run->greatest[r]);
        if (!(power_of_base(run, group, r) > old)) {
            group->offset[r] = offset;
            group->base[r] = base;
            continue;
        }
        work->rescale[r] = (float)exp2(old - power_of_base(run, group, r));
        work->sum[r] *= work->rescale[r];
        scale_lane(work->context_t, columns, r, work->rescale[r]);
        if (group->has_odd_context)
            scale_lane(group->odd_context_t, columns, r, work->rescale[r]);
    }
    attn_compensated_rescale(&run->plan, work);
}
