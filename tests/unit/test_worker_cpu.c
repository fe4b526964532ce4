/* SPDX-License-Identifier: Apache-2.0 */
/* A worker leaves a CPU on which another one runs: it goes on elsewhere, and may still run wherever
 * it might before. Where it may run nowhere else, it stays. */
#include "scheduler/scheduler_internal.h"
#include "test.h"

static cpu_set_t allowed; /* to the process */

static cpu_set_t one_of(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return one;
}

static void expect_mask(const cpu_set_t *wanted)
{
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    assert_true(CPU_EQUAL(&mask, wanted));
}

/* Moves the test to the CPU and lets it run anywhere again. */
static void go_to(int cpu)
{
    const cpu_set_t one = one_of(cpu);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(sched_getcpu(), cpu);
    assert_int_equal(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

/* The kernel may move the test on before its CPU is read, so one of some tries must show the move.
 * Without worker_cpu_leave() none does: the CPU that was left has nothing else to run. */
TEST(leaves_a_busy_cpu)
{
    int others = 0, tries = 0;
    if (CPU_COUNT(&allowed) < 2)
        skip();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        const cpu_set_t busy = one_of(cpu);
        go_to(cpu);
        worker_cpu_leave(&busy);
        others += sched_getcpu() != cpu;
        tries++;
        expect_mask(&allowed);
    }
    assert_true(others > tries / 2);
}

TEST(stays_where_every_cpu_is_busy)
{
    worker_cpu_leave(&allowed);
    expect_mask(&allowed);
}

TEST(a_pinned_worker_stays)
{
    const int cpu = sched_getcpu();
    const cpu_set_t busy = one_of(cpu);
    worker_cpu_pin(&allowed, 0);
    const int pinned = sched_getcpu();
    const cpu_set_t one = one_of(pinned);
    expect_mask(&one);
    worker_cpu_leave(&busy);
    worker_cpu_leave(&one);
    assert_int_equal(sched_getcpu(), pinned);
    expect_mask(&one);
    assert_int_equal(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

int main(void)
{
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    return test_run(NULL);
}
