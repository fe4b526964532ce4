/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_laws.c - what is true of attention whatever the numbers.
 *
 * There are no expected numbers here: each test runs the library twice, or looks at one output
 * through another. The tests run on every table of kernels, in double, and at sizes with several
 * tiles of queries and of keys. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "test.h"

static const double TOLERANCE = 4e-6;

static const struct attention_sizes SIZES[] = {
    { 2, 4, 2, 67, 130, 16, 9 },
    { 1, 2, 1, 1, 300, 64, 64 },
    { 1, 6, 3, 130, 97, 8, 20 },
    { 2, 1, 1, 17, 5, 3, 1 },
};

enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

typedef void (*check_fn)(struct attention_case *c, const struct attention_sizes *sizes);

static void for_sizes(check_fn check, const struct attn_kernels *kernels, enum attn_dtype precision)
{
    for (int s = 0; s < SIZE_COUNT; s++) {
        struct attention_case c;
        attention_case_init(&c, &SIZES[s], LAYOUT_DENSE, 900 + (uint64_t)s);
        c.problem.kernels = kernels;
        c.problem.options.softmax_precision = precision;
        check(&c, &SIZES[s]);
        attention_case_free(&c);
    }
}

static void for_all(check_fn check)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for_sizes(check, *k, ATTN_F32);
    for_sizes(check, NULL, ATTN_F64);
}

static double at(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return (double)*attention_at(t, b, h, i, j);
}

static void expect_near(double got, double want, const char *what)
{
    if (isinf(want) ? got != want : !(fabs(got - want) <= TOLERANCE * (1 + fabs(want))))
        fail_msg("%s: %.9g, want %.9g", what, got, want);
}

/* Compares every element of two views. */
static void expect_near_tensors(const struct attn_tensor *got, const struct attn_tensor *want,
                                const char *what)
{
    for (int64_t b = 0; b < got->shape[0]; b++)
        for (int64_t h = 0; h < got->shape[1]; h++)
            for (int64_t i = 0; i < got->shape[2]; i++)
                for (int64_t j = 0; j < got->shape[3]; j++)
                    expect_near(at(got, b, h, i, j), at(want, b, h, i, j), what);
}

/* A dense float mask in [-3, 3), -inf in a fifth of the places and in every seventh row. */
static void add_float_mask(struct attention_case *c, const struct attention_sizes *s)
{
    struct fill fill = { 31 };
    c->problem.mask =
        attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, s->batch, s->q_heads, s->q_len, s->kv_len);
    float *mask = c->problem.mask.data;
    for (int64_t i = 0; i < s->batch * s->q_heads * s->q_len * s->kv_len; i++) {
        const float number = fill_float(&fill, -3, 3);
        mask[i] = number < -1.8f || (i / s->kv_len) % 7 == 3 ? -INFINITY : number;
    }
}

/* ------------------------------------------------------- sums and bounds -- */

static void check_rows_sum_to_one(struct attention_case *c, const struct attention_sizes *s)
{
    add_float_mask(c, s);
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c->problem);
    int64_t empty = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++) {
                double sum = 0, sum_exp = 0;
                for (int64_t j = 0; j < s->kv_len; j++) {
                    const double weight = at(&c->problem.weights, b, h, i, j);
                    assert_true(weight >= 0 && weight <= 1);
                    sum += weight;
                    sum_exp += exp(at(&c->problem.masked, b, h, i, j));
                }
                const bool is_empty = sum_exp == 0;
                empty += is_empty;
                if (is_empty)
                    assert_true(sum == 0);
                else
                    expect_near(sum, 1, "sum of the weights");
                expect_near(at(&c->problem.lse, b, h, i, 0), log(sum_exp), "lse");
            }
    assert_true(empty > 0 || s->q_len == 1); /* or the test says less than it seems to */
}

TEST(rows_sum_to_one)
{
    for_all(check_rows_sum_to_one);
}

