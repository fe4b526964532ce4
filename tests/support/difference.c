/* difference.c - see difference.h. */
#include "difference.h"

#include "reference.h"

#include <math.h>

static const float STEP = 0x1p-7f;

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

double difference_loss(const struct attn_problem *problem,
                       const struct attn_tensor *context_gradient)
{
    const int64_t *shape = context_gradient->shape, *stride = context_gradient->stride;
    struct reference reference;
    double loss = 0;
    reference_attention(problem, &reference);
    const double *context = reference.context;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t i = 0; i < shape[2]; i++)
                for (int64_t d = 0; d < shape[3]; d++)
                    loss += *context++
                            * (double)((const float *)
                                           context_gradient->data)[b * stride[0] + h * stride[1]
                                                                   + i * stride[2] + d * stride[3]];
    reference_free(&reference);
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
static double five_points(const double at[4])
{
    return (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * (double)STEP);
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
    return five_points(at);
}

double difference_layer_by(const struct attn_layer_problem *problem, const float *context_gradient,
                           float *x)
{
    const float kept = *x;
    double at[4];
    for (int i = 0; i < 4; i++) {
        *x = kept + MOVES[i] * STEP;
        at[i] = difference_layer_loss(problem, context_gradient);
    }
    *x = kept;
    return five_points(at);
}
