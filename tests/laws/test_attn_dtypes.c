/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_dtypes.c - what tensors of 16 bits must answer, whatever the numbers.
 *
 * F16 and BF16 are ways to store numbers, not to compute with them. The answer is, to the bit,
 * that of the same numbers in F32, rounded once. The problems are random and of every kind, each
 * tensor has its own dtype, and every table of kernels runs them. */
#include "kernel_tables.h"
#include "problem_count.h"
#include "random_case.h"
#include "test.h"

static const enum attn_dtype NARROW[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
static const struct random_dtypes DTYPES = { NARROW, 3 };

/* Counts the elements of got that are not those of want, an F32 tensor, rounded to got's dtype. */
static int64_t count_wrong(const struct attn_tensor *got, const struct attn_tensor *want)
{
    int64_t wrong = 0;
    for (int64_t b = 0; b < got->shape[0]; b++)
        for (int64_t h = 0; h < got->shape[1]; h++)
            for (int64_t i = 0; i < got->shape[2]; i++)
                for (int64_t j = 0; j < got->shape[3]; j++) {
                    double rounded;
                    number_set(&rounded, got->dtype, 0, number_at(want, b, h, i, j));
                    const double x = number_at(got, b, h, i, j);
                    const double y = number_get(&rounded, got->dtype, 0);
                    wrong += !(x == y || (isnan(x) && isnan(y)));
                }
    return wrong;
}

/* The problem in F32: the same numbers in other memory. */
static void widen_case(struct attention_case *wide, const struct attn_problem *problem)
{
    memset(wide, 0, sizeof *wide);
    wide->problem = *problem;
    wide->problem.query = recast(wide, &problem->query, ATTN_F32, LAYOUT_DENSE);
    wide->problem.key = recast(wide, &problem->key, ATTN_F32, LAYOUT_DENSE);
    wide->problem.value = recast(wide, &problem->value, ATTN_F32, LAYOUT_DENSE);
    if (problem->mask.data != NULL && problem->mask.dtype != ATTN_BOOL)
        wide->problem.mask = recast(wide, &problem->mask, ATTN_F32, LAYOUT_DENSE);
}

static void check_rounded(uint64_t seed, const struct attn_kernels *kernels)
{
    struct attention_case c, wide;
    struct fill fill = { ~seed };
    enum attn_dtype dtypes[OUT_COUNT];
    const unsigned set =
        random_chance(&fill, 3) ? OUT_CONTEXT | OUT_LSE : 1 + (unsigned)fill_below(&fill, OUT_ALL);
    for (int i = 0; i < OUT_COUNT; i++)
        dtypes[i] = random_dtype(&fill, &DTYPES);
    random_case(&c, seed, &DTYPES);
    c.problem.kernels = kernels;
    c.problem.options.dropout = random_chance(&fill, 4) ? 0.25f : 0.0f;
    widen_case(&wide, &c.problem);
    attention_case_outputs_of(&c, set, LAYOUT_GAPS, dtypes);
    attention_case_outputs(&wide, set, LAYOUT_GAPS);
    attention_run(&c.problem);
    attention_run(&wide.problem);
    for (int i = 0; i < OUT_COUNT; i++)
        if (set & (1u << i)
            && count_wrong(attention_output(&c.problem, i), attention_output(&wide.problem, i)) > 0)
            fail_msg("%s, seed %d: %s is not that of F32, rounded", attn_kernels_name(kernels),
                     (int)seed, attention_output_name(i));
    attention_case_free(&c);
    attention_case_free(&wide);
}

TEST(rounded)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (uint64_t seed = 0; seed < problem_count(300); seed++)
            check_rounded(seed, *k);
}

/* The same against double arithmetic: apart from rounding, an answer of 16 bits is right. */
TEST(right)
{
    static const enum attn_dtype f16[] = { ATTN_F16 }, bf16[] = { ATTN_BF16 };
    static const struct random_dtypes both[] = { { f16, 1 }, { bf16, 1 } };
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 0; seed < problem_count(60); seed++) {
            struct attention_case c;
            struct reference reference;
            enum attn_dtype dtypes[OUT_COUNT];
            random_case(&c, seed, &both[i]);
            for (int k = 0; k < OUT_COUNT; k++)
                dtypes[k] = both[i].list[0];
            attention_case_outputs_of(&c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE, dtypes);
            attention_run(&c.problem);
            reference_attention(&c.problem, &reference);
            assert_int_equal(
                attention_compare(&c.problem, &reference, i == 0 ? 0x1p-11 + 4e-6 : 0x1p-8 + 4e-6),
                0);
            reference_free(&reference);
            attention_case_free(&c);
        }
}

/* A number that 16 bits cannot hold becomes infinite in the output only. The weights are
 * computed from the number itself. */
TEST(overflow)
{
    const struct attention_sizes sizes = { 1, 1, 1, 2, 3, 4, 4 };
    struct attention_case c;
    enum attn_dtype dtypes[OUT_COUNT];
    for (int i = 0; i < OUT_COUNT; i++)
        dtypes[i] = ATTN_F16;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 1);
    for (int64_t j = 0; j < 3; j++)
        for (int64_t d = 0; d < 4; d++) {
            *attention_at(&c.problem.key, 0, 0, j, d) = j == 1 ? 400.0f : -400.0f;
            *attention_at(&c.problem.value, 0, 0, j, d) = j == 1 && d == 2 ? 1e6f : (float)j;
        }
    for (int64_t d = 0; d < 4; d++)
        *attention_at(&c.problem.query, 0, 0, 0, d) = *attention_at(&c.problem.query, 0, 0, 1, d) =
            300.0f;
    c.problem.query = recast(&c, &c.problem.query, ATTN_F16, LAYOUT_DENSE);
    attention_case_outputs_of(&c, OUT_ALL, LAYOUT_DENSE, dtypes);
    attention_run(&c.problem);
    for (int64_t j = 0; j < 3; j++) {
        assert_true(number_at(&c.problem.scores, 0, 0, 0, j) == (j == 1 ? INFINITY : -INFINITY));
        assert_true(number_at(&c.problem.weights, 0, 0, 0, j) == (j == 1));
    }
    assert_true(number_at(&c.problem.lse, 0, 0, 0, 0) == INFINITY);
    assert_true(number_at(&c.problem.context, 0, 0, 1, 1) == 1);
    assert_true(number_at(&c.problem.context, 0, 0, 1, 2) == INFINITY);
    attention_case_free(&c);
}
