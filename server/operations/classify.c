/* SPDX-License-Identifier: Apache-2.0 */
/* classify.c - classes of texts and ranks of texts for a query, in the forms of
 * text-embeddings-inference: /predict and /rerank. */
#include "models/model/model_forward.h"
#include "operations/trace.h"
#include "operations/vector_call.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a query, for all texts: each pair has its tokens, and memory and time for that must not
 * be as much as a client likes. */
enum { QUERY_BYTES_MAX = 1 << 24 };

#define AT(member)      offsetof(struct vector_asked, member)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* -------------------------------------------------------------------- reading -- */

static bool wrong_inputs(struct field_reader *reader, const struct value *value)
{
    return field_wrong_type(reader, value,
                            "a string, a pair of strings, or a list of [string] and "
                            "[string, string]");
}

/* One text or two. */
static bool read_pair(struct field_reader *reader, const struct message *strings,
                      struct prompt *prompt)
{
    if (strings->count < 1 || strings->count > 2)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s has an input of %" PRId64 " strings; expected 1 or 2", reader->name,
                            strings->count);
    for (int64_t i = 0; i < strings->count; i++) {
        if (strings->values[i].kind != VALUE_STRING)
            return wrong_inputs(reader, &strings->values[i]);
        if (!field_read_bytes(reader, &strings->values[i], i > 0 ? &prompt->pair : &prompt->text))
            return false;
    }
    return true;
}

static bool make_inputs(struct field_reader *reader, struct prompts *inputs, int64_t count)
{
    if (count < 1 || count > PROMPTS_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s has %" PRId64 " members; expected 1 to %d", reader->name, count,
                            PROMPTS_MAX);
    inputs->list = arena_calloc(reader->arena, (size_t)count, sizeof *inputs->list);
    inputs->count = count;
    return inputs->list || fault_no_memory(reader->fault);
}

/* A list is a batch where its first member is a list. */
static bool read_inputs(struct field_reader *reader, const struct value *value, void *into)
{
    struct prompts *inputs = &((struct vector_asked *)into)->inputs;
    const struct message *list, *strings;
    if (value->kind == VALUE_STRING)
        return make_inputs(reader, inputs, 1)
               && field_read_bytes(reader, value, &inputs->list[0].text);
    if (!value_is_list(value, &list))
        return wrong_inputs(reader, value);
    inputs->is_list = list->count == 0 || list->values[0].kind != VALUE_STRING;
    if (!make_inputs(reader, inputs, inputs->is_list ? list->count : 1))
        return false;
    if (!inputs->is_list)
        return read_pair(reader, list, &inputs->list[0]);
    for (int64_t i = 0; i < list->count; i++)
        if (!(value_is_list(&list->values[i], &strings)
                  ? read_pair(reader, strings, &inputs->list[i])
                  : wrong_inputs(reader, &list->values[i])))
            return false;
    return true;
}

static bool read_texts(struct field_reader *reader, const struct value *value, void *into)
{
    struct prompts *inputs = &((struct vector_asked *)into)->inputs;
    const struct byte_slice *texts;
    int64_t count;
    if (!trace_read_byte_slices(reader, value, &texts, &count)
        || !make_inputs(reader, inputs, count))
        return false;
    inputs->is_list = true;
    for (int64_t i = 0; i < count; i++)
        inputs->list[i].pair = texts[i];
    return true;
}

#define COMMON_ROWS                                                                                \
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },                           \
        { .name = "truncate",                                                                      \
          .kind = FIELD_BOOL,                                                                      \
          .offset = AT(truncate),                                                                  \
          .has = AT(has_truncate) },                                                               \
        { .name = "truncation_direction",                                                          \
          .kind = FIELD_ENUM,                                                                      \
          .offset = AT(direction),                                                                 \
          .names = vector_directions,                                                              \
          .name_count = VECTOR_DIRECTIONS },                                                       \
    {                                                                                              \
        .name = "raw_scores", .kind = FIELD_BOOL, .offset = AT(raw_scores)                         \
    }

static const struct field PREDICT_ROWS[] = {
    { .name = "inputs", .kind = FIELD_OWN, .own = read_inputs },
    COMMON_ROWS,
};

static const struct field RERANK_ROWS[] = {
    { .name = "query", .kind = FIELD_BYTES, .offset = AT(query) },
    { .name = "texts", .kind = FIELD_OWN, .own = read_texts },
    { .name = "return_text", .kind = FIELD_BOOL, .offset = AT(return_text) },
    COMMON_ROWS,
};

static const struct field_table predict_fields = { .rows = PREDICT_ROWS,
                                                   .count = COUNT_OF(PREDICT_ROWS),
                                                   .policy = FIELDS_LISTED,
                                                   .bytes = sizeof(struct vector_asked) };
static const struct field_table rerank_fields = { .rows = RERANK_ROWS,
                                                  .count = COUNT_OF(RERANK_ROWS),
                                                  .policy = FIELDS_LISTED,
                                                  .bytes = sizeof(struct vector_asked) };

/* The plan refuses a model without classes, in its own words. */
static bool check_model(const struct model *model, bool is_rank, struct fault *fault)
{
    const struct model_classes *classes = model->forward ? &model->forward->classes : NULL;
    if (!classes || classes->count == 0)
        return true;
    if (classes->is_of_rows)
        return fault_set_at(fault, "/model", FAULT_OPTION,
                            "the classes of model '%s' are of each token; ask for the logits of a "
                            "trace",
                            model->name);
    return !is_rank || classes->count == 1
           || fault_set_at(fault, "/model", FAULT_OPTION,
                           "model '%s' has %" PRId64 " classes; a rank is of a model with one",
                           model->name, classes->count);
}

