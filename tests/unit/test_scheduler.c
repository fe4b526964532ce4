/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler runs every task of every stage once, in stage order. It ends every job exactly
 * once, however the job ends. It keeps its bound. */
#include "base/clock.h"
#include "scheduler/scheduler.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { STAGES = 4, TASKS_MAX = 37 };

struct counted_job {
    struct job job; /* first: a job is its counted_job */
    atomic_int runs[STAGES][TASKS_MAX];
    atomic_int in_stage; /* tasks that run now must all be of this stage */
    atomic_int wrong_stage;
    atomic_int done_count;
    enum job_outcome outcome;
    atomic_bool hold;  /* tasks of stage 1 wait while it is set */
    atomic_bool spins; /* they compute meanwhile, for so much CPU time: */
    _Atomic int64_t spun_ns;
    bool single;                 /* stage 1 has one task */
    struct counted_job *watched; /* was it over when this job was? */
    bool watched_was_over;
};

static int64_t stage_tasks(struct job *job, int stage)
{
    static const int64_t counts[STAGES + 1] = { 1, TASKS_MAX, 1, 5, 0 };
    struct counted_job *counted = (struct counted_job *)job;
    atomic_store(&counted->in_stage, stage);
    return counted->single && stage == 1 ? 1 : counts[stage];
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct counted_job *counted = (struct counted_job *)job;
    ((char *)worker->workspace)[worker->workspace_bytes - 1] = 1;
    atomic_fetch_add(&counted->runs[stage][task], 1);
    if (atomic_load(&counted->in_stage) != stage)
        atomic_fetch_add(&counted->wrong_stage, 1);
    const int64_t begun_ns = clock_thread_ns();
    while (stage == 1 && atomic_load(&counted->hold)) {
        atomic_store(&counted->spun_ns, clock_thread_ns() - begun_ns);
        if (!atomic_load(&counted->spins))
            usleep(200);
    }
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct counted_job *counted = (struct counted_job *)job;
    counted->outcome = outcome;
    if (counted->watched)
        counted->watched_was_over = atomic_load(&counted->watched->done_count) > 0;
    atomic_fetch_add(&counted->done_count, 1);
}

static const struct job_kind kind = { stage_tasks, run, done };

static void wait_done(struct counted_job *job)
{
    for (int i = 0; i < 100000 && atomic_load(&job->done_count) == 0; i++)
        usleep(100);
    assert_int_equal(atomic_load(&job->done_count), 1);
}

TEST(every_task_once)
{
    static struct counted_job jobs[50];
    struct scheduler *scheduler = scheduler_create(4, 50, 1000);
    assert_non_null(scheduler);
    for (int i = 0; i < 50; i++) {
        jobs[i].job.kind = &kind;
        assert_true(scheduler_submit(scheduler, &jobs[i].job));
    }
    scheduler_free(scheduler);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(jobs[i].done_count, 1);
        assert_int_equal(jobs[i].outcome, JOB_FINISHED);
        assert_int_equal(jobs[i].wrong_stage, 0);
        for (int task = 0; task < TASKS_MAX; task++)
            assert_int_equal(jobs[i].runs[1][task], 1);
        for (int task = 0; task < 5; task++)
            assert_int_equal(jobs[i].runs[3][task], 1);
    }
}

TEST(the_queue_is_bounded)
{
    static struct counted_job held, waiting, refused, later;
    struct scheduler *scheduler = scheduler_create(1, 2, 64);
    held.job.kind = waiting.job.kind = refused.job.kind = later.job.kind = &kind;
    atomic_store(&held.hold, true);
    assert_true(scheduler_submit(scheduler, &held.job));
    assert_true(scheduler_submit(scheduler, &waiting.job));
    assert_false(scheduler_submit(scheduler, &refused.job));
    atomic_store(&held.hold, false);
    wait_done(&held);
    wait_done(&waiting);
    assert_true(scheduler_submit(scheduler, &later.job));
    scheduler_free(scheduler);
    assert_int_equal(later.done_count, 1);
    assert_int_equal(refused.done_count, 0);
}

