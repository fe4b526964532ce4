/* SPDX-License-Identifier: Apache-2.0 */
/* trace_reading.c - what a trace reads of its pass beside maps and rows, as planned: rows that are
 * summed up, and weights of heads. */
#include "operations/plan/trace_plan.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------- spans of rows -- */

static bool check_row_spans(const struct trace_item *item, int64_t length, struct fault *fault)
{
    for (int64_t i = 0; i < item->row_span_count; i++) {
        const struct attn_map_range *rows = &item->row_spans[i];
        char pointer[FAULT_POINTER_MAX];
        if (rows->begin >= 0 && rows->begin <= rows->end && rows->end <= length)
            continue;
        snprintf(pointer, sizeof pointer, "/row_spans/%" PRId64, i);
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "row_spans[%" PRId64 "] is [%" PRId64 ", %" PRId64
                            "]; expected a range of %" PRId64 " rows",
                            i, rows->begin, rows->end, length);
    }
    return true;
}

/* The rows of all of them, each once. */
static bool list_rows(const struct trace_item *item, struct trace_stream *stream,
                      struct arena *arena, struct fault *fault)
{
    bool *is_listed = arena_calloc(arena, (size_t)stream->length, sizeof *is_listed);
    int64_t *rows = arena_calloc(arena, (size_t)stream->length, sizeof *rows);
    int64_t count = 0;
    if (!is_listed || !rows)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < item->row_span_count; i++)
        for (int64_t row = item->row_spans[i].begin; row < item->row_spans[i].end; row++)
            is_listed[row] = true;
    for (int64_t row = 0; row < stream->length; row++)
        if (is_listed[row])
            rows[count++] = row;
    stream->span_rows = rows;
    stream->span_row_count = count;
    return true;
}

bool trace_plan_row_spans(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    if (item->has_head_weights && item->span_count == 0)
        return fault_set_at(fault, "/head_weights", FAULT_FIELD, "head_weights came without spans");
    if (!item->has_row_spans)
        return true;
    if (item->span_count == 0)
        return fault_set_at(fault, "/row_spans", FAULT_FIELD, "row_spans came without spans");
    if (item->has_rows)
        return fault_set_at(fault, "/row_spans", FAULT_FIELD,
                            "both rows and row_spans came; expected one of them");
    for (int64_t i = 0; i < item->answered_count; i++) {
        const struct trace_layer *layer = &item->answered[i];
        struct trace_stream *stream =
            &item->streams[trace_place_of(item->model->forward, layer->number).stream];
        if (layer->has_spans && !stream->span_rows
            && (!check_row_spans(item, stream->length, fault)
                || !list_rows(item, stream, arena, fault)))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------ weights of heads -- */

static bool wrong_shape(const struct trace_item *item, int64_t layers, int64_t heads,
                        struct fault *fault)
{
    const struct model *model = item->model;
    const int64_t own =
        item->answered_count > 0 ? model->layers[item->answered[0].number].layer.q_heads : 0;
    return fault_set_at(fault, "/head_weights", FAULT_SHAPE,
                        "head_weights is [%" PRId64 "][%" PRId64 "]; %" PRId64
                        " layers are answered, whose heads are %" PRId64,
                        layers, heads, item->answered_count, own);
}

/* Whether each layer of the answer has so many heads. */
static bool has_heads(const struct trace_item *item, int64_t heads)
{
    for (int64_t i = 0; i < item->answered_count; i++)
        if (item->model->layers[item->answered[i].number].layer.q_heads != heads)
            return false;
    return true;
}

static bool take_matrix(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct array *given = &item->head_weights;
    const int64_t rows = given->rank > 0 ? given->shape[0] : 0;
    const int64_t heads = given->rank > 1 ? given->shape[1] : 0;
    const bool is_none = item->answered_count == 0 && array_is_empty(given);
    if (!is_none && (given->rank != 2 || rows != item->answered_count || !has_heads(item, heads)))
        return wrong_shape(item, rows, heads, fault);
    const size_t count = (size_t)(rows * heads);
    float *weights = arena_calloc(arena, count, sizeof *weights);
    if (!weights)
        return fault_no_memory(fault);
    dtype_read(weights, given->data, given->dtype, count);
    item->layer_weights = weights;
    return true;
}

static const struct model_head_weights *find_named(const struct model *model, const char *name)
{
    for (int64_t i = 0; i < model->head_weight_count; i++)
        if (strcmp(model->head_weights[i].name, name) == 0)
            return &model->head_weights[i];
    return NULL;
}

/* Of as many rows as the model has layers those of the answer's layers are taken. */
static bool take_named(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model *model = item->model;
    const struct model_head_weights *named = find_named(model, item->head_weights_name);
    if (!named)
        return fault_set_at(fault, "/head_weights", FAULT_NOT_FOUND,
                            "model '%s' has no head_weights of the name '%.60s'%s%s", model->name,
                            item->head_weights_name,
                            model->head_weights_reason ? ": head_weights.json was not read: " : "",
                            model->head_weights_reason ? model->head_weights_reason : "");
    const bool is_of_all = named->layers == model->layer_count;
    if ((!is_of_all && named->layers != item->answered_count) || !has_heads(item, named->heads))
        return wrong_shape(item, named->layers, named->heads, fault);
    float *weights =
        arena_calloc(arena, (size_t)(item->answered_count * named->heads), sizeof *weights);
    if (!weights)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < item->answered_count; i++)
        memcpy(weights + i * named->heads,
               named->values + (is_of_all ? item->answered[i].number : i) * named->heads,
               (size_t)named->heads * sizeof *weights);
    item->layer_weights = weights;
    return true;
}

bool trace_plan_head_weights(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    int stream = -1;
    if (!item->has_head_weights)
        return true;
    if (!(item->head_weights_name ? take_named(item, arena, fault)
                                  : take_matrix(item, arena, fault)))
        return false;
    for (int64_t i = 0; i < item->answered_count; i++) {
        const int own = trace_place_of(item->model->forward, item->answered[i].number).stream;
        if (!item->answered[i].has_spans)
            continue;
        if (stream >= 0 && own != stream)
            return fault_set_at(fault, "/head_weights", FAULT_OPTION,
                                "head_weights are over layers of the same rows, and layers %" PRId64
                                " and %" PRId64 " have those of two texts; choose their kinds",
                                item->answered[0].number, item->answered[i].number);
        stream = own;
    }
    item->span_scores = (struct trace_tensor){
        .rank = 2,
        .shape = { stream >= 0 ? trace_span_rows(item, &item->streams[stream]) : 0,
                   item->span_count }
    };
    return true;
}
