/* memory_granted.h - how much memory this process may use: the least of the machine's and the
 * cgroup's limit (v2 memory.max, v1 memory.limit_in_bytes). */
#ifndef ATTND_MEMORY_GRANTED_H
#define ATTND_MEMORY_GRANTED_H

#include <stddef.h>

size_t memory_granted(void);

/* For tests: the limit of the cgroup, as cpu_count_of_cgroup(); 0 where there is none. */
long long memory_granted_of_cgroup(const char *root, const char *proc_self_cgroup);

#endif
