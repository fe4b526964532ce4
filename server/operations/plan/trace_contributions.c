/* SPDX-License-Identifier: Apache-2.0 */
/* trace_contributions.c - of which targets contributions are asked for, and room for them. */
#include "operations/plan/trace_plan.h"

#include <string.h>

static bool is_of_head(const struct trace_item *item, int64_t layer)
{
    const struct trace_place place = trace_place_of(item->model->forward, layer);
    return place.block && place.stream == item->model->forward->stream_count - 1;
}

static bool check(const struct trace_item *item, struct fault *fault)
{
    const struct model_head *head = &item->model->forward->head;
    if (!trace_expect_head(item, "/outputs", fault) || !trace_expect_one_row(item, fault))
        return false;
    if (head->transform.weight || head->norm.weight)
        return fault_set_at(
            fault, "/outputs", FAULT_OPTION,
            "the head of model '%s' has a layer of its own, so a logit is no sum of "
            "what the parts add; ask for lens",
            item->model->name);
    if (!item->has_targets || item->target_count == 0)
        return fault_set_at(fault, "/targets", FAULT_FIELD,
                            "contributions are those to targets, and none came");
    return true;
}

static bool make_parts(const struct trace_item *item, struct contribution *contribution,
                       struct arena *arena, struct fault *fault)
{
    const struct model *model = item->model;
    struct contribution_part *parts =
        arena_calloc(arena, (size_t)model->layer_count, sizeof *parts);
    contribution->parts = parts;
    for (int64_t i = 0; parts && i < model->layer_count; i++) {
        const struct trace_place place = trace_place_of(model->forward, i);
        if (!is_of_head(item, i))
            continue;
        struct contribution_part *part = &parts[contribution->part_count++];
        part->layer = i;
        part->head_count =
            model_block_recurrence(place.block, i) ? 1 : model->layers[i].layer.q_heads;
        part->has_feed_forward = trace_place_is_own(&place);
        part->heads = arena_calloc(arena, (size_t)part->head_count, sizeof *part->heads);
        if (!part->heads)
            return fault_no_memory(fault);
    }
    return parts || fault_no_memory(fault);
}

/* The place of the row among those that have contributions, which it joins. */
static int64_t place_of(struct trace_item *item, int64_t row)
{
    for (int64_t i = 0; i < item->contribution_row_count; i++)
        if (item->contribution_rows[i] == row)
            return i;
    item->contribution_rows[item->contribution_row_count] = row;
    return item->contribution_row_count++;
}

bool trace_plan_contributions(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const size_t count = (size_t)item->target_count;
    if (!item->outputs[TRACE_OUTPUT_CONTRIBUTIONS])
        return true;
    if (!check(item, fault))
        return false;
    item->contributions = arena_calloc(arena, count, sizeof *item->contributions);
    item->contribution_rows = arena_calloc(arena, count, sizeof *item->contribution_rows);
    if (!item->contributions || !item->contribution_rows)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < item->target_count; i++) {
        const struct trace_target *target = &item->targets[i];
        const struct trace_score *score = &item->scores[target->score];
        struct contribution *to = &item->contributions[i];
        *to = (struct contribution){ .row = score->row,
                                     .place = place_of(item, score->row),
                                     .id = score->id,
                                     .against = target->against.has ? score[1].id : -1 };
        if (!make_parts(item, to, arena, fault))
            return false;
    }
    item->contribution_count = item->target_count;
    return true;
}
