/* SPDX-License-Identifier: Apache-2.0 */
/* edit_plan.c - what the edits of an item mean for its model: which layers, heads, rows and keys,
 * and numbers as floats. Everything is checked here, so that a pass cannot fail on them. */
#include "operations/plan/trace_plan.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const edit_place_names[EDIT_PLACE_COUNT] = {
#define X(NAME, name) #name,
    EDIT_PLACE_MAP(X)
#undef X
};

static const char *const ACTION_NAMES[EDIT_ACTION_COUNT] = {
#define X(NAME, name) #name,
    EDIT_ACTION_MAP(X)
#undef X
};

/* The edit that is planned, number `number` of its item. */
struct planning {
    struct trace_request *request;
    struct trace_item *item;
    struct trace_edit *edit;
    int64_t number;
    struct fault *fault;
};

/* field: "/rows/1"; "": the edit as a whole. */
static bool edit_fault(const struct planning *planning, enum fault_code code, const char *field,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

static bool edit_fault(const struct planning *planning, enum fault_code code, const char *field,
                       const char *format, ...)
{
    char pointer[FAULT_POINTER_MAX], message[FAULT_MESSAGE_MAX];
    va_list list;
    snprintf(pointer, sizeof pointer, "/edits/%" PRId64 "%s", planning->number, field);
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return fault_set_at(planning->fault, pointer, code, "%s", message);
}

/* As edit_fault(), of element i of a field. */
static bool element_fault(const struct planning *planning, enum fault_code code, const char *field,
                          int64_t i, const char *format, ...) __attribute__((format(printf, 5, 6)));

static bool element_fault(const struct planning *planning, enum fault_code code, const char *field,
                          int64_t i, const char *format, ...)
{
    char element[64], message[FAULT_MESSAGE_MAX];
    va_list list;
    snprintf(element, sizeof element, "%s/%" PRId64, field, i);
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return edit_fault(planning, code, element, "%s[%" PRId64 "] of edit %" PRId64 " %s", field + 1,
                      i, planning->number, message);
}

/* As element_fault(), of a number or range that is not within 0 to most - 1. */
static bool range_fault(const struct planning *planning, const char *field, int64_t i,
                        const struct edit_range *range, const char *what, int64_t most)
{
    char came[64];
    snprintf(came, sizeof came, range->is_number ? "%" PRId64 : "[%" PRId64 ", %" PRId64 "]",
             range->begin, range->end);
    return element_fault(planning, FAULT_OPTION, field, i, "is %s; there are %" PRId64 " %s", came,
                         most, what);
}

static void *plan_memory(const struct planning *planning, int64_t count, size_t size)
{
    void *memory = arena_calloc(planning->request->arena, (size_t)count, size);
    if (!memory)
        fault_no_memory(planning->fault);
    return memory;
}

/* ------------------------------------------------------------ action and place -- */

static bool plan_action(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    const bool is_asked[EDIT_ACTION_COUNT] = {
        [EDIT_HIDE] = edit->hide.has || edit->hide_texts,
        [EDIT_WEIGHTS] = edit->has_weights,
        [EDIT_SCALE] = edit->has_scale,
        [EDIT_ADD] = edit->add.data,
        [EDIT_SET] = edit->set.data,
        [EDIT_MEAN] = edit->mean,
        [EDIT_FROM] = edit->has_from,
    };
    int count = edit->hide.has && edit->hide_texts;
    for (int i = 0; i < EDIT_ACTION_COUNT; i++) {
        count += is_asked[i];
        if (is_asked[i])
            edit->action = (enum edit_action)i;
    }
    if (count != 1)
        return edit_fault(planning, FAULT_FIELD, "",
                          "edit %" PRId64 " has %s; expected exactly one of hide, hide_texts, "
                          "weights, scale, add, set, mean and from",
                          planning->number, count == 0 ? "no action" : "several actions");
    if (edit->has_times && edit->action != EDIT_ADD)
        return edit_fault(planning, FAULT_OPTION, "/times", "times came without add");
    return true;
}

static bool is_of_kind(const struct planning *planning, int64_t layer)
{
    return strcmp(model_layer_kind(&planning->item->model->layers[layer]), planning->edit->kind)
           == 0;
}

/* Whether a layer has the place; the feed-forward of a block is that of its own layer, and one
 * beside attention has but what it adds. */
static bool has_place(const struct model *model, int64_t layer, const struct trace_edit *edit,
                      const struct trace_place *place)
{
    return place->block && place->is_cross == edit->is_cross && place->is_beside == edit->is_beside
           && (!place->is_beside || edit->at == EDIT_ATTENTION_OUTPUT)
           && (edit->at != EDIT_FEED_FORWARD || place->block->dense.down.weight
               || place->block->experts.router.weight)
           && (edit->at != EDIT_ATTENTION_OUTPUT || place->block->recurrence
               || !model->layers[layer].lacks_attention);
}

const char *trace_edit_kind(const struct model *model, enum edit_place at)
{
    const char *only = NULL;
    int stream = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct trace_place place = trace_place_of(model->forward, i);
        const struct trace_edit edit = { .at = (int)at,
                                         .is_cross = place.is_cross,
                                         .is_beside = place.is_beside };
        const char *kind = model_layer_kind(&model->layers[i]);
        if (!has_place(model, i, &edit, &place)
            || (at == EDIT_HEAD && model->layers[i].lacks_attention))
            continue;
        if (!only) {
            only = kind;
            stream = place.stream;
        } else if (strcmp(only, kind) != 0 && (at != EDIT_EMBEDDINGS || place.stream != stream)) {
            return NULL;
        }
    }
    return only ? only : "self";
}

