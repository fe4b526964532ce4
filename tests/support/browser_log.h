/* SPDX-License-Identifier: Apache-2.0 */
/* browser_log.h - what a browser says about its pages: the console, with the violations of a
 * content security policy, and every request that left it. */
#ifndef BROWSER_LOG_H
#define BROWSER_LOG_H

#include "browser.h"

/* What came since the last call and must not be; NULL: nothing. That is a warning or an error in
 * the console that holds none of the texts of expected (ended by NULL; NULL is none), or a request
 * to another host than that of origin, "http://127.0.0.1:8080". The caller frees the text. */
char *browser_complaint(struct browser *browser, const char *origin, const char *const *expected);

/* Fails the test if there is one. */
void browser_expect_quiet(struct browser *browser, const char *origin, const char *const *expected);

/* The addresses of the requests since the last call of either, one a line, each behind the
 * method: "POST http://127.0.0.1:8080/v1/trace\n". The caller frees the text. */
char *browser_requests(struct browser *browser);

#endif
