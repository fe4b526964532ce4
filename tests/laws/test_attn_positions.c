/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_positions.c - what is true of positions, linear biases and sinks whatever the
 * numbers.
 *
 * Only distances count: moving query and keys together changes no bit, however far they move.
 * ALiBi equals a float mask that the caller need not write out. A sink equals one more key with
 * a value of 0. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "test.h"

static const double TOLERANCE = 4e-6;

static const struct attention_sizes SIZES = { 2, 4, 2, 67, 130, 16, 9 };
static const float SLOPES[4] = { 0.5f, 0.0625f, 0.0f, -0.125f };
static const float SINKS[4] = { 1.0f, -3.0f, -INFINITY, 20.0f };

static void make(struct attention_case *c, const struct attn_kernels *kernels)
{
    attention_case_init(c, &SIZES, LAYOUT_DENSE, 77);
    c->problem.kernels = kernels;
}

static void expect_near(const struct attn_tensor *a, const struct attn_tensor *b, const char *name)
{
    for (int64_t n = 0; n < a->shape[0]; n++)
        for (int64_t h = 0; h < a->shape[1]; h++)
            for (int64_t i = 0; i < a->shape[2]; i++)
                for (int64_t j = 0; j < a->shape[3]; j++) {
                    const double x = (double)*attention_at(a, n, h, i, j);
                    const double y = (double)*attention_at(b, n, h, i, j);
                    if (!(x == y || fabs(x - y) <= TOLERANCE * (1 + fabs(y))))
                        fail_msg("%s: %.9g and %.9g", name, x, y);
                }
}

/* ------------------------------------------------------------ only distances -- */

static void check_shift(const struct attn_kernels *kernels, int64_t shift)
{
    struct attention_case c;
    const int64_t here[2] = { 60, 63 }, there[2] = { 60 + shift, 63 + shift };
    make(&c, kernels);
    c.problem.options.causal = true;
    c.problem.options.window_left = 50;
    c.problem.alibi_slopes = SLOPES;
    c.problem.past_len = here;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    struct attn_problem before = c.problem;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    c.problem.past_len = there;
    c.problem.kv_offset = shift;
    attention_run(&c.problem);
    for (int i = 0; i < OUT_COUNT; i++)
        assert_int_equal(
            attention_differing_bits(attention_output(&c.problem, i), attention_output(&before, i)),
            0);
    attention_case_free(&c);
}

TEST(only_distances_count)
{
    static const int64_t shifts[] = { 1, -1, 100, -1000000, INT64_MAX - 63, INT64_MIN };
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++)
            check_shift(*k, shifts[i]);
}

/* Keys that are infinitely far behind or ahead, compared with a window. */
TEST(far_apart)
{
    static const int64_t ends[] = { INT64_MIN, INT64_MAX };
    for (int side = 0; side < 4; side++) {
        struct attention_case c;
        const int64_t past[2] = { ends[side & 1], ends[side & 1] };
        make(&c, NULL);
        c.problem.past_len = past;
        c.problem.kv_offset = ends[side >> 1];
        c.problem.options.causal = true;
        attention_case_outputs(&c, OUT_LSE | OUT_WEIGHTS, LAYOUT_DENSE);
        attention_run(&c.problem);
        /* Query and keys are on one side, or one of them is; causal hides what is ahead. */
        const bool sees_all = past[0] > c.problem.kv_offset;
        const float lse = *attention_at(&c.problem.lse, 0, 0, 5, 0);
        if (past[0] != c.problem.kv_offset)
            assert_true(sees_all ? isfinite(lse) : lse == -INFINITY);
        else
            assert_true(*attention_at(&c.problem.weights, 0, 0, 0, 0) == 1.0f);
        attention_case_free(&c);
    }
}

/* ------------------------------------------------------------------- ALiBi -- */

