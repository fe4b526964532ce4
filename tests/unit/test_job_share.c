/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of jobs, by a simulated clock. Each share gets time by its weight, within a task. A share
 * that asks for little waits for one task at most, whatever others ask for. Nobody saves up or is
 * in debt for time that nobody else wanted. Wrong predictions change nothing of that. With one
 * share the order is that of the jobs alone. */
#include "job_simulation.h"
#include "test.h"

enum { SHARES_MAX = 50 };

static struct job_share shares[SHARES_MAX];
static int64_t used_ns[SHARES_MAX];
static uint64_t random_state;

static int setup(void **state)
{
    memset(shares, 0, sizeof shares);
    memset(used_ns, 0, sizeof used_ns);
    for (int i = 0; i < SHARES_MAX; i++)
        shares[i].weight = 1;
    random_state = 1;
    return 0;
}

static int64_t random_below(int64_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(random_state >> 33) % bound;
}

static struct simulated_job *add(struct simulation *simulation, int share, int64_t arrives_ns,
                                 int priority, int64_t task_count, int64_t task_ns)
{
    struct simulated_job *job =
        simulation_add(simulation, arrives_ns, priority, task_count, task_ns);
    job->job.share = &shares[share];
    job->used_ns = &used_ns[share];
    return job;
}

static double used_by_weight(int share)
{
    return (double)used_ns[share] / shares[share].weight;
}

/* Runs the simulation, and looks each millisecond whether the first count shares, which always have
 * tasks of at most task_ns, have got times by their weights. Each worker may be within a task of
 * each of two shares. */
static void expect_fair(struct simulation *simulation, int count, int64_t task_ns, int64_t end_ns)
{
    const int64_t begin_ns = simulation->now_ns;
    double before[SHARES_MAX];
    for (int i = 0; i < count; i++)
        before[i] = used_by_weight(i);
    for (int64_t now_ns = begin_ns; now_ns <= end_ns; now_ns += MS) {
        simulation_run(simulation, now_ns);
        for (int i = 1; i < count; i++) {
            const double apart = used_by_weight(i) - before[i] - used_by_weight(0) + before[0];
            const double most = (double)task_ns * (1 / shares[0].weight + 1 / shares[i].weight)
                                * simulation->worker_count;
            assert_true(apart <= most && -apart <= most);
        }
    }
}

TEST(two_shares_by_their_weights)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        struct simulation *simulation = simulation_create(workers);
        setup(state);
        shares[1].weight = 3;
        for (int i = 0; i < 2000; i++)
            add(simulation, i % 2, 0, 0, 1 + random_below(20), MS + random_below(9 * MS));
        expect_fair(simulation, 2, 10 * MS, 5000 * MS);
        assert_in_range(used_ns[1] * 100 / used_ns[0], 290, 310);
        simulation_free(simulation);
    }
}

TEST(fifty_shares)
{
    struct simulation *simulation = simulation_create(2);
    for (int i = 0; i < SHARES_MAX; i++)
        shares[i].weight = 1 + i % 3;
    for (int i = 0; i < 20000; i++)
        add(simulation, i % SHARES_MAX, 0, 0, 1 + i / 50 % 5, MS + random_below(4 * MS));
    expect_fair(simulation, SHARES_MAX, 5 * MS, 5000 * MS);
    simulation_free(simulation);
}

/* Predicted ten times too high or too low, by share or at random, or not at all. */
TEST(wrong_predictions)
{
    for (int kind = 0; kind < 4; kind++) {
        struct simulation *simulation = simulation_create(2);
        setup(state);
        shares[1].weight = 3;
        for (int i = 0; i < 2000; i++) {
            struct simulated_job *job =
                add(simulation, i % 2, 0, 0, 1 + random_below(20), MS + random_below(9 * MS));
            const bool is_high = kind == 2 ? random_below(2) : i % 2 == kind;
            const int64_t right_ns = job->job.remaining_ns;
            job->job.remaining_ns = kind == 3 ? 0 : is_high ? 10 * right_ns : right_ns / 10;
        }
        expect_fair(simulation, 2, 10 * MS, 5000 * MS);
        assert_in_range(used_ns[1] * 100 / used_ns[0], 290, 310);
        simulation_free(simulation);
    }
}

