/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that helps begins a job that is too large for it alone and takes tasks beside the
 * workers, until it has to go. It begins no job that is larger than it helps with, and takes no
 * task that is longer. Whoever ends the job, it ends once, and each task has run once. */
#include "scheduler/scheduler.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { STAGES = 3, TASKS = 5, HERE_NS = 10000, JOB_NS = 1000000, TRIES = 1000 };

struct helped_job {
    struct job job; /* first: a job is its helped_job */
    pthread_t caller;
    atomic_int here[STAGES], elsewhere[STAGES]; /* tasks of each stage */
    atomic_int done_count;
    bool done_here;
    bool beside; /* the caller's tasks last until another thread has run one */
    int goes_on; /* so many more times */
};

static int64_t stage_tasks(struct job *job, int stage)
{
    (void)job;
    return stage < STAGES ? TASKS : 0;
}

static void wait_for(atomic_int *count, int wanted)
{
    for (int i = 0; i < 100000 && atomic_load(count) < wanted; i++)
        usleep(100);
    assert_true(atomic_load(count) >= wanted);
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct helped_job *helped = (struct helped_job *)job;
    const bool here = pthread_equal(pthread_self(), helped->caller);
    (void)task;
    ((char *)worker->workspace)[worker->workspace_bytes - 1] = 1;
    assert_in_range(worker->slot, 0, job->tasks_at_once ? job->tasks_at_once - 1 : TASKS);
    if (here && helped->beside && stage == 1)
        wait_for(&helped->elsewhere[1], 1);
    atomic_fetch_add(here ? &helped->here[stage] : &helped->elsewhere[stage], 1);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct helped_job *helped = (struct helped_job *)job;
    assert_int_equal(outcome, JOB_FINISHED);
    helped->done_here = pthread_equal(pthread_self(), helped->caller);
    atomic_fetch_add(&helped->done_count, 1);
}

static const struct job_kind kind = { stage_tasks, run, done };

static bool goes_on(void *context)
{
    struct helped_job *helped = context;
    return helped->goes_on-- > 0;
}

/* Brings such a job until a worker was idle before it, so that the caller has begun it; every try
 * runs all of its tasks once. */
static struct helped_job bring(struct scheduler *scheduler, const struct helped_job *wanted)
{
    static struct helped_job helped;
    for (int i = 0; i < TRIES; i++) {
        helped = *wanted;
        helped.job.kind = &kind;
        helped.job.cost_ns = JOB_NS;
        helped.caller = pthread_self();
        const struct scheduler_help help = { JOB_NS, JOB_NS, goes_on, &helped };
        assert_true(scheduler_run(scheduler, &helped.job, HERE_NS, &help));
        wait_for(&helped.done_count, 1);
        assert_int_equal(helped.done_count, 1);
        assert_int_equal(helped.here[0] + helped.elsewhere[0], 1);
        for (int stage = 1; stage < STAGES; stage++)
            assert_int_equal(helped.here[stage] + helped.elsewhere[stage], TASKS);
        if (helped.here[0] == 1)
            return helped;
        usleep(1000);
    }
    fail_msg("no worker was idle before any of %d jobs", TRIES);
    return helped;
}

TEST(takes_the_only_workers_place)
{
    struct scheduler *scheduler = scheduler_create(1, 20, 64);
    const struct helped_job wanted = { .goes_on = 100, .job.tasks_at_once = 1 };
    const struct helped_job helped = bring(scheduler, &wanted);
    assert_int_equal(helped.here[1] + helped.here[2], 2 * TASKS);
    assert_true(helped.done_here);
    scheduler_free(scheduler);
}

TEST(takes_tasks_beside_a_worker)
{
    struct scheduler *scheduler = scheduler_create(2, 20, 64);
    const struct helped_job wanted = { .goes_on = 100, .beside = true };
    const struct helped_job helped = bring(scheduler, &wanted);
    assert_true(helped.elsewhere[1] > 0);
    scheduler_free(scheduler);
}

TEST(leaves_the_rest_where_it_has_to_go)
{
    struct scheduler *scheduler = scheduler_create(1, 20, 64);
    const struct helped_job at_once = { .goes_on = 0 };
    struct helped_job helped = bring(scheduler, &at_once);
    assert_int_equal(helped.here[1] + helped.here[2], 0);
    assert_false(helped.done_here);

    const struct helped_job after_two = { .goes_on = 2 };
    helped = bring(scheduler, &after_two);
    assert_int_equal(helped.here[1] + helped.here[2], 2);
    assert_false(helped.done_here);
    scheduler_free(scheduler);
}

/* No try may have had the caller in the stages from the first on, however idle the workers were. */
static void expect_left_alone(int64_t job_most_ns, int64_t task_most_ns, int first)
{
    struct scheduler *scheduler = scheduler_create(1, 20, 64);
    for (int i = 0; i < 20; i++) {
        struct helped_job helped = { .job = { .kind = &kind, .cost_ns = JOB_NS },
                                     .caller = pthread_self(),
                                     .goes_on = 100 };
        const struct scheduler_help help = { job_most_ns, task_most_ns, goes_on, &helped };
        assert_true(scheduler_run(scheduler, &helped.job, HERE_NS, &help));
        wait_for(&helped.done_count, 1);
        for (int stage = first; stage < STAGES; stage++)
            assert_int_equal(helped.here[stage], 0);
        usleep(1000);
    }
    scheduler_free(scheduler);
}

TEST(leaves_larger_jobs_alone)
{
    expect_left_alone(JOB_NS - 1, JOB_NS, 0);
}

TEST(takes_no_long_tasks)
{
    expect_left_alone(JOB_NS, JOB_NS / TASKS / 10, 1);
}

/* Many threads bring jobs at once: each job ends once, and each task runs once. */
static void *bring_many(void *scheduler)
{
    for (int i = 0; i < 200; i++) {
        struct helped_job helped = { .job = { .kind = &kind, .cost_ns = JOB_NS },
                                     .caller = pthread_self(),
                                     .goes_on = i % 7 };
        const struct scheduler_help help = { JOB_NS, JOB_NS, goes_on, &helped };
        assert_true(scheduler_run(scheduler, &helped.job, HERE_NS, &help));
        wait_for(&helped.done_count, 1);
        for (int stage = 1; stage < STAGES; stage++)
            assert_int_equal(helped.here[stage] + helped.elsewhere[stage], TASKS);
    }
    return NULL;
}

TEST(callers_side_by_side)
{
    enum { CALLERS = 4 };
    pthread_t callers[CALLERS];
    struct scheduler *scheduler = scheduler_create(2, 20, 64);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, bring_many, scheduler), 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(callers[i], NULL), 0);
    assert_int_equal(scheduler_load(scheduler).job_count, 0);
    scheduler_free(scheduler);
}
