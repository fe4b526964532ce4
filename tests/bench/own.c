/* SPDX-License-Identifier: Apache-2.0 */
/* own.c - see own.h. Threads take tasks from one counter, as the daemon's workers do. The second
 * thread is awake before the clock starts, and a counter shows that it has ended. On a virtual
 * machine, to start or wake a thread takes 0.1 to 0.4 ms, which varies and says nothing of how
 * well work is shared out. Between the runs of a series it waits awake. */
#include "own.h"

#include "base/internal.h"
#include "kernel_tables.h"
#include "kernels/kernels.h"
#include "yardstick.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_s(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_doubles);
    return (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
}

static void *memory(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!made)
        abort();
    return made;
}

static struct attn_tensor filled(int64_t batch, int64_t heads, int64_t length, int64_t columns,
                                 uint32_t input)
{
    const size_t count = (size_t)(batch * heads * length * columns);
    float *data = memory(count * sizeof(float));
    if (input != 0)
        bench_fill(data, count, input);
    else
        memset(data, 0, count * sizeof(float));
    return attn_tensor_dense(data, ATTN_F32, batch, heads, length, columns);
}

void own_init(struct own *own, const struct bench_shape *s)
{
    *own = (struct own){ .threads = s->threads };
    struct attn_problem *problem = &own->problem;
    problem->options = attn_options_default(s->head_dim);
    problem->kernels = kernel_table_of_unit(); /* NULL: the best without tiles */
    problem->options.causal = s->causal;
    problem->query = filled(s->batch, s->q_heads, s->q_len, s->head_dim, BENCH_QUERY);
    problem->key = filled(s->batch, s->kv_heads, s->kv_len, s->head_dim, BENCH_KEY);
    problem->value = filled(s->batch, s->kv_heads, s->kv_len, s->head_dim, BENCH_VALUE);
    problem->context = filled(s->batch, s->q_heads, s->q_len, s->head_dim, 0);
    problem->kv_offset = s->q_len - s->kv_len;
    own->query = problem->query.data;
    own->key = problem->key.data;
    own->value = problem->value.data;
    own->context = problem->context.data;
}

static void *narrow(struct attn_tensor *tensor, enum attn_dtype dtype)
{
    const struct attn_kernels *kernels = attn_kernels_available()[0];
    const int64_t *shape = tensor->shape;
    const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    uint16_t *halves = memory((size_t)count * sizeof *halves);
    (dtype == ATTN_F16 ? kernels->narrow_f16 : kernels->narrow_bf16)(halves, tensor->data, count);
    *tensor = attn_tensor_dense(halves, dtype, shape[0], shape[1], shape[2], shape[3]);
    return halves;
}

void own_narrow(struct own *own, enum attn_dtype dtype)
{
    own->narrowed[0] = narrow(&own->problem.key, dtype);
    own->narrowed[1] = narrow(&own->problem.value, dtype);
}

void own_narrow_query(struct own *own, enum attn_dtype dtype)
{
    own->narrowed[2] = narrow(&own->problem.query, dtype);
}

void own_plan(struct own *own)
{
    const char *where = "";
    if (attn_plan_init(&own->plan, &own->problem, &where) != ATTN_OK) {
        fprintf(stderr, "%s\n", where);
        abort();
    }
    free(own->shared);
    own->shared = memory(own->plan.shared_bytes);
    for (int i = 0; i < 2; i++) {
        free(own->workspace[i]);
        own->workspace[i] = memory(own->plan.workspace_bytes);
    }
}

void own_free(struct own *own)
{
    free(own->query);
    free(own->key);
    free(own->value);
    free(own->context);
    free(own->narrowed[0]);
    free(own->narrowed[1]);
    free(own->narrowed[2]);
    free(own->shared);
    free(own->workspace[0]);
    free(own->workspace[1]);
}

/* ------------------------------------------------------------------------------ threads -- */

typedef void task_run(const struct own *own, int64_t task, void *workspace);

/* The tasks of a turn, and the second thread, which waits awake for the next turn. */
struct team {
    const struct own *own;
    task_run *run;
    int64_t count;
    atomic_llong next;
    atomic_int begun, done; /* turns; the second thread is awake when it has done turn 0 */
    atomic_bool is_over;
    pthread_t second;
    bool has_second;
    cpu_set_t cpus; /* of the first thread, before and after */
};

static void take(struct team *team, void *workspace)
{
    for (int64_t task; (task = atomic_fetch_add(&team->next, 1)) < team->count;)
        team->run(team->own, task, workspace);
}

/* How long an idle core may take to reach its full speed. */
#define WAKING_S 3e-3

