/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_fallback.c - numbers that tiles cannot multiply: infinity and NaN in parts, values that
 * could overflow or whose parts are subnormal. They are rare, and what a row does not see must not
 * change its bits: so only what concerns them is computed here, in float and in the order of the
 * keys. */
#include "forward/matrix_run.h"

#include <math.h>
#include <string.h>

/* The keys or values of the item's step as floats. */
static const float *rows_of(const struct attn_matrix_run *run, const struct attn_matrix_item *item,
                            const struct attn_tensor *tensor, int64_t *stride)
{
    const struct attn_row_task *task = &item->group->task;
    const struct attn_block block = { .batch = task->batch,
                                      .head = task->kv_head,
                                      .row = item->tile.first + item->tile.from,
                                      .row_count = item->tile.to - item->tile.from,
                                      .columns = tensor->shape[3] };

    return attn_block_read(run->plan.kernels, tensor, &block, task->work.rows, stride);
}

static void compute_scores(const struct attn_matrix_run *run, const struct attn_matrix_item *item)
{
    const struct attn_row_task *task = &item->group->task;
    const struct attn_problem *problem = task->problem;
    const int64_t head_dim = problem->query.shape[3];
    const struct attn_block block = attn_task_block(task, 0, head_dim);
    int64_t stride;
    const float *rows =
        attn_block_read(task->kernels, &problem->query, &block, task->work.rows, &stride);

    task->kernels->transpose_in(task->work.query_t, rows, stride, task->row_count, head_dim,
                                run->matrix.query_factor, ATTN_MATRIX_LANES);
    rows = rows_of(run, item, &problem->key, &stride);
    task->kernels->score_tile(run->odd_scores_t + item->tile.from * ATTN_MATRIX_LANES,
                              task->work.query_t, rows, stride, item->tile.to - item->tile.from,
                              head_dim, ATTN_MATRIX_LANES, NULL);
}

void attn_matrix_fallback_scores(struct attn_matrix_run *run, const struct attn_matrix_item *item)
{
    const uint32_t odd_keys = run->chunk.marks[item->step].odd_keys;
    const uint32_t odd_queries = item->group->odd_queries;
    float *scores_t = run->scores_t[run->at];

    compute_scores(run, item);
    for (int64_t j = item->tile.from; j < item->tile.to; j++)
        for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
            if ((odd_keys >> j & 1) != 0 || (odd_queries >> r & 1) != 0)
                scores_t[j * ATTN_MATRIX_LANES + r] = run->odd_scores_t[j * ATTN_MATRIX_LANES + r];
}

static bool has_odd(const float *row, int64_t columns)
{
    for (int64_t c = 0; c < columns; c++)
        if (attn_matrix_is_odd(row[c]))
            return true;
    return false;
}

void attn_matrix_fallback_limits(struct attn_matrix_run *run, const struct attn_matrix_item *item)
{
    const struct attn_tensor *value = &run->plan.problem.value;
    const float *scores_t = run->scores_t[run->at];
    int64_t stride;
    const float *rows = rows_of(run, item, value, &stride);

    for (int64_t j = item->tile.from; j < item->tile.to; j++) {
        if (!has_odd(rows + (j - item->tile.from) * stride, value->shape[3]))
            continue;
        for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
            if (scores_t[j * ATTN_MATRIX_LANES + r] > -INFINITY)
                run->limits[r] = 1.0f;
    }
}

static float float_of_bf16(uint16_t number)
{
    const uint32_t bits = (uint32_t)number << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The weight of key j in lane r: the sum of its parts, which is exact. */
static float weight_at(const struct attn_matrix_run *run, const uint16_t *weights, int64_t j,
                       int64_t r)
{
    const int64_t half = ATTN_MATRIX_LANES / 2;
    const int64_t at =
        r / half * ATTN_MATRIX_TILE + j / 2 * ATTN_MATRIX_STEP + r % half * 2 + j % 2;
    float weight = 0.0f;

    for (int p = run->matrix.weight_parts - 1; p >= 0; p--)
        weight += float_of_bf16(weights[(int64_t)p * ATTN_MATRIX_BLOCK + at]);
    return weight;
}

void attn_matrix_fallback_context(struct attn_matrix_run *run, const struct attn_matrix_item *item,
                                  const uint16_t *weights)
{
    const struct attn_tensor *value = &run->plan.problem.value;
    struct attn_matrix_group *group = item->group;
    const int64_t numbers = value->shape[3] * ATTN_MATRIX_LANES;
    int64_t stride;
    const float *rows = rows_of(run, item, value, &stride);

    if (!group->has_odd_context)
        memset(group->odd_context_t, 0, (size_t)numbers * sizeof(float));
    group->has_odd_context = true;
    for (int64_t j = item->tile.from; j < item->tile.to; j++) {
        const float *row = rows + (j - item->tile.from) * stride;
        if (!has_odd(row, value->shape[3]))
            continue;
        for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++) {
            const float weight = weight_at(run, weights, j, r);
            if (weight == 0.0f)
                continue;
            for (int64_t c = 0; c < value->shape[3]; c++)
                if (attn_matrix_is_odd(row[c]))
                    group->odd_context_t[c * ATTN_MATRIX_LANES + r] += weight * row[c];
        }
    }
}