/* How long the short jobs of share 0 wait until they begin, at most. They come at random, and take
 * load percent of the time of the workers. */
static int64_t longest_wait_ns(struct simulation *simulation, int64_t load)
{
    int64_t longest_ns = 0;
    for (int64_t i = 0, arrives_ns = MS; i < 500; i++) {
        add(simulation, 0, arrives_ns, 0, 1, MS);
        arrives_ns += 1 + random_below(200 * MS / load / simulation->worker_count);
    }
    simulation_run(simulation, INT64_MAX);
    for (int i = 0; i < simulation->job_count; i++) {
        const struct simulated_job *job = &simulation->jobs[i];
        if (job->job.share == &shares[0] && job->begun_ns - job->arrives_ns > longest_ns)
            longest_ns = job->begun_ns - job->arrives_ns;
    }
    return longest_ns;
}

/* A thousand jobs of a second wait, each in tasks of 5 ms. The short jobs take less than their
 * share, but two may come at once. */
TEST(a_flood_delays_short_jobs_by_one_task)
{
    struct simulation *simulation = simulation_create(1);
    for (int i = 0; i < 1000; i++)
        add(simulation, 1, 0, 0, 200, 5 * MS);
    assert_in_range(longest_wait_ns(simulation, 5), MS, 2 * 5 * MS + MS);
    simulation_free(simulation);
}

/* A single short job waits for the task that runs, and for nothing else. */
TEST(a_short_job_is_next)
{
    for (int heavy = 1; heavy < SHARES_MAX; heavy++) {
        struct simulation *simulation = simulation_create(1);
        setup(state);
        for (int i = 0; i < 1000; i++)
            add(simulation, 1 + i % heavy, 0, 0, 10, 5 * MS);
        struct simulated_job *job = add(simulation, 0, 777 * MS, 0, 1, MS);
        simulation_run(simulation, 2000 * MS);
        assert_in_range(job->begun_ns, 777 * MS, 782 * MS);
        simulation_free(simulation);
    }
}

TEST(forty_nine_floods_delay_a_light_share_by_one_task)
{
    struct simulation *simulation = simulation_create(2);
    for (int i = 0; i < 4900; i++)
        add(simulation, 1 + i % 49, 0, 0, 20, 5 * MS);
    assert_in_range(longest_wait_ns(simulation, 1), 0, 2 * 5 * MS);
    simulation_free(simulation);
}

/* Share 1 computes alone for ten seconds. From then on both want all, and both get half: share 0
 * has saved nothing up, and share 1 has nothing to pay for. */
TEST(time_that_nobody_else_wanted_is_forgotten)
{
    for (int workers = 1; workers <= 2; workers++) {
        struct simulation *simulation = simulation_create(workers);
        setup(state);
        add(simulation, 0, 0, 0, 1, MS);
        for (int i = 0; i < 1000; i++)
            add(simulation, 1, 10 * i * MS, 0, workers, 8 * MS);
        for (int i = 0; i < 2000; i++)
            add(simulation, i % 2, 10000 * MS, 0, 1, 8 * MS);
        simulation_run(simulation, 9999 * MS);
        assert_true(used_ns[1] > 7900 * MS);
        expect_fair(simulation, 2, 8 * MS, 12000 * MS);
        simulation_free(simulation);
    }
}

/* A worker had nothing to do while share 1 ran a task of ten seconds beside share 0. When others
 * want the workers later, share 1 gets its part at once. */
TEST(a_long_task_beside_an_idle_worker_is_no_debt)
{
    struct simulation *simulation = simulation_create(2);
    add(simulation, 1, 0, 0, 1, 10000 * MS);
    for (int i = 0; i < 900; i++)
        add(simulation, 0, (10 + 10 * i) * MS, 0, 1, MS);
    simulation_run(simulation, 9500 * MS);
    for (int i = 0; i < 3000; i++)
        add(simulation, i % 3, 10001 * MS, 0, 1, 4 * MS);
    simulation_run(simulation, 10000 * MS);
    expect_fair(simulation, 3, 4 * MS, 11500 * MS);
    simulation_free(simulation);
}

