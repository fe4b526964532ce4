/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_poison.c - what is hidden is hidden wholly.
 *
 * A hidden key or value may hold NaN, infinity or numbers that overflow. The rows that it is
 * hidden from must not see any of it, even while another row or another head of the group sees
 * it, within a tile that is masked in part, with maps and without. What is not hidden must show. */
#include "hiding.h"
#include "kernel_tables.h"
#include "test.h"

#include <float.h>
#include <inttypes.h>

static const double TOLERANCE = 4e-6;

/* ------------------------------------------------------------------ poison -- */

enum { POISON_KEYS = 1, POISON_VALUES = 2 };

/* Every third key of every head, from key 1 on, is poisoned; the others keep their numbers. */
static bool is_poisoned(int64_t j)
{
    return j % 3 == 1;
}

static void poison(struct attn_tensor *tensor)
{
    static const float poisons[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, -NAN, 1e38f };
    enum { POISONS = sizeof poisons / sizeof poisons[0] };
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t j = 0; j < tensor->shape[2]; j++)
                for (int64_t d = 0; is_poisoned(j) && d < tensor->shape[3]; d++)
                    if (j % 2 == 0 || d == j % tensor->shape[3]) /* whole rows, single numbers */
                        *attention_at(tensor, b, h, j, d) = poisons[(j / 3 + d) % POISONS];
}

/* Whether a row sees no poison, so that its answer must be that of the clean call. */
static bool is_clean_row(enum way way, const struct attention_sizes *s, int64_t b, int64_t h,
                         int64_t i)
{
    for (int64_t j = 0; j < s->kv_len; j++)
        if (is_poisoned(j) && sees(way, s, b, h, i, j))
            return false;
    return true;
}

/* A second rule, for poison: row i of head h sees poisoned keys only where (i + h) % 3 is 0. */
static bool sees_poison(int64_t h, int64_t i, int64_t j)
{
    return !is_poisoned(j) || (i + h) % 3 == 0;
}

/* Adds that rule to the mask that may be there. The new mask may be of the other kind. */
static void add_poison_mask(struct attention_case *c, const struct attention_sizes *s,
                            bool as_float)
{
    struct attn_tensor old = c->problem.mask;
    const int64_t keys = old.data != NULL ? old.shape[3] : s->kv_len;
    c->problem.mask = attention_case_tensor(c, as_float ? ATTN_F32 : ATTN_BOOL, LAYOUT_DENSE,
                                            s->batch, s->q_heads, s->q_len, keys);
    int64_t at = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++)
                for (int64_t j = 0; j < keys; j++, at++) {
                    bool seen = sees_poison(h, i, j);
                    if (old.data != NULL && old.dtype == ATTN_BOOL)
                        seen = seen && ((unsigned char *)old.data)[at];
                    if (old.data != NULL && old.dtype == ATTN_F32)
                        seen = seen && ((float *)old.data)[at] == 0.0f;
                    if (as_float)
                        ((float *)c->problem.mask.data)[at] = seen ? 0.0f : -INFINITY;
                    else
                        ((unsigned char *)c->problem.mask.data)[at] = seen;
                }
}

/* Rows that see no poison answer as the clean call does; returns how many there were. */
static int64_t expect_clean_rows(struct attn_problem *got, struct attn_problem *clean,
                                 const struct attention_sizes *s, enum way way, bool poison_mask)
{
    static const int outputs[] = { 0, 1, 5 }; /* context, lse, weights */
    int64_t rows = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            for (int64_t i = 0; i < s->q_len; i++) {
                if (poison_mask ? (i + h) % 3 == 0 : !is_clean_row(way, s, b, h, i))
                    continue;
                rows++;
                for (int o = 0; o < 3; o++) {
                    const struct attn_tensor *x = attention_output(got, outputs[o]);
                    const struct attn_tensor *y = attention_output(clean, outputs[o]);
                    for (int64_t j = 0; x->data != NULL && j < x->shape[3]; j++) {
                        const double a = (double)*attention_at(x, b, h, i, j);
                        const double e = (double)*attention_at(y, b, h, i, j);
                        if (isinf(e) ? a != e : !(fabs(a - e) <= TOLERANCE * (1 + fabs(e))))
                            fail_msg("%s: head %" PRId64 ", row %" PRId64 ": %s[%" PRId64
                                     "] = %.9g, want %.9g",
                                     WAY_NAMES[way], h, i, attention_output_name(outputs[o]), j, a,
                                     e);
                    }
                }
            }
    return rows;
}

