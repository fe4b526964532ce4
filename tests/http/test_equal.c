/* SPDX-License-Identifier: Apache-2.0 */
/* test_equal.c - a short run of `make check-equal`: a busy daemon answers as an idle one does, and
 * the program that says so sees what differs. */
#include "daemon.h"
#include "shell.h"
#include "test.h"

#define PROGRAM "tests/bench/load_equal"

/* What the program prints, with its exit status in the last line. */
static const char *run(const char *arguments)
{
    char script[512];
    snprintf(script, sizeof script, "%s %s 2>&1; echo \"exit $?\"", shell_built(PROGRAM),
             arguments);
    return shell(script);
}

TEST(a_busy_daemon_answers_as_an_idle_one)
{
    const char *said = run("800 generic");
    if (!strstr(said, " answers, 0 differ; ") || !strstr(said, "\nexit 0\n"))
        fail_msg("%s", said);
}

/* Tables of kernels round differently, so their answers differ in a few bits. */
TEST(a_bit_is_seen)
{
    if (system("\"${ATTND:-build/attnd}\" --check-config --kernels avx2 >/dev/null 2>&1") != 0)
        return;
    const char *said = run("60 generic:avx2");
    if (!strstr(said, "differs: /v1/attention") || strstr(said, " answers, 0 differ; ")
        || !strstr(said, "\nexit 1\n"))
        fail_msg("%s", said);
}
