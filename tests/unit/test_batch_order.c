/* SPDX-License-Identifier: Apache-2.0 */
/* The place of a batch among other jobs. A batch stands where its most expensive waiting member
 * would stand alone, and at the highest level among its members.
 *
 * Time stands still here. A job that has waited for long goes before others whatever it costs,
 * and a test cannot know how long a busy machine lets a job wait. */
#include "callers.h"
#include "test.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec still;

/* Replaces the function for everything that is linked with this program. Only CPU time passes. */
int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    if (clock_id != CLOCK_MONOTONIC || still.tv_sec == 0)
        return (int)syscall(SYS_clock_gettime, clock_id, tp);
    *tp = still;
    return 0;
}

/* A job that comes after all members goes before their batch if it costs less than one of them
 * alone. */
struct passing_job {
    struct job job; /* first: a job is its passing_job */
    int shared;     /* products so far, when it ran */
};

static void note_products(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    (void)stage;
    (void)task;
    (void)worker;
    for (int i = 0; i < MEMBERS; i++)
        ((struct passing_job *)job)->shared += callers[i].shared;
}

static const struct job_kind passing_kind = { holder_stage_tasks, note_products, holder_done };

TEST(where_a_batch_stands)
{
    struct passing_job cheap = { .job = { .kind = &passing_kind, .cost_ns = 2 * MS } };
    struct passing_job dear = { .job = { .kind = &passing_kind, .cost_ns = 100 * MS } };
    callers_begin(64);
    callers_submit_all();
    assert_true(scheduler_submit(scheduler, &dear.job));
    assert_true(scheduler_submit(scheduler, &cheap.job));
    callers_finish();
    assert_int_equal(cheap.shared, 0);
    assert_int_equal(dear.shared, 2 * MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        callers_expect_answered(i);
}

/* A batch of the lowest level waits. The job before it holds the worker again until a member of
 * the highest level has joined the batch. The batch then goes before the job that it would have
 * stood behind. */
TEST(a_batch_rises_with_who_joins)
{
    struct passing_job other = { .job = { .kind = &passing_kind, .cost_ns = 2 * MS } };
    struct holder again;
    callers[0].job.priority = 3;
    callers[1].job.priority = 1;
    callers_begin(64);
    assert_true(scheduler_submit(scheduler, &callers[0].job));
    holder_submit(&again, 3, 2 * MS);
    atomic_store(&long_holder.held, false);
    holder_wait(&again);
    assert_int_equal(callers[0].joined, 1);
    assert_int_equal(callers[0].shared, 0);
    assert_true(scheduler_submit(scheduler, &other.job));
    assert_true(scheduler_submit(scheduler, &callers[1].job));
    atomic_store(&again.held, false);
    callers_finish_first(2);
    assert_true(other.shared >= 2);
    callers_expect_answered(0);
    callers_expect_answered(1);
}

/* The default level is the middle one. A batch of that level does not wait behind the lowest
 * level because it has one member of it. With a delay, the batch begins when all members are
 * there. */
TEST(a_batch_of_several_levels)
{
    struct passing_job low = { .job = { .kind = &passing_kind, .priority = 3, .cost_ns = MS } };
    callers[1].job.priority = 3;
    callers_create(6, 60000 * MS);
    callers_submit_and_wait(0, 2);
    callers_hold_threads();
    assert_true(scheduler_submit(scheduler, &low.job));
    assert_true(scheduler_submit(scheduler, &callers[2].job));
    callers_finish_first(3);
    assert_true(low.shared >= 3);
    for (int i = 0; i < 3; i++)
        callers_expect_answered(i);
}

EACH_TEST(callers_set_up, callers_tear_down);
ALL_TESTS(callers_set_up_group, callers_tear_down_group);

int main(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    still = now;
    return test_run(NULL);
}
