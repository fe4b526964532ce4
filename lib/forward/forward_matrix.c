/* SPDX-License-Identifier: Apache-2.0 */
/* forward_matrix.c - the tasks of a plan of the matrix unit.
 *
 * Groups of 32 query rows visit a chunk of keys in turn, so that its parts are in a near cache.
 * Within a chunk there is one sequence of steps of 32 keys: while the vector unit makes the weights
 * of a step, the matrix unit makes the scores of the next, and adds to the context what the group
 * before has left. There is no pass for the maximum: weights are powers of 2 relative to a whole
 * number, the base, which is that of the first keys a row sees, and is raised where the sum of a
 * step says that it is too low. All that a row needs depends on its own numbers and on the
 * positions of the keys: so rows behind or beside it change none of its bits. */
#include "base/compensated.h"
#include "base/internal.h"
#include "forward/matrix_run.h"

#include <math.h>
#include <string.h>

static const double LN_2 = 0.6931471805599453;

/* -------------------------------------------------------------------------- before the keys -- */

static void begin_group(struct attn_matrix_run *run, struct attn_matrix_group *group, int64_t head,
                        int64_t row, int64_t row_count)
{
    const struct attn_matrix *matrix = &run->matrix;
    const struct attn_tensor *query = &run->plan.problem.query;
    struct attn_row_task *task = &group->task;
    const int64_t columns = matrix->value_blocks * ATTN_MATRIX_COLUMNS;
    int64_t stride;

    attn_task_place(task, &run->plan, head, row, row_count);
    task->sums_context = attn_matrix_sums_context(&run->plan.problem);
    attn_matrix_begin_sums(run, group);
    memset(task->work.context_t, 0, (size_t)(columns * ATTN_MATRIX_LANES) * sizeof(float));
    attn_compensated_begin(&run->plan, &task->work);
    const struct attn_block block = attn_task_block(task, 0, query->shape[3]);
    const float *rows = attn_block_read(task->kernels, query, &block, task->work.rows, &stride);
    group->odd_queries =
        run->kernels->pack_queries(group->queries, rows, stride, row_count, query->shape[3],
                                   matrix->score.right_parts, matrix->query_factor);
}

/* -------------------------------------------------------------------------------- context -- */

/* The products of some slots with 32 columns of the values. */
static void describe_context(const struct attn_matrix_run *run, struct attn_matrix_slots *slots,
                             int64_t count, struct attn_matrix_beside *beside)
{
    beside->context = &run->matrix.context;
    beside->values = attn_matrix_values(&run->matrix, &run->chunk, slots->block);
    beside->weights = slots->weights;
    beside->steps = slots->steps;
    beside->first = slots->slot;
    beside->count = attn_min(count, slots->count - slots->slot);
    beside->context_t =
        slots->group->task.work.context_t + slots->block * ATTN_MATRIX_COLUMNS * ATTN_MATRIX_LANES;
    slots->slot += beside->count;
    if (slots->slot == slots->count) {
        slots->slot = 0;
        slots->block++;
    }
}

/* Add all that is left of these slots. */
static void finish_slots(const struct attn_matrix_run *run, struct attn_matrix_slots *slots)
{
    while (slots->count > 0 && slots->block < run->matrix.value_blocks) {
        struct attn_matrix_beside beside = { 0 };
        describe_context(run, slots, ATTN_MATRIX_CHUNK, &beside);
        run->kernels->multiply(&beside);
    }
    slots->count = slots->block = slots->slot = 0;
}

/* Add all weights to their contexts, those of the group before first. */
static void finish_context(struct attn_matrix_run *run)
{
    finish_slots(run, &run->slots[run->which ^ 1]);
    finish_slots(run, &run->slots[run->which]);
}

/* ------------------------------------------------------------------------------- a step -- */

/* The first step from this one on that the group or one after it visits. */
static struct attn_matrix_item find_item(struct attn_matrix_run *run, int64_t group, int64_t step)
{
    const int64_t kv_len = run->plan.problem.key.shape[2];

