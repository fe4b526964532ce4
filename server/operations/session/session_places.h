/* SPDX-License-Identifier: Apache-2.0 */
/* session_places.h - where the sessions of a store stand: in the order of their making, of their
 * ends, and of their last uses.
 *
 * Any client may make sessions until there are --sessions-max of them, and every call of one takes
 * the store's mutex. So nothing that a client may ask for looks at all sessions one by one: what
 * expires next and what was used longest ago is found in a number of steps like the logarithm of
 * their count, and a list passes over entries that lie side by side.
 *
 * Uses are noted without the mutex (session_touch()), so the heaps know an earlier one at worst.
 * What is first in a heap is looked at, and moved where it was used since. All is under the store's
 * mutex. */
#ifndef ATTND_SESSION_PLACES_H
#define ATTND_SESSION_PLACES_H

#include "base/heap.h"
#include "operations/session/session.h"

struct session_entry {
    struct session *session;              /* NULL: it was taken out */
    const struct access_account *account; /* the session's, or NULL */
};

/* Zeroed, it is empty. */
struct session_places {
    struct session_entry *entries; /* [end], in the order of their making */
    int64_t end, capacity;
    int64_t count;      /* of sessions */
    struct heap by_end; /* what expires next is first */
    struct heap by_use; /* of evictable ones: what was used longest ago is first */
};

void session_places_free(struct session_places *places); /* which are empty */

/* False: no memory, and nothing has changed. */
bool session_places_put(struct session_places *places, struct session *session);
void session_places_take_out(struct session_places *places, struct session *session);

/* The ttl of a session in its place, or whether it is evictable, has changed. */
void session_places_change(struct session_places *places, struct session *session);

/* The session that expires first, if its last use is its ttl ago or longer, whoever holds it; NULL:
 * none has expired. */
struct session *session_places_expired(struct session_places *places, int64_t now_ns);

/* The evictable session that was used longest ago, whoever holds it; NULL: none is evictable. */
struct session *session_places_unused(struct session_places *places);

/* Leaves a session out of what the two above find, and lets it in again. */
void session_places_pass(struct session_places *places, struct session *session);
void session_places_let_in(struct session_places *places, struct session *session);

/* The first session from entry number *next on that the account has made, or for which everybody's
 * are meant; *next is then behind it. NULL: there are no more. */
struct session *session_places_next(const struct session_places *places, bool everybodys,
                                    const struct access_account *account, int64_t *next);

/* Puts the entries in the order of their making, where they came in another. */
void session_places_sort(struct session_places *places);

#endif