/* One worker takes turns: the short job needs 8 of them, the long one 44. */
TEST(a_short_job_passes_a_long_one)
{
    static struct counted_job long_job, short_job;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    long_job.job.kind = short_job.job.kind = &kind;
    short_job.single = true;
    short_job.watched = &long_job;
    atomic_store(&long_job.hold, true);
    assert_true(scheduler_submit(scheduler, &long_job.job));
    while (atomic_load(&long_job.runs[1][0]) == 0)
        usleep(100);
    assert_true(scheduler_submit(scheduler, &short_job.job));
    /* Who has used less CPU time goes first: the long job has used more than the short one can. */
    atomic_store(&long_job.spins, true);
    while (atomic_load(&long_job.spun_ns) < 100000000)
        usleep(1000);
    atomic_store(&long_job.hold, false);
    wait_done(&short_job);
    wait_done(&long_job);
    assert_false(short_job.watched_was_over);
    scheduler_free(scheduler);
}

TEST(a_queued_job_is_stopped_at_once)
{
    static struct counted_job held, queued;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    held.job.kind = queued.job.kind = &kind;
    atomic_store(&held.hold, true);
    assert_true(scheduler_submit(scheduler, &held.job));
    while (atomic_load(&held.runs[1][0]) == 0)
        usleep(100);
    assert_true(scheduler_submit(scheduler, &queued.job));
    scheduler_stop_job(scheduler, &queued.job, JOB_DEADLINE);
    assert_int_equal(queued.done_count, 1);
    assert_int_equal(queued.outcome, JOB_DEADLINE);
    assert_int_equal(queued.runs[0][0], 0);
    scheduler_stop_job(scheduler, &queued.job, JOB_CANCELLED); /* over already */
    assert_int_equal(queued.done_count, 1);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
}

TEST(a_running_job_stops_between_tasks)
{
    static struct counted_job held;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    held.job.kind = &kind;
    atomic_store(&held.hold, true);
    assert_true(scheduler_submit(scheduler, &held.job));
    while (atomic_load(&held.runs[1][0]) == 0)
        usleep(100);
    scheduler_stop_job(scheduler, &held.job, JOB_DEADLINE);
    assert_int_equal(held.done_count, 0);
    atomic_store(&held.hold, false);
    wait_done(&held);
    assert_int_equal(held.outcome, JOB_DEADLINE);
    assert_int_equal(held.runs[1][1], 0);
    scheduler_free(scheduler);
}

TEST(a_passed_deadline_begins_nothing)
{
    static struct counted_job late;
    struct scheduler *scheduler = scheduler_create(2, 9, 64);
    late.job.kind = &kind;
    late.job.deadline_ns = clock_now_ns() - 1;
    assert_true(scheduler_submit(scheduler, &late.job));
    scheduler_free(scheduler);
    assert_int_equal(late.done_count, 1);
    assert_int_equal(late.outcome, JOB_DEADLINE);
    assert_int_equal(late.runs[0][0], 0);
}

TEST(cancel_all_ends_everything)
{
    static struct counted_job jobs[20];
    struct scheduler *scheduler = scheduler_create(2, 20, 64);
    for (int i = 0; i < 20; i++) {
        jobs[i].job.kind = &kind;
        atomic_store(&jobs[i].hold, true);
        assert_true(scheduler_submit(scheduler, &jobs[i].job));
    }
    usleep(5000);
    scheduler_cancel_all(scheduler);
    assert_false(scheduler_submit(scheduler, &jobs[0].job));
    for (int i = 0; i < 20; i++)
        atomic_store(&jobs[i].hold, false);
    scheduler_free(scheduler);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(jobs[i].done_count, 1);
        assert_int_equal(jobs[i].outcome, JOB_CANCELLED);
    }
}

struct stopper {
    struct scheduler *scheduler;
    struct counted_job *jobs;
    int count;
};

static void *stop_jobs(void *argument)
{
    const struct stopper *stopper = argument;
    for (int i = 0; i < stopper->count; i++)
        scheduler_stop_job(stopper->scheduler, &stopper->jobs[i].job, JOB_DEADLINE);
    return NULL;
}

TEST(stopping_races_with_running)
{
    enum { COUNT = 200 };
    static struct counted_job jobs[COUNT];
    struct scheduler *scheduler = scheduler_create(3, COUNT, 64);
    for (int i = 0; i < COUNT; i++) {
        jobs[i].job.kind = &kind;
        assert_true(scheduler_submit(scheduler, &jobs[i].job));
    }
    struct stopper stopper = { scheduler, jobs, COUNT };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stop_jobs, &stopper), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    scheduler_free(scheduler);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(jobs[i].done_count, 1);
}