/* Sets the kind and the stream whose rows the edit is of. */
static bool plan_kind(const struct planning *planning)
{
    const struct model *model = planning->item->model;
    struct trace_edit *edit = planning->edit;
    if (!edit->kind)
        edit->kind = trace_edit_kind(model, (enum edit_place)edit->at);
    if (!edit->kind) {
        char kinds[96];
        trace_list_kinds(model, kinds, sizeof kinds);
        return edit_fault(planning, FAULT_FIELD, "",
                          "edit %" PRId64 " has no kind; model '%s' has layers of the kinds %s",
                          planning->number, model->name, kinds);
    }
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct trace_place place = trace_place_of(model->forward, i);
        if (!is_of_kind(planning, i) || !place.block)
            continue;
        edit->stream = place.stream;
        edit->is_cross = place.is_cross;
        edit->is_beside = place.is_beside;
        return true;
    }
    return edit_fault(planning, FAULT_OPTION, "/kind",
                      "the pass of model '%s' has no layers of the kind '%.40s'", model->name,
                      edit->kind);
}

/* Whether layers of the edit's kind have no attention. */
static bool lacks_attention(const struct planning *planning)
{
    const struct model *model = planning->item->model;
    for (int64_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].lacks_attention && is_of_kind(planning, i))
            return true;
    return false;
}

static bool plan_place(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    const char *at = edit_place_names[edit->at];
    if (edit->is_beside && edit->at != EDIT_ATTENTION_OUTPUT)
        return edit_fault(planning, FAULT_OPTION, "/at",
                          "layers of the kind '%.40s' stand beside attention and have no %s of "
                          "their own; expected attention_output, which is what they add, or the "
                          "kind of the attention",
                          edit->kind, at);
    if (edit->at == EDIT_HEAD && lacks_attention(planning))
        return edit_fault(planning, FAULT_OPTION, "/at",
                          "layers of the kind '%.40s' have no attention, so no heads, keys or "
                          "weights to edit; expected hidden_states, attention_output, which is "
                          "what they add, or feed_forward",
                          edit->kind);
    if (edit->is_cross && edit->at != EDIT_HEAD && edit->at != EDIT_ATTENTION_OUTPUT)
        return edit_fault(planning, FAULT_OPTION, "/at",
                          "cross attention has no %s of its own; expected head or "
                          "attention_output, or the kind of the decoder's own layers",
                          at);
    if (edit->at != EDIT_HEAD && edit->action <= EDIT_WEIGHTS) {
        char field[24];
        snprintf(field, sizeof field, "/%s",
                 edit->hide_texts ? "hide_texts" : ACTION_NAMES[edit->action]);
        return edit_fault(planning, FAULT_OPTION, field, "%s is an edit at head, not at %s",
                          field + 1, at);
    }
    if (edit->at != EDIT_HEAD && edit->heads.has)
        return edit_fault(planning, FAULT_OPTION, "/heads", "there are no heads at %s", at);
    if (edit->at == EDIT_EMBEDDINGS && edit->layers.has)
        return edit_fault(planning, FAULT_OPTION, "/layers",
                          "embeddings enter the first layer alone; leave layers out");
    if (edit->is_cross && edit->action == EDIT_WEIGHTS
        && (edit->pattern == EDIT_SELF || edit->pattern == EDIT_PREVIOUS))
        return edit_fault(planning, FAULT_OPTION, "/weights",
                          "a row of cross attention has no key at its own position");
    return true;
}

