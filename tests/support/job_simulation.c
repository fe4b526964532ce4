/* SPDX-License-Identifier: Apache-2.0 */
/* job_simulation.c - see job_simulation.h. */
#include "job_simulation.h"
#include "test.h"

void simulation_admit(struct job_order *order, struct job *job, int64_t now_ns)
{
    assert_true(job_order_reserve(order, job->share));
    job_order_admit(order, job, now_ns);
}

struct simulation *simulation_create(int worker_count)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    assert_non_null(simulation);
    simulation->worker_count = worker_count;
    return simulation;
}

void simulation_free(struct simulation *simulation)
{
    for (int i = 0; i < simulation->arrived; i++)
        if (simulation->jobs[i].over_ns < 0)
            job_order_end(&simulation->order, &simulation->jobs[i].job);
    job_order_free(&simulation->order);
    free(simulation);
}

struct simulated_job *simulation_add(struct simulation *simulation, int64_t arrives_ns,
                                     int priority, int64_t task_count, int64_t task_ns)
{
    assert_true(simulation->job_count < JOBS_MAX);
    struct simulated_job *job = &simulation->jobs[simulation->job_count++];
    *job = (struct simulated_job){ .arrives_ns = arrives_ns, .task_ns = task_ns, .over_ns = -1 };
    job->begun_ns = -1;
    job->job.level = job_order_level(priority);
    job->job.task_count = task_count;
    job->job.remaining_ns = task_count * task_ns;
    return job;
}

static void end(struct simulation *simulation, struct simulated_job *job)
{
    job_order_end(&simulation->order, &job->job);
    job->over_ns = simulation->now_ns;
}

static void finish_task(struct simulation *simulation, int worker)
{
    struct simulated_job *job = simulation->running[worker];
    simulation->running[worker] = NULL;
    job->job.tasks_running--;
    job->job.spent_ns += job->task_ns;
    job->job.task_ns = job->task_ns;
    if (job->used_ns)
        *job->used_ns += job->task_ns;
    job->job.remaining_ns -=
        job->task_ns < job->job.remaining_ns ? job->task_ns : job->job.remaining_ns;
    job_order_finish(&simulation->order, &job->job, simulation->charged_ns[worker], job->task_ns);
    if (job->job.next_task < job->job.task_count)
        job_order_put(&simulation->order, &job->job);
    else if (job->job.tasks_running == 0)
        end(simulation, job);
}

static void begin_task(struct simulation *simulation, int worker, struct simulated_job *job)
{
    if (job->begun_ns < 0)
        job->begun_ns = simulation->now_ns;
    simulation->charged_ns[worker] = job_order_begin(&simulation->order, &job->job);
    job->job.tasks_running++;
    if (++job->job.next_task == job->job.task_count)
        job_order_remove(&simulation->order, &job->job);
    else
        job_order_put(&simulation->order, &job->job);
    simulation->running[worker] = job;
    simulation->free_ns[worker] = simulation->now_ns + job->task_ns;
}

/* When something happens next; INT64_MAX: never. */
static int64_t next_event_ns(const struct simulation *simulation)
{
    int64_t next_ns = simulation->arrived < simulation->job_count
                          ? simulation->jobs[simulation->arrived].arrives_ns
                          : INT64_MAX;
    for (int w = 0; w < simulation->worker_count; w++)
        if (simulation->running[w] && simulation->free_ns[w] < next_ns)
            next_ns = simulation->free_ns[w];
    return next_ns;
}

static void let_arrive(struct simulation *simulation)
{
    while (simulation->arrived < simulation->job_count
           && simulation->jobs[simulation->arrived].arrives_ns <= simulation->now_ns) {
        struct job *job = &simulation->jobs[simulation->arrived++].job;
        simulation_admit(&simulation->order, job, simulation->now_ns);
        job_order_put(&simulation->order, job);
    }
}

void simulation_run(struct simulation *simulation, int64_t end_ns)
{
    for (;;) {
        const int64_t next_ns = next_event_ns(simulation);
        if (next_ns > end_ns || next_ns == INT64_MAX)
            return;
        simulation->now_ns = next_ns;
        for (int w = 0; w < simulation->worker_count; w++)
            if (simulation->running[w] && simulation->free_ns[w] == next_ns)
                finish_task(simulation, w);
        let_arrive(simulation);
        for (int w = 0; w < simulation->worker_count && simulation->order.count > 0; w++) {
            if (simulation->running[w])
                continue;
            struct job *job = job_order_next(&simulation->order, next_ns);
            if (simulation->watch)
                simulation->watch(simulation, job);
            begin_task(simulation, w, (struct simulated_job *)job);
        }
    }
}
