#include "work/worker_cpu.h"

#include "watch/log.h"

#include <string.h>

void worker_cpu_pin(pthread_t thread, int index)
{
    cpu_set_t all, one;
    int cpu = -1;
    int error = pthread_getaffinity_np(pthread_self(), sizeof all, &all);
    if (error == 0) {
        for (int left = index % CPU_COUNT(&all); left >= 0; left -= CPU_ISSET(cpu, &all) != 0)
            cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        error = pthread_setaffinity_np(thread, sizeof one, &one);
    }
    if (error != 0)
        log_line(LOG_WARNING, "worker not pinned", LOG_NUMBER("worker", index),
                 LOG_STRING("reason", strerror(error)));
}

void worker_cpu_leave(const cpu_set_t *busy)
{
    cpu_set_t all, shared, others;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    CPU_AND(&shared, &all, busy);
    CPU_XOR(&others, &all, &shared);
    if (CPU_COUNT(&others) == 0 || CPU_COUNT(&shared) == 0)
        return;
    if (sched_setaffinity(0, sizeof others, &others) == 0) /* the kernel moves the thread here */
        sched_setaffinity(0, sizeof all, &all);
}
