/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_bits.c - gradients have the same bits whatever the order of their tasks, the
 * number of threads and the choice of gradients that are asked for. */
#include "gradient_case.h"
#include "test.h"

#include <pthread.h>

struct shared_run {
    const struct attn_gradient_plan *plan;
    int stage, thread, thread_count;
    void *scratch, *workspace;
};

static void *run_share(void *argument)
{
    const struct shared_run *run = argument;
    for (int64_t task = run->thread; task < run->plan->task_count[run->stage];
         task += run->thread_count)
        attn_gradient_run(run->plan, run->stage, task, run->scratch, run->workspace);
    return NULL;
}

static void run_threads(const struct attn_gradient_plan *plan, int thread_count)
{
    enum { THREADS_MAX = 4 };
    struct guard_buffer scratch = guard_alloc((plan->scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspaces[THREADS_MAX];
    struct shared_run runs[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < thread_count; i++)
        workspaces[i] = guard_alloc((plan->workspace_bytes + 63) / 64 * 64);
    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++) {
        for (int i = 0; i < thread_count; i++) {
            runs[i] = (struct shared_run){ plan,         stage,        i,
                                           thread_count, scratch.data, workspaces[i].data };
            assert_int_equal(pthread_create(&threads[i], NULL, run_share, &runs[i]), 0);
        }
        for (int i = 0; i < thread_count; i++)
            pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < thread_count; i++)
        guard_free(&workspaces[i]);
    guard_free(&scratch);
}

static void bits_case_init(struct gradient_case *c, unsigned kinds)
{
    static const struct attention_sizes sizes = { 1, 4, 2, 150, 400, 9, 6 };
    gradient_case_init(c, &sizes, LAYOUT_DENSE, 31);
    gradient_case_set_kinds(c, kinds, 33);
    gradient_case_add_mask(c, (const int64_t[4]){ 1, 1, 150, 400 }, 32);
    gradient_case_add_heads(c, true, true, 34);
}

enum { TENSOR_COUNT = 4, LIST_COUNT = 3 };

/* Asks for the gradient number kept only; a negative kept asks for all. */
static void ask_for(struct attn_gradient_problem *problem, int kept)
{
    struct attn_tensor *const tensors[TENSOR_COUNT] = { &problem->query_gradient,
                                                        &problem->key_gradient,
                                                        &problem->value_gradient,
                                                        &problem->mask_gradient };
    float **const lists[LIST_COUNT] = { &problem->additive_weight_gradient,
                                        &problem->alibi_slopes_gradient, &problem->sinks_gradient };
    for (int g = 0; kept >= 0 && g < TENSOR_COUNT; g++)
        if (g != kept)
            tensors[g]->data = NULL;
    for (int g = 0; kept >= 0 && g < LIST_COUNT; g++)
        if (TENSOR_COUNT + g != kept)
            *lists[g] = NULL;
}

static void expect_list(const float *got, const float *want, int64_t count)
{
    if (got != NULL)
        assert_memory_equal(got, want, (size_t)count * sizeof *got);
}

static void expect_same_bits(const struct gradient_case *want, const struct gradient_case *got)
{
    const struct attn_gradient_problem *a = &want->problem, *b = &got->problem;
    const struct attn_tensor *const wanted[TENSOR_COUNT] = { &a->query_gradient, &a->key_gradient,
                                                             &a->value_gradient,
                                                             &a->mask_gradient };
    const struct attn_tensor *const given[TENSOR_COUNT] = { &b->query_gradient, &b->key_gradient,
                                                            &b->value_gradient, &b->mask_gradient };
    for (int g = 0; g < TENSOR_COUNT; g++)
        if (given[g]->data != NULL)
            assert_int_equal(attention_differing_bits(wanted[g], given[g]), 0);
    expect_list(b->additive_weight_gradient, a->additive_weight_gradient, 9);
    expect_list(b->alibi_slopes_gradient, a->alibi_slopes_gradient, 4);
    expect_list(b->sinks_gradient, a->sinks_gradient, 4);
}

/* Runs the tasks on one thread from the first to the last, on one thread backwards, and on four
 * threads. Then asks for each gradient alone. */
TEST(bits)
{
    static const unsigned kinds[] = { 0, GRADIENT_ADDITIVE | GRADIENT_SPARSE };
    struct gradient_case c, other;
    struct attn_gradient_plan plan;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        bits_case_init(&c, kinds[k]);
        gradient_case_run(&c, NULL);
        for (int way = 0; way < 2 + TENSOR_COUNT + LIST_COUNT; way++) {
            bits_case_init(&other, kinds[k]);
            ask_for(&other.problem, way - 2);
            gradient_case_plan(&other, NULL, &plan);
            if (way == 0)
                gradient_run(&plan, true);
            else
                run_threads(&plan, 4);
            expect_same_bits(&c, &other);
            attention_case_free(&other.forward);
        }
        attention_case_free(&c.forward);
    }
}
