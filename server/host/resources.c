/* SPDX-License-Identifier: Apache-2.0 */
/* resources.c - see resources.h.
 *
 * The kernel gives no single answer: the affinity mask knows nothing of a quota, and a limit of any
 * ancestor of the process's own group counts too.
 *
 * /proc/self/cgroup tells the path of the group as the host sees it. A container may see only its
 * own group, mounted at the root, and then that path does not exist. So the search asks every
 * ancestor of the path, up to the root, and passes over directories that do not exist. */
#include "host/resources.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CGROUP_TEXT_BYTES_MAX = 16384, CPUS_MAX = 1 << 16 };

/* Reads one kind of limit from the directory of a group; 0 where the group has none. */
struct limit {
    const char *controller; /* in version 1: "cpu" or "memory" */
    long long (*v2)(const char *directory);
    long long (*v1)(const char *directory);
};

/* -------------------------------------------------------------- files of a group -- */

/* The beginning of directory/name; false where there is no such file or it is empty. */
static bool read_text(const char *directory, const char *name, char *text, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    return fclose(file) == 0 && length > 0;
}

/* The number that directory/name begins with; false where it begins with none. */
static bool read_file_number(const char *directory, const char *name, long long *number)
{
    char text[64], *end;
    if (!read_text(directory, name, text, sizeof text))
        return false;
    *number = strtoll(text, &end, 10);
    return end != text;
}

/* The lesser of two limits; 0 stands for no limit. */
static long long lesser(long long a, long long b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* --------------------------------------------------------- the groups of a process -- */

/* The least limit of the group, its ancestors and the directory mount, under which they lie. */
static long long limit_of_path(const char *mount, const char *group,
                               long long (*read)(const char *directory))
{
    char directory[PATH_MAX];
    const size_t mount_length = strlen(mount);
    const int length = snprintf(directory, sizeof directory, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof directory)
        return read(mount);
    long long least = 0;
    for (;;) {
        least = lesser(least, read(directory));
        char *slash = strrchr(directory + mount_length, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static bool has_controller(const char *controllers, const char *controller)
{
    char list[256];
    snprintf(list, sizeof list, "%s", controllers);
    char *rest = list;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ","))
        if (strcmp(name, controller) == 0)
            return true;
    return false;
}

/* The limit that one line of /proc/self/cgroup leads to: "0::/path" or "4:cpu,cpuacct:/path". Cuts
 * the line up. A path that leaves the process's namespace ("/../other") cannot be followed, so for
 * such a path only the root is asked. */
static long long limit_of_line(const struct limit *limit, const char *root, char *line)
{
    char mount[PATH_MAX];
    char *rest = line;
    const char *hierarchy = strsep(&rest, ":");
    const char *controllers = strsep(&rest, ":");
    if (!controllers || !rest)
        return 0;
    const char *group = strncmp(rest, "/..", 3) == 0 ? "" : rest;
    if (strcmp(hierarchy, "0") == 0 && !controllers[0]) {
        snprintf(mount, sizeof mount, "%s/unified", root);
        return lesser(limit_of_path(root, group, limit->v2),
                      limit_of_path(mount, group, limit->v2));
    }
    if (!has_controller(controllers, limit->controller))
        return 0;
    snprintf(mount, sizeof mount, "%s/%s", root, controllers);
    const long long least = limit_of_path(mount, group, limit->v1);
    snprintf(mount, sizeof mount, "%s/%s", root, limit->controller);
    return lesser(least, limit_of_path(mount, group, limit->v1));
}

static long long limit_at(const struct limit *limit, const char *root, const char *proc_self_cgroup)
{
    char text[CGROUP_TEXT_BYTES_MAX];
    snprintf(text, sizeof text, "%s", proc_self_cgroup);
    long long least = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        least = lesser(least, limit_of_line(limit, root, line));
    return least;
}

static long long limit_of_process(const struct limit *limit)
{
    char text[CGROUP_TEXT_BYTES_MAX];
    if (!read_text("/proc/self", "cgroup", text, sizeof text))
        return 0;
    return limit_at(limit, "/sys/fs/cgroup", text);
}

/* ------------------------------------------------------------------------- CPUs -- */

/* The CPUs that a quota of time in a period stands for, rounded up; 0 where it is no limit. */
static long long whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    const long long cpus = quota / period + (quota % period > 0);
    return cpus < INT_MAX ? cpus : INT_MAX;
}

/* Reads a number. Returns where the number ends, or NULL where the text begins with none. */
static const char *read_number(const char *text, long long *number)
{
    char *end;
    *number = strtoll(text, &end, 10);
    return end == text ? NULL : end;
}

/* Version 2 has one file: "50000 100000", or "max 100000" for no quota. */
static long long quota_v2(const char *directory)
{
    char text[128];
    long long quota, period;
    if (!read_text(directory, "cpu.max", text, sizeof text))
        return 0;
    const char *rest = read_number(text, &quota);
    return rest && read_number(rest, &period) ? whole_cpus(quota, period) : 0;
}

/* Version 1 has two files; a quota of -1 is none. */
static long long quota_v1(const char *directory)
{
    long long quota, period;
    if (!read_file_number(directory, "cpu.cfs_quota_us", &quota)
        || !read_file_number(directory, "cpu.cfs_period_us", &period))
        return 0;
    return whole_cpus(quota, period);
}

static const struct limit QUOTA = { "cpu", quota_v2, quota_v1 };

int resources_cgroup_cpu_count(const char *root, const char *proc_self_cgroup)
{
    return (int)limit_at(&QUOTA, root, proc_self_cgroup);
}

/* The CPUs of the affinity mask. The call fails with EINVAL while the set is smaller than the
 * kernel's, so the set grows until it fits. */
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

int resources_cpu_count(void)
{
    return (int)lesser(affinity_count(), limit_of_process(&QUOTA));
}

/* ----------------------------------------------------------------------- memory -- */

/* "max" stands for no limit. */
static long long bytes_v2(const char *directory)
{
    long long bytes;
    return read_file_number(directory, "memory.max", &bytes) && bytes > 0 ? bytes : 0;
}

/* A number near the largest one stands for no limit. */
static long long bytes_v1(const char *directory)
{
    long long bytes;
    const bool there = read_file_number(directory, "memory.limit_in_bytes", &bytes);
    return there && bytes > 0 && bytes < LLONG_MAX / 2 ? bytes : 0;
}

static const struct limit BYTES = { "memory", bytes_v2, bytes_v1 };

long long resources_cgroup_memory_bytes(const char *root, const char *proc_self_cgroup)
{
    return limit_at(&BYTES, root, proc_self_cgroup);
}

size_t resources_memory_bytes(void)
{
    const long long pages = sysconf(_SC_PHYS_PAGES);
    const long long page_bytes = sysconf(_SC_PAGESIZE);
    const long long machine = pages > 0 && page_bytes > 0 ? pages * page_bytes : 0;
    const long long least = lesser(machine, limit_of_process(&BYTES));
    return least > 0 ? (size_t)least : SIZE_MAX;
}