static bool make_items(struct call *call, struct vector_asked *asked, bool is_rank,
                       struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    struct model *model;
    if (!vector_call_find_model(call, asked, is_rank ? vector_has_rank : vector_has_classes, &model,
                                fault)
        || !vector_call_make_items(call, asked, model, fault)
        || !check_model(request->items[0].model, is_rank, fault))
        return false;
    for (int64_t i = 0; i < request->item_count; i++)
        request->items[i].outputs[TRACE_OUTPUT_LOGITS] = true;
    vector_call_cut(call, asked);
    return true;
}

static bool read_predict(struct call *call, struct fault *fault)
{
    struct vector_asked *asked = vector_call_read(call, &predict_fields, "inputs", fault);
    return asked && make_items(call, asked, false, fault);
}

static bool read_rerank(struct call *call, struct fault *fault)
{
    struct vector_asked *asked = vector_call_read(call, &rerank_fields, "texts", fault);
    if (!asked)
        return false;
    if (!asked->query.data)
        return fault_set_at(fault, "/query", FAULT_FIELD, "query is missing");
    if (asked->query.size > (size_t)(QUERY_BYTES_MAX / asked->inputs.count))
        return fault_set_at(fault, "/query", FAULT_TOO_LARGE,
                            "query has %zu bytes, and goes before each of %" PRId64
                            " texts; expected at most %d bytes together",
                            asked->query.size, asked->inputs.count, QUERY_BYTES_MAX);
    for (int64_t i = 0; i < asked->inputs.count; i++)
        asked->inputs.list[i].text = asked->query;
    return make_items(call, asked, true, fault);
}

/* -------------------------------------------------------------------- answers -- */

struct scored {
    float score;
    int64_t index;
};

/* The highest score first; of equal ones the later, as an ascending sort turned around has it. What
 * is no number is last. */
static int compare_scored(const void *a, const void *b)
{
    const struct scored *left = a, *right = b;
    if (isnan(left->score) || isnan(right->score))
        return isnan(left->score) - isnan(right->score);
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return left->index < right->index ? 1 : -1;
}

static bool write_classes(struct call *call, const struct trace_item *item, struct fault *fault)
{
    const struct model_classes *classes = &item->model->forward->classes;
    struct text *text = &call->text;
    const size_t count = (size_t)classes->count;
    float *scores = arena_calloc(&call->arena, count, sizeof *scores);
    struct scored *sorted = arena_calloc(&call->arena, count, sizeof *sorted);
    if (!scores || !sorted)
        return fault_no_memory(fault);
    model_classes_activate(vector_asked_of(call)->raw_scores ? MODEL_CLASSES_NONE
                                                             : classes->activation,
                           item->classes.numbers.values, classes->count, scores);
    for (int64_t i = 0; i < classes->count; i++)
        sorted[i] = (struct scored){ scores[i], i };
    qsort(sorted, count, sizeof *sorted, compare_scored);
    for (int64_t i = 0; i < classes->count; i++) {
        text_raw(text, i > 0 ? ",{\"score\":" : "[{\"score\":");
        text_float(text, sorted[i].score);
        text_raw(text, ",\"label\":");
        text_string(text, classes->labels[sorted[i].index]);
        text_raw(text, "}");
    }
    text_raw(text, "]");
    return true;
}

static bool write_predict(struct call *call, struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    const bool is_list = vector_asked_of(call)->inputs.is_list;
    text_raw(&call->text, is_list ? "[" : "");
    for (int64_t i = 0; i < request->item_count; i++) {
        text_raw(&call->text, i > 0 ? "," : "");
        if (!write_classes(call, &request->items[i], fault))
            return false;
    }
    text_raw(&call->text, is_list ? "]\n" : "\n");
    return text_finish(&call->text, fault);
}

static bool write_rerank(struct call *call, struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    const struct vector_asked *asked = vector_asked_of(call);
    struct text *text = &call->text;
    struct scored *sorted = arena_calloc(&call->arena, (size_t)request->item_count, sizeof *sorted);
    if (!sorted)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < request->item_count; i++) {
        sorted[i].index = i;
        model_classes_activate(asked->raw_scores ? MODEL_CLASSES_NONE : MODEL_CLASSES_SIGMOID,
                               request->items[i].classes.numbers.values, 1, &sorted[i].score);
    }
    qsort(sorted, (size_t)request->item_count, sizeof *sorted, compare_scored);
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct byte_slice input = asked->inputs.list[sorted[i].index].pair;
        text_raw(text, i > 0 ? ",{\"index\":" : "[{\"index\":");
        text_integer(text, sorted[i].index);
        if (asked->return_text) {
            text_raw(text, ",\"text\":");
            text_string_bytes(text, input.data, input.size);
        }
        text_raw(text, ",\"score\":");
        text_float(text, sorted[i].score);
        text_raw(text, "}");
    }
    text_raw(text, "]\n");
    return text_finish(text, fault);
}

const struct operation predict_call = { .kind = &trace_kind,
                                        .formats = operation_formats_json,
                                        .read = read_predict,
                                        .explain = vector_call_explain,
                                        .finish = write_predict };
const struct operation rerank_call = { .kind = &trace_kind,
                                       .formats = operation_formats_json,
                                       .read = read_rerank,
                                       .explain = vector_call_explain,
                                       .finish = write_rerank };
