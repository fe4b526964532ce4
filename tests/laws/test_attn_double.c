/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_double.c - attention in double: the answer of the textbook to the last digits.
 *
 * Random problems of every kind, with tensors of every dtype, are compared with the reference.
 * The reference is in double too, but it has none of the tiles and passes. Other tests check
 * what the paths in float and in double must have in common. */
#include "problem_count.h"
#include "random_case.h"
#include "test.h"

static const enum attn_dtype ALL[] = { ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16 };
static const struct random_dtypes DTYPES = { ALL, 4 };

static void add_outputs(struct attention_case *c, unsigned set, enum attn_dtype dtype)
{
    enum attn_dtype dtypes[OUT_COUNT];
    for (int i = 0; i < OUT_COUNT; i++)
        dtypes[i] = dtype;
    attention_case_outputs_of(c, set, LAYOUT_GAPS, dtypes);
}

TEST(reference)
{
    for (uint64_t seed = 1000; seed < 1000 + problem_count(400); seed++) {
        struct attention_case c;
        struct reference reference;
        random_case(&c, seed, &DTYPES);
        add_outputs(&c, OUT_ALL, ATTN_F64);
        attention_run(&c.problem);
        reference_attention(&c.problem, &reference);
        if (attention_compare(&c.problem, &reference, 1e-13) > 0)
            fail_msg("seed %d", (int)seed);
        reference_free(&reference);
        attention_case_free(&c);
    }
}

/* The bits of got are those of want, rounded to got's dtype. */
static void expect_rounded(const struct attn_tensor *got, const struct attn_tensor *want,
                           const char *what, uint64_t seed)
{
    for (int64_t b = 0; got->data != NULL && b < got->shape[0]; b++)
        for (int64_t h = 0; h < got->shape[1]; h++)
            for (int64_t i = 0; i < got->shape[2]; i++)
                for (int64_t j = 0; j < got->shape[3]; j++) {
                    double memory;
                    number_set(&memory, got->dtype, 0, number_at(want, b, h, i, j));
                    const double x = number_at(got, b, h, i, j);
                    if (x != number_get(&memory, got->dtype, 0))
                        fail_msg("seed %d: %s: %.17g, want %.17g rounded", (int)seed, what, x,
                                 number_at(want, b, h, i, j));
                }
}

/* A call asks for double by its precision or by the dtype of a tensor. Outputs are rounded once.
 * No output depends on which others there are. */
TEST(ways_to_ask)
{
    static const enum attn_dtype narrow[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
    static const struct random_dtypes dtypes = { narrow, 3 };
    for (uint64_t seed = 2000; seed < 2000 + problem_count(150); seed++) {
        struct attention_case c;
        struct fill fill = { seed };
        random_case(&c, seed, &dtypes);
        add_outputs(&c, OUT_ALL, ATTN_F64);
        attention_run(&c.problem);
        struct attn_problem whole = c.problem;
        if (random_chance(&fill, 2)) {
            const enum attn_dtype dtype = random_dtype(&fill, &dtypes);
            add_outputs(&c, 1 + (unsigned)fill_below(&fill, OUT_ALL), dtype);
            c.problem.options.softmax_precision = ATTN_F64;
        } else {
            struct attn_tensor *const inputs[] = { &c.problem.query, &c.problem.key,
                                                   &c.problem.value };
            struct attn_tensor *input = inputs[fill_below(&fill, 3)];
            add_outputs(&c, OUT_CONTEXT | OUT_LSE, ATTN_F32);
            *input = recast(&c, input, ATTN_F64, LAYOUT_DENSE);
        }
        attention_run(&c.problem);
        for (int i = 0; i < OUT_COUNT; i++)
            expect_rounded(attention_output(&c.problem, i), attention_output(&whole, i),
                           attention_output_name(i), seed);
        attention_case_free(&c);
    }
}

/* ONNX's other precisions change nothing: float is fine enough for them. */
TEST(lesser_precision)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct attention_case c;
        random_case(&c, seed, &(struct random_dtypes){ &ALL[1], 1 });
        add_outputs(&c, OUT_ALL, ATTN_F32);
        attention_run(&c.problem);
        struct attn_problem whole = c.problem;
        c.problem.options.softmax_precision = seed % 2 ? ATTN_F16 : ATTN_BF16;
        add_outputs(&c, OUT_ALL, ATTN_F32);
        attention_run(&c.problem);
        for (int i = 0; i < OUT_COUNT; i++)
            expect_rounded(attention_output(&c.problem, i), attention_output(&whole, i),
                           attention_output_name(i), seed);
        attention_case_free(&c);
    }
}

