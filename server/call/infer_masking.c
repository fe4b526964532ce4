/* infer_masking.c - checks masks and numbers of heads, and adds up the biases of a layer. */
#include "call/infer_masking.h"

#include "base/dtype.h"
#include "models/model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { COLUMNS_AT_ONCE = 256 }; /* of a projection for relative positions */

static bool plan_kv_len(struct infer_item *item, struct attn_layer_problem *problem,
                        struct fault *fault)
{
    if (item->kv_len.count == 0 && !item->kv_len.is_list)
        return true;
    if (item->kv_len.is_list && item->kv_len.count != item->q_len)
        return fault_set_at(fault, "/kv_len", FAULT_SHAPE,
                            "kv_len has %" PRId64 " entries; there are %" PRId64 " query rows",
                            item->kv_len.count, item->q_len);
    for (int64_t i = 0; i < item->kv_len.count; i++)
        if (item->kv_len.values[i] > item->kv_len_max)
            return fault_set_at(fault, "/kv_len", FAULT_LENGTH,
                                "kv_len is %" PRId64 "; there are %" PRId64 " keys",
                                item->kv_len.values[i], item->kv_len_max);
    if (item->kv_len.is_list)
        problem->row_kv_len = item->kv_len.values;
    else
        problem->kv_len = item->kv_len.values;
    return true;
}

static bool plan_mask(const struct infer_item *item, struct attn_layer_problem *problem,
                      struct fault *fault)
{
    const struct array *mask = &item->mask;
    const int64_t heads = item->layer.q_heads;
    if (item->cache && item->cache->hide
        && !item->cache->hide(item->cache, item, &problem->masking, fault))
        return false;
    if (!mask->data || (array_is_empty(mask) && (item->q_len == 0 || item->kv_len_max == 0)))
        return true;
    const int64_t *shape = mask->shape + (mask->rank == 3 ? 1 : 0);
    const bool fits = (mask->rank == 2 || (mask->rank == 3 && mask->shape[0] == heads))
                      && shape[0] == item->q_len && shape[1] == item->kv_len_max;
    if (!fits) {
        char came[96];
        int used = snprintf(came, sizeof came, "%s", "");
        for (int i = 0; i < mask->rank && i < 4; i++)
            used +=
                snprintf(came + used, sizeof came - (size_t)used, "[%" PRId64 "]", mask->shape[i]);
        return fault_set_at(fault, "/mask", FAULT_SHAPE,
                            "mask is %s; expected [q_len %" PRId64 "][kv_len %" PRId64
                            "], or one for each of %" PRId64 " heads",
                            came, item->q_len, item->kv_len_max, heads);
    }
    problem->mask = attn_tensor_dense((void *)mask->data, mask->dtype, 1,
                                      mask->rank == 3 ? heads : 1, item->q_len, item->kv_len_max);
    return true;
}

/* --------------------------------------------- one number for each head -- */

/* The problem keeps what it has where the request gives none. */
static bool plan_numbers(struct attn_layer_problem *problem, const struct infer_item *item, int i,
                         struct fault *fault)
{
    static const char *const pointers[ATTN_PER_HEAD_COUNT] = {
#define X(NAME, name, may_be_none) "/" #name,
        ATTN_PER_HEAD_MAP(X)
#undef X
    };
    const struct attn_per_head_field *field = &attn_per_head_fields[i];
    const struct array *array = &item->per_head[i];
    const int64_t q_heads = item->layer.q_heads;
    const float *numbers = array->data;
    if (!numbers)
        return true;
    if (array->rank != 1)
        return fault_set_at(
            fault, pointers[i], FAULT_SHAPE,
            "%s has %d dimensions; expected a list of one number for each query head", field->name,
            array->rank);
    if (array->shape[0] != q_heads)
        return fault_set_at(fault, pointers[i], FAULT_SHAPE,
                            "%s has %" PRId64 " numbers; there are %" PRId64 " query heads",
                            field->name, array->shape[0], q_heads);
    for (int64_t h = 0; h < q_heads; h++)
        if (!isfinite(numbers[h]) && !(field->may_be_none && numbers[h] == -INFINITY))
            return fault_set_at(fault, pointers[i], FAULT_OPTION,
                                "%s[%" PRId64 "] is not finite; expected a number", field->name, h);
    problem->per_head[i] = numbers;
    return true;
}

