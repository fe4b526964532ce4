/* infer_bias.c - see infer_bias.h.
 *
 * Each head has a bias of its own, so that it is a mask of every head, written out in the memory of
 * the request. */
#include "infer/infer_bias.h"

#include "base/dtype.h"
#include "model/model.h"

#include <math.h>

/* The mask's number for a pair, by which it is seen or not where it is BOOL; past the end of a
 * shorter mask there is nothing to be seen. */
static float mask_at(const struct attn_tensor *mask, int64_t head, int64_t row, int64_t key)
{
    const int64_t at[] = { head, row, key };
    int64_t offset = 0;
    float number;
    if (!mask->data)
        return 0;
    for (int i = 0; i < 3; i++) {
        if (mask->shape[i + 1] > 1 && at[i] >= mask->shape[i + 1])
            return -INFINITY;
        offset += mask->shape[i + 1] > 1 ? at[i] * mask->stride[i + 1] : 0;
    }
    dtype_read(&number, (const char *)mask->data + (size_t)offset * attn_dtype_size(mask->dtype),
               mask->dtype, 1);
    return mask->dtype != ATTN_BOOL ? number : number != 0 ? 0 : -INFINITY;
}

bool infer_plan_bias(struct infer_request *request, const struct infer_item *item,
                     struct attn_layer_problem *problem, struct fault *fault)
{
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const int64_t heads = item->layer.q_heads, q_len = item->q_len, kv_len = item->kv_len_max;
    int64_t count;
    if (!bias->values || q_len == 0 || kv_len == 0)
        return true;
    if (!model_bias_check(bias, item->past_len, q_len, item->kv_offset, kv_len, fault))
        return false;
    float *sum = NULL;
    if (!__builtin_mul_overflow(heads * q_len, kv_len, &count)
        && count <= INT64_MAX / (int64_t)sizeof *sum)
        sum = arena_alloc(&request->arena, (size_t)count * sizeof *sum);
    if (!sum)
        return fault_no_memory(fault);
    const struct attn_tensor mask = problem->mask;
    problem->mask = attn_tensor_dense(sum, ATTN_F32, 1, heads, q_len, kv_len);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < q_len; i++)
            for (int64_t j = 0; j < kv_len; j++) {
                const int64_t column =
                    model_bias_column(bias, item->past_len + i, item->kv_offset + j);
                *sum++ = mask_at(&mask, h, i, j) + bias->values[h * bias->count + column];
            }
    return true;
}
