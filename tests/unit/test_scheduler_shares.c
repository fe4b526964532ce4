/* SPDX-License-Identifier: Apache-2.0 */
/* Shares in a scheduler with threads. A short job of a light share runs though long tasks of
 * another share hold all workers: by the spare thread, or by its caller. Time counts for the share
 * that it was spent for, wherever the job ran. The scheduler knows what each share has, and what of
 * others goes before. A share may be freed when its jobs are over. */
#include "base/clock.h"
#include "scheduler/job_share.h"
#include "scheduler/scheduler.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { LONG_NS = 100000000, HERE_NS = 100000 };

struct shared_job {
    struct job job; /* first: a job is its shared_job */
    int64_t task_count;
    int64_t spin_ns; /* that each task computes */
    atomic_bool hold;
    atomic_int begun, runs, done_count;
    _Atomic pthread_t runs_in; /* of the task that ended last */
};

static int64_t stage_tasks(struct job *job, int stage)
{
    return stage == 1 ? ((struct shared_job *)job)->task_count : 0;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct shared_job *shared = (struct shared_job *)job;
    (void)task;
    (void)worker;
    if (stage == 0)
        return;
    atomic_fetch_add(&shared->begun, 1);
    while (atomic_load(&shared->hold))
        usleep(100);
    const int64_t end_ns = clock_thread_ns() + shared->spin_ns;
    while (clock_thread_ns() < end_ns) {
    }
    atomic_store(&shared->runs_in, pthread_self());
    atomic_fetch_add(&shared->runs, 1);
}

static void done(struct job *job, enum job_outcome outcome)
{
    (void)outcome;
    atomic_fetch_add(&((struct shared_job *)job)->done_count, 1);
}

static const struct job_kind kind = { stage_tasks, run, done };

static void wait_for(atomic_int *count, int wanted)
{
    for (int i = 0; i < 100000 && atomic_load(count) < wanted; i++)
        usleep(100);
    assert_true(atomic_load(count) >= wanted);
}

static void init(struct shared_job *shared, struct job_share *share, int64_t task_count,
                 int64_t cost_ns)
{
    shared->job = (struct job){ .kind = &kind, .share = share, .cost_ns = cost_ns };
    shared->task_count = task_count;
}

static void submit(struct scheduler *scheduler, struct shared_job *shared)
{
    assert_true(scheduler_submit(scheduler, &shared->job));
}

/* A scheduler of two workers, which a long job of the share holds. */
static struct scheduler *create_held(struct shared_job *held, struct job_share *share)
{
    struct scheduler *scheduler = scheduler_create(2, 2000, 64);
    assert_non_null(scheduler);
    init(held, share, 2, LONG_NS);
    atomic_store(&held->hold, true);
    submit(scheduler, held);
    wait_for(&held->begun, 2);
    return scheduler;
}

TEST(short_jobs_of_a_light_share_run_beside_long_ones)
{
    static struct shared_job held, flood[1000], spare, inline_job;
    struct job_share heavy = { .weight = 1 }, light = { .weight = 1 };
    struct scheduler *scheduler = create_held(&held, &heavy);
    for (int i = 0; i < 1000; i++) {
        init(&flood[i], &heavy, 1, LONG_NS);
        submit(scheduler, &flood[i]);
    }
    init(&spare, &light, 3, MS);
    submit(scheduler, &spare);
    wait_for(&spare.done_count, 1);
    init(&inline_job, &light, 3, HERE_NS);
    assert_true(scheduler_run(scheduler, &inline_job.job, HERE_NS, NULL));
    assert_int_equal(inline_job.done_count, 1);
    assert_true(pthread_equal(inline_job.runs_in, pthread_self()));
    assert_int_equal(held.runs, 0);
    assert_int_equal(flood[0].begun, 0);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(flood[i].done_count, 1);
}

/* A short job of the heavy share is there too, with a long one of a third share between them. */
TEST(a_long_job_of_another_share_hides_no_short_one)
{
    static struct shared_job held, other, spare;
    struct job_share heavy = { .weight = 1 }, third = { .weight = 1 }, light = { .weight = 1 };
    struct scheduler *scheduler = create_held(&held, &heavy);
    init(&other, &third, 1, LONG_NS);
    submit(scheduler, &other);
    for (int i = 0; i < 3; i++) {
        const int runs = atomic_load(&spare.done_count);
        init(&spare, &light, 1, MS);
        submit(scheduler, &spare);
        wait_for(&spare.done_count, runs + 1);
    }
    assert_int_equal(other.begun, 0);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
}

/* The light share has had more than its part when it has run beside the long ones for so long. */
TEST(a_flood_of_short_jobs_does_not_run_beside_long_ones_for_ever)
{
    static struct shared_job held, other, jobs[200];
    struct job_share heavy = { .weight = 1 }, third = { .weight = 1 }, light = { .weight = 1 };
    struct scheduler *scheduler = create_held(&held, &heavy);
    init(&other, &third, 1, LONG_NS);
    submit(scheduler, &other);
    for (int i = 0; i < 200; i++) {
        init(&jobs[i], &light, 1, MS);
        jobs[i].spin_ns = MS;
        submit(scheduler, &jobs[i]);
    }
    wait_for(&jobs[0].done_count, 1);
    usleep(50000);
    int over = 0;
    for (int i = 0; i < 200; i++)
        over += atomic_load(&jobs[i].done_count);
    assert_in_range(over, 1, 20);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
}

