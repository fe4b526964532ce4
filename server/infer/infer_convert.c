/* infer_convert.c - see infer_convert.h. */
#include "infer/infer_convert.h"

#include "base/dtype.h"
#include "infer/infer_results.h"

static bool to_floats(struct infer_request *request, struct infer_array *array, struct fault *fault)
{
    if (!array->data || array->dtype == ATTN_F32)
        return true;
    size_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= (size_t)array->shape[i]; /* no overflow: they are in memory */
    float *values = arena_alloc(&request->arena, count * sizeof *values);
    if (!values)
        return fault_no_memory(fault);
    dtype_read(values, array->data, array->dtype, count);
    array->data = values;
    array->dtype = ATTN_F32;
    return true;
}

/* Attention itself takes every dtype; projections, gradients, reduced maps and merging do not. */
static bool takes_every_dtype(const struct infer_request *request, const struct infer_item *item)
{
    return item->model->parameterless && !request->gradients && !item->parts
           && !infer_has_weight_map(item);
}

bool infer_convert_inputs(struct infer_request *request, struct infer_item *item,
                          struct fault *fault)
{
    const struct infer_array *first = item->parts ? &item->parts[0].context : &item->query;
    /* A partial answer is rounded once, when it has been merged. */
    item->answer_dtype = first->data && !item->partial ? first->dtype : ATTN_F32;
    item->result_dtype = ATTN_F32;
    if (!to_floats(request, &item->alibi_slopes, fault) || !to_floats(request, &item->sinks, fault))
        return false;
    if (takes_every_dtype(request, item)) {
        item->result_dtype = item->answer_dtype;
        return true;
    }
    for (int64_t i = 0; item->parts && i < item->part_count; i++)
        if (!to_floats(request, &item->parts[i].context, fault)
            || !to_floats(request, &item->parts[i].lse, fault))
            return false;
    return to_floats(request, &item->query, fault) && to_floats(request, &item->key, fault)
           && to_floats(request, &item->value, fault)
           && to_floats(request, &item->context_gradient, fault)
           && (item->mask.dtype == ATTN_BOOL || to_floats(request, &item->mask, fault));
}

bool infer_convert_results(struct infer_request *request, struct infer_item *item,
                           enum attn_dtype dtype, struct fault *fault)
{
    for (int i = 0; i < INFER_OUTPUT_COUNT && item->result_dtype != dtype; i++) {
        size_t count = 0;
        if (!item->results[i] || !infer_output_count(item, i, &count))
            continue;
        count *= request->joined ? (size_t)request->item_count : 1;
        float *values = item->results[i];
        if (item->result_dtype != ATTN_F32) {
            values = arena_alloc(&request->arena, count * sizeof *values);
            if (!values)
                return fault_no_memory(fault);
            dtype_read(values, item->results[i], item->result_dtype, count);
        }
        item->results[i] = values;
        if (dtype == ATTN_F32)
            continue;
        item->results[i] = arena_alloc(&request->arena, count * attn_dtype_size(dtype));
        if (!item->results[i])
            return fault_no_memory(fault);
        dtype_write(item->results[i], dtype, values, count);
    }
    item->result_dtype = dtype;
    return true;
}
