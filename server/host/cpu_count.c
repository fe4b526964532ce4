/* cpu_count.c - see cpu_count.h.
 *
 * The kernel gives no single answer: the affinity mask knows nothing of a quota,
 * and a quota of any ancestor of the own group counts. */
#include "host/cpu_count.h"

#include "host/cgroup.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CPUS_MAX = 1 << 16 };

/* CPUs of a quota in a period, rounded up; 0 where that is no limit. */
static long long whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    const long long cpus = quota / period + (quota % period > 0);
    return cpus < INT_MAX ? cpus : INT_MAX;
}

/* Reads a number; where it ends, or NULL: there is none. */
static const char *read_number(const char *text, long long *number)
{
    char *end;
    *number = strtoll(text, &end, 10);
    return end == text ? NULL : end;
}

/* v2: "50000 100000", or "max 100000". */
static long long quota_v2(const char *directory)
{
    char text[128];
    long long quota, period;
    if (!cgroup_read_text(directory, "cpu.max", text, sizeof text))
        return 0;
    const char *rest = read_number(text, &quota);
    return rest && read_number(rest, &period) ? whole_cpus(quota, period) : 0;
}

/* v1: two files; -1 is no quota. */
static long long quota_v1(const char *directory)
{
    long long quota, period;
    if (!cgroup_read_number(directory, "cpu.cfs_quota_us", &quota)
        || !cgroup_read_number(directory, "cpu.cfs_period_us", &period))
        return 0;
    return whole_cpus(quota, period);
}

static const struct cgroup_limit QUOTA = { "cpu", quota_v2, quota_v1 };

int cpu_count_of_cgroup(const char *root, const char *proc_self_cgroup)
{
    return (int)cgroup_limit_at(&QUOTA, root, proc_self_cgroup);
}

/* The affinity mask; it fails with EINVAL until the set is as large as the kernel's. */
static int affinity_count(void)
{
    for (int cpus = CPU_SETSIZE; cpus <= CPUS_MAX; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set)
            break;
        const size_t size = CPU_ALLOC_SIZE(cpus);
        const int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < INT_MAX ? (int)online : 1;
}

int cpu_count(void)
{
    return (int)cgroup_lesser(affinity_count(), cgroup_limit(&QUOTA));
}