static void *be_second(void *argument)
{
    struct team *team = argument;

    for (const double begin = now_s(2); now_s(2) < begin + WAKING_S;)
        ;
    for (int turn = 0; !atomic_load(&team->is_over); turn++) {
        atomic_store(&team->done, turn);
        while (atomic_load(&team->begun) == turn && !atomic_load(&team->is_over))
            ;
        take(team, team->own->workspace[1]);
    }
    return NULL;
}

/* A busy machine may start the second thread on the CPU of the first one, and leave both there for
 * longer than a series takes. */
static void keep_apart(const struct team *team)
{
    cpu_set_t first, others = team->cpus;
    const int cpu = sched_getcpu();

    if (cpu < 0 || CPU_COUNT(&others) < 2)
        return;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    CPU_CLR(cpu, &others);
    sched_setaffinity(0, sizeof first, &first);
    pthread_setaffinity_np(team->second, sizeof others, &others);
}

static void team_begin(struct team *team, const struct own *own)
{
    *team = (struct team){ .own = own, .done = -1 };
    team->has_second = own->threads > 1 && sched_getaffinity(0, sizeof team->cpus, &team->cpus) == 0
                       && pthread_create(&team->second, NULL, be_second, team) == 0;
    if (!team->has_second)
        return;
    keep_apart(team);
    while (atomic_load(&team->done) < 0)
        ;
}

static void team_end(struct team *team)
{
    if (!team->has_second)
        return;
    atomic_store(&team->is_over, true);
    pthread_join(team->second, NULL);
    sched_setaffinity(0, sizeof team->cpus, &team->cpus);
}

static double time_tasks(struct team *team, int64_t count, task_run *run)
{
    const int turn = atomic_load(&team->begun) + 1;

    team->run = run;
    team->count = count;
    atomic_store(&team->next, 0);
    const double begin = now_s(team->own->threads);
    atomic_store(&team->begun, turn);
    take(team, team->own->workspace[0]);
    while (team->has_second && atomic_load(&team->done) < turn)
        ;
    return now_s(team->own->threads) - begin;
}

static void run_task(const struct own *own, int64_t task, void *workspace)
{
    attn_plan_run(&own->plan, task, workspace);
}

static void run_part(const struct own *own, int64_t part, void *workspace)
{
    attn_plan_run_part(&own->plan, part, own->shared, workspace);
}

static void run_join(const struct own *own, int64_t task, void *workspace)
{
    attn_plan_run_join(&own->plan, task, own->shared, workspace);
}

static double time_run(struct team *team)
{
    const struct own *own = team->own;

    if ((own->threads == 1 && !attn_plan_full(&own->plan)->is_matrix) || own->plan.part_count == 0)
        return time_tasks(team, own->plan.task_count, run_task);
    return time_tasks(team, own->plan.part_count, run_part)
           + time_tasks(team, own->plan.join_count, run_join);
}

void own_times(const struct own *own, int count, double *seconds)
{
    struct team team;

    team_begin(&team, own);
    time_run(&team);
    for (int i = 0; i < count; i++)
        seconds[i] = time_run(&team);
    team_end(&team);
}

double own_time(const struct own *own)
{
    struct team team;

    team_begin(&team, own);
    const double seconds = time_run(&team);
    team_end(&team);
    return seconds;
}

enum { READ_COUNT = 64 * 1024 }; /* numbers of one task */

static int64_t count_of(const struct attn_tensor *t)
{
    return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

static void read_task(const struct own *own, int64_t task, void *workspace)
{
    const int64_t count = count_of(&own->problem.key);
    const int64_t chunks = (count + READ_COUNT - 1) / READ_COUNT;
    const float *numbers = task < chunks ? own->key : own->value;
    const int64_t first = task % chunks * READ_COUNT;
    const int64_t n = count - first < READ_COUNT ? count - first : READ_COUNT;
    *(volatile float *)workspace = yardstick_read(numbers + first, (size_t)n);
}

static double time_read(struct team *team)
{
    const int64_t chunks = (count_of(&team->own->problem.key) + READ_COUNT - 1) / READ_COUNT;

    return time_tasks(team, 2 * chunks, read_task);
}

void own_times_read(const struct own *own, int count, double *seconds)
{
    struct team team;

    team_begin(&team, own);
    time_read(&team);
    for (int i = 0; i < count; i++)
        seconds[i] = time_read(&team);
    team_end(&team);
}

double own_time_read(const struct own *own)
{
    struct team team;

    team_begin(&team, own);
    const double seconds = time_read(&team);
    team_end(&team);
    return seconds;
}

void own_sums(const struct own *own, double sums[2])
{
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < count_of(&own->problem.context); i++) {
        sums[0] += (double)own->context[i];
        sums[1] += fabs((double)own->context[i]);
    }
}
