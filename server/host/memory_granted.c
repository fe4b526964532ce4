/* memory_granted.c - see memory_granted.h. */
#include "host/memory_granted.h"

#include "host/cgroup.h"

#include <limits.h>
#include <stdint.h>
#include <unistd.h>

/* "max" is no number, and no limit. */
static long long bytes_v2(const char *directory)
{
    long long bytes;
    return cgroup_read_number(directory, "memory.max", &bytes) && bytes > 0 ? bytes : 0;
}

/* No limit is a number near the largest there is. */
static long long bytes_v1(const char *directory)
{
    long long bytes;
    const bool there = cgroup_read_number(directory, "memory.limit_in_bytes", &bytes);
    return there && bytes > 0 && bytes < LLONG_MAX / 2 ? bytes : 0;
}

static const struct cgroup_limit BYTES = { "memory", bytes_v2, bytes_v1 };

long long memory_granted_of_cgroup(const char *root, const char *proc_self_cgroup)
{
    return cgroup_limit_at(&BYTES, root, proc_self_cgroup);
}

size_t memory_granted(void)
{
    const long long pages = sysconf(_SC_PHYS_PAGES);
    const long long page_bytes = sysconf(_SC_PAGESIZE);
    const long long machine = pages > 0 && page_bytes > 0 ? pages * page_bytes : 0;
    const long long least = cgroup_lesser(machine, cgroup_limit(&BYTES));
    return least > 0 ? (size_t)least : SIZE_MAX;
}