static bool plan_per_head(const struct infer_item *item, struct attn_layer_problem *problem,
                          struct fault *fault)
{
    const struct model_layer *own = &item->model->layers[item->layer_index];
    problem->alibi_slopes = own->alibi_slopes;
    /* Partial answers over keys in turn merge into the whole with sinks in one of them. */
    if (!item->partial || item->masking.kv_offset == 0)
        problem->sinks = own->sinks;
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (!plan_numbers(problem, item, i, fault))
            return false;
    return true;
}

bool infer_plan_masking(struct infer_item *item, struct attn_layer_problem *problem,
                        struct fault *fault)
{
    return plan_kv_len(item, problem, fault) && plan_mask(item, problem, fault)
           && plan_per_head(item, problem, fault);
}

/* ---------------------- relative positions that depend on the query or key -- */

/* BERT's relative_key and relative_key_query (Shaw, Uszkoreit and Vaswani 2018; Huang et al. 2020),
 * and DeBERTa's disentangled attention (He et al. 2021), whose rows are those of a head.
 * The library's scores are products of a query and a key alone, so these terms are a mask of every
 * head, as T5's bias is. Queries and keys are projected here once more, in double: the task of one
 * head needs them before the stage that projects them for the scores has run. */

/* Numbers of a vector that is dense or has a stride, as floats. */
static void read_numbers(float *numbers, const void *data, enum attn_dtype dtype, int64_t first,
                         int64_t stride, int64_t count)
{
    const char *from = (const char *)data + (size_t)first * attn_dtype_size(dtype);
    if (stride == 1) {
        dtype_read(numbers, from, dtype, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        dtype_read(&numbers[i], from + (size_t)(i * stride) * attn_dtype_size(dtype), dtype, 1);
}

/* Sums in lanes, which are added up in one order. */
static double distance_product(const float *a, const float *b, int64_t count)
{
    enum { LANES = 8 };
    double lanes[LANES] = { 0 }, total = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += (double)a[i + lane] * (double)b[i + lane];
    for (; i < count; i++)
        total += (double)a[i] * (double)b[i];
    for (int lane = 0; lane < LANES; lane++)
        total += lanes[lane];
    return total;
}

/* One head of one row of an input, projected: head_dim numbers. */
static void project_head(float *numbers, const struct attn_linear *linear, const struct array *rows,
                         int64_t row, int64_t head, int64_t head_dim)
{
    const int64_t width = linear->in, begin = head * head_dim;
    const int64_t dense = linear->in_out ? linear->out : linear->in;
    const int64_t row_stride = linear->stride ? linear->stride : dense;
    double projected[MODEL_BIAS_HEAD_DIM_MAX];
    float x[COLUMNS_AT_ONCE], w[COLUMNS_AT_ONCE];
    for (int64_t e = 0; e < head_dim; e++)
        projected[e] = linear->bias ? (double)linear->bias[begin + e] : 0;
    for (int64_t column = 0; column < width; column += COLUMNS_AT_ONCE) {
        const int64_t left = width - column;
        const int64_t count = left < COLUMNS_AT_ONCE ? left : COLUMNS_AT_ONCE;
        read_numbers(x, rows->data, rows->dtype, row * width + column, 1, count);
        for (int64_t e = 0; e < head_dim; e++) {
            const int64_t at = linear->in_out ? column * row_stride + begin + e
                                              : (begin + e) * row_stride + column;
            read_numbers(w, linear->weight, linear->dtype, at, linear->in_out ? row_stride : 1,
                         count);
            projected[e] += distance_product(x, w, count);
        }
    }
    for (int64_t e = 0; e < head_dim; e++)
        numbers[e] = (float)projected[e];
}

/* Adds to `count` rows of one head of item->bias, which sum points at, what the layer's rows for
 * distances give: scale * query . row, and scale * key . row where the layer has that too. */
static void add_distances(const struct infer_item *item, int64_t head, int64_t first, int64_t count,
                          float *sum)
{
    const struct model_layer *own = &item->model->layers[item->layer_index];
    const struct model_relative_bias *bias = &own->relative_bias;
    const struct attn_layer *layer = &item->layer;
    const struct array *key = item->key.data ? &item->key : &item->query;
    const int64_t head_dim = layer->head_dim, kv_len = item->kv_len_max;
    const int64_t kv_head = head / (layer->q_heads / layer->kv_heads);
    const double scale = (double)(item->has_scale ? item->scale : own->options.scale);
    const int64_t own_rows = bias->by_head ? head * bias->count * head_dim : 0;
    const float *rows = bias->values + own_rows;
    const float *key_rows = bias->key_values ? bias->key_values + own_rows : rows;
    float projected[MODEL_BIAS_HEAD_DIM_MAX];
    for (int64_t i = 0; i < count; i++) {
        project_head(projected, &layer->q_proj, &item->query, first + i, head, head_dim);
        for (int64_t j = 0; j < kv_len; j++) {
            const int64_t column =
                model_bias_column(bias, item->past_len + first + i, item->masking.kv_offset + j);
            sum[i * kv_len + j] +=
                (float)(scale * distance_product(projected, rows + column * head_dim, head_dim));
        }
    }
    for (int64_t j = 0; bias->by_key && j < kv_len; j++) {
        project_head(projected, &layer->k_proj, key, j, kv_head, head_dim);
        for (int64_t i = 0; i < count; i++) {
            const int64_t column =
                model_bias_column(bias, item->past_len + first + i, item->masking.kv_offset + j);
            sum[i * kv_len + j] +=
                (float)(scale
                        * distance_product(projected, key_rows + column * head_dim, head_dim));
        }
    }
}

/* ------------------------------------------------- relative position bias -- */

/* The number that a mask adds to the score of a pair; for a BOOL mask 0 or -INFINITY. A pair past
 * the end of a shorter mask is not visible. */
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

void infer_bias_fill(const struct infer_item *item, const struct attn_tensor *mask, int64_t head,
                     int64_t first, int64_t count, float *sum)
{
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    sum += (head * item->q_len + first) * item->kv_len_max;
    float *const begin = sum;
    for (int64_t i = first; i < first + count; i++)
        for (int64_t j = 0; j < item->kv_len_max; j++) {
            const int64_t column =
                model_bias_column(bias, item->past_len + i, item->masking.kv_offset + j);
            *sum++ = mask_at(mask, head, i, j)
                     + (bias->by_query ? 0 : bias->values[head * bias->count + column]);
        }
    if (bias->by_query)
        add_distances(item, head, first, count, begin);
}

/* Room for a sum of a bias and a mask; NULL: there is no memory. */
static float *allocate_sum(struct arena *arena, const struct infer_item *item)
{
    int64_t count;
    if (__builtin_mul_overflow(item->layer.q_heads * item->q_len, item->kv_len_max, &count)
        || count > INT64_MAX / (int64_t)sizeof(float))
        return NULL;
    return arena_alloc(arena, (size_t)count * sizeof(float));
}

bool infer_plan_bias(struct infer_request *request, struct infer_item *item,
                     struct attn_layer_problem *problem, struct fault *fault)
{
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const int64_t heads = item->layer.q_heads, q_len = item->q_len, kv_len = item->kv_len_max;
    if (!bias->values || q_len == 0 || kv_len == 0)
        return true;
    if (bias->by_query && (request->gradients || (bias->by_key && item->cache)))
        return fault_set_at(fault, request->gradients ? "/layer" : "/session", FAULT_OPTION,
                            "layer %" PRId64 " of model '%s' has relative positions that depend on "
                            "the %s, which %s do not take",
                            item->layer_index, item->model->name, bias->by_key ? "key" : "query",
                            request->gradients ? "gradients" : "sessions");
    if (!model_bias_check(bias, item->past_len, q_len, item->masking.kv_offset, kv_len, fault))
        return false;
    if (!item->bias) {
        float *sum = allocate_sum(request->arena, item);
        if (!sum)
            return fault_no_memory(fault);
        for (int64_t h = 0; h < heads; h++)
            infer_bias_fill(item, &problem->mask, h, 0, q_len, sum);
        item->bias = sum;
    }
    problem->mask = attn_tensor_dense((void *)item->bias, ATTN_F32, 1, heads, q_len, kv_len);
    return true;
}
