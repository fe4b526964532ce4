/* SPDX-License-Identifier: Apache-2.0 */
/* shell.c - see shell.h. */
#include "shell.h"
#include "daemon.h"
#include "test.h"

#include <limits.h>
#include <unistd.h>

enum { OUTPUT_BYTES = 1 << 16 };

const char *shell(const char *script)
{
    static char output[OUTPUT_BYTES];
    FILE *stream = popen(script, "r");
    assert_non_null(stream);
    const size_t used = fread(output, 1, sizeof output - 1, stream);
    output[used] = '\0';
    const int status = pclose(stream);
    if (status != 0)
        fail_msg("%s\nstatus %d, wrote\n%s", script, status, output);
    return output;
}

void shell_folder(char *folder)
{
    assert_non_null(mkdtemp(folder));
    setenv("D", folder, 1);
    setenv("ATTND", daemon_program(), 1);
    unsetenv("ATTND_TEST_SLOW"); /* of the runner: no flag of the program has this name */
    unsetenv("ATTND_TEST_SANDBOX");
}

int shell_folder_remove(void **state)
{
    shell("rm -r $D");
    return 0;
}

const char *shell_built(const char *file)
{
    static char path[PATH_MAX];
    const ssize_t used = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(used > 0);
    path[used] = '\0';
    char *tests = NULL;
    for (char *at = strstr(path, "/tests/"); at; at = strstr(at + 1, "/tests/"))
        tests = at;
    assert_non_null(tests);
    snprintf(tests, sizeof path - (size_t)(tests - path), "/%s", file);
    assert_int_equal(access(path, R_OK), 0);
    return path;
}

const char *shell_library(void)
{
    return shell_built("libattn.so.1");
}