/* Dropout drops the same weights as in float and scales the others; they make the context. */
static void check_dropout(uint64_t seed)
{
    struct attention_case c;
    struct reference reference;
    random_case(&c, seed, &DTYPES);
    c.problem.options.dropout = 0.3f;
    c.problem.options.seed = seed;
    c.problem.options.normalizer = ATTN_SOFTMAX;
    add_outputs(&c, OUT_CONTEXT | OUT_WEIGHTS, ATTN_F64);
    attention_run(&c.problem);
    const struct attn_problem got = c.problem;
    reference_attention(&c.problem, &reference);

    c.problem.query = recast(&c, &c.problem.query, ATTN_F32, LAYOUT_DENSE);
    c.problem.key = recast(&c, &c.problem.key, ATTN_F32, LAYOUT_DENSE);
    c.problem.value = recast(&c, &c.problem.value, ATTN_F32, LAYOUT_DENSE);
    if (c.problem.mask.data != NULL && c.problem.mask.dtype == ATTN_F64)
        c.problem.mask = recast(&c, &c.problem.mask, ATTN_F32, LAYOUT_DENSE);
    add_outputs(&c, OUT_WEIGHTS, ATTN_F32);
    attention_run(&c.problem);
    const int64_t *query = got.query.shape;
    const int64_t group = query[1] / got.key.shape[1], kv_len = got.key.shape[2];
    const double kept = 1 / (1 - (double)c.problem.options.dropout);
    for (int64_t row = 0; row < query[0] * query[1] * query[2]; row++) {
        const int64_t i = row % query[2], h = row / query[2] % query[1];
        const int64_t b = row / query[2] / query[1];
        double context[64] = { 0 };
        for (int64_t j = 0; j < kv_len; j++) {
            const bool is_dropped = number_at(&c.problem.weights, b, h, i, j) == 0;
            const double weight = number_at(&got.weights, b, h, i, j);
            const double want = is_dropped ? 0 : reference.weights[row * kv_len + j] * kept;
            if (!(fabs(weight - want) <= 1e-13))
                fail_msg("seed %d: weight %.17g, want %.17g", (int)seed, weight, want);
            for (int64_t d = 0; d < got.value.shape[3]; d++)
                context[d] += weight * number_at(&got.value, b, h / group, j, d);
        }
        for (int64_t d = 0; d < got.value.shape[3]; d++)
            assert_true(fabs(number_at(&got.context, b, h, i, d) - context[d]) <= 1e-13);
    }
    reference_free(&reference);
    attention_case_free(&c);
}

TEST(dropout)
{
    for (uint64_t seed = 3000; seed < 3060; seed++)
        check_dropout(seed);
}

/* Double tells apart and holds numbers that float cannot. */
TEST(beyond_float)
{
    const struct attention_sizes sizes = { 1, 1, 1, 1, 2, 1, 1 };
    struct attention_case c;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 1);
    c.problem.query = recast(&c, &c.problem.query, ATTN_F64, LAYOUT_DENSE);
    c.problem.key = recast(&c, &c.problem.key, ATTN_F64, LAYOUT_DENSE);
    c.problem.value = recast(&c, &c.problem.value, ATTN_F64, LAYOUT_DENSE);
    c.problem.options.scale = 1.0 / 3.0;
    number_put(&c.problem.query, 0, 0, 0, 0, 3.0);
    number_put(&c.problem.key, 0, 0, 0, 0, 1e300);
    number_put(&c.problem.key, 0, 0, 1, 0, 1e300);
    number_put(&c.problem.value, 0, 0, 0, 0, 1.0);
    number_put(&c.problem.value, 0, 0, 1, 0, 1.0 + 0x1p-40);
    add_outputs(&c, OUT_CONTEXT | OUT_WEIGHTS, ATTN_F64);
    attention_run(&c.problem);
    assert_true(number_at(&c.problem.weights, 0, 0, 0, 0) == 0.5);
    assert_true(number_at(&c.problem.context, 0, 0, 0, 0) == 1.0 + 0x1p-41);
    number_put(&c.problem.key, 0, 0, 0, 0, 1.0 + 1e-12);
    number_put(&c.problem.key, 0, 0, 1, 0, 1.0);
    attention_run(&c.problem);
    assert_true(fabs(number_at(&c.problem.weights, 0, 0, 0, 0) - 0.5 - 0.25e-12) <= 2e-16);
    attention_case_free(&c);
}
