/* SPDX-License-Identifier: Apache-2.0 */
/* attn.c - the words of attn.h: statuses, precisions, dtypes, views, outputs and default options.
 * Names come from the lists in attn.h, so that a new one cannot be forgotten here.
 *
 * Strides of absurd shapes saturate at INT64_MAX instead of overflowing: making a view always
 * succeeds, and planning refuses such a view. */
#include "base/internal.h"

#include <math.h>

const char *attn_status_name(enum attn_status status)
{
    switch (status) {
#define X(name, message)                                                                           \
    case ATTN_##name:                                                                              \
        return "ATTN_" #name;
        ATTN_STATUS_MAP(X)
#undef X
    }
    return "ATTN_UNKNOWN";
}

const char *attn_status_message(enum attn_status status)
{
    switch (status) {
#define X(name, message)                                                                           \
    case ATTN_##name:                                                                              \
        return message;
        ATTN_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

const char *attn_precision_name(enum attn_precision precision)
{
    static const char *const names[] = {
#define X(NAME, name, parts) #name,
        ATTN_PRECISION_MAP(X)
#undef X
    };

    return names[precision];
}

/* ------------------------------------------------------------------------------------- views -- */

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

static const struct {
    int64_t numbers;
    size_t bytes;
} blocks[] = {
#define X(NAME, numbers, bytes) [ATTN_##NAME] = { numbers, bytes },
    ATTN_BLOCK_MAP(X)
#undef X
};

static bool is_blocks(enum attn_dtype dtype)
{
    return (size_t)dtype < sizeof blocks / sizeof blocks[0] && blocks[dtype].numbers > 0;
}

int64_t attn_block_numbers(enum attn_dtype dtype)
{
    return is_blocks(dtype) ? blocks[dtype].numbers : 1;
}

size_t attn_block_bytes(enum attn_dtype dtype)
{
    return is_blocks(dtype) ? blocks[dtype].bytes : attn_dtype_size(dtype);
}

const void *attn_number_at(const void *data, enum attn_dtype dtype, int64_t index)
{
    return (const char *)data
           + index / attn_block_numbers(dtype) * (int64_t)attn_block_bytes(dtype);
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

/* ----------------------------------------------------------------------------------- outputs -- */

enum columns { V_HEAD_DIM, KV_LEN, ONE };

/* The steps of attention, in order. */
enum step { SCORE, MASK, SOFTMAX };

static const struct {
    enum columns columns;
    enum step step;
} outputs[ATTN_OUTPUT_COUNT] = {
#define X(NAME, name, columns, step) { columns, step },
    ATTN_OUTPUT_MAP(X)
#undef X
};

int64_t attn_output_columns(const struct attn_problem *problem, enum attn_output output)
{
    switch (outputs[output].columns) {
    case V_HEAD_DIM:
        return problem->value.shape[3];
    case KV_LEN:
        return problem->key.shape[2];
    case ONE:
        break;
    }
    return 1;
}

bool attn_output_is_map(enum attn_output output)
{
    return outputs[output].columns == KV_LEN;
}

bool attn_output_is_number(enum attn_output output)
{
    return outputs[output].columns == ONE;
}

double attn_row_number(enum attn_output output, double max, double sum)
{
    switch (output) {
    case ATTN_OUTPUT_LSE:
        return sum == 0.0 ? -INFINITY : max + log(sum);
    default:
        return NAN; /* no such output */
    }
}

bool attn_wants_output(const struct attn_problem *problem)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_is_wanted(&problem->out[i]))
            return true;
    return false;
}

bool attn_wants_map(const struct attn_problem *problem)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_output_is_map(i) && attn_is_wanted(&problem->out[i]))
            return true;
    return false;
}

struct attn_needs attn_needs_of(const struct attn_problem *problem)
{
    struct attn_needs needs = { 0 };

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        if (!attn_is_wanted(&problem->out[i]))
            continue;
        needs.scores = needs.scores || outputs[i].step == SCORE;
        needs.masked = needs.masked || outputs[i].step < SOFTMAX;
        needs.softmax = needs.softmax || outputs[i].step == SOFTMAX;
    }
    needs.weight_rows = attn_is_wanted(&problem->weights) && problem->weights.dtype == ATTN_F32;
    needs.pairs = needs.masked || needs.weight_rows;
    return needs;
}