/* One worker, and two shares that always have jobs. Predictions are wrong. */
TEST(used_time_is_by_weight)
{
    enum { JOBS = 300 };
    static struct shared_job jobs[2][JOBS], held;
    struct job_share shares[2] = { { .weight = 1 }, { .weight = 3 } };
    struct scheduler *scheduler = scheduler_create(1, 2 * JOBS + 1, 64);
    init(&held, NULL, 1, 0);
    atomic_store(&held.hold, true);
    submit(scheduler, &held);
    wait_for(&held.begun, 1);
    for (int i = 0; i < JOBS; i++)
        for (int share = 0; share < 2; share++) {
            init(&jobs[share][i], &shares[share], 2, share ? 20 * MS : MS / 10);
            jobs[share][i].spin_ns = MS;
            submit(scheduler, &jobs[share][i]);
        }
    atomic_store(&held.hold, false);
    for (int i = 0; i < JOBS; i++)
        wait_for(&jobs[1][i].done_count, 1);
    int runs = 0;
    for (int i = 0; i < JOBS; i++)
        runs += atomic_load(&jobs[0][i].runs);
    assert_in_range(runs, 2 * JOBS / 3 - 30, 2 * JOBS / 3 + 30);
    scheduler_free(scheduler);
}

TEST(time_of_a_caller_counts_for_its_share)
{
    static struct shared_job small;
    struct job_share share = { .weight = 2 };
    struct scheduler *scheduler = scheduler_create(2, 9, 64);
    int here = 0;
    for (int i = 0; i < 1000 && here < 5; i++) {
        init(&small, &share, 1, HERE_NS);
        small.spin_ns = 200000;
        atomic_store(&small.done_count, 0);
        const double before = share.flows[0].tag;
        assert_true(scheduler_run(scheduler, &small.job, HERE_NS, NULL));
        wait_for(&small.done_count, 1);
        here += pthread_equal(small.runs_in, pthread_self()) != 0;
        usleep(1000);
        assert_true(share.flows[0].tag - before >= 200000 / 2);
        assert_int_equal(share.flows[0].running_ns, 0);
    }
    assert_int_equal(here, 5);
    scheduler_free(scheduler);
}

TEST(what_each_share_has)
{
    static struct shared_job held, first[3], second;
    struct job_share one = { .weight = 1 }, three = { .weight = 3 }, none = { .weight = 4 };
    struct scheduler *scheduler = create_held(&held, NULL);
    for (int i = 0; i < 3; i++) {
        init(&first[i], &one, 1, 10 * MS);
        submit(scheduler, &first[i]);
    }
    init(&second, &three, 1, 100 * MS);
    submit(scheduler, &second);
    struct scheduler_share_load load = scheduler_share_load(scheduler, &one);
    assert_int_equal(load.job_count, 3);
    assert_int_equal(load.cost_ns, 30 * MS);
    assert_true(load.part == 1.0 / 5); /* the common share has 1 too */
    load = scheduler_share_load(scheduler, &none);
    assert_int_equal(load.job_count + load.cost_ns, 0);
    assert_true(load.part == 4.0 / 9);
    load = scheduler_share_load(scheduler, NULL);
    assert_int_equal(load.job_count, 1);
    assert_int_equal(scheduler_load(scheduler).job_count, 5);
    scheduler_stop_job(scheduler, &second.job, JOB_LEFT);
    load = scheduler_share_load(scheduler, &three);
    assert_int_equal(load.job_count + load.cost_ns, 0);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
    assert_int_equal(one.flows[0].open_count + one.flows[0].cost_ns, 0);
}

/* Of another share as much as this one gets, by the weights, and one task; not its whole backlog.
 */
TEST(what_goes_before)
{
    static struct shared_job held, flood[20], own;
    struct job_share heavy = { .weight = 2 }, light = { .weight = 1 };
    struct scheduler *scheduler = create_held(&held, &heavy);
    for (int i = 0; i < 20; i++) {
        init(&flood[i], &heavy, 1, LONG_NS);
        submit(scheduler, &flood[i]);
    }
    heavy.flows[0].task_ns = 30 * MS; /* the workers are held: nobody else looks */
    struct job comes = { .share = &light, .cost_ns = 5 * MS };
    assert_in_range(scheduler_before_ns(scheduler, &comes), 2 * 5 * MS, 2 * 5 * MS + 30 * MS);
    init(&own, &light, 1, 4 * MS);
    submit(scheduler, &own);
    wait_for(&own.done_count, 1); /* by the spare thread */
    comes.cost_ns = 100000 * MS;
    assert_in_range(scheduler_before_ns(scheduler, &comes), 2000 * MS, 2100 * MS); /* all */
    comes.share = &heavy;
    assert_in_range(scheduler_before_ns(scheduler, &comes), 2000 * MS, 2100 * MS);
    comes.cost_ns = MS;
    assert_int_equal(scheduler_before_ns(scheduler, &comes), 0); /* the short job is first */
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
}

