/* session_store_internal.h - what the files of the store share: session_store.c, session_find.c,
 * session_replace.c, session_evict.c. All but the bytes of the budget is under the mutex. */
#ifndef ATTND_SESSION_STORE_INTERNAL_H
#define ATTND_SESSION_STORE_INTERNAL_H

#include "session/session_ended.h"
#include "session/session_store.h"

#include <pthread.h>

struct session_aside;

struct session_store {
    pthread_mutex_t mutex;               /* guards all that follows but the budget's bytes */
    void *by_id;                         /* tsearch(3): by id, then by the owner's name */
    LIST_OF(struct session) all;         /* in the order of their making */
    LIST_OF(struct session_aside) aside; /* session_aside.c */
    struct session_ended ended;
    struct session_budget budget;
    int64_t count, count_max;  /* of all */
    int64_t no_spare_until_ns; /* none of them made room for another when it was last asked */
    const char *replica;       /* or NULL */
};

/* The name that a session or a key has; "": no keys are in use. */
const char *session_owner(const struct session *session);
const char *session_owner_of_key(const struct access_key *key);

/* -------------------------------------------------------------- under the mutex -- */

/* The session of that owner in its place; NULL: there is none. */
struct session *session_store_at(struct session_store *store, const char *id, const char *owner);

/* The last use of it is longer ago than its ttl, and nobody holds it. */
bool session_is_expired(const struct session *session, int64_t now_ns);

/* Gives a session its place. False, with the fault: the id is taken, or no memory. */
bool session_store_put(struct session_store *store, struct session *session, struct fault *fault);

/* The same, where the key may have one more (else quota), and the store (else full). *ended is a
 * session that was taken out for it, or NULL. */
bool session_store_put_new(struct session_store *store, struct session *session,
                           const struct access_key *key, int64_t now_ns, struct session **ended,
                           struct fault *fault);

/* Takes a session from its place; or also remembers that it has ended, and why. The reference of
 * the store is then the caller's, who releases it without the mutex. */
void session_store_take_from_place(struct session_store *store, struct session *session);
void session_store_take_out(struct session_store *store, struct session *session,
                            enum session_end why);

/* Takes out the session in that place where its time has come; else NULL. */
struct session *session_store_take_expired(struct session_store *store, const char *id,
                                           const char *owner, int64_t now_ns);

/* One that would make room for another: whose time has come, or else the least recently used of
 * those that are evictable and that nobody holds. *why is what it ends by. NULL: there is none. */
struct session *session_store_spare(const struct session_store *store, int64_t now_ns,
                                    enum session_end *why);

/* ------------------------------------------------------------- without the mutex -- */

/* session_count_own() in the budget of the store; where memory is short, sessions that were made
 * evictable make room. */
bool session_store_count_own(struct session_store *store, struct session *session,
                             struct fault *fault);

/* Releases sessions that were taken out, a list by in_store, with the files that they had. */
void session_store_let_go(struct session_store *store, struct session *first);

/* Removes the files that were set aside of the id and the owner of a session. */
void session_store_drop_aside(struct session_store *store, const struct session *session);
void session_store_free_aside(struct session_store *store);

#endif
