/* SPDX-License-Identifier: Apache-2.0 */
/* On an idle daemon, the thread that brings a small job runs it. A job that is not small, of
 * unknown cost, or not alone goes to the workers. So does a job that proves to be larger than
 * predicted. */
#include "scheduler/scheduler.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { TASKS = 5, SMALL_NS = 1000, HERE_NS = 10000, LARGE_NS = 1000000 };

struct small_job {
    struct job job; /* first: a job is its small_job */
    pthread_t caller;
    int64_t planned_ns;               /* what it says that it costs after its first stage */
    bool waits;                       /* before its second */
    struct scheduler *quick;          /* where another is quicker than the wait begins; or NULL */
    struct small_job *frees;          /* it no longer holds its worker, before the second stage */
    atomic_bool hold;                 /* the tasks of its second stage last while this is set */
    atomic_int begun;                 /* of those */
    atomic_int here[2], elsewhere[2]; /* tasks of each stage */
    atomic_int done_count, waiting_count;
    bool done_here;
};

static int64_t stage_tasks(struct job *job, int stage)
{
    struct small_job *small = (struct small_job *)job;
    if (stage != 1)
        return 0;
    job->cost_ns = small->planned_ns;
    if (small->frees) {
        atomic_store(&small->frees->hold, false);
        while (atomic_load(&small->frees->done_count) == 0)
            usleep(100);
        usleep(20000); /* it sleeps, for no task is there */
    }
    if (!small->waits)
        return TASKS;
    if (small->quick) {
        assert_true(scheduler_claim(small->quick, job));
        scheduler_continue(small->quick, job, TASKS);
    }
    atomic_fetch_add(&small->waiting_count, 1);
    return JOB_WAITS;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct small_job *small = (struct small_job *)job;
    (void)task;
    ((char *)worker->workspace)[worker->workspace_bytes - 1] = 1;
    assert_in_range(worker->slot, 0, SCHEDULER_AT_ONCE_MAX - 1);
    if (stage == 1)
        atomic_fetch_add(&small->begun, 1);
    while (stage == 1 && atomic_load(&small->hold))
        usleep(100);
    const bool here = pthread_equal(pthread_self(), small->caller);
    atomic_fetch_add(here ? &small->here[stage] : &small->elsewhere[stage], 1);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct small_job *small = (struct small_job *)job;
    assert_int_equal(outcome, JOB_FINISHED);
    small->done_here = pthread_equal(pthread_self(), small->caller);
    atomic_fetch_add(&small->done_count, 1);
}

static const struct job_kind kind = { stage_tasks, run, done };

static void wait_for(atomic_int *count, int wanted)
{
    for (int i = 0; i < 100000 && atomic_load(count) != wanted; i++)
        usleep(100);
    assert_int_equal(atomic_load(count), wanted);
}

static void bring(struct scheduler *scheduler, struct small_job *small, int64_t cost_ns)
{
    small->job.kind = &kind;
    small->job.cost_ns = cost_ns;
    small->caller = pthread_self();
    assert_true(scheduler_run(scheduler, &small->job, HERE_NS, NULL));
}

/* Its workers wait for work. Workers of a new scheduler may not have come that far, so it runs a
 * few jobs first. */
static struct scheduler *idle_scheduler(int worker_count, int queue_max)
{
    static struct small_job jobs[8];
    struct scheduler *scheduler = scheduler_create(worker_count, queue_max, 64);
    for (int i = 0; i < 8; i++) {
        jobs[i] = (struct small_job){ .job.kind = &kind };
        assert_true(scheduler_submit(scheduler, &jobs[i].job));
        wait_for(&jobs[i].done_count, 1);
        usleep(1000);
    }
    return scheduler;
}

/* Whether the calling thread ran all tasks of the job. */
static bool ran_here(const struct small_job *small)
{
    assert_int_equal(small->done_count, 1);
    assert_int_equal(small->here[0] + small->elsewhere[0], 1);
    assert_int_equal(small->here[1] + small->elsewhere[1], TASKS);
    return small->done_here && small->elsewhere[0] + small->elsewhere[1] == 0;
}

