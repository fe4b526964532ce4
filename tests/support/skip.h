/* skip.h - the one way in which a test says that it is left out for want of a package. */
#ifndef SKIP_H
#define SKIP_H

/* Goes on where the shell command present succeeds; its output is dropped. Otherwise the running
 * cmocka test ends here as skipped, and tests/run names Debian's package at the end of the suite.
 * A daemon of Debian's lies in /usr/sbin, which is not on everybody's PATH: ask for its path. */
void skip_without(const char *package, const char *present);

#endif
