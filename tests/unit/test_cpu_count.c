/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_count.c - quotas of cgroups, read from trees made for the test, and the
 * affinity mask of this process. */
#include "host/resources.h"
#include "test.h"

#include <limits.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 6 };

struct cgroup_case {
    const char *what;
    const char *self; /* /proc/self/cgroup */
    struct {
        const char *path, *text;
    } files[FILES_MAX]; /* under the root, ended by a NULL path */
    int cpus;
};

static const struct cgroup_case CASES[] = {
    { "no files", "0::/\n", { { NULL, NULL } }, 0 },
    { "v2, in the root", "0::/\n", { { "cpu.max", "200000 100000\n" } }, 2 },
    { "v2, rounded up", "0::/\n", { { "cpu.max", "150000 100000\n" } }, 2 },
    { "v2, less than one", "0::/\n", { { "cpu.max", "1000 100000\n" } }, 1 },
    { "v2, no limit", "0::/\n", { { "cpu.max", "max 100000\n" } }, 0 },
    { "v2, nested, the group's own",
      "0::/a/b\n",
      { { "a/b/cpu.max", "300000 100000\n" }, { "a/cpu.max", "max 100000\n" } },
      3 },
    { "v2, nested, an ancestor's",
      "0::/a/b\n",
      { { "a/b/cpu.max", "max 100000\n" }, { "a/cpu.max", "400000 100000\n" } },
      4 },
    { "v2, nested, the least of both",
      "0::/a/b\n",
      { { "a/b/cpu.max", "800000 100000\n" }, { "a/cpu.max", "500000 100000\n" } },
      5 },
    { "v2, a container that sees only its own group",
      "0::/kubepods/pod1/x\n",
      { { "cpu.max", "600000 100000\n" } },
      6 },
    { "v2, a path outside of the namespace", "0::/../other\n", { { "cpu.max", "7 1\n" } }, 7 },
    { "v2, another group's quota",
      "0::/a\n",
      { { "b/cpu.max", "100000 100000\n" }, { "a/cpu.max", "max 100000\n" } },
      0 },
    { "v2, garbage", "0::/\n", { { "cpu.max", "many\n" } }, 0 },
    { "v2, nothing in the file", "0::/\n", { { "cpu.max", "" } }, 0 },
    { "v2, a period of zero", "0::/\n", { { "cpu.max", "100000 0\n" } }, 0 },
    { "v2, larger than an int", "0::/\n", { { "cpu.max", "9000000000000000000 1\n" } }, INT_MAX },
    { "v1",
      "9:memory:/a\n4:cpu,cpuacct:/a\n1:name=systemd:/\n",
      { { "cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n" },
        { "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n" } },
      3 },
    { "v1, mounted as cpu alone",
      "4:cpuacct,cpu:/a\n",
      { { "cpu/a/cpu.cfs_quota_us", "20000\n" }, { "cpu/a/cpu.cfs_period_us", "10000\n" } },
      2 },
    { "v1, no quota",
      "4:cpu:/\n",
      { { "cpu/cpu.cfs_quota_us", "-1\n" }, { "cpu/cpu.cfs_period_us", "100000\n" } },
      0 },
    { "v1, an ancestor's",
      "4:cpu:/a/b\n",
      { { "cpu/a/b/cpu.cfs_quota_us", "-1\n" },
        { "cpu/a/b/cpu.cfs_period_us", "100000\n" },
        { "cpu/a/cpu.cfs_quota_us", "400000\n" },
        { "cpu/a/cpu.cfs_period_us", "100000\n" } },
      4 },
    { "v1, the host's path in a container",
      "4:cpu,cpuacct:/docker/0123\n",
      { { "cpu,cpuacct/cpu.cfs_quota_us", "200000\n" },
        { "cpu,cpuacct/cpu.cfs_period_us", "100000\n" } },
      2 },
    { "v1, cpuset is no quota",
      "4:cpuset:/\n",
      { { "cpuset/cpu.cfs_quota_us", "100000\n" }, { "cpuset/cpu.cfs_period_us", "100000\n" } },
      0 },
    { "both, mixed: v1 has the controller",
      "4:cpu:/a\n0::/a\n",
      { { "cpu/a/cpu.cfs_quota_us", "300000\n" }, { "cpu/a/cpu.cfs_period_us", "100000\n" } },
      3 },
    { "both, mixed: v2 is mounted as unified",
      "4:memory:/a\n0::/a\n",
      { { "unified/a/cpu.max", "200000 100000\n" } },
      2 },
    { "no lines", "", { { "cpu.max", "100000 100000\n" } }, 0 },
    { "broken lines", "0\n0:\n::\n:\nx", { { "cpu.max", "100000 100000\n" } }, 0 },
};

static void write_file(const char *root, const char *path, const char *text)
{
    char full[PATH_MAX];
    const int length = snprintf(full, sizeof full, "%s/%s", root, path);
    assert_true(length > 0 && (size_t)length < sizeof full);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Removes a file and the directories that it was the last in. */
static void remove_file(const char *root, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", root, path);
    unlink(full);
    for (char *slash = strrchr(full, '/'); slash > full + strlen(root);
         slash = strrchr(full, '/')) {
        *slash = '\0';
        rmdir(full);
    }
}

TEST(cgroups)
{
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct cgroup_case *c = &CASES[i];
        char root[] = "/tmp/test_cpu_count.XXXXXX";
        assert_non_null(mkdtemp(root));
        for (int j = 0; j < FILES_MAX && c->files[j].path; j++)
            write_file(root, c->files[j].path, c->files[j].text);
        const int cpus = resources_cgroup_cpu_count(root, c->self);
        for (int j = 0; j < FILES_MAX && c->files[j].path; j++)
            remove_file(root, c->files[j].path);
        assert_int_equal(rmdir(root), 0);
        if (cpus != c->cpus)
            fail_msg("%s: %d CPUs, expected %d", c->what, cpus, c->cpus);
    }
}

TEST(long_paths)
{
    char *self = calloc(1, 3 * PATH_MAX);
    assert_non_null(self);
    strcpy(self, "0::/");
    memset(self + 4, 'a', 2 * PATH_MAX);
    assert_int_equal(resources_cgroup_cpu_count("/nonexistent", self), 0);
    free(self);
}

TEST(affinity)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        skip(); /* more CPUs than the set holds */
    const int count = resources_cpu_count();
    assert_true(count >= 1 && count <= CPU_COUNT(&all));
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int alone = resources_cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(alone, 1);
    assert_int_equal(resources_cpu_count(), count);
}
