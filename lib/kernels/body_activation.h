/* SPDX-License-Identifier: Apache-2.0 */
/* body_activation.h - activations of a row, and other functions of single numbers; a part of
 * body.h.
 *
 * GELU is x times the normal distribution's Phi(x). With t = |x| and Q(t) = 1 - Phi(t), the tail,
 *
 *     gelu(x) = x - t Q(t) for x >= 0        gelu(x) = -t Q(t) for x < 0
 *
 * so that nothing cancels where Phi is near 0. Q(t) is e^(-t^2/2) times a smooth function, which is
 * (t + 3)^-1 times a polynomial in (t - 3) / (t + 3). t^2 is kept in two parts: one rounding of it
 * would be many ulp of the exponential. Near 0 Phi itself has a polynomial. The other activations
 * are x times a sigmoid:
 *
 *     x / 2 * (1 + tanh(z)) = x * sigmoid(2 z)
 *
 * and the sigmoid takes e^-|w|, which does not overflow. */
#ifndef ATTN_BODY_ACTIVATION_H
#define ATTN_BODY_ACTIVATION_H

#include "body_softmax.h"
#include "vector.h"

#include <float.h>
#include <math.h>

/* The upper 12 bits of each number's 24: a product of two such numbers is exact. */
INLINE vec upper_half(vec x)
{
    return (vec)((ivec)x & ~0xfff);
}

/* Phi(x) is 1/2 + x a(x^2); below 0.75 nothing cancels much in that, and it has fewer roundings. */
INLINE vec gelu_near(vec x)
{
    const vec z = x * x;
    vec a = broadcast(1.029705149e-4f);
    a = a * z - 1.181318904e-3f;
    a = a * z + 9.972360943e-3f;
    a = a * z - 6.649029632e-2f;
    a = a * z + 3.989422795e-1f;
    return x * (0.5f + x * a);
}

/* Past GELU_END the tail is 0 next to any float, and its exponential underflows. */
#define GELU_END 14.0f

INLINE vec gelu(vec x)
{
    const vec size = absolute(x);
    const vec t = select(size < GELU_END, size, broadcast(GELU_END));
    const vec upper = upper_half(t);
    const vec e = exp_of_parts(upper * upper * -0.5f, (t - upper) * (t + upper) * -0.5f);
    const vec w = 1.0f / (t + 3.0f);
    const vec v = (t - 3.0f) * w;
    vec p = broadcast(5.494082527e-5f);
    p = p * v + 1.324035209e-4f;
    p = p * v - 2.444288753e-4f;
    p = p * v - 1.033478663e-3f;
    p = p * v + 1.024234513e-3f;
    p = p * v + 6.969551234e-3f;
    p = p * v - 1.046234321e-2f;
    p = p * v - 4.726270973e-2f;
    p = p * v + 2.300176829e-1f;
    p = p * v - 5.093319909e-1f;
    p = p * v + 7.290836906e-1f;
    const vec tail = e * (t * (w * p));
    return select(size < 0.75f, gelu_near(x), select(x < 0.0f, -tail, x - tail));
}

/* x * sigmoid(high + low), where low is what high lacks. */
INLINE vec times_sigmoid(vec x, vec high, vec low)
{
    const ivec is_negative = high < 0.0f;
    const vec e = exp_of_parts(select(is_negative, high, -high), select(is_negative, low, -low));
    const vec finite = greater(broadcast(-FLT_MAX), x); /* -INFINITY times 0 would be NaN */
    return select(is_negative, finite * e, x) / (1.0f + e);
}

INLINE vec sigmoid(vec x)
{
    return times_sigmoid(broadcast(1.0f), x, (vec){ 0 });
}

INLINE vec silu(vec x)
{
    return times_sigmoid(x, x, (vec){ 0 });
}

/* 1.702 is 1.7016602 + 0.00033984375. */
INLINE vec gelu_quick(vec x)
{
    const vec upper = upper_half(x);
    const vec lower = (vec)((ivec)(x - upper) & (absolute(x) < INFINITY)); /* not inf - inf */
    return times_sigmoid(x, upper * 1.70166015625f, upper * 3.3984375e-4f + lower * 1.702f);
}

/* 2 sqrt(2 / pi) = 1.5957691, and that times 0.044715. */
INLINE vec gelu_tanh(vec x)
{
    return times_sigmoid(x, x * (1.5957691f + 0.071354814f * (x * x)), (vec){ 0 });
}

INLINE vec relu(vec x)
{
    return select(x < 0.0f, (vec){ 0 }, x);
}

INLINE vec relu_squared(vec x)
{
    return relu(x) * relu(x);
}

INLINE vec tanh_of(vec x)
{
    return with_sign(tanh_nonnegative(absolute(x)), x);
}

/* e^x - 1 - x for -1 <= x <= 0, where the difference would cancel: Taylor's. */
INLINE vec exp_less_line(vec x)
{
    vec p = broadcast(2.755731922e-7f);
    p = p * x + 2.755731922e-6f;
    p = p * x + 2.480158730e-5f;
    p = p * x + 1.984126984e-4f;
    p = p * x + 1.388888889e-3f;
    p = p * x + 8.333333333e-3f;
    p = p * x + 4.166666667e-2f;
    p = p * x + 1.666666667e-1f;
    return x * x * (p * x + 0.5f);
}

INLINE vec xielu(vec x, const float *parameters)
{
    const vec positive = broadcast(parameters[0]), negative = broadcast(parameters[1]);
    const vec beta = broadcast(parameters[2]), eps = broadcast(parameters[3]);
    const ivec is_left = x < eps;
    const vec t = select(is_left, x, eps);
    const vec rest = select(is_left, (vec){ 0 }, eps - x);
    const vec near = negative * (exp_less_line(t) + rest) + beta * x;
    const vec far = negative * (exp_of_parts(t, (vec){ 0 }) - 1.0f) + (beta - negative) * x;
    return select(x > 0.0f, x * (positive * x + beta), select(t < -1.0f, far, near));
}

INLINE void map_row(vec (*const function)(vec), float *row, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(row + i, function(load(row + i)));
    if (i < n)
        store_part(row + i, function(load_part(row + i, n - i)), n - i);
}

#define MAP_ROW(name, function)                                                                    \
    static void name(float *row, int64_t n)                                                        \
    {                                                                                              \
        map_row(function, row, n);                                                                 \
    }

MAP_ROW(gelu_row, gelu)
MAP_ROW(gelu_tanh_row, gelu_tanh)
MAP_ROW(gelu_quick_row, gelu_quick)
MAP_ROW(relu_row, relu)
MAP_ROW(relu_squared_row, relu_squared)
MAP_ROW(silu_row, silu)
MAP_ROW(sigmoid_row, sigmoid)
MAP_ROW(tanh_row, tanh_of)

static void xielu_row(float *row, const float *parameters, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(row + i, xielu(load(row + i), parameters));
    if (i < n)
        store_part(row + i, xielu(load_part(row + i, n - i), parameters), n - i);
}

static void softcap_row(float *row, float softcap, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(row + i, cap(load(row + i), softcap));
    if (i < n)
        store_part(row + i, cap(load_part(row + i, n - i), softcap), n - i);
}

static void multiply_row(float *row, const float *factors, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(row + i, load(row + i) * load(factors + i));
    for (; i < n; i++)
        row[i] *= factors[i];
}

#endif
