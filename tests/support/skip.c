/* skip.c - see skip.h. */
#include "skip.h"
#include "test.h"

void skip_without(const char *package, const char *present)
{
    char *command = NULL;
    assert_true(asprintf(&command, "{ %s; } >/dev/null 2>&1", present) > 0);
    const int status = system(command);
    free(command);
    if (status == 0)
        return;
    print_message("left out for want of the package %s\n", package); /* tests/run looks for this */
    skip();
}
