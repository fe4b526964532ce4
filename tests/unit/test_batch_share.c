/* SPDX-License-Identifier: Apache-2.0 */
/* Shares that have jobs in one batch: each pays for its own rows, and a share may go with its last
 * job, whether the batch has begun or not. */
#include "callers.h"
#include "scheduler/batch_group.h"
#include "scheduler/job_share.h"
#include "test.h"

#include <unistd.h>

static double tag(const struct job_share *share)
{
    return share->flows[0].tag;
}

TEST(each_share_pays_for_its_rows)
{
    static struct holder holders[4];
    struct batch_member members[3];
    struct batch_member *taken[3];
    struct job_share shares[3] = { { .weight = 1 }, { .weight = 1 }, { .weight = 2 } };
    struct holder *batch = &holders[3];
    callers_begin(64);
    for (int i = 0; i < 4; i++) {
        holder_init(&holders[i], 3, 10 * MS);
        holders[i].job.share = &shares[i % 3];
        holders[i].job.for_others = &holders[i] == batch;
        atomic_store(&holders[i].held, false);
        assert_true(scheduler_submit(scheduler, &holders[i].job));
    }
    for (int i = 0; i < 3; i++) {
        members[i] = (struct batch_member){ .job = &holders[i].job, .rows = 1 + i };
        taken[i] = &members[i];
    }
    const double base = tag(&shares[0]);
    shares[0].flows[0].tag += 60 * MS; /* as if the product had been charged to it */
    assert_true(tag(&shares[1]) == base && tag(&shares[2]) == base);
    batch_share_divide(scheduler, &batch->job, taken, 3, 60 * MS);
    assert_true(tag(&shares[0]) == base + 10 * MS);
    assert_true(tag(&shares[1]) == base + 20 * MS);
    assert_true(tag(&shares[2]) == base + 15 * MS); /* of weight 2 */
    assert_null(batch->job.share);
    callers_stop();
}

TEST(a_batch_is_of_the_share_whose_turn_comes_first)
{
    static struct holder holders[3];
    struct batch_member members[2];
    struct batch_member *taken[2] = { &members[0], &members[1] };
    struct job_share heavy = { .weight = 1 }, light = { .weight = 1 };
    callers_begin(64);
    for (int i = 0; i < 3; i++) {
        holder_init(&holders[i], 3, 10 * MS);
        holders[i].job.share = i == 1 ? &light : &heavy;
        holders[i].job.for_others = i == 2;
        atomic_store(&holders[i].held, false);
        assert_true(scheduler_submit(scheduler, &holders[i].job));
    }
    for (int i = 0; i < 2; i++)
        members[i] = (struct batch_member){ .job = &holders[i].job, .rows = 1 };
    heavy.flows[0].tag += 100 * MS;
    batch_share_of_taken(scheduler, &holders[2].job, taken, 2);
    assert_ptr_equal(holders[2].job.share, &light);
    assert_int_equal(scheduler_share_load(scheduler, &light).cost_ns, 20 * MS);
    assert_int_equal(scheduler_share_load(scheduler, &heavy).cost_ns, 10 * MS);
    assert_int_equal(scheduler_share_load(scheduler, &light).job_count, 1);
    light.flows[0].tag += 200 * MS;
    batch_share_join(scheduler, &holders[2].job, &holders[0].job);
    assert_ptr_equal(holders[2].job.share, &heavy);
    callers_stop();
}

/* A batch that has taken the caller may need the worker to let it go. */
static void free_share(int i)
{
    struct job_share *share = callers[i].job.share;
    while (!atomic_load(&callers[i].done_count)) {
        atomic_store(&long_holder.held, false);
        usleep(100);
    }
    memset(share, 0xff, sizeof *share);
    free(share);
}

/* Members leave before their batch begins, or are stopped in it, each with its share. */
TEST(shares_go_with_their_members)
{
    for (int round = 0; round < 20; round++) {
        callers_create(64, round % 2 * 2 * MS);
        holder_submit(&long_holder, 1, 1000 * MS);
        holder_wait(&long_holder);
        for (int i = 0; i < MEMBERS; i++) {
            callers[i].job.share = calloc(1, sizeof(struct job_share));
            assert_non_null(callers[i].job.share);
            callers[i].job.share->weight = 1 + i;
        }
        callers[6].end = &callers[7];
        callers_submit_all();
        usleep(round * 200);
        for (int i = 0; i < 6; i += 2) {
            scheduler_stop_job(scheduler, &callers[i].job, JOB_LEFT);
            free_share(i);
            if (i == 2)
                atomic_store(&long_holder.held, false);
        }
        for (int i = 1; i < MEMBERS; i++)
            if (i % 2 || i == 6)
                free_share(i);
        for (int i = 1; i < 6; i += 2)
            callers_expect_answered(i);
        callers_stop();
        callers_tear_down(state);
        callers_set_up(state);
    }
}

EACH_TEST(callers_set_up, callers_tear_down);
ALL_TESTS(callers_set_up_group, callers_tear_down_group);
