/* linear.c - the memory layout of a matrix, and views of it: parts, and transposed. */
#include "base/convert.h"
#include "base/internal.h"
#include "rows/linear_internal.h"

int64_t attn_linear_stride(const struct attn_linear *linear)
{
    const int64_t dense = linear->in_out ? linear->out : linear->in;

    return linear->stride > 0 ? linear->stride : dense;
}

const void *attn_linear_at(const struct attn_linear *linear, int64_t index)
{
    return (const char *)linear->weight + index * (int64_t)attn_dtype_size(linear->dtype);
}

bool attn_linear_takes(enum attn_dtype dtype)
{
    return attn_numbers_of(dtype) != ATTN_NUMBERS_COUNT;
}

void attn_linear_split(const struct attn_linear *joined, int64_t columns, struct attn_linear *left,
                       struct attn_linear *right)
{
    const int64_t stride = attn_linear_stride(joined);

    *left = *right = *joined;
    left->in = columns;
    left->stride = right->stride = stride;
    right->in = joined->in - columns;
    right->weight = attn_linear_at(joined, joined->in_out ? columns * stride : columns);
    right->bias = NULL;
}

struct attn_linear attn_linear_back(const struct attn_linear *linear)
{
    struct attn_linear back = *linear;

    back.bias = NULL;
    back.out = linear->in;
    back.in = linear->out;
    back.in_out = !linear->in_out;
    back.stride = attn_linear_stride(linear);
    return back;
}
