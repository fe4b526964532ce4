/* SPDX-License-Identifier: Apache-2.0 */
/* body_gradient.h - the kernels that only gradients need, a part of body.h. */
#ifndef ATTN_BODY_GRADIENT_H
#define ATTN_BODY_GRADIENT_H

#include "kernels.h"
#include "vector.h"

#include <math.h>
#include <stddef.h>

static void copy_rows(float *to, int64_t to_stride, const float *rows, int64_t row_stride,
                      int64_t row_count, int64_t columns, float factor)
{
    for (int64_t r = 0; r < row_count; r++) {
        const float *row = rows + r * row_stride;
        float *copy = to + r * to_stride;
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES)
            store(copy + c, load(row + c) * factor);
        for (; c < to_stride; c++)
            copy[c] = c < columns ? row[c] * factor : 0.0f;
    }
}

static void add_rows(float *to, int64_t to_stride, const float *rows, int64_t row_stride,
                     int64_t row_count, int64_t columns, float factor)
{
    for (int64_t r = 0; r < row_count; r++) {
        const float *row = rows + r * row_stride;
        float *sum = to + r * to_stride;
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES)
            store(sum + c, load(sum + c) + load(row + c) * factor);
        for (; c < columns; c++)
            sum[c] += row[c] * factor;
    }
}

static void score_tile_guarded(float *products, const float *rows_t, const float *gradients,
                               int64_t gradient_stride, int64_t n, int64_t depth, int64_t width)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < width; c += LANES) {
            vec sum = { 0 };
            for (int64_t d = 0; d < depth; d++) {
                const float gradient = gradients[j * gradient_stride + d];
                if (gradient != 0.0f)
                    sum += gradient * load(rows_t + d * width + c);
            }
            store(products + j * width + c, sum);
        }
}

/* Half of the lanes of a vector, in double. */
typedef double dvec __attribute__((vector_size(LANES / 2 * sizeof(double))));
typedef int64_t dmask __attribute__((vector_size(LANES / 2 * sizeof(int64_t))));

INLINE dvec load_double(const float *from)
{
    typedef float half __attribute__((vector_size(LANES / 2 * sizeof(float))));
    half floats;
    memcpy(&floats, from, sizeof floats);
    return __builtin_convertvector(floats, dvec);
}

/* Each row has DOT_CHAINS sums for every vector length, so that its bits are the same. */
enum { DOT_CHAINS = 16 };

static void dot_rows(double *dots, const float *a, int64_t a_stride, const float *b,
                     int64_t b_stride, int64_t row_count, int64_t columns)
{
    enum { EACH = LANES / 2, VECTORS = DOT_CHAINS / EACH };

    for (int64_t r = 0; r < row_count; r++) {
        const float *x = a + r * a_stride, *y = b + r * b_stride;
        dvec vectors[VECTORS] = { 0 };
        double sums[DOT_CHAINS];
        int64_t c = 0;
        for (; c + DOT_CHAINS <= columns; c += DOT_CHAINS) {
            UNROLL
            for (int v = 0; v < VECTORS; v++)
                vectors[v] += load_double(x + c + v * EACH) * load_double(y + c + v * EACH);
        }
        memcpy(sums, vectors, sizeof sums);
        for (; c < columns; c++)
            sums[c % DOT_CHAINS] += (double)x[c] * (double)y[c];
        for (int half = DOT_CHAINS / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++)
                sums[i] += sums[i + half];
        dots[r] = sums[0];
    }
}

/* Sums over the n weights of half of the lanes. A product of two floats is exact in double. */
INLINE void add_delta(dvec *products, dvec *weights, const float *weights_t,
                      const float *gradient_t)
{
    const dvec weight = load_double(weights_t);
    const dvec product = weight * load_double(gradient_t);
    *products += (dvec)((dmask)product & (weight != 0.0));
    *weights += weight;
}

