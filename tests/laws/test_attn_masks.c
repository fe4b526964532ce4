/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_masks.c - every way to hide a key means the same.
 *
 * Causal, windows, kv_len, row_kv_len and past_len must equal the boolean mask
 * that spells them out, and what they hide has a weight of exactly 0. */
#include "hiding.h"
#include "kernel_tables.h"
#include "test.h"

#include <inttypes.h>

static const double TOLERANCE = 4e-6;

static void expect_near_outputs(struct attn_problem *got, struct attn_problem *want,
                                const char *what)
{
    for (int o = 0; o < OUT_COUNT; o++) {
        const struct attn_tensor *x = attention_output(got, o), *y = attention_output(want, o);
        for (int64_t b = 0; x->data != NULL && b < x->shape[0]; b++)
            for (int64_t h = 0; h < x->shape[1]; h++)
                for (int64_t i = 0; i < x->shape[2]; i++)
                    for (int64_t j = 0; j < x->shape[3]; j++) {
                        const double a = (double)*attention_at(x, b, h, i, j);
                        const double e = (double)*attention_at(y, b, h, i, j);
                        if (isinf(e) ? a != e : !(fabs(a - e) <= TOLERANCE * (1 + fabs(e))))
                            fail_msg("%s: %s of row %" PRId64 " is %.9g, want %.9g", what,
                                     attention_output_name(o), i, a, e);
                    }
    }
}

/* ------------------------------------------------------------ equivalences -- */

/* Compares the option with the mask that spells it out. */
static void check_equals_mask(const struct attention_sizes *s, enum way way,
                              const struct attn_kernels *kernels)
{
    struct attention_case by_option, by_mask;
    make_case(&by_option, s, way, kernels);
    attention_case_init(&by_mask, s, LAYOUT_DENSE, 4242);
    by_mask.problem.kernels = kernels;
    by_mask.problem.options.softmax_precision = case_precision;
    set_mask(&by_mask, way, s); /* over all keys, and bool where the way has a float mask */
    const unsigned sets[] = { OUT_ALL, OUT_CONTEXT | OUT_LSE };
    for (int i = 0; i < 2; i++) {
        attention_case_outputs(&by_option, sets[i], LAYOUT_DENSE);
        attention_case_outputs(&by_mask, sets[i], LAYOUT_DENSE);
        attention_run(&by_option.problem);
        attention_run(&by_mask.problem);
        expect_near_outputs(&by_option.problem, &by_mask.problem, WAY_NAMES[way]);
    }
    attention_case_free(&by_option);
    attention_case_free(&by_mask);
}

TEST(equals_mask)
{
    for_all(check_equals_mask);
}

/* Where the rule hides, weights are exactly 0 and masked scores exactly -inf. Elsewhere weights
 * are above 0 and masked scores are finite. */
static void check_support(const struct attention_sizes *s, enum way way,
                          const struct attn_kernels *kernels)
{
    struct attention_case c;
    make_case(&c, s, way, kernels);
    attention_case_outputs(&c, OUT_WEIGHTS | OUT_MASKED, LAYOUT_DENSE);
    attention_run(&c.problem);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t j = 0; j < s->kv_len; j++) {
                    const float weight = *attention_at(&c.problem.weights, b, h, i, j);
                    const float masked = *attention_at(&c.problem.masked, b, h, i, j);
                    const bool seen = sees(way, s, b, h, i, j);
                    if (seen ? !(weight > 0.0f && isfinite(masked))
                             : !(weight == 0.0f && masked == -INFINITY))
                        fail_msg("%s: row %" PRId64 ", key %" PRId64 ": weight %.9g, masked %.9g",
                                 WAY_NAMES[way], i, j, (double)weight, (double)masked);
                }
    attention_case_free(&c);
}

TEST(support)
{
    for_all(check_support);
}

/* kv_len works as if the keys ended there; a length past the end hides nothing. */
TEST(kv_len_is_a_shorter_key)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int64_t length = 0; length <= 204; length += length < 20 ? 1 : 23) {
            const struct attention_sizes s = { 2, 4, 2, 20, 200, 16, 9 };
            const int64_t lengths[2] = { length, length };
            struct attention_case hidden, shorter;
            attention_case_init(&hidden, &s, LAYOUT_DENSE, 1);
            attention_case_init(&shorter, &s, LAYOUT_DENSE, 1);
            hidden.problem.kernels = shorter.problem.kernels = *k;
            hidden.problem.kv_len = lengths;
            shorter.problem.key.shape[2] = shorter.problem.value.shape[2] =
                length < s.kv_len ? length : s.kv_len;
            attention_case_outputs(&hidden, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
            attention_case_outputs(&shorter, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
            attention_run(&hidden.problem);
            attention_run(&shorter.problem);
            expect_near_outputs(&hidden.problem, &shorter.problem, "kv_len");
            attention_case_free(&hidden);
            attention_case_free(&shorter);
        }
}

/* The last rows of a causal call are a causal call of their own, with the rest as their past. */
TEST(past_len_shifts)
{
    const struct attention_sizes s = { 1, 2, 1, 150, 150, 16, 16 };
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int64_t past = 1; past < s.q_len; past += 29) {
            struct attention_case c;
            attention_case_init(&c, &s, LAYOUT_DENSE, 8);
            c.problem.kernels = *k;
            c.problem.options.causal = true;
            c.problem.options.window_left = 60;
            attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
            attention_run(&c.problem);
            struct attn_problem tail = c.problem;
            for (int o = 0; o < OUT_COUNT; o++) {
                struct attn_tensor *output = attention_output(&tail, o);
                output->data = attention_at(output, 0, 0, past, 0);
                output->shape[2] = s.q_len - past;
            }
            c.problem.query.data = attention_at(&c.problem.query, 0, 0, past, 0);
            c.problem.query.shape[2] = s.q_len - past;
            c.problem.past_len = &past;
            attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
            attention_run(&c.problem);
            expect_near_outputs(&c.problem, &tail, "past_len");
            attention_case_free(&c);
        }
}
