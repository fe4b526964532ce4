/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - reads calls of attention from any format, and says their results to any. */
#include "operations/attention.h"

#include "base/dtype.h"
#include "call/infer_gradient.h"
#include "call/infer_results.h"
#include "operations/say.h"

#include <stddef.h>
#include <string.h>

/* ----------------------------------------------------------------- bodies -- */

bool attention_read(struct call *call, struct field_items *items, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    struct infer_item shared = {
        .outputs = { [ATTN_OUTPUT_CONTEXT] = true, [ATTN_OUTPUT_WEIGHTS] = true },
    };
    items->target.into = &shared;
    items->fault_offset = offsetof(struct infer_item, fault);
    request->number_bytes = operation_answer(call)->number_bytes;
    if (!operation_read_items(call, items, fault))
        return false;
    request->items = items->items;
    request->item_count = items->count;
    return true;
}

static bool read_batch(struct call *call, struct fault *fault)
{
    struct field_items items = { .target.table = &attention_batch_fields };
    infer_request_of(call)->batch = true;
    return attention_read(call, &items, fault);
}

static bool read_gradients(struct call *call, struct fault *fault)
{
    struct field_items items = { .target.table = &attention_fields,
                                 .more.table = &gradient_fields };
    infer_request_of(call)->gradients = true;
    return attention_read(call, &items, fault);
}

static bool read_merge(struct call *call, struct fault *fault)
{
    struct field_items items = { .target.table = &merge_fields };
    if (!attention_read(call, &items, fault))
        return false;
    struct infer_item *item = &infer_request_of(call)->items[0];
    item->outputs[ATTN_OUTPUT_WEIGHTS] = false;
    item->outputs[ATTN_OUTPUT_LSE] = true;
    if (!item->parts)
        return fault_set_at(fault, "/parts", FAULT_FIELD, "parts is missing");
    return item->part_count > 0
           || fault_set_at(fault, "/parts", FAULT_SHAPE, "parts is empty; expected one or more");
}

/* -------------------------------------------------------------- one array -- */

static bool not_one(const struct format *format, struct fault *fault, const char *what)
{
    return fault_set_at(fault, "/outputs", FAULT_OPTION,
                        "%s holds one tensor, and %s; expected one of outputs, or "
                        "Accept: application/x-safetensors",
                        format->one_array, what);
}

/* Checks that the answer is one array, of a dtype that the format has. Without outputs it is the
 * context. */
static bool settle_one_array(const struct format *format, struct infer_item *item,
                             struct fault *fault)
{
    int count = 0, output = 0;
    if (!item->has_outputs)
        item->outputs[ATTN_OUTPUT_WEIGHTS] = false;
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        count += item->outputs[i];
        output = item->outputs[i] ? i : output;
    }
    if (item->partial)
        return not_one(format, fault, "a partial answer is context and lse");
    if (count != 1)
        return not_one(format, fault, count == 0 ? "outputs names none" : "outputs names several");
    if (item->outputs[ATTN_OUTPUT_WEIGHTS] && item->weight_map.top_k > 0)
        return not_one(format, fault, "a top_k is indices and values");
    if (format->lacks_bf16 && item->query.data
        && infer_output_dtype(item->query.dtype, output) == ATTN_BF16)
        return fault_set_at(fault, "/query", FAULT_DTYPE,
                            "query is BF16, which %s has no dtype for; expected F32, F16 or F64, "
                            "or Accept: application/x-safetensors",
                            format->one_array);
    return true;
}

static bool read_single(struct call *call, struct fault *fault)
{
    struct field_items items = { .target.table = &attention_fields };
    const struct format *format = operation_answer(call);
    return attention_read(call, &items, fault)
           && (!format->one_array
               || settle_one_array(format, &infer_request_of(call)->items[0], fault));
}

/* ---------------------------------------------------------------- results -- */

