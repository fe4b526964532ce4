/* SPDX-License-Identifier: Apache-2.0 */
/* skip.h - the one way in which a test says that it is skipped because a package is missing. */
#ifndef SKIP_H
#define SKIP_H

/* Goes on if the shell command present succeeds; its output is dropped, and it runs once in a
 * process. Otherwise the running cmocka test ends here as skipped, and tests/run names the Debian
 * package at the end of the suite. Debian puts daemons into /usr/sbin, which is not on every PATH:
 * test for such a daemon by its path. */
void skip_without(const char *package, const char *present);

#endif
