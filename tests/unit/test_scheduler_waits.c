/* SPDX-License-Identifier: Apache-2.0 */
/* A job that waits for another one holds no worker and goes on when it is told to. Meanwhile its
 * deadline, its client or the daemon's end can end it, but not while a thread works on it. Also
 * the predicted cost of the jobs that are not done. */
#include "base/clock.h"
#include "scheduler/scheduler.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { TASKS = 3, WAITING_STAGE = 1 };

struct waiting_job {
    struct job job; /* first: a job is its waiting_job */
    struct scheduler *scheduler;
    bool continues_itself; /* before stage_tasks() returns */
    atomic_bool hold;      /* its stage 0 lasts while this is set */
    atomic_int entered;    /* stage_tasks() of the stage that it waits for */
    atomic_int runs[TASKS];
    atomic_int done_count;
    int64_t cost_planned_ns;
    int64_t patience_ns; /* its deadline, from when it begins to wait; 0: none */
    enum job_outcome outcome;
};

static struct waiting_job *waiting_of(struct job *job)
{
    return (struct waiting_job *)job;
}

static int64_t stage_tasks(struct job *job, int stage)
{
    struct waiting_job *waiting = waiting_of(job);
    if (stage != WAITING_STAGE)
        return 0;
    job->cost_ns = waiting->cost_planned_ns;
    if (waiting->patience_ns)
        job->deadline_ns = clock_now_ns() + waiting->patience_ns;
    if (waiting->continues_itself) {
        assert_true(scheduler_claim(waiting->scheduler, job));
        scheduler_continue(waiting->scheduler, job, TASKS);
    }
    atomic_fetch_add(&waiting->entered, 1);
    return JOB_WAITS;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct waiting_job *waiting = waiting_of(job);
    (void)worker;
    while (atomic_load(&waiting->hold))
        usleep(100);
    if (stage == WAITING_STAGE)
        atomic_fetch_add(&waiting->runs[task], 1);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct waiting_job *waiting = waiting_of(job);
    waiting->outcome = outcome;
    atomic_fetch_add(&waiting->done_count, 1);
}

static const struct job_kind kind = { stage_tasks, run, done };

static void wait_for(atomic_int *count)
{
    for (int i = 0; i < 100000 && atomic_load(count) == 0; i++)
        usleep(100);
    assert_int_equal(atomic_load(count), 1);
}

static void submit(struct scheduler *scheduler, struct waiting_job *waiting)
{
    waiting->job.kind = &kind;
    waiting->scheduler = scheduler;
    assert_true(scheduler_submit(scheduler, &waiting->job));
}

static void assert_ran_all(const struct waiting_job *waiting)
{
    assert_int_equal(waiting->done_count, 1);
    assert_int_equal(waiting->outcome, JOB_FINISHED);
    for (int task = 0; task < TASKS; task++)
        assert_int_equal(waiting->runs[task], 1);
}

TEST(a_waiting_job_holds_no_worker)
{
    static struct waiting_job waiting, other;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    submit(scheduler, &waiting);
    wait_for(&waiting.entered);
    other.continues_itself = true;
    submit(scheduler, &other);
    wait_for(&other.done_count);
    assert_ran_all(&other);
    assert_int_equal(waiting.done_count, 0);
    assert_true(scheduler_claim(scheduler, &waiting.job));
    scheduler_continue(scheduler, &waiting.job, TASKS);
    scheduler_free(scheduler);
    assert_ran_all(&waiting);
}

TEST(it_may_be_over_when_it_continues)
{
    static struct waiting_job waiting;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    submit(scheduler, &waiting);
    wait_for(&waiting.entered);
    assert_true(scheduler_claim(scheduler, &waiting.job));
    scheduler_continue(scheduler, &waiting.job, 0);
    scheduler_free(scheduler);
    assert_int_equal(waiting.done_count, 1);
    assert_int_equal(waiting.outcome, JOB_FINISHED);
    assert_int_equal(waiting.runs[0], 0);
}