static void say_selection(struct writer *writer, const struct infer_item *item)
{
    const int64_t shape[] = { item->layer.q_heads, item->q_len };
    int64_t read, seen;
    infer_selection_keys(item, &read, &seen);
    say_array(writer, "mass_left", item->selection.mass_left, ATTN_F32, 2, shape);
    writer->kind->integer(writer, "keys_read", read);
    writer->kind->integer(writer, "keys_seen", seen);
}

void attention_say_results(struct writer *writer, const struct infer_item *item)
{
    const bool has_top_k = infer_has_weight_map(item) && item->weight_map.top_k > 0;
    int64_t shape[3];
    if (infer_precision(item))
        writer->kind->string(writer, "precision", infer_precision(item));
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        const int rank = item->outputs[i] ? infer_output_shape(item, i, shape) : 0;
        if (item->outputs[i] && i == ATTN_OUTPUT_WEIGHTS && has_top_k)
            say_top_k(writer, "weights", item->weight_map.indices, item->results[i],
                      item->result_dtype, rank, shape);
        else if (item->outputs[i])
            say_array(writer, infer_output_names[i], item->results[i],
                      infer_output_dtype(item->result_dtype, i), rank, shape);
    }
    if (item->has_selection)
        say_selection(writer, item);
}

static void say_model(struct writer *writer, const struct infer_item *item)
{
    writer->kind->string(writer, "model", item->model->name);
    writer->kind->integer(writer, "layer", item->layer_index);
}

static void say_single(const struct call *call, struct writer *writer)
{
    const struct infer_item *item = &infer_request_of(call)->items[0];
    say_model(writer, item);
    attention_say_results(writer, item);
}

