/* explorer.h - the explorer of the daemon under test, open in a browser: what most programs in
 * tests/page begin and end with. The daemon is that of fixture.h. In the page, window.seen tells
 * what it does (tests/page/watch.js). */
#ifndef EXPLORER_H
#define EXPLORER_H

#include "browser.h"

/* A sentence of 8 tokens of stories260K, as a member of the address. */
#define EXPLORER_TEXT "model=stories260K&text=Once+upon+a+time+there+was"

extern struct browser browser;

/* How every test begins: skipped where there is no Chromium. Starts what does not run: the daemon
 * on examples/models, unless the test has started another, and the browser. */
void explorer_begin(void);

/* Ends both; for cmocka's groups. */
int explorer_stop(void **state);

/* "http://127.0.0.1:PORT" of the daemon. */
const char *explorer_origin(void);

/* Loads the page anew with this fragment of its address, "" or "model=...&text=...", and waits
 * until it is settled. */
void explorer_open(const char *fragment, ...) __attribute__((format(printf, 1, 2)));

/* Waits until nothing is asked of the daemon, drawn or changed for a sixth of a second. */
void explorer_settle(void);

/* The console is clean but for these, and nothing was asked of another host; see browser_log.h. */
void explorer_expect_quiet(const char *const *expected);

#endif
