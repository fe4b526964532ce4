/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - attention in double, straight from the formulas.
 *
 * Inputs are first copied to dense arrays of double. This separates strides from arithmetic:
 * only the copy knows strides, and only the sums know attention. */
#include "reference.h"

#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(int64_t count, size_t size)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (memory == NULL) {
        perror("reference");
        exit(1);
    }
    return memory;
}

static double *allocate_doubles(int64_t count)
{
    return allocate(count, sizeof(double));
}

/* The index of element [b, h, l, d] in tensor->data; a dimension of 1 broadcasts. */
static int64_t element(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d)
{
    const int64_t at[4] = { b, h, l, d };
    int64_t offset = 0;
    for (int i = 0; i < 4; i++)
        offset += (tensor->shape[i] == 1 ? 0 : at[i]) * tensor->stride[i];
    return offset;
}

/* A dense copy of a view. */
static double *copy_dense(const struct attn_tensor *tensor)
{
    const int64_t *shape = tensor->shape;
    double *copy = allocate_doubles(shape[0] * shape[1] * shape[2] * shape[3]);
    double *to = copy;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t l = 0; l < shape[2]; l++)
                for (int64_t d = 0; d < shape[3]; d++)
                    *to++ = number_get(tensor->data, tensor->dtype, element(tensor, b, h, l, d));
    return copy;
}

/* What is common to a bare call and to one inside a layer. */
struct operands {
    const double *query, *key, *value; /* dense, as in struct attn_problem */
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
    const float *additive_weight; /* [head_dim], or NULL */
    const struct attn_options *options;
    const struct attn_tensor *mask;
    const int64_t *lengths, *row_lengths; /* kv_len and row_kv_len of the problem, or NULL */
    const int64_t *past_len;              /* [batch] or NULL */
    int64_t kv_offset, first_keys, last_keys;
    const float *alibi_slopes, *sinks; /* [q_heads] or NULL */
};

static double distance(const struct operands *o, int64_t b, int64_t i, int64_t j)
{
    const double p = (double)i + (o->past_len != NULL ? (double)o->past_len[b] : 0.0);
    return p - ((double)o->kv_offset + (double)j);
}

/* Positions are compared as doubles: a window may be as wide as int64_t allows. */
static bool is_visible(const struct operands *o, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const double behind = distance(o, b, i, j);
    const struct attn_options *options = o->options;
    if (options->causal && behind < 0)
        return false;
    if (options->window_left >= 0 && behind > (double)options->window_left)
        return false;
    if (options->window_right >= 0 && -behind > (double)options->window_right)
        return false;
    if (options->chunk > 0) {
        const double key = (double)o->kv_offset + (double)j, chunk = (double)options->chunk;
        if (floor(key / chunk) != floor((key + behind) / chunk))
            return false;
    }
    if (o->lengths != NULL && j >= o->lengths[b])
        return false;
    if (o->row_lengths != NULL && j >= o->row_lengths[b * o->q_len + i])
        return false;
    if (o->last_keys > 0 && j >= o->first_keys && behind >= (double)o->last_keys)
        return false;
    if (o->mask->data == NULL)
        return true;
    if (o->mask->shape[3] > 1 && j >= o->mask->shape[3])
        return false; /* a mask that ends early forbids the rest */
    const int64_t at = element(o->mask, b, h, i, j);
    if (o->mask->dtype == ATTN_BOOL)
        return ((const unsigned char *)o->mask->data)[at] != 0;
    return number_get(o->mask->data, o->mask->dtype, at) != -INFINITY;
}

static double bias(const struct operands *o, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const double slope = o->alibi_slopes != NULL ? (double)o->alibi_slopes[h] : 0.0;
    const double linear = -slope * fabs(distance(o, b, i, j));
    if (o->mask->data == NULL || o->mask->dtype == ATTN_BOOL)
        return linear;
    return linear + number_get(o->mask->data, o->mask->dtype, element(o->mask, b, h, i, j));
}

/* libm's tanh() takes five times as long as its exp(); only near 0 is it more exact than this. */
static double hyperbolic_tangent(double x)
{
    if (!(fabs(x) >= 0.01))
        return tanh(x);
    const double e = exp(-2 * fabs(x));
    return copysign((1 - e) / (1 + e), x);
}

static double softcap(double score, double cap)
{
    return cap > 0 ? cap * hyperbolic_tangent(score / cap) : score;
}

/* weights[n] = softmax(masked[n]) with one more score, the sink. A score of -INFINITY has no
 * weight. Returns the log-sum-exp. */
