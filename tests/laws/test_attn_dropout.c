/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_dropout.c - what is true of dropout whatever the numbers.
 *
 * Which weights are dropped must not depend on kernels, tiles, tasks, outputs or on how the keys
 * are cut into parts; what is left must be the weights without dropout, scaled. */
#include "attention_case.h"
#include "base/random.h"
#include "kernel_tables.h"
#include "merge.h"
#include "test.h"

static const double TOLERANCE = 4e-6;

static const struct attention_sizes SIZES = { 2, 4, 2, 67, 130, 16, 9 };

static void make(struct attention_case *c, const struct attn_kernels *kernels, float dropout,
                 uint64_t seed)
{
    attention_case_init(c, &SIZES, LAYOUT_DENSE, 31);
    c->problem.kernels = kernels;
    c->problem.options.dropout = dropout;
    c->problem.options.seed = seed;
    c->problem.options.window_left = 100;
}

/* By the definition: compares the word of the pair's counter with dropout's share of 2^32. */
static bool is_dropped(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i,
                       int64_t j)
{
    const uint64_t k = (uint64_t)(problem->kv_offset + j);
    uint32_t words[4];
    attn_philox(problem->options.seed, (uint64_t)i << 32 | (k / 4 & 0xffffffff),
                (uint64_t)b << 32 | (uint64_t)h, words);
    return (double)words[k % 4] < floor((double)problem->options.dropout * 0x1p32);
}

/* Each weight of one row is that of the plain call, dropped or scaled, and the context is made
 * of the weights that are left. Returns how many of the weights that are not 0 were dropped. */
static int64_t check_row(struct attention_case *c, const struct attn_problem *plain, int64_t b,
                         int64_t h, int64_t i)
{
    const double kept = 1 / (1 - (double)c->problem.options.dropout);
    double context[9] = { 0 };
    int64_t dropped = 0;
    for (int64_t j = 0; j < SIZES.kv_len; j++) {
        const double weight = (double)*attention_at(&c->problem.weights, b, h, i, j);
        const double was = (double)*attention_at(&plain->weights, b, h, i, j);
        const bool drops = is_dropped(&c->problem, b, h, i, j);
        assert_true(drops ? weight == 0 : fabs(weight - kept * was) <= TOLERANCE * kept * was);
        dropped += drops && was > 0;
        for (int64_t d = 0; d < SIZES.v_head_dim; d++)
            context[d] += weight * (double)*attention_at(&c->problem.value, b, h / 2, j, d);
    }
    for (int64_t d = 0; d < SIZES.v_head_dim; d++)
        assert_true(fabs((double)*attention_at(&c->problem.context, b, h, i, d) - context[d])
                    <= TOLERANCE * kept);
    return dropped;
}

static void check_against_plain(const struct attn_kernels *kernels, float dropout, uint64_t seed)
{
    struct attention_case c;
    int64_t dropped = 0, alive = 0;
    make(&c, kernels, 0.0f, seed);
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    const struct attn_problem plain = c.problem;
    c.problem.options.dropout = dropout;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    assert_int_equal(attention_differing_bits(&c.problem.lse, &plain.lse), 0);
    assert_int_equal(attention_differing_bits(&c.problem.masked, &plain.masked), 0);
    for (int64_t b = 0; b < SIZES.batch; b++)
        for (int64_t h = 0; h < SIZES.q_heads; h++)
            for (int64_t i = 0; i < SIZES.q_len; i++) {
                dropped += check_row(&c, &plain, b, h, i);
                for (int64_t j = 0; j < SIZES.kv_len; j++)
                    alive += *attention_at(&plain.weights, b, h, i, j) > 0;
            }
    /* Allows five standard deviations of so many independent draws. */
    const double mean = (double)alive * (double)dropout;
    assert_true(fabs((double)dropped - mean) <= 5 * sqrt(mean * (1 - (double)dropout)));
    attention_case_free(&c);
}

TEST(against_plain)
{
    static const float rates[] = { 0.1f, 0.5f, 0.9f };
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (uint64_t i = 0; i < 3; i++)
            check_against_plain(*k, rates[i], i * UINT64_C(0x123456789ABCDEF));
}

