/* trace_lens.c - which layers of an answer have a lens, and which tokens it is asked about. */
#include "operations/pass/trace_plan.h"

#include <string.h>

/* The targets at each of the positions. */
static bool list_scores(const struct trace_item *item, struct trace_lens *lens, struct arena *arena,
                        struct fault *fault)
{
    int64_t most = 0;
    for (int pass = 0; pass < 2; pass++) {
        lens->score_count = 0;
        for (int64_t p = 0; p < lens->tokens.count; p++)
            for (int64_t t = 0; t < item->target_count; t++) {
                const struct trace_score *score = &item->scores[item->targets[t].score];
                if (score->row != lens->tokens.positions[p])
                    continue;
                if (lens->scores)
                    lens->scores[lens->score_count] =
                        (struct trace_score){ .row = p, .id = score->id };
                lens->score_count++;
            }
        most = lens->score_count;
        if (!lens->scores)
            lens->scores = arena_calloc(arena, (size_t)most, sizeof *lens->scores);
        if (!lens->scores)
            return fault_no_memory(fault);
    }
    return true;
}

/* The layers of the head's stream have one, those of cross attention have none. */
bool trace_plan_lens(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    const int stream = forward->stream_count - 1;
    struct trace_lens first = { .score_count = 0 };
    if (!item->outputs[TRACE_OUTPUT_LENS])
        return true;
    if (!trace_expect_head(item, "/outputs", fault)
        || !trace_list_positions(item, stream, &first.tokens.positions, &first.tokens.count, arena,
                                 fault)
        || !list_scores(item, &first, arena, fault))
        return false;
    first.tokens.candidates = trace_candidates(item);
    for (int64_t i = 0; i < item->answered_count; i++) {
        struct trace_layer *answered = &item->answered[i];
        const struct trace_place place = trace_place_of(forward, answered->number);
        if (place.stream != stream || place.is_cross)
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
