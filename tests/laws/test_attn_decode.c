/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_decode.c - few query rows over many keys, against the textbook in double. The bits
 * must not depend on how the work is divided.
 *
 * The problems are random and of every kind. Their keys make several chunks of several tiles,
 * their heads and columns go around the vector's length, and every table of kernels runs them. */
#include "kernel_tables.h"
#include "problem_count.h"
#include "random_case.h"
#include "test.h"

static const enum attn_dtype FLOATS[] = { ATTN_F32 };
static const enum attn_dtype NARROW[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
static const struct random_dtypes F32_ONLY = { FLOATS, 1 };
static const struct random_dtypes DTYPES = { NARROW, 3 };

static void decode_case(struct attention_case *c, uint64_t seed, const struct random_dtypes *dtypes,
                        const struct attn_kernels *kernels)
{
    static const int64_t columns[] = { 16, 17, 24, 31, 32, 33, 64, 65, 80, 128, 300 };
    struct fill fill = { seed };
    const int64_t kv_heads = 1 + fill_below(&fill, 2);
    const struct attention_sizes sizes = {
        .batch = 1 + fill_below(&fill, 2),
        .q_heads = kv_heads * (1 + fill_below(&fill, 6)),
        .kv_heads = kv_heads,
        .q_len = 1 + fill_below(&fill, 16),
        .kv_len = random_chance(&fill, 4) ? fill_below(&fill, 40) : fill_below(&fill, 1100),
        .head_dim = columns[fill_below(&fill, 11)],
        .v_head_dim = columns[fill_below(&fill, 11)],
    };
    random_case_sized(c, seed, &fill, &sizes, dtypes);
    c->problem.options.dropout = random_chance(&fill, 5) ? 0.25f : 0.0f;
    c->problem.kernels = kernels;
}

static void for_seeds(uint64_t count, void (*check)(uint64_t, const struct attn_kernels *))
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (uint64_t seed = 0; seed < problem_count(count); seed++)
            check(seed, *k);
}

static void check_numbers(uint64_t seed, const struct attn_kernels *kernels)
{
    struct attention_case c;
    struct reference reference;

    decode_case(&c, seed, &F32_ONLY, kernels);
    c.problem.options.dropout = 0;
    attention_case_outputs(&c, OUT_ALL, seed % 2 ? LAYOUT_GAPS : LAYOUT_DENSE);
    attention_run(&c.problem);
    reference_attention(&c.problem, &reference);
    if (attention_compare(&c.problem, &reference, 2e-5) > 0)
        fail_msg("%s, seed %d", attn_kernels_name(kernels), (int)seed);
    reference_free(&reference);
    attention_case_free(&c);
}

TEST(numbers)
{
    for_seeds(60, check_numbers);
}

/* ------------------------------------------------------------------------------- parts -- */

/* Runs the parts from the last to the first, each in a workspace full of NaN, then the joins. */
static void run_parts(const struct attn_problem *problem)
{
    struct attn_plan plan;
    assert_int_equal(attn_plan_init(&plan, problem, NULL), ATTN_OK);
    if (plan.part_count == 0) {
        attention_run(problem);
        return;
    }
    struct guard_buffer shared = guard_alloc((plan.shared_bytes + 63) / 64 * 64);
    memset(shared.data, 0xFF, plan.shared_bytes);
    void *workspace;
    struct guard_buffer buffer = attention_workspace(&plan, 0xFF, &workspace);
    for (int64_t part = plan.part_count - 1; part >= 0; part--) {
        memset(workspace, 0xFF, plan.workspace_bytes);
        attn_plan_run_part(&plan, part, shared.data, workspace);
    }
    for (int64_t task = plan.task_count - 1; task >= 0; task--) {
        memset(workspace, 0xFF, plan.workspace_bytes);
        attn_plan_run_join(&plan, task, shared.data, workspace);
    }
    guard_free(&buffer);
    guard_free(&shared);
}

static void expect_same(struct attn_problem *a, struct attn_problem *b, uint64_t seed,
                        const char *what)
{
    for (int i = 0; i < OUT_COUNT; i++) {
        const struct attn_tensor *x = attention_output(a, i), *y = attention_output(b, i);
        if (x->data != NULL && y->data != NULL && attention_differing_bits(x, y) > 0)
            fail_msg("%s, seed %d, %s: %s has other bits", attn_kernels_name(a->kernels), (int)seed,
                     attention_output_name(i), what);
    }
}

static void check_divided(uint64_t seed, const struct attn_kernels *kernels)
{
    struct attention_case c;

    decode_case(&c, seed, &DTYPES, kernels);
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    struct attn_problem whole = c.problem;
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    run_parts(&c.problem);
    expect_same(&whole, &c.problem, seed, "in parts");
    attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
    run_parts(&c.problem);
    expect_same(&whole, &c.problem, seed, "alone");
    attention_case_free(&c);
}

TEST(divided)
{
    for_seeds(60, check_divided);
}

