/* SPDX-License-Identifier: Apache-2.0 */
/* skip.c - see skip.h. */
#include "skip.h"
#include "test.h"

enum { FOUND_MAX = 16 };

/* Commands that have succeeded in this process: many tests of a group ask for one package, and some
 * commands start an interpreter. */
static char *found[FOUND_MAX];
static int found_count;

static bool was_found(const char *present)
{
    for (int i = 0; i < found_count; i++)
        if (strcmp(found[i], present) == 0)
            return true;
    return false;
}

void skip_without(const char *package, const char *present)
{
    if (was_found(present))
        return;
    char *command = NULL;
    assert_true(asprintf(&command, "{ %s; } >/dev/null 2>&1", present) > 0);
    const int status = system(command);
    free(command);
    if (status == 0) {
        if (found_count < FOUND_MAX)
            found[found_count++] = strdup(present);
        return;
    }
    print_message("left out for want of the package %s\n", package); /* tests/run looks for this */
    skip();
}
