#include "work/worker_cpu.h"

#include "watch/log.h"

#include <errno.h>
#include <string.h>

void worker_cpu_pin(const cpu_set_t *allowed, int index)
{
    cpu_set_t one;
    int cpu = -1;
    if (CPU_COUNT(allowed) == 0)
        return;
    for (int left = index % CPU_COUNT(allowed); left >= 0; left -= CPU_ISSET(cpu, allowed) != 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        log_line(LOG_WARNING, "worker not pinned", LOG_NUMBER("worker", index),
                 LOG_STRING("reason", strerror(errno)));
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