/* The context is the mean of the values by the weights, and so lies within their bounds. */
static void check_context_is_mean(struct attention_case *c, const struct attention_sizes *s)
{
    attention_case_outputs(c, OUT_CONTEXT | OUT_WEIGHTS, LAYOUT_DENSE);
    attention_run(&c->problem);
    const int64_t group = s->q_heads / s->kv_heads;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t d = 0; d < s->v_head_dim; d++) {
                    double mean = 0, low = INFINITY, high = -INFINITY;
                    for (int64_t j = 0; j < s->kv_len; j++) {
                        const double value = at(&c->problem.value, b, h / group, j, d);
                        mean += at(&c->problem.weights, b, h, i, j) * value;
                        low = fmin(low, value);
                        high = fmax(high, value);
                    }
                    const double got = at(&c->problem.context, b, h, i, d);
                    expect_near(got, mean, "context as the mean");
                    assert_true(got >= low - TOLERANCE && got <= high + TOLERANCE);
                }
}

TEST(context_is_mean)
{
    for_all(check_context_is_mean);
}

static void check_softcap_bounds(struct attention_case *c, const struct attention_sizes *s)
{
    c->problem.options.softcap = 0.75f;
    c->problem.options.scale = 40.0f;
    attention_case_outputs(c, OUT_SCORES | OUT_SOFTCAPPED, LAYOUT_DENSE);
    attention_run(&c->problem);
    bool beyond = false;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t j = 0; j < s->kv_len; j++) {
                    const double score = at(&c->problem.scores, b, h, i, j);
                    const double capped = at(&c->problem.softcapped, b, h, i, j);
                    beyond = beyond || fabs(score) > 0.75;
                    assert_true(fabs(capped) <= 0.75);
                    assert_true(fabs(capped) <= fabs(score) * (1 + 1e-6));
                    assert_true(signbit(capped) == signbit(score) || score == 0);
                }
    assert_true(beyond);
}

TEST(softcap_bounds)
{
    for_all(check_softcap_bounds);
}

/* softcap comes first, then the mask: what a mask adds is not capped, and what it forbids stays
 * forbidden. */
static void check_softcap_before_mask(struct attention_case *c, const struct attention_sizes *s)
{
    add_float_mask(c, s);
    c->problem.options.softcap = 0.5f;
    c->problem.options.scale = 2.0f;
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c->problem);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t j = 0; j < s->kv_len; j++) {
                    const double score = at(&c->problem.scores, b, h, i, j);
                    const double capped = at(&c->problem.softcapped, b, h, i, j);
                    const double mask = at(&c->problem.mask, b, h, i, j);
                    assert_true(isfinite(score) && isfinite(capped)); /* also under a mask */
                    expect_near(capped, 0.5 * tanh(score / 0.5), "softcapped");
                    expect_near(at(&c->problem.masked, b, h, i, j), capped + mask, "masked");
                }
}

TEST(softcap_before_mask)
{
    for_all(check_softcap_before_mask);
}

/* ------------------------------------------------------------- symmetries -- */

/* Key j of one call is key (j * step) % kv_len of the other; step is coprime to kv_len. */
static int64_t permuted(int64_t j, int64_t count)
{
    const int64_t step = count % 7 == 0 ? 11 : 7;
    return j * step % count;
}

static void permute_rows(struct attn_tensor *tensor, struct attention_case *c)
{
    const int64_t *shape = tensor->shape;
    const struct attn_tensor copy =
        attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, shape[0], shape[1], shape[2], shape[3]);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t l = 0; l < shape[2]; l++)
                memcpy(attention_at(&copy, b, h, permuted(l, shape[2]), 0),
                       attention_at(tensor, b, h, l, 0), (size_t)shape[3] * sizeof(float));
    *tensor = copy;
}

