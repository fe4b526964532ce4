/* own.c - see own.h. Threads take tasks from one counter, as the daemon's workers do. The second
 * thread is awake before the clock starts, and a flag shows that it has ended. On a virtual
 * machine, to start or wake a thread takes 0.1 to 0.4 ms, which varies and says nothing of how
 * well work is shared out. */
#include "own.h"

#include "kernel_tables.h"
#include "kernels/kernels.h"
#include "yardstick.h"

#include <math.h>
#include <pthread.h>
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

struct work {
    const struct own *own;
    void (*run)(const struct own *own, int64_t task, void *workspace);
    int64_t count;
    atomic_llong next;
    atomic_bool is_awake, may_begin, is_done; /* of the second thread */
};

struct worker {
    struct work *work;
    void *workspace;
};

static void take(const struct worker *worker)
{
    struct work *work = worker->work;

    for (int64_t task; (task = atomic_fetch_add(&work->next, 1)) < work->count;)
        work->run(work->own, task, worker->workspace);
}

/* How long an idle core may take to reach its full speed. */
#define WAKING_S 3e-3

static void *be_second(void *argument)
{
    const struct worker *worker = argument;
    struct work *work = worker->work;

    for (const double begin = now_s(2); now_s(2) < begin + WAKING_S;)
        ;
    atomic_store(&work->is_awake, true);
    while (!atomic_load(&work->may_begin))
        ;
    take(worker);
    atomic_store(&work->is_done, true);
    return NULL;
}

static double time_tasks(const struct own *own, int64_t count,
                         void (*run)(const struct own *own, int64_t task, void *workspace))
{
    struct work work = { .own = own, .run = run, .count = count };
    struct worker workers[2] = { { &work, own->workspace[0] }, { &work, own->workspace[1] } };
    pthread_t second;

    const bool has_second =
        own->threads > 1 && pthread_create(&second, NULL, be_second, &workers[1]) == 0;
    while (has_second && !atomic_load(&work.is_awake))
        ;
    const double begin = now_s(own->threads);
    atomic_store(&work.may_begin, true);
    take(&workers[0]);
    while (has_second && !atomic_load(&work.is_done))
        ;
    const double seconds = now_s(own->threads) - begin;
    if (has_second)
        pthread_join(second, NULL);
    return seconds;
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

double own_time(struct own *own)
{
    if ((own->threads == 1 && !own->plan.is_matrix) || own->plan.part_count == 0)
        return time_tasks(own, own->plan.task_count, run_task);
    return time_tasks(own, own->plan.part_count, run_part)
           + time_tasks(own, own->plan.join_count, run_join);
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

double own_time_read(const struct own *own)
{
    const int64_t chunks = (count_of(&own->problem.key) + READ_COUNT - 1) / READ_COUNT;

    return time_tasks(own, 2 * chunks, read_task);
}

void own_sums(const struct own *own, double sums[2])
{
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < count_of(&own->problem.context); i++) {
        sums[0] += (double)own->context[i];
        sums[1] += fabs((double)own->context[i]);
    }
}
