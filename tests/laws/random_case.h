/* SPDX-License-Identifier: Apache-2.0 */
/* random_case.h - a problem of attention of any kind, drawn from a seed: every option, length and
 * mask with some likelihood, tensors of any dtype and layout. */
#ifndef RANDOM_CASE_H
#define RANDOM_CASE_H

#include "attention_case.h"
#include "number.h"

#include <math.h>

/* The dtypes that tensors and outputs are drawn from. */
struct random_dtypes {
    const enum attn_dtype *list;
    int64_t count;
};

static inline enum attn_dtype random_dtype(struct fill *fill, const struct random_dtypes *dtypes)
{
    return dtypes->list[fill_below(fill, dtypes->count)];
}

static inline bool random_chance(struct fill *fill, int64_t in)
{
    return fill_below(fill, in) == 0;
}

/* The same numbers, rounded to dtype, in memory of their own. */
static inline struct attn_tensor recast(struct attention_case *c, const struct attn_tensor *tensor,
                                        enum attn_dtype dtype, enum attention_layout layout)
{
    const int64_t *shape = tensor->shape;
    const struct attn_tensor copy =
        attention_case_tensor(c, dtype, layout, shape[0], shape[1], shape[2], shape[3]);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t l = 0; l < shape[2]; l++)
                for (int64_t d = 0; d < shape[3]; d++)
                    number_put(&copy, b, h, l, d, number_at(tensor, b, h, l, d));
    return copy;
}

static inline void random_lengths(struct attention_case *c, struct fill *fill)
{
    const int64_t batch = c->problem.query.shape[0], q_len = c->problem.query.shape[2];
    const int64_t kv_len = c->problem.key.shape[2];
    int64_t *lengths = attention_case_alloc(c, (size_t)batch * sizeof *lengths);
    int64_t *past = attention_case_alloc(c, (size_t)batch * sizeof *past);
    int64_t *rows = attention_case_alloc(c, (size_t)(batch * q_len) * sizeof *rows);
    for (int64_t b = 0; b < batch; b++) {
        lengths[b] = fill_below(fill, kv_len + 3);
        past[b] = fill_below(fill, kv_len + 1) - q_len / 2;
    }
    for (int64_t i = 0; i < batch * q_len; i++)
        rows[i] = fill_below(fill, kv_len + 3);
    if (random_chance(fill, 3))
        c->problem.kv_len = lengths;
    if (random_chance(fill, 4))
        c->problem.row_kv_len = rows;
    if (random_chance(fill, 2))
        c->problem.past_len = past;
    if (random_chance(fill, 4))
        c->problem.kv_offset = fill_below(fill, 40) - 20;
}

/* Draws a mask of any rank; each dimension may broadcast. */
static inline void random_mask(struct attention_case *c, struct fill *fill, enum attn_dtype dtype)
{
    const int64_t *query = c->problem.query.shape;
    int64_t shape[4] = { query[0], query[1], query[2], c->problem.key.shape[2] };
    if (random_chance(fill, 3))
        return;
    for (int d = 0; d < 4; d++)
        if (random_chance(fill, 4))
            shape[d] = 1;
    if (random_chance(fill, 4) && shape[3] > 2)
        shape[3] = 2 + fill_below(fill, shape[3] - 2); /* the mask ends early */
    if (random_chance(fill, 3))
        dtype = ATTN_BOOL;
    c->problem.mask =
        attention_case_tensor(c, dtype, fill_below(fill, 2) ? LAYOUT_DENSE : LAYOUT_GAPS, shape[0],
                              shape[1], shape[2], shape[3]);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t i = 0; i < shape[2]; i++)
                for (int64_t j = 0; j < shape[3]; j++) {
                    const bool hides = random_chance(fill, 5);
                    const double bias = (double)fill_float(fill, -2, 2);
                    number_put(&c->problem.mask, b, h, i, j,
                               dtype == ATTN_BOOL ? !hides
                               : hides            ? -INFINITY
                                                  : bias);
                }
}

static inline void random_options(struct attention_case *c, struct fill *fill)
{
    struct attn_options *options = &c->problem.options;
    const int64_t q_heads = c->problem.query.shape[1], head_dim = c->problem.query.shape[3];
    float *slopes = attention_case_alloc(c, (size_t)q_heads * sizeof *slopes);
    float *sinks = attention_case_alloc(c, (size_t)q_heads * sizeof *sinks);
    float *additive = attention_case_alloc(c, (size_t)head_dim * sizeof *additive);
    fill_floats(fill, slopes, q_heads, -0.05f, 0.2f);
    fill_floats(fill, sinks, q_heads, -2, 2);
    fill_floats(fill, additive, head_dim, -1, 1);
    if (random_chance(fill, 3))
        sinks[0] = -INFINITY;
    options->scale = random_chance(fill, 2) ? fill_float(fill, 0.1f, 2) : options->scale;
    options->softcap = random_chance(fill, 3) ? fill_float(fill, 0.5f, 3) : 0;
    options->causal = random_chance(fill, 3);
    options->window_left = random_chance(fill, 4) ? fill_below(fill, 60) : -1;
    options->window_right = random_chance(fill, 4) ? fill_below(fill, 60) : -1;
    options->chunk = random_chance(fill, 5) ? 1 + fill_below(fill, 60) : 0;
    options->normalizer = random_chance(fill, 5) ? ATTN_SPARSEMAX : ATTN_SOFTMAX;
    if (random_chance(fill, 3))
        c->problem.alibi_slopes = slopes;
    if (random_chance(fill, 4))
        c->problem.sinks = sinks;
    if (random_chance(fill, 6))
        c->problem.additive_weight = additive;
}

/* Draws a case of these sizes, without outputs. */
static inline void random_case_sized(struct attention_case *c, uint64_t seed, struct fill *fill,
                                     const struct attention_sizes *sizes,
                                     const struct random_dtypes *dtypes)
{
    static const enum attention_layout layouts[] = { LAYOUT_DENSE, LAYOUT_ROWS, LAYOUT_GAPS };
    attention_case_init(c, sizes, LAYOUT_DENSE, seed);
    struct attn_tensor *const inputs[] = { &c->problem.query, &c->problem.key, &c->problem.value };
    for (int i = 0; i < 3; i++) {
        const enum attn_dtype dtype = random_dtype(fill, dtypes);
        *inputs[i] = recast(c, inputs[i], dtype, layouts[fill_below(fill, 3)]);
    }
    random_lengths(c, fill);
    random_mask(c, fill, random_dtype(fill, dtypes));
    random_options(c, fill);
}

/* Draws a case without outputs. */
static inline void random_case(struct attention_case *c, uint64_t seed,
                               const struct random_dtypes *dtypes)
{
    struct fill fill = { seed };
    const int64_t kv_heads = 1 + fill_below(&fill, 2);
    const struct attention_sizes sizes = {
        .batch = 1 + fill_below(&fill, 2),
        .q_heads = kv_heads * (1 + fill_below(&fill, 2)),
        .kv_heads = kv_heads,
        .q_len = random_chance(&fill, 3) ? 1 : 1 + fill_below(&fill, 70),
        .kv_len = fill_below(&fill, 210),
        .head_dim = 1 + fill_below(&fill, 35),
        .v_head_dim = 1 + fill_below(&fill, 35),
    };
    random_case_sized(c, seed, &fill, &sizes, dtypes);
}

#endif
