/* SPDX-License-Identifier: Apache-2.0 */
/* decode_scores.c - where decoding reads keys and values: from where they lie, or from one place to
 * which the rows of several pages are brought. The scores of few query rows with a tile of keys,
 * from the products to masked scores, and their maps. */
#include "forward/decode.h"

#include <math.h>
#include <string.h>

/* Whether the decode kernels read the run's rows as they are. Those of I8 take the scales of a key
 * by channels, and those of a value by rows. */
static bool is_read_in_place(const struct attn_decode_task *task, const struct attn_tensor *tensor,
                             const struct attn_run *run)
{
    return run->dtype != ATTN_I8 || run->has_row_scales == (tensor == &task->problem->value);
}

/* Copies count rows of a run to row `to` of the place, densely; those of a tensor of I8 as F32. */
static void bring(const struct attn_decode_task *task, const struct attn_tensor *tensor,
                  const struct attn_run *run, int64_t to)
{
    const int64_t columns = tensor->shape[3];
    const int64_t bytes = (int64_t)attn_dtype_size(run->dtype);

    for (int64_t k = 0; k < run->count; k++) {
        char *row = task->together + (to + k) * columns * (tensor->dtype == ATTN_I8 ? 4 : bytes);
        if (run->dtype == ATTN_I8)
            attn_run_read(task->kernels, tensor, run, k, 0, columns, (void *)row);
        else
            memcpy(row, (const char *)run->row + k * tensor->stride[2] * bytes,
                   (size_t)(columns * bytes));
    }
}

struct attn_decode_rows attn_decode_rows(const struct attn_decode_task *task,
                                         const struct attn_tensor *tensor,
                                         const struct attn_span *span)
{
    struct attn_run run = attn_tensor_run(tensor, task->batch, task->kv_head, span->first, span->n);

    if (run.count == span->n && is_read_in_place(task, tensor, &run))
        return (struct attn_decode_rows){ run.row, tensor->stride[2], run.dtype, run.scale,
                                          run.at };
    for (int64_t i = 0; i < span->n; i += run.count) {
        run = attn_tensor_run(tensor, task->batch, task->kv_head, span->first + i, span->n - i);
        bring(task, tensor, &run, i);
    }
    return (struct attn_decode_rows){ .rows = task->together,
                                      .stride = tensor->shape[3],
                                      .dtype =
                                          tensor->dtype == ATTN_I8 ? ATTN_F32 : tensor->dtype };
}

const void *attn_decode_next_row(const struct attn_decode_task *task,
                                 const struct attn_tensor *tensor, int64_t row)
{
    const int64_t bytes = (int64_t)attn_dtype_size(tensor->dtype);

    if (!task->prefetch)
        return NULL;
    if (tensor->pages == NULL) {
        const int64_t number = attn_tensor_index(tensor, task->batch, task->kv_head, row);
        return (const void *)((uintptr_t)tensor->data + (uintptr_t)(number * bytes));
    }
    const int64_t last = attn_max(attn_min(row, tensor->shape[2] - 1), 0);
    return attn_tensor_run(tensor, task->batch, task->kv_head, last, 1).row;
}

/* ------------------------------------------------------------------------------------ scores -- */

/* Kernels work on whole vectors; clear the numbers after the n of a row. */
static void clear_padding(const struct attn_decode_task *task, float *row, int64_t n)
{
    for (int64_t j = n; j < attn_decode_padded(task->plan, n); j++)
        row[j] = 0.0f;
}

struct attn_span attn_decode_visible(const struct attn_decode_task *task,
                                     const struct attn_span *tile)
{
    const int64_t first = attn_max(task->any.low, tile->first);
    const int64_t end = attn_min(task->any.high, tile->first + tile->n);
    const struct key_range gap = attn_mask_gap(task->problem, task->batch, 0);
    const bool is_hidden = gap.low <= first && end <= gap.high;

    return first < end && !is_hidden ? (struct attn_span){ first, end - first }
                                     : (struct attn_span){ tile->first, 0 };
}

void attn_decode_store_map(const struct attn_decode_task *task, const struct attn_tensor *map,
                           const struct attn_span *tile)
{
    if (!attn_is_wanted(map))
        return;
    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = attn_decode_block(task, h, tile->first, tile->n);
        int64_t stride;
        float *rows = attn_block_place(map, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++)
            memcpy(rows + i * stride, attn_decode_scores(task, h * task->q_len + i),
                   (size_t)tile->n * sizeof(float));
        attn_block_written(task->kernels, map, &block, rows);
    }
}