TEST(a_small_job_is_run_where_it_came)
{
    bool here = false;
    struct scheduler *scheduler = idle_scheduler(2, 20);
    for (int i = 0; i < 1000 && !here; i++) { /* until a worker has gone to sleep */
        struct small_job small = { .planned_ns = SMALL_NS };
        bring(scheduler, &small, SMALL_NS);
        wait_for(&small.done_count, 1);
        here = ran_here(&small);
        usleep(1000);
    }
    assert_true(here);
    assert_int_equal(scheduler_load(scheduler).job_count, 0);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 0);
    scheduler_free(scheduler);
}

TEST(what_is_large_or_unknown_is_not)
{
    static const int64_t costs[] = { 0, HERE_NS + 1, LARGE_NS };
    struct scheduler *scheduler = idle_scheduler(2, 20);
    for (int i = 0; i < 3; i++) {
        struct small_job small = { .planned_ns = SMALL_NS };
        bring(scheduler, &small, costs[i]);
        wait_for(&small.done_count, 1);
        assert_int_equal(small.here[0] + small.here[1], 0);
        assert_false(small.done_here);
    }
    scheduler_free(scheduler);
}

TEST(what_proves_to_be_large_goes_on_with_the_workers)
{
    struct scheduler *scheduler = idle_scheduler(2, 20);
    struct small_job small = { .planned_ns = LARGE_NS };
    bring(scheduler, &small, SMALL_NS);
    wait_for(&small.done_count, 1);
    assert_int_equal(small.here[0] + small.elsewhere[0], 1);
    assert_int_equal(small.here[1], 0);
    assert_int_equal(small.elsewhere[1], TASKS);
    scheduler_free(scheduler);
}

TEST(what_waits_for_another_leaves_the_caller)
{
    struct scheduler *scheduler = idle_scheduler(2, 20);
    struct small_job small = { .planned_ns = SMALL_NS, .waits = true };
    bring(scheduler, &small, SMALL_NS);
    wait_for(&small.waiting_count, 1);
    assert_int_equal(small.done_count, 0);
    assert_true(scheduler_claim(scheduler, &small.job));
    scheduler_continue(scheduler, &small.job, TASKS);
    wait_for(&small.done_count, 1);
    assert_int_equal(small.elsewhere[1], TASKS);
    scheduler_free(scheduler);
}

/* The job goes on with the workers, which sleep and must be woken. */
TEST(who_is_continued_at_once_is_not_forgotten)
{
    struct scheduler *scheduler = idle_scheduler(2, 20);
    struct small_job small = { .planned_ns = SMALL_NS, .waits = true, .quick = scheduler };
    bring(scheduler, &small, SMALL_NS);
    wait_for(&small.done_count, 1);
    assert_int_equal(small.elsewhere[1], TASKS);
    scheduler_free(scheduler);
}

/* The one worker is busy, with and without other jobs in the queue. The queue keeps its bound. */
TEST(where_there_is_company_it_queues)
{
    static struct small_job held, second, third, refused;
    struct scheduler *scheduler = idle_scheduler(1, 3);
    atomic_store(&held.hold, true);
    held.job.kind = &kind;
    assert_true(scheduler_submit(scheduler, &held.job));
    wait_for(&held.begun, 1);
    second.planned_ns = third.planned_ns = SMALL_NS;
    bring(scheduler, &second, SMALL_NS);
    bring(scheduler, &third, SMALL_NS);
    refused.job.kind = &kind;
    refused.job.cost_ns = SMALL_NS;
    assert_false(scheduler_run(scheduler, &refused.job, HERE_NS, NULL));
    assert_int_equal(second.done_count + third.done_count, 0);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(second.here[0] + second.here[1] + third.here[0] + third.here[1], 0);
    assert_int_equal(second.done_count + third.done_count, 2);
    assert_int_equal(refused.done_count, 0);
}