    for (; group < run->group_count; group++, step = 0)
        for (; step < ATTN_MATRIX_CHUNK; step++) {
            const int64_t first = (run->number * ATTN_MATRIX_CHUNK + step) * ATTN_MATRIX_STEP;
            struct attn_matrix_item item = { .group = &run->groups[group], .step = step };
            if (first >= kv_len)
                break;
            item.tile = attn_tile_visible(&item.group->task, first,
                                          attn_min(ATTN_MATRIX_STEP, kv_len - first));
            if (item.tile.from < item.tile.to && attn_tile_scan(&item.group->task, &item.tile))
                return item;
        }
    return (struct attn_matrix_item){ 0 };
}

/* The products of the item's scores. */
static void describe_scores(const struct attn_matrix_run *run, const struct attn_matrix_item *item,
                            float *scores_t, struct attn_matrix_beside *beside)
{
    beside->score = &run->matrix.score;
    beside->keys = attn_matrix_keys(&run->matrix, &run->chunk, item->step);
    beside->queries = item->group->queries;
    beside->blocks = run->matrix.key_blocks;
    beside->scores_t = scores_t;
}

/* The weights of the item's step, in the next slot; meanwhile what is beside. */
static void weigh(struct attn_matrix_run *run, const struct attn_matrix_item *item,
                  const struct attn_matrix_beside *beside)
{
    const struct attn_matrix *matrix = &run->matrix;
    const struct attn_matrix_slots *slots = &run->slots[run->which];
    const struct attn_matrix_weights weights = {
        .weights = slots->weights + slots->count * matrix->weight_parts * ATTN_MATRIX_BLOCK,
        .sums = run->sums,
        .scores_t = run->scores_t[run->at],
        .offset = item->group->offset,
        .base = item->group->base,
        .to_power = matrix->to_power,
    };

    run->kernels->weigh[matrix->weight_parts - 1](&weights, beside);
}

/* Add the step's weights to the sums, after its base is high enough, and keep them in their slot
 * for the context. */
static void settle(struct attn_matrix_run *run, const struct attn_matrix_item *item)
{
    static const struct attn_matrix_beside nothing = { 0 };
    const bool sums_context = item->group->task.sums_context;
    const bool is_odd = sums_context && run->chunk.marks[item->step].has_odd_values != 0;
    struct attn_matrix_slots *slots = &run->slots[run->which];

    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        run->limits[r] = ATTN_MATRIX_LIMIT;
    if (is_odd)
        attn_matrix_fallback_limits(run, item);
    if (attn_matrix_any_exceeds(run)) {
        finish_context(run);
        attn_matrix_raise_bases(run, item->group);
        weigh(run, item, &nothing);
    }
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        item->group->task.work.sum[r] += run->sums[r];
    if (!sums_context)
        return;
    const uint16_t *weights =
        slots->weights + slots->count * run->matrix.weight_parts * ATTN_MATRIX_BLOCK;
    slots->group = item->group;
    slots->steps[slots->count++] = (uint8_t)item->step;
    if (is_odd)
        attn_matrix_fallback_context(run, item, weights);
}

/* ------------------------------------------------------------------------- a chunk of keys -- */

static void open_chunk(struct attn_matrix_run *run)
{
    const size_t at = (size_t)run->number * run->matrix.chunk_bytes;
    void *memory = run->packed != NULL ? (char *)(uintptr_t)run->packed + at : run->own_chunk;

    attn_matrix_cut_chunk(&run->matrix, &run->chunk, memory);
    run->own_steps = 0;
}

/* Without packed keys, cut those of a step when a group visits it: keys that no row sees are not
 * read. */
static void open_step(struct attn_matrix_run *run, const struct attn_matrix_item *item)
{
    const struct attn_row_task *task = &item->group->task;
    const struct attn_matrix_place place = { task->batch, task->kv_head, run->number, item->step };

    if (run->packed != NULL || (run->own_steps >> item->step & 1) != 0)
        return;
    attn_matrix_pack(&run->plan, &run->matrix, &place, &run->chunk, task->work.rows);
    run->own_steps |= (uint32_t)1 << item->step;
}

/* What the matrix unit does beside the weights of a step: the scores of the next step, and a
 * sixteenth of what the group before has left for each 32 columns. */
