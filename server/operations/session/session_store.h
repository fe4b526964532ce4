/* SPDX-License-Identifier: Apache-2.0 */
/* session_store.h - the sessions of a daemon, by the name of a key and their ids. Thread-safe.
 *
 * A session is for the name that made it; other keys get 404, as if it did not exist, unless they
 * have the scope sessions:all. The store knows the last SESSION_ENDED_MAX ids that ended, and
 * why: those are gone (410), all others are not found (404). Of sessions that have moved to another
 * daemon it knows the last SESSION_MOVED_MAX, or as many as there may be. Sessions end by their
 * time from the last use on, by their owner, and, where they were made evictable, least recently
 * used first when memory is short; by nothing else. */
#ifndef ATTND_SESSION_STORE_H
#define ATTND_SESSION_STORE_H

#include "access/access_key.h"
#include "operations/session/session.h"

enum { SESSION_ENDED_MAX = 8192, SESSION_MOVED_MAX = 131072 };

/* Of a session's file on disk (host/file_save.h), and of its directory in faults. */
enum { SESSION_FILE_MODE = 0600 };
#define SESSION_FILE_WORDS "sessions' directory"

struct session_store;

/* For at most count_max sessions. The ids that it makes begin with "REPLICA.", where replica is not
 * NULL; it stays the caller's. NULL: no memory. */
struct session_store *session_store_create(size_t bytes_max, int64_t count_max,
                                           const char *replica);
void session_store_free(struct session_store *store); /* NULL is fine */

struct session_budget *session_store_budget(struct session_store *store);

/* Takes over the caller's reference of a session and gives it to the key, under the id that it
 * wants, or where wanted is NULL under one that nobody can guess. Where sessions are as many as
 * there may be, or memory is short, evictable ones make room. False, with the fault: the id is
 * taken (conflict), the key has as many sessions as it may (quota), there is no room (full), or no
 * memory; the reference is then gone. */
bool session_store_add(struct session_store *store, struct session *session, const char *wanted,
                       const struct access_key *key, struct fault *fault);

/* The same in place of the owner's session of that id, which waits until the new one is kept or put
 * back. On false all is as it was. */
bool session_store_replace(struct session_store *store, struct session *session, const char *wanted,
                           const struct access_key *key, struct fault *fault);

/* The session that took a place stays: ends those that it replaced. Or it ends itself, and the one
 * that it replaced has the place again. Where another one has taken its place meanwhile, that one
 * has it. The caller holds the session. */
void session_store_keep(struct session_store *store, struct session *session);
void session_store_put_back(struct session_store *store, struct session *session);

/* A session file of that owner ("": none) that could not be loaded at start: it is removed when a
 * session of that id is made, or ends, so that nothing reappears that its owner has ended. False:
 * no memory. */
bool session_store_add_unloaded(struct session_store *store, const char *id, const char *owner,
                                const char *path);

/* Before the session changes or ends: removes the file that it was loaded from, if it has one.
 * False, with the fault: the file cannot be removed, and the next start would load the session as
 * it was. */
bool session_store_remove_file(struct session *session, struct fault *fault);

/* Whether it would take one more of that id; false with the fault that it would have. */
bool session_store_takes(struct session_store *store, const char *wanted,
                         const struct access_key *key, struct fault *fault);

/* Finds a session for a key, held for the caller: that of the owner, or where owner is NULL the
 * key's own; for a key with the scope sessions:all, which has and had none of that id, that of the
 * only name that has or had one. NULL, with the fault: not_found, gone with the reason, or conflict
 * with the names where there are several. */
struct session *session_store_look(struct session_store *store, const char *id, const char *owner,
                                   const struct access_key *key, struct fault *fault);

/* The same, and counts as a use of it. */
struct session *session_store_find(struct session_store *store, const char *id, const char *owner,
                                   const struct access_key *key, struct fault *fault);

/* The same for a call of its model, which the key must be allowed to infer with; else scope. */
struct session *session_store_find_to_call(struct session_store *store, const char *id,
                                           const char *owner, const struct access_key *key,
                                           struct fault *fault);

/* Whether a session that was found is still there; else the fault is gone, with the reason. */
bool session_store_check(const struct session *session, struct fault *fault);

/* Ends a session that was found, for its owner. False, with the fault gone: it has ended. */
bool session_store_delete(struct session_store *store, struct session *session,
                          struct fault *fault);

/* The session is elsewhere now: calls of it, also those that wait for their turn, are told the
 * place (moved), which stays until the daemon ends. For who has its turn. False, with the fault:
 * its file cannot be removed, or no memory, and it stays; or gone: it has ended. */
bool session_store_move(struct session_store *store, struct session *session,
                        const struct fault_place *place, struct fault *fault);

/* Whether the owner's session of that id was made of a file with this digest, which is without
 * ages; then it is held for the caller. NULL: there is none, or it was not. */
struct session *session_store_made_of(struct session_store *store, const char *id,
                                      const char *owner, const char *digest);

/* Ends evictable sessions that no call holds where so many bytes have no room, the least recently
 * used first, and none whose end would not help. False, and none ends: all of
 * them together would not make room. */
bool session_store_evict(struct session_store *store, size_t bytes_wanted);

/* Whether so many bytes fit into the budget, perhaps because evictable sessions made room. */
bool session_store_make_room(struct session_store *store, size_t bytes, struct fault *fault);

/* session_rows_begin() in the budget of the store; where memory is short, sessions that were made
 * evictable make room. */
bool session_store_begin_rows(struct session_store *store, struct session_rows *rows, int64_t count,
                              struct fault *fault);

/* The same of session_rows_add_groups(). */
bool session_store_add_groups(struct session_store *store, struct session_rows *rows,
                              const int64_t *lengths, int64_t count, struct fault *fault);

/* Gives the sessions that the key may see, in the order of their making, at most count of them
 * behind the first `after`, held for the caller. Returns how many these are; *total is how many the
 * key may see. */
int64_t session_store_list(struct session_store *store, const struct access_key *key, int64_t after,
                           struct session **held, int64_t count, int64_t *total);

/* Changes settings of a session that the caller holds. */
void session_store_set(struct session_store *store, struct session *session, int64_t ttl_ns,
                       bool is_evictable);

/* Puts the sessions in the order of their making, where a start has made them in another. */
void session_store_sort(struct session_store *store);

/* Call it now and then: ends what has expired. */
void session_store_sweep(struct session_store *store, int64_t now_ns);

#endif
