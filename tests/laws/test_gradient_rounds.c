/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_rounds.c - gradients against finite differences of the double reference, for
 * lengths whose tasks take several rounds, and for problems that have kept the context and lse
 * of their forward pass. */
#include "gradient_case.h"
#include "test.h"

#include "gradient/gradient_internal.h"

static const struct gradient_variant VARIANTS[] = {
    { "plain", 0.5f, 0, false, -1, -1, 0, -1, false, -1, false, false, 0, 0 },
    { "causal", 0.5f, 2, true, -1, -1, -2, -1, false, -1, false, true, 0, 0 },
    { "mask", 0.5f, 0, false, -1, -1, 0, -1, false, 15, false, false, 0, 0 },
    { "all", 0.5f, 2, true, 3, -1, 2, -1, false, 12, true, true, 0.3f, 1 },
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

/* The gradients of a problem of these sizes and of variant v. Its tasks run in reverse order. */
static void expect_rounds(const struct attention_sizes *sizes, unsigned kinds, size_t v)
{
    struct gradient_case c;
    struct attn_gradient_plan plan;
    gradient_case_init(&c, sizes, LAYOUT_GAPS, 51 + v);
    gradient_case_set_kinds(&c, kinds, 52 + v);
    gradient_case_apply(&c, &VARIANTS[v], 53 + v);
    gradient_case_plan(&c, NULL, &plan);
    const int rounds = attn_gradient_plan_full(&plan)->rounds;
    assert_true(rounds > 1 && plan.task_count[rounds] > 0);
    gradient_run(&plan, true);
    assert_int_equal(gradient_case_compare(&c, 54 + v), 0);
    attention_case_free(&c.forward);
}

/* More parts of keys than of rows, and the other way round. */
TEST(rounds)
{
    static const struct attention_sizes wide = { 1, 2, 1, 20, 400, 5, 7 };
    static const struct attention_sizes tall = { 1, 1, 1, 780, 30, 3, 2 };
    for (size_t v = 0; v < VARIANT_COUNT; v++) {
        expect_rounds(&wide, 0, v);
        if (v % 2 == 1)
            expect_rounds(&tall, 0, v);
    }
    expect_rounds(&wide, GRADIENT_ADDITIVE, VARIANT_COUNT - 1);
}

static void kept_case_init(struct gradient_case *c, unsigned kinds,
                           const struct gradient_variant *variant)
{
    static const struct attention_sizes sizes = { 2, 4, 2, 5, 6, 3, 2 };
    gradient_case_init(c, &sizes, LAYOUT_GAPS, 61);
    gradient_case_set_kinds(c, kinds, 62);
    gradient_case_apply(c, variant, 63);
    attention_case_outputs(&c->forward, OUT_CONTEXT | OUT_LSE, LAYOUT_ROWS);
    attention_run(&c->forward.problem);
    c->problem.has_forward = true;
}

TEST(kept)
{
    static const unsigned kinds[] = { 0, GRADIENT_ADDITIVE, GRADIENT_SPARSE };
    int64_t kinks = 0;
    for (size_t v = 0; v < VARIANT_COUNT; v++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            struct gradient_case c;
            kept_case_init(&c, kinds[k], &VARIANTS[v]);
            kinks += gradient_case_compare_tables(&c, 64);
            attention_case_free(&c.forward);
        }
    assert_true(kinks <= 3);
}

/* An lse that is greater by ln 2 halves every weight, and so halves the gradients of the values.
 * Where the call does not look at lse, nothing changes. */
TEST(kept_is_used)
{
    for (int has_forward = 0; has_forward < 2; has_forward++) {
        struct gradient_case c, moved;
        kept_case_init(&c, 0, &VARIANTS[0]);
        kept_case_init(&moved, 0, &VARIANTS[0]);
        c.problem.has_forward = moved.problem.has_forward = has_forward;
        for (int64_t i = 0; i < 2 * 4 * 5; i++)
            *attention_at(&moved.forward.problem.lse, i / 20, i / 5 % 4, i % 5, 0) += logf(2);
        gradient_case_run(&c, NULL);
        gradient_case_run(&moved, NULL);
        for (int64_t i = 0; i < 2 * 2 * 6 * 2; i++) {
            const int64_t b = i / 24, h = i / 12 % 2, j = i / 2 % 6, d = i % 2;
            const float whole = *attention_at(&c.problem.value_gradient, b, h, j, d);
            const float part = *attention_at(&moved.problem.value_gradient, b, h, j, d);
            assert_true(fabsf(part - whole * (has_forward ? 0.5f : 1.0f)) <= 1e-6f);
        }
        attention_case_free(&c.forward);
        attention_case_free(&moved.forward);
    }
}