/* A call for the context alone takes no map, and its tiles begin elsewhere. Tasks run backwards. */
TEST(bits)
{
    struct attention_case c;
    struct attn_plan plan;
    void *workspace;
    make(&c, NULL, 0.3f, 7);
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    const struct attn_problem whole = c.problem;
    attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
    assert_int_equal(attn_plan_init(&plan, &c.problem, NULL), ATTN_OK);
    struct guard_buffer buffer = attention_workspace(&plan, 0x7F, &workspace);
    for (int64_t task = plan.task_count - 1; task >= 0; task--)
        attn_plan_run(&plan, task, workspace);
    guard_free(&buffer);
    assert_int_equal(attention_differing_bits(&c.problem.context, &whole.context), 0);
    c.problem.options.seed = 8; /* another seed drops other weights */
    attention_case_outputs(&c, OUT_WEIGHTS, LAYOUT_DENSE);
    attention_run(&c.problem);
    int64_t differing = 0;
    for (int64_t j = 0; j < SIZES.kv_len; j++)
        differing += (*attention_at(&c.problem.weights, 1, 3, 66, j) == 0)
                     != (*attention_at(&whole.weights, 1, 3, 66, j) == 0);
    assert_true(differing > 20);
    attention_case_free(&c);
}

/* Runs attention over keys [first, end) of batch item 0; writes context and lse. */
static void run_part(const struct attn_problem *whole, int64_t first, int64_t end, float *context,
                     float *lse)
{
    struct attn_problem part = *whole;
    part.key.data = attention_at(&part.key, 0, 0, first, 0);
    part.value.data = attention_at(&part.value, 0, 0, first, 0);
    part.query.shape[0] = part.key.shape[0] = part.value.shape[0] = 1;
    part.key.shape[2] = part.value.shape[2] = end - first;
    part.kv_offset += first;
    part.context = attn_tensor_dense(context, ATTN_F32, 1, SIZES.q_heads, SIZES.q_len, 9);
    part.lse = attn_tensor_dense(lse, ATTN_F32, 1, SIZES.q_heads, SIZES.q_len, 1);
    attention_run(&part);
}

TEST(parts)
{
    enum { ROWS = 4 * 67, COLUMNS = 9 };
    static float context[3][ROWS * COLUMNS], lse[3][ROWS], merged[ROWS * COLUMNS];
    struct attention_case c;
    double weights[3];
    make(&c, NULL, 0.4f, 99);
    c.problem.kv_offset = -3;
    run_part(&c.problem, 0, 130, context[0], lse[0]);
    memcpy(merged, context[0], sizeof merged);
    run_part(&c.problem, 0, 30, context[0], lse[0]);
    run_part(&c.problem, 30, 101, context[1], lse[1]);
    run_part(&c.problem, 101, 130, context[2], lse[2]);
    const struct attn_part parts[3] = { { context[0], lse[0] },
                                        { context[1], lse[1] },
                                        { context[2], lse[2] } };
    static float again[ROWS * COLUMNS];
    attn_merge(parts, 3, 0, ROWS, COLUMNS, again, COLUMNS, NULL, weights);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(fabsf(again[i] - merged[i]) <= 1e-5f);
    attention_case_free(&c);
}

TEST(bad_rates)
{
    static const float rates[] = { -0.1f, 1.0f, NAN, INFINITY };
    struct attention_case c;
    struct attn_plan plan;
    for (int i = 0; i < 4; i++) {
        const char *where = "nothing";
        make(&c, NULL, rates[i], 0);
        assert_int_equal(attn_plan_init(&plan, &c.problem, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, "options.dropout");
        attention_case_free(&c);
    }
}

/* What a dropped value holds does not count, NaN included. */
TEST(dropped_poison)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++) {
        struct attention_case c;
        make(&c, *k, 0.5f, 3);
        for (int64_t d = 0; d < SIZES.v_head_dim; d++)
            *attention_at(&c.problem.value, 0, 0, 40, d) = NAN;
        attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
        attention_run(&c.problem);
        for (int64_t h = 0; h < 2; h++)
            for (int64_t i = 0; i < SIZES.q_len; i++)
                assert_int_equal(!isnan(*attention_at(&c.problem.context, 0, h, i, 0)),
                                 is_dropped(&c.problem, 0, h, i, 40));
        attention_case_free(&c);
    }
}
