/* SPDX-License-Identifier: Apache-2.0 */
/* hiding.h - the ways to hide a key from a query, each with its rule spelled out.
 *
 * Some tests compare the ways, others put poison behind them. sees() is the rule in plain C;
 * hide() asks the library for the same. */
#ifndef HIDING_H
#define HIDING_H

#include "attention_case.h"
#include "kernel_tables.h"
#include "problem_count.h"

#include <math.h>

/* Several tiles of queries and of keys, one row alone, grouped heads, less than a tile. */
static const struct attention_sizes SIZES[] = {
    { 2, 4, 2, 67, 130, 16, 9 },
    { 1, 2, 1, 1, 230, 32, 32 },
    { 1, 3, 1, 130, 101, 5, 18 },
    { 1, 1, 1, 20, 12, 8, 8 },
};

enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

enum way {
    WAY_CAUSAL,
    WAY_CAUSAL_PAST,
    WAY_CAUSAL_BEFORE, /* negative past: the first rows see nothing */
    WAY_WINDOW,
    WAY_WINDOW_LEFT,
    WAY_WINDOW_RIGHT,
    WAY_KV_LEN,
    WAY_ROW_KV_LEN,
    WAY_ENDS, /* the first keys and the last ones */
    WAY_BOOL,
    WAY_FLOAT,
    WAY_ENDS_BOOL, /* together with a mask */
    WAY_ENDS_FLOAT,
    WAY_HEADS,      /* a mask by head: heads of one group differ */
    WAY_SHORT_BOOL, /* a mask that ends before the keys do */
    WAY_SHORT_FLOAT,
    WAY_COUNT
};

static const char *const WAY_NAMES[] = { "causal",
                                         "causal with past",
                                         "causal, negative past",
                                         "window",
                                         "left window",
                                         "right window",
                                         "kv_len",
                                         "row_kv_len",
                                         "first and last keys",
                                         "bool mask",
                                         "float mask",
                                         "first and last keys, bool mask",
                                         "first and last keys, float mask",
                                         "mask by head",
                                         "short bool mask",
                                         "short float mask" };

/* The past of batch item b. */
static inline int64_t past_of(enum way way, const struct attention_sizes *s, int64_t b)
{
    switch (way) {
    case WAY_CAUSAL_PAST:
    case WAY_WINDOW:
    case WAY_ENDS:
    case WAY_ENDS_BOOL:
    case WAY_ENDS_FLOAT:
        return s->kv_len / 3 + 7 * b;
    case WAY_CAUSAL_BEFORE:
        return -s->q_len / 4 - b;
    default:
        return 0;
    }
}

/* How many keys a short mask covers. */
static inline int64_t short_len(const struct attention_sizes *s)
{
    return s->kv_len * 3 / 4;
}

static inline bool has_ends(enum way way)
{
    return way == WAY_ENDS || way == WAY_ENDS_BOOL || way == WAY_ENDS_FLOAT;
}

/* The rule in one line each: whether query i of head h sees key j. */
static inline bool sees(enum way way, const struct attention_sizes *s, int64_t b, int64_t h,
                        int64_t i, int64_t j)
{
    const int64_t p = past_of(way, s, b) + i;
    switch (way) {
    case WAY_CAUSAL:
    case WAY_CAUSAL_PAST:
    case WAY_CAUSAL_BEFORE:
        return j <= p;
    case WAY_WINDOW:
        return p - 5 <= j && j <= p + 9;
    case WAY_WINDOW_LEFT:
        return p - 21 <= j;
    case WAY_WINDOW_RIGHT:
        return j <= p + 30;
    case WAY_KV_LEN:
        return j < s->kv_len / 2 + 3 * b;
    case WAY_ROW_KV_LEN:
        return j < (i * 5 + b) % (s->kv_len + 3);
    case WAY_ENDS:
        return j < 5 || j > p - 19;
    case WAY_ENDS_BOOL:
    case WAY_ENDS_FLOAT:
        return (j < 5 || j > p - 19) && (i * 3 + j * 7 + b) % 5 < 2 && i % 11 != 4;
    case WAY_HEADS:
        return (h + j) % 2 == 0;
    case WAY_SHORT_BOOL:
    case WAY_SHORT_FLOAT:
        return j < short_len(s) && (i * 3 + j * 7 + b) % 5 < 2 && i % 11 != 4;
    default:
        return (i * 3 + j * 7 + b) % 5 < 2 && i % 11 != 4;
    }
}

