/* convert.c - see convert.h. */
#include "convert.h"

#include "internal.h"

/* Numbers that go through a buffer of their own at a time. */
enum { PIECE = 64 };

static int64_t index_of(const struct attn_tensor *tensor, const struct attn_block *block, int64_t i)
{
    return block->batch * tensor->stride[0] + block->head * tensor->stride[1]
           + (block->row + i) * tensor->stride[2] + block->column;
}

const float *attn_block_read(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                             const struct attn_block *block, float *buffer, int64_t *stride)
{
    if (tensor->dtype == ATTN_F32) {
        *stride = tensor->stride[2];
        return (const float *)tensor->data + index_of(tensor, block, 0);
    }
    *stride = block->columns;
    for (int64_t i = 0; i < block->row_count; i++)
        attn_widen(kernels, tensor->data, tensor->dtype, index_of(tensor, block, i), 1,
                   block->columns, buffer + i * block->columns);
    return buffer;
}

float *attn_block_place(const struct attn_tensor *tensor, const struct attn_block *block,
                        float *buffer, int64_t *stride)
{
    if (tensor->dtype == ATTN_F32) {
        *stride = tensor->stride[2];
        return (float *)tensor->data + index_of(tensor, block, 0);
    }
    *stride = block->columns;
    return buffer;
}

void attn_block_written(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                        const struct attn_block *block, const float *buffer)
{
    if (tensor->dtype == ATTN_F32)
        return;
    for (int64_t i = 0; i < block->row_count; i++) {
        uint16_t *to = (uint16_t *)tensor->data + index_of(tensor, block, i);
        const float *from = buffer + i * block->columns;
        if (tensor->dtype == ATTN_F16)
            kernels->narrow_f16(to, from, block->columns);
        else
            kernels->narrow_bf16(to, from, block->columns);
    }
}

/* n numbers, which lie side by side. */
static void widen_dense(const struct attn_kernels *kernels, const uint16_t *from,
                        enum attn_dtype dtype, int64_t n, float *to)
{
    if (dtype == ATTN_F16)
        kernels->widen_f16(to, from, n);
    else
        kernels->widen_bf16(to, from, n);
}

void attn_widen(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                int64_t first, int64_t step, int64_t n, float *to)
{
    uint16_t piece[PIECE];

    if (dtype == ATTN_F32) {
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const float *)data)[first + i * step];
        return;
    }
    const uint16_t *from = (const uint16_t *)data + first;
    if (step == 1) {
        widen_dense(kernels, from, dtype, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = attn_min(PIECE, n - i);
        for (int64_t k = 0; k < count; k++)
            piece[k] = from[(i + k) * step];
        widen_dense(kernels, piece, dtype, count, to + i);
    }
}
