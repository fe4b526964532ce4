/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the scheduler. Their number changes while jobs run, and no job is lost. A spare
 * thread runs short jobs while long ones hold every worker. No job has more tasks at once than
 * it allows. Pinned workers stay on their CPUs. */
#include "scheduler/scheduler.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000 };

struct plain_job {
    struct job job; /* first: a job is its plain_job */
    int64_t task_count;
    atomic_bool hold;         /* its tasks last while this is set */
    atomic_bool hold_first;   /* the same of its stage 0 */
    bool pause;               /* its tasks take a moment */
    bool waits_long;          /* its tasks take longer than short ones do, without a CPU */
    atomic_int running, most; /* tasks at once */
    atomic_int slots[SCHEDULER_AT_ONCE_MAX];
    atomic_int wrong_slots;
    atomic_int runs, done_count;
    atomic_int cpus[CPU_SETSIZE]; /* tasks that ran there, and were told to stay there */
};

static int64_t stage_tasks(struct job *job, int stage)
{
    return stage == 1 ? ((struct plain_job *)job)->task_count : 0;
}

static void note_cpu(struct plain_job *plain)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1
        && CPU_ISSET(sched_getcpu(), &set))
        atomic_fetch_add(&plain->cpus[sched_getcpu()], 1);
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct plain_job *plain = (struct plain_job *)job;
    (void)task;
    if (stage == 0) {
        if (atomic_load(&plain->hold_first))
            atomic_fetch_add(&plain->running, 1);
        while (atomic_load(&plain->hold_first))
            usleep(100);
        return;
    }
    const int running = atomic_fetch_add(&plain->running, 1) + 1;
    int most = atomic_load(&plain->most);
    while (running > most && !atomic_compare_exchange_weak(&plain->most, &most, running)) {
    }
    if (atomic_fetch_add(&plain->slots[worker->slot], 1) != 0)
        atomic_fetch_add(&plain->wrong_slots, 1);
    while (atomic_load(&plain->hold))
        usleep(100);
    if (plain->pause)
        usleep(300);
    if (plain->waits_long)
        usleep(SCHEDULER_SHORT_NS / 1000 * 2);
    note_cpu(plain);
    atomic_fetch_sub(&plain->slots[worker->slot], 1);
    atomic_fetch_sub(&plain->running, 1);
    atomic_fetch_add(&plain->runs, 1);
}

static void done(struct job *job, enum job_outcome outcome)
{
    assert_int_equal(outcome, JOB_FINISHED);
    atomic_fetch_add(&((struct plain_job *)job)->done_count, 1);
}

static const struct job_kind kind = { stage_tasks, run, done };

static void submit(struct scheduler *scheduler, struct plain_job *plain, int64_t task_count)
{
    plain->job.kind = &kind;
    plain->task_count = task_count;
    assert_true(scheduler_submit(scheduler, &plain->job));
}

/* Waits until the count is as wanted. Fails after ten seconds. */
static void wait_for(atomic_int *count, int wanted)
{
    for (int i = 0; i < 100000 && atomic_load(count) != wanted; i++)
        usleep(100);
    assert_int_equal(atomic_load(count), wanted);
}

