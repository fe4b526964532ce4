/* scheduler_inline.c - jobs that are run where they came, on the thread that brings them.
 *
 * To hand a job to a worker and its answer back takes two threads to be woken, which
 * is more than a small job costs. So where no task waits and a worker is idle, whose CPU
 * is taken so to speak, a job that is predicted to cost little is run at once by the
 * caller; and where long jobs hold all workers, beside them. A job that turns out to be larger,
 * after its first stage, goes on with the workers. */
#include "work/scheduler_internal.h"

#include "base/clock.h"

#include <stdlib.h>

/* Whether a small job would go before all that is queued, on a CPU that is idle or beside the long
 * jobs that hold them all. */
static bool is_free_for_small(const struct scheduler *scheduler, int64_t now_ns)
{
    const struct job_order *order = &scheduler->order;
    if (order->count == 0 && scheduler->inline_count < scheduler->idle_count)
        return true;
    return scheduler->inline_count == 0 && scheduler_workers_held(scheduler, now_ns)
           && (order->count == 0 || job_order_rest_ns(order->heap[0]) > SCHEDULER_SHORT_NS);
}

/* The seat for a caller that may run the job itself, or NULL. */
static struct scheduler_thread *take_seat(struct scheduler *scheduler, const struct job *job,
                                          int64_t now_ns, int64_t inline_ns)
{
    if (job->cost_ns <= 0 || job->cost_ns > inline_ns || !is_free_for_small(scheduler, now_ns))
        return NULL;
    for (int i = 0; i < SCHEDULER_INLINE_MAX; i++) {
        struct scheduler_thread *seat = &scheduler->here[i];
        if (seat->begun_ns)
            continue;
        if (!seat->worker.workspace)
            seat->worker.workspace = aligned_alloc(64, scheduler->workspace_bytes);
        if (!seat->worker.workspace)
            return NULL;
        seat->worker.workspace_bytes = scheduler->workspace_bytes;
        seat->begun_ns = now_ns;
        scheduler->inline_count++;
        return seat;
    }
    return NULL;
}

static bool is_late(const struct job *job)
{
    return job->deadline_ns && clock_now_ns() > job->deadline_ns;
}

/* Runs stage after stage, until the job is over, waits, is late, or costs more than was thought.
 * Returns the tasks of the stage that comes next, whose number is *stage + 1. */
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

bool scheduler_run(struct scheduler *scheduler, struct job *job, int64_t inline_ns)
{
    const int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&scheduler->mutex);
    struct scheduler_thread *seat = take_seat(scheduler, job, now_ns, inline_ns);
    const bool taken = scheduler_take(scheduler, job, now_ns, seat != NULL);
    if (taken && seat) {
        int stage;
        pthread_mutex_unlock(&scheduler->mutex);
        const int64_t task_count = run_stages(job, &seat->worker, inline_ns, &stage);
        pthread_mutex_lock(&scheduler->mutex);
        job->stage = stage;
        scheduler_go_on(scheduler, job, task_count, task_count);
    }
    if (seat) {
        seat->begun_ns = 0;
        scheduler->inline_count--;
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return taken;
}
