/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - every precondition of a problem, in the order in which attn.h lists the fields.
 *
 * One line for each rule. A problem that passes needs no further checks: no size overflows, no
 * index leaves its tensor, no two tasks write the same output row. */
#include "base/internal.h"

#include <float.h>
#include <math.h>

/* The largest number of columns of a row; a larger one could overflow the bytes of a workspace. */
static const int64_t COLUMNS_MAX = INT64_C(1) << 48;

static const struct attn_tensor_names QUERY = ATTN_TENSOR_NAMES("query");
static const struct attn_tensor_names KEY = ATTN_TENSOR_NAMES("key");
static const struct attn_tensor_names VALUE = ATTN_TENSOR_NAMES("value");
static const struct attn_tensor_names MASK = ATTN_TENSOR_NAMES("mask");
static const struct attn_tensor_names OUTPUTS[ATTN_OUTPUT_COUNT] = {
#define X(NAME, name, columns, step) ATTN_TENSOR_NAMES(#name),
    ATTN_OUTPUT_MAP(X)
#undef X
};

/* Can the offset in bytes from the first element to any other overflow? */
static bool extent_overflows(const struct attn_tensor *tensor)
{
    int64_t bytes = 0;
    for (int d = 0; d < 4; d++) {
        const int64_t stride = tensor->stride[d];
        int64_t reach;
        if (tensor->shape[d] < 2 || stride == 0)
            continue;
        if (stride == INT64_MIN
            || __builtin_mul_overflow(tensor->shape[d], stride < 0 ? -stride : stride, &reach)
            || __builtin_mul_overflow(reach, (int64_t)attn_dtype_size(tensor->dtype), &reach)
            || __builtin_add_overflow(bytes, reach, &bytes))
            return true;
    }
    return false;
}

static enum attn_status check_options(const struct attn_options *options, const char **where)
{
    RETURN_IF(!(fabs(options->scale) <= (double)FLT_MAX), ATTN_ERR_OPTION, "options.scale");
    RETURN_IF(!(options->softcap >= 0.0 && options->softcap <= (double)FLT_MAX), ATTN_ERR_OPTION,
              "options.softcap");
    RETURN_IF(options->softcap > 0.0 && (float)options->softcap == 0.0f, ATTN_ERR_OPTION,
              "options.softcap");
    RETURN_IF(options->window_left < -1, ATTN_ERR_OPTION, "options.window_left");
    RETURN_IF(options->window_right < -1, ATTN_ERR_OPTION, "options.window_right");
    RETURN_IF(options->chunk < 0, ATTN_ERR_OPTION, "options.chunk");
    RETURN_IF(!(options->dropout >= 0.0f && options->dropout < 1.0f), ATTN_ERR_OPTION,
              "options.dropout");
    RETURN_IF(options->normalizer != ATTN_SOFTMAX && options->normalizer != ATTN_SPARSEMAX,
              ATTN_ERR_OPTION, "options.normalizer");
    RETURN_IF(!attn_is_number(options->softmax_precision), ATTN_ERR_OPTION,
              "options.softmax_precision");
    RETURN_IF((unsigned)options->precision >= ATTN_PRECISION_COUNT, ATTN_ERR_OPTION,
              "options.precision");
    return ATTN_OK;
}

static enum attn_status check_view(const struct attn_tensor *tensor,
                                   const struct attn_tensor_names *names, const char **where)
{
    RETURN_IF(tensor->data == NULL, ATTN_ERR_NO_DATA, names->data);
    RETURN_IF(!attn_is_number(tensor->dtype) && (tensor->dtype != ATTN_I8 || tensor->pages == NULL),
              ATTN_ERR_DTYPE, names->dtype);
    RETURN_IF(tensor->shape[0] < 0, ATTN_ERR_SHAPE, names->shape[0]);
    RETURN_IF(tensor->shape[1] < 1, ATTN_ERR_SHAPE, names->shape[1]);
    RETURN_IF(tensor->shape[2] < 0, ATTN_ERR_SHAPE, names->shape[2]);
    RETURN_IF(tensor->shape[3] < 1, ATTN_ERR_SHAPE, names->shape[3]);
    for (int d = 0; d < 4; d++)
        RETURN_IF(tensor->stride[d] < 0, ATTN_ERR_STRIDE, names->stride[d]);
    RETURN_IF(tensor->shape[3] > 1 && tensor->stride[3] != 1, ATTN_ERR_STRIDE, names->stride[3]);
    RETURN_IF(tensor->shape[3] > COLUMNS_MAX, ATTN_ERR_TOO_LARGE, names->shape[3]);
    RETURN_IF(extent_overflows(tensor), ATTN_ERR_TOO_LARGE, names->self);
    return ATTN_OK;
}

