/* SPDX-License-Identifier: Apache-2.0 */
/* The order of tasks, by a simulated clock: workers take tasks of jobs as the daemon's workers
 * do, but no time passes. Equal jobs are served as they come, short jobs before long ones, one
 * level before the next. A job is passed by a bounded amount of work and no more; no job
 * starves. */
#include "job_simulation.h"
#include "test.h"

TEST(equals_are_served_as_they_come)
{
    struct simulation *simulation = simulation_create(1);
    for (int i = 0; i < 50; i++)
        simulation_add(simulation, i / 10 * MS, 0, 3, MS);
    simulation_run(simulation, INT64_MAX);
    for (int i = 0; i < 50; i++)
        assert_int_equal(simulation->jobs[i].over_ns, 3 * MS * (i + 1));
    simulation_free(simulation);
}

TEST(a_short_job_goes_before_a_long_one)
{
    struct simulation *simulation = simulation_create(1);
    struct simulated_job *long_job = simulation_add(simulation, 0, 0, 50, MS);
    struct simulated_job *short_job = simulation_add(simulation, 5 * MS, 0, 4, MS);
    struct simulated_job *middle_job = simulation_add(simulation, 5 * MS, 0, 10, MS);
    simulation_run(simulation, INT64_MAX);
    assert_int_equal(short_job->over_ns, 9 * MS);
    assert_int_equal(middle_job->over_ns, 19 * MS);
    assert_int_equal(long_job->over_ns, 64 * MS);
    simulation_free(simulation);
}

/* If no costs are known, the job that has cost little so far goes first. */
TEST(a_long_job_whose_cost_nobody_knew_gives_way)
{
    struct simulation *simulation = simulation_create(1);
    struct simulated_job *long_job = simulation_add(simulation, 0, 0, 50, MS);
    struct simulated_job *short_job = simulation_add(simulation, 20 * MS, 0, 4, MS);
    long_job->job.remaining_ns = short_job->job.remaining_ns = 0;
    simulation_run(simulation, INT64_MAX);
    assert_int_equal(short_job->over_ns, 24 * MS);
    assert_int_equal(long_job->over_ns, 54 * MS);
    simulation_free(simulation);
}

TEST(levels_go_before_costs)
{
    struct simulation *simulation = simulation_create(1);
    struct simulated_job *first = simulation_add(simulation, 0, 3, 1, MS); /* holds the worker */
    struct simulated_job *low = simulation_add(simulation, 0, 3, 1, MS);
    struct simulated_job *middle = simulation_add(simulation, 0, 2, 3, MS);
    struct simulated_job *initial = simulation_add(simulation, 0, 0, 3, MS);
    struct simulated_job *unknown = simulation_add(simulation, 0, JOB_LEVELS + 1, 3, MS);
    struct simulated_job *high = simulation_add(simulation, 0, 1, 20, MS);
    simulation_run(simulation, INT64_MAX);
    assert_int_equal(high->over_ns, 20 * MS);
    assert_int_equal(middle->over_ns, 23 * MS);
    assert_int_equal(initial->over_ns, 26 * MS);
    assert_int_equal(unknown->over_ns, 29 * MS);
    assert_int_equal(first->over_ns, 30 * MS);
    assert_int_equal(low->over_ns, 31 * MS);
    simulation_free(simulation);
}

/* For 20 s there is more work of short jobs than one worker can do, so their queue grows. */
static void add_flood(struct simulation *simulation, int priority)
{
    for (int i = 1; i < 20000; i++)
        simulation_add(simulation, i * MS, priority, 1, MS + MS / 10);
}

TEST(a_flood_of_short_jobs_leaves_a_sixteenth)
{
    struct simulation *simulation = simulation_create(1);
    struct simulated_job *long_job = simulation_add(simulation, 0, 0, 1000, 5 * MS);
    add_flood(simulation, 0);
    simulation_run(simulation, 10000 * MS);
    assert_in_range(long_job->job.next_task, 10000 / 16 / 5 - 10, 10000 / 16 / 5 + 10);
    simulation_free(simulation);
}

