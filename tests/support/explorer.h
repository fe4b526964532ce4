/* SPDX-License-Identifier: Apache-2.0 */
/* explorer.h - the explorer of the daemon under test, open in a browser: what most programs in
 * tests/page begin and end with. The daemon is that of fixture.h. In the page, window.seen tells
 * what it does (tests/page/watch.js). */
#ifndef EXPLORER_H
#define EXPLORER_H

#include "browser.h"

/* A sentence of 8 tokens of stories260K, as a member of the address. */
#define EXPLORER_TEXT "model=stories260K&text=Once+upon+a+time+there+was"

/* Whether a canvas of the view has more than one colour. It is read from a copy: Chromium warns
 * where the page's own canvas is read often. */
#define EXPLORER_HAS_PICTURE                                                                       \
    "[...document.querySelectorAll('main canvas')].some((canvas) => { if (canvas.width < 2)"       \
    "  return false; const copy = new OffscreenCanvas(canvas.width, canvas.height)"                \
    "  .getContext('2d', {willReadFrequently: true}); copy.drawImage(canvas, 0, 0); return new"    \
    "  Set(new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer))"     \
    "  .size > 1; })"

extern struct browser browser;

/* The views, each with a state in which it shows much. */
struct explorer_view {
    const char *name, *fragment;
};
enum { EXPLORER_VIEWS = 6 };
extern const struct explorer_view explorer_views[EXPLORER_VIEWS];

/* How every test begins: skipped where there is no Chromium. Starts what does not run: the daemon
 * on examples/models, unless the test has started another, and the browser. */
void explorer_begin(void);

/* Leaves the page and stops its daemon, for a test that starts another. What the page asked of the
 * first one until then is forgotten, so explorer_expect_quiet() does not take it for a request to a
 * foreign host. */
void explorer_change_daemon(void);

/* Ends both; for cmocka's groups. */
int explorer_stop(void **state);

/* "http://127.0.0.1:PORT" of the daemon. */
const char *explorer_origin(void);

/* Loads the page anew with this fragment of its address, "" or "model=...&text=...", and waits
 * until it is settled. */
void explorer_open(const char *fragment, ...) __attribute__((format(printf, 1, 2)));

/* Waits until no part of the page is busy, and nothing was asked of the daemon, drawn or changed
 * for a sixth of a second. */
void explorer_settle(void);

/* Takes the focus from all elements and the mouse out of the way. */
void explorer_leave(void);

/* What is seen then, without the line that says how long something took, as browser_picture(). */
char *explorer_picture(void);

/* Fails the test unless two pictures show the same; both are left in build/page/. Chromium smooths
 * some edges otherwise from time to time, by 8 of 255 at most. */
void explorer_expect_same(const char *one, const char *other, const char *what);

/* The console is clean but for these, and nothing was asked of another host; see browser_log.h. */
void explorer_expect_quiet(const char *const *expected);

#endif
