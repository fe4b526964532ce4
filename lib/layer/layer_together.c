/* SPDX-License-Identifier: Apache-2.0 */
/* layer_together.c - a stage of several calls over the same keys, tile by tile.
 *
 * Attention over the same keys is in the stage ATTEND, where a task is a group of heads, or in its
 * PARTs and JOINs. Calls may differ in their lengths, so a part is found by its heads and its
 * chunk. */
#include "layer.h"

#include "base/internal.h"
#include "forward/decode.h"
#include "layer/layer_internal.h"

/* Calls whose parts are bound at a time: their plans are on the stack. */
enum { PARTS = 8 };

static enum attn_layer_stage kind_of(const struct attn_layer_plan_full *plan, int stage)
{
    return (enum attn_layer_stage)plan->stage_kind[stage];
}

/* ----------------------------------------------------------------- the same keys -- */

/* Where the keys begin; NULL: not in pages. */
static const struct attn_pages *pages_of(const struct attn_layer_plan *plan)
{
    return plan->problem.cache != NULL ? plan->problem.cache->key.pages : NULL;
}

static int compare(uintptr_t a, uintptr_t b)
{
    return a < b ? -1 : a > b;
}

int attn_layer_compare_keys(const struct attn_layer_plan *a, const struct attn_layer_plan *b)
{
    const struct attn_pages *pages = pages_of(a), *others = pages_of(b);
    const int by_layer = compare((uintptr_t)a->problem.layer->q_proj.weight,
                                 (uintptr_t)b->problem.layer->q_proj.weight);

    if (by_layer != 0 || pages == NULL || others == NULL)
        return by_layer != 0 ? by_layer : (pages != NULL) - (others != NULL);
    for (int64_t i = 0; i < pages->count && i < others->count; i++) {
        const int by_page =
            compare((uintptr_t)pages->list[i].data, (uintptr_t)others->list[i].data);
        if (by_page != 0)
            return by_page;
    }
    return (pages->count > others->count) - (pages->count < others->count);
}

static bool is_decode(const struct attn_layer_plan *plan, int stage)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const enum attn_layer_stage kind = kind_of(full, stage);

    return full->attention.is_decode && plan->problem.weight_map == NULL && pages_of(plan) != NULL
           && (kind == ATTN_LAYER_ATTEND || kind == ATTN_LAYER_ATTEND_PART
               || kind == ATTN_LAYER_ATTEND_JOIN);
}

/* Heads of the same groups over the same first page, in tasks and chunks of the same sizes. */
static bool shares_keys(const struct attn_layer_plan *a, const struct attn_layer_plan *b)
{
    const struct attn_plan_full *one = &attn_layer_plan_full(a)->attention;
    const struct attn_plan_full *other = &attn_layer_plan_full(b)->attention;
    const struct attn_tensor *key = &one->problem.key, *others = &other->problem.key;

    return pages_of(a)->list[0].data == pages_of(b)->list[0].data && key->dtype == others->dtype
           && key->shape[1] == others->shape[1] && key->shape[3] == others->shape[3]
           && one->problem.value.shape[3] == other->problem.value.shape[3]
           && one->decode_tasks == other->decode_tasks && one->chunk_keys == other->chunk_keys;
}

bool attn_layer_runs_together(const struct attn_layer_plan *a, const struct attn_layer_plan *b,
                              int stage)
{
    const struct attn_layer_plan_full *one = attn_layer_plan_full(a);
    const struct attn_layer_plan_full *other = attn_layer_plan_full(b);

    if (stage >= a->stage_count || stage >= b->stage_count || one->merge != NULL
        || other->merge != NULL || kind_of(one, stage) != kind_of(other, stage))
        return false;
    const enum attn_layer_product product = attn_layer_product(a, stage);
    if (product != ATTN_PRODUCT_NONE)
        return a->problem.options.precision == b->problem.options.precision
               && attn_layer_same_product(a->problem.layer, b->problem.layer, product);
    return is_decode(a, stage) && is_decode(b, stage) && shares_keys(a, b);
}

/* ------------------------------------------------------------------------- tasks -- */

static int64_t chunks_max(const struct attn_layer_call *calls, int count)
{
    int64_t most = 1;

    for (int i = 0; i < count; i++)
        most = attn_max(most, attn_layer_plan_full(calls[i].plan)->attention.chunks);
    return most;
}

int64_t attn_layer_together_tasks(const struct attn_layer_call *calls, int count, int stage)
{
    const struct attn_layer_plan_full *plan = attn_layer_plan_full(calls[0].plan);
    const enum attn_layer_product product = attn_layer_product(calls[0].plan, stage);

    if (count == 1)
        return plan->task_count[stage];
    if (product != ATTN_PRODUCT_NONE)
        return attn_layer_product_tasks(calls, count, product);
    return kind_of(plan, stage) == ATTN_LAYER_ATTEND_PART
               ? plan->attention.task_count * chunks_max(calls, count)
               : plan->task_count[stage];
}

/* The parts of some of the calls that have this chunk; returns their number. */
static int bind_parts(const struct attn_layer_call *calls, int count, int64_t task, int64_t chunk,
                      struct attn_decode_part *parts)
{
    int used = 0;

    for (int i = 0; i < count; i++) {
        const struct attn_layer_plan_full *plan = attn_layer_plan_full(calls[i].plan);
        if (chunk >= plan->attention.chunks)
            continue;
        attn_layer_bind_attention(plan, calls[i].scratch, &parts[used].plan);
        parts[used].shared = attn_scratch_at(calls[i].scratch, plan->shared_offset);
        parts[used++].number = task * plan->attention.chunks + chunk;
    }
    return used;
}

/* Chunk number chunk of one task of all calls, tile by tile. The keys of a tile that calls before
 * have read are near. */
static void run_parts(const struct attn_layer_call *calls, int count, int64_t task, int64_t chunk,
                      const struct attn_layer_room *room)
{
    const int64_t tiles = attn_decode_chunk_tiles(&attn_layer_plan_full(calls[0].plan)->attention);
    struct attn_decode_part parts[PARTS];

    for (int64_t tile = 0; tile < tiles; tile++)
        for (int i = 0; i < count; i += PARTS) {
            const int used =
                bind_parts(&calls[i], (int)attn_min(PARTS, count - i), task, chunk, parts);
            attn_decode_run_parts_tile(parts, used, tile, i > 0, room->workspace, room->bytes);
        }
}

void attn_layer_together_run(const struct attn_layer_call *calls, int count, int stage,
                             int64_t task, const struct attn_layer_room *room)
{
    const struct attn_layer_plan_full *plan = attn_layer_plan_full(calls[0].plan);
    const enum attn_layer_product product = attn_layer_product(calls[0].plan, stage);

    if (count > 1 && product != ATTN_PRODUCT_NONE) {
        attn_layer_product_run(calls, count, product, task, room->workspace);
    } else if (count > 1 && kind_of(plan, stage) == ATTN_LAYER_ATTEND_PART) {
        const int64_t chunks = chunks_max(calls, count);
        run_parts(calls, count, task / chunks, task % chunks, room);
    } else {
        for (int i = 0; i < count; i++)
            attn_layer_run(calls[i].plan, stage, task, calls[i].scratch, room->workspace);
    }
}
