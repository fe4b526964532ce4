/* wire_safetensors_answer.c - see wire_safetensors.h: writes an answer.
 *
 * Values of eight bytes come first, so that all are aligned in the file. */
#include "wire/wire_safetensors.h"

#include "base/dtype.h"
#include "infer/infer_gradient.h"
#include "infer/infer_results.h"
#include "wire/safetensors_answer.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    RESULTS_MAX = ATTN_OUTPUT_COUNT + 2, /* of an item: also indices and mass_left */
    GRADIENTS_MAX = INFER_INPUT_COUNT + 2 + ATTN_PER_HEAD_COUNT + 2 * MODEL_TENSOR_COUNT
};

/* The tensors of an answer while it is put together; all lies in the request's arena. */
struct answer {
    struct arena *arena;
    struct safetensors_tensor *tensors;
    int64_t count;
    const char *list; /* name of the list that the items are in; NULL: there is one item */
    int64_t number;   /* of the item in it */
};

static bool answer_init(struct answer *answer, struct infer_call *call, int64_t tensors_max,
                        struct fault *fault)
{
    *answer = (struct answer){ .arena = &call->request.arena };
    answer->tensors = arena_alloc(answer->arena, (size_t)tensors_max * sizeof *answer->tensors);
    return answer->tensors || fault_no_memory(fault);
}

/* "results.0.context" of the first item of a list; NULL without memory. */
static const char *name_in_list(const struct answer *answer, const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s.%" PRId64 ".%s", answer->list, answer->number, name);
    return arena_strdup(answer->arena, whole);
}

static bool add(struct answer *answer, const char *name, const char *dtype, const void *values,
                int rank, const int64_t *shape, struct fault *fault)
{
    struct safetensors_tensor *tensor = &answer->tensors[answer->count++];
    *tensor = (struct safetensors_tensor){
        answer->list ? name_in_list(answer, name) : name, rank, { 0 }, values, dtype
    };
    for (int i = 0; i < rank; i++)
        tensor->shape[i] = shape[i];
    return tensor->name || fault_no_memory(fault);
}

/* Sends the tensors, those of the largest elements first. */
static bool send(struct infer_call *call, const struct answer *answer,
                 const struct safetensors_pair *metadata, int count, struct fault *fault)
{
    struct safetensors_tensor *ordered =
        arena_alloc(answer->arena, (size_t)answer->count * sizeof *ordered);
    int64_t used = 0;
    if (!ordered)
        return fault_no_memory(fault);
    for (unsigned bits = 64; bits >= 8; bits /= 2)
        for (int64_t i = 0; i < answer->count; i++)
            if (safetensors_dtype_bits(answer->tensors[i].dtype) == bits)
                ordered[used++] = answer->tensors[i];
    return safetensors_answer_make(&call->base, answer->arena, ordered, used, metadata, count,
                                   fault);
}

/* Sends the answer of the one item. */
static bool send_item(struct infer_call *call, const struct answer *answer,
                      const struct safetensors_pair *more, int more_count, struct fault *fault)
{
    const struct infer_item *item = &call->request.items[0];
    char layer[24];
    snprintf(layer, sizeof layer, "%" PRId64, item->layer_index);
    const char *precision = infer_precision(item);
    int count = 0;
    struct safetensors_pair metadata[3 + WIRE_SAFETENSORS_MORE_MAX];
    metadata[count++] = (struct safetensors_pair){ .key = "model", .value = item->model->name };
    metadata[count++] = (struct safetensors_pair){ .key = "layer", .value = layer };
    if (precision)
        metadata[count++] = (struct safetensors_pair){ .key = "precision", .value = precision };
    for (int i = 0; i < more_count; i++)
        metadata[count++] = more[i];
    return send(call, answer, metadata, count, fault);
}

/* Adds what an item has computed. */
static bool add_results(struct infer_call *call, struct answer *answer, struct infer_item *item,
                        struct fault *fault)
{
    int64_t shape[3];
    const bool has_indices = item->outputs[ATTN_OUTPUT_WEIGHTS] && infer_has_weight_map(item)
                             && item->weight_map.top_k > 0;
    if (!infer_convert_results(&call->request, item, item->answer_dtype, fault))
        return false;
    if (has_indices) {
        const int rank = infer_output_shape(item, ATTN_OUTPUT_WEIGHTS, shape);
        if (!add(answer, "weights.indices", "I64", item->weight_map.indices, rank, shape, fault))
            return false;
    }
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        const int rank = infer_output_shape(item, i, shape);
        const char *name =
            i == ATTN_OUTPUT_WEIGHTS && has_indices ? "weights.values" : infer_output_names[i];
        const char *dtype = dtype_name(infer_output_dtype(item->answer_dtype, i));
        if (item->outputs[i] && !add(answer, name, dtype, item->results[i], rank, shape, fault))
            return false;
    }
    if (!item->has_selection)
        return true;
    shape[0] = item->layer.q_heads;
    shape[1] = item->q_len;
    return add(answer, "mass_left", "F32", item->selection.mass_left, 2, shape, fault);
}

