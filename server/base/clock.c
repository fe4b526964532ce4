/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h: what needs pthread.h, or memory of its own.
 *
 * A condition waits by the calendar clock by default. The calendar clock may be set while a thread
 * waits; the monotonic clock may not. */
#include "base/clock.h"

#include <pthread.h>

void clock_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* ------------------------------------------------------------- CPU time of tasks -- */

enum { BRIEF_NS = 250000, FRESH_NS = 1000000 };

/* The calling thread's: a clock that advances by the CPU time of its tasks. */
static _Thread_local struct {
    int64_t used_ns;      /* what it says */
    int64_t advanced_ns;  /* when it was advanced, or a task begun, by the monotonic clock */
    int64_t read_ns;      /* when the CPU clock was read */
    int64_t read_cpu_ns;  /* what that said */
    int64_t read_used_ns; /* used_ns then */
} own;

static void read_cpu_clock(int64_t now_ns)
{
    own.read_ns = now_ns;
    own.read_cpu_ns = clock_thread_ns();
    own.read_used_ns = own.used_ns;
}

struct clock_task clock_task_begin(void)
{
    const int64_t now_ns = clock_now_ns();
    if (now_ns - own.read_ns > FRESH_NS)
        read_cpu_clock(now_ns);
    own.advanced_ns = now_ns;
    return (struct clock_task){ now_ns, own.used_ns };
}

/* What of the time that passed since the last advance was CPU time. */
static int64_t cpu_of_passed(int64_t passed_ns)
{
    if (passed_ns <= BRIEF_NS)
        return passed_ns;
    const int64_t cpu_ns = clock_thread_ns() - own.read_cpu_ns - (own.used_ns - own.read_used_ns);
    return cpu_ns < 0 ? 0 : cpu_ns < passed_ns ? cpu_ns : passed_ns;
}

int64_t clock_task_end(const struct clock_task *task)
{
    const int64_t now_ns = clock_now_ns(), passed_ns = now_ns - own.advanced_ns;
    own.used_ns += cpu_of_passed(passed_ns);
    own.advanced_ns = now_ns;
    if (passed_ns > BRIEF_NS)
        read_cpu_clock(now_ns);
    return own.used_ns - task->used_ns;
}
