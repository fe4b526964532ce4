/* SPDX-License-Identifier: Apache-2.0 */
/* shell.h - scripts of the shell in tests, and the library that belongs to the test's build. */
#ifndef SHELL_H
#define SHELL_H

/* What a script writes to its output, until the next call. The script must exit with 0. */
const char *shell(const char *script);

/* Makes a folder from a template of mkdtemp(), for scripts that start the daemon: D is its path,
 * and ATTND the daemon's, without the runner's variables that name no flag of it. */
void shell_folder(char *folder);
int shell_folder_remove(void **state); /* removes D; a teardown of cmocka */

/* The path of libattn.so.1 in the folder of the build that this program is in. Fails the test if it
 * is not there. */
const char *shell_library(void);

/* The same of any file of that folder, until the next call. */
const char *shell_built(const char *file);

#endif