TEST(levels_of_one_share_pass_no_other)
{
    struct simulation *simulation = simulation_create(1);
    for (int i = 0; i < 1000; i++) {
        add(simulation, 0, 0, 3, 1, 4 * MS);
        add(simulation, 1, 0, 1, 1, 4 * MS);
    }
    add(simulation, 0, 0, 1, 1, 4 * MS);
    expect_fair(simulation, 2, 4 * MS, 2000 * MS);
    assert_true(simulation->jobs[2000].over_ns <= 3 * 4 * MS); /* but those of its own */
    simulation_free(simulation);
}

/* A share is gone when its jobs are over, though other shares still have some. */
TEST(a_share_can_be_freed_after_its_last_job)
{
    struct simulation *simulation = simulation_create(1);
    struct job_share *share = calloc(1, sizeof *share);
    assert_non_null(share);
    share->weight = 1;
    for (int i = 0; i < 100; i++) {
        add(simulation, 1, 0, 0, 10, 4 * MS);
        add(simulation, 0, 0, 0, 1, MS)->job.share = share;
    }
    simulation_run(simulation, 2000 * MS);
    memset(share, 0xff, sizeof *share);
    free(share);
    simulation_run(simulation, INT64_MAX);
    assert_int_equal(used_ns[1], 100 * 10 * 4 * MS);
    assert_int_equal(simulation->order.open_count + simulation->order.shares.open_count, 0);
    simulation_free(simulation);
}

TEST(a_weight_may_change)
{
    struct simulation *simulation = simulation_create(2);
    for (int i = 0; i < 4000; i++)
        add(simulation, i % 2, 0, 0, 1, 4 * MS);
    expect_fair(simulation, 2, 4 * MS, 1000 * MS);
    shares[1].weight = 4;
    simulation_run(simulation, 1020 * MS);
    const int64_t first_ns = used_ns[0], second_ns = used_ns[1];
    simulation_run(simulation, 3020 * MS);
    assert_in_range((used_ns[1] - second_ns) * 100 / (used_ns[0] - first_ns), 380, 420);
    simulation_free(simulation);
}

/* ------------------------------------------------------- the order of one share -- */

/* The order that jobs of one share have, found by looking at all of them. */
static struct job *model_next(const struct simulation *simulation, int64_t *oldest_due_ns)
{
    const struct job *first = NULL, *oldest = NULL;
    for (int i = 0; i < simulation->arrived; i++) {
        const struct job *job = &simulation->jobs[i].job;
        if (simulation->jobs[i].over_ns >= 0 || job->next_task == job->task_count)
            continue;
        if (!oldest)
            oldest = job;
        if (!first || job->level < first->level
            || (job->level == first->level && job->key_ns < first->key_ns))
            first = job;
    }
    const int64_t now_ns = simulation->now_ns;
    if (now_ns >= *oldest_due_ns && oldest != first
        && now_ns - oldest->arrived_ns >= JOB_PATIENCE_NS) {
        const int64_t known_ns =
            oldest->task_count == 1 ? job_order_rest_ns(oldest) : oldest->task_ns;
        *oldest_due_ns = now_ns + JOB_OLDEST_SHARE * (known_ns > MS ? known_ns : MS);
        return (struct job *)oldest;
    }
    return (struct job *)first;
}

static int64_t model_due_ns;
static int64_t watched;

static void compare_with_model(struct simulation *simulation, struct job *job)
{
    assert_ptr_equal(job, model_next(simulation, &model_due_ns));
    watched++;
}

