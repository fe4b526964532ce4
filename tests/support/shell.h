/* shell.h - scripts of the shell in tests, and the library that belongs to the test's build. */
#ifndef SHELL_H
#define SHELL_H

/* What a script writes to its output, until the next call. The script must exit with 0. */
const char *shell(const char *script);

/* The path of libattn.so.1 in the folder of the build that this program is in. Fails the test if it
 * is not there. */
const char *shell_library(void);

/* The same of any file of that folder, until the next call. */
const char *shell_built(const char *file);

#endif
