/* SPDX-License-Identifier: Apache-2.0 */
/* body_softmax.h - from scores to weights: softcap, ALiBi, and the softmax of tiles and of rows. */
#ifndef ATTN_BODY_SOFTMAX_H
#define ATTN_BODY_SOFTMAX_H

#include "body_mask.h"
#include "vector.h"

#include <math.h>

/* softcap * tanh(score / softcap). If the cap changes the score by less than half an ulp, the
 * result is the score itself, which also keeps the score when score / softcap underflows. */
INLINE vec cap(vec score, float softcap)
{
    const vec ratio = score / softcap;
    const vec y = absolute(ratio);
    const vec capped = with_sign(softcap * tanh_nonnegative(y), ratio);
    return select(y < 0x1p-12f, score, capped);
}

static void softcap_tile(float *scores_t, float softcap, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n * width; i += LANES)
        store(scores_t + i, cap(load(scores_t + i), softcap));
}

static void alibi_tile(float *scores_t, float slope, const float *distance, int64_t first,
                       int64_t n, int64_t width)
{
    const ivec sign_bit = (ivec)broadcast(-0.0f);
    for (int64_t c = 0; c < width; c += LANES) {
        const vec from = load(distance + c);
        for (int64_t j = 0; j < n; j++) {
            float *scores = scores_t + j * width + c;
            const vec apart = (vec)((ivec)(from - (float)(first + j)) & ~sign_bit);
            store(scores, load(scores) - apart * slope);
        }
    }
}

enum { SOFTMAX_KEYS = ATTN_SOFTMAX_KEYS };

/* The greatest of max and n scores for each lane of one vector; NaN is ignored. Four chains hide
 * the latency of the comparison. */
INLINE vec greatest(vec max, const float *scores_t, int64_t n, int64_t width)
{
    vec chain[4] = { max, max, max, max };
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            chain[i] = greater(load(scores_t + (j + i) * width), chain[i]);
        }
    }
    for (; j < n; j++)
        chain[0] = greater(load(scores_t + j * width), chain[0]);
    return greater(greater(chain[2], chain[3]), greater(chain[0], chain[1]));
}

/* softmax_tile() for one vector of a tile. */
INLINE void softmax_vector(float *scores_t, float *max, float *sum, float *rescale, int64_t n,
                           int64_t width)
{
    const vec old_max = load(max);
    const vec new_max = greatest(old_max, scores_t, n, width);
    /* A lane that has seen nothing subtracts 0: -INFINITY - -INFINITY would be NaN. */
    const vec base = select(new_max == -INFINITY, (vec){ 0 }, new_max);
    const vec factor = exp_nonpositive(old_max - base);
    vec tile_sum = { 0 };
    int64_t j = 0;
    for (; j + SOFTMAX_KEYS <= n; j += SOFTMAX_KEYS) {
        vec weight[SOFTMAX_KEYS];
        UNROLL
        for (int i = 0; i < SOFTMAX_KEYS; i++) {
            float *scores = scores_t + (j + i) * width;
            weight[i] = exp_nonpositive(load(scores) - base);
            store(scores, weight[i]);
        }
        tile_sum += (weight[0] + weight[1]) + (weight[2] + weight[3]);
    }
    for (; j < n; j++) {
        const vec weight = exp_nonpositive(load(scores_t + j * width) - base);
        store(scores_t + j * width, weight);
        tile_sum += weight;
    }
    store(max, new_max);
    store(sum, load(sum) * factor + tile_sum);
    store(rescale, factor);
}

static void softmax_tile(float *scores_t, float *max, float *sum, float *rescale, int64_t n,
                         int64_t width)
{
    for (int64_t c = 0; c < width; c += LANES)
        softmax_vector(scores_t + c, max + c, sum + c, rescale + c, n, width);
}

/* key rounded down to a whole step, and limited to 0 and end. */
INLINE int64_t whole_steps(int64_t key, int64_t end)
{
    const int64_t down = key < 0 ? 0 : key / SOFTMAX_KEYS * SOFTMAX_KEYS;
    return down < end ? down : end;
}

/* Keys that no lane of a vector sees are left out of the sums in whole steps, so that the other
 * keys are added in the same order as without bounds. */
static void softmax_bounded_tile(float *scores_t, const int32_t *low, const int32_t *high,
                                 float *max, float *sum, float *rescale, int64_t n, int64_t width)
{
    for (int64_t c = 0; c < width; c += LANES) {
        const struct lane_bounds bounds = bounds_of(low + c, high + c);
        const int64_t to = whole_steps(bounds.any_high + SOFTMAX_KEYS - 1, n);
        const int64_t from = whole_steps(bounds.any_low, to);
        for (int64_t j = 0; j < from; j++)
            store(scores_t + j * width + c, (vec){ 0 });
        for (int64_t j = to; j < n; j++)
            store(scores_t + j * width + c, (vec){ 0 });
        bound_vector(scores_t + c, low + c, high + c, &bounds, from, to, width);
        softmax_vector(scores_t + from * width + c, max + c, sum + c, rescale + c, to - from,
                       width);
    }
}

INLINE vec finish_weights(vec score, float max, float factor)
{
    const vec weight = exp_nonpositive(score - max) * factor;
    return select(score == -INFINITY, (vec){ 0 }, weight);
}

static void weights_row(float *row, float max, float sum, int64_t n)
{
    if (sum == 0.0f) {
        for (int64_t j = 0; j < n; j++)
            row[j] = 0.0f;
        return;
    }
    const float factor = 1.0f / sum;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        store(row + j, finish_weights(load(row + j), max, factor));
    if (j < n)
        store_part(row + j, finish_weights(load_part(row + j, n - j), max, factor), n - j);
}

#endif