/* A long job holds the only worker and has more tasks to come. */
TEST(beside_a_long_job_it_is_run_where_it_came)
{
    static struct small_job held;
    struct small_job small = { .planned_ns = SMALL_NS }, larger = { .planned_ns = SMALL_NS };
    struct scheduler *scheduler = idle_scheduler(1, 9);
    held.planned_ns = held.job.cost_ns = 100 * (int64_t)SCHEDULER_SHORT_NS;
    held.job.kind = &kind;
    atomic_store(&held.hold, true);
    assert_true(scheduler_submit(scheduler, &held.job));
    wait_for(&held.begun, 1);
    bring(scheduler, &small, SMALL_NS);
    assert_true(ran_here(&small));
    bring(scheduler, &larger, HERE_NS + 1); /* the spare thread's */
    wait_for(&larger.done_count, 1);
    assert_int_equal(larger.here[0] + larger.here[1], 0);
    assert_int_equal(held.done_count, 0);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(held.elsewhere[1], TASKS);
}

static void *bring_many(void *argument)
{
    for (int i = 0; i < 200; i++) {
        struct small_job small = { .planned_ns = i % 3 ? SMALL_NS : LARGE_NS };
        bring(argument, &small, SMALL_NS);
        wait_for(&small.done_count, 1);
        assert_int_equal(small.here[1] + small.elsewhere[1], TASKS);
    }
    return NULL;
}

TEST(many_bring_jobs_at_once)
{
    pthread_t threads[4];
    struct scheduler *scheduler = idle_scheduler(2, 20);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, bring_many, scheduler), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(scheduler_load(scheduler).job_count, 0);
    scheduler_free(scheduler);
}

static void submit(struct scheduler *scheduler, struct small_job *small, int64_t cost_ns)
{
    small->job.kind = &kind;
    small->job.cost_ns = cost_ns;
    small->caller = pthread_self();
    assert_true(scheduler_submit(scheduler, &small->job));
}

/* Behind a worker that is busy: a thread that has refused a job runs the first that waits, if it is
 * small. It is longer than what the spare thread would run. */
TEST(a_thread_that_refuses_runs_one_that_waits)
{
    struct scheduler *scheduler = idle_scheduler(1, 20);
    struct small_job busy = { .hold = true, .job.tasks_at_once = 1 };
    const int64_t most_ns = 3 * SCHEDULER_SHORT_NS, first_ns = 2 * SCHEDULER_SHORT_NS;
    struct small_job first = { .planned_ns = first_ns }, large = { .planned_ns = SMALL_NS };
    assert_int_equal(scheduler_relieve(scheduler, most_ns), 0);
    submit(scheduler, &busy, 0);
    wait_for(&busy.begun, 1);
    submit(scheduler, &first, first_ns);
    submit(scheduler, &large, 2 * most_ns);
    assert_int_equal(scheduler_relieve(scheduler, most_ns), first_ns);
    assert_true(ran_here(&first));
    assert_int_equal(scheduler_relieve(scheduler, most_ns), 0);
    assert_int_equal(atomic_load(&large.done_count), 0);
    atomic_store(&busy.hold, false);
    wait_for(&large.done_count, 1);
    assert_false(ran_here(&large));
    scheduler_free(scheduler);
}

/* What such a thread leaves is not its own: a worker that sleeps meanwhile is woken for it. */
TEST(the_rest_of_one_that_grows_is_left_to_a_worker)
{
    struct scheduler *scheduler = idle_scheduler(1, 20);
    struct small_job busy = { .hold = true, .job.tasks_at_once = 1 };
    const int64_t first_ns = 2 * SCHEDULER_SHORT_NS;
    struct small_job grows = { .planned_ns = 8 * SCHEDULER_SHORT_NS,
                               .frees = &busy,
                               .job.tasks_at_once = 1 };
    submit(scheduler, &busy, 0);
    wait_for(&busy.begun, 1);
    submit(scheduler, &grows, first_ns);
    assert_int_equal(scheduler_relieve(scheduler, 3 * SCHEDULER_SHORT_NS), first_ns);
    wait_for(&grows.done_count, 1);
    assert_int_equal(atomic_load(&grows.elsewhere[1]), TASKS);
    scheduler_free(scheduler);
}