/* Compares the clean call with the poisoned one; both hide the same keys. */
static int64_t compare_poisoned(const struct attention_sizes *s, enum way way,
                                const struct attn_kernels *kernels, unsigned what, unsigned outputs,
                                bool poison_mask, float softcap)
{
    struct attention_case clean, poisoned;
    make_case(&clean, s, way, kernels);
    make_case(&poisoned, s, way, kernels);
    clean.problem.options.softcap = poisoned.problem.options.softcap = softcap;
    if (poison_mask) {
        add_poison_mask(&clean, s, way == WAY_BOOL || way == WAY_SHORT_BOOL);
        add_poison_mask(&poisoned, s, way == WAY_BOOL || way == WAY_SHORT_BOOL);
    }
    if (what & POISON_KEYS)
        poison(&poisoned.problem.key);
    if (what & POISON_VALUES)
        poison(&poisoned.problem.value);
    attention_case_outputs(&clean, outputs, LAYOUT_DENSE);
    attention_case_outputs(&poisoned, outputs, LAYOUT_DENSE);
    attention_run(&clean.problem);
    attention_run(&poisoned.problem);
    const int64_t rows = expect_clean_rows(&poisoned.problem, &clean.problem, s, way, poison_mask);
    attention_case_free(&clean);
    attention_case_free(&poisoned);
    return rows;
}

/* The rule itself hides the poison; then a mask of its own hides it from two rows of three. */
static void check_poison(const struct attention_sizes *s, enum way way,
                         const struct attn_kernels *kernels)
{
    int64_t rows = 0;
    for (unsigned what = POISON_KEYS; what <= (POISON_KEYS | POISON_VALUES); what++)
        for (int variant = 0; variant < 4; variant++) {
            const unsigned outputs =
                variant % 2 == 0 ? OUT_CONTEXT | OUT_LSE : OUT_CONTEXT | OUT_LSE | OUT_WEIGHTS;
            const bool poison_mask = variant >= 2;
            const float softcap = what == POISON_VALUES ? 2.0f : 0.0f;
            rows += compare_poisoned(s, way, kernels, what, outputs, poison_mask, softcap);
        }
    assert_true(rows > 0 || s->q_len == 1);
}

TEST(poison)
{
    for_all(check_poison);
}

/* Softcap makes an infinite score finite. The mask comes after it and still hides the score. */
static void check_poison_softcap(const struct attention_sizes *s, enum way way,
                                 const struct attn_kernels *kernels)
{
    compare_poisoned(s, way, kernels, POISON_KEYS, OUT_CONTEXT | OUT_LSE, true, 1.5f);
    compare_poisoned(s, way, kernels, POISON_KEYS | POISON_VALUES, OUT_ALL, true, 1.5f);
}

TEST(poison_softcap)
{
    for_all(check_poison_softcap);
}

/* What is not hidden shows: a row that sees a NaN answers NaN. A query of NaN spoils its own row
 * only. */
TEST(visible_nan_is_reported)
{
    const struct attention_sizes *s = &SIZES[0];
    const int64_t bad_row = 13, bad_key = 100;
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int in_query = 0; in_query <= 1; in_query++) {
            struct attention_case clean, c;
            make_case(&clean, s, WAY_CAUSAL_PAST, *k);
            make_case(&c, s, WAY_CAUSAL_PAST, *k);
            if (in_query)
                *attention_at(&c.problem.query, 0, 1, bad_row, 2) = NAN;
            else
                *attention_at(&c.problem.value, 0, 0, bad_key, 4) = NAN;
            attention_case_outputs(&clean, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
            attention_case_outputs(&c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
            attention_run(&clean.problem);
            attention_run(&c.problem);
            for (int64_t h = 0; h < s->q_heads; h++)
                for (int64_t i = 0; i < s->q_len; i++)
                    for (int64_t d = 0; d < s->v_head_dim; d++) {
                        const bool bad =
                            in_query
                                ? h == 1 && i == bad_row
                                : h < 2 && d == 4 && sees(WAY_CAUSAL_PAST, s, 0, h, i, bad_key);
                        const float got = *attention_at(&c.problem.context, 0, h, i, d);
                        const float want = *attention_at(&clean.problem.context, 0, h, i, d);
                        assert_true(bad ? isnan(got) : fabsf(got - want) <= 4e-6f);
                    }
            attention_case_free(&clean);
            attention_case_free(&c);
        }
}
