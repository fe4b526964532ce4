/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far calls in flight have come: those to which their client gave an X-Request-Id,
 * by which it may ask (GET /v1/requests/{id}). Thread-safe.
 *
 * A call has a place from its admission until its answer is made. There are PROGRESS_MAX places; a
 * call beyond them has none, and computes all the same. A place is for the account that made the
 * call, and for keys with the scope admin; other keys get 404, as if it did not exist. */
#ifndef ATTND_PROGRESS_H
#define ATTND_PROGRESS_H

#include "access/access_key.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_MAX = 1024, PROGRESS_ID_MAX = 128 };

struct progress_store;
struct progress; /* a place */

/* What is known of a call. */
struct progress_seen {
    bool queued;        /* no worker has begun it */
    int64_t layers, of; /* attention layers that are computed, of so many; 0 of 0 before it is
                           planned, and where the call has no passes */
};

struct progress_store *progress_store_create(void); /* NULL: no memory */
void progress_store_free(struct progress_store *store);

/* A place for a call of this id, at most PROGRESS_ID_MAX bytes, and of this key, which is held as
 * long as the place is; NULL: none is free. */
struct progress *progress_begin(struct progress_store *store, const char *id,
                                const struct access_key *key);
void progress_end(struct progress_store *store, struct progress *place); /* NULL is fine */

/* By a thread of the call; a place of NULL is fine. */
void progress_start(struct progress *place);
void progress_set(struct progress *place, int64_t layers, int64_t of);

/* What is known of the latest call of this id; false, with the fault: there is none in flight for
 * this key. */
bool progress_find(struct progress_store *store, const char *id, const struct access_key *key,
                   struct progress_seen *seen, struct fault *fault);

#endif
