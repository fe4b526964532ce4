/* SPDX-License-Identifier: Apache-2.0 */
/* browser.h - a real browser under a test: Chromium without a window, driven by chromedriver over
 * WebDriver.
 *
 * Each browser has a profile of its own and begins as on a first visit. Scripts are bodies of
 * functions in the page; a promise that one returns is waited for. Every command that fails ends
 * the test with the driver's words. A test begins with browser_skip_without(). */
#ifndef BROWSER_H
#define BROWSER_H

#include "http_client.h"

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <sys/types.h>

struct browser {
    pid_t driver;              /* 0: it does not run */
    int log;                   /* descriptor of what the driver wrote */
    struct http_client client; /* of the driver */
    char session[80];
    char *directory; /* the profile, and under downloads/ what pages save */
};

/* Where Chromium or its driver is missing, the running test ends here as skipped. */
void browser_skip_without(void);

/* Starts a browser. It ends with this process, however that ends. */
void browser_open(struct browser *browser);

/* Does nothing if it does not run. */
void browser_close(struct browser *browser);

/* Loads an address and waits until its load event. */
void browser_go(struct browser *browser, const char *address, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs a script. */
void browser_do(struct browser *browser, const char *script, ...)
    __attribute__((format(printf, 2, 3)));

/* The same; the caller frees what it returns with cJSON_Delete(). */
cJSON *browser_run(struct browser *browser, const char *script, ...)
    __attribute__((format(printf, 2, 3)));

/* The value of an expression. It must have this type; the text is the caller's to free. */
double browser_number(struct browser *browser, const char *expression, ...)
    __attribute__((format(printf, 2, 3)));
char *browser_text(struct browser *browser, const char *expression, ...)
    __attribute__((format(printf, 2, 3)));
bool browser_is(struct browser *browser, const char *condition, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits until the condition holds. Fails the test if that takes more than 30 s (scaled), and
 * leaves a screenshot in build/page/. */
void browser_wait(struct browser *browser, const char *condition, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails the test unless the condition holds. */
void browser_expect(struct browser *browser, const char *condition, ...)
    __attribute__((format(printf, 2, 3)));

/* A command of the Chrome DevTools Protocol; parameters are JSON. */
void browser_command(struct browser *browser, const char *command, const char *parameters);

/* The size of the page in CSS pixels, on a screen of one pixel each; smaller than a window of
 * Chromium can be. */
void browser_resize(struct browser *browser, int width, int height);

/* What the system prefers: "prefers-color-scheme" and "dark". */
void browser_prefer(struct browser *browser, const char *feature, const char *value);

/* What is seen as a PNG in base64; the caller frees it. */
char *browser_picture(struct browser *browser);

/* How many pixels of two pictures differ by more than tolerance, of 255, in a colour. The page that
 * is open does the work, and must allow pictures from data:. */
int browser_differing_pixels(struct browser *browser, const char *one, const char *other,
                             int tolerance);

/* Writes such a text as a file, and what is seen. Makes the folder that the path is in. */
void browser_write_picture(const char *picture, const char *path);
void browser_save_picture(struct browser *browser, const char *path);

/* One more tab, which the next commands are for, and back to the first. */
void browser_open_tab(struct browser *browser);
void browser_close_tab(struct browser *browser);

/* What pages save goes to downloads/; of browser_open(). */
void browser_keep_downloads(struct browser *browser);

/* Waits for a whole file in downloads/ whose name ends so; returns its path, the caller's. */
char *browser_download(struct browser *browser, const char *end);

/* One call of WebDriver, "/url"; body NULL is GET. It takes the body. Returns the value of the
 * answer, which the caller frees. For browser_*.c. */
cJSON *browser_call(struct browser *browser, const char *path, cJSON *body);

#endif