/* ------------------------------------------------------------- layers and heads -- */

static bool plan_named_layers(const struct planning *planning, bool *in_layer)
{
    const struct model *model = planning->item->model;
    const struct trace_edit *edit = planning->edit;
    for (int64_t i = 0; i < edit->layers.count; i++) {
        const int64_t layer = edit->layers.ranges[i].begin;
        if (layer < 0 || layer >= model->layer_count)
            return element_fault(planning, FAULT_NOT_FOUND, "/layers", i,
                                 "is %" PRId64 "; model '%s' has layers 0 to %" PRId64, layer,
                                 model->name, model->layer_count - 1);
        if (!is_of_kind(planning, layer))
            return element_fault(planning, FAULT_OPTION, "/layers", i,
                                 "is %" PRId64 ", a layer of the kind '%s'; the edit is of '%s'",
                                 layer, model_layer_kind(&model->layers[layer]), edit->kind);
        const struct trace_place place = trace_place_of(model->forward, layer);
        if (!has_place(model, layer, edit, &place))
            return element_fault(planning, FAULT_OPTION, "/layers", i,
                                 "is %" PRId64 ", a layer without %s", layer,
                                 edit_place_names[edit->at]);
        in_layer[layer] = true;
    }
    return true;
}

static bool plan_layers(const struct planning *planning)
{
    const struct model *model = planning->item->model;
    struct trace_edit *edit = planning->edit;
    if (edit->at == EDIT_EMBEDDINGS)
        return true;
    bool *in_layer = plan_memory(planning, model->layer_count, sizeof *in_layer);
    if (!in_layer)
        return false;
    edit->in_layer = in_layer;
    if (edit->layers.has)
        return plan_named_layers(planning, in_layer);
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct trace_place place = trace_place_of(model->forward, i);
        in_layer[i] = is_of_kind(planning, i) && has_place(model, i, edit, &place);
    }
    return true;
}

/* Marks and lists: ascending, each once. */
static const int64_t *list_marked(const struct planning *planning, const bool *marked,
                                  int64_t length, int64_t *count)
{
    int64_t *list = plan_memory(planning, length, sizeof *list);
    *count = 0;
    for (int64_t i = 0; list && i < length; i++)
        if (marked[i])
            list[(*count)++] = i;
    return list;
}

static bool plan_heads(const struct planning *planning)
{
    const struct model *model = planning->item->model;
    struct trace_edit *edit = planning->edit;
    int64_t least = INT64_MAX;
    if (!edit->heads.has)
        return true;
    for (int64_t i = 0; i < model->layer_count; i++)
        if (edit->in_layer[i] && model->layers[i].layer.q_heads < least)
            least = model->layers[i].layer.q_heads;
    least = least == INT64_MAX ? model->layers[0].layer.q_heads : least;
    bool *marked = plan_memory(planning, least, sizeof *marked);
    if (!marked)
        return false;
    for (int64_t i = 0; i < edit->heads.count; i++) {
        const int64_t head = edit->heads.ranges[i].begin;
        if (head < 0 || head >= least)
            return range_fault(planning, "/heads", i, &edit->heads.ranges[i], "query heads", least);
        marked[head] = true;
    }
    edit->head_list = list_marked(planning, marked, least, &edit->head_count);
    return edit->head_list != NULL;
}

/* ---------------------------------------------------------------- rows and keys -- */

/* The rows of a number or a range; false: there are no such rows. */
static bool resolve_range(const struct edit_range *range, int64_t length, int64_t *begin,
                          int64_t *end)
{
    *begin = range->is_number && range->begin < 0 ? range->begin + length : range->begin;
    *end = range->is_number ? *begin + 1 : range->end;
    return *begin >= 0 && *begin <= *end && *end <= length;
}

