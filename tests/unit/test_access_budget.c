/* SPDX-License-Identifier: Apache-2.0 */
/* test_access_budget.c - the budget of CPU time, in simulated time: what is taken and refused, how
 * exact the wait is, and that a key under ten times its budget gets its budget. */
#include "access/access_account.h"
#include "test.h"

static const int64_t MS = 1000000, SECOND = 1000000000;
static const int64_t START = 1234567890; /* any time but 0 */

static struct access_budget made(double rate, int64_t burst_ns)
{
    struct access_budget budget;
    int64_t wait_ns;
    access_budget_init(&budget, rate, burst_ns);
    assert_true(access_budget_has(&budget, START, &wait_ns)); /* time begins to count here */
    return budget;
}

/* ---------------------------------------------------------------- one request -- */

TEST(taken_until_in_debt)
{
    int64_t wait_ns = -1;
    struct access_budget budget = made(0.5, 1 * SECOND);
    assert_true(access_budget_take(&budget, 0, 100 * MS, START, &wait_ns));
    assert_int_equal(wait_ns, 0);
    assert_false(access_budget_take(&budget, 0, 1, START, &wait_ns));
    assert_int_equal(wait_ns, 200 * MS);
    assert_false(access_budget_has(&budget, START + 200 * MS - 2, &wait_ns));
    assert_int_equal(wait_ns, 2);
    assert_true(access_budget_has(&budget, START + 200 * MS, &wait_ns));
    access_budget_free(&budget);
}

TEST(saves_up_to_the_depth)
{
    int64_t wait_ns;
    struct access_budget budget = made(0.5, 1 * SECOND);
    const int64_t later = START + 100 * SECOND;
    for (int i = 0; i < 10; i++)
        assert_true(access_budget_take(&budget, 0, 100 * MS, later, &wait_ns));
    assert_true(access_budget_take(&budget, 0, 100 * MS, later, &wait_ns));
    assert_false(access_budget_take(&budget, 0, 100 * MS, later, &wait_ns));
    assert_int_equal(wait_ns, 200 * MS);
    access_budget_free(&budget);
}

TEST(larger_than_the_depth)
{
    int64_t wait_ns;
    struct access_budget budget = made(0.1, 50 * MS);
    assert_true(access_budget_take(&budget, 0, 60 * SECOND, START, &wait_ns));
    assert_false(access_budget_take(&budget, 0, 1, START, &wait_ns));
    assert_int_equal(wait_ns, 600 * SECOND);
    assert_true(access_budget_take(&budget, 0, 60 * SECOND, START + 600 * SECOND, &wait_ns));
    access_budget_free(&budget);
}

