/* SPDX-License-Identifier: Apache-2.0 */
/* kept_store.h - the kept traces of a daemon, by their ids, within their own budget of memory
 * (--trace-memory-max). Thread-safe.
 *
 * A kept trace is for the account that made it, and for keys with the scope admin; other keys get
 * 404, as if it did not exist. When it has expired, or its maker has deleted it, its id gets 410;
 * the store knows the last KEPT_ENDED_MAX ids that ended. */
#ifndef ATTND_KEPT_STORE_H
#define ATTND_KEPT_STORE_H

#include "access/access_key.h"
#include "operations/trace/kept_trace.h"

enum { KEPT_ENDED_MAX = 4096 };

struct kept_store;

struct kept_store *kept_store_create(size_t bytes_max); /* NULL: no memory */
void kept_store_free(struct kept_store *store);         /* NULL is fine */

/* Reserves bytes for a coming trace of the key; else the fault says how much is kept, what
 * the budget is, and whose. key NULL: no keys are in use. account is that of the key, or NULL. */
bool kept_store_reserve(struct kept_store *store, size_t bytes, const struct access_key *key,
                        struct fault *fault);
void kept_store_return(struct kept_store *store, size_t bytes, struct access_account *account);

/* Gives kept, whose account is set, an id, which is copied to id, and takes over the caller's
 * reference and the reserved kept->bytes. From now on it lives for keep_ns. False, with a fault: no
 * memory, and the caller's reference and reservation are released. */
bool kept_store_publish(struct kept_store *store, struct kept_trace *kept, int64_t keep_ns,
                        char id[TRACE_ID_MAX + 1], struct fault *fault);

/* Finds a trace for a key, held for the caller. NULL, with the fault: it is not there for this key,
 * or it has ended. */
struct kept_trace *kept_store_find(struct kept_store *store, const char *id,
                                   const struct access_key *key, struct fault *fault);

/* From now on a trace that was found lives for keep_ns, unless it has ended meanwhile. */
void kept_store_renew(struct kept_store *store, struct kept_trace *kept, int64_t keep_ns);

/* Ends a trace before its time. The same faults. */
bool kept_store_delete(struct kept_store *store, const char *id, const struct access_key *key,
                       struct fault *fault);

/* Calls visit for each trace that the key may see, in no order, at most count of them behind the
 * first `after`, under the mutex of the store. Returns how many the key may see. */
int64_t kept_store_list(struct kept_store *store, const struct access_key *key, int64_t after,
                        int64_t count, void (*visit)(void *context, const struct kept_trace *kept),
                        void *context);

/* Ends a trace whatever key made it; nothing where it has ended. */
void kept_store_end(struct kept_store *store, const char *id);

/* Call it now and then: frees what has ended. */
void kept_store_sweep(struct kept_store *store, int64_t now_ns);

#endif
