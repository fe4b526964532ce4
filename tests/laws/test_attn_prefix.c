/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_prefix.c - with is_prefix_stable a causal row keeps its bits when rows and keys are put
 * behind it, however many: few rows are computed as many are, and sums have one order. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "test.h"

enum { HEADS = 2, LENGTH = 260, LONG_LENGTH = 900 };

static const int64_t LENGTHS[] = { 1,  2,  3,  5,  15, 16,  17,  18,  31,  63,
                                   66, 95, 96, 97, 99, 129, 130, 191, 255, 259 };
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof LENGTHS[0] };

/* The first rows and keys of the whole problem, with outputs of their own in c. */
static void make_prefix(struct attention_case *c, const struct attn_problem *whole, int64_t length)
{
    const struct attention_sizes sizes = { 1, HEADS, 1, 1, 1, 1, 1 };
    attention_case_init(c, &sizes, LAYOUT_DENSE, 1);
    c->problem = *whole;
    c->problem.query.shape[2] = c->problem.key.shape[2] = c->problem.value.shape[2] = length;
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
}

/* Columns of a row that both problems have. */
static int64_t columns_of(const struct attn_tensor *output, int index, int64_t row)
{
    return attn_output_is_map(index) ? row + 1 : output->shape[3];
}

static void expect_prefix(struct attn_problem *whole, int64_t length)
{
    struct attention_case c;
    make_prefix(&c, whole, length);
    attention_run(&c.problem);
    for (int i = 0; i < OUT_COUNT; i++) {
        const struct attn_tensor *got = attention_output(&c.problem, i);
        const struct attn_tensor *want = attention_output(whole, i);
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t row = 0; row < length; row++)
                if (memcmp(attention_at(got, 0, h, row, 0), attention_at(want, 0, h, row, 0),
                           (size_t)columns_of(got, i, row) * sizeof(float))
                    != 0)
                    fail_msg("%s: row %d of %d has other bits in a longer problem",
                             attention_output_name(i), (int)row, (int)length);
    }
    attention_case_free(&c);
}

typedef void (*option_fn)(struct attn_problem *problem);

static void check(int64_t whole_length, int64_t head_dim, const struct attn_kernels *kernels,
                  option_fn set)
{
    const struct attention_sizes sizes = { 1,        HEADS,   1, whole_length, whole_length,
                                           head_dim, head_dim };
    struct attention_case c;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 7);
    c.problem.kernels = kernels;
    c.problem.options.causal = true;
    c.problem.options.is_prefix_stable = true;
    c.problem.options.scale = 1.5;
    if (set)
        set(&c.problem);
    attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c.problem);
    for (int i = 0; i < LENGTH_COUNT; i++)
        expect_prefix(&c.problem, LENGTHS[i]);
    if (whole_length == LONG_LENGTH)
        expect_prefix(&c.problem, LONG_LENGTH - 3);
    attention_case_free(&c);
}

static void for_all(option_fn set)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int64_t head_dim = 4; head_dim <= 64; head_dim *= 4)
            check(LENGTH, head_dim, *k, set);
}

static void set_window(struct attn_problem *problem)
{
    problem->options.window_left = 37;
}

static void set_softcap(struct attn_problem *problem)
{
    problem->options.softcap = 3;
}

static void set_alibi(struct attn_problem *problem)
{
    static const float SLOPES[HEADS] = { 0.5f, 0.03125f };
    problem->alibi_slopes = SLOPES;
}

static void set_sinks(struct attn_problem *problem)
{
    static const float SINKS[HEADS] = { 0.25f, -1 };
    problem->sinks = SINKS;
}

TEST(plain)
{
    for_all(NULL);
}

TEST(options)
{
    for_all(set_window);
    for_all(set_softcap);
    for_all(set_alibi);
    for_all(set_sinks);
}

/* So many keys that sums are compensated, which those of a short prefix are not. */
TEST(long)
{
    check(LONG_LENGTH, 16, NULL, NULL);
    check(LONG_LENGTH, 16, NULL, set_window);
}