TEST(the_spare_thread_runs_short_jobs_while_long_ones_hold_the_workers)
{
    static struct plain_job long_job, short_jobs[5], other_long_job;
    struct scheduler *scheduler = scheduler_create(2, 9, 64);
    atomic_store(&long_job.hold, true);
    long_job.job.cost_ns = other_long_job.job.cost_ns = 30 * (int64_t)SECOND_NS;
    submit(scheduler, &long_job, 4);
    wait_for(&long_job.running, 2);
    submit(scheduler, &other_long_job, 1);
    for (int i = 0; i < 5; i++) {
        short_jobs[i].job.cost_ns = SCHEDULER_SHORT_NS / 2;
        submit(scheduler, &short_jobs[i], 3);
    }
    for (int i = 0; i < 5; i++)
        wait_for(&short_jobs[i].done_count, 1);
    assert_int_equal(long_job.runs, 0);
    assert_int_equal(other_long_job.runs, 0);
    assert_int_equal(long_job.most, 2);
    atomic_store(&long_job.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(long_job.runs, 4);
    assert_int_equal(other_long_job.done_count, 1);
}

/* The spare thread begins the job. It must not go on with it, because the worker is idle again. */
TEST(a_worker_that_is_free_again_goes_on_with_what_the_spare_thread_began)
{
    static struct plain_job long_job, short_job;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    atomic_store(&long_job.hold, true);
    atomic_store(&short_job.hold_first, true);
    long_job.job.cost_ns = 30 * (int64_t)SECOND_NS;
    short_job.job.cost_ns = SCHEDULER_SHORT_NS / 2;
    submit(scheduler, &long_job, 1);
    wait_for(&long_job.running, 1);
    submit(scheduler, &short_job, 1);
    wait_for(&short_job.running, 1);
    atomic_store(&long_job.hold, false);
    wait_for(&long_job.done_count, 1);
    usleep(20000); /* the worker has nothing to do now and waits */
    atomic_store(&short_job.hold_first, false);
    wait_for(&short_job.done_count, 1);
    scheduler_free(scheduler);
    assert_int_equal(short_job.runs, 1);
}

/* The tasks wait without a CPU, as if other programs took the CPUs. */
TEST(a_short_job_is_not_long_because_it_waited_for_a_cpu)
{
    static struct plain_job long_job, short_jobs[2];
    static const int64_t costs_ns[] = { SCHEDULER_SHORT_NS / 2, 10000 };
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    atomic_store(&long_job.hold, true);
    long_job.job.cost_ns = 30 * (int64_t)SECOND_NS;
    submit(scheduler, &long_job, 2);
    wait_for(&long_job.running, 1);
    for (int i = 0; i < 2; i++) {
        short_jobs[i].job.cost_ns = costs_ns[i];
        short_jobs[i].waits_long = true;
        submit(scheduler, &short_jobs[i], 3);
        wait_for(&short_jobs[i].done_count, 1);
    }
    assert_int_equal(long_job.runs, 0);
    atomic_store(&long_job.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(long_job.runs, 2);
}

TEST(a_job_has_no_more_tasks_at_once_than_it_bears)
{
    static struct plain_job bounded, other;
    struct scheduler *scheduler = scheduler_create(4, 9, 64);
    bounded.job.tasks_at_once = 2;
    bounded.pause = true;
    submit(scheduler, &bounded, 50);
    atomic_store(&other.hold, true); /* the two other workers are free for it */
    submit(scheduler, &other, 2);
    wait_for(&other.running, 2);
    atomic_store(&other.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(bounded.runs, 50);
    assert_int_equal(bounded.most, 2);
    assert_int_equal(bounded.wrong_slots, 0);
    assert_int_equal(atomic_load(&bounded.slots[2]), 0);
}

TEST(more_workers_take_tasks_of_a_job_that_runs)
{
    static struct plain_job plain;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    atomic_store(&plain.hold, true);
    submit(scheduler, &plain, 8);
    wait_for(&plain.running, 1);
    assert_int_equal(scheduler_set_worker_count(scheduler, 3), 3);
    wait_for(&plain.running, 3);
    atomic_store(&plain.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(plain.runs, 8);
    assert_int_equal(plain.wrong_slots, 0);
}

TEST(fewer_workers_end_what_they_have_begun)
{
    static struct plain_job plain;
    struct scheduler *scheduler = scheduler_create(3, 9, 64);
    atomic_store(&plain.hold, true);
    submit(scheduler, &plain, 40);
    wait_for(&plain.running, 3);
    assert_int_equal(scheduler_set_worker_count(scheduler, 1), 1);
    assert_int_equal(scheduler_worker_count(scheduler), 1);
    atomic_store(&plain.hold, false);
    wait_for(&plain.done_count, 1);
    assert_int_equal(plain.runs, 40);
    assert_int_equal(scheduler_set_worker_count(scheduler, 0), 1);
    assert_int_equal(scheduler_set_worker_count(scheduler, 1000), SCHEDULER_WORKERS_MAX);
    scheduler_free(scheduler);
}

static void *submit_many(void *argument)
{
    static struct plain_job jobs[300];
    struct scheduler *scheduler = argument;
    for (int i = 0; i < 300; i++) {
        jobs[i].pause = i % 7 == 0;
        submit(scheduler, &jobs[i], i % 5 + 1);
    }
    return jobs;
}

TEST(the_number_changes_while_jobs_come_and_go)
{
    pthread_t submitter;
    void *jobs;
    struct scheduler *scheduler = scheduler_create(2, 300, 64);
    assert_int_equal(pthread_create(&submitter, NULL, submit_many, scheduler), 0);
    for (int i = 0; i < 60; i++) {
        scheduler_set_worker_count(scheduler, i % 6 + 1);
        usleep(300);
    }
    pthread_join(submitter, &jobs);
    scheduler_free(scheduler);
    for (int i = 0; i < 300; i++) {
        const struct plain_job *plain = (struct plain_job *)jobs + i;
        assert_int_equal(plain->done_count, 1);
        assert_int_equal(plain->runs, plain->task_count);
    }
}

/* One worker begins before pinning is switched on, one after it. Each is on one CPU: the first
 * and the second. */
TEST(pinned_workers_stay_where_they_are_put)
{
    static struct plain_job plain;
    cpu_set_t allowed;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    scheduler_pin_workers(scheduler);
    assert_int_equal(scheduler_set_worker_count(scheduler, 2), 2);
    atomic_store(&plain.hold, true);
    submit(scheduler, &plain, 2);
    wait_for(&plain.running, 2);
    atomic_store(&plain.hold, false);
    scheduler_free(scheduler);

    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    const int cpu_count = CPU_COUNT(&allowed);
    int seen = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) {
            assert_int_equal(plain.cpus[cpu], 0);
            continue;
        }
        const int expected = cpu_count == 1 ? 2 : seen < 2;
        assert_int_equal(plain.cpus[cpu], expected);
        seen++;
    }
}
