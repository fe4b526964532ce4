/* decode_rows.c - where decoding reads keys and values: from where they lie, or from one place to
 * which the rows of several pages are brought. */
#include "forward/decode.h"

#include <string.h>

const void *attn_decode_rows(const struct attn_decode_task *task, const struct attn_tensor *tensor,
                             const struct attn_span *span, int64_t *stride)
{
    const int64_t bytes = (int64_t)attn_dtype_size(tensor->dtype);
    const size_t row_bytes = (size_t)(tensor->shape[3] * bytes);
    struct attn_run run = attn_tensor_run(tensor, task->batch, task->kv_head, span->first, span->n);

    *stride = tensor->stride[2];
    if (run.count == span->n)
        return run.row;
    *stride = tensor->shape[3];
    for (int64_t i = 0; i < span->n; i += run.count) {
        run = attn_tensor_run(tensor, task->batch, task->kv_head, span->first + i, span->n - i);
        for (int64_t k = 0; k < run.count; k++)
            memcpy(task->together + (size_t)(i + k) * row_bytes,
                   (const char *)run.row + k * tensor->stride[2] * bytes, row_bytes);
    }
    return task->together;
}

const void *attn_decode_next_row(const struct attn_decode_task *task,
                                 const struct attn_tensor *tensor, int64_t row)
{
    const int64_t bytes = (int64_t)attn_dtype_size(tensor->dtype);

    if (!task->prefetch)
        return NULL;
    if (tensor->pages == NULL) {
        const int64_t number = attn_tensor_index(tensor, task->batch, task->kv_head, row);
        return (const void *)((uintptr_t)tensor->data + (uintptr_t)(number * bytes));
    }
    const int64_t last = attn_max(attn_min(row, tensor->shape[2] - 1), 0);
    return attn_tensor_run(tensor, task->batch, task->kv_head, last, 1).row;
}
