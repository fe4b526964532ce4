/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that share a product: which jobs share one, that each gets the bits that it gets alone,
 * that a job which leaves or runs out of time in the middle of a batch harms no other, and what
 * the sharing is said to cost. */
#include "callers.h"
#include "telemetry/metrics.h"
#include "test.h"

#include <pthread.h>
#include <unistd.h>

static int metric(const char *name)
{
    struct text text;
    text_init(&text, 65536);
    batch_metrics_write(&text);
    cost_write_metrics(&text);
    const char *found = strstr(text.data, name);
    assert_non_null(found);
    const int value = (int)strtol(found + strlen(name) + 1, NULL, 10);
    text_free(&text);
    return value;
}

/* All members submit, and each gets its answer from two shared products. */
static void run_all(int64_t rows_max)
{
    callers_begin(rows_max);
    callers_submit_all();
    callers_finish();
    for (int i = 0; i < MEMBERS; i++) {
        callers_expect_answered(i);
        assert_int_equal(callers[i].shared, 2);
    }
}

/* All jobs that came before the worker was free are in the batch when it begins, even though the
 * batch was submitted with the first of them. */
TEST(all_that_is_there_shares)
{
    const int small = metric("requests_bucket{le=\"4\"}"), large = metric("requests_count");
    const int requests = metric("requests_sum"), rows = metric("rows_sum");
    const int observations = metric("\nattnd_cost_observations_total");
    run_all(64);
    assert_int_equal(metric("requests_bucket{le=\"4\"}"), small);
    assert_int_equal(metric("requests_count"), large + 2);
    assert_int_equal(metric("\nattnd_cost_observations_total"), observations + 2);
    assert_int_equal(metric("requests_sum"), requests + 2 * MEMBERS);
    assert_int_equal(metric("rows_sum"), rows + 2 * (1 + 2 + 3 + 1 + 2 + 3 + 1 + 2));
}

/* Every other job has another precision: each of the two products is made once for either. */
TEST(precisions_do_not_mix)
{
    const int small = metric("requests_bucket{le=\"4\"}"), batches = metric("requests_count");
    const int requests = metric("requests_sum");
    for (int i = 0; i < MEMBERS; i += 2)
        callers[i].plan.problem.options.precision = ATTN_PRECISION_MEDIUM;
    run_all(64);
    assert_int_equal(metric("requests_bucket{le=\"4\"}"), small + 4);
    assert_int_equal(metric("requests_count"), batches + 4);
    assert_int_equal(metric("requests_sum"), requests + 2 * MEMBERS);
}

TEST(a_full_batch_leaves_the_others_another)
{
    for (int64_t rows_max = 6; rows_max <= 9; rows_max++) {
        run_all(rows_max);
        callers_tear_down(state);
        callers_set_up(state);
    }
}

/* The member before it ends it, when both have their rows. */
TEST(leaving_in_a_batch)
{
    callers_begin(64);
    callers[2].end = &callers[3];
    callers[MEMBERS - 1].end = &callers[0];
    callers_submit_all();
    callers_finish();
    assert_int_equal(callers[3].done_count, 1);
    assert_int_equal(callers[3].outcome, JOB_LEFT);
    assert_int_equal(callers[3].shared, 1);
    assert_int_equal(callers[0].done_count, 1);
    for (int i = 1; i < MEMBERS; i++)
        if (i != 3)
            callers_expect_answered(i);
}

TEST(time_passes_in_a_batch)
{
    callers_begin(64);
    callers[5].end = &callers[5];
    callers_submit_all();
    callers_finish();
    assert_int_equal(callers[5].done_count, 1);
    assert_int_equal(callers[5].outcome, JOB_DEADLINE);
    assert_int_equal(callers[5].shared, 1);
    for (int i = 0; i < MEMBERS; i++)
        if (i != 5)
            callers_expect_answered(i);
}

TEST(all_are_cancelled)
{
    callers_begin(64);
    callers[2].ends_all = true;
    callers_submit_all();
    callers_finish();
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(callers[i].shared, 1);
        assert_int_equal(callers[i].done_count, 1);
        assert_int_equal(callers[i].outcome, JOB_CANCELLED);
    }
}

/* Batches do not count as jobs of a client, and take no job's place. */
TEST(batches_are_not_counted)
{
    scheduler = scheduler_create(1, MEMBERS, WORKSPACE);
    batcher = batcher_create(scheduler, 64, 60000 * MS);
    callers_submit_all();
    for (int i = 0; i < MEMBERS; i++)
        while (!atomic_load(&callers[i].joined))
            usleep(100);
    assert_int_equal(scheduler_load(scheduler).job_count, MEMBERS);
    struct holder batch;
    holder_init(&batch, 0, 5 * MS);
    assert_false(scheduler_submit(scheduler, &batch.job));
    batch.job.for_others = true;
    assert_true(scheduler_submit(scheduler, &batch.job));
    assert_int_equal(scheduler_load(scheduler).job_count, MEMBERS);
    assert_true(scheduler_load(scheduler).cost_ns >= 5 * MS);
    atomic_store(&batch.held, false);
    for (int i = 0; i < MEMBERS; i++)
        scheduler_stop_job(scheduler, &callers[i].job, JOB_LEFT);
    callers_stop();
}

/* Members 2 to 7 have 3, 1, 2, 3, 1 and 2 rows. */
TEST(the_part_that_is_expected)
{
    struct batch_member *member = &callers[1].member;
    member->product = ATTN_PRODUCT_INPUTS;
    member->rows = 2;
    callers_create(16, 60000 * MS);
    assert_true(batcher_expected_part(batcher, member) == 1);
    callers_submit_and_wait(2, MEMBERS);
    assert_true(batcher_expected_part(batcher, member) == 2.0 / (2 + 12));
    member->product = ATTN_PRODUCT_OUTPUT;
    assert_true(batcher_expected_part(batcher, member) == 1);
    member->product = ATTN_PRODUCT_INPUTS;
    member->rows = 9; /* more than half of a batch never shares */
    assert_true(batcher_expected_part(batcher, member) == 1);
    member->rows = 5;
    assert_true(batcher_expected_part(batcher, member) == 5.0 / 16);
    for (int i = 2; i < MEMBERS; i++)
        scheduler_stop_job(scheduler, &callers[i].job, JOB_LEFT);
    callers_stop();
}

EACH_TEST(callers_set_up, callers_tear_down);
ALL_TESTS(callers_set_up_group, callers_tear_down_group);
