/* SPDX-License-Identifier: Apache-2.0 */
/* infer_distances.c - projects query and key for relative positions, and adds up their terms. */
#include "call/infer_distances.h"

#include "base/dtype.h"
#include "models/model/model.h"

static const struct model_relative_bias *bias_of(const struct infer_item *item)
{
    return &item->model->layers[item->layer_index].relative_bias;
}

static const struct array *key_of(const struct infer_item *item)
{
    return item->key.data ? &item->key : &item->query;
}

int64_t infer_distance_numbers(const struct infer_item *item)
{
    const struct model_relative_bias *bias = bias_of(item);
    int64_t queries, keys = 0, numbers;
    if (!bias->values || !bias->by_query)
        return 0;
    const bool is_too_many =
        __builtin_mul_overflow(item->q_len, item->layer.q_proj.out, &queries)
        || (bias->by_key && __builtin_mul_overflow(item->kv_len_max, item->layer.k_proj.out, &keys))
        || __builtin_add_overflow(queries, keys, &numbers)
        || numbers > INT64_MAX / (int64_t)sizeof(float);
    return is_too_many ? -1 : numbers;
}

static struct attn_product product_of(const struct attn_linear *linear, const struct array *rows,
                                      int64_t row_count, float *projected,
                                      const struct attn_kernels *kernels)
{
    return (struct attn_product){ .linear = linear,
                                  .x = rows->data,
                                  .x_stride = linear->in,
                                  .y = projected,
                                  .y_stride = linear->out,
                                  .row_count = row_count,
                                  .kernels = kernels,
                                  .precision = ATTN_PRECISION_HIGHEST };
}

int infer_distance_products(const struct infer_item *item, const struct attn_kernels *kernels,
                            struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX])
{
    const struct model_relative_bias *bias = bias_of(item);
    const struct attn_layer *layer = &item->layer;
    if (!bias->values || !bias->by_query || !item->projected)
        return 0;
    products[0] = product_of(&layer->q_proj, &item->query, item->q_len, item->projected, kernels);
    if (!bias->by_key)
        return 1;
    products[1] = product_of(&layer->k_proj, key_of(item), item->kv_len_max,
                             item->projected + item->q_len * layer->q_proj.out, kernels);
    return 2;
}

void infer_distances_work(const struct infer_item *item, const struct attn_kernels *kernels,
                          struct attn_work *work)
{
    struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX];
    const int count = infer_distance_products(item, kernels, products);
    for (int i = 0; i < count; i++)
        attn_product_work(&products[i], work);
}

/* The numbers of an array as floats; NULL: there is no memory. */
static const float *read_rows(struct arena *arena, const struct array *rows, int64_t count)
{
    if (rows->dtype == ATTN_F32)
        return rows->data;
    float *numbers = arena_alloc(arena, (size_t)count * sizeof *numbers);
    if (numbers)
        dtype_read(numbers, rows->data, rows->dtype, (size_t)count);
    return numbers;
}

bool infer_distances_project(struct infer_request *request, struct infer_item *item,
                             const struct attn_kernels *kernels, struct fault *fault)
{
    const int64_t numbers = infer_distance_numbers(item);
    struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX];
    const struct array *const inputs[] = { &item->query, key_of(item) };
    if (numbers == 0)
        return true;
    item->projected =
        numbers > 0 ? arena_alloc(request->arena, (size_t)numbers * sizeof *item->projected) : NULL;
    if (!item->projected)
        return fault_no_memory(fault);
    const int count = infer_distance_products(item, kernels, products);
    for (int i = 0; i < count; i++) {
        struct attn_product *product = &products[i];
        void *workspace = arena_alloc(request->arena, attn_product_workspace_bytes(product));
        product->x = read_rows(request->arena, inputs[i], product->row_count * product->linear->in);
        if (!product->x || !workspace)
            return fault_no_memory(fault);
        for (int64_t task = 0; task < attn_product_tasks(product); task++)
            attn_product_run(product, task, workspace);
    }
    return true;
}

/* Sums in lanes, which are added up in one order. */
static float row_product(const float *a, const float *b, int64_t count)
{
    enum { LANES = 8 };
    float lanes[LANES] = { 0 }, total = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        total += a[i] * b[i];
    for (int lane = 0; lane < LANES; lane++)
        total += lanes[lane];
    return total;
}

void infer_distances_add(const struct infer_item *item, int64_t head, int64_t first, int64_t count,
                         float *sum)
{
    const struct model_relative_bias *bias = bias_of(item);
    const struct attn_layer *layer = &item->layer;
    const int64_t head_dim = layer->head_dim, kv_len = item->kv_len_max;
    const int64_t q_width = layer->q_proj.out, k_width = layer->k_proj.out;
    const int64_t kv_head = head / (layer->q_heads / layer->kv_heads);
    const float scale =
        item->has_scale ? item->scale : item->model->layers[item->layer_index].options.scale;
    const int64_t own_rows = bias->by_head ? head * bias->count * head_dim : 0;
    const float *rows = bias->values + own_rows;
    const float *key_rows = bias->key_values ? bias->key_values + own_rows : rows;
    const float *queries = item->projected + head * head_dim;
    const float *keys = item->projected + item->q_len * q_width + kv_head * head_dim;
    for (int64_t i = first; i < first + count; i++)
        for (int64_t j = 0; j < kv_len; j++) {
            const int64_t at =
                model_bias_column(bias, item->past_len + i, item->masking.kv_offset + j) * head_dim;
            float terms = row_product(queries + i * q_width, rows + at, head_dim);
            if (bias->by_key)
                terms += row_product(keys + j * k_width, key_rows + at, head_dim);
            *sum++ += scale * terms;
        }
}
