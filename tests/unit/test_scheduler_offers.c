/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheduler_offers.c - how often a worker offers its CPU to other threads.
 *
 * This program has its own sched_yield(), which counts the calls. */
#include "base/clock.h"
#include "scheduler/scheduler.h"
#include "test.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int offers;
static _Thread_local bool is_worker; /* a sanitizer's threads may yield too */

int sched_yield(void)
{
    if (is_worker)
        atomic_fetch_add(&offers, 1);
    return (int)syscall(SYS_sched_yield);
}

struct long_job {
    struct job job; /* first: a job is its long_job */
    int64_t tasks, task_ns;
    atomic_int done_count;
};

static int64_t stage_tasks(struct job *job, int stage)
{
    return stage == 1 ? ((struct long_job *)job)->tasks : 0;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    const int64_t until_ns = clock_thread_ns() + ((struct long_job *)job)->task_ns;
    (void)task;
    (void)worker;
    is_worker = true;
    while (stage == 1 && clock_thread_ns() < until_ns)
        ;
}

static void done(struct job *job, enum job_outcome outcome)
{
    assert_int_equal(outcome, JOB_FINISHED);
    atomic_fetch_add(&((struct long_job *)job)->done_count, 1);
}

/* How often one worker offers its CPU while it runs this many tasks, each of this much CPU time. */
static int offers_of(int64_t tasks, int64_t task_ns, int64_t cost_ns)
{
    static const struct job_kind kind = { stage_tasks, run, done };
    struct long_job job = { .job = { .kind = &kind, .cost_ns = cost_ns },
                            .tasks = tasks,
                            .task_ns = task_ns };
    struct scheduler *scheduler = scheduler_create(1, 1, 64);
    assert_non_null(scheduler);
    atomic_store(&offers, 0);
    assert_true(scheduler_submit(scheduler, &job.job));
    while (atomic_load(&job.done_count) == 0)
        usleep(100);
    scheduler_free(scheduler);
    return atomic_load(&offers);
}

enum { LONG_NS = INT32_MAX };

TEST(after_each_task_that_is_long)
{
    assert_int_equal(offers_of(5, SCHEDULER_OFFER_NS, LONG_NS), 5);
}

TEST(not_after_each_of_many_short_ones)
{
    enum { TASKS = 4000, TASK_NS = 10000 };
    const int all_but_what_is_left = TASKS / (SCHEDULER_OFFER_NS / TASK_NS + 1);
    assert_in_range(offers_of(TASKS, TASK_NS, LONG_NS), all_but_what_is_left, TASKS / 4);
}

TEST(not_in_a_short_job)
{
    assert_int_equal(offers_of(3, SCHEDULER_OFFER_NS, SCHEDULER_SHORT_NS), 0);
}

int main(void)
{
    return test_run(NULL);
}