TEST(no_bound)
{
    int64_t wait_ns;
    struct access_budget budget = made(0, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(access_budget_take(&budget, 0, 3600 * SECOND, START, &wait_ns));
    access_budget_change(&budget, 1, 1 * SECOND, START); /* which is no debt under a bound */
    assert_true(access_budget_has(&budget, START, &wait_ns));
    access_budget_free(&budget);
}

TEST(corrected_by_what_was_used)
{
    int64_t wait_ns;
    struct access_budget budget = made(1, 1 * SECOND);
    assert_true(access_budget_take(&budget, 0, 500 * MS, START, &wait_ns));
    access_budget_correct(&budget, 500 * MS, 100 * MS);
    assert_false(access_budget_has(&budget, START, &wait_ns));
    assert_int_equal(wait_ns, 100 * MS);
    assert_true(access_budget_take(&budget, 0, 100 * MS, START + 100 * MS, &wait_ns));
    access_budget_correct(&budget, 100 * MS, 2 * SECOND);
    assert_false(access_budget_has(&budget, START + 100 * MS, &wait_ns));
    assert_int_equal(wait_ns, 2 * SECOND);
    access_budget_free(&budget);
}

/* What a request took and did not use comes back in full, even where the level has risen to the
 * depth meanwhile. Beyond the depth the level does not rise by itself. */
TEST(too_much_reserved)
{
    int64_t wait_ns;
    struct access_budget budget = made(1, 100 * MS);
    assert_true(access_budget_take(&budget, 0, 1 * SECOND, START, &wait_ns));
    assert_true(access_budget_has(&budget, START + 1050 * MS, &wait_ns));
    access_budget_correct(&budget, 1 * SECOND, 500 * MS);
    assert_true(access_budget_has(&budget, START + 50 * SECOND, &wait_ns));
    assert_true(access_budget_take(&budget, 0, 550 * MS, START + 50 * SECOND, &wait_ns));
    assert_true(access_budget_take(&budget, 0, 1 * MS, START + 50 * SECOND, &wait_ns));
    assert_false(access_budget_has(&budget, START + 50 * SECOND, &wait_ns));
    access_budget_free(&budget);
}

/* A request is judged again when it is planned. What it took before is no debt to itself. */
TEST(taken_again_with_more_known)
{
    int64_t wait_ns;
    struct access_budget budget = made(1, 1 * SECOND);
    assert_true(access_budget_take(&budget, 0, 10 * MS, START, &wait_ns));
    assert_true(access_budget_take(&budget, 10 * MS, 700 * MS, START, &wait_ns));
    assert_false(access_budget_has(&budget, START, &wait_ns));
    assert_int_equal(wait_ns, 700 * MS);
    /* But a debt that others left meanwhile refuses it. */
    assert_true(access_budget_take(&budget, 0, 10 * MS, START + 700 * MS, &wait_ns));
    access_budget_correct(&budget, 0, 300 * MS);
    assert_false(access_budget_take(&budget, 10 * MS, 20 * MS, START + 700 * MS, &wait_ns));
    assert_int_equal(wait_ns, 300 * MS);
    access_budget_free(&budget);
}

TEST(change_keeps_the_level)
{
    int64_t wait_ns;
    struct access_budget budget = made(1, 10 * SECOND);
    assert_true(access_budget_take(&budget, 0, 2 * SECOND, START, &wait_ns));
    access_budget_change(&budget, 4, 10 * SECOND, START + 1 * SECOND);
    assert_false(access_budget_has(&budget, START + 1 * SECOND, &wait_ns));
    assert_int_equal(wait_ns, 250 * MS);
    access_budget_change(&budget, 0.5, 1 * SECOND, START + 100 * SECOND); /* less fits now */
    assert_true(access_budget_take(&budget, 0, 1500 * MS, START + 100 * SECOND, &wait_ns));
    assert_false(access_budget_has(&budget, START + 100 * SECOND, &wait_ns));
    assert_int_equal(wait_ns, 1 * SECOND);
    access_budget_free(&budget);
}

/* Threads read the clock before they take the mutex. */
TEST(time_that_steps_back)
{
    int64_t wait_ns;
    struct access_budget budget = made(1, 1 * SECOND);
    assert_true(access_budget_take(&budget, 0, 500 * MS, START + 10 * MS, &wait_ns));
    for (int i = 0; i < 100; i++)
        assert_false(access_budget_has(&budget, START + i % 2 * MS, &wait_ns));
    assert_true(access_budget_take(&budget, 0, 1, START + 500 * MS, &wait_ns));
    access_budget_free(&budget);
}

/* ------------------------------------------------------------------- waiting -- */

/* A client that comes back after Retry-After is taken; a second earlier it is refused. */
TEST(retry_after_is_exact)
{
    srand(7);
    for (int i = 0; i < 10000; i++) {
        const double rate = (1 + rand() % 1000) / 100.0 / (1 + rand() % 50);
        struct access_budget budget = made(rate, (int64_t)(rate * 1e9));
        int64_t wait_ns, unused, now_ns = START;
        for (int request = 0; request < 3; request++) {
            assert_true(
                access_budget_take(&budget, 0, 1 + rand() % (20 * SECOND), now_ns, &unused));
            if (access_budget_has(&budget, now_ns, &wait_ns))
                continue;
            const int seconds = access_budget_wait_s(wait_ns);
            assert_false(access_budget_has(&budget, now_ns + (seconds - 1) * SECOND, &unused));
            if (wait_ns > MS)
                assert_false(access_budget_has(&budget, now_ns + wait_ns - MS, &unused));
            now_ns += request == 0 ? wait_ns : seconds * SECOND;
            assert_true(access_budget_has(&budget, now_ns, &unused));
        }
        access_budget_free(&budget);
    }
}

TEST(seconds)
{
    assert_int_equal(access_budget_wait_s(0), 1);
    assert_int_equal(access_budget_wait_s(1), 1);
    assert_int_equal(access_budget_wait_s(SECOND), 1);
    assert_int_equal(access_budget_wait_s(SECOND + 1), 2);
    assert_int_equal(access_budget_wait_s(INT64_MAX), INT32_MAX);
    struct access_budget budget = made(1e-9, 1);
    int64_t wait_ns;
    assert_true(access_budget_take(&budget, 0, INT64_MAX / 1024, START, &wait_ns));
    assert_false(access_budget_has(&budget, START, &wait_ns));
    assert_int_equal(access_budget_wait_s(wait_ns), INT32_MAX);
    access_budget_free(&budget);
}

/* ------------------------------------------------------------------ overload -- */

enum { WORKERS = 4 };

struct load {
    double rate;
    int64_t burst_ns;
    int64_t request_ns;    /* that a request uses, on average */
    bool sizes_differ;     /* from a tenth of it to almost twice as much */
    double overload;       /* what is asked for, in budgets */
    double predicted_most; /* a prediction is wrong by a factor between 1 / most and most, */
    double predicted_bias; /* times this one */
};

struct running {
    int64_t begun_ns, used_ns, reserved_ns; /* used_ns 0: the worker is idle */
};

static double between(double low, double high)
{
    return low + (high - low) * (rand() / (double)RAND_MAX);
}

/* Workers run what is taken; what comes while all are at work is turned away. Returns the CPU time
 * that the workers used in the last seconds of a simulation of warm_s + seconds, with requests that
 * arrive at random. */
static double simulate(const struct load *load, int warm_s, int seconds)
{
    struct access_budget budget = made(load->rate, load->burst_ns);
    struct running workers[WORKERS] = { 0 };
    const double gap_ns = (double)load->request_ns / (load->overload * load->rate);
    const int64_t from_ns = START + warm_s * SECOND, end_ns = from_ns + seconds * SECOND;
    double used_ns = 0;
    for (double next = (double)START; next < (double)end_ns;
         next += -log(1 - between(0, 0.999999)) * gap_ns) {
        const int64_t now_ns = (int64_t)next;
        struct running *idle = NULL;
        int64_t wait_ns;
        for (int i = 0; i < WORKERS; i++) {
            struct running *running = &workers[i];
            if (running->used_ns > 0 && running->begun_ns + running->used_ns <= now_ns) {
                access_budget_correct(&budget, running->reserved_ns, running->used_ns);
                running->used_ns = 0;
            }
            if (running->used_ns == 0)
                idle = running;
        }
        const double size = (double)load->request_ns * (load->sizes_differ ? between(0.1, 1.9) : 1);
        const double wrong = pow(load->predicted_most, between(-1, 1)) * load->predicted_bias;
        const int64_t predicted_ns = (int64_t)(size * wrong);
        if (!idle || !access_budget_take(&budget, 0, predicted_ns, now_ns, &wait_ns))
            continue;
        *idle = (struct running){ now_ns, (int64_t)size, predicted_ns };
        const double counted_from = fmax((double)now_ns, (double)from_ns);
        used_ns += fmax(0, fmin((double)now_ns + size, (double)end_ns) - counted_from);
    }
    access_budget_free(&budget);
    return used_ns / 1e9;
}

static void assert_gets_its_budget(const struct load *load)
{
    for (int warm_s = 0; warm_s <= 7; warm_s += 7) {
        const double used = simulate(load, warm_s, 30), given = 30 * load->rate;
        if (fabs(used - given) > 0.03 * given)
            fail_msg("requests of %.3f ms at %.2f CPU, depth %.3f ms: %.3f s used of %.3f s",
                     (double)load->request_ns / 1e6, load->rate, (double)load->burst_ns / 1e6, used,
                     given);
    }
}

/* A depth that is smaller than the budget of the time between two requests loses a part of it. So
 * where the depth is small, large requests come more often, as those of clients that try again. */
TEST(overload)
{
    static const double rates[] = { 0.1, 2 };
    static const double biases[] = { 0.5, 1, 2 };
    srand(11);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        for (size_t j = 0; j < sizeof biases / sizeof biases[0]; j++)
            for (int size = 0; size < 3; size++) {
                const int64_t second_ns = (int64_t)(rates[i] * 1e9); /* a second of the budget */
                const int64_t sizes_ns[] = { second_ns / 1000, second_ns / 100, second_ns / 5 };
                for (int differ = 0; differ < 2; differ++) {
                    struct load load = { .rate = rates[i],
                                         .burst_ns = second_ns,
                                         .request_ns = sizes_ns[size],
                                         .sizes_differ = differ == 1,
                                         .overload = 10,
                                         .predicted_most = 1,
                                         .predicted_bias = biases[j] };
                    assert_gets_its_budget(&load);
                    load.predicted_most = 2;
                    assert_gets_its_budget(&load);
                    load.burst_ns = second_ns / 100; /* most requests are larger than the depth */
                    load.overload = 10 + 990.0 * (double)sizes_ns[size] / (double)second_ns;
                    assert_gets_its_budget(&load);
                }
            }
}
