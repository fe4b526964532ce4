/* cpu_count.c - see cpu_count.h.
 *
 * The kernel gives no single answer: the affinity mask knows nothing of a quota,
 * and a quota of any ancestor of the own group counts. The path that
 * /proc/self/cgroup tells is the host's, and where a container sees only its own
 * group, mounted at the root, that path does not exist; so every ancestor of it
 * is asked, up to the root itself, and what is not there is passed over. */
#include "cpu_count.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CPUS_MAX = 1 << 16, CGROUP_TEXT_BYTES_MAX = 16384 };

/* Reads the beginning of a file as text; false where there is none. */
static bool read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    return fclose(file) == 0 && length > 0;
}

/* CPUs of a quota in a period, rounded up; 0 where that is no limit. */
static int whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    const long long cpus = quota / period + (quota % period > 0);
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/* The lesser of two limits, of which 0 is none. */
static int lesser(int a, int b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Reads a number; where it ends, or NULL: there is none. */
static const char *read_number(const char *text, long long *number)
{
    char *end;
    *number = strtoll(text, &end, 10);
    return end == text ? NULL : end;
}

/* v2: "50000 100000", or "max 100000". */
static int quota_v2(const char *directory)
{
    char path[PATH_MAX], text[128];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (!read_text(path, text, sizeof text))
        return 0;
    const char *rest = read_number(text, &quota);
    return rest && read_number(rest, &period) ? whole_cpus(quota, period) : 0;
}

static bool read_number_file(const char *directory, const char *name, long long *number)
{
    char path[PATH_MAX], text[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return read_text(path, text, sizeof text) && read_number(text, number);
}

/* v1: two files; -1 is no quota. */
static int quota_v1(const char *directory)
{
    long long quota, period;
    if (!read_number_file(directory, "cpu.cfs_quota_us", &quota)
        || !read_number_file(directory, "cpu.cfs_period_us", &period))
        return 0;
    return whole_cpus(quota, period);
}

/* The least quota of the group and all that it is in, below and with mount. */
static int quota_of_path(const char *mount, const char *group, int (*quota_of)(const char *))
{
    char directory[PATH_MAX];
    const size_t mount_length = strlen(mount);
    const int length = snprintf(directory, sizeof directory, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof directory)
        return quota_of(mount);
    int cpus = 0;
    for (;;) {
        cpus = lesser(cpus, quota_of(directory));
        char *slash = strrchr(directory + mount_length, '/');
        if (!slash)
            return cpus;
        *slash = '\0';
    }
}

static bool has_cpu_controller(const char *controllers)
{
    char list[256];
    snprintf(list, sizeof list, "%s", controllers);
    char *rest = list;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ","))
        if (strcmp(name, "cpu") == 0)
            return true;
    return false;
}

/* One line of /proc/self/cgroup, "0::/path" or "4:cpu,cpuacct:/path", which is cut up. A path that
 * leaves the own namespace ("/../other") cannot be followed; then only the root is asked. */
static int quota_of_line(const char *root, char *line)
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
        return lesser(quota_of_path(root, group, quota_v2), quota_of_path(mount, group, quota_v2));
    }
    if (!has_cpu_controller(controllers))
        return 0;
    snprintf(mount, sizeof mount, "%s/%s", root, controllers);
    const int cpus = quota_of_path(mount, group, quota_v1);
    snprintf(mount, sizeof mount, "%s/cpu", root);
    return lesser(cpus, quota_of_path(mount, group, quota_v1));
}

int cpu_count_of_cgroup(const char *root, const char *proc_self_cgroup)
{
    char text[CGROUP_TEXT_BYTES_MAX];
    snprintf(text, sizeof text, "%s", proc_self_cgroup);
    int cpus = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        cpus = lesser(cpus, quota_of_line(root, line));
    return cpus;
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
    char text[CGROUP_TEXT_BYTES_MAX];
    int granted = 0;
    if (read_text("/proc/self/cgroup", text, sizeof text))
        granted = cpu_count_of_cgroup("/sys/fs/cgroup", text);
    const int affinity = affinity_count();
    return lesser(affinity, granted);
}
