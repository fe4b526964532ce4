/* worker_cpu.h - the CPUs that workers run on.
 *
 * The kernel places a woken thread on the CPU of its waker where it finds no idle one at once, and
 * it does not search all of them while they were busy lately (SIS_UTIL of Linux,
 * kernel/sched/fair.c). So two workers may share one CPU beside an idle one for several ms, until
 * the kernel balances its queues. */
#ifndef ATTND_WORKER_CPU_H
#define ATTND_WORKER_CPU_H

#include <sched.h>

/* Pins the calling thread to the index-th of the allowed CPUs, counting round where there are
 * fewer. Where the kernel refuses, the thread stays unpinned. */
void worker_cpu_pin(const cpu_set_t *allowed, int index);

/* Moves the calling thread to a CPU that is not in busy. Its affinity mask stays as it is, so the
 * kernel may move it on. Where the mask has no other CPU, the thread stays. */
void worker_cpu_leave(const cpu_set_t *busy);

#endif