static void compare_random_jobs(bool has_share)
{
    for (int round = 0; round < 30; round++) {
        struct simulation *simulation = simulation_create(1 + round % WORKERS_MAX);
        model_due_ns = watched = 0;
        simulation->watch = compare_with_model;
        int64_t arrives_ns = 0;
        for (int i = 0; i < 300; i++) {
            arrives_ns += random_below(6 * MS);
            struct simulated_job *job =
                simulation_add(simulation, arrives_ns, (int)random_below(4), 1 + random_below(9),
                               1 + random_below(random_below(4) ? MS : 10 * MS));
            job->job.share = has_share ? &shares[round] : NULL;
            job->job.remaining_ns = random_below(4) * job->job.remaining_ns;
            job->job.ends_ns = random_below(2) ? arrives_ns + random_below(900 * MS) : INT64_MAX;
        }
        simulation_run(simulation, INT64_MAX);
        assert_in_range(watched, 1000, 3000);
        simulation_free(simulation);
    }
}

TEST(one_share_has_the_order_of_its_jobs)
{
    compare_random_jobs(false);
    compare_random_jobs(true);
}

/* ----------------------------------------------------------------- short jobs -- */

/* What the spare thread would run while the workers are busy. */
TEST(which_short_job_may_pass)
{
    struct job_order order = { 0 };
    struct job long_jobs[2], short_job = { .share = &shares[2] };
    shares[0].flows[0].task_ns = shares[1].flows[0].task_ns = 100 * MS;
    for (int i = 0; i < 2; i++) {
        long_jobs[i] = (struct job){ .share = &shares[i], .level = 2, .task_count = 10 };
        long_jobs[i].remaining_ns = 1000 * MS;
        simulation_admit(&order, &long_jobs[i], 0);
        job_order_put(&order, &long_jobs[i]);
    }
    assert_null(job_order_first_short(&order));
    short_job.level = 2;
    short_job.task_count = 1000;
    short_job.remaining_ns = 2 * MS;
    simulation_admit(&order, &short_job, 0);
    job_order_put(&order, &short_job);
    /* It goes on while it would be its turn after a task of 100 ms. */
    for (int i = 0; i <= 50; i++) {
        assert_ptr_equal(job_order_first_short(&order), &short_job);
        job_order_finish(&order, &short_job, job_order_begin(&order, &short_job), 2 * MS);
    }
    assert_null(job_order_first_short(&order));
    assert_ptr_equal(job_order_first(&order), &long_jobs[0]);
    short_job.remaining_ns = 1000 * MS;
    job_order_put(&order, &short_job);
    shares[0].flows[0].tag = shares[1].flows[0].tag = 0;
    assert_null(job_order_first_short(&order)); /* no short one any more */
    job_order_end(&order, &short_job);
    for (int i = 0; i < 2; i++)
        job_order_end(&order, &long_jobs[i]);
    assert_null(job_order_first(&order));
    job_order_free(&order);
}

/* A job that goes to another share takes its charge with it. */
TEST(a_job_moves_between_shares)
{
    shares[0].flows[0].task_ns = 100 * MS;
    struct job_order order = { 0 };
    struct job job = { .share = &shares[0], .task_count = 2, .remaining_ns = 20 * MS };
    simulation_admit(&order, &job, 0);
    job_order_put(&order, &job);
    shares[1].weight = 2;
    const int64_t charged_ns = job_order_begin(&order, &job);
    assert_int_equal(charged_ns, 10 * MS);
    assert_true(shares[0].flows[0].tag == 10e6);
    job_order_move(&order, &job, &shares[1]);
    assert_true(shares[0].flows[0].tag == 0);
    assert_true(shares[1].flows[0].tag == 5e6);
    assert_int_equal(shares[0].flows[0].open_count, 0);
    assert_ptr_equal(job_order_first(&order), &job);
    job_order_finish(&order, &job, charged_ns, 30 * MS);
    assert_true(shares[1].flows[0].tag == 15e6);
    job_order_move(&order, &job, NULL);
    assert_ptr_equal(job_order_first(&order), &job);
    assert_null(job.share);
    job_order_end(&order, &job);
    assert_int_equal(order.shares.open_count, 0);
    job_order_free(&order);
}

EACH_TEST(setup, NULL);
