/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_callers.c - callers that run a job, or tasks of it, themselves.
 *
 * Handing a job to a worker and its answer back wakes two threads, which costs more than a small
 * job. So the caller of scheduler_run() runs a job of small predicted cost itself where no task
 * waits and a worker is idle, whose CPU it uses in effect, and also beside long jobs that hold all
 * workers. A job that proves to be larger after a stage goes on with the workers.
 *
 * A caller that says so helps with a larger job: it takes tasks beside the workers, one of which
 * sleeps on in its place, and often it is the one that ends the job. */
#include "scheduler/scheduler_internal.h"

#include "base/clock.h"

#include <stdlib.h>

/* Whether no task waits and a worker is idle, whose CPU the caller can use. */
static bool is_idle(const struct scheduler *scheduler)
{
    return !job_order_first(&scheduler->order) && scheduler->inline_count < scheduler->idle_count;
}

/* Whether a small job of the share would go before all queued jobs, on an idle CPU or beside the
 * long jobs that hold all workers. */
static bool is_free_for_small(struct scheduler *scheduler, struct job_share *share, int64_t now_ns)
{
    struct job_order *order = &scheduler->order;
    const struct job *first = job_order_first(order);
    if (is_idle(scheduler))
        return true;
    return scheduler->inline_count == 0 && scheduler_workers_held(scheduler, now_ns)
           && (!first
               || (job_order_rest_ns(first) > SCHEDULER_SHORT_NS && !job_order_first_short(order)
                   && job_share_may_pass(&order->shares, job_order_flow(order, share))));
}

static bool may_run(struct scheduler *scheduler, const struct job *job, int64_t now_ns,
                    int64_t inline_ns)
{
    return job->cost_ns <= inline_ns && is_free_for_small(scheduler, job->share, now_ns);
}

static bool may_help(const struct scheduler *scheduler, const struct job *job,
                     const struct scheduler_help *help)
{
    return help && job->cost_ns <= help->job_most_ns && is_idle(scheduler);
}

int scheduler_threads_max(int worker_count)
{
    return worker_count + 1
           + (worker_count < SCHEDULER_INLINE_MAX ? worker_count : SCHEDULER_INLINE_MAX);
}

/* NULL: none is free, or there is no memory for it. */
static struct scheduler_thread *take_any_seat(struct scheduler *scheduler, int64_t now_ns)
{
    for (int i = 0; i < SCHEDULER_INLINE_MAX; i++) {
        struct scheduler_thread *seat = &scheduler->seats[i];
        if (seat->begun_ns)
            continue;
        if (!seat->worker.workspace)
            seat->worker.workspace = aligned_alloc(64, scheduler->workspace_bytes);
        if (!seat->worker.workspace)
            return NULL;
        seat->worker.workspace_bytes = scheduler->workspace_bytes;
        seat->worker.slot = 0;
        seat->begun_ns = now_ns;
        scheduler->inline_count++;
        return seat;
    }
    return NULL;
}

/* A seat if the caller may run the job itself, or begin it and help; else NULL. */
static struct scheduler_thread *take_seat(struct scheduler *scheduler, const struct job *job,
                                          int64_t now_ns, int64_t inline_ns,
                                          const struct scheduler_help *help)
{
    return job->cost_ns > 0
                   && (may_run(scheduler, job, now_ns, inline_ns) || may_help(scheduler, job, help))
               ? take_any_seat(scheduler, now_ns)
               : NULL;
}

static void leave_seat(struct scheduler *scheduler, struct scheduler_thread *seat)
{
    seat->begun_ns = 0;
    scheduler->inline_count--;
}

static bool is_late(const struct job *job)
{
    return job->deadline_ns && clock_now_ns() > job->deadline_ns;
}

/* Runs stage after stage, until the job is over, waits, is late, or costs more than inline_ns.
 * Returns the number of tasks of the next stage, *stage + 1. */
static int64_t run_stages(struct job *job, const struct worker *worker, int64_t inline_ns,
                          int *stage)
{
    int64_t task_count = 1;
    for (*stage = 0;; (*stage)++) {
        for (int64_t task = 0; task < task_count; task++)
            job->kind->run(job, *stage, task, worker);
        task_count = job->kind->stage_tasks(job, *stage + 1);
        if (task_count <= 0 || job->cost_ns > inline_ns || is_late(job))
            return task_count;
    }
}