static bool plan_rows(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    const int64_t length = planning->item->streams[edit->stream].length;
    bool *marked = plan_memory(planning, length, sizeof *marked);
    if (!marked)
        return false;
    memset(marked, !edit->rows.has, (size_t)length);
    for (int64_t i = 0; i < edit->rows.count; i++) {
        int64_t begin, end;
        if (!resolve_range(&edit->rows.ranges[i], length, &begin, &end))
            return range_fault(planning, "/rows", i, &edit->rows.ranges[i], "rows", length);
        memset(marked + begin, true, (size_t)(end - begin));
    }
    edit->row_list = list_marked(planning, marked, length, &edit->row_count);
    return edit->row_list != NULL;
}

/* Keys that rows of the edit may see. */
static int64_t key_count(const struct planning *planning)
{
    const struct trace_item *item = planning->item;
    const struct trace_edit *edit = planning->edit;
    const int64_t past = item->past && !edit->is_cross ? item->past->length : 0;
    return past + item->streams[edit->is_cross ? 0 : edit->stream].length;
}

static bool plan_hidden_texts(const struct planning *planning, struct attn_map_range *ranges)
{
    const struct trace_item *item = planning->item;
    const struct trace_edit *edit = planning->edit;
    const bool of_decoder =
        item->model->forward->is_encoder_decoder && edit->stream == 1 && !edit->is_cross;
    const int stream = edit->is_cross ? 0 : edit->stream;
    const int64_t past = item->past ? item->past->length : 0;
    if (!trace_may_search(planning->request, item, stream, edit->hide_text_count))
        return edit_fault(planning, FAULT_TOO_LARGE, "/hide_texts",
                          "looking for %" PRId64 " hide_texts takes too long; send fewer, or hide",
                          edit->hide_text_count);
    for (int64_t i = 0; i < edit->hide_text_count; i++) {
        const char *reason = "";
        if (!trace_find_text(item, stream, of_decoder, edit->hide_texts[i], &ranges[i], &reason))
            return element_fault(planning, FAULT_OPTION, "/hide_texts", i, "%s", reason);
        ranges[i].begin += past;
        ranges[i].end += past;
    }
    return true;
}

/* Makes of the hidden ranges the fewest that hide the same keys, at least one: a pass goes through
 * them for every row, and a list may be longer than the keys are many. */
static bool merge_hidden(const struct planning *planning, int64_t keys)
{
    struct trace_edit *edit = planning->edit;
    bool *marked = plan_memory(planning, keys, sizeof *marked);
    struct attn_map_range *merged = plan_memory(planning, keys / 2 + 1, sizeof *merged);
    if (!marked || !merged)
        return false;
    for (int64_t i = 0; i < edit->hidden_count; i++)
        memset(marked + edit->hidden[i].begin, true,
               (size_t)(edit->hidden[i].end - edit->hidden[i].begin));
    int64_t count = 0;
    for (int64_t i = 0; i < keys; i++) {
        if (!marked[i])
            continue;
        if (i == 0 || !marked[i - 1])
            merged[count++].begin = i;
        merged[count - 1].end = i + 1;
    }
    edit->hidden = merged;
    edit->hidden_count = count > 0 ? count : 1;
    return true;
}

static bool plan_hidden(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    const int64_t keys = key_count(planning);
    const int64_t count = edit->hide_texts ? edit->hide_text_count : edit->hide.count;
    struct attn_map_range *ranges = plan_memory(planning, count, sizeof *ranges);
    if (!ranges)
        return false;
    for (int64_t i = 0; !edit->hide_texts && i < count; i++)
        if (!resolve_range(&edit->hide.ranges[i], keys, &ranges[i].begin, &ranges[i].end))
            return range_fault(planning, "/hide", i, &edit->hide.ranges[i], "keys", keys);
    if (edit->hide_texts && !plan_hidden_texts(planning, ranges))
        return false;
    edit->hidden = ranges;
    edit->hidden_count = count;
    return edit->hides_apart || merge_hidden(planning, keys);
}

/* -------------------------------------------------------------------- numbers -- */