/* The keys are enough for several chunks. A query head that runs alone answers as in its group. */
TEST(heads)
{
    const struct attention_sizes sizes = { 1, 6, 2, 3, 1000, 300, 257 };
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++) {
        struct attention_case c;
        attention_case_init(&c, &sizes, LAYOUT_DENSE, 3);
        c.problem.kernels = *k;
        attention_case_outputs(&c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
        run_parts(&c.problem);
        struct attn_plan plan;
        assert_int_equal(attn_plan_init(&plan, &c.problem, NULL), ATTN_OK);
        assert_true(plan.part_count > plan.task_count);
        for (int64_t head = 0; head < sizes.q_heads; head++) {
            struct attention_case one = c;
            const int64_t kv_head = head / 3;
            one.problem.query.data = attention_at(&c.problem.query, 0, head, 0, 0);
            one.problem.key.data = attention_at(&c.problem.key, 0, kv_head, 0, 0);
            one.problem.value.data = attention_at(&c.problem.value, 0, kv_head, 0, 0);
            one.problem.query.shape[1] = 1;
            one.problem.key.shape[1] = one.problem.value.shape[1] = 1;
            struct attn_problem part = c.problem;
            part.context.data = attention_at(&c.problem.context, 0, head, 0, 0);
            part.context.shape[1] = 1;
            one.problem.lse.data = NULL;
            one.buffer_count = 0;
            one.problem.context = attention_case_tensor(&one, ATTN_F32, LAYOUT_DENSE, 1, 1, 3, 257);
            attention_run(&one.problem);
            assert_int_equal(attention_differing_bits(&one.problem.context, &part.context), 0);
            attention_case_free(&one);
        }
        attention_case_free(&c);
    }
}

/* The last causal row sees all that the others see. It answers as it does alone. */
TEST(last_row)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int64_t kv_len = 3; kv_len < 1100; kv_len += 7) {
            if (!problem_is_tried((uint64_t)kv_len))
                continue;
            const int64_t rows = 2 + kv_len % 2;
            const struct attention_sizes sizes = { 1, 2, 1, rows, kv_len, 64, 64 };
            struct attention_case c;
            attention_case_init(&c, &sizes, LAYOUT_DENSE, (uint64_t)kv_len);
            c.problem.kernels = *k;
            c.problem.options.causal = true;
            c.problem.kv_offset = rows - kv_len;
            attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
            attention_run(&c.problem);
            struct attention_case one = c;
            one.problem.query.data = attention_at(&c.problem.query, 0, 0, rows - 1, 0);
            one.problem.query.shape[2] = 1;
            one.problem.kv_offset = 1 - kv_len;
            struct attn_problem last = c.problem;
            last.context.data = attention_at(&c.problem.context, 0, 0, rows - 1, 0);
            last.context.shape[2] = 1;
            one.buffer_count = 0;
            one.problem.context = attention_case_tensor(&one, ATTN_F32, LAYOUT_DENSE, 1, 2, 1, 64);
            attention_run(&one.problem);
            if (attention_differing_bits(&one.problem.context, &last.context) > 0)
                fail_msg("%s, %d rows of %d keys", attn_kernels_name(*k), (int)rows, (int)kv_len);
            attention_case_free(&one);
            attention_case_free(&c);
        }
}

/* A layer runs the parts as one stage and the joins as another. */
TEST(layer)
{
    const struct attention_sizes sizes = { 1, 4, 2, 2, 2500, 64, 80 };
    const struct attn_layer layer = {
        .q_heads = 4, .kv_heads = 2, .head_dim = 64, .v_head_dim = 80
    };
    struct attention_case c;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 9);
    attention_case_outputs(&c, OUT_CONTEXT | OUT_LSE, LAYOUT_ROWS);
    attention_run(&c.problem);
    float *context = attention_case_alloc(&c, 4 * 2 * 80 * sizeof *context);
    float *lse = attention_case_alloc(&c, 4 * 2 * sizeof *lse);
    const struct attn_layer_problem problem = { .layer = &layer,
                                                .options = c.problem.options,
                                                .query = c.problem.query,
                                                .key = c.problem.key,
                                                .value = c.problem.value,
                                                .context = context,
                                                .lse = lse };
    struct attn_layer_plan plan;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, NULL), ATTN_OK);
    assert_int_equal(plan.stage_count, 2);
    assert_true(plan.task_count[0] > plan.task_count[1]);
    attention_run_layer(&problem);
    const struct attn_tensor got = attn_tensor_rows(context, ATTN_F32, 1, 4, 2, 80, 320);
    assert_int_equal(attention_differing_bits(&got, &c.problem.context), 0);
    const struct attn_tensor got_lse = attn_tensor_dense(lse, ATTN_F32, 1, 4, 2, 1);
    assert_int_equal(attention_differing_bits(&got_lse, &c.problem.lse), 0);
    attention_case_free(&c);
}
