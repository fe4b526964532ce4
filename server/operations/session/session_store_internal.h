/* SPDX-License-Identifier: Apache-2.0 */
/* session_store_internal.h - what the two files of the store share: how sessions end
 * (session_end.c), on which session_store.c builds. All but the bytes of the budget is under the
 * mutex. */
#ifndef ATTND_SESSION_STORE_INTERNAL_H
#define ATTND_SESSION_STORE_INTERNAL_H

#include "operations/session/session_places.h"
#include "operations/session/session_store.h"

#include <pthread.h>

struct session_unloaded;

/* Why a session is not there any more. */
struct session_ending {
    enum session_end why;            /* SESSION_LIVES: it is not known */
    const struct fault_place *place; /* of SESSION_MOVED */
};

/* The last sessions that ended, and why. Zeroed: none. */
struct session_ended {
    struct session_ended_entry {
        char id[SESSION_NAME_MAX + 1];
        char account[ACCESS_NAME_MAX + 1]; /* "": no keys were in use */
        struct session_ending ending;
    } * all;          /* [capacity] */
    uint32_t *hashes; /* [capacity], of their ids: a search reads these alone */
    int64_t capacity;
    int64_t count; /* ever */
};

struct session_store {
    pthread_mutex_t mutex;                     /* guards all that follows but the budget's bytes */
    void *by_id;                               /* tsearch(3): by id, then by the owner's name */
    struct session_places places;              /* of all */
    LIST_OF(struct session_unloaded) unloaded; /* session files that could not be loaded */
    struct session_ended ended; /* by their time, their owner, or for lack of memory */
    struct session_ended moved; /* elsewhere; one that is here again is in it no more */
    struct session_budget budget;
    int64_t count_max;
    const char *replica; /* or NULL */
};

/* The name that a session or a key has; "": no keys are in use. */
const char *session_owner(const struct session *session);
const char *session_owner_of_key(const struct access_key *key);

/* By id, then by the owner's name: the order of by_id. */
int session_store_compare(const void *a, const void *b);

/* Sets the fault gone, with the reason; false. */
bool session_ended_fault(const char *id, const struct session_ending *ending, struct fault *fault);

/* -------------------------------------------------------------- under the mutex -- */

/* Room for so many; false: no memory. */
bool session_ended_init(struct session_ended *ended, int64_t capacity);
void session_ended_free(struct session_ended *ended); /* a zeroed struct is fine */

/* Why the last session of that id and name of a key ended. */
struct session_ending session_ended_why(const struct session_store *store, const char *id,
                                        const char *account);

/* The session is here again. */
void session_ended_forget_moved(struct session_store *store, const struct session *session);

/* The name of a key that had a session of that id, from the place *next on, which it moves on; from
 * 0 on, all of them, perhaps twice. NULL: no more. */
const char *session_ended_next(const struct session_ended *ended, const char *id, int64_t *next);

/* The session of that owner in its place; NULL: there is none. */
struct session *session_store_at(struct session_store *store, const char *id, const char *owner);

/* The last use of it is longer ago than its ttl, and nobody holds it. */
bool session_is_expired(const struct session *session, int64_t now_ns);

/* Takes a session from its place; or also remembers that it has ended, and why. The reference of
 * the store is then the caller's, who releases it without the mutex. */
void session_store_take_from_place(struct session_store *store, struct session *session);
void session_store_take_out(struct session_store *store, struct session *session,
                            enum session_end why);

/* Takes out the session in that place if it has expired; else NULL. */
struct session *session_store_take_expired(struct session_store *store, const char *id,
                                           const char *owner, int64_t now_ns);

/* The least recently used of those that are evictable and that nobody holds; NULL: there is none.
 */
struct session *session_store_spare(struct session_store *store);

/* ------------------------------------------------------------- without the mutex -- */

/* session_count_own() in the budget of the store; where memory is short, sessions that were made
 * evictable make room. */
bool session_store_count_own(struct session_store *store, struct session *session,
                             struct fault *fault);

/* Releases sessions that were taken out, joined by next, with the files that they had. */
void session_store_let_go(struct session_store *store, struct session *first);

/* Removes the files of the id and the owner of a session that could not be loaded. */
void session_store_drop_unloaded(struct session_store *store, const struct session *session);
void session_store_free_unloaded(struct session_store *store);

#endif
