/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_kinds.c - gradients through additive scores and through sparsemax, of ALiBi's
 * slopes and of sinks: numbers worked out by hand, finite differences of the double reference, and
 * identities. */
#include "gradient_case.h"
#include "kernel_tables.h"
#include "test.h"

/* ------------------------------------------------------------------------------- by hand -- */

/* One query row and two keys of one column each, with values 3 and 1 and a gradient of 1 for the
 * context. */
struct small {
    float query[1], key[2], value[2], context_gradient[1], mask[2];
    float query_gradient[1], key_gradient[2], value_gradient[2], mask_gradient[2];
    struct attn_gradient_problem problem;
};

static void small_init(struct small *s, float query, float key0, float key1)
{
    memset(s, 0, sizeof *s);
    s->query[0] = query;
    s->key[0] = key0;
    s->key[1] = key1;
    s->value[0] = 3;
    s->value[1] = 1;
    s->context_gradient[0] = 1;
    struct attn_problem *attention = &s->problem.attention;
    attention->options = attn_options_default(1);
    attention->query = attn_tensor_dense(s->query, ATTN_F32, 1, 1, 1, 1);
    attention->key = attn_tensor_dense(s->key, ATTN_F32, 1, 1, 2, 1);
    attention->value = attn_tensor_dense(s->value, ATTN_F32, 1, 1, 2, 1);
    attention->mask = attn_tensor_dense(s->mask, ATTN_F32, 1, 1, 1, 2);
    s->problem.context_gradient = attn_tensor_dense(s->context_gradient, ATTN_F32, 1, 1, 1, 1);
    s->problem.query_gradient = attn_tensor_dense(s->query_gradient, ATTN_F32, 1, 1, 1, 1);
    s->problem.key_gradient = attn_tensor_dense(s->key_gradient, ATTN_F32, 1, 1, 2, 1);
    s->problem.value_gradient = attn_tensor_dense(s->value_gradient, ATTN_F32, 1, 1, 2, 1);
    s->problem.mask_gradient = attn_tensor_dense(s->mask_gradient, ATTN_F32, 1, 1, 1, 2);
}

static void small_run(struct small *s)
{
    struct attn_gradient_plan plan;
    const char *where = "";
    assert_int_equal(attn_gradient_plan_init(&plan, &s->problem, &where), ATTN_OK);
    gradient_run(&plan, false);
}

