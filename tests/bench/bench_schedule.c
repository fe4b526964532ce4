/* SPDX-License-Identifier: Apache-2.0 */
/* bench_schedule.c - how well workers can share tasks. Each task is timed on one core in CPU
 * time (best of a few runs). Then the tasks are dealt in their order to 2 and to 16 workers,
 * each task to the first worker that is free, all tasks of a stage before the next stage.
 * Nothing here depends on how busy this machine is. */
#include "gradient.h"
#include "own.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, WORKERS_MAX = 16 };

static const struct bench_shape shapes[] = {
    { 1, 12, 12, 512, 512, 64, 0, 1 },   { 1, 12, 12, 512, 512, 64, 1, 1 },
    { 8, 12, 12, 128, 128, 64, 1, 1 },   { 1, 12, 12, 2048, 2048, 64, 0, 1 },
    { 1, 12, 12, 2048, 2048, 64, 1, 1 }, { 1, 8, 8, 2048, 2048, 128, 1, 1 },
    { 1, 1, 1, 4096, 4096, 64, 0, 1 },   { 1, 1, 1, 512, 512, 64, 0, 1 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* The times of one kind of work on one shape. */
struct schedule {
    double sum_s, longest_s;
    double elapsed_s[2]; /* with 2 and with 16 workers */
};

static void *memory(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!made)
        abort();
    return made;
}

static double deal(const double *task_s, int64_t count, int workers)
{
    double free_s[WORKERS_MAX] = { 0 }, end_s = 0;

    for (int64_t task = 0; task < count; task++) {
        int first = 0;
        for (int w = 1; w < workers; w++)
            if (free_s[w] < free_s[first])
                first = w;
        free_s[first] += task_s[task];
        end_s = free_s[first] > end_s ? free_s[first] : end_s;
    }
    return end_s;
}

static void add_stage(struct schedule *schedule, const double *task_s, int64_t count)
{
    for (int64_t task = 0; task < count; task++) {
        schedule->sum_s += task_s[task];
        schedule->longest_s =
            task_s[task] > schedule->longest_s ? task_s[task] : schedule->longest_s;
    }
    schedule->elapsed_s[0] += deal(task_s, count, 2);
    schedule->elapsed_s[1] += deal(task_s, count, 16);
}

static struct schedule forward(const struct own *own)
{
    const int64_t count = own->plan.task_count;
    double *task_s = memory((size_t)count * sizeof *task_s);
    struct schedule schedule = { 0 };

    for (int round = 0; round < ROUNDS; round++)
        for (int64_t task = 0; task < count; task++) {
            const double begin = now_s(1);
            attn_plan_run(&own->plan, task, own->workspace[0]);
            const double spent = now_s(1) - begin;
            task_s[task] = round > 0 && task_s[task] < spent ? task_s[task] : spent;
        }
    add_stage(&schedule, task_s, count);
    free(task_s);
    return schedule;
}

static struct schedule backward(const struct attn_gradient_plan *plan)
{
    void *scratch = memory(plan->scratch_bytes), *workspace = memory(plan->workspace_bytes);
    double *task_s[ATTN_GRADIENT_STAGES];
    struct schedule schedule = { 0 };

    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++)
        task_s[stage] = memory((size_t)plan->task_count[stage] * sizeof(double));
    for (int round = 0; round < ROUNDS; round++)
        for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++)
            for (int64_t task = 0; task < plan->task_count[stage]; task++) {
                double *best_s = &task_s[stage][task];
                const double begin = now_s(1);
                attn_gradient_run(plan, stage, task, scratch, workspace);
                const double spent = now_s(1) - begin;
                *best_s = round > 0 && *best_s < spent ? *best_s : spent;
            }
    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++) {
        add_stage(&schedule, task_s[stage], plan->task_count[stage]);
        free(task_s[stage]);
    }
    free(scratch);
    free(workspace);
    return schedule;
}

static void print(const char *name, const struct bench_shape *s, const struct schedule *schedule)
{
    printf("%-8s %d,%d,%d,%d,%d,%d%-8s %9.2f ms %9.2f ms %7.2f %7.2f\n", name, s->batch, s->q_heads,
           s->kv_heads, s->q_len, s->kv_len, s->head_dim, s->causal ? " causal" : "",
           schedule->sum_s * 1e3, schedule->longest_s * 1e3,
           schedule->sum_s / schedule->elapsed_s[0], schedule->sum_s / schedule->elapsed_s[1]);
    fflush(stdout);
}

static void bench(const struct bench_shape *shape)
{
    struct attn_gradient_plan plan;
    const char *where = "";
    struct own own;

    own_init(&own, shape);
    own_plan(&own);
    const struct schedule there = forward(&own);
    print("forward", shape, &there);
    /* The gradients have memory of their own. The context also serves as its gradient. */
    struct attn_gradient_problem problem = { .attention = own.problem,
                                             .context_gradient = own.problem.context };
    struct attn_tensor *const gradients[] = { &problem.query_gradient, &problem.key_gradient,
                                              &problem.value_gradient };
    const struct attn_tensor *const inputs[] = { &own.problem.query, &own.problem.key,
                                                 &own.problem.value };
    for (int i = 0; i < 3; i++) {
        const int64_t *n = inputs[i]->shape;
        *gradients[i] =
            attn_tensor_dense(memory((size_t)(n[0] * n[1] * n[2] * n[3]) * sizeof(float)), ATTN_F32,
                              n[0], n[1], n[2], n[3]);
    }
    if (attn_gradient_plan_init(&plan, &problem, &where) != ATTN_OK) {
        fprintf(stderr, "%s\n", where);
        abort();
    }
    const struct schedule back = backward(&plan);
    print("backward", shape, &back);
    for (int i = 0; i < 3; i++)
        free(gradients[i]->data);
    own_free(&own);
}

int main(void)
{
    printf("%-38s %12s %12s %7s %7s\n", "work batch,heads,kv,q,keys,dim", "all tasks", "longest",
           "of 2", "of 16");
    for (int i = 0; i < SHAPES; i++)
        bench(&shapes[i]);
    return 0;
}
