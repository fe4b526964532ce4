/* cgroup.h - what the control groups that this process is in let it have: the least that its own
 * group and all those around it say, of version 2 and version 1. */
#ifndef ATTND_CGROUP_H
#define ATTND_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* One limit: how it is read from a group's directory, 0 where there is none. */
struct cgroup_limit {
    const char *controller; /* of version 1: "cpu", "memory" */
    long long (*v2)(const char *directory);
    long long (*v1)(const char *directory);
};

/* Of this process; 0 where there is none. */
long long cgroup_limit(const struct cgroup_limit *limit);

/* The same where cgroups are mounted at root, for the text of a /proc/self/cgroup. */
long long cgroup_limit_at(const struct cgroup_limit *limit, const char *root,
                          const char *proc_self_cgroup);

/* The beginning of directory/name as text, and as a number; false where there is none. */
bool cgroup_read_text(const char *directory, const char *name, char *text, size_t size);
bool cgroup_read_number(const char *directory, const char *name, long long *number);

/* The lesser of two limits, of which 0 is none. */
long long cgroup_lesser(long long a, long long b);

#endif
