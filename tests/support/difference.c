/* SPDX-License-Identifier: Apache-2.0 */
/* difference.c - see difference.h. */
#include "difference.h"

#include "base/random.h"
#include "reference.h"

#include <math.h>

static const float STEP = 0x1p-19f;

void difference_round(float *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (isfinite(numbers[i]))
            numbers[i] = rintf(numbers[i] * 0x1p12f) * 0x1p-12f;
}

void difference_fill(struct fill *fill, float *numbers, int64_t count)
{
    fill_floats(fill, numbers, count, -1, 1);
    difference_round(numbers, count);
}

/* The weights of one row, each multiplied by what dropout makes of 1.
 * tests/laws/test_attn_dropout.c shows that dropout is right; it is the same on the way back. */
static void drop_row(const struct attn_problem *problem, double *weights, int64_t b, int64_t h,
                     int64_t i)
{
    enum { AT_ONCE = 256 };
    const int64_t kv_len = problem->key.shape[2];
    for (int64_t first = 0; first < kv_len; first += AT_ONCE) {
        const int64_t n = kv_len - first < AT_ONCE ? kv_len - first : AT_ONCE;
        float factors[AT_ONCE];
        for (int64_t j = 0; j < n; j++)
            factors[j] = 1;
        attn_dropout_row(problem, b, h, i, first, n, factors, 1);
        for (int64_t j = 0; j < n; j++)
            weights[first + j] *= (double)factors[j];
    }
}

/* context[d] of one row from its weights. */
static double context_of(const struct attn_problem *problem, const double *weights, int64_t b,
                         int64_t h, int64_t d)
{
    const struct attn_tensor *value = &problem->value;
    const int64_t kv_head = h / (problem->query.shape[1] / value->shape[1]);
    const float *numbers = (const float *)value->data + b * value->stride[0]
                           + kv_head * value->stride[1] + d * value->stride[3];
    double context = 0;
    for (int64_t j = 0; j < value->shape[2]; j++)
        if (weights[j] != 0)
            context += weights[j] * (double)numbers[j * value->stride[2]];
    return context;
}

double difference_loss(const struct attn_problem *problem,
                       const struct attn_tensor *context_gradient)
{
    const int64_t *shape = context_gradient->shape, *stride = context_gradient->stride;
    const int64_t kv_len = problem->key.shape[2];
    struct reference r;
    double loss = 0;
    reference_attention(problem, &r);
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2]; n++) {
        const int64_t i = n % shape[2], h = n / shape[2] % shape[1], b = n / shape[2] / shape[1];
        const bool drops = problem->options.dropout > 0;
        if (drops)
            drop_row(problem, r.weights + n * kv_len, b, h, i);
        for (int64_t d = 0; d < shape[3]; d++)
            loss +=
                (drops ? context_of(problem, r.weights + n * kv_len, b, h, d)
                       : r.context[n * shape[3] + d])
                * (double)((const float *)context_gradient->data)[b * stride[0] + h * stride[1]
                                                                  + i * stride[2] + d * stride[3]];
    }
    reference_free(&r);
    return loss;
}

double difference_layer_loss(const struct attn_layer_problem *problem,
                             const float *context_gradient)
{
    const int64_t count = problem->query.shape[2] * attn_layer_d_out(problem->layer);
    struct reference reference;
    double loss = 0;
    reference_layer(problem, &reference);
    for (int64_t i = 0; i < count; i++)
        loss += reference.projected[i] * (double)context_gradient[i];
    reference_free(&reference);
    return loss;
}

/* (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h */
double difference_of(const double at[4], double step)
{
    return (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * step);
}

static const float MOVES[4] = { -2, -1, 1, 2 };

double difference_by(const struct attn_problem *problem, const struct attn_tensor *context_gradient,
                     float *x)
{
    const float kept = *x;
    double at[4];
    for (int i = 0; i < 4; i++) {
        *x = kept + MOVES[i] * STEP;
        at[i] = difference_loss(problem, context_gradient);
    }
    *x = kept;
    return difference_of(at, (double)STEP);
}

/* Which weights are 0 after *x is moved by step. */
static void find_support(const struct attn_problem *problem, float *x, float step,
                         struct reference *r)
{
    const float kept = *x;
    *x = kept + step;
    reference_attention(problem, r);
    *x = kept;
}

bool difference_is_smooth(const struct attn_problem *problem, float *x)
{
    struct reference low, high;
    bool is_same = true;
    find_support(problem, x, MOVES[0] * STEP, &low);
    find_support(problem, x, MOVES[3] * STEP, &high);
    for (int64_t i = 0; i < low.batch * low.q_heads * low.q_len * low.kv_len; i++)
        is_same = is_same && (low.weights[i] == 0) == (high.weights[i] == 0);
    reference_free(&low);
    reference_free(&high);
    return is_same;
}

double difference_layer_along(const struct attn_layer_problem *problem,
                              const float *context_gradient, float *const x[],
                              const float directions[], int count)
{
    float kept[DIFFERENCE_ALONG_MAX];
    double at[4];
    for (int k = 0; k < count; k++)
        kept[k] = *x[k];
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < count; k++)
            *x[k] = kept[k] + MOVES[i] * STEP * directions[k];
        at[i] = difference_layer_loss(problem, context_gradient);
    }
    for (int k = 0; k < count; k++)
        *x[k] = kept[k];
    return difference_of(at, (double)STEP);
}

double difference_layer_by(const struct attn_layer_problem *problem, const float *context_gradient,
                           float *x)
{
    const float up = 1;
    return difference_layer_along(problem, context_gradient, &x, &up, 1);
}