bool wire_safetensors_write(struct infer_call *call, struct fault *fault)
{
    return wire_safetensors_write_with(call, NULL, 0, fault);
}

bool wire_safetensors_write_with(struct infer_call *call, const struct safetensors_pair *more,
                                 int more_count, struct fault *fault)
{
    struct answer answer;
    return answer_init(&answer, call, RESULTS_MAX, fault)
           && add_results(call, &answer, &call->request.items[0], fault)
           && send_item(call, &answer, more, more_count, fault);
}

bool wire_safetensors_write_list(struct infer_call *call, const char *list,
                                 const struct safetensors_pair *metadata, int metadata_count,
                                 struct fault *fault)
{
    struct infer_request *request = &call->request;
    struct answer answer;
    if (!answer_init(&answer, call, request->item_count * RESULTS_MAX, fault))
        return false;
    answer.list = list;
    for (; answer.number < request->item_count; answer.number++) {
        struct infer_item *item = &request->items[answer.number];
        if (item->fault.code == FAULT_NONE && !add_results(call, &answer, item, fault))
            return false;
    }
    return send(call, &answer, metadata, metadata_count, fault);
}

/* Adds a gradient, if there is one. Gradients are computed as floats and converted here. */
static bool add_gradient(struct infer_call *call, struct answer *answer, const char *name,
                         const float *values, int rank, const int64_t *shape, struct fault *fault)
{
    const enum attn_dtype dtype = call->request.items[0].answer_dtype;
    const void *converted = values;
    if (!values)
        return true;
    if (dtype != ATTN_F32) {
        size_t count = 1;
        for (int i = 0; i < rank; i++)
            count *= (size_t)shape[i]; /* no overflow: they are in memory */
        void *bytes = arena_alloc(&call->request.arena, count * attn_dtype_size(dtype));
        if (!bytes)
            return fault_no_memory(fault);
        dtype_write(bytes, dtype, values, count);
        converted = bytes;
    }
    return add(answer, name, dtype_name(dtype), converted, rank, shape, fault);
}

static bool add_inputs(struct infer_call *call, struct answer *answer, struct fault *fault)
{
    static const char *const NAMES[INFER_INPUT_COUNT] = { "query", "key", "value" };
    const struct infer_item *item = &call->request.items[0];
    const struct infer_gradient *gradient = item->gradient;
    int64_t shape[3];
    for (int i = 0; i < INFER_INPUT_COUNT; i++) {
        const int rank = infer_gradient_shape(item, i, shape);
        if (!add_gradient(call, answer, NAMES[i], gradient->inputs[i], rank, shape, fault))
            return false;
    }
    int rank = infer_gradient_shape(item, INFER_QUERY, shape);
    if (!add_gradient(call, answer, "input", gradient->input, rank, shape, fault))
        return false;
    if (gradient->mask) {
        rank = infer_gradient_mask_shape(item, shape);
        if (!add_gradient(call, answer, "mask", gradient->mask, rank, shape, fault))
            return false;
    }
    shape[0] = item->layer.q_heads;
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (!add_gradient(call, answer, attn_per_head_fields[i].name, gradient->per_head[i], 1,
                          shape, fault))
            return false;
    return true;
}

bool wire_safetensors_write_gradients(struct infer_call *call, struct fault *fault)
{
    struct infer_item *item = &call->request.items[0];
    struct answer answer;
    infer_gradient_finish(item);
    if (!answer_init(&answer, call, GRADIENTS_MAX, fault) || !add_inputs(call, &answer, fault))
        return false;
    for (int i = 0; i < MODEL_TENSOR_COUNT; i++)
        for (int is_bias = 0; is_bias < 2; is_bias++) {
            const struct model_tensor *tensor = infer_gradient_tensor(item, i, is_bias);
            if (!add_gradient(call, &answer, tensor->name, item->gradient->parameters[i][is_bias],
                              tensor->rank, tensor->shape, fault))
                return false;
        }
    return send_item(call, &answer, NULL, 0, fault);
}
