/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_bits.c - equal inputs give equal bits.
 *
 * The bits do not depend on the order of the tasks, the threads that run them, the old contents
 * of a workspace, the outputs that are asked for, the other items of the batch, or the layout of
 * the numbers in memory. And only one task writes each element of an output. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "problem_count.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

/* Several query tiles, a ragged last one, several key tiles, groups of heads. */
static const struct attention_sizes SIZES[] = {
    { 2, 4, 2, 130, 161, 24, 17 },
    { 1, 3, 1, 37, 300, 64, 64 },
    { 3, 2, 2, 1, 97, 16, 8 },
};

enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

/* A call with every kind of option: causal, past, a mask with -inf, softcap. */
static void make_case(struct attention_case *c, const struct attention_sizes *sizes,
                      enum attention_layout layout, const struct attn_kernels *kernels)
{
    struct fill fill = { 5 };
    attention_case_init(c, sizes, layout, 77);
    struct attn_problem *problem = &c->problem;
    problem->kernels = kernels;
    problem->options.causal = true;
    problem->options.softcap = 3.0f;
    problem->mask = attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, 1, sizes->q_heads,
                                          sizes->q_len, sizes->kv_len);
    float *mask = problem->mask.data;
    for (int64_t i = 0; i < sizes->q_heads * sizes->q_len * sizes->kv_len; i++) {
        const float number = fill_float(&fill, -3, 3);
        mask[i] = number < -2.0f ? -INFINITY : number;
    }
    int64_t *past = attention_case_alloc(c, (size_t)sizes->batch * sizeof *past);
    for (int64_t b = 0; b < sizes->batch; b++)
        past[b] = sizes->kv_len / 2; /* the same for every item, so that one item can run alone */
    problem->past_len = past;
}

static void expect_equal_outputs(struct attn_problem *a, struct attn_problem *b, const char *what)
{
    for (int i = 0; i < OUT_COUNT; i++) {
        const struct attn_tensor *x = attention_output(a, i), *y = attention_output(b, i);
        if (x->data == NULL || y->data == NULL)
            continue;
        if (attention_differing_bits(x, y) > 0)
            fail_msg("%s: %s has other bits", what, attention_output_name(i));
    }
}

typedef void (*check_fn)(struct attention_case *c, struct attn_problem *want,
                         const struct attention_sizes *sizes);

/* Computes the outputs of each case once, and gives check the case and that problem. */
static void for_sizes(unsigned outputs, check_fn check, const struct attn_kernels *kernels,
                      enum attn_dtype precision)
{
    /* Double skips the first size: the second tests the same in fewer tasks. */
    static uint64_t n;
    for (int s = precision == ATTN_F64 ? 1 : 0; s < SIZE_COUNT; s++) {
        struct attention_case c;
        if (!problem_is_tried(n++))
            continue;
        make_case(&c, &SIZES[s], LAYOUT_DENSE, kernels);
        c.problem.options.softmax_precision = precision;
        attention_case_outputs(&c, outputs, LAYOUT_DENSE);
        attention_run(&c.problem);
        struct attn_problem want = c.problem;
        attention_case_outputs(&c, outputs, LAYOUT_DENSE);
        check(&c, &want, &SIZES[s]);
        attention_case_free(&c);
    }
}

static void for_all(unsigned outputs, check_fn check)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for_sizes(outputs, check, *k, ATTN_F32);
    for_sizes(outputs, check, NULL, ATTN_F64);
}

/* ---------------------------------------------------- tasks, workspaces -- */

static void fill_memory(struct fill *fill, void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        const uint64_t bits = fill_bits(fill);
        memcpy((char *)memory + at, &bits, bytes - at < sizeof bits ? bytes - at : sizeof bits);
    }
}

static void check_order(struct attention_case *c, struct attn_problem *want,
                        const struct attention_sizes *sizes)
{
    (void)sizes;
    struct attn_plan plan;
    assert_int_equal(attn_plan_init(&plan, &c->problem, NULL), ATTN_OK);
    assert_true(plan.task_count > 0);
    for (int round = 0; round < 3; round++) {
        void *workspace;
        struct guard_buffer buffer = attention_workspace(&plan, 0x3F, &workspace);
        struct fill fill = { (uint64_t)round };
        for (int64_t i = 0; i < plan.task_count; i++) {
            const int64_t last = plan.task_count - 1 - i;
            const int64_t task = round == 0   ? last
                                 : round == 1 ? (i % 2 == 0 ? i / 2 : plan.task_count - 1 - i / 2)
                                              : i;
            fill_memory(&fill, workspace, plan.workspace_bytes);
            attn_plan_run(&plan, task, workspace);
        }
        guard_free(&buffer);
        expect_equal_outputs(&c->problem, want, "tasks in another order");
    }
}

TEST(order_and_workspace)
{
    for_all(OUT_ALL, check_order);
    for_all(OUT_CONTEXT | OUT_LSE, check_order);
}

struct shared {
    const struct attn_plan *plan;
    atomic_llong next;
};

static void *run_tasks(void *argument)
{
    struct shared *shared = argument;
    void *workspace;
    struct guard_buffer buffer = attention_workspace(shared->plan, 0xFF, &workspace);
    for (;;) {
        const int64_t task = (int64_t)atomic_fetch_add(&shared->next, 1);
        if (task >= shared->plan->task_count)
            break;
        attn_plan_run(shared->plan, task, workspace);
    }
    guard_free(&buffer);
    return NULL;
}