static void permute_columns(struct attn_tensor *mask, struct attention_case *c)
{
    const int64_t *shape = mask->shape;
    const struct attn_tensor copy =
        attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, shape[0], shape[1], shape[2], shape[3]);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t i = 0; i < shape[2]; i++)
                for (int64_t j = 0; j < shape[3]; j++)
                    *attention_at(&copy, b, h, i, permuted(j, shape[3])) =
                        *attention_at(mask, b, h, i, j);
    *mask = copy;
}

static void check_permutation(struct attention_case *c, const struct attention_sizes *s)
{
    add_float_mask(c, s);
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
    attention_run(&c->problem);
    const struct attn_problem straight = c->problem;
    permute_rows(&c->problem.key, c);
    permute_rows(&c->problem.value, c);
    permute_columns(&c->problem.mask, c);
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
    attention_run(&c->problem);
    expect_near_tensors(&c->problem.context, &straight.context, "context of permuted keys");
    expect_near_tensors(&c->problem.lse, &straight.lse, "lse of permuted keys");
}

TEST(permutation)
{
    for_all(check_permutation);
}

/* A constant added to a row of the mask changes the row's lse by as much, and nothing else. */
static void check_shift(struct attention_case *c, const struct attention_sizes *s)
{
    add_float_mask(c, s);
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE | OUT_WEIGHTS, LAYOUT_DENSE);
    attention_run(&c->problem);
    const struct attn_problem straight = c->problem;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t j = 0; j < s->kv_len; j++)
                    *attention_at(&c->problem.mask, b, h, i, j) += (float)(i % 9 - 4) * 2.0f;
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE | OUT_WEIGHTS, LAYOUT_DENSE);
    attention_run(&c->problem);
    expect_near_tensors(&c->problem.context, &straight.context, "context of a shifted mask");
    expect_near_tensors(&c->problem.weights, &straight.weights, "weights of a shifted mask");
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                expect_near(at(&c->problem.lse, b, h, i, 0),
                            at(&straight.lse, b, h, i, 0) + (double)(i % 9 - 4) * 2.0,
                            "lse of a shifted mask");
}

TEST(shift)
{
    for_all(check_shift);
}

/* Scores in the hundreds, of either sign: the row's maximum is subtracted before exp. */
static void check_large_scores(struct attention_case *c, const struct attention_sizes *s)
{
    struct reference reference;
    float *mask = attention_case_alloc(c, (size_t)s->q_len * sizeof *mask);
    for (int64_t i = 0; i < s->q_len; i++)
        mask[i] = i % 2 == 0 ? 5000.0f : -5000.0f;
    c->problem.mask = attn_tensor_dense(mask, ATTN_F32, 1, 1, s->q_len, 1);
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE | OUT_WEIGHTS, LAYOUT_DENSE);
    attention_run(&c->problem);
    reference_attention(&c->problem, &reference);
    /* The ulp of a score of 5000 is 0.0005; the weights have an error of that size. */
    assert_int_equal(attention_compare(&c->problem, &reference, 1.5e-3), 0);
    reference_free(&reference);
}

TEST(large_scores)
{
    for_all(check_large_scores);
}

/* ------------------------------------------------------------------ merge -- */

/* Two halves of the keys, joined by their lse, are the whole. */
static void check_merge(struct attention_case *c, const struct attention_sizes *s)
{
    const int64_t cut = s->kv_len * 2 / 5;
    struct attn_problem parts[2];
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
    attention_run(&c->problem);
    const struct attn_problem whole = c->problem;
    for (int p = 0; p < 2; p++) {
        c->problem.key = whole.key;
        c->problem.value = whole.value;
        c->problem.key.shape[2] = c->problem.value.shape[2] = p == 0 ? cut : s->kv_len - cut;
        if (p == 1) {
            c->problem.key.data = attention_at(&whole.key, 0, 0, cut, 0);
            c->problem.value.data = attention_at(&whole.value, 0, 0, cut, 0);
        }
        attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
        attention_run(&c->problem);
        parts[p] = c->problem;
    }
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++) {
                const double first = exp(at(&parts[0].lse, b, h, i, 0));
                const double second = exp(at(&parts[1].lse, b, h, i, 0));
                expect_near(log(first + second), at(&whole.lse, b, h, i, 0), "merged lse");
                for (int64_t d = 0; d < s->v_head_dim; d++)
                    expect_near((first * at(&parts[0].context, b, h, i, d)
                                 + second * at(&parts[1].context, b, h, i, d))
                                    / (first + second),
                                at(&whole.context, b, h, i, d), "merged context");
            }
}

