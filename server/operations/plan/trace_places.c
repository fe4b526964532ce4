/* SPDX-License-Identifier: Apache-2.0 */
/* trace_places.c - where in a model and its rows what is asked of a trace lies: layers, positions,
 * rows of spans. */
#include "operations/plan/trace_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TOP_K_DEFAULT = 5 };

struct trace_place trace_place_of(const struct model_forward *forward, int64_t layer)
{
    for (int s = 0; s < forward->stream_count; s++)
        for (int64_t i = 0; i < forward->streams[s].block_count; i++) {
            const struct model_block *block = &forward->streams[s].blocks[i];
            const bool is_cross = block->cross_layer == layer;
            const bool is_beside = block->beside_layer == layer;
            if (block->self_layer == layer || is_cross || is_beside)
                return (struct trace_place){ s, is_cross, is_beside, block };
        }
    return (struct trace_place){ .block = NULL };
}

int64_t trace_span_rows(const struct trace_item *item, const struct trace_stream *stream)
{
    return item->has_row_spans ? item->row_span_count
           : stream->span_rows ? stream->span_row_count
                               : stream->length;
}

/* The positions of mask tokens; positions NULL: only counts them. */
static int64_t find_masks(const struct trace_item *item, int stream, int64_t *positions)
{
    const struct token_list *list = &item->streams[stream].tokens;
    const int64_t mask_id = trace_mask_id(item->model);
    int64_t count = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (list->tokens[i].id == mask_id) {
            if (positions)
                positions[count] = i;
            count++;
        }
    return count;
}

bool trace_list_positions(const struct trace_item *item, int stream, int64_t **list, int64_t *count,
                          struct arena *arena, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    const int64_t length = item->streams[stream].length;
    const bool is_masked = forward->head.is_masked && trace_mask_id(item->model) >= 0;
    *count = item->has_positions ? item->position_count
             : is_masked         ? find_masks(item, stream, NULL)
                                 : (length > 0 ? 1 : 0);
    *list = arena_calloc(arena, (size_t)*count, sizeof **list);
    if (!*list)
        return fault_no_memory(fault);
    if (!item->has_positions && is_masked)
        find_masks(item, stream, *list);
    else if (!item->has_positions && length > 0)
        (*list)[0] = length - 1;
    for (int64_t i = 0; item->has_positions && i < *count; i++) {
        const int64_t position = item->positions[i];
        char pointer[FAULT_POINTER_MAX];
        snprintf(pointer, sizeof pointer, "/positions/%" PRId64, i);
        if (position < -length || position >= length)
            return fault_set_at(fault, pointer, FAULT_OPTION,
                                "positions[%" PRId64 "] is %" PRId64 "; there are %" PRId64
                                " tokens",
                                i, position, length);
        (*list)[i] = position < 0 ? position + length : position;
    }
    return true;
}

int64_t trace_candidates(const struct trace_item *item)
{
    const int64_t vocabulary = trace_vocabulary(item->model->forward);
    const int64_t wanted = item->top_k_tokens > 0 ? item->top_k_tokens : TOP_K_DEFAULT;
    return wanted < vocabulary ? wanted : vocabulary;
}

void trace_list_kinds(const struct model *model, char *out, size_t out_size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < model->layer_count; i++) {
        const char *kind = model_layer_kind(&model->layers[i]);
        bool is_new = true;
        for (int64_t k = 0; k < i && is_new; k++)
            is_new = strcmp(kind, model_layer_kind(&model->layers[k])) != 0;
        if (is_new && used < out_size)
            used +=
                (size_t)snprintf(out + used, out_size - used, "%s%s", used > 0 ? ", " : "", kind);
    }
}
