/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the monotonic clock and the clock of a thread's CPU time, in nanoseconds. */
#ifndef ATTND_CLOCK_H
#define ATTND_CLOCK_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static inline int64_t clock_ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline int64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return clock_ns_of(now);
}

static inline int64_t clock_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* The period of the kernel's tick, by which it advances its coarse clocks. */
static inline int64_t clock_tick_ns(void)
{
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return clock_ns_of(tick);
}

/* A time in the form that pthread_cond_timedwait() takes. */
static inline struct timespec clock_timespec(int64_t ns)
{
    return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

/* Makes a condition whose timed waits use the monotonic clock. The caller destroys it. */
void clock_init_condition(pthread_cond_t *condition);

/* The CPU time of the calling thread. Unlike the others this is a system call and takes most of a
 * microsecond. */
static inline int64_t clock_thread_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The CPU time of a task that one thread runs from its begin to its end, mostly without the system
 * call. A task that ends within a quarter of a millisecond hardly waited for a CPU, and is taken
 * for the time by the clock. For a longer one the CPU clock is read at its end, and what it said
 * when the thread read it last, with the tasks since, stands for its begin. Where that is older
 * than a millisecond the begin reads it.
 *
 * A task may lie in another one of the same thread. */
struct clock_task {
    int64_t begun_ns; /* by the monotonic clock */
    int64_t used_ns;  /* by all tasks of the thread before */
};

struct clock_task clock_task_begin(void);
int64_t clock_task_end(const struct clock_task *task);

#endif
