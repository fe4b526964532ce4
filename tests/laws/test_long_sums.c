/* SPDX-License-Identifier: Apache-2.0 */
/* test_long_sums.c - sums over so many keys that they are carried in two floats.
 *
 * The number of keys must not show in the error. An infinite value must not become NaN on the
 * way. The outputs that are asked for must not change the bits of the answer. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "test.h"

#include <float.h>
#include <inttypes.h>

static void for_all_tables(void (*check)(const struct attn_kernels *kernels))
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        check(*k);
}

/* Equal keys have equal weights, so that the context is the plain mean of the values and the only
 * error is that of the sums: 100 000 of them are as exact as 1000. */
static void check_equal_keys(const struct attn_kernels *kernels)
{
    static const int64_t counts[] = { 1000, 30000, 100000 };
    if (kernels == kernel_table_of_dots())
        return; /* it has long chains, and outside tests leaves what is this exact to avx512 */
    for (int n = 0; n < 3; n++) {
        const struct attention_sizes s = { 1, 1, 1, 3, counts[n], 1, 5 };
        struct attention_case c;
        attention_case_init(&c, &s, LAYOUT_DENSE, 3);
        c.problem.kernels = kernels;
        for (int64_t j = 0; j < s.kv_len; j++) {
            *attention_at(&c.problem.key, 0, 0, j, 0) = 0.25f;
            for (int64_t d = 0; d < s.v_head_dim; d++)
                *attention_at(&c.problem.value, 0, 0, j, d) += 1;
        }
        attention_case_outputs(&c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
        attention_run(&c.problem);
        for (int64_t d = 0; d < s.v_head_dim; d++) {
            double mean = 0;
            for (int64_t j = 0; j < s.kv_len; j++)
                mean += (double)*attention_at(&c.problem.value, 0, 0, j, d) / (double)s.kv_len;
            for (int64_t i = 0; i < s.q_len; i++) {
                const double got = (double)*attention_at(&c.problem.context, 0, 0, i, d);
                if (fabs(got - mean) > 4 * (double)FLT_EPSILON)
                    fail_msg("%s, %" PRId64 " keys: %.9g, want %.9g", attn_kernels_name(kernels),
                             s.kv_len, got, mean);
            }
        }
        attention_case_free(&c);
    }
}

TEST(equal_keys)
{
    for_all_tables(check_equal_keys);
}

enum { PLAIN, CAUSAL, WINDOW, MASK, SINKS, ALIBI, SPARSE, WAYS };

/* Keys of growing score, so that the maximum moves and the totals are rescaled. */
static void make(struct attention_case *c, const struct attention_sizes *s, int way)
{
    static const float numbers[2] = { 0.5f, 2.5f }; /* of each head */
    static int64_t past;
    attention_case_init(c, s, LAYOUT_DENSE, 17);
    struct attn_problem *problem = &c->problem;
    for (int64_t j = 0; j < s->kv_len; j++)
        *attention_at(&problem->key, 0, 0, j, 0) = 6.0f * (float)j / (float)s->kv_len;
    past = s->kv_len - s->q_len;
    problem->past_len = &past;
    problem->options.causal = way == CAUSAL;
    problem->options.window_left = way == WINDOW ? 900 : -1;
    problem->sinks = way == SINKS ? numbers : NULL;
    problem->alibi_slopes = way == ALIBI ? numbers : NULL;
    problem->options.normalizer = way == SPARSE ? ATTN_SPARSEMAX : ATTN_SOFTMAX;
    if (way != MASK)
        return;
    problem->mask =
        attention_case_tensor(c, ATTN_BOOL, LAYOUT_DENSE, 1, 1, s->q_len, s->kv_len - 200);
    unsigned char *allowed = problem->mask.data;
    for (int64_t i = 0; i < s->q_len * (s->kv_len - 200); i++)
        allowed[i] = i % 3 != 0 && i / (s->kv_len - 200) != 2; /* row 2 sees nothing */
}

/* Lengths around the one from which sums are folded, and around the ends of folds. */
static const int64_t LENGTHS[] = { 767, 768, 769, 864, 1536, 1537, 2500 };

enum { LENGTH_COUNT = sizeof LENGTHS / sizeof LENGTHS[0] };

static void check_reference(const struct attn_kernels *kernels)
{
    for (int l = 0; l < LENGTH_COUNT; l++)
        for (int way = 0; way < WAYS; way++) {
            const struct attention_sizes s = { 1, 2, 1, 5, LENGTHS[l], 6, 3 };
            struct attention_case c;
            struct reference reference;
            make(&c, &s, way);
            c.problem.kernels = kernels;
            attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
            attention_run(&c.problem);
            reference_attention(&c.problem, &reference);
            if (attention_compare(&c.problem, &reference, 2e-6) > 0)
                fail_msg("%s, %" PRId64 " keys, way %d", attn_kernels_name(kernels), s.kv_len, way);
            reference_free(&reference);
            attention_case_free(&c);
        }
}

TEST(reference)
{
    for_all_tables(check_reference);
}

/* Each output alone has the bits that it has beside all the others. */
static void check_bits(const struct attn_kernels *kernels)
{
    for (int l = 0; l < LENGTH_COUNT; l++)
        for (int way = 0; way < WAYS; way++) {
            const struct attention_sizes s = { 1, 2, 1, 5, LENGTHS[l], 6, 3 };
            struct attention_case whole, alone;
            make(&whole, &s, way);
            make(&alone, &s, way);
            whole.problem.kernels = alone.problem.kernels = kernels;
            attention_case_outputs(&whole, OUT_ALL, LAYOUT_DENSE);
            attention_run(&whole.problem);
            for (int o = 0; o < OUT_COUNT; o++) {
                attention_case_outputs(&alone, 1u << o, LAYOUT_DENSE);
                attention_run(&alone.problem);
                assert_int_equal(attention_differing_bits(attention_output(&whole.problem, o),
                                                          attention_output(&alone.problem, o)),
                                 0);
            }
            attention_case_free(&whole);
            attention_case_free(&alone);
        }
}

TEST(bits)
{
    for_all_tables(check_bits);
}

/* A visible value that is infinite makes its column infinite, wherever it stands. Other columns
 * do not change. */
static void check_infinite_value(const struct attn_kernels *kernels)
{
    const struct attention_sizes s = { 1, 1, 1, 2, 2000, 4, 3 };
    for (int64_t bad = 5; bad < s.kv_len; bad += 397) {
        struct attention_case c;
        attention_case_init(&c, &s, LAYOUT_DENSE, 9);
        c.problem.kernels = kernels;
        *attention_at(&c.problem.value, 0, 0, bad, 1) = -INFINITY;
        attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
        attention_run(&c.problem);
        for (int64_t i = 0; i < s.q_len; i++)
            for (int64_t d = 0; d < s.v_head_dim; d++) {
                const float context = *attention_at(&c.problem.context, 0, 0, i, d);
                if (d == 1 ? context != -INFINITY : !isfinite(context))
                    fail_msg("%s: value %" PRId64 ": context[%" PRId64 "] = %g",
                             attn_kernels_name(kernels), bad, d, (double)context);
            }
        attention_case_free(&c);
    }
}

TEST(infinite_value)
{
    for_all_tables(check_infinite_value);
}
