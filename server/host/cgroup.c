/* cgroup.c - see cgroup.h.
 *
 * The path that /proc/self/cgroup tells is the host's, and where a container sees
 * only its own group, mounted at the root, that path does not exist; so every
 * ancestor of it is asked, up to the root itself, and what is not there is passed
 * over. */
#include "host/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CGROUP_TEXT_BYTES_MAX = 16384 };

bool cgroup_read_text(const char *directory, const char *name, char *text, size_t size)
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

bool cgroup_read_number(const char *directory, const char *name, long long *number)
{
    char text[64], *end;
    if (!cgroup_read_text(directory, name, text, sizeof text))
        return false;
    *number = strtoll(text, &end, 10);
    return end != text;
}

long long cgroup_lesser(long long a, long long b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The least of the group and all that it is in, below and with mount. */
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
        least = cgroup_lesser(least, read(directory));
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

/* One line of /proc/self/cgroup, "0::/path" or "4:cpu,cpuacct:/path", which is cut up. A path that
 * leaves the own namespace ("/../other") cannot be followed; then only the root is asked. */
static long long limit_of_line(const struct cgroup_limit *limit, const char *root, char *line)
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
        return cgroup_lesser(limit_of_path(root, group, limit->v2),
                             limit_of_path(mount, group, limit->v2));
    }
    if (!has_controller(controllers, limit->controller))
        return 0;
    snprintf(mount, sizeof mount, "%s/%s", root, controllers);
    const long long least = limit_of_path(mount, group, limit->v1);
    snprintf(mount, sizeof mount, "%s/%s", root, limit->controller);
    return cgroup_lesser(least, limit_of_path(mount, group, limit->v1));
}

long long cgroup_limit_at(const struct cgroup_limit *limit, const char *root,
                          const char *proc_self_cgroup)
{
    char text[CGROUP_TEXT_BYTES_MAX];
    snprintf(text, sizeof text, "%s", proc_self_cgroup);
    long long least = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        least = cgroup_lesser(least, limit_of_line(limit, root, line));
    return least;
}

long long cgroup_limit(const struct cgroup_limit *limit)
{
    char text[CGROUP_TEXT_BYTES_MAX];
    if (!cgroup_read_text("/proc/self", "cgroup", text, sizeof text))
        return 0;
    return cgroup_limit_at(limit, "/sys/fs/cgroup", text);
}
