/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - requests that come from no connection: the same handlers, answers and faults, for a
 * program that asks itself.
 *
 * One thread opens requests, runs their handlers, takes their answers in the order in which they
 * come, and ends them. What a handler parks is answered by other threads. */
#ifndef ATTND_LOCAL_H
#define ATTND_LOCAL_H

#include "http/http.h"

struct local; /* the requests of one thread */

struct local_request {
    const char *method, *path;
    const char *id, *other_id; /* the second where the first is no X-Request-Id */
    const char *accept;        /* a constant; NULL: any */
    struct byte_slice body;    /* JSON; it is copied */
    void *owner;               /* the caller's */
};

struct local_answer {
    struct exchange *exchange;
    void *owner;
    int status;
    enum fault_code code; /* FAULT_NONE: none */
    const char *content_type, *request_id;
    const struct byte_slice *parts; /* until local_end() */
    int part_count;
};

/* context is for exchange_context(). NULL: no memory. */
struct local *local_create(void *context, size_t body_bytes_max, int metrics_index);

/* All requests have been ended. NULL is fine. */
void local_free(struct local *local);

/* Opens a request. The caller gives it to a handler, or, where the fault is set because the body is
 * too long or has no room, to exchange_fail(), and then calls local_handled(). NULL: no memory. */
struct exchange *local_open(struct local *local, const struct local_request *request,
                            struct fault *fault);
void local_handled(struct exchange *exchange);

/* The next answer; waits for one until deadline_ns, as clock_now_ns(). False: none came. */
bool local_next(struct local *local, int64_t deadline_ns, struct local_answer *answer);

/* Ends an answered request, and all that is its own. */
void local_end(const struct local_answer *answer);

#endif