TEST(a_flood_of_a_higher_level_leaves_a_sixteenth)
{
    struct simulation *simulation = simulation_create(1);
    struct simulated_job *low = simulation_add(simulation, 0, 3, 100, 5 * MS);
    add_flood(simulation, 1);
    simulation_run(simulation, 10000 * MS);
    assert_int_equal(low->over_ns >= 0, 1);
    simulation_free(simulation);
}

/* The long job costs 300 ms and has waited 16 times as long. Jobs that come later go after it. */
TEST(nobody_is_passed_for_ever)
{
    struct simulation *simulation = simulation_create(1);
    struct simulated_job *long_job = simulation_add(simulation, 0, 0, 1, 300 * MS);
    simulation->jobs[0].arrives_ns = MS;
    simulation_add(simulation, MS, 0, 1, MS);
    add_flood(simulation, 0);
    simulation_run(simulation, INT64_MAX);
    assert_true(long_job->begun_ns > 100 * MS);
    assert_true(long_job->begun_ns < 5100 * MS);
    simulation_free(simulation);
}

static int compare_times(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* The 99th percentile of how long the short jobs took. Each has two tasks of half a millisecond.
 * They come at random, and are 40 % of what two workers can do. */
static int64_t p99_of_short_jobs(bool beside_a_long_one)
{
    enum { COUNT = 8000 };
    static int64_t times[COUNT];
    struct simulation *simulation = simulation_create(2);
    int64_t arrives_ns = 0;
    uint64_t random = 1;
    if (beside_a_long_one)
        simulation_add(simulation, 0, 0, 30000, MS);
    const int first = simulation->job_count;
    for (int i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        arrives_ns += (int64_t)(random >> 33) % (25 * MS / 10);
        simulation_add(simulation, arrives_ns, 0, 2, MS / 2);
    }
    simulation_run(simulation, INT64_MAX);
    for (int i = 0; i < COUNT; i++)
        times[i] = simulation->jobs[first + i].over_ns - simulation->jobs[first + i].arrives_ns;
    simulation_free(simulation);
    qsort(times, COUNT, sizeof times[0], compare_times);
    return times[COUNT * 99 / 100];
}

TEST(short_jobs_beside_one_of_thirty_seconds)
{
    const int64_t alone_ns = p99_of_short_jobs(false), beside_ns = p99_of_short_jobs(true);
    print_message("p99 alone %.2f ms, beside a job of 30 s %.2f ms\n", (double)alone_ns / 1e6,
                  (double)beside_ns / 1e6);
    assert_true(beside_ns <= 3 * alone_ns);
}

TEST(the_heap_keeps_its_order)
{
    enum { COUNT = 500 };
    static struct job jobs[COUNT];
    struct job_order order = { 0 };
    uint64_t random = 7;
    for (int i = 0; i < COUNT; i++) {
        simulation_admit(&order, &jobs[i], i);
        jobs[i].level = JOB_LEVEL_DEFAULT;
    }
    for (int round = 0; round < 20000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        struct job *job = &jobs[(random >> 40) % COUNT];
        job->remaining_ns = (int64_t)(random >> 20 & 1023);
        if (random >> 60 & 1)
            job_order_put(&order, job);
        else
            job_order_remove(&order, job);
        int64_t count = 0;
        for (int i = 0; i < COUNT; i++)
            if (jobs[i].place >= 0) {
                count++;
                assert_ptr_equal(order.common.jobs.items[jobs[i].place], &jobs[i]);
                assert_true(job_order_first(&order)->key_ns <= jobs[i].key_ns);
            }
        assert_int_equal(order.count, count);
    }
    job_order_free(&order);
}

/* Asks about a job that has not come yet. The answer is the same as when it has come. */
TEST(who_goes_before_a_newcomer)
{
    struct job there = { .remaining_ns = 10 * MS,
                         .arrived_ns = 1000 * MS,
                         .level = JOB_LEVEL_DEFAULT };
    struct job comes = { .cost_ns = 10 * MS };
    assert_true(job_order_goes_before(&there, &comes, 1001 * MS)); /* came earlier */
    comes.cost_ns = 9 * MS;
    assert_false(job_order_goes_before(&there, &comes, 1001 * MS));
    assert_true(job_order_goes_before(&there, &comes, 1017 * MS)); /* has waited for long */
    there.remaining_ns = 8 * MS;
    assert_true(job_order_goes_before(&there, &comes, 1001 * MS));
    comes.priority = 1;
    assert_false(job_order_goes_before(&there, &comes, 1001 * MS));
    there.level = 1;
    assert_true(job_order_goes_before(&there, &comes, 1001 * MS));
    comes.priority = 3;
    comes.cost_ns = 0;
    assert_true(job_order_goes_before(&there, &comes, 1001 * MS));
    comes.priority = 1;
    comes.cost_ns = INT64_MAX;
    assert_true(job_order_goes_before(&there, &comes, 1001 * MS));
}

/* A job may be passed for half of the time that it has, if that is less than sixteen times its
 * cost. */
TEST(deadlines)
{
    struct job there = { .remaining_ns = 10 * MS,
                         .arrived_ns = 1000 * MS,
                         .ends_ns = INT64_MAX,
                         .level = JOB_LEVEL_DEFAULT };
    struct job comes = { .cost_ns = 1 * MS };
    assert_false(job_order_goes_before(&there, &comes, 1100 * MS));
    assert_true(job_order_goes_before(&there, &comes, 1145 * MS));
    there.ends_ns = 1200 * MS;
    assert_true(job_order_goes_before(&there, &comes, 1085 * MS));
    assert_false(job_order_goes_before(&there, &comes, 1083 * MS));
    comes.deadline_ns = 1100 * MS; /* half of its time is less than 16 ms */
    assert_false(job_order_goes_before(&there, &comes, 1085 * MS));
    comes.deadline_ns = 1000 * MS; /* it is over: nothing helps */
    assert_true(job_order_goes_before(&there, &comes, 1085 * MS));
    there.ends_ns = 1400 * MS; /* there is time enough */
    assert_false(job_order_goes_before(&there, &comes, 1143 * MS));

    struct job_order order = { .count = 0 };
    struct job *next;
    struct job later = { .remaining_ns = 1 * MS, .level = JOB_LEVEL_DEFAULT };
    there.ends_ns = 1100 * MS;
    simulation_admit(&order, &there, 1000 * MS);
    simulation_admit(&order, &later, 1040 * MS);
    job_order_put(&order, &there);
    job_order_put(&order, &later);
    next = job_order_next(&order, 1041 * MS);
    assert_ptr_equal(next, &there);
    there.ends_ns = INT64_MAX;
    job_order_put(&order, &there);
    next = job_order_next(&order, 1041 * MS);
    assert_ptr_equal(next, &later);
    job_order_free(&order);
}

/* A job may choose its place, as if it cost more or less than it does. */
TEST(a_place_of_its_own)
{
    struct job first = { .cost_ns = 1, .remaining_ns = 10 * MS, .stands_ns = 100 * MS };
    struct job second = { .remaining_ns = 50 * MS, .level = JOB_LEVEL_DEFAULT };
    struct job comes = { .cost_ns = 50 * MS };
    struct job_order order = { 0 };
    first.level = JOB_LEVEL_DEFAULT;
    simulation_admit(&order, &first, 0);
    job_order_put(&order, &first);
    simulation_admit(&order, &second, 1 * MS);
    job_order_put(&order, &second);
    assert_ptr_equal(job_order_first(&order), &second);
    assert_false(job_order_goes_before(&first, &comes, 700 * MS));
    assert_true(job_order_goes_before(&first, &comes, 900 * MS));
    first.stands_ns = 1;
    job_order_put(&order, &first);
    assert_ptr_equal(job_order_first(&order), &first);
    assert_true(job_order_goes_before(&first, &comes, 1 * MS));
    first.stands_ns = 0;
    first.remaining_ns = 60 * MS;
    job_order_put(&order, &first);
    assert_ptr_equal(job_order_first(&order), &second);
    job_order_free(&order);
}
