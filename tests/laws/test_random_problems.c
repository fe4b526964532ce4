/* SPDX-License-Identifier: Apache-2.0 */
/* test_random_problems.c - the laws, on problems of every kind drawn from a seed.
 *
 * One of many random problems shows what a chosen case does not: a mask that is read and not
 * used, a cap after the mask, a causal line in the wrong place, heads of a group in the wrong
 * order. ATTND_TEST_PROBLEMS says how many problems; a failure names its seed. */
#include "kernel_tables.h"
#include "problem_count.h"
#include "random_case.h"
#include "test.h"

#include <inttypes.h>

enum { USUAL = 500 };

static const enum attn_dtype FLOATS[] = { ATTN_F32 };
static const struct random_dtypes DTYPES = { FLOATS, 1 };

typedef void (*law_fn)(struct attention_case *c, uint64_t seed);

/* The tables take turns. */
static void for_problems(uint64_t first, law_fn law)
{
    for (uint64_t n = 0; n < problem_count(USUAL); n++) {
        struct attention_case c;
        random_case(&c, first + n, &DTYPES);
        c.problem.kernels = kernel_table_of_turn(n);
        law(&c, first + n);
        attention_case_free(&c);
    }
}

/* ---------------------------------------------------------------- the formulas -- */

static void check_reference(struct attention_case *c, uint64_t seed)
{
    struct reference reference;
    attention_case_outputs(c, OUT_ALL, seed % 2 ? LAYOUT_ROWS : LAYOUT_GAPS);
    attention_run(&c->problem);
    reference_attention(&c->problem, &reference);
    if (attention_compare(&c->problem, &reference, 4e-6) > 0)
        fail_msg("seed %" PRIu64 " on %s", seed, attn_kernels_name(c->problem.kernels));
    reference_free(&reference);
}

TEST(reference)
{
    for_problems(100000, check_reference);
}

/* --------------------------------------------------------------- sums and bounds -- */

/* A row of softmax and its sink share 1. Keys that the masks leave out have exactly nothing; the
 * weights of the others are within what a softmax can give. */
static void check_row(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i,
                      uint64_t seed)
{
    const float lse = *attention_at(&problem->lse, b, h, i, 0);
    const float sink = problem->sinks != NULL ? problem->sinks[h] : -INFINITY;
    double sum = sink == -INFINITY ? 0 : exp((double)sink - (double)lse);
    bool is_seen = sink != -INFINITY;
    for (int64_t j = 0; j < problem->key.shape[2]; j++) {
        const float weight = *attention_at(&problem->weights, b, h, i, j);
        const float masked = *attention_at(&problem->masked, b, h, i, j);
        if (masked == -INFINITY ? weight != 0.0f : !(weight >= 0.0f && weight <= 1.000001f))
            fail_msg("seed %" PRIu64 ": weight %.9g of masked score %.9g", seed, (double)weight,
                     (double)masked);
        is_seen = is_seen || masked != -INFINITY;
        sum += (double)weight;
    }
    const bool is_sparse = problem->options.normalizer == ATTN_SPARSEMAX;
    if (is_sparse ? sum > 1 + 1e-5 && sink == -INFINITY : fabs(sum - (is_seen ? 1 : 0)) > 1e-5)
        fail_msg("seed %" PRIu64 ": weights of a row sum to %.9g", seed, sum);
    if (is_seen == (lse == -INFINITY))
        fail_msg("seed %" PRIu64 ": lse %.9g", seed, (double)lse);
}

static void check_rows(struct attention_case *c, uint64_t seed)
{
    const int64_t *query = c->problem.query.shape;
    attention_case_outputs(c, OUT_LSE | OUT_MASKED | OUT_WEIGHTS, LAYOUT_DENSE);
    attention_run(&c->problem);
    for (int64_t b = 0; b < query[0]; b++)
        for (int64_t h = 0; h < query[1]; h++)
            for (int64_t i = 0; i < query[2]; i++)
                check_row(&c->problem, b, h, i, seed);
}

TEST(rows)
{
    for_problems(200000, check_rows);
}

/* ---------------------------------------------------------------------- equal bits -- */

static void expect_same(struct attn_problem *a, struct attn_problem *b, uint64_t seed)
{
    for (int o = 0; o < OUT_COUNT; o++) {
        const struct attn_tensor *x = attention_output(a, o), *y = attention_output(b, o);
        if (x->data != NULL && y->data != NULL && attention_differing_bits(x, y) > 0)
            fail_msg("seed %" PRIu64 ": other bits of %s", seed, attention_output_name(o));
    }
}

/* Asks for any outputs alone and runs the tasks from the last to the first. The bits are those
 * of a call for all outputs with its tasks in order. */
static void check_any_outputs(struct attention_case *c, uint64_t seed)
{
    struct attn_plan plan;
    const char *where;
    void *workspace;
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c->problem);
    struct attn_problem whole = c->problem;
    attention_case_outputs(c, 1 + (unsigned)(seed % OUT_ALL), LAYOUT_GAPS);
    assert_int_equal(attn_plan_init(&plan, &c->problem, &where), ATTN_OK);
    struct guard_buffer buffer = attention_workspace(&plan, 0xFF, &workspace);
    for (int64_t task = plan.task_count - 1; task >= 0; task--)
        attn_plan_run(&plan, task, workspace);
    guard_free(&buffer);
    expect_same(&c->problem, &whole, seed);
}

