/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_state.h - what of --sandbox this machine and this build of the daemon have. */
#ifndef SANDBOX_STATE_H
#define SANDBOX_STATE_H

#include <stdbool.h>

/* The version of this kernel's Landlock; 0: it has none. */
int sandbox_landlock_abi(void);

/* What the daemon logs of it: "landlock=7", "landlock=none". */
const char *sandbox_landlock_text(void);

/* Ends the running cmocka test as skipped, with the reason in the output, where the daemon has a
 * sanitizer, or where the test needs Landlock and this kernel has none. */
void sandbox_skip_unless(bool needs_landlock);

#endif
