/* SPDX-License-Identifier: Apache-2.0 */
/* effect_cut.c - a text without the tokens of a span: the tokens that are left, where the
 * prediction is among them, and the common edits, planned anew for as many rows as there are. */
#include "operations/effect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct attn_map_range NONE = { 0, 0 };

/* The stream that spans are of. */
static int span_stream(const struct effects *job)
{
    return job->edits[0].is_cross ? 0 : job->edits[0].stream;
}

static int head_stream(const struct effects *job)
{
    return effect_base(job)->model->forward->stream_count - 1;
}

/* The ids of the stream's tokens that are not in the span, and their types. */
static bool cut_tokens(const struct token_list *list, const struct attn_map_range *span,
                       struct arena *arena, int64_t **ids, int64_t **types, int64_t *count)
{
    *count = 0;
    *ids = arena_calloc(arena, (size_t)list->count, sizeof **ids);
    *types = arena_calloc(arena, (size_t)list->count, sizeof **types);
    for (int64_t i = 0; *ids && *types && i < list->count; i++) {
        if (i >= span->begin && i < span->end)
            continue;
        (*ids)[*count] = list->tokens[i].id;
        (*types)[(*count)++] = list->tokens[i].type;
    }
    return *ids && *types;
}

static bool cut_stream(const struct effects *job, int stream, const struct attn_map_range *span,
                       struct arena *arena, struct trace_item *item)
{
    const struct trace_item *base = effect_base(job);
    const struct model_forward *forward = base->model->forward;
    int64_t *ids, *types, count;
    if (!cut_tokens(&base->streams[stream].tokens, span, arena, &ids, &types, &count))
        return false;
    if (forward->is_encoder_decoder && stream == 1) {
        item->has_decoder_tokens = true;
        item->decoder_tokens = ids;
        item->decoder_token_count = count;
        return true;
    }
    item->has_tokens = true;
    item->tokens = ids;
    item->token_count = count;
    item->has_token_types = forward->streams[stream].embedding.types.rows != NULL;
    item->token_types = types;
    item->token_type_count = item->has_token_types ? count : 0;
    return true;
}

/* The common edits as they were asked for; kept rows are those that the base pass holds, whatever
 * became of their trace. */
static bool cut_edits(const struct effects *job, struct arena *arena, struct trace_item *item)
{
    const int64_t count = job->asked.edit_count;
    struct trace_edit *edits = arena_calloc(arena, (size_t)count, sizeof *edits);
    if (!edits)
        return false;
    for (int64_t i = 0; i < count; i++) {
        struct kept_trace *source = effect_base(job)->edits[i].source;
        edits[i] = job->asked.edits[i];
        edits[i].source = source ? kept_trace_hold(source) : NULL;
    }
    item->edits = edits;
    item->edit_count = item->planned_edit_count = count; /* held, so they are released */
    return true;
}

bool effect_cut(const struct effects *job, const struct attn_map_range *span,
                struct trace_request *request, struct trace_item *item, struct fault *fault)
{
    const struct trace_item *base = effect_base(job);
    const int own = span_stream(job);
    *item = (struct trace_item){ .at = -1,
                                 .model = base->model,
                                 .model_name = base->model_name,
                                 .pixels = base->pixels,
                                 .features = base->features,
                                 .sound = base->sound,
                                 .embeddings = base->embeddings,
                                 .has_layers = true,
                                 .has_outputs = true };
    for (int s = 0; s < base->model->forward->stream_count; s++)
        if (base->streams[s].tokens.tokens
            && !cut_stream(job, s, s == own ? span : &NONE, request->arena, item))
            return fault_no_memory(fault);
    item->narrow_row = job->position;
    if (own == head_stream(job) && span->end <= job->position)
        item->narrow_row -= span->end - span->begin;
    return (cut_edits(job, request->arena, item) || fault_no_memory(fault))
           && trace_plan_inputs(request, item, fault) && trace_plan_edits(request, item, fault);
}

/* ------------------------------------------------------------------------ faults -- */

static bool check_span(const struct effects *job, int64_t i, struct fault *fault)
{
    const struct attn_map_range *span = &job->edits[0].hidden[i];
    const char *name = job->asked.each == EFFECT_SPANS ? "spans" : "span_texts";
    const int own = span_stream(job);
    const int64_t length = effect_base(job)->streams[own].length;
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/each/%s/%" PRId64, name, i);
    if (own == head_stream(job) && span->begin <= job->position && job->position < span->end)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "%s[%" PRId64 "] has the position %" PRId64
                            ", which cannot be left out",
                            name, i, job->position);
    return span->end - span->begin < length
           || fault_set_at(fault, pointer, FAULT_OPTION,
                           "%s[%" PRId64 "] has all %" PRId64 " tokens; none would be left", name,
                           i, length);
}

/* Plans the text without the span, whether the common edits fit it. bytes: what it takes. */
static bool try_cut(const struct effects *job, const struct attn_map_range *span, size_t *bytes,
                    struct fault *fault)
{
    struct arena arena;
    struct trace_item item;
    struct trace_request request = { .arena = &arena,
                                     .items = &item,
                                     .item_count = 1,
                                     .kept = job->request.kept,
                                     .key = job->request.key };
    arena_init(&arena, job->call->limits.scratch_bytes_max);
    const bool fits = effect_cut(job, span, &request, &item, fault);
    *bytes = arena.used;
    if (!fits)
        arena_explain(&arena, fault);
    edits_release(item.edits, item.planned_edit_count);
    arena_free(&arena);
    return fits;
}

/* The common edits are planned for every text: their lists must not be too long for that. */
static bool check_lists(const struct effects *job, struct fault *fault)
{
    int64_t numbers = 0;
    for (int64_t i = 0; i < job->asked.edit_count; i++) {
        const struct trace_edit *edit = &job->asked.edits[i];
        numbers += edit->layers.count + edit->heads.count + edit->rows.count + edit->hide.count
                   + edit->from_rows.count;
    }
    return numbers <= EFFECT_CUT_NUMBERS / job->edits[0].hidden_count
           || fault_set_at(fault, "/edits", FAULT_TOO_LARGE,
                           "the lists of edits have %" PRId64 " numbers and ranges, for each of "
                           "%" PRId64 " spans that are left out; at most %d in all: send fewer "
                           "spans, or shorter lists",
                           numbers, job->edits[0].hidden_count, EFFECT_CUT_NUMBERS);
}

bool effect_check_cuts(struct effects *job, struct fault *fault)
{
    const struct trace_stream *stream = &effect_base(job)->streams[span_stream(job)];
    if (!stream->tokens.tokens || stream->is_given)
        return fault_set_at(fault, "/by", FAULT_OPTION,
                            "leave_out leaves tokens out, and rows came without tokens");
    const struct attn_map_range *spans = job->edits[0].hidden;
    const int64_t count = job->edits[0].hidden_count;
    size_t bytes;
    if (count > 0 && !check_lists(job, fault))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!check_span(job, i, fault)
            || (job->asked.edit_count > 0 && !try_cut(job, &spans[i], &bytes, fault)))
            return false;
    return count == 0 || try_cut(job, &NONE, &job->cut_bytes, fault);
}
