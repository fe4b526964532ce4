/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_granted.c - memory limits of cgroups, read from trees made for the test, and the
 * memory of the machine. test_cpu_count.c tests how a group is found. */
#include "host/resources.h"
#include "test.h"

#include "daemon.h"

#include <unistd.h>

static void expect(const char *self, const char *path, const char *text, long long bytes)
{
    char *root = daemon_directory_create();
    daemon_directory_write(root, path, text, strlen(text));
    assert_int_equal(resources_cgroup_memory_bytes(root, self), bytes);
    daemon_directory_remove(root);
}

TEST(cgroups)
{
    expect("0::/a\n", "a/memory.max", "268435456\n", 268435456);
    expect("0::/a\n", "memory.max", "1048576\n", 1048576);
    expect("0::/a\n", "a/memory.max", "max\n", 0);
    expect("0::/a\n", "a/memory.max", "0\n", 0);
    expect("0::/a\n", "b/memory.max", "268435456\n", 0);
    expect("5:memory:/a\n", "memory/a/memory.limit_in_bytes", "536870912\n", 536870912);
    expect("5:memory:/a\n", "memory/a/memory.limit_in_bytes", "9223372036854771712\n", 0);
    expect("5:cpu:/a\n", "memory/a/memory.limit_in_bytes", "536870912\n", 0);
}

TEST(machine)
{
    const size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    assert_true(resources_memory_bytes() > 1 << 20);
    assert_true(resources_memory_bytes() <= machine);
}