/* Do the scales of a page of I8 lie in order? */
static bool has_wrong_scales(const struct attn_tensor *tensor, const struct attn_page *page)
{
    int64_t reach;

    return tensor->dtype == ATTN_I8 && page->scale != NULL
           && (page->scale_stride < 0
               || __builtin_mul_overflow(page->scale_stride, tensor->shape[1], &reach)
               || __builtin_mul_overflow(reach, (int64_t)8, &reach));
}

/* Pages cover all rows in order, and hold no row that the tensor lacks. */
static enum attn_status check_pages(const struct attn_tensor *tensor,
                                    const struct attn_tensor_names *names, const char **where)
{
    const struct attn_pages *pages = tensor->pages;
    int64_t rows, reach;

    if (pages == NULL)
        return ATTN_OK;
    RETURN_IF(tensor->shape[0] != 1, ATTN_ERR_SHAPE, names->shape[0]);
    RETURN_IF(pages->count < 1 || pages->list[0].first != 0, ATTN_ERR_SHAPE, names->pages);
    RETURN_IF(pages->list[0].data != tensor->data, ATTN_ERR_NO_DATA, names->pages);
    for (int64_t i = 0; i < pages->count; i++) {
        const struct attn_page *page = &pages->list[i];
        const int64_t end = i + 1 < pages->count ? page[1].first : tensor->shape[2];
        RETURN_IF(page->data == NULL, ATTN_ERR_NO_DATA, names->pages);
        RETURN_IF(end > tensor->shape[2] || (page->first >= end && tensor->shape[2] > 0),
                  ATTN_ERR_SHAPE, names->pages);
        RETURN_IF(page->head_stride < 0, ATTN_ERR_STRIDE, names->pages);
        RETURN_IF(has_wrong_scales(tensor, page), ATTN_ERR_STRIDE, names->pages);
        RETURN_IF(__builtin_mul_overflow(end - page->first, tensor->stride[2], &rows)
                      || __builtin_mul_overflow(tensor->shape[1], page->head_stride, &reach)
                      || __builtin_add_overflow(rows, reach, &reach)
                      || __builtin_mul_overflow(reach, (int64_t)8, &reach),
                  ATTN_ERR_TOO_LARGE, names->pages);
    }
    return ATTN_OK;
}

enum attn_status attn_check_input(const struct attn_tensor *tensor,
                                  const struct attn_tensor_names *names, const char **where)
{
    RETURN_IF_FAILED(check_view(tensor, names, where));
    RETURN_IF(tensor->pages != NULL, ATTN_ERR_SHAPE, names->pages);
    return ATTN_OK;
}

static enum attn_status check_query(const struct attn_tensor *query, const char **where)
{
    int64_t rows;

    RETURN_IF_FAILED(attn_check_input(query, &QUERY, where));
    RETURN_IF(__builtin_mul_overflow(query->shape[0], query->shape[1], &rows), ATTN_ERR_TOO_LARGE,
              "query");
    RETURN_IF(__builtin_mul_overflow(rows, query->shape[2], &rows), ATTN_ERR_TOO_LARGE, "query");
    return ATTN_OK;
}

static enum attn_status check_key_and_value(const struct attn_problem *problem, const char **where)
{
    const int64_t *query = problem->query.shape;
    const int64_t *key = problem->key.shape;
    const int64_t *value = problem->value.shape;

    RETURN_IF_FAILED(check_view(&problem->key, &KEY, where));
    RETURN_IF(key[0] != query[0], ATTN_ERR_SHAPE, "key.shape[0]");
    RETURN_IF(query[1] % key[1] != 0, ATTN_ERR_HEADS, "key.shape[1]");
    RETURN_IF(key[3] != query[3], ATTN_ERR_SHAPE, "key.shape[3]");
    RETURN_IF(key[2] > INT64_MAX / 2, ATTN_ERR_TOO_LARGE, "key.shape[2]");
    RETURN_IF_FAILED(check_pages(&problem->key, &KEY, where));
    RETURN_IF_FAILED(check_view(&problem->value, &VALUE, where));
    RETURN_IF(value[0] != key[0], ATTN_ERR_SHAPE, "value.shape[0]");
    RETURN_IF(value[1] != key[1], ATTN_ERR_SHAPE, "value.shape[1]");
    RETURN_IF(value[2] != key[2], ATTN_ERR_SHAPE, "value.shape[2]");
    RETURN_IF_FAILED(check_pages(&problem->value, &VALUE, where));
    return ATTN_OK;
}

