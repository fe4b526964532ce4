/* SPDX-License-Identifier: Apache-2.0 */
/* no_memory.h - a daemon whose allocations fail, one after the other.
 *
 * The daemon runs with failing_malloc.so. A scenario is one request. It is sent again and again:
 * first the 1st allocation from its beginning fails, then the 2nd, the 3rd and so on, until the
 * request needs fewer allocations than that. Each time the daemon must answer with the usual answer
 * or with 503 memory. (If libmicrohttpd itself got no memory, it may close the connection.) The
 * same request must be answered well right after. */
#ifndef NO_MEMORY_H
#define NO_MEMORY_H

#include "failing_malloc.h"
#include "fixture.h"
#include "http_client.h"

#include <stdint.h>

enum { ALLOCATIONS_MAX = 2000 };

extern struct failing_malloc *control;

/* For a further program that is to run with failing_malloc.so. */
const char *const *no_memory_environment(void);

/* From now on allocation n and the times - 1 behind it fail; 0: none. */
void fail_from(uint64_t n, uint64_t times);

/* Over a connection of its own. */
struct http_response send_once(const struct http_request *request);
void expect_well(const struct http_request *request, long status);

/* One round. Returns true if an allocation failed in it. *answered: its status; 0: the connection
 * was closed; NO_MEMORY_UNSENT: a 503 in place of an answer that could not be sent, whatever it
 * was. */
enum { NO_MEMORY_UNSENT = -503 };
bool round_of(const struct http_request *request, long status, uint64_t n, uint64_t times,
              long *answered);

void go_through(const struct http_request *request, long status, uint64_t times);

/* Group fixtures of cmocka: the server of fixture.h, with a directory of models. */
int no_memory_start(void **state);
int no_memory_clear(void **state);

#endif