static void say_batch(const struct call *call, struct writer *writer)
{
    const struct infer_request *request = infer_request_of(call);
    writer->kind->list(writer, "results");
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct infer_item *item = &request->items[i];
        writer->kind->object(writer, NULL);
        if (item->fault.code != FAULT_NONE) {
            say_fault(writer, &item->fault, i);
        } else {
            say_model(writer, item);
            attention_say_results(writer, item);
        }
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* A file says for which model it is; JSON is context and lse alone. */
static void say_merge(const struct call *call, struct writer *writer)
{
    const struct infer_item *item = &infer_request_of(call)->items[0];
    if (writer->kind->keeps_dtype)
        say_model(writer, item);
    attention_say_results(writer, item);
}

bool attention_finish(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    const bool keeps_dtype = operation_answer(call)->writer->keeps_dtype;
    for (int64_t i = 0; i < request->item_count; i++) {
        struct infer_item *item = &request->items[i];
        const enum attn_dtype dtype = keeps_dtype ? item->answer_dtype : ATTN_F32;
        if (item->fault.code == FAULT_NONE && !infer_convert_results(request, item, dtype, fault))
            return false;
    }
    return true;
}

/* -------------------------------------------------------------- gradients -- */

enum { GRADIENTS_MAX = INFER_INPUT_COUNT + 2 + ATTN_PER_HEAD_COUNT + 2 * MODEL_TENSOR_COUNT };

/* The gradients of an answer, in its order: those of inputs, then those of parameters. */
struct gradient_list {
    const char *names[GRADIENTS_MAX];
    struct array arrays[GRADIENTS_MAX];
    int count, input_count;
    struct arena *arena;
    enum attn_dtype dtype;
};

/* Adds a gradient, if there is one. Gradients are computed as floats and converted here. False: no
 * memory. */
static bool add_gradient(struct gradient_list *list, const char *name, const float *values,
                         int rank, const int64_t *shape)
{
    struct array *array = &list->arrays[list->count];
    size_t count = 1;
    if (!values)
        return true;
    *array = (struct array){ .data = values, .dtype = list->dtype, .rank = rank };
    memcpy(array->shape, shape, (size_t)rank * sizeof *shape);
    list->names[list->count++] = name;
    if (list->dtype == ATTN_F32)
        return true;
    for (int i = 0; i < rank; i++)
        count *= (size_t)shape[i]; /* no overflow: they are in memory */
    void *bytes = arena_alloc(list->arena, count * attn_dtype_size(list->dtype));
    if (bytes)
        dtype_write(bytes, list->dtype, values, count);
    array->data = bytes;
    return bytes != NULL;
}

static bool add_inputs(struct gradient_list *list, const struct infer_item *item)
{
    static const char *const NAMES[INFER_INPUT_COUNT] = { "query", "key", "value" };
    const struct infer_gradient *gradient = item->gradient;
    int64_t shape[3];
    int rank;
    for (int i = 0; i < INFER_INPUT_COUNT; i++) {
        rank = infer_gradient_shape(item, i, shape);
        if (!add_gradient(list, NAMES[i], gradient->inputs[i], rank, shape))
            return false;
    }
    rank = infer_gradient_shape(item, INFER_QUERY, shape);
    if (!add_gradient(list, "input", gradient->input, rank, shape))
        return false;
    rank = gradient->mask ? infer_gradient_mask_shape(item, shape) : 0;
    if (!add_gradient(list, "mask", gradient->mask, rank, shape))
        return false;
    shape[0] = item->layer.q_heads;
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (!add_gradient(list, attn_per_head_fields[i].name, gradient->per_head[i], 1, shape))
            return false;
    return true;
}

static bool add_parameters(struct gradient_list *list, const struct infer_item *item)
{
    list->input_count = list->count;
    for (int i = 0; i < MODEL_TENSOR_COUNT; i++)
        for (int is_bias = 0; is_bias < 2; is_bias++) {
            const struct model_tensor *tensor = infer_gradient_tensor(item, i, is_bias);
            if (!add_gradient(list, tensor->name, item->gradient->parameters[i][is_bias],
                              tensor->rank, tensor->shape))
                return false;
        }
    return true;
}

static void say_gradients(const struct call *call, struct writer *writer)
{
    const struct gradient_list *list = call->state;
    say_model(writer, &infer_request_of(call)->items[0]);
    for (int i = 0; i < list->input_count; i++)
        writer->kind->array(writer, list->names[i], &list->arrays[i]);
    writer->kind->group(writer, "parameters");
    for (int i = list->input_count; i < list->count; i++)
        writer->kind->array(writer, list->names[i], &list->arrays[i]);
    writer->kind->end(writer);
}

static bool finish_gradients(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    struct infer_item *item = &request->items[0];
    struct gradient_list *list = arena_calloc(request->arena, 1, sizeof *list);
    if (!list)
        return fault_no_memory(fault);
    list->arena = request->arena;
    list->dtype = operation_answer(call)->writer->keeps_dtype ? item->answer_dtype : ATTN_F32;
    call->state = list;
    infer_gradient_finish(item);
    return (add_inputs(list, item) && add_parameters(list, item)) || fault_no_memory(fault);
}

/* ------------------------------------------------------------------ calls -- */

const struct operation attention_single = { .kind = &infer_kind,
                                            .formats = operation_formats_npy,
                                            .address = &attention_fields,
                                            .read = read_single,
                                            .finish = attention_finish,
                                            .say = say_single };
const struct operation attention_batch = { .kind = &infer_kind,
                                           .formats = operation_formats_json,
                                           .read = read_batch,
                                           .finish = attention_finish,
                                           .say = say_batch };
const struct operation attention_merge = { .kind = &infer_kind,
                                           .formats = operation_formats_tensors,
                                           .read = read_merge,
                                           .finish = attention_finish,
                                           .say = say_merge };
const struct operation attention_gradients = { .kind = &infer_kind,
                                               .formats = operation_formats_tensors,
                                               .read = read_gradients,
                                               .finish = finish_gradients,
                                               .say = say_gradients };

bool attention_warm_up(struct service *service, struct fault *fault)
{
    static const char body[] = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]}";
    return operation_try(service, &attention_single, (struct byte_slice){ body, sizeof body - 1 },
                         fault);
}
