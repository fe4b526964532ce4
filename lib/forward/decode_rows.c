/* decode_rows.c - where decoding reads keys and values: from where they lie, or from one place to
 * which the rows of several pages are brought. */
#include "forward/decode.h"

#include <string.h>

/* Whether the decode kernels read the run's rows as they are. Those of I8 take the scales of a key
 * by channels, and those of a value by rows. */
static bool is_read_in_place(const struct attn_decode_task *task, const struct attn_tensor *tensor,
                             const struct attn_run *run)
{
    return run->dtype != ATTN_I8 || run->has_row_scales == (tensor == &task->problem->value);
}

/* Copies count rows of a run to row `to` of the place, densely; those of a tensor of I8 as F32. */
static void bring(const struct attn_decode_task *task, const struct attn_tensor *tensor,
                  const struct attn_run *run, int64_t to)
{
    const int64_t columns = tensor->shape[3];
    const int64_t bytes = (int64_t)attn_dtype_size(run->dtype);

    for (int64_t k = 0; k < run->count; k++) {
        char *row = task->together + (to + k) * columns * (tensor->dtype == ATTN_I8 ? 4 : bytes);
        if (run->dtype == ATTN_I8)
            attn_run_read(task->kernels, tensor, run, k, 0, columns, (void *)row);
        else
            memcpy(row, (const char *)run->row + k * tensor->stride[2] * bytes,
                   (size_t)(columns * bytes));
    }
}

struct attn_decode_rows attn_decode_rows(const struct attn_decode_task *task,
                                         const struct attn_tensor *tensor,
                                         const struct attn_span *span)
{
    struct attn_run run = attn_tensor_run(tensor, task->batch, task->kv_head, span->first, span->n);

    if (run.count == span->n && is_read_in_place(task, tensor, &run))
        return (struct attn_decode_rows){ run.row, tensor->stride[2], run.dtype, run.scale,
                                          run.at };
    for (int64_t i = 0; i < span->n; i += run.count) {
        run = attn_tensor_run(tensor, task->batch, task->kv_head, span->first + i, span->n - i);
        bring(task, tensor, &run, i);
    }
    return (struct attn_decode_rows){ .rows = task->together,
                                      .stride = tensor->shape[3],
                                      .dtype =
                                          tensor->dtype == ATTN_I8 ? ATTN_F32 : tensor->dtype };
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
