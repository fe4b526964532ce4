/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_kinds.h - requests of all kinds that the daemon answers, for a check that it answers each
 * alike whatever else it does.
 *
 * A call has a request for each caller. They differ in the key, and in the ids of sessions, so that
 * callers do not meet in one. Calls that belong together, as those of a session, stand behind each
 * other. */
#ifndef BENCH_TRAFFIC_KINDS_H
#define BENCH_TRAFFIC_KINDS_H

#include "traffic_requests.h"

#include <stdbool.h>

enum { KIND_CALLERS = 32, KIND_KEYS = 3 };

struct kind_call {
    const char *path;
    bool goes_on; /* comes after the call before it, by the same caller */
    bool
        is_first; /* is sent once for each key, by the callers below KIND_KEYS, before all others */
    bool fails;   /* is answered with a fault */
    struct traffic_request requests[KIND_CALLERS];
};

struct kind_calls {
    struct kind_call *calls;
    int count;
};

void kinds_make(struct kind_calls *kinds);
void kinds_free(struct kind_calls *kinds);

/* How many calls from this one on belong together. */
int kinds_length(const struct kind_calls *kinds, int first);

/* Fills a directory with the models that they ask, and writes their keys to a file for --keys. */
void kinds_make_models(const char *directory);
void kinds_make_keys(const char *path);

/* Puts into a body that came to this caller what it would have if the first caller had asked. */
void kinds_name_first(char *body, size_t size, int caller);

#endif