/* Only the scheduler's own clock looks at the job: another job holds the one worker. */
TEST(its_deadline_ends_it)
{
    static struct waiting_job waiting, held, queued;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    atomic_store(&held.hold, true);
    held.continues_itself = true;
    waiting.patience_ns = 10000000;
    submit(scheduler, &waiting);
    submit(scheduler, &held);
    queued.job.deadline_ns = clock_now_ns() + 1000000;
    submit(scheduler, &queued);
    wait_for(&queued.done_count);
    wait_for(&waiting.done_count);
    assert_int_equal(queued.outcome, JOB_DEADLINE);
    assert_int_equal(queued.entered, 0);
    assert_int_equal(waiting.outcome, JOB_DEADLINE);
    assert_true(clock_now_ns() > waiting.job.deadline_ns);
    assert_int_equal(held.done_count, 0);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
    assert_ran_all(&held);
}

TEST(a_stop_ends_it_at_once_but_not_while_it_is_claimed)
{
    static struct waiting_job waiting, claimed;
    struct scheduler *scheduler = scheduler_create(2, 9, 64);
    submit(scheduler, &waiting);
    submit(scheduler, &claimed);
    wait_for(&waiting.entered);
    wait_for(&claimed.entered);
    scheduler_stop_job(scheduler, &waiting.job, JOB_LEFT);
    assert_int_equal(waiting.done_count, 1);
    assert_int_equal(waiting.outcome, JOB_LEFT);
    assert_false(scheduler_claim(scheduler, &waiting.job));

    assert_true(scheduler_claim(scheduler, &claimed.job));
    scheduler_stop_job(scheduler, &claimed.job, JOB_LEFT);
    assert_int_equal(claimed.done_count, 0);
    assert_false(scheduler_claim(scheduler, &claimed.job));
    scheduler_continue(scheduler, &claimed.job, TASKS);
    assert_int_equal(claimed.done_count, 1);
    assert_int_equal(claimed.outcome, JOB_LEFT);
    scheduler_free(scheduler);
    assert_int_equal(claimed.runs[0], 0);
}

TEST(cancel_all_ends_what_waits)
{
    static struct waiting_job waiting, claimed;
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    submit(scheduler, &waiting);
    submit(scheduler, &claimed);
    wait_for(&waiting.entered);
    wait_for(&claimed.entered);
    assert_true(scheduler_claim(scheduler, &claimed.job));
    scheduler_cancel_all(scheduler);
    assert_int_equal(waiting.done_count, 1);
    assert_int_equal(waiting.outcome, JOB_CANCELLED);
    assert_int_equal(claimed.done_count, 0);
    scheduler_continue(scheduler, &claimed.job, TASKS);
    assert_int_equal(claimed.done_count, 1);
    assert_int_equal(claimed.outcome, JOB_CANCELLED);
    scheduler_free(scheduler);
}

TEST(the_load_is_what_is_still_to_do)
{
    static struct waiting_job planned, held, queued;
    const int64_t minute_ns = INT64_C(60000000000);
    struct scheduler *scheduler = scheduler_create(1, 9, 64);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 0);

    planned.job.cost_ns = minute_ns;
    planned.cost_planned_ns = 5 * minute_ns;
    submit(scheduler, &planned);
    wait_for(&planned.entered);
    while (scheduler_load(scheduler).cost_ns != 5 * minute_ns)
        usleep(100);
    held.job.cost_ns = held.cost_planned_ns = 2 * minute_ns;
    held.continues_itself = true;
    atomic_store(&held.hold, true);
    submit(scheduler, &held);
    queued.job.cost_ns = 1000 * minute_ns;
    submit(scheduler, &queued);
    assert_int_equal(scheduler_load(scheduler).job_count, 3);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 1007 * minute_ns);

    scheduler_stop_job(scheduler, &queued.job, JOB_LEFT);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 7 * minute_ns);
    usleep(3000); /* when the held job's first task ends, it has taken at least this long */
    atomic_store(&held.hold, false);
    wait_for(&held.done_count);
    assert_int_equal(scheduler_load(scheduler).job_count, 1);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 5 * minute_ns);
    assert_true(scheduler_claim(scheduler, &planned.job));
    scheduler_continue(scheduler, &planned.job, TASKS);
    wait_for(&planned.done_count);
    assert_int_equal(scheduler_load(scheduler).job_count, 0);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 0);
    scheduler_free(scheduler);
}

