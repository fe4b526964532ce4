/* infer_results.c - what a planned item answers with and computes in. */
#include "infer/infer_results.h"

#include "infer/infer_tasks.h"

const char *const infer_output_names[INFER_OUTPUT_COUNT] = {
#define X(name, text) text,
    INFER_OUTPUT_MAP(X)
#undef X
};

bool infer_has_weight_map(const struct infer_item *item)
{
    return item->has_weight_map && item->outputs[INFER_WEIGHTS];
}

size_t infer_numbers_per_element(const struct infer_item *item, enum infer_output output)
{
    return output == INFER_WEIGHTS && infer_has_weight_map(item) && item->weight_map.top_k > 0 ? 2
                                                                                               : 1;
}

int infer_output_shape(const struct infer_item *item, enum infer_output output, int64_t shape[3])
{
    if (output == INFER_CONTEXT && (item->partial || item->context_by_heads)) {
        shape[0] = item->layer.q_heads;
        shape[1] = item->q_len;
        shape[2] = item->layer.v_head_dim;
        return 3;
    }
    if (output == INFER_CONTEXT) {
        shape[0] = item->q_len;
        shape[1] = item->d_out;
        return 2;
    }
    if (output == INFER_WEIGHTS && infer_has_weight_map(item)) {
        attn_weight_map_shape(&item->weight_map, item->layer.q_heads, item->q_len, item->kv_len_max,
                              shape);
        return 3;
    }
    shape[0] = item->layer.q_heads;
    shape[1] = item->q_len;
    shape[2] = item->kv_len_max;
    return output == INFER_LSE ? 2 : 3;
}

bool infer_output_count(const struct infer_item *item, enum infer_output output, size_t *count)
{
    int64_t shape[3];
    const int rank = infer_output_shape(item, output, shape);
    *count = 1;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(*count, (size_t)shape[i], count))
            return false;
    return true;
}

size_t infer_number_bytes(const struct infer_request *request)
{
    return request->number_bytes ? request->number_bytes : INFER_ANSWER_BYTES_PER_NUMBER;
}

bool infer_answer_bytes(const struct infer_request *request, const struct infer_item *item,
                        size_t *bytes)
{
    const size_t number_bytes = infer_number_bytes(request);
    *bytes = 0;
    for (int i = 0; i < INFER_OUTPUT_COUNT; i++) {
        size_t count;
        if (item->outputs[i]
            && (!infer_output_count(item, i, &count)
                || __builtin_mul_overflow(count, infer_numbers_per_element(item, i), &count)
                || __builtin_mul_overflow(count, number_bytes, &count)
                || __builtin_add_overflow(*bytes, count, bytes)))
            return false;
    }
    return true;
}

/* For every item of a joined request, else for the one. */
static void *allocate_results(struct infer_request *request, size_t size)
{
    if (request->joined && __builtin_mul_overflow(size, (size_t)request->item_count, &size))
        return NULL;
    return arena_alloc(&request->arena, size);
}

bool infer_allocate_results(struct infer_request *request, struct infer_item *item,
                            struct fault *fault)
{
    const struct infer_item *first = &request->items[0];
    for (int i = 0; i < INFER_OUTPUT_COUNT; i++) {
        size_t count, size;
        if (!item->outputs[i])
            continue;
        if (!infer_output_count(item, i, &count))
            return fault_no_memory(fault);
        size = count * attn_dtype_size(item->result_dtype);
        if (request->joined && item != first)
            item->results[i] = (char *)first->results[i] + (size_t)(item - first) * size;
        else
            item->results[i] = allocate_results(request, size);
        if (!item->results[i])
            return fault_no_memory(fault);
    }
    return true;
}

bool infer_allocate_scratch(struct infer_request *request, struct infer_item *item,
                            const struct infer_limits *limits, struct fault *fault)
{
    const size_t scratch_bytes = infer_tasks_scratch_bytes(item);
    const size_t workspace_bytes = infer_tasks_workspace_bytes(item);
    size_t workspaces = 0;
    if (workspace_bytes > limits->workspace_bytes)
        workspaces = workspace_bytes * (size_t)limits->worker_count;
    if (scratch_bytes > limits->scratch_bytes_max || workspaces > limits->scratch_bytes_max)
        return fault_set(fault, FAULT_TOO_LARGE,
                         "the request needs %zu bytes to compute in; at most %zu are given",
                         scratch_bytes + workspaces, limits->scratch_bytes_max);
    if (scratch_bytes) {
        item->scratch = arena_alloc(&request->arena, scratch_bytes);
        if (!item->scratch)
            return fault_no_memory(fault);
    }
    if (workspaces) {
        item->workspaces = arena_alloc(&request->arena, workspaces);
        if (!item->workspaces)
            return fault_no_memory(fault);
    }
    return true;
}