/* Runs what of the job is the caller's alone. The time counts for the job's share. Reading the
 * clocks would be a good part of the smallest jobs, so those without a share are charged what was
 * predicted. Where the caller helps, it takes one of the tasks that are left. */
static void run_here(struct scheduler *scheduler, struct job *job, const struct worker *worker,
                     int64_t inline_ns, bool helps)
{
    int stage;
    const int64_t charged_ns = job_order_begin(&scheduler->order, job);
    const struct clock_task clock_task = job->share ? clock_task_begin() : (struct clock_task){ 0 };
    pthread_mutex_unlock(&scheduler->mutex);
    const int64_t task_count = run_stages(job, worker, inline_ns, &stage);
    const int64_t spent_ns = job->share ? clock_task_end(&clock_task) : charged_ns;
    pthread_mutex_lock(&scheduler->mutex);
    job_order_finish(&scheduler->order, job, charged_ns, spent_ns);
    job->stage = stage;
    int64_t wake_count = task_count;
    if (helps) {
        const int64_t most = scheduler_tasks_at_once(job);
        const int64_t idle_count = scheduler->idle_count - scheduler->inline_count;
        wake_count = (task_count < most ? task_count : most) - 1;
        wake_count = wake_count < idle_count ? wake_count : idle_count;
    }
    scheduler_go_on(scheduler, job, task_count, wake_count);
}

/* The job of that number, if it alone has tasks and the next one is short; else NULL. A job may be
 * over, and its memory another's, when the mutex has been released. */
static struct job *job_to_help(const struct scheduler *scheduler, int64_t number,
                               const struct scheduler_help *help)
{
    struct job *job = job_order_first(&scheduler->order);
    if (!job || job->number != number || scheduler->order.count > 1)
        return NULL;
    const int64_t left = job->task_count - job->next_task + job->tasks_running;
    return job_order_rest_ns(job) / left <= help->task_most_ns ? job : NULL;
}

static void help_with(struct scheduler *scheduler, int64_t number, struct scheduler_thread *seat,
                      const struct scheduler_help *help)
{
    for (;;) {
        pthread_mutex_unlock(&scheduler->mutex);
        const bool goes_on = help->goes_on(help->context);
        pthread_mutex_lock(&scheduler->mutex);
        struct job *job = goes_on ? job_to_help(scheduler, number, help) : NULL;
        const int64_t now_ns = clock_now_ns();
        if (!job || now_ns > job->ends_ns)
            return;
        scheduler_run_tasks(scheduler, job, seat, 1, now_ns);
    }
}

bool scheduler_run(struct scheduler *scheduler, struct job *job, int64_t inline_ns,
                   const struct scheduler_help *help)
{
    const int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&scheduler->mutex);
    struct scheduler_thread *seat = take_seat(scheduler, job, now_ns, inline_ns, help);
    const bool taken = scheduler_take(scheduler, job, now_ns, seat != NULL);
    if (taken && seat) {
        const int64_t number = job->number;
        run_here(scheduler, job, &seat->worker, inline_ns, help != NULL);
        if (help)
            help_with(scheduler, number, seat, help);
    }
    if (seat)
        leave_seat(scheduler, seat);
    /* A worker that slept on for the caller may be wanted. */
    if (seat && help)
        scheduler_wake(scheduler, scheduler->order.count, now_ns);
    pthread_mutex_unlock(&scheduler->mutex);
    return taken;
}

int64_t scheduler_relieve(struct scheduler *scheduler, int64_t most_ns)
{
    const int64_t now_ns = clock_now_ns();
    int64_t cost_ns = 0;
    pthread_mutex_lock(&scheduler->mutex);
    struct job *job = job_order_next(&scheduler->order, now_ns);
    const int64_t rest_ns = job ? job_order_rest_ns(job) : 0;
    struct scheduler_thread *seat = NULL;
    if (rest_ns > 0 && rest_ns <= most_ns && now_ns <= job->ends_ns)
        seat = take_any_seat(scheduler, now_ns);
    if (seat) {
        const int64_t number = job->number;
        cost_ns = rest_ns;
        do
            scheduler_run_tasks(scheduler, job, seat, 1, clock_now_ns());
        while ((job = job_order_next(&scheduler->order, now_ns)) && job->number == number
               && job_order_rest_ns(job) <= most_ns);
        leave_seat(scheduler, seat);
        /* A stage that it has ended left it a task of the next one, which a worker takes now. */
        scheduler_wake(scheduler, scheduler->order.count, clock_now_ns());
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return cost_ns;
}