static struct attn_matrix_beside choose_beside(struct attn_matrix_run *run,
                                               const struct attn_matrix_item *next)
{
    struct attn_matrix_slots *before = &run->slots[run->which ^ 1];
    struct attn_matrix_beside beside = { 0 };

    if (next->group != NULL) {
        open_step(run, next);
        describe_scores(run, next, run->scores_t[run->at ^ 1], &beside);
    }
    if (before->count > 0 && before->block < run->matrix.value_blocks)
        describe_context(run, before, 2 * run->matrix.value_blocks, &beside);
    return beside;
}

/* Leave the context of a group to the weights of the next one. With weights of one part the vectors
 * have too little to do for that. */
static void end_group(struct attn_matrix_run *run, bool is_last)
{
    if (is_last || run->matrix.weight_parts == 1) {
        finish_context(run);
        return;
    }
    finish_slots(run, &run->slots[run->which ^ 1]);
    run->which ^= 1;
}

static void run_chunk(struct attn_matrix_run *run, int64_t number)
{
    struct attn_matrix_beside beside = { 0 };
    struct attn_matrix_item item, next;

    run->number = number;
    item = find_item(run, 0, 0);
    if (item.group == NULL)
        return;
    open_chunk(run);
    open_step(run, &item);
    describe_scores(run, &item, run->scores_t[run->at], &beside);
    run->kernels->multiply(&beside);
    for (; item.group != NULL; item = next) {
        attn_matrix_mask(run, &item);
        next = find_item(run, item.group - run->groups, item.step + 1);
        attn_matrix_set_bases(run, item.group);
        beside = choose_beside(run, &next);
        weigh(run, &item, &beside);
        settle(run, &item);
        if (next.group != item.group)
            end_group(run, next.group == NULL);
        run->at ^= 1;
    }
}

/* ------------------------------------------------------------------------------- a task -- */

static void store_lse(const struct attn_matrix_run *run, const struct attn_matrix_group *group)
{
    const struct attn_row_task *task = &group->task;
    const struct attn_workspace *work = &task->work;

    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        work->factor[r] =
            work->sum[r] == 0.0f
                ? -INFINITY
                : (float)((double)group->offset[r] * run->matrix.natural
                          + (double)group->base[r] * LN_2 + log((double)work->sum[r]));
    attn_task_store(task, &task->problem->lse, 0, 1, work->factor, NULL);
}

static void store_context(const struct attn_matrix_group *group)
{
    const struct attn_row_task *task = &group->task;
    const struct attn_workspace *work = &task->work;
    const struct attn_tensor *context = &task->problem->context;

    if (group->has_odd_context)
        for (int64_t i = 0; i < context->shape[3] * ATTN_MATRIX_LANES; i++)
            work->context_t[i] += group->odd_context_t[i];
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        work->factor[r] = work->sum[r] == 0.0f ? 0.0f : 1.0f / work->sum[r];
    attn_task_store(task, context, 0, context->shape[3], work->context_t, work->factor);
}

static void run_chunks(struct attn_matrix_run *run)
{
    const int64_t keys = (int64_t)ATTN_MATRIX_CHUNK * ATTN_MATRIX_STEP;
    struct key_range any = { INT64_MAX, 0 };

    for (int64_t i = 0; i < run->group_count; i++) {
        const struct key_range *range = &run->groups[i].task.any;
        if (range->low < range->high) {
            any.low = attn_min(any.low, range->low);
            any.high = attn_max(any.high, range->high);
        }
    }
    for (int64_t chunk = any.low / keys; chunk * keys < any.high; chunk++) {
        run_chunk(run, chunk);
        for (int64_t i = 0; i < run->group_count; i++)
            attn_compensated_tile(&run->plan, &run->groups[i].task.work,
                                  (chunk + 1) * keys - ATTN_MATRIX_KV_TILE,
                                  run->groups[i].task.sums_context);
    }
}

