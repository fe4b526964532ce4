/* SPDX-License-Identifier: Apache-2.0 */
/* resources.h - the CPUs and the memory that this process may use.
 *
 * Both are the least of what the machine has and of what the control groups of this process grant,
 * of version 2 and of version 1. */
#ifndef ATTND_RESOURCES_H
#define ATTND_RESOURCES_H

#include <stddef.h>

/* The least of the affinity mask and the groups' CPU quota (v2 cpu.max, v1 cpu.cfs_quota_us),
 * rounded up to whole CPUs; at least 1. */
int resources_cpu_count(void);

/* The least of the machine's memory and the groups' limit (v2 memory.max, v1
 * memory.limit_in_bytes), in bytes; SIZE_MAX where neither is known. */
size_t resources_memory_bytes(void);

/* For tests: what the groups alone grant, where cgroups are mounted at root and /proc/self/cgroup
 * holds the text proc_self_cgroup; 0 where no group has a limit. */
int resources_cgroup_cpu_count(const char *root, const char *proc_self_cgroup);
long long resources_cgroup_memory_bytes(const char *root, const char *proc_self_cgroup);

#endif