static void delta_tile(double *dividend, double *divisor, const float *rescale,
                       const float *weights_t, const float *gradient_t, int64_t n, int64_t width)
{
    for (int64_t c = 0; c < width; c += LANES) {
        dvec products[2], weights[2];
        for (int h = 0; h < 2; h++) {
            const dvec factor = load_double(rescale + c + h * (LANES / 2));
            memcpy(&products[h], dividend + c + h * (LANES / 2), sizeof products[h]);
            memcpy(&weights[h], divisor + c + h * (LANES / 2), sizeof weights[h]);
            products[h] *= factor;
            weights[h] *= factor;
        }
        for (int64_t j = 0; j < n; j++)
            for (int h = 0; h < 2; h++)
                add_delta(&products[h], &weights[h], weights_t + j * width + c + h * (LANES / 2),
                          gradient_t + j * width + c + h * (LANES / 2));
        for (int h = 0; h < 2; h++) {
            memcpy(dividend + c + h * (LANES / 2), &products[h], sizeof products[h]);
            memcpy(divisor + c + h * (LANES / 2), &weights[h], sizeof weights[h]);
        }
    }
}

/* The numbers that belong to the query row of row j of a tile, or to the query rows in lanes c
 * on. */
INLINE vec of_query(const float *numbers, int64_t step, int64_t j, int64_t c)
{
    return step == 0 ? load(numbers + c) : broadcast(numbers[j]);
}

static void weights_tile(float *scores_t, const float *max, const float *factor, int64_t step,
                         int64_t n, int64_t width)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < width; c += LANES) {
            float *at = scores_t + j * width + c;
            const vec score = load(at);
            const vec weight =
                exp_nonpositive(score - of_query(max, step, j, c)) * of_query(factor, step, j, c);
            store(at, select(score == -INFINITY, (vec){ 0 }, weight));
        }
}

static void softmax_gradient_tile(float *gradient_t, const float *weights_t, const float *delta,
                                  const float *delta_low, int64_t step, int64_t n, int64_t width)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < width; c += LANES) {
            float *at = gradient_t + j * width + c;
            const vec weight = load(weights_t + j * width + c);
            const vec rest = load(at) - of_query(delta, step, j, c);
            const vec gradient = weight * (rest - of_query(delta_low, step, j, c));
            store(at, select(weight == 0.0f, (vec){ 0 }, gradient));
        }
}

static void softcap_gradient_tile(float *gradient_t, const float *capped_t, float softcap,
                                  int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n * width; i += LANES) {
        const vec gradient = load(gradient_t + i);
        const vec ratio = load(capped_t + i) / softcap;
        const vec slope = (1.0f - ratio) * (1.0f + ratio);
        store(gradient_t + i, select(gradient == 0.0f, gradient, gradient * slope));
    }
}

/* Sums over n rows for one feature of one vector of lanes: of gradient * (1 - tanh^2), and of
 * gradient * tanh. */
INLINE void additive_gradient(vec *slopes, vec *tanhs, vec lane, const float *column,
                              int64_t row_stride, const float *gradient_t, int64_t n, int64_t width)
{
    *slopes = *tanhs = (vec){ 0 };
    for (int64_t j = 0; j < n; j++) {
        const vec gradient = load(gradient_t + j * width);
        const vec x = lane + column[j * row_stride];
        const vec y = absolute(x);
        const vec slope = *slopes + gradient * tanh_slope(y);
        const vec tanh = *tanhs + gradient * with_sign(tanh_nonnegative(y), x);
        *slopes = select(gradient == 0.0f, *slopes, slope);
        *tanhs = select(gradient == 0.0f, *tanhs, tanh);
    }
}

static void additive_gradient_tile(float *sum_t, float *weight_sum_t, const float *lanes_t,
                                   const float *rows, int64_t row_stride, const float *gradient_t,
                                   const float *weight, float scale, int64_t n, int64_t head_dim,
                                   int64_t width)
{
    for (int64_t d = 0; d < head_dim; d++)
        for (int64_t c = 0; c < width; c += LANES) {
            const int64_t at = d * width + c;
            vec slopes, tanhs;
            additive_gradient(&slopes, &tanhs, load(lanes_t + at), rows + d, row_stride,
                              gradient_t + c, n, width);
            store(sum_t + at, load(sum_t + at) + slopes * (scale * weight[d]));
            if (weight_sum_t != NULL)
                store(weight_sum_t + at, load(weight_sum_t + at) + tanhs * scale);
        }
}

#endif