TEST(any_outputs)
{
    for_problems(300000, check_any_outputs);
}

/* Key/value head g serves the query heads of group g, which stand side by side. Nothing changes
 * if each of them gets a copy of head g. */
static struct attn_tensor repeat_heads(struct attention_case *c, const struct attn_tensor *tensor,
                                       int64_t q_heads)
{
    const int64_t *shape = tensor->shape;
    struct attn_tensor all =
        attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, shape[0], q_heads, shape[2], shape[3]);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < q_heads; h++)
            for (int64_t l = 0; l < shape[2]; l++)
                memcpy(attention_at(&all, b, h, l, 0),
                       attention_at(tensor, b, h / (q_heads / shape[1]), l, 0),
                       (size_t)shape[3] * sizeof(float));
    return all;
}

static void check_groups(struct attention_case *c, uint64_t seed)
{
    const int64_t q_heads = c->problem.query.shape[1];
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
    attention_run(&c->problem);
    struct attn_problem grouped = c->problem;
    c->problem.key = repeat_heads(c, &grouped.key, q_heads);
    c->problem.value = repeat_heads(c, &grouped.value, q_heads);
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_ROWS);
    attention_run(&c->problem);
    expect_same(&c->problem, &grouped, seed);
}

TEST(groups)
{
    for_problems(400000, check_groups);
}

/* ONNX's 3-D tensors, [batch, length, heads * head_dim]: the heads of a row stand side by side. */
TEST(rows_of_heads)
{
    enum { BATCH = 2, HEADS = 3, LENGTH = 5, DIM = 4, STRIDE = HEADS * DIM + 1 };
    float numbers[BATCH * LENGTH * STRIDE];
    struct attn_tensor rows =
        attn_tensor_rows(numbers, ATTN_F32, BATCH, HEADS, LENGTH, DIM, STRIDE);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t l = 0; l < LENGTH; l++)
                for (int64_t d = 0; d < DIM; d++)
                    assert_ptr_equal(attention_at(&rows, b, h, l, d),
                                     &numbers[(b * LENGTH + l) * STRIDE + h * DIM + d]);
}

/* -------------------------------------------------------------------------- hiding -- */

/* One float mask that spells out all that hides a pair, and all that is added to its score. */
static struct attn_tensor spelled_out(struct attention_case *c, const struct attn_problem *problem)
{
    const int64_t *shape = problem->masked.shape;
    struct attn_tensor mask =
        attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, shape[0], shape[1], shape[2], shape[3]);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t i = 0; i < shape[2]; i++)
                for (int64_t j = 0; j < shape[3]; j++)
                    *attention_at(&mask, b, h, i, j) =
                        *attention_at(&problem->masked, b, h, i, j) == -INFINITY ? -INFINITY : 0;
    return mask;
}

/* What no pair may see may hold anything. The masked scores say which pairs are hidden. The call
 * runs again with that mask alone, and with NaN in the values of keys that no query sees: the
 * answer is the same. */
static void check_hidden(struct attention_case *c, uint64_t seed)
{
    struct attn_problem *problem = &c->problem;
    problem->alibi_slopes = NULL;
    if (problem->mask.data != NULL && problem->mask.dtype != ATTN_BOOL)
        problem->mask.data = NULL; /* it adds to the scores, too */
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE | OUT_MASKED, LAYOUT_DENSE);
    attention_run(problem);
    struct attn_problem hidden = *problem;
    problem->masking =
        (struct attn_masking){ .mask = spelled_out(c, &hidden), .sinks = hidden.sinks };
    problem->past_len = NULL;
    problem->options.causal = false;
    problem->options.window_left = problem->options.window_right = -1;
    problem->options.chunk = 0;
    const int64_t group = problem->query.shape[1] / problem->key.shape[1];
    for (int64_t b = 0; b < problem->key.shape[0]; b++)
        for (int64_t j = 0; j < problem->key.shape[2]; j++)
            for (int64_t g = 0; g < problem->key.shape[1]; g++) {
                bool is_seen = false;
                for (int64_t h = g * group; h < (g + 1) * group; h++)
                    for (int64_t i = 0; i < problem->query.shape[2]; i++)
                        is_seen = is_seen || *attention_at(&problem->mask, b, h, i, j) == 0;
                if (!is_seen)
                    *attention_at(&problem->value, b, g, j, 0) = NAN;
            }
    attention_case_outputs(c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
    attention_run(problem);
    struct reference reference;
    hidden.masked.data = NULL;
    reference_attention(problem, &reference);
    if (attention_compare(&hidden, &reference, 4e-6) > 0
        || attention_compare(problem, &reference, 4e-6) > 0)
        fail_msg("seed %" PRIu64, seed);
    reference_free(&reference);
}

TEST(hidden)
{
    for_problems(500000, check_hidden);
}