/* A gatherer of jobs has a list of its own. The jobs stand in it until done takes them out. */
enum { GATHERED_MAX = 200 };

static struct {
    pthread_mutex_t mutex;
    struct scheduler *scheduler;
    bool waits[GATHERED_MAX];
    struct waiting_job jobs[GATHERED_MAX];
} gatherer = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void set_waits(struct job *job, bool waits)
{
    pthread_mutex_lock(&gatherer.mutex);
    gatherer.waits[waiting_of(job) - gatherer.jobs] = waits;
    pthread_mutex_unlock(&gatherer.mutex);
}

static int64_t gathered_stage_tasks(struct job *job, int stage)
{
    if (stage != WAITING_STAGE)
        return 0;
    set_waits(job, true);
    return JOB_WAITS;
}

static void gathered_done(struct job *job, enum job_outcome outcome)
{
    set_waits(job, false);
    done(job, outcome);
}

static const struct job_kind gathered_kind = { gathered_stage_tasks, run, gathered_done };

static void *continue_jobs(void *argument)
{
    atomic_bool *stop = argument;
    while (!atomic_load(stop)) {
        for (int i = 0; i < GATHERED_MAX; i++) {
            struct job *job = &gatherer.jobs[i].job;
            pthread_mutex_lock(&gatherer.mutex);
            const bool claimed = gatherer.waits[i] && scheduler_claim(gatherer.scheduler, job);
            gatherer.waits[i] = false;
            pthread_mutex_unlock(&gatherer.mutex);
            if (claimed)
                scheduler_continue(gatherer.scheduler, job, TASKS);
        }
    }
    return NULL;
}

static void *stop_every_third(void *argument)
{
    (void)argument;
    for (int i = 0; i < GATHERED_MAX; i += 3)
        scheduler_stop_job(gatherer.scheduler, &gatherer.jobs[i].job, JOB_LEFT);
    return NULL;
}

TEST(gathering_races_with_stopping)
{
    static atomic_bool stop;
    pthread_t continuer, stopper;
    gatherer.scheduler = scheduler_create(3, GATHERED_MAX, 64);
    for (int i = 0; i < GATHERED_MAX; i++) {
        gatherer.jobs[i].job.kind = &gathered_kind;
        assert_true(scheduler_submit(gatherer.scheduler, &gatherer.jobs[i].job));
    }
    assert_int_equal(pthread_create(&continuer, NULL, continue_jobs, &stop), 0);
    assert_int_equal(pthread_create(&stopper, NULL, stop_every_third, NULL), 0);
    pthread_join(stopper, NULL);
    for (int i = 0; i < GATHERED_MAX; i++)
        wait_for(&gatherer.jobs[i].done_count);
    atomic_store(&stop, true);
    pthread_join(continuer, NULL);
    scheduler_free(gatherer.scheduler);
    for (int i = 0; i < GATHERED_MAX; i++) {
        const bool finished = gatherer.jobs[i].outcome == JOB_FINISHED;
        assert_true(finished || (i % 3 == 0 && gatherer.jobs[i].outcome == JOB_LEFT));
        assert_int_equal(gatherer.jobs[i].done_count, 1);
        if (finished)
            assert_ran_all(&gatherer.jobs[i]);
    }
}