/* Context and lse of tiles [first, end) of query rows of one head. */
static void run_tiles(const struct attn_plan_full *plan, int64_t head, int64_t first, int64_t end,
                      void *workspace)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t rows_end = attn_min(end * plan->q_tile, problem->query.shape[2]);
    struct attn_matrix_run run = { 0 };

    attn_matrix_cut_run(&run, plan, workspace);
    for (int64_t row = first * plan->q_tile; row < rows_end; row += ATTN_MATRIX_LANES)
        begin_group(&run, &run.groups[run.group_count++], head, row,
                    attn_min(ATTN_MATRIX_LANES, rows_end - row));
    const struct attn_row_task *task = &run.groups[0].task;
    if (plan->packed != NULL)
        run.packed =
            (const char *)plan->packed
            + (size_t)((task->batch * problem->key.shape[1] + task->kv_head) * run.matrix.chunks)
                  * run.matrix.chunk_bytes;
    run.kernels->begin();
    run_chunks(&run);
    run.kernels->end();
    for (int64_t i = 0; i < run.group_count; i++) {
        attn_compensated_end(&run.plan, &run.groups[i].task.work, run.groups[i].task.sums_context);
        if (attn_is_wanted(&problem->lse))
            store_lse(&run, &run.groups[i]);
        if (run.groups[i].task.sums_context)
            store_context(&run.groups[i]);
    }
}

void attn_matrix_run(const struct attn_plan_full *plan, int64_t task, void *workspace)
{
    const int64_t tile = task % plan->q_tiles;

    run_tiles(plan, task / plan->q_tiles, tile, tile + 1, workspace);
}

/* ----------------------------------------------------------------------- parts and joins -- */

void attn_matrix_choose(struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const size_t bytes = attn_matrix_workspace_bytes(plan), rest = plan->workspace_bytes;
    struct attn_matrix matrix;

    attn_matrix_describe(&matrix, plan);
    const size_t part_bytes = bytes - matrix.chunk_bytes; /* joins have no chunk of their own */
    plan->is_matrix = true;
    plan->part_count = problem->key.shape[0] * problem->key.shape[1] * matrix.chunks;
    plan->join_count = problem->query.shape[0] * problem->query.shape[1]
                       * attn_divide_up(plan->q_tiles, ATTN_MATRIX_JOIN_TILES);
    plan->shared_bytes = (size_t)plan->part_count * matrix.chunk_bytes;
    plan->workspace_bytes = bytes > rest ? bytes : rest;
    plan->part_workspace_bytes = part_bytes > rest ? part_bytes : rest;
}

void attn_matrix_run_part(const struct attn_plan_full *plan, int64_t part, void *shared,
                          void *workspace)
{
    const struct attn_problem *problem = &plan->problem;
    struct attn_matrix_chunk chunk;
    struct attn_matrix matrix;

    attn_matrix_describe(&matrix, plan);
    const int64_t head = part / matrix.chunks;
    struct attn_matrix_place place = { .batch = head / problem->key.shape[1],
                                       .kv_head = head % problem->key.shape[1],
                                       .number = part % matrix.chunks };
    const int64_t first = place.number * ATTN_MATRIX_CHUNK;
    int64_t keys = problem->key.shape[2];
    if (problem->kv_len != NULL)
        keys = attn_min(keys, problem->kv_len[place.batch]);
    const int64_t steps = attn_divide_up(keys, ATTN_MATRIX_STEP) - first;
    attn_matrix_cut_chunk(&matrix, &chunk, (char *)shared + (size_t)part * matrix.chunk_bytes);
    for (; place.step < attn_min(steps, ATTN_MATRIX_CHUNK); place.step++)
        attn_matrix_pack(plan, &matrix, &place, &chunk, workspace);
}

struct attn_matrix_tiles attn_matrix_tiles_of(const struct attn_plan_full *plan, int64_t join)
{
    const int64_t joins = attn_divide_up(plan->q_tiles, ATTN_MATRIX_JOIN_TILES);
    const int64_t first = join % joins * ATTN_MATRIX_JOIN_TILES;

    return (struct attn_matrix_tiles){ join / joins, first,
                                       attn_min(first + ATTN_MATRIX_JOIN_TILES, plan->q_tiles) };
}

void attn_matrix_run_join(const struct attn_plan_full *plan, int64_t number, void *shared,
                          void *workspace)
{
    const struct attn_matrix_tiles tiles = attn_matrix_tiles_of(plan, number);
    struct attn_plan_full packed = *plan;

    packed.packed = shared;
    run_tiles(&packed, tiles.head, tiles.first, tiles.end, workspace);
}
