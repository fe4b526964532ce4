/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_state.c - see sandbox_state.h. */
#include "sandbox_state.h"
#include "test.h"

#include "daemon.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { LANDLOCK_CREATE_RULESET = 444, RULESET_VERSION = 1 };

int sandbox_landlock_abi(void)
{
    const long abi = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

const char *sandbox_landlock_text(void)
{
    static char text[32];
    const int abi = sandbox_landlock_abi();
    snprintf(text, sizeof text, abi > 0 ? "landlock=%d" : "landlock=none", abi);
    return text;
}

void sandbox_skip_unless(bool needs_landlock)
{
    const char *const arguments[] = { "--sandbox", "--listen",     "127.0.0.1:1",
                                      "--models",  "/nonexistent", NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    const bool has_sanitizer = strstr(result.errors, "in a build with a sanitizer") != NULL;
    daemon_result_free(&result);
    if (has_sanitizer)
        print_message("skipped: the daemon has a sanitizer, and refuses --sandbox\n");
    else if (needs_landlock && sandbox_landlock_abi() == 0)
        print_message("skipped: this kernel has no Landlock\n");
    if (has_sanitizer || (needs_landlock && sandbox_landlock_abi() == 0))
        skip();
}
