/* shell.c - see shell.h. */
#include "shell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>
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

const char *shell_library(void)
{
    static char library[PATH_MAX];
    const ssize_t used = readlink("/proc/self/exe", library, sizeof library - 1);
    assert_true(used > 0);
    library[used] = '\0';
    char *tests = strstr(library, "/tests/deploy/");
    assert_non_null(tests);
    strcpy(tests, "/libattn.so.1");
    assert_int_equal(access(library, R_OK), 0);
    return library;
}