/* The rule as a mask over the first keys. */
static inline void set_mask_of(struct attention_case *c, enum way way,
                               const struct attention_sizes *s, bool is_float, int64_t keys)
{
    c->problem.mask = attention_case_tensor(c, is_float ? ATTN_F32 : ATTN_BOOL, LAYOUT_DENSE,
                                            s->batch, s->q_heads, s->q_len, keys);
    int64_t at = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t j = 0; j < keys; j++, at++) {
                    const bool seen = sees(way, s, b, h, i, j);
                    if (is_float)
                        ((float *)c->problem.mask.data)[at] = seen ? 0.0f : -INFINITY;
                    else
                        ((unsigned char *)c->problem.mask.data)[at] = seen;
                }
}

/* Sets the rule as a boolean mask over all keys. */
static inline void set_mask(struct attention_case *c, enum way way, const struct attention_sizes *s)
{
    set_mask_of(c, way, s, false, s->kv_len);
}

/* Hides keys by the option or the lengths that the rule is named after. */
static inline void hide(struct attention_case *c, enum way way, const struct attention_sizes *s)
{
    struct attn_options *options = &c->problem.options;
    int64_t *past = attention_case_alloc(c, (size_t)s->batch * sizeof *past);
    int64_t *lengths = attention_case_alloc(c, (size_t)s->batch * sizeof *lengths);
    int64_t *rows = attention_case_alloc(c, (size_t)(s->batch * s->q_len) * sizeof *rows);
    for (int64_t b = 0; b < s->batch; b++) {
        past[b] = past_of(way, s, b);
        lengths[b] = s->kv_len / 2 + 3 * b;
        for (int64_t i = 0; i < s->q_len; i++)
            rows[b * s->q_len + i] = (i * 5 + b) % (s->kv_len + 3);
    }
    options->causal = way <= WAY_CAUSAL_BEFORE;
    options->window_left = way == WAY_WINDOW ? 5 : way == WAY_WINDOW_LEFT ? 21 : -1;
    options->window_right = way == WAY_WINDOW ? 9 : way == WAY_WINDOW_RIGHT ? 30 : -1;
    c->problem.first_keys = has_ends(way) ? 5 : 0;
    c->problem.last_keys = has_ends(way) ? 19 : 0;
    if (way == WAY_CAUSAL_PAST || way == WAY_CAUSAL_BEFORE || way == WAY_WINDOW || has_ends(way))
        c->problem.past_len = past;
    if (way == WAY_KV_LEN)
        c->problem.kv_len = lengths;
    if (way == WAY_ROW_KV_LEN)
        c->problem.row_kv_len = rows;
    if (way >= WAY_BOOL)
        set_mask_of(c, has_ends(way) ? WAY_BOOL : way, s,
                    way == WAY_FLOAT || way == WAY_ENDS_FLOAT || way == WAY_SHORT_FLOAT,
                    way >= WAY_SHORT_BOOL ? short_len(s) : s->kv_len);
}

/* The softmax_precision of the cases that make_case() makes. */
static enum attn_dtype case_precision = ATTN_F32;

/* Makes a case of fixed numbers, with keys hidden by way, without outputs. */
static inline void make_case(struct attention_case *c, const struct attention_sizes *s,
                             enum way way, const struct attn_kernels *kernels)
{
    attention_case_init(c, s, LAYOUT_DENSE, 4242);
    c->problem.kernels = kernels;
    c->problem.options.softmax_precision = case_precision;
    hide(c, way, s);
}

typedef void (*check_fn)(const struct attention_sizes *s, enum way way,
                         const struct attn_kernels *kernels);

static inline void for_sizes_and_ways(check_fn check, const struct attn_kernels *kernels)
{
    static uint64_t n;
    for (int s = 0; s < SIZE_COUNT; s++)
        for (int way = 0; way < WAY_COUNT; way++)
            if (problem_is_tried(n++))
                check(&SIZES[s], (enum way)way, kernels);
}

/* Runs check on every table of kernels, and in double. */
static inline void for_all(check_fn check)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for_sizes_and_ways(check, *k);
    case_precision = ATTN_F64;
    for_sizes_and_ways(check, NULL);
    case_precision = ATTN_F32;
}

#endif