/* With many jobs there, a sum serves newcomers like the first for a millisecond; what comes
 * meanwhile counts as before them. */
TEST(what_goes_before_among_many)
{
    enum { MANY = 100 };
    static struct shared_job held, queued[MANY], same, longer;
    struct scheduler *scheduler = create_held(&held, NULL);
    const int64_t exact_ns = (MANY + 1) * 8 * MS;
    for (int i = 0; i < MANY; i++) {
        init(&queued[i], NULL, 1, 8 * MS);
        submit(scheduler, &queued[i]);
    }
    struct job comes = { .cost_ns = 9 * MS }, small = { .cost_ns = MS / 1000 };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(scheduler_before_ns(scheduler, &comes), MANY * 8 * MS);
        assert_int_equal(scheduler_before_ns(scheduler, &small), 0);
    }
    init(&same, NULL, 1, 8 * MS);
    submit(scheduler, &same);
    assert_int_equal(scheduler_before_ns(scheduler, &comes), exact_ns);
    init(&longer, NULL, 1, LONG_NS);
    submit(scheduler, &longer);
    const int64_t before_ns = scheduler_before_ns(scheduler, &comes);
    assert_true(before_ns == exact_ns || before_ns == exact_ns + LONG_NS);
    usleep(2000);
    assert_int_equal(scheduler_before_ns(scheduler, &comes), exact_ns);
    atomic_store(&held.hold, false);
    scheduler_free(scheduler);
}

/* Jobs that take longer than predicted tell how much longer the next ones will take. */
TEST(more_than_predicted)
{
    enum { MANY = 20 };
    static struct shared_job held, queued[MANY];
    struct scheduler *scheduler = create_held(&held, NULL);
    assert_int_equal(scheduler_load(scheduler).more_ns, 0);
    for (int i = 0; i < MANY; i++) {
        init(&queued[i], NULL, 1, 2 * SCHEDULER_SHORT_NS); /* too long for the spare thread */
        queued[i].spin_ns = 2 * SCHEDULER_SHORT_NS + MS;
        submit(scheduler, &queued[i]);
    }
    atomic_store(&held.hold, false);
    for (int i = 0; i < MANY; i++)
        wait_for(&queued[i].done_count, 1);
    assert_in_range(scheduler_load(scheduler).more_ns, MS / 2, MS); /* MS is the most */
    scheduler_free(scheduler);
}

/* A share has jobs in the scheduler of the workers and in that of the disk at the same time. */
TEST(a_share_in_two_schedulers)
{
    static struct shared_job held[2], waiting[2];
    struct job_share share = { .weight = 1 };
    struct scheduler *schedulers[2];
    for (int i = 0; i < 2; i++) {
        schedulers[i] = scheduler_create(1, 9, 64);
        scheduler_set_number(schedulers[i], i);
        init(&held[i], &share, 1, LONG_NS);
        atomic_store(&held[i].hold, true);
        submit(schedulers[i], &held[i]);
        wait_for(&held[i].begun, 1);
        for (int j = 0; j < i; j++) {
            init(&waiting[j], &share, 1, LONG_NS);
            submit(schedulers[i], &waiting[j]);
        }
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(scheduler_share_load(schedulers[i], &share).job_count, 1 + i);
    for (int i = 0; i < 2; i++) {
        atomic_store(&held[i].hold, false);
        scheduler_free(schedulers[i]);
        assert_int_equal(share.flows[i].open_count, 0);
    }
}

/* Threads that bring jobs of shares which they free at once. */
static void *come_and_go(void *argument)
{
    struct scheduler *scheduler = argument;
    for (int i = 0; i < 200; i++) {
        struct job_share *share = calloc(1, sizeof *share);
        struct shared_job *jobs = calloc(10, sizeof *jobs);
        assert_true(share && jobs);
        share->weight = 1 + i % 3;
        for (int j = 0; j < 10; j++) {
            init(&jobs[j], share, 3, j % 3 ? MS / 100 : LONG_NS);
            assert_true(scheduler_run(scheduler, &jobs[j].job, HERE_NS, NULL));
        }
        for (int j = 0; j < 10; j += 4)
            scheduler_stop_job(scheduler, &jobs[j].job, JOB_LEFT);
        for (int j = 0; j < 10; j++)
            wait_for(&jobs[j].done_count, 1);
        memset(share, 0xff, sizeof *share);
        free(share);
        free(jobs);
    }
    return NULL;
}

TEST(shares_come_and_go)
{
    pthread_t threads[4];
    struct scheduler *scheduler = scheduler_create(2, 100, 64);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, scheduler), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(scheduler_load(scheduler).job_count, 0);
    assert_int_equal(scheduler_load(scheduler).cost_ns, 0);
    scheduler_free(scheduler);
}
