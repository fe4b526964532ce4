/* SPDX-License-Identifier: Apache-2.0 */
/* select_bounds.c - which problems can have a selection, and when it is worth one; the least and
 * greatest numbers of groups of keys, made once for each group, and the walk over all groups of a
 * problem. */
#include "base/convert.h"
#include "forward/mask.h"
#include "forward/select_internal.h"

#include <math.h>
#include <string.h>

/* Groups below which a row reads all keys. */
enum { GROUPS_MIN = 4 };

/* A smaller share than this is none. */
static const double EPSILON_MIN = 1e-30;

static bool is_float(const struct attn_tensor *tensor)
{
    return attn_numbers_of(tensor->dtype) != ATTN_NUMBERS_COUNT;
}

static enum attn_status check_bounds(const struct attn_selection *selection,
                                     const struct attn_plan_full *plan, const char **where)
{
    int64_t end = 0;

    RETURN_IF(selection->bounds_count < 0, ATTN_ERR_LENGTH, "selection.bounds_count");
    for (int64_t i = 0; i < selection->bounds_count; i++) {
        const struct attn_bounds *bounds = &selection->bounds[i];
        RETURN_IF(bounds->group_count < 1 || bounds->first < end, ATTN_ERR_LENGTH,
                  "selection.bounds");
        RETURN_IF(bounds->group_count > plan->problem.key.shape[2] / ATTN_SELECT_KEYS,
                  ATTN_ERR_LENGTH, "selection.bounds");
        end = bounds->first + bounds->group_count * ATTN_SELECT_KEYS;
        RETURN_IF(end > plan->problem.key.shape[2], ATTN_ERR_LENGTH, "selection.bounds");
    }
    return ATTN_OK;
}

static enum attn_status check_problem(const struct attn_plan_full *plan, const char **where)
{
    const struct attn_problem *problem = &plan->problem;
    const struct attn_options *options = &problem->options;

    RETURN_IF(problem->query.shape[0] != 1, ATTN_ERR_SHAPE, "query.shape[0]");
    RETURN_IF(plan->in_double || !is_float(&problem->query), ATTN_ERR_DTYPE, "query.dtype");
    RETURN_IF(!is_float(&problem->key) && problem->key.dtype != ATTN_I8, ATTN_ERR_DTYPE,
              "key.dtype");
    RETURN_IF(!is_float(&problem->value) && problem->value.dtype != ATTN_I8, ATTN_ERR_DTYPE,
              "value.dtype");
    RETURN_IF(options->window_left >= 0, ATTN_ERR_OPTION, "options.window_left");
    RETURN_IF(options->chunk > 0, ATTN_ERR_OPTION, "options.chunk");
    RETURN_IF(options->dropout > 0, ATTN_ERR_OPTION, "options.dropout");
    RETURN_IF(options->normalizer != ATTN_SOFTMAX, ATTN_ERR_OPTION, "options.normalizer");
    RETURN_IF(problem->mask.data != NULL, ATTN_ERR_OPTION, "mask");
    RETURN_IF(problem->last_keys > 0, ATTN_ERR_OPTION, "last_keys");
    RETURN_IF(problem->alibi_slopes != NULL, ATTN_ERR_OPTION, "alibi_slopes");
    RETURN_IF(problem->additive_weight != NULL, ATTN_ERR_OPTION, "layer.additive_weight");
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        RETURN_IF(i != ATTN_OUTPUT_CONTEXT && i != ATTN_OUTPUT_LSE && problem->out[i].data != NULL,
                  ATTN_ERR_OPTION, "weights");
    return ATTN_OK;
}

static void read_all(const struct attn_selection *selection, const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t q_len = problem->query.shape[2];

    for (int64_t i = 0; i < q_len; i++) {
        const struct key_range range = attn_mask_row(problem, 0, i);
        for (int64_t h = 0; h < problem->key.shape[1]; h++)
            selection->keys_read[h * q_len + i] = selection->keys_seen[h * q_len + i] =
                range.high - range.low;
        for (int64_t h = 0; h < problem->query.shape[1]; h++)
            selection->mass_left[h * q_len + i] = 0;
    }
}

enum attn_status attn_select_check(const struct attn_selection *selection,
                                   const struct attn_plan *plan, const char **where)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    RETURN_IF(!(selection->epsilon >= 0 && selection->epsilon < 1), ATTN_ERR_OPTION,
              "selection.epsilon");
    RETURN_IF_FAILED(check_problem(full, where));
    RETURN_IF_FAILED(check_bounds(selection, full, where));
    read_all(selection, full);
    return ATTN_OK;
}

bool attn_select_reads_all(const struct attn_selection *selection, const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    return !(selection->epsilon >= EPSILON_MIN) || full->problem.query.shape[2] > ATTN_SELECT_ROWS
           || full->problem.key.shape[2] < (int64_t)GROUPS_MIN * ATTN_SELECT_KEYS;
}

int64_t attn_select_tasks(const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    return full->problem.query.shape[2] * full->problem.key.shape[1];
}

/* -------------------------------------------------------------------------- bounds of groups -- */

/* Columns of a key that are widened at a time, and whole vectors of every table of kernels. */
enum { PIECE = 256, VECTOR = 16 };

int64_t attn_bounds_columns(int64_t head_dim)
{
    return attn_divide_up(2 * head_dim, VECTOR) * VECTOR;
}