/* The products of all rows with the keys of a tile. */
void attn_decode_score_keys(const struct attn_decode_task *task, const struct attn_span *tile)
{
    const struct attn_tensor *key = &task->problem->key;
    const struct attn_decode_rows keys = attn_decode_rows(task, key, tile);
    const void *next = attn_decode_next_row(task, &task->problem->value, tile->first);

    if (keys.dtype == ATTN_I8)
        task->kernels->decode_scores_i8(task->scores, task->score_stride, task->query,
                                        task->head_padded, task->row_count, keys.rows, keys.stride,
                                        tile->n, key->shape[3], next, keys.scale, keys.at);
    else
        task->kernels->decode_scores[attn_numbers_of(keys.dtype)](
            task->scores, task->score_stride, task->query, task->head_padded, task->row_count,
            keys.rows, keys.stride, tile->n, key->shape[3], next);
}

/* Turn the products into scores. */
void attn_decode_cap(const struct attn_decode_task *task, const struct attn_span *tile)
{
    const struct attn_problem *problem = task->problem;
    const int64_t lanes = task->kernels->lanes;

    for (int64_t r = 0; r < task->row_count; r++)
        clear_padding(task, attn_decode_scores(task, r), tile->n);
    attn_decode_store_map(task, &problem->scores, tile);
    if (problem->options.softcap > 0)
        for (int64_t r = 0; r < task->row_count; r++) {
            task->kernels->softcap_tile(attn_decode_scores(task, r),
                                        (float)problem->options.softcap,
                                        attn_divide_up(tile->n, lanes), lanes);
        }
    attn_decode_store_map(task, &problem->softcapped, tile);
}

static void add_distances(const struct attn_decode_task *task, int64_t row,
                          const struct attn_span *tile)
{
    const float slope = task->problem->alibi_slopes[task->q_head + row / task->q_len];
    float *scores = attn_decode_scores(task, row);
    float distance;

    attn_mask_distances(task->problem, task->batch, row % task->q_len, tile->first, 1, &distance);
    for (int64_t j = 0; j < tile->n; j++)
        scores[j] -= slope * fabsf(distance - (float)j);
}

static void hide_others(const struct attn_decode_task *task, int64_t row,
                        const struct attn_span *tile)
{
    const struct key_range *range = &task->ranges[row % task->q_len];
    const int64_t low = attn_min(range->low - tile->first, tile->n);
    const int64_t high = attn_max(range->high - tile->first, 0);
    float *scores = attn_decode_scores(task, row);

    for (int64_t j = 0; j < low; j++)
        scores[j] = -INFINITY;
    for (int64_t j = high; j < tile->n; j++)
        scores[j] = -INFINITY;
}

static void add_biases(const struct attn_decode_task *task, int64_t row,
                       const struct attn_span *tile)
{
    const int64_t lanes = task->kernels->lanes;

    attn_mask_floats(task->problem, task->kernels, task->batch, task->q_head + row / task->q_len,
                     row % task->q_len, tile->first, tile->n, task->bias);
    clear_padding(task, task->bias, tile->n);
    task->kernels->bias_tile(attn_decode_scores(task, row), task->bias,
                             attn_divide_up(tile->n, lanes), lanes);
}

static bool is_cut(const struct attn_decode_task *task, const struct attn_span *tile)
{
    return attn_range_cuts(&task->every, tile->first, tile->first + tile->n);
}

static void hide_some(const struct attn_decode_task *task, const struct attn_span *tile)
{
    const struct attn_problem *problem = task->problem;

    for (int64_t r = 0; r < task->row_count; r++) {
        if (problem->alibi_slopes != NULL)
            add_distances(task, r, tile);
        if (is_cut(task, tile))
            hide_others(task, r, tile);
        if (attn_mask_tests_pairs(problem))
            add_biases(task, r, tile);
    }
}

static void hide_all(const struct attn_decode_task *task, const struct attn_span *tile)
{
    for (int64_t r = 0; r < task->row_count; r++)
        for (int64_t j = 0; j < tile->n; j++)
            attn_decode_scores(task, r)[j] = -INFINITY;
}

void attn_decode_score(const struct attn_decode_task *task, const struct attn_span *tile)
{
    attn_decode_score_keys(task, tile);
    attn_decode_cap(task, tile);
}

void attn_decode_mask(const struct attn_decode_task *task, const struct attn_span *tile)
{
    if (attn_decode_visible(task, tile).n > 0)
        hide_some(task, tile);
    else
        hide_all(task, tile);
}

void attn_decode_masked_scores(const struct attn_decode_task *task, const struct attn_span *tile)
{
    if (attn_decode_visible(task, tile).n > 0)
        attn_decode_score(task, tile);
    attn_decode_mask(task, tile);
}
