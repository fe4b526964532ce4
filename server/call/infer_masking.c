/* SPDX-License-Identifier: Apache-2.0 */
/* infer_masking.c - checks masks and numbers of heads, and adds up the biases of a layer. */
#include "call/infer_masking.h"

#include "base/dtype.h"
#include "call/infer_distances.h"
#include "models/model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* ------------------------------------------------- relative position bias -- */

enum { BIAS_TASK_PAIRS = 1 << 15 };

/* The number that a mask, which is there, adds to the score of a pair; for a BOOL mask 0 or
 * -INFINITY. A pair past the end of a shorter mask is not visible. */
static float mask_at(const struct attn_tensor *mask, int64_t head, int64_t row, int64_t key)
{
    const int64_t at[] = { head, row, key };
    int64_t offset = 0;
    float number;
    for (int i = 0; i < 3; i++) {
        if (mask->shape[i + 1] > 1 && at[i] >= mask->shape[i + 1])
            return -INFINITY;
        offset += mask->shape[i + 1] > 1 ? at[i] * mask->stride[i + 1] : 0;
    }
    dtype_read(&number, (const char *)mask->data + (size_t)offset * attn_dtype_size(mask->dtype),
               mask->dtype, 1);
    return mask->dtype != ATTN_BOOL ? number : number != 0 ? 0 : -INFINITY;
}

/* What the numbers of a head and a query are multiplied by. */
static float gate_at(const struct infer_item *item, int64_t head, int64_t row)
{
    enum { PIECE = 64 };
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const struct array *query = &item->query;
    const int64_t count = item->layer.head_dim, first = row * query->shape[1] + head * count;
    double sums[2] = { (double)bias->gate_bias[0], (double)bias->gate_bias[1] };
    float columns[PIECE];
    for (int64_t c = 0; c < count; c += PIECE) {
        const int64_t some = count - c < PIECE ? count - c : PIECE;
        dtype_read(columns,
                   (const char *)query->data + (size_t)(first + c) * attn_dtype_size(query->dtype),
                   query->dtype, (size_t)some);
        for (int64_t i = 0; i < some; i++)
            for (int which = 0; which < 2; which++)
                sums[which] +=
                    (double)bias->gate_weight[which * count + c + i] * (double)columns[i];
    }
    const double a = 1 / (1 + exp(-sums[0])), b = 1 / (1 + exp(-sums[1]));
    return (float)(a * (b * (double)bias->gate_scales[head] - 1) + 2);
}

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* The numbers of one row of a head, of a bias that depends on distances: those before -reach and
 * behind reach are all one. */
static void fill_distances(const struct model_relative_bias *bias, const float *values,
                           int64_t distance, int64_t count, float factor, float *sum)
{
    const int64_t reach = bias->reach;
    const int64_t begin = clamp(-reach - distance, 0, count);
    const int64_t end = clamp(reach + 1 - distance, begin, count);
    for (int64_t j = 0; j < begin; j++)
        sum[j] = factor * values[0];
    for (int64_t j = begin; j < end; j++)
        sum[j] = factor * values[distance + j + reach];
    for (int64_t j = end; j < count; j++)
        sum[j] = factor * values[2 * reach];
}

static void fill_row(const struct infer_item *item, int64_t head, int64_t row, float *sum)
{
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const float *values = bias->values + head * bias->count;
    const int64_t query = item->past_len + row, key = item->masking.kv_offset;
    if (bias->height == 0)
        fill_distances(bias, values, key - query, item->kv_len_max,
                       bias->gate_weight ? gate_at(item, head, row) : 1, sum);
    else
        for (int64_t j = 0; j < item->kv_len_max; j++)
            sum[j] = values[model_bias_column(bias, query, key + j)];
}

void infer_bias_fill(const struct infer_item *item, const struct attn_tensor *mask, int64_t head,
                     int64_t first, int64_t count, float *sum)
{
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const int64_t kv_len = item->kv_len_max;
    sum += (head * item->q_len + first) * kv_len;
    for (int64_t i = 0; i < count; i++) {
        float *row = sum + i * kv_len;
        if (bias->by_query)
            memset(row, 0, (size_t)kv_len * sizeof *row);
        else
            fill_row(item, head, first + i, row);
        for (int64_t j = 0; mask->data && j < kv_len; j++)
            row[j] += mask_at(mask, head, first + i, j);
    }
    if (bias->by_query)
        infer_distances_add(item, head, first, count, sum);
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
    const bool needs_query = bias->by_query || bias->gate_weight;
    if (needs_query && (request->gradients || (bias->by_key && item->cache)))
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
        if (!infer_distances_project(request, item, problem->kernels, fault))
            return false;
        item->bias = item->bias_sum = sum;
        item->bias_mask = problem->mask;
    }
    problem->mask = attn_tensor_dense((void *)item->bias, ATTN_F32, 1, heads, q_len, kv_len);
    return true;
}

/* Rows of one head that are a task. */
static int64_t rows_of_task(const struct infer_item *item)
{
    const int64_t rows = BIAS_TASK_PAIRS / item->kv_len_max;
    return rows < 1 ? 1 : rows < item->q_len ? rows : item->q_len;
}

int64_t infer_bias_tasks(const struct infer_item *item)
{
    if (item->fault.code != FAULT_NONE || !item->bias_sum)
        return 0;
    const int64_t rows = rows_of_task(item);
    return item->layer.q_heads * ((item->q_len + rows - 1) / rows);
}

void infer_bias_run(const struct infer_item *item, int64_t task)
{
    const int64_t rows = rows_of_task(item), tasks = (item->q_len + rows - 1) / rows;
    const int64_t first = task % tasks * rows, left = item->q_len - first;
    infer_bias_fill(item, &item->bias_mask, task / tasks, first, left < rows ? left : rows,
                    item->bias_sum);
}

void infer_bias_work(const struct infer_item *item, struct attn_work *work)
{
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const double pairs =
        (double)item->layer.q_heads * (double)item->q_len * (double)item->kv_len_max;
    work->tasks += (double)infer_bias_tasks(item);
    work->moved_numbers += pairs;
    if (bias->by_query) /* a flop takes about half as long as one in double */
        work->double_flops += (bias->by_key ? 2 : 1) * pairs * (double)item->layer.head_dim;
}