static bool plan_width(const struct planning *planning)
{
    const struct model *model = planning->item->model;
    struct trace_edit *edit = planning->edit;
    edit->width = model->forward->streams[edit->stream].width;
    if (edit->at != EDIT_HEAD)
        return true;
    edit->width = -1;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const int64_t own = model->layers[i].layer.v_head_dim;
        if (!edit->in_layer[i] || own == edit->width)
            continue;
        if (edit->width >= 0)
            return (edit->action != EDIT_ADD && edit->action != EDIT_SET)
                   || edit_fault(planning, FAULT_SHAPE, "/layers",
                                 "heads of these layers have %" PRId64 " and %" PRId64
                                 " columns; expected layers of one width",
                                 edit->width, own);
        edit->width = own;
    }
    return true;
}

/* The array as floats, of this shape; rows 0: of one dimension. */
static bool plan_numbers(const struct planning *planning, const struct array *array,
                         const char *field, bool has_rows, int64_t columns)
{
    struct trace_edit *edit = planning->edit;
    const int64_t rows = has_rows ? edit->row_count : 1, numbers = rows * columns;
    const bool is_empty = array_is_empty(array) && numbers == 0;
    const bool fits =
        has_rows ? array->rank == 2 && array->shape[0] == rows && array->shape[1] == columns
                 : array->rank == 1 && array->shape[0] == columns;
    if (!fits && !is_empty && has_rows)
        return edit_fault(planning, FAULT_SHAPE, field,
                          "%s of edit %" PRId64 " does not fit; expected [%" PRId64 "][%" PRId64
                          "], a row for each row of the edit",
                          field + 1, planning->number, rows, columns);
    if (!fits && !is_empty)
        return edit_fault(planning, FAULT_SHAPE, field,
                          "%s of edit %" PRId64 " does not fit; expected %" PRId64 " numbers",
                          field + 1, planning->number, columns);
    float *values = plan_memory(planning, numbers, sizeof *values);
    if (!values)
        return false;
    dtype_read(values, array->data, array->dtype, (size_t)numbers);
    for (int64_t i = 0; i < numbers; i++)
        if (!isfinite(values[i]))
            return edit_fault(planning, FAULT_NONFINITE, field,
                              "number %" PRId64 " of %s of edit %" PRId64 " is not a finite float",
                              i, field + 1, planning->number);
    edit->values = values;
    return true;
}

/* ------------------------------------------------------------------ kept rows -- */

static bool has_source_layer(const struct planning *planning, int64_t layer)
{
    return kept_trace_states(planning->edit->source, planning->edit->at, planning->edit->stream,
                             layer)
           != NULL;
}

/* The layers of the kept trace that rows are taken of. */
static bool plan_source_layers(const struct planning *planning)
{
    const struct model *model = planning->item->model;
    struct trace_edit *edit = planning->edit;
    edit->source_layer = edit->has_from_layer ? edit->from_layer : -1;
    if (edit->at == EDIT_EMBEDDINGS)
        return !edit->has_from_layer
               || edit_fault(planning, FAULT_OPTION, "/from/layer", "embeddings have no layer");
    if (edit->has_from_layer) {
        if (edit->from_layer >= model->layer_count || !has_source_layer(planning, edit->from_layer))
            return edit_fault(planning, FAULT_NOT_FOUND, "/from/layer",
                              "trace '%s' has no layer %" PRId64, edit->from_trace,
                              edit->from_layer);
        return is_of_kind(planning, edit->from_layer)
               || edit_fault(planning, FAULT_OPTION, "/from/layer",
                             "layer %" PRId64 " is of another kind", edit->from_layer);
    }
    for (int64_t i = 0; i < model->layer_count; i++)
        if (edit->in_layer[i] && !has_source_layer(planning, i))
            return edit_fault(planning, FAULT_NOT_FOUND, "/from/layer",
                              "trace '%s' has no layer %" PRId64, edit->from_trace, i);
    return true;
}

