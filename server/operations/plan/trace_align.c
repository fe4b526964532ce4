/* SPDX-License-Identifier: Apache-2.0 */
/* trace_align.c - plans the alignment of a decoder's tokens with the input of its encoder: the
 * heads whose maps are averaged, the rows and keys, and memory. */
#include "operations/plan/trace_plan.h"

#include "operations/pass/align.h"
#include "operations/pass/sound.h"

#include <inttypes.h>
#include <stdio.h>

static bool refuse_head(const struct trace_item *item, int64_t i, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/align_heads/%" PRId64, i);
    return fault_set_at(
        fault, pointer, FAULT_OPTION,
        "align_heads[%" PRId64 "] is [%" PRId64 ", %" PRId64
        "]; expected a layer of cross attention of model '%s', and one of its heads",
        i, item->align_heads[i].begin, item->align_heads[i].end, item->model->name);
}

/* Each head once: there are then no more than the model has. */
static bool check_is_new(const struct trace_item *item, int64_t i, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    int64_t earlier = 0;
    while (earlier < i
           && (item->align_heads[earlier].begin != item->align_heads[i].begin
               || item->align_heads[earlier].end != item->align_heads[i].end))
        earlier++;
    if (earlier == i)
        return true;
    snprintf(pointer, sizeof pointer, "/align_heads/%" PRId64, i);
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "align_heads[%" PRId64 "] is that of %" PRId64
                        " once more; expected each head once",
                        i, earlier);
}

static bool take_heads(const struct trace_item *item, int64_t (*heads)[2], struct fault *fault)
{
    const struct model *model = item->model;
    for (int64_t i = 0; i < item->align_head_count; i++) {
        const int64_t layer = item->align_heads[i].begin, head = item->align_heads[i].end;
        if (!check_is_new(item, i, fault))
            return false;
        if (layer < 0 || layer >= model->layer_count
            || !trace_place_of(model->forward, layer).is_cross || head < 0
            || head >= model->layers[layer].layer.q_heads)
            return refuse_head(item, i, fault);
        heads[i][0] = layer;
        heads[i][1] = head;
    }
    return true;
}

/* All heads of the last half of the decoder's blocks, as of a Whisper that lists none. */
static int64_t list_last_half(const struct model *model, int64_t (*heads)[2])
{
    const struct model_stream *decoder = &model->forward->streams[1];
    int64_t count = 0;
    for (int64_t i = decoder->block_count / 2; i < decoder->block_count; i++) {
        const int64_t layer = decoder->blocks[i].cross_layer;
        for (int64_t head = 0; layer >= 0 && head < model->layers[layer].layer.q_heads; head++) {
            if (heads) {
                heads[count][0] = layer;
                heads[count][1] = head;
            }
            count++;
        }
    }
    return count;
}

static bool choose_heads(const struct trace_item *item, struct trace_align *align,
                         struct arena *arena, struct fault *fault)
{
    const struct model *model = item->model;
    if (!item->has_align_heads && model->align_head_count > 0) {
        align->heads = model->align_heads;
        align->head_count = model->align_head_count;
    } else {
        align->head_count =
            item->has_align_heads ? item->align_head_count : list_last_half(model, NULL);
        int64_t(*heads)[2] = arena_calloc(arena, (size_t)align->head_count + 1, sizeof *heads);
        if (!heads)
            return fault_no_memory(fault);
        if (!item->has_align_heads)
            list_last_half(model, heads);
        else if (!take_heads(item, heads, fault))
            return false;
        align->heads = (const int64_t(*)[2])heads;
    }
    for (int64_t i = 0; i < align->head_count; i++)
        if (align->heads[i][0] > align->last_layer)
            align->last_layer = align->heads[i][0];
    if (align->head_count > 0)
        return true;
    return fault_set_at(fault, "/align_heads", FAULT_OPTION,
                        "align_heads has no head; expected one or more [layer, head]");
}

/* Of sound that is shorter than the model's features only its own keys. */
static int64_t key_count(const struct trace_item *item)
{
    const int64_t length = item->streams[0].length, step = (int64_t)2 * SOUND_HOP;
    const int64_t own = item->sound.data ? (item->sound.shape[0] + step - 1) / step : length;
    return own < 1 ? 1 : own < length ? own : length;
}

/* The last of the special tokens that the decoder begins with. */
static int64_t last_prompt_row(const struct trace_item *item)
{
    const struct token_list *list = &item->streams[1].tokens;
    const struct tokenizer *tokenizer = item->model->tokenizer;
    int64_t row = 0;
    while (row + 1 < list->count
           && (list->tokens[row + 1].is_special
               || (tokenizer && tokenizer_is_special(tokenizer, list->tokens[row + 1].id))))
        row++;
    return row;
}

static bool make_room(struct trace_align *align, struct arena *arena, struct fault *fault)
{
    const int64_t rows = align->rows - align->first_row;
    int64_t numbers;
    if (__builtin_mul_overflow(align->rows, align->keys, &numbers)
        || __builtin_mul_overflow(numbers, align->head_count, &numbers))
        return fault_no_memory(fault);
    align->maps = arena_calloc(arena, (size_t)numbers, sizeof *align->maps);
    align->copy =
        arena_calloc(arena, (size_t)(align->head_count * align->keys), sizeof *align->copy);
    align->workspace = arena_alloc(arena, align_workspace_bytes(rows, align->keys));
    align->places = arena_calloc(arena, (size_t)rows, sizeof *align->places);
    align->weights = arena_calloc(arena, (size_t)rows, sizeof *align->weights);
    align->times = arena_calloc(arena, (size_t)rows + 1, sizeof *align->times);
    return (align->maps && align->copy && align->workspace && align->places && align->weights
            && align->times)
           || fault_no_memory(fault);
}

bool trace_plan_align(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    if (!item->outputs[TRACE_OUTPUT_ALIGN])
        return !item->has_align_heads
               || fault_set_at(fault, "/align_heads", FAULT_FIELD,
                               "align_heads came without the output align");
    if (!forward->is_encoder_decoder || list_last_half(item->model, NULL) == 0)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "align is of cross attention, which model '%s' does not have",
                            item->model->name);
    if (item->streams[0].length == 0)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "align has nothing to go along: the encoder has no rows");
    struct trace_align *align = arena_calloc(arena, 1, sizeof *align);
    if (!align)
        return fault_no_memory(fault);
    align->is_speech = forward->streams[0].embedding.input == MODEL_INPUT_FEATURES;
    align->rows = item->streams[1].length;
    align->keys = key_count(item);
    align->first_row = last_prompt_row(item);
    item->align = align;
    return choose_heads(item, align, arena, fault) && make_room(align, arena, fault);
}