static double softmax(const double *masked, double *weights, int64_t n, double sink)
{
    double max = sink, sum = 0;
    bool is_empty = sink == -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        is_empty = is_empty && masked[j] == -INFINITY; /* NaN is something, if not a number */
        max = fmax(max, masked[j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += weights[j] = masked[j] == -INFINITY ? 0.0 : exp(masked[j] - max);
    if (sink != -INFINITY)
        sum += exp(sink - max);
    for (int64_t j = 0; j < n; j++)
        weights[j] = is_empty ? 0.0 : weights[j] / sum;
    return is_empty ? -INFINITY : max + log(sum);
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* weights[n] = sparsemax(masked[n]) by the paper's own algorithm: it sorts the scores and takes
 * the longest prefix whose members all exceed the threshold that the prefix gives. */
static void sparsemax(const double *masked, double *weights, int64_t n, double sink)
{
    double *sorted = allocate_doubles(n + 1), sum = 0, threshold = INFINITY;
    memcpy(sorted, masked, (size_t)n * sizeof *sorted);
    sorted[n] = sink;
    qsort(sorted, (size_t)n + 1, sizeof *sorted, descending);
    for (int64_t k = 1; k <= n + 1 && sorted[k - 1] != -INFINITY; k++) {
        sum += sorted[k - 1];
        if (1 + (double)k * sorted[k - 1] > sum)
            threshold = (sum - 1) / (double)k;
    }
    for (int64_t j = 0; j < n; j++)
        weights[j] = fmax(masked[j] - threshold, 0);
    free(sorted);
}

static void reference_row(const struct operands *o, struct reference *r, int64_t b, int64_t h,
                          int64_t i)
{
    const int64_t row = (b * o->q_heads + h) * o->q_len + i;
    const int64_t kv_head = b * o->kv_heads + h / (o->q_heads / o->kv_heads);
    const double *query = o->query + row * o->head_dim;
    double *context = r->context + row * o->v_head_dim;
    const int64_t map = row * o->kv_len;
    for (int64_t j = 0; j < o->kv_len; j++) {
        const double *key = o->key + (kv_head * o->kv_len + j) * o->head_dim;
        double sum = 0;
        for (int64_t d = 0; d < o->head_dim; d++)
            sum += o->additive_weight != NULL
                       ? (double)o->additive_weight[d] * hyperbolic_tangent(query[d] + key[d])
                       : query[d] * key[d];
        r->scores[map + j] = (double)o->options->scale * sum;
        r->softcapped[map + j] = softcap(r->scores[map + j], (double)o->options->softcap);
        r->masked[map + j] =
            is_visible(o, b, h, i, j) ? r->softcapped[map + j] + bias(o, b, h, i, j) : -INFINITY;
    }
    r->lse[row] = softmax(r->masked + map, r->weights + map, o->kv_len,
                          o->sinks != NULL ? (double)o->sinks[h] : -INFINITY);
    if (o->options->normalizer == ATTN_SPARSEMAX)
        sparsemax(r->masked + map, r->weights + map, o->kv_len,
                  o->sinks != NULL ? (double)o->sinks[h] : -INFINITY);
    for (int64_t j = 0; j < o->kv_len; j++) {
        if (r->masked[map + j] == -INFINITY)
            continue; /* what a masked value holds does not count, NaN included */
        const double *value = o->value + (kv_head * o->kv_len + j) * o->v_head_dim;
        for (int64_t d = 0; d < o->v_head_dim; d++)
            context[d] += r->weights[map + j] * value[d];
    }
}

static void reference_run(const struct operands *o, struct reference *r)
{
    const int64_t rows = o->batch * o->q_heads * o->q_len;
    memset(r, 0, sizeof *r);
    r->batch = o->batch;
    r->q_heads = o->q_heads;
    r->q_len = o->q_len;
    r->kv_len = o->kv_len;
    r->v_head_dim = o->v_head_dim;
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        r->out[i] = allocate_doubles(rows
                                     * (attn_output_is_map(i)      ? o->kv_len
                                        : i == ATTN_OUTPUT_CONTEXT ? o->v_head_dim
                                                                   : 1));
    for (int64_t b = 0; b < o->batch; b++)
        for (int64_t h = 0; h < o->q_heads; h++)
            for (int64_t i = 0; i < o->q_len; i++)
                reference_row(o, r, b, h, i);
}

void reference_attention(const struct attn_problem *problem, struct reference *reference)
{
    double *query = copy_dense(&problem->query);
    double *key = copy_dense(&problem->key);
    double *value = copy_dense(&problem->value);
    const struct operands operands = {
        .query = query,
        .key = key,
        .value = value,
        .batch = problem->query.shape[0],
        .q_heads = problem->query.shape[1],
        .kv_heads = problem->key.shape[1],
        .q_len = problem->query.shape[2],
        .kv_len = problem->key.shape[2],
        .head_dim = problem->query.shape[3],
        .v_head_dim = problem->value.shape[3],
        .additive_weight = problem->additive_weight,
        .options = &problem->options,
        .mask = &problem->mask,
        .lengths = problem->kv_len,
        .row_lengths = problem->row_kv_len,
        .past_len = problem->past_len,
        .kv_offset = problem->kv_offset,
        .first_keys = problem->first_keys,
        .last_keys = problem->last_keys,
        .alibi_slopes = problem->alibi_slopes,
        .sinks = problem->sinks,
    };
    reference_run(&operands, reference);
    free(query);
    free(key);
    free(value);
}

static double parameter_at(const struct attn_linear *linear, int64_t index)
{
    return number_get(linear->weight, linear->dtype, index);
}

void reference_linear(const struct attn_linear *linear, const double *x, int64_t rows,
                      int64_t x_columns, double *y)
{
    if (linear->weight == NULL) {
        memcpy(y, x, (size_t)(rows * x_columns) * sizeof *y);
        return;
    }
    const int64_t dense = linear->in_out ? linear->out : linear->in;
    const int64_t stride = linear->stride > 0 ? linear->stride : dense;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t o = 0; o < linear->out; o++) {
            double sum = linear->bias != NULL ? (double)linear->bias[o] : 0.0;
            for (int64_t c = 0; c < linear->in; c++)
                sum += x[i * x_columns + c]
                       * parameter_at(linear, linear->in_out ? c * stride + o : o * stride + c);
            y[i * linear->out + o] = sum;
        }
}

/* weight * (x - mean) / sqrt(variance + eps) + bias of one head of a row, or of all heads
 * together. The numbers are step apart. */
static void norm_heads(const struct attn_norm *norm, double *x, int64_t first, int64_t heads,
                       int64_t step, int64_t dim)
{
    const int64_t count = heads * dim;
    const int64_t at = norm->scope == ATTN_NORM_HEADS ? first * dim : 0;
    double mean = 0, variance = 0;
    for (int64_t n = 0; n < count && norm->is_centred; n++)
        mean += x[n / dim * step + n % dim] / (double)count;
    for (int64_t n = 0; n < count; n++)
        variance += pow(x[n / dim * step + n % dim] - mean, 2) / (double)count;
    for (int64_t n = 0; n < count; n++) {
        double *number = &x[n / dim * step + n % dim];
        *number = (*number - mean) / sqrt(variance + norm->eps) * (double)norm->weight[at + n]
                  + (norm->bias != NULL ? (double)norm->bias[at + n] : 0);
    }
}

/* x is [heads, length, dim]. */
static void norm_rows(const struct attn_norm *norm, double *x, int64_t heads, int64_t length,
                      int64_t dim)
{
    const bool is_whole = norm->scope == ATTN_NORM_ROW;
    for (int64_t l = 0; l < length; l++)
        for (int64_t h = 0; h < (is_whole ? 1 : heads); h++)
            norm_heads(norm, x + (h * length + l) * dim, h, is_whole ? heads : 1, length * dim,
                       dim);
}

static void turn_rows(const struct attn_rope *rope, double *x, int64_t heads, int64_t length,
                      int64_t dim, int64_t start, double sequence_length)
{
    for (int64_t h = 0; rope->dim > 0 && h < heads; h++)
        for (int64_t l = 0; l < length; l++)
            reference_rope(rope, start + l, sequence_length, x + (h * length + l) * dim);
}

/* Projects one input of a layer and cuts it into [heads, length, dim], clamped as the layer says.
 */
static double *cut_input(const struct attn_layer *layer, const struct attn_linear *linear,
                         const struct attn_tensor *input, int64_t heads, int64_t dim)
{
    const double clamp = layer->projected_max;
    const int64_t length = input->shape[2];
    double *x = copy_dense(input);
    double *cut = allocate_doubles(heads * length * dim);
    if (input->shape[1] == heads && input->shape[3] == dim && linear->weight == NULL) {
        memcpy(cut, x, (size_t)(heads * length * dim) * sizeof *cut);
    } else {
        double *y = allocate_doubles(length * heads * dim);
        reference_linear(linear, x, length, input->shape[3], y);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t l = 0; l < length; l++)
                memcpy(cut + (h * length + l) * dim, y + (l * heads + h) * dim,
                       (size_t)dim * sizeof *cut);
        free(y);
    }
    free(x);
    for (int64_t i = 0; clamp > 0 && linear->weight != NULL && i < heads * length * dim; i++)
        cut[i] = fmin(fmax(cut[i], -clamp), clamp);
    return cut;
}

/* The same of query or key, normed and turned. */
static double *scored_input(const struct attn_layer *layer, const struct attn_linear *linear,
                            const struct attn_tensor *input, int64_t heads,
                            const struct attn_norm *norm, int64_t start, double sequence_length)
{
    const int64_t length = input->shape[2], dim = layer->head_dim;
    double *cut = cut_input(layer, linear, input, heads, dim);
    if (layer->norms_follow_rope)
        turn_rows(&layer->rope, cut, heads, length, dim, start, sequence_length);
    if (norm->weight != NULL)
        norm_rows(norm, cut, heads, length, dim);
    if (!layer->norms_follow_rope)
        turn_rows(&layer->rope, cut, heads, length, dim, start, sequence_length);
    return cut;
}

/* get_llama_4_attn_scale() of ministral3/modeling_ministral3.py. */
static void grow_queries(const struct attn_rope *rope, double *query, int64_t heads, int64_t length,
                         int64_t dim, int64_t start)
{
    for (int64_t i = 0; rope->query_growth > 0 && i < heads * length * dim; i++)
        query[i] *= 1
                    + rope->query_growth
                          * log(1
                                + floor(((double)(start + i / dim % length) + rope->query_offset)
                                        / rope->query_length));
}

/* Joined heads times the sigmoids of the gate. */
static void multiply_gates(const struct attn_layer_problem *problem, double *joined)
{
    const struct attn_linear *gate = &problem->layer->gate_proj;
    const int64_t rows = problem->query.shape[2];
    if (gate->weight == NULL)
        return;
    double *x = copy_dense(&problem->query), *gates = allocate_doubles(rows * gate->out);
    reference_linear(gate, x, rows, problem->query.shape[3], gates);
    for (int64_t i = 0; i < rows * gate->out; i++)
        joined[i] *= 1 / (1 + exp(-gates[i]));
    free(gates);
    free(x);
}

/* Heads concatenated, times the gates, then the output projection. */
static void layer_output(const struct attn_layer_problem *problem, struct reference *r)
{
    const struct attn_layer *layer = problem->layer;
    const int64_t columns = r->q_heads * r->v_head_dim;
    const int64_t d_out = layer->o_proj.weight != NULL ? layer->o_proj.out : columns;
    double *joined = allocate_doubles(r->q_len * columns);
    for (int64_t h = 0; h < r->q_heads; h++)
        for (int64_t i = 0; i < r->q_len; i++)
            memcpy(joined + i * columns + h * r->v_head_dim,
                   r->context + (h * r->q_len + i) * r->v_head_dim,
                   (size_t)r->v_head_dim * sizeof *joined);
    multiply_gates(problem, joined);
    r->projected = allocate_doubles(r->q_len * d_out);
    reference_linear(&layer->o_proj, joined, r->q_len, columns, r->projected);
    free(joined);
}

void reference_layer(const struct attn_layer_problem *problem, struct reference *reference)
{
    const struct attn_layer *layer = problem->layer;
    const double query_end = (double)problem->past_len + (double)problem->query.shape[2];
    const double key_end = (double)problem->kv_offset + (double)problem->key.shape[2];
    const double end = query_end > key_end ? query_end : key_end;
    double *query = scored_input(layer, &layer->q_proj, &problem->query, layer->q_heads,
                                 &layer->q_norm, problem->past_len, end);
    grow_queries(&layer->rope, query, layer->q_heads, problem->query.shape[2], layer->head_dim,
                 problem->past_len);
    double *key = scored_input(layer, &layer->k_proj, &problem->key, layer->kv_heads,
                               &layer->k_norm, problem->kv_offset, end);
    double *value =
        cut_input(layer, &layer->v_proj, &problem->value, layer->kv_heads, layer->v_head_dim);
    if (layer->v_norm.weight != NULL)
        norm_rows(&layer->v_norm, value, layer->kv_heads, problem->value.shape[2],
                  layer->v_head_dim);
    const struct operands operands = {
        .query = query,
        .key = key,
        .value = value,
        .batch = 1,
        .q_heads = layer->q_heads,
        .kv_heads = layer->kv_heads,
        .q_len = problem->query.shape[2],
        .kv_len = problem->key.shape[2],
        .head_dim = layer->head_dim,
        .v_head_dim = layer->v_head_dim,
        .additive_weight = layer->additive_weight,
        .options = &problem->options,
        .mask = &problem->mask,
        .lengths = problem->kv_len,
        .row_lengths = problem->row_kv_len,
        .past_len = &problem->past_len,
        .kv_offset = problem->kv_offset,
        .first_keys = problem->first_keys,
        .last_keys = problem->last_keys,
        .alibi_slopes = problem->alibi_slopes,
        .sinks = problem->sinks,
    };
    reference_run(&operands, reference);
    layer_output(problem, reference);
    free(query);
    free(key);
    free(value);
}

void reference_free(struct reference *reference)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        free(reference->out[i]);
    free(reference->projected);
    memset(reference, 0, sizeof *reference);
}