static bool plan_source_rows(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    const int64_t length = edit->source->lengths[edit->stream];
    int64_t *rows = plan_memory(planning, edit->row_count, sizeof *rows);
    int64_t count = 0;
    if (!rows)
        return false;
    edit->source_rows = rows;
    for (int64_t i = 0; !edit->from_rows.has && i < edit->row_count; i++, count++) {
        rows[i] = edit->row_list[i];
        if (rows[i] >= length)
            return edit_fault(planning, FAULT_SHAPE, "/from/rows",
                              "row %" PRId64 " is edited; trace '%s' has %" PRId64
                              " rows: say which rows to take",
                              rows[i], edit->from_trace, length);
    }
    for (int64_t i = 0; i < edit->from_rows.count; i++) {
        int64_t begin, end;
        if (!resolve_range(&edit->from_rows.ranges[i], length, &begin, &end))
            return element_fault(planning, FAULT_SHAPE, "/from/rows", i,
                                 "is no row of the kept trace");
        for (; begin < end; begin++, count++)
            if (count < edit->row_count)
                rows[count] = begin;
    }
    if (count == 1)
        for (int64_t i = 1; i < edit->row_count; i++)
            rows[i] = rows[0];
    return count == edit->row_count || count == 1
           || edit_fault(planning, FAULT_SHAPE, "/from/rows",
                         "from has %" PRId64 " rows; the edit has %" PRId64
                         ": expected as many, or one",
                         count, edit->row_count);
}

static bool plan_source(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    const struct trace_request *request = planning->request;
    if (!edit->from_trace)
        return edit_fault(planning, FAULT_FIELD, "/from/trace", "trace is missing");
    if (!edit->source)
        edit->source =
            kept_store_find(request->kept, edit->from_trace, request->key, planning->fault);
    if (!edit->source) {
        snprintf(planning->fault->pointer, sizeof planning->fault->pointer,
                 "/edits/%" PRId64 "/from/trace", planning->number);
        return false;
    }
    if (edit->source->model != planning->item->model)
        return edit_fault(planning, FAULT_OPTION, "/from/trace",
                          "trace '%s' is of model '%s'; the request is of '%s'", edit->from_trace,
                          edit->source->model->name, planning->item->model->name);
    if (!edit->source->has_states)
        return edit_fault(planning, FAULT_OPTION, "/from/trace",
                          "trace '%s' was kept without \"states\": true", edit->from_trace);
    return plan_source_layers(planning) && plan_source_rows(planning);
}

/* ------------------------------------------------------------------- one edit -- */

static bool plan_action_numbers(const struct planning *planning)
{
    struct trace_edit *edit = planning->edit;
    switch (edit->action) {
    case EDIT_HIDE:
        return plan_hidden(planning);
    case EDIT_WEIGHTS:
        return edit->pattern != EDIT_MATRIX
               || plan_numbers(planning, &edit->matrix, "/weights", true, key_count(planning));
    case EDIT_ADD:
        return plan_numbers(planning, &edit->add, "/add", false, edit->width);
    case EDIT_SET:
        return plan_numbers(planning, &edit->set, "/set", true, edit->width);
    case EDIT_FROM:
        return plan_source(planning);
    default:
        return true;
    }
}

static bool plan_edit(const struct planning *planning)
{
    return plan_action(planning) && plan_kind(planning) && plan_place(planning)
           && plan_layers(planning) && plan_heads(planning) && plan_rows(planning)
           && plan_width(planning) && plan_action_numbers(planning);
}

bool trace_plan_edits(struct trace_request *request, struct trace_item *item, struct fault *fault)
{
    if (item->edit_count > TRACE_EDITS_MAX)
        return fault_set_at(fault, "/edits", FAULT_OPTION,
                            "there are %" PRId64 " edits; expected at most %d", item->edit_count,
                            TRACE_EDITS_MAX);
    if (item->states && item->keep_ns == 0)
        return fault_set_at(fault, "/states", FAULT_OPTION,
                            "states are kept with a trace; send keep too");
    /* Items of a batch may share what was asked. */
    struct trace_edit *edits =
        arena_calloc(request->arena, (size_t)item->edit_count, sizeof *edits);
    if (!edits)
        return fault_no_memory(fault);
    if (item->edit_count > 0)
        memcpy(edits, item->edits, (size_t)item->edit_count * sizeof *edits);
    item->edits = edits;
    item->planned_edit_count = item->edit_count;
    for (int64_t i = 0; i < item->edit_count; i++) {
        const struct planning planning = { request, item, &item->edits[i], i, fault };
        if (!plan_edit(&planning))
            return false;
    }
    return true;
}

bool edit_is_at(const struct trace_edit *edit, enum edit_place place, int stream, int64_t layer)
{
    return (enum edit_place)edit->at == place && edit->stream == stream
           && (place == EDIT_EMBEDDINGS || edit->in_layer[layer]);
}

void edits_release(struct trace_edit *edits, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        kept_trace_release(edits[i].source);
        edits[i].source = NULL;
    }
}
