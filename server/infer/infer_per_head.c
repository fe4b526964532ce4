/* infer_per_head.c - see infer_per_head.h. */
#include "infer/infer_per_head.h"

#include <inttypes.h>
#include <math.h>

/* none: a number that is not finite and yet allowed, or 0. */
static bool take(const struct infer_array *array, const char *name, const char *pointer,
                 int64_t q_heads, float none, const float **values, struct fault *fault)
{
    const float *numbers = array->data;
    if (!numbers)
        return true;
    if (array->rank != 1)
        return fault_set_at(
            fault, pointer, FAULT_SHAPE,
            "%s has %d dimensions; expected a list of one number for each query head", name,
            array->rank);
    if (array->shape[0] != q_heads)
        return fault_set_at(fault, pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " numbers; there are %" PRId64 " query heads", name,
                            array->shape[0], q_heads);
    for (int64_t h = 0; h < q_heads; h++)
        if (!isfinite(numbers[h]) && numbers[h] != none)
            return fault_set_at(fault, pointer, FAULT_OPTION,
                                "%s[%" PRId64 "] is not finite; expected a number", name, h);
    *values = numbers;
    return true;
}

bool infer_plan_per_head(const struct infer_item *item, struct attn_layer_problem *problem,
                         struct fault *fault)
{
    const int64_t q_heads = item->layer.q_heads;
    problem->alibi_slopes = item->model->layers[item->layer_index].alibi_slopes;
    return take(&item->alibi_slopes, "alibi_slopes", "/alibi_slopes", q_heads, 0,
                &problem->alibi_slopes, fault)
           && take(&item->sinks, "sinks", "/sinks", q_heads, -INFINITY, &problem->sinks, fault);
}