TEST(merge)
{
    for_all(check_merge);
}

/* ------------------------------------------------------------- empty rows -- */

static void expect_zeros(const struct attn_tensor *tensor)
{
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t i = 0; i < tensor->shape[2]; i++)
                for (int64_t j = 0; j < tensor->shape[3]; j++)
                    assert_true(at(tensor, b, h, i, j) == 0.0);
}

enum {
    EMPTY_KV_LEN,
    EMPTY_ROW_KV_LEN,
    EMPTY_CAUSAL,
    EMPTY_WINDOW,
    EMPTY_BOOL,
    EMPTY_FLOAT,
    EMPTY_NO_KEYS,
    EMPTY_COUNT
};

static void hide_everything(struct attention_case *c, const struct attention_sizes *s, int way)
{
    int64_t *lengths =
        attention_case_alloc(c, (size_t)(s->batch * (s->q_len + 1)) * sizeof *lengths);
    for (int64_t i = 0; i < s->batch * (s->q_len + 1); i++)
        lengths[i] = way == EMPTY_CAUSAL ? -s->q_len : way == EMPTY_WINDOW ? s->kv_len + 10 : 0;
    unsigned char *no = attention_case_alloc(c, 1);
    float *minus = attention_case_alloc(c, sizeof *minus);
    *no = 0;
    *minus = -INFINITY;
    struct attn_problem *problem = &c->problem;
    problem->kv_len = way == EMPTY_KV_LEN ? lengths : NULL;
    problem->row_kv_len = way == EMPTY_ROW_KV_LEN ? lengths : NULL;
    problem->past_len = way == EMPTY_CAUSAL || way == EMPTY_WINDOW ? lengths : NULL;
    problem->options.causal = way == EMPTY_CAUSAL;
    problem->options.window_left = way == EMPTY_WINDOW ? 3 : -1;
    problem->mask = (struct attn_tensor){ 0 };
    if (way == EMPTY_BOOL || way == EMPTY_FLOAT)
        problem->mask = attn_tensor_dense(way == EMPTY_BOOL ? (void *)no : (void *)minus,
                                          way == EMPTY_BOOL ? ATTN_BOOL : ATTN_F32, 1, 1, 1, 1);
    if (way == EMPTY_NO_KEYS)
        problem->key.shape[2] = problem->value.shape[2] = 0;
}

/* Checks both paths: with maps and without. */
static void check_empty(struct attention_case *c, const struct attention_sizes *s)
{
    const int kept = c->buffer_count;
    for (int way = 0; way < EMPTY_COUNT; way++)
        for (int with_maps = 0; with_maps <= 1; with_maps++) {
            hide_everything(c, s, way);
            attention_case_outputs(c, with_maps ? OUT_ALL : OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
            attention_run(&c->problem);
            expect_zeros(&c->problem.context);
            if (with_maps)
                expect_zeros(&c->problem.weights);
            for (int64_t i = 0; i < s->batch * s->q_heads * s->q_len; i++)
                assert_true(((float *)c->problem.lse.data)[i] == -INFINITY);
            while (c->buffer_count > kept)
                guard_free(&c->buffers[--c->buffer_count]);
        }
}

TEST(empty_rows)
{
    for_all(check_empty);
}