static void expect_near(float got, double want)
{
    if (!(fabs((double)got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%.9g, want %.9g", (double)got, want);
}

/* The query is 0 and both keys are ln 2, whose tanh is 0.6. Both weights are 1/2, so the weights
 * have gradients 3 and 1, and the scores 1/2 and -1/2. With v = 2 a score changes by 2 (1 -
 * 0.36) with its key. What the query gets from the two scores cancels, and so does what v gets. */
TEST(additive_by_hand)
{
    const float weight[1] = { 2 };
    float weight_gradient[1] = { NAN };
    struct small s;
    small_init(&s, 0, logf(2), logf(2));
    s.problem.attention.additive_weight = weight;
    s.problem.additive_weight_gradient = weight_gradient;
    small_run(&s);
    expect_near(s.value_gradient[0], 0.5);
    expect_near(s.mask_gradient[0], 0.5);
    expect_near(s.mask_gradient[1], -0.5);
    expect_near(s.key_gradient[0], 0.64);
    expect_near(s.key_gradient[1], -0.64);
    expect_near(s.query_gradient[0], 0);
    expect_near(weight_gradient[0], 0);
    /* The second key is -ln 2: its tanh is -0.6 and the scores are 1.2 and -1.2. What v gets is
     * twice 0.6 times the first score's gradient P0 P1 (3 - 1). */
    small_init(&s, 0, logf(2), -logf(2));
    s.problem.attention.additive_weight = weight;
    s.problem.additive_weight_gradient = weight_gradient;
    small_run(&s);
    const double p = 1 / (1 + exp(-2.4)), score = 2 * p * (1 - p);
    expect_near(s.mask_gradient[0], score);
    expect_near(weight_gradient[0], 1.2 * score);
    expect_near(s.key_gradient[0], 1.28 * score);
    expect_near(s.key_gradient[1], -1.28 * score);
}

/* With scores 0.25 and 0 both keys are in the support, and the mean of the values 3 and 1 is 2.
 * With scores 4 and 0 one key has all the weight, and nothing changes that. */
TEST(sparsemax_by_hand)
{
    struct small s;
    small_init(&s, 0.25f, 1, 0);
    s.problem.attention.options.normalizer = ATTN_SPARSEMAX;
    small_run(&s);
    expect_near(s.value_gradient[0], 0.625);
    expect_near(s.value_gradient[1], 0.375);
    expect_near(s.mask_gradient[0], 1);
    expect_near(s.mask_gradient[1], -1);
    expect_near(s.query_gradient[0], 1);
    expect_near(s.key_gradient[0], 0.25);
    expect_near(s.key_gradient[1], -0.25);
    small_init(&s, 1, 4, 0);
    s.problem.attention.options.normalizer = ATTN_SPARSEMAX;
    small_run(&s);
    assert_true(s.value_gradient[0] == 1 && s.value_gradient[1] == 0);
    assert_true(s.mask_gradient[0] == 0 && s.mask_gradient[1] == 0);
    assert_true(s.query_gradient[0] == 0 && s.key_gradient[0] == 0 && s.key_gradient[1] == 0);
}

/* The query is 0, so three scores are equal, the sink's among them: weights 1/3, delta 4/3. The
 * sink gets -1/3 * 4/3. The second key is one further away, so a slope gets -(1/3) (1 - 4/3).
 * Sparsemax has the same weights; its mean over the support is the same 4/3, each slope 1. */
TEST(sinks_by_hand)
{
    const float sinks[1] = { 0 }, slopes[1] = { 0 };
    for (int sparse = 0; sparse < 2; sparse++) {
        float sinks_gradient[1] = { NAN }, slopes_gradient[1] = { NAN };
        struct small s;
        small_init(&s, 0, 1, 1);
        s.problem.attention.options.normalizer = sparse ? ATTN_SPARSEMAX : ATTN_SOFTMAX;
        s.problem.attention.sinks = sinks;
        s.problem.attention.alibi_slopes = slopes;
        s.problem.sinks_gradient = sinks_gradient;
        s.problem.alibi_slopes_gradient = slopes_gradient;
        small_run(&s);
        const double slope = sparse ? 1 : 1.0 / 3;
        expect_near(s.mask_gradient[0], slope * (3 - 4.0 / 3));
        expect_near(s.mask_gradient[1], slope * (1 - 4.0 / 3));
        expect_near(sinks_gradient[0], -slope * 4 / 3);
        expect_near(slopes_gradient[0], -slope * (1 - 4.0 / 3));
    }
}

/* -------------------------------------------------------------------- finite differences -- */

static void run_kind(unsigned kinds)
{
    static const struct attention_sizes small = { 2, 2, 1, 3, 5, 3, 2 };
    static const struct attention_sizes large = { 1, 1, 1, 70, 101, 3, 2 };
    gradient_run_variants(&small, kinds, 1, 1500);
    gradient_run_variants(&large, kinds, 6, 1900);
}

TEST(additive)
{
    run_kind(GRADIENT_ADDITIVE);
}

TEST(sparsemax)
{
    run_kind(GRADIENT_SPARSE);
}

TEST(both)
{
    run_kind(GRADIENT_ADDITIVE | GRADIENT_SPARSE);
}

/* ---------------------------------------------------------------------------- identities -- */

static const struct attention_sizes SIZES = { 1, 3, 1, 70, 110, 8, 4 };

/* The scores are larger than random numbers give, so that sparsemax has supports of all sizes. */
static void law_case(struct gradient_case *c, unsigned kinds, bool heads)
{
    static const int64_t whole[4] = { 1, 3, 70, 110 };
    gradient_case_init(c, &SIZES, LAYOUT_DENSE, 7);
    gradient_case_set_kinds(c, kinds, 8);
    gradient_case_add_mask(c, whole, 9);
    if (heads)
        gradient_case_add_heads(c, true, true, 10);
    c->forward.problem.options.scale = 1.5f;
    gradient_case_run(c, NULL);
}

static double sum_of(const struct attn_tensor *tensor, int64_t h, int64_t i)
{
    double sum = 0;
    for (int64_t j = 0; j < tensor->shape[3]; j++)
        sum += (double)*attention_at(tensor, 0, h, i, j);
    return sum;
}

/* Weights do not change when all scores of a row, its sink's included, change by the same
 * amount. The gradient of ALiBi's slopes is that of a mask, each number times -|p - k|. */
TEST(rows)
{
    struct gradient_case c;
    for (unsigned kinds = 0; kinds < 4; kinds++)
        for (int heads = 0; heads < 2; heads++) {
            law_case(&c, kinds, heads != 0);
            for (int64_t h = 0; h < 3; h++) {
                double all = 0, slope = 0;
                for (int64_t i = 0; i < 70; i++) {
                    const double sum = sum_of(&c.problem.mask_gradient, h, i);
                    assert_true(heads || fabs(sum) < 2e-6);
                    all += sum;
                    for (int64_t j = 0; heads && j < 110; j++)
                        slope -= (double)*attention_at(&c.problem.mask_gradient, 0, h, i, j)
                                 * fabs((double)(i - j));
                }
                if (heads) {
                    assert_true(fabs(all + (double)c.problem.sinks_gradient[h]) < 2e-5);
                    assert_true(fabs(slope - (double)c.problem.alibi_slopes_gradient[h])
                                < 1e-5 * (1 + fabs(slope)));
                }
            }
            attention_case_free(&c.forward);
        }
}

static double column_sum(const struct attn_tensor *tensor, int64_t d)
{
    double sum = 0;
    for (int64_t h = 0; h < tensor->shape[1]; h++)
        for (int64_t i = 0; i < tensor->shape[2]; i++)
            sum += (double)*attention_at(tensor, 0, h, i, d);
    return sum;
}

static double inner(const struct attn_tensor *a, const struct attn_tensor *b)
{
    double sum = 0;
    for (int64_t h = 0; h < a->shape[1]; h++)
        for (int64_t i = 0; i < a->shape[2]; i++)
            for (int64_t d = 0; d < a->shape[3]; d++)
                sum += (double)*attention_at(a, 0, h, i, d) * (double)*attention_at(b, 0, h, i, d);
    return sum;
}

/* A dot product is linear in the query and in the key: the inner product of each with its
 * gradient is the sum of score times gradient. An additive score does not change when the query
 * gains what the key loses, or the reverse, and it is linear in its weight. */
TEST(scores)
{
    struct gradient_case c;
    for (unsigned kinds = 0; kinds < 4; kinds++) {
        law_case(&c, kinds, false);
        const struct attn_problem *attention = &c.forward.problem;
        struct reference reference;
        double linear = 0;
        reference_attention(attention, &reference);
        for (int64_t row = 0; row < 3 * 70; row++)
            for (int64_t j = 0; j < 110; j++)
                linear +=
                    reference.scores[row * 110 + j]
                    * (double)*attention_at(&c.problem.mask_gradient, 0, row / 70, row % 70, j);
        reference_free(&reference);
        if (kinds & GRADIENT_ADDITIVE) {
            double weight = 0;
            for (int64_t d = 0; d < 8; d++) {
                assert_true(fabs(column_sum(&c.problem.query_gradient, d)
                                 - column_sum(&c.problem.key_gradient, d))
                            < 1e-5);
                weight += (double)attention->additive_weight[d]
                          * (double)c.problem.additive_weight_gradient[d];
            }
            assert_true(fabs(weight - linear) < 1e-5 * (1 + fabs(linear)));
        } else {
            const double query = inner(&attention->query, &c.problem.query_gradient);
            const double key = inner(&attention->key, &c.problem.key_gradient);
            assert_true(fabs(query - linear) < 1e-5 * (1 + fabs(linear)));
            assert_true(fabs(key - linear) < 1e-5 * (1 + fabs(linear)));
        }
        assert_true(fabs(linear) > 0.01);
        for (int64_t d = 0; d < 4; d++)
            assert_true(fabs(column_sum(&c.problem.value_gradient, d)
                             - column_sum(&c.problem.context_gradient, d))
                        < 1e-4);
        attention_case_free(&c.forward);
    }
}

/* ------------------------------------------------------------------------------- hidden -- */

static void poison(const struct attn_tensor *tensor, int64_t first)
{
    for (int64_t h = 0; h < tensor->shape[1]; h++)
        for (int64_t i = first; i < tensor->shape[2]; i++)
            for (int64_t d = 0; d < tensor->shape[3]; d++)
                *attention_at(tensor, 0, h, i, d) = (i + d) % 2 ? NAN : INFINITY;
}

static void expect_close(const struct attn_tensor *a, const struct attn_tensor *b, int64_t zero)
{
    for (int64_t h = 0; h < a->shape[1]; h++)
        for (int64_t i = 0; i < a->shape[2]; i++)
            for (int64_t d = 0; d < a->shape[3]; d++) {
                const double x = (double)*attention_at(a, 0, h, i, d);
                const double y = (double)*attention_at(b, 0, h, i, d);
                assert_true(i < zero ? fabs(x - y) <= 1e-6 : x == 0 && y == 0);
            }
}

static void expect_close_list(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        assert_true(fabs((double)a[i] - (double)b[i]) <= 1e-5);
}

/* Hidden keys and values, and the queries and gradients of rows that see nothing, may hold
 * anything: none of it reaches a gradient. */
TEST(poison)
{
    const struct attn_kernels *const *tables = kernel_tables();
    int64_t lengths[70];
    for (int i = 0; i < 70; i++)
        lengths[i] = i < 50 ? 90 : 0;
    for (int t = 0; tables[t] != NULL; t++)
        for (unsigned kinds = 1; kinds < 4; kinds++) {
            struct gradient_case clean, dirty;
            struct gradient_case *const both[2] = { &clean, &dirty };
            for (int k = 0; k < 2; k++) {
                gradient_case_init(both[k], &SIZES, LAYOUT_DENSE, 11);
                gradient_case_set_kinds(both[k], kinds, 12);
                gradient_case_add_heads(both[k], true, true, 13);
                both[k]->forward.problem.row_kv_len = lengths;
            }
            poison(&dirty.forward.problem.key, 90);
            poison(&dirty.forward.problem.value, 90);
            poison(&dirty.forward.problem.query, 50);
            poison(&dirty.problem.context_gradient, 50);
            gradient_case_run(&clean, tables[t]);
            gradient_case_run(&dirty, tables[t]);
            expect_close(&clean.problem.query_gradient, &dirty.problem.query_gradient, 50);
            expect_close(&clean.problem.key_gradient, &dirty.problem.key_gradient, 90);
            expect_close(&clean.problem.value_gradient, &dirty.problem.value_gradient, 90);
            expect_close_list(clean.problem.alibi_slopes_gradient,
                              dirty.problem.alibi_slopes_gradient, 3);
            expect_close_list(clean.problem.sinks_gradient, dirty.problem.sinks_gradient, 3);
            if (kinds & GRADIENT_ADDITIVE)
                expect_close_list(clean.problem.additive_weight_gradient,
                                  dirty.problem.additive_weight_gradient, 8);
            attention_case_free(&clean.forward);
            attention_case_free(&dirty.forward);
        }
}

/* No rows, no keys, and a sink alone: every gradient is 0. */
TEST(empty)
{
    static const struct attention_sizes empties[] = { { 1, 2, 1, 0, 9, 3, 2 },
                                                      { 1, 2, 1, 5, 0, 3, 2 } };
    for (size_t s = 0; s < 2; s++)
        for (unsigned kinds = 1; kinds < 4; kinds++) {
            struct gradient_case c;
            gradient_case_init(&c, &empties[s], LAYOUT_DENSE, 41);
            gradient_case_set_kinds(&c, kinds, 42);
            gradient_case_add_heads(&c, true, true, 43);
            gradient_case_run(&c, NULL);
            for (int64_t h = 0; h < 2; h++)
                assert_true(c.problem.alibi_slopes_gradient[h] == 0
                            && c.problem.sinks_gradient[h] == 0);
            for (int64_t d = 0; (kinds & GRADIENT_ADDITIVE) != 0 && d < 3; d++)
                assert_true(c.problem.additive_weight_gradient[d] == 0);
            for (int64_t d = 0; d < 3; d++)
                assert_true(column_sum(&c.problem.query_gradient, d) == 0
                            && column_sum(&c.problem.key_gradient, d) == 0);
            attention_case_free(&c.forward);
        }
}
