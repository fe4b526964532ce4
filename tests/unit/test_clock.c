/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock.c - the CPU time of tasks, most of them measured without the CPU clock. */
#include "base/clock.h"
#include "daemon.h"
#include "test.h"

enum { MS = 1000000 };

static void compute(int64_t cpu_ns)
{
    const int64_t until_ns = clock_thread_ns() + cpu_ns;
    while (clock_thread_ns() < until_ns)
        continue;
}

/* Whoever takes the CPU from the task meanwhile is not counted. */
TEST(computing)
{
    for (int64_t cpu_ns = 2 * MS; cpu_ns <= 8 * MS; cpu_ns *= 2) {
        const int64_t begun_cpu_ns = clock_thread_ns();
        const struct clock_task task = clock_task_begin();
        compute(cpu_ns);
        const int64_t used_ns = clock_task_end(&task);
        assert_in_range(used_ns, cpu_ns, clock_thread_ns() - begun_cpu_ns + MS);
    }
}

TEST(sleeping)
{
    const struct clock_task task = clock_task_begin();
    daemon_pause(0.05);
    assert_in_range(clock_task_end(&task), 0, 25 * MS);
}

/* What a thread does between two tasks, is no task's. */
TEST(between_tasks)
{
    struct clock_task task = clock_task_begin();
    compute(2 * MS);
    clock_task_end(&task);
    daemon_pause(0.05);
    const int64_t begun_ns = clock_now_ns();
    task = clock_task_begin();
    const int64_t used_ns = clock_task_end(&task);
    assert_in_range(used_ns, 0, clock_now_ns() - begun_ns);
}

/* Brief tasks are taken for their time by the clock, which is no less than that of the CPU, and a
 * long one behind them for what the CPU clock says beyond them. */
TEST(brief_tasks)
{
    const int64_t begun_ns = clock_now_ns();
    int64_t sum_ns = 0;
    for (int i = 0; i < 40; i++) {
        const struct clock_task task = clock_task_begin();
        compute(i < 39 ? 20000 : 4 * MS);
        sum_ns += clock_task_end(&task);
    }
    assert_in_range(sum_ns, 39 * 20000 + 4 * MS, clock_now_ns() - begun_ns);
}

/* A task in a task: both have the time of the inner one. */
TEST(nested_tasks)
{
    for (int64_t cpu_ns = 20000; cpu_ns <= 4 * MS; cpu_ns *= 200) {
        daemon_pause(0.002); /* so that the CPU clock is read */
        const struct clock_task outer = clock_task_begin();
        const struct clock_task inner = clock_task_begin();
        compute(cpu_ns);
        const int64_t inner_ns = clock_task_end(&inner), outer_ns = clock_task_end(&outer);
        assert_true(inner_ns >= cpu_ns);
        assert_true(outer_ns >= inner_ns);
    }
}

ALL_TESTS(NULL, NULL);