static void check_threads(struct attention_case *c, struct attn_problem *want,
                          const struct attention_sizes *sizes)
{
    (void)sizes;
    enum { THREADS = 5 };
    struct attn_plan plan;
    pthread_t threads[THREADS];
    assert_int_equal(attn_plan_init(&plan, &c->problem, NULL), ATTN_OK);
    struct shared shared = { .plan = &plan };
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, run_tasks, &shared), 0);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    expect_equal_outputs(&c->problem, want, "tasks in threads");
}

TEST(threads)
{
    for_all(OUT_ALL, check_threads);
    for_all(OUT_CONTEXT | OUT_LSE, check_threads);
}

/* Adds 1 to count[] for each element that no longer holds the bytes of a fresh guard_alloc(), and
 * puts those bytes back. */
static void count_written(const struct attn_tensor *output, unsigned char *count)
{
    static const unsigned char untouched[sizeof(float)] = { 0xA5, 0xA5, 0xA5, 0xA5 };
    const int64_t total = output->shape[0] * output->shape[1] * output->shape[2] * output->shape[3];
    for (int64_t i = 0; i < total; i++) {
        float *element = (float *)output->data + i;
        count[i] += memcmp(element, untouched, sizeof untouched) != 0;
        memcpy(element, untouched, sizeof untouched);
    }
}

static void check_disjoint(struct attention_case *c, struct attn_problem *want,
                           const struct attention_sizes *sizes)
{
    (void)want;
    struct attn_plan plan;
    void *workspace;
    assert_int_equal(attn_plan_init(&plan, &c->problem, NULL), ATTN_OK);
    struct guard_buffer buffer = attention_workspace(&plan, 0xFF, &workspace);
    const int64_t rows = sizes->batch * sizes->q_heads * sizes->q_len;
    unsigned char *counts[OUT_COUNT];
    int64_t totals[OUT_COUNT];
    for (int i = 0; i < OUT_COUNT; i++) {
        totals[i] = rows * attention_output(&c->problem, i)->shape[3];
        counts[i] = calloc((size_t)totals[i] + 1, 1);
        assert_non_null(counts[i]);
    }
    for (int64_t task = 0; task < plan.task_count; task++) {
        attn_plan_run(&plan, task, workspace);
        for (int i = 0; i < OUT_COUNT; i++)
            count_written(attention_output(&c->problem, i), counts[i]);
    }
    for (int i = 0; i < OUT_COUNT; i++) {
        for (int64_t e = 0; e < totals[i]; e++)
            if (counts[i][e] != 1)
                fail_msg("%s: element %d is written by %d tasks", attention_output_name(i), (int)e,
                         counts[i][e]);
        free(counts[i]);
    }
    guard_free(&buffer);
}

TEST(tasks_write_disjoint_rows)
{
    for_all(OUT_ALL, check_disjoint);
}

/* ----------------------------------------------------- outputs, batches -- */

static void check_outputs(struct attention_case *c, struct attn_problem *want,
                          const struct attention_sizes *sizes)
{
    (void)sizes;
    const int kept = c->buffer_count;
    for (unsigned set = 1; set <= OUT_ALL; set++) {
        attention_case_outputs(c, set, set % 2 == 0 ? LAYOUT_ROWS : LAYOUT_GAPS);
        attention_run(&c->problem);
        expect_equal_outputs(&c->problem, want, "other outputs asked for");
        while (c->buffer_count > kept)
            guard_free(&c->buffers[--c->buffer_count]);
    }
}

TEST(every_set_of_outputs)
{
    for_all(OUT_ALL, check_outputs);
}

/* The first item of the batch alone, and its first head alone. */
static void check_alone(struct attention_case *c, struct attn_problem *want,
                        const struct attention_sizes *sizes)
{
    struct attn_problem *problem = &c->problem;
    struct attn_problem part = *want;
    problem->query.shape[0] = problem->key.shape[0] = problem->value.shape[0] = 1;
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(problem);
    for (int i = 0; i < OUT_COUNT; i++)
        attention_output(&part, i)->shape[0] = 1;
    expect_equal_outputs(problem, &part, "an item of the batch alone");

    problem->query.shape[1] = sizes->q_heads / sizes->kv_heads;
    problem->mask.shape[1] = problem->query.shape[1];
    problem->key.shape[1] = problem->value.shape[1] = 1;
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(problem);
    for (int i = 0; i < OUT_COUNT; i++)
        attention_output(&part, i)->shape[1] = problem->query.shape[1];
    expect_equal_outputs(problem, &part, "a group of heads alone");
}

TEST(alone)
{
    for_all(OUT_ALL, check_alone);
}

TEST(layouts)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int s = 0; s < SIZE_COUNT; s++) {
            struct attention_case cases[3];
            for (int layout = 0; layout < 3; layout++) { /* the same numbers, placed otherwise */
                make_case(&cases[layout], &SIZES[s], (enum attention_layout)layout, *k);
                attention_case_outputs(&cases[layout], OUT_ALL, LAYOUT_DENSE);
                attention_run(&cases[layout].problem);
            }
            expect_equal_outputs(&cases[0].problem, &cases[1].problem, "rows");
            expect_equal_outputs(&cases[0].problem, &cases[2].problem, "gaps");
            for (int layout = 0; layout < 3; layout++)
                attention_case_free(&cases[layout]);
        }
}
