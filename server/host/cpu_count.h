/* cpu_count.h - how many CPUs this process may use: the least of its affinity
 * mask and the cgroup's quota (v2 cpu.max, v1 cpu.cfs_quota_us), rounded up, at least 1. */
#ifndef ATTND_CPU_COUNT_H
#define ATTND_CPU_COUNT_H

int cpu_count(void);

/* For tests: the quota that a cgroup mounted at root grants to the group of the given
 * /proc/self/cgroup text; 0 where there is none. */
int cpu_count_of_cgroup(const char *root, const char *proc_self_cgroup);

#endif
