/* SPDX-License-Identifier: Apache-2.0 */
/* body_recurrence.h - one row of a causal convolution and of a linear recurrence, a part of body.h.
 * The lanes are columns. */
#ifndef ATTN_BODY_RECURRENCE_H
#define ATTN_BODY_RECURRENCE_H

#include "kernels.h"
#include "vector.h"

static void convolve_row(float *y, const float *const *rows, const float *weight_t,
                         int64_t weight_stride, int64_t taps, const float *bias, int64_t n)
{
    for (int64_t c = 0; c < n; c += LANES) {
        const bool is_whole = c + LANES <= n;
        const int64_t left = n - c;
        vec sum = is_whole ? load(bias + c) : load_part(bias + c, left);
        for (int64_t t = 0; t < taps; t++) {
            const float *row = rows[t] + c, *weight = weight_t + t * weight_stride + c;
            sum += is_whole ? load(row) * load(weight)
                            : load_part(row, left) * load_part(weight, left);
        }
        if (is_whole)
            store(y + c, sum);
        else
            store_part(y + c, sum, left);
    }
}

/* Vectors of one row of the state, whose sums stay in registers. */
INLINE void scan_columns(const int vectors, float *state, float *y, const float *x, const float *b,
                         const float *c, const struct attn_scan_factors *factors, int64_t state_dim,
                         int64_t head_dim)
{
    const vec decay = broadcast(factors->decay);
    vec sums[4] = { 0 }, steps[4];
    UNROLL
    for (int i = 0; i < vectors; i++)
        steps[i] = load(x + i * LANES) * factors->step;
    for (int64_t n = 0; n < state_dim; n++) {
        float *row = state + n * head_dim;
        UNROLL
        for (int i = 0; i < vectors; i++) {
            const vec next = load(row + i * LANES) * decay + steps[i] * b[n];
            store(row + i * LANES, next);
            sums[i] += next * c[n];
        }
    }
    UNROLL
    for (int i = 0; i < vectors; i++)
        store(y + i * LANES, sums[i] + load(x + i * LANES) * factors->skip);
}

/* The columns behind the last whole vector. */
INLINE void scan_rest(float *state, float *y, const float *x, const float *b, const float *c,
                      const struct attn_scan_factors *factors, int64_t state_dim, int64_t head_dim,
                      int64_t left)
{
    const vec decay = broadcast(factors->decay), own = load_part(x, left);
    const vec step = own * factors->step;
    vec sum = { 0 };
    for (int64_t n = 0; n < state_dim; n++) {
        const vec next = load_part(state + n * head_dim, left) * decay + step * b[n];
        store_part(state + n * head_dim, next, left);
        sum += next * c[n];
    }
    store_part(y, sum + own * factors->skip, left);
}

static void scan_row(float *state, float *y, const float *x, const float *b, const float *c,
                     struct attn_scan_factors factors, int64_t state_dim, int64_t head_dim)
{
    int64_t p = 0;
    for (; p + 4 * LANES <= head_dim; p += 4 * LANES)
        scan_columns(4, state + p, y + p, x + p, b, c, &factors, state_dim, head_dim);
    for (; p + LANES <= head_dim; p += LANES)
        scan_columns(1, state + p, y + p, x + p, b, c, &factors, state_dim, head_dim);
    if (p < head_dim)
        scan_rest(state + p, y + p, x + p, b, c, &factors, state_dim, head_dim, head_dim - p);
}

#endif
