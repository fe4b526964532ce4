/* SPDX-License-Identifier: Apache-2.0 */
/* test_tiles.c - the permission to use tiles: given where kernels may use them, refused in words
 * where a filter of system calls stands before it. */
#include "host/process_start.h"
#include "test.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls in another process. */
static int status_in_child(int (*body)(void))
{
    const pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Asked twice, the answer is the same; a refusal has words. */
static int ask(void)
{
    const char *first = tiles_refused(), *second = tiles_refused();
    if (first == NULL || second == NULL)
        return first != second;
    return strlen(first) < 10 || strcmp(first, second) != 0;
}

static int ask_behind_filter(void)
{
    const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(arch_prctl), 0) != 0
        || seccomp_load(filter) != 0)
        return 2;
    const char *reason = tiles_refused();
    seccomp_release(filter);
    return reason == NULL || strstr(reason, "seccomp") == NULL;
}

TEST(ask)
{
    assert_int_equal(status_in_child(ask), 0);
}

TEST(filter)
{
#ifdef __x86_64__
    assert_int_equal(status_in_child(ask_behind_filter), 0);
#else
    (void)ask_behind_filter;
    skip();
#endif
}