static void check_alibi_is_a_mask(const struct attn_kernels *kernels)
{
    struct attention_case c;
    const int64_t past[2] = { 0, 63 };
    make(&c, kernels);
    c.problem.past_len = past;
    c.problem.kv_offset = -5;
    c.problem.alibi_slopes = SLOPES;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    struct attn_problem biased = c.problem;
    c.problem.alibi_slopes = NULL;
    c.problem.mask = attention_case_tensor(&c, ATTN_F32, LAYOUT_DENSE, SIZES.batch, SIZES.q_heads,
                                           SIZES.q_len, SIZES.kv_len);
    for (int64_t b = 0; b < SIZES.batch; b++)
        for (int64_t h = 0; h < SIZES.q_heads; h++)
            for (int64_t i = 0; i < SIZES.q_len; i++)
                for (int64_t j = 0; j < SIZES.kv_len; j++)
                    *attention_at(&c.problem.mask, b, h, i, j) =
                        -SLOPES[h] * fabsf((float)(past[b] + i - (j - 5)));
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    for (int i = 0; i < OUT_COUNT; i++)
        expect_near(attention_output(&biased, i), attention_output(&c.problem, i),
                    attention_output_name(i));
    attention_case_free(&c);
}

TEST(alibi_is_a_mask)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        check_alibi_is_a_mask(*k);
}

/* ------------------------------------------------------------------- sinks -- */

/* The weights leave the sink its share: 1 - sum = exp(sink - lse). Context and lse follow from
 * those of the call without the sink. */
static void check_sinks(const struct attn_kernels *kernels)
{
    struct attention_case c;
    make(&c, kernels);
    c.problem.options.causal = true;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    struct attn_problem without = c.problem;
    c.problem.sinks = SINKS;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    assert_int_equal(attention_differing_bits(&c.problem.masked, &without.masked), 0);
    for (int64_t b = 0; b < SIZES.batch; b++)
        for (int64_t h = 0; h < SIZES.q_heads; h++)
            for (int64_t i = 0; i < SIZES.q_len; i++) {
                const double sink = (double)SINKS[h];
                const double lse = (double)*attention_at(&c.problem.lse, b, h, i, 0);
                const double old = (double)*attention_at(&without.lse, b, h, i, 0);
                double sum = 0;
                for (int64_t j = 0; j < SIZES.kv_len; j++)
                    sum += (double)*attention_at(&c.problem.weights, b, h, i, j);
                assert_true(fabs(1 - sum - exp(sink - lse)) <= TOLERANCE);
                assert_true(fabs(lse - log(exp(sink) + exp(old))) <= TOLERANCE * (1 + fabs(lse)));
                for (int64_t d = 0; d < SIZES.v_head_dim; d++) {
                    const double got = (double)*attention_at(&c.problem.context, b, h, i, d);
                    const double was = (double)*attention_at(&without.context, b, h, i, d);
                    assert_true(fabs(got - was * exp(old - lse)) <= TOLERANCE);
                }
            }
    attention_case_free(&c);
}

TEST(sinks)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        check_sinks(*k);
}

/* A row has nothing but its sink, because a mask hides all keys or because there are no keys. */
TEST(nothing_but_the_sink)
{
    for (int64_t kv_len = 0; kv_len <= 130; kv_len += 130) {
        struct attention_case c;
        const struct attention_sizes sizes = { 1, 4, 2, 5, kv_len, 3, 7 };
        const int64_t nothing[1] = { 0 };
        attention_case_init(&c, &sizes, LAYOUT_DENSE, 5);
        c.problem.kv_len = nothing;
        c.problem.sinks = SINKS;
        attention_case_outputs(&c, OUT_CONTEXT | OUT_LSE | OUT_WEIGHTS, LAYOUT_DENSE);
        attention_run(&c.problem);
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < 5; i++) {
                assert_true(*attention_at(&c.problem.lse, 0, h, i, 0) == SINKS[h]);
                for (int64_t d = 0; d < 7; d++)
                    assert_true(*attention_at(&c.problem.context, 0, h, i, d) == 0.0f);
                for (int64_t j = 0; j < kv_len; j++)
                    assert_true(*attention_at(&c.problem.weights, 0, h, i, j) == 0.0f);
            }
        attention_case_free(&c);
    }
}