/* Columns [first, first + count) of all keys of the group. */
static void bound_columns(const struct attn_tensor *key, const struct attn_block *block,
                          const struct attn_kernels *kernels, float *greatest, float *least)
{
    float piece[PIECE], low[PIECE], high[PIECE];
    bool is_odd[PIECE] = { false };
    int64_t stride;

    for (int64_t d = 0; d < block->columns; d++) {
        low[d] = INFINITY;
        high[d] = -INFINITY;
    }
    for (int64_t i = 0; i < block->row_count; i++) {
        struct attn_block one = *block;
        one.row += i;
        one.row_count = 1;
        const float *numbers = attn_block_read(kernels, key, &one, piece, &stride);
        for (int64_t d = 0; d < block->columns; d++) {
            low[d] = numbers[d] < low[d] ? numbers[d] : low[d];
            high[d] = numbers[d] > high[d] ? numbers[d] : high[d];
            is_odd[d] |= !(fabsf(numbers[d]) < INFINITY);
        }
    }
    for (int64_t d = 0; d < block->columns; d++) {
        greatest[d] = is_odd[d] ? INFINITY : high[d];
        least[d] = is_odd[d] ? -INFINITY : low[d];
    }
}

void attn_bounds_make(const struct attn_tensor *key, int64_t head, int64_t first, int64_t count,
                      const struct attn_kernels *kernels, float *row, float *largest)
{
    const int64_t head_dim = key->shape[3];
    const int64_t columns = attn_bounds_columns(head_dim);

    if (kernels == NULL)
        kernels = attn_kernels_available()[0];
    for (int64_t d = 0; d < head_dim; d += PIECE) {
        const struct attn_block block = { .head = head,
                                          .row = first,
                                          .row_count = count,
                                          .column = d,
                                          .columns = attn_min(PIECE, head_dim - d) };
        bound_columns(key, &block, kernels, row + d, row + head_dim + d);
    }
    for (int64_t d = 2 * head_dim; d < columns; d++)
        row[d] = 0;
    for (int64_t d = 0; d < head_dim; d++) {
        const float most = fmaxf(fabsf(row[d]), fabsf(row[head_dim + d]));
        largest[d] = most > largest[d] ? most : largest[d];
    }
}

/* ---------------------------------------------------------------------------- the walk -- */

bool select_walk_next(struct select_walk *walk, const struct attn_selection *selection,
                      const struct attn_plan_full *plan, int64_t kv_head, int64_t end, void *shared,
                      struct select_group *group)
{
    const int64_t columns = attn_bounds_columns(plan->problem.key.shape[3]);
    const struct attn_bounds *bounds = selection->bounds + walk->bounds;
    const bool is_last = walk->bounds == selection->bounds_count;

    if (walk->key >= end)
        return false;
    *group = (struct select_group){ .first = walk->key };
    if (!is_last && bounds->first == walk->key - walk->group * ATTN_SELECT_KEYS) {
        group->count = ATTN_SELECT_KEYS;
        group->row = bounds->rows + kv_head * bounds->head_stride + walk->group * columns;
        if (++walk->group == bounds->group_count) {
            walk->bounds++;
            walk->group = 0;
        }
    } else {
        const int64_t next = is_last ? plan->problem.key.shape[2] : bounds->first;
        group->count = attn_min(ATTN_SELECT_KEYS, next - walk->key);
        if (shared != NULL)
            group->row = (const float *)shared + walk->missing * columns;
        walk->missing++;
    }
    walk->key += group->count;
    group->count = attn_min(group->count, end - group->first);
    return true;
}

void select_count(const struct attn_selection *selection, const struct attn_plan_full *plan,
                  int64_t *missing, int64_t *all)
{
    struct select_walk walk = { 0 };
    struct select_group group;

    *all = 0;
    while (select_walk_next(&walk, selection, plan, 0, plan->problem.key.shape[2], NULL, &group))
        ++*all;
    *missing = walk.missing;
}

static int64_t shared_numbers(const struct attn_plan_full *plan, int64_t missing)
{
    const int64_t head_dim = plan->problem.key.shape[3];
    const int64_t numbers = missing * attn_bounds_columns(head_dim) + head_dim;

    return attn_divide_up(numbers, VECTOR) * VECTOR;
}

float *select_missing(const struct attn_plan_full *plan, int64_t missing, int64_t kv_head,
                      void *shared)
{
    return (float *)shared + kv_head * shared_numbers(plan, missing);
}

float *select_largest(const struct attn_plan_full *plan, int64_t missing, int64_t kv_head,
                      void *shared)
{
    return select_missing(plan, missing, kv_head, shared)
           + missing * attn_bounds_columns(plan->problem.key.shape[3]);
}

size_t attn_select_shared_bytes(const struct attn_selection *selection,
                                const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    int64_t missing, all;

    select_count(selection, full, &missing, &all);
    return attn_align_up((size_t)(full->problem.key.shape[1] * shared_numbers(full, missing))
                         * sizeof(float));
}

void attn_select_bound(const struct attn_selection *selection, const struct attn_plan *plan,
                       int64_t kv_head, void *shared)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    const struct attn_tensor *key = &full->problem.key;
    const int64_t head_dim = key->shape[3];
    struct select_walk walk = { 0 };
    struct select_group group;
    int64_t missing, all, made = 0;

    select_count(selection, full, &missing, &all);
    float *rows = select_missing(full, missing, kv_head, shared);
    float *largest = select_largest(full, missing, kv_head, shared);
    memset(largest, 0, (size_t)head_dim * sizeof *largest);
    while (select_walk_next(&walk, selection, full, kv_head, key->shape[2], NULL, &group))
        if (walk.missing > made)
            attn_bounds_make(key, kv_head, group.first, group.count, full->kernels,
                             rows + made++ * attn_bounds_columns(head_dim), largest);
    for (int64_t i = 0; i < selection->bounds_count; i++)
        for (int64_t d = 0; d < head_dim; d++)
            largest[d] = fmaxf(largest[d], selection->bounds[i].largest[kv_head * head_dim + d]);
}