/* map is the shape that the mask must have or broadcast to; its last dimension may be shorter. */
static enum attn_status check_mask(const struct attn_tensor *mask, const int64_t map[4],
                                   const char **where)
{
    if (mask->data == NULL)
        return ATTN_OK;
    RETURN_IF(!attn_is_number(mask->dtype) && mask->dtype != ATTN_BOOL, ATTN_ERR_DTYPE, MASK.dtype);
    RETURN_IF(mask->pages != NULL, ATTN_ERR_SHAPE, MASK.pages);
    for (int d = 0; d < 3; d++)
        RETURN_IF(mask->shape[d] != 1 && mask->shape[d] != map[d], ATTN_ERR_SHAPE, MASK.shape[d]);
    RETURN_IF(mask->shape[3] > attn_max(map[3], 1), ATTN_ERR_SHAPE, MASK.shape[3]);
    RETURN_IF(mask->shape[3] < 1 && mask->shape[3] != map[3], ATTN_ERR_SHAPE, MASK.shape[3]);
    RETURN_IF(extent_overflows(mask), ATTN_ERR_TOO_LARGE, MASK.self);
    return ATTN_OK;
}

static enum attn_status check_lengths(const struct attn_problem *problem, const char **where)
{
    const int64_t batch = problem->query.shape[0];
    const int64_t rows = batch * problem->query.shape[2];

    RETURN_IF(problem->first_keys < 0, ATTN_ERR_LENGTH, "first_keys");
    RETURN_IF(problem->last_keys < 0, ATTN_ERR_LENGTH, "last_keys");
    for (int64_t b = 0; problem->kv_len != NULL && b < batch; b++)
        RETURN_IF(problem->kv_len[b] < 0, ATTN_ERR_LENGTH, "kv_len");
    for (int64_t i = 0; problem->row_kv_len != NULL && i < rows; i++)
        RETURN_IF(problem->row_kv_len[i] < 0, ATTN_ERR_LENGTH, "row_kv_len");
    return ATTN_OK;
}

const struct attn_per_head_field attn_per_head_fields[ATTN_PER_HEAD_COUNT] = {
#define X(NAME, name, may_be_none) { #name, may_be_none },
    ATTN_PER_HEAD_MAP(X)
#undef X
};

static enum attn_status check_heads(const struct attn_problem *problem, const char **where)
{
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        for (int64_t h = 0; problem->per_head[i] != NULL && h < problem->query.shape[1]; h++) {
            const float number = problem->per_head[i][h];
            const bool is_none = attn_per_head_fields[i].may_be_none && number == -INFINITY;
            RETURN_IF(!isfinite(number) && !is_none, ATTN_ERR_OPTION, attn_per_head_fields[i].name);
        }
    return ATTN_OK;
}

static bool is_empty(const struct attn_tensor *tensor)
{
    for (int d = 0; d < 4; d++)
        if (tensor->shape[d] == 0)
            return true;
    return false;
}

enum attn_status attn_check_output(const struct attn_tensor *tensor,
                                   const struct attn_tensor_names *names, const int64_t shape[4],
                                   const char **where)
{
    if (tensor->data == NULL)
        return ATTN_OK;
    RETURN_IF(!attn_is_number(tensor->dtype), ATTN_ERR_DTYPE, names->dtype);
    RETURN_IF(tensor->pages != NULL, ATTN_ERR_SHAPE, names->pages);
    for (int d = 0; d < 4; d++)
        RETURN_IF(tensor->shape[d] != shape[d], ATTN_ERR_SHAPE, names->shape[d]);
    if (is_empty(tensor))
        return ATTN_OK;
    for (int d = 0; d < 3; d++)
        RETURN_IF(tensor->shape[d] > 1 && tensor->stride[d] < 1, ATTN_ERR_STRIDE, names->stride[d]);
    RETURN_IF(shape[3] > 1 && tensor->stride[3] != 1, ATTN_ERR_STRIDE, names->stride[3]);
    RETURN_IF(extent_overflows(tensor), ATTN_ERR_TOO_LARGE, names->self);
    return ATTN_OK;
}

static enum attn_status check_outputs(const struct attn_problem *problem, const char **where)
{
    const int64_t *query = problem->query.shape;

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        const int64_t shape[4] = { query[0], query[1], query[2], attn_output_columns(problem, i) };
        RETURN_IF_FAILED(attn_check_output(&problem->out[i], &OUTPUTS[i], shape, where));
    }
    return ATTN_OK;
}

enum attn_status attn_check(const struct attn_problem *problem, const char **where)
{
    const int64_t *query = problem->query.shape;
    const int64_t map[4] = { query[0], query[1], query[2], problem->key.shape[2] };

    RETURN_IF_FAILED(check_options(&problem->options, where));
    RETURN_IF_FAILED(check_query(&problem->query, where));
    RETURN_IF_FAILED(check_key_and_value(problem, where));
    RETURN_IF_FAILED(check_mask(&problem->mask, map, where));
    RETURN_IF_FAILED(check_lengths(problem, where));
    RETURN_IF_FAILED(check_heads(problem, where));
    RETURN_IF_FAILED(check_outputs(problem, where));
    return ATTN_OK;
}
