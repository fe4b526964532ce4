/* tensor.c - make views, and the default options.
 *
 * Strides of absurd shapes saturate at INT64_MAX instead of overflowing: making a view always
 * succeeds, and planning refuses such a view. */
#include "base/internal.h"

#include <math.h>

static const struct {
    size_t bytes;
    bool is_number;
} dtypes[] = {
#define X(NAME, bytes, is_number) { bytes, is_number },
    ATTN_DTYPE_MAP(X)
#undef X
};

static bool is_dtype(enum attn_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0];
}

size_t attn_dtype_size(enum attn_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].bytes : 0;
}

bool attn_is_number(enum attn_dtype dtype)
{
    return is_dtype(dtype) && dtypes[dtype].is_number;
}

static int64_t multiply_saturated(int64_t a, int64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

struct attn_tensor attn_tensor_dense(void *data, enum attn_dtype dtype, int64_t batch,
                                     int64_t heads, int64_t length, int64_t head_dim)
{
    const int64_t head_stride = multiply_saturated(length, head_dim);

    return (struct attn_tensor){
        .data = data,
        .dtype = dtype,
        .shape = { batch, heads, length, head_dim },
        .stride = { multiply_saturated(heads, head_stride), head_stride, head_dim, 1 },
    };
}

struct attn_tensor attn_tensor_rows(void *data, enum attn_dtype dtype, int64_t batch, int64_t heads,
                                    int64_t length, int64_t head_dim, int64_t row_stride)
{
    return (struct attn_tensor){
        .data = data,
        .dtype = dtype,
        .shape = { batch, heads, length, head_dim },
        .stride = { multiply_saturated(length, row_stride), head_dim, row_stride, 1 },
    };
}

struct attn_options attn_options_default(int64_t head_dim)
{
    return (struct attn_options){
        .scale = 1.0 / sqrt((double)head_dim),
        .softcap = 0.0,
        .causal = false,
        .window_left = -1,
        .window_right = -1,
    };
}

int64_t attn_tensor_index(const struct attn_tensor *tensor, int64_t batch, int64_t head,
                          int64_t row)
{
    return batch * tensor->stride[0] + head * tensor->stride[1] + row * tensor->stride[2];
}

/* The page that has the row: the last one that begins at it or before it. */
static const struct attn_page *page_of(const struct attn_pages *pages, int64_t row)
{
    int64_t low = 0, high = pages->count;

    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (pages->list[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return &pages->list[low];
}

struct attn_run attn_tensor_run(const struct attn_tensor *tensor, int64_t batch, int64_t head,
                                int64_t row, int64_t row_count)
{
    int64_t bytes = (int64_t)attn_dtype_size(tensor->dtype);

    if (tensor->pages == NULL)
        return (struct attn_run){ .row = (const char *)tensor->data
                                         + attn_tensor_index(tensor, batch, head, row) * bytes,
                                  .count = row_count,
                                  .dtype = tensor->dtype };
    const struct attn_page *page = page_of(tensor->pages, row);
    const bool is_last = page == tensor->pages->list + tensor->pages->count - 1;
    const int64_t offset = head * page->head_stride + (row - page->first) * tensor->stride[2];
    struct attn_run run = { .count = is_last ? row_count : attn_min(row_count, page[1].first - row),
                            .dtype = tensor->dtype };
    if (tensor->dtype == ATTN_I8 && page->scale != NULL) {
        run.scale = page->scale + head * page->scale_stride;
        run.at = row - page->first;
        run.has_row_scales = tensor->pages->has_row_scales;
    } else if (tensor->dtype == ATTN_I8) {
        run.dtype = ATTN_F32;
        bytes = (int64_t)attn_dtype_size(ATTN_F32);
    }
    run.row = (const char *)page->data + offset * bytes;
    return run;
}

float *attn_tensor_row(const struct attn_tensor *tensor, int64_t batch, int64_t head, int64_t row)
{
    return (float *)tensor->data + attn_tensor_index(tensor, batch, head, row);
}
