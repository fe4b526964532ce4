/* SPDX-License-Identifier: Apache-2.0 */
/* trace_lens.c - which layers of an answer have a lens, and which tokens it is asked about. */
#include "operations/plan/trace_plan.h"

#include <string.h>

/* Targets in the order of their rows: those of row r are targets[first[r]] to targets[first[r + 1]
 * - 1], each before those that came after it. */
struct by_row {
    int64_t *first, *targets;
};

static bool sort_targets(const struct trace_item *item, int64_t length, struct by_row *by_row,
                         struct arena *arena, struct fault *fault)
{
    by_row->first = arena_calloc(arena, (size_t)length + 2, sizeof *by_row->first);
    by_row->targets = arena_calloc(arena, (size_t)item->target_count, sizeof *by_row->targets);
    if (!by_row->first || !by_row->targets)
        return fault_no_memory(fault);
    int64_t *next = by_row->first + 1; /* where the next target of a row goes */
    for (int64_t t = 0; t < item->target_count; t++)
        next[item->scores[item->targets[t].score].row + 1]++;
    for (int64_t row = 0; row < length; row++)
        next[row + 1] += next[row];
    for (int64_t t = 0; t < item->target_count; t++)
        by_row->targets[next[item->scores[item->targets[t].score].row]++] = t;
    return true;
}

/* The targets at each of the positions. */
static bool list_scores(const struct trace_item *item, struct trace_lens *lens, struct arena *arena,
                        struct fault *fault)
{
    const int64_t length = item->streams[item->model->forward->stream_count - 1].length;
    struct by_row by_row;
    if (!sort_targets(item, length, &by_row, arena, fault))
        return false;
    for (int64_t p = 0; p < lens->tokens.count; p++) {
        const int64_t *first = by_row.first + lens->tokens.positions[p];
        lens->score_count += first[1] - first[0];
    }
    lens->scores = arena_calloc(arena, (size_t)lens->score_count, sizeof *lens->scores);
    if (!lens->scores)
        return fault_no_memory(fault);
    int64_t count = 0;
    for (int64_t p = 0; p < lens->tokens.count; p++) {
        const int64_t *first = by_row.first + lens->tokens.positions[p];
        for (int64_t i = first[0]; i < first[1]; i++)
            lens->scores[count++] = (struct trace_score){
                .row = p, .id = item->scores[item->targets[by_row.targets[i]].score].id
            };
    }
    return true;
}

/* The layers of the head's stream have one, a second layer of a block has none. */
bool trace_plan_lens(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    const int stream = forward->stream_count - 1;
    struct trace_lens first = { .score_count = 0 };
    if (!item->outputs[TRACE_OUTPUT_LENS])
        return true;
    if (!trace_expect_head(item, "/outputs", fault) || !trace_expect_one_row(item, fault)
        || !trace_list_positions(item, stream, &first.tokens.positions, &first.tokens.count, arena,
                                 fault)
        || !list_scores(item, &first, arena, fault))
        return false;
    first.tokens.candidates = trace_candidates(item);
    for (int64_t i = 0; i < item->answered_count; i++) {
        struct trace_layer *answered = &item->answered[i];
        const struct trace_place place = trace_place_of(forward, answered->number);
        if (place.stream != stream || !trace_place_is_own(&place))
            continue;
        struct trace_lens *lens = arena_calloc(arena, 1, sizeof *lens);
        struct trace_score *scores = arena_calloc(arena, (size_t)first.score_count, sizeof *scores);
        if (!lens || !scores)
            return fault_no_memory(fault);
        if (first.score_count > 0)
            memcpy(scores, first.scores, (size_t)first.score_count * sizeof *scores);
        *lens = first;
        lens->scores = scores;
        answered->lens = lens;
        item->lens_count++;
    }
    return true;
}
