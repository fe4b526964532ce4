/* infer_distances.c - see infer_distances.h.
 *
 * The library's scores are products of a query and a key alone, so these terms are a mask of every
 * head, as T5's bias is. Queries and keys are projected here once more, in double: the task of one
 * head needs them before the stage that projects them for the scores has run. */
#include "infer/infer_distances.h"

#include "base/dtype.h"

enum { COLUMNS_AT_ONCE = 256 };

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
static double product(const float *a, const float *b, int64_t count)
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
static void project(float *numbers, const struct attn_linear *linear, const struct array *rows,
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
            projected[e] += product(x, w, count);
        }
    }
    for (int64_t e = 0; e < head_dim; e++)
        numbers[e] = (float)projected[e];
}

void infer_distances_add(const struct infer_item *item, int64_t head, int64_t first, int64_t count,
                         float *sum)
{
    const struct model_layer *own = &item->model->layers[item->layer_index];
    const struct model_relative_bias *bias = &own->relative_bias;
    const struct attn_layer *layer = &item->layer;
    const struct array *key = item->key.data ? &item->key : &item->query;
    const int64_t head_dim = layer->head_dim, kv_len = item->kv_len_max;
    const int64_t kv_head = head / (layer->q_heads / layer->kv_heads);
    const double scale = (double)(item->has_scale ? item->scale : own->options.scale);
    float projected[MODEL_BIAS_HEAD_DIM_MAX];
    for (int64_t i = 0; i < count; i++) {
        project(projected, &layer->q_proj, &item->query, first + i, head, head_dim);
        for (int64_t j = 0; j < kv_len; j++) {
            const int64_t column =
                model_bias_column(bias, item->past_len + first + i, item->masking.kv_offset + j);
            sum[i * kv_len + j] +=
                (float)(scale * product(projected, bias->values + column * head_dim, head_dim));
        }
    }
    for (int64_t j = 0; bias->by_key && j < kv_len; j++) {
        project(projected, &layer->k_proj, key, j, kv_head, head_dim);
        for (int64_t i = 0; i < count; i++) {
            const int64_t column =
                model_bias_column(bias, item->past_len + first + i, item->masking.kv_offset + j);
            sum[i * kv_len + j] +=
                (float)(scale * product(projected, bias->values + column * head_dim, head_dim));
        }
    }
}
