/* session_store.c - see session_store.h. */
#include "session/session_store_internal.h"

#include "base/clock.h"
#include "base/random_id.h"
#include "session/session_saved.h"
#include "text/text.h"
#include "watch/metrics.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session_store *session_store_create(size_t bytes_max, int64_t count_max, const char *replica)
{
    struct session_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    pthread_mutex_init(&store->mutex, NULL);
    store->budget.bytes_max = bytes_max;
    store->count_max = count_max;
    store->replica = replica;
    return store;
}

struct session_budget *session_store_budget(struct session_store *store)
{
    return &store->budget;
}

/* ---------------------------------------------------------------- under the mutex -- */

const char *session_owner(const struct session *session)
{
    return session->account ? session->account->name : "";
}

const char *session_owner_of_key(const struct access_key *key)
{
    return key ? key->account->name : "";
}

static int compare(const void *a, const void *b)
{
    const struct session *one = a, *other = b;
    const int ids = strcmp(one->id, other->id);
    return ids != 0 ? ids : strcmp(session_owner(one), session_owner(other));
}

struct session *session_store_at(struct session_store *store, const char *id, const char *owner)
{
    struct access_account account = { .name = "" };
    struct session wanted = { .account = owner[0] ? &account : NULL };
    if (strlen(id) > SESSION_NAME_MAX || strlen(owner) > ACCESS_NAME_MAX)
        return NULL;
    text_copy(wanted.id, sizeof wanted.id, id);
    text_copy(account.name, sizeof account.name, owner);
    void *node = tfind(&wanted, &store->by_id, compare);
    return node ? *(struct session **)node : NULL;
}

bool session_is_expired(const struct session *session, int64_t now_ns)
{
    return now_ns - atomic_load(&session->used_ns) >= session->ttl_ns
           && atomic_load(&session->holders) == 1;
}

void session_store_take_from_place(struct session_store *store, struct session *session)
{
    tdelete(session, &store->by_id, compare);
    LIST_TAKE_OUT(&store->all, session, in_store);
    store->count--;
    if (session->account)
        session->account->sessions--;
    metrics_gauge_add(METRICS_SESSIONS, -1);
}

void session_store_take_out(struct session_store *store, struct session *session,
                            enum session_end why)
{
    session_ended_add(&store->ended, session, why);
    atomic_store(&session->end, (int)why);
    session_store_take_from_place(store, session);
}

/* Whether the key may have one more. */
static bool key_has_place(const struct session_store *store, const struct access_key *key,
                          int64_t now_ns, struct fault *fault)
{
    int64_t count = 0;
    if (!key || key->limits.sessions == 0 || key->account->sessions < key->limits.sessions)
        return true;
    for (const struct session *s = store->all.first; s; s = s->in_store.next)
        count += strcmp(session_owner(s), session_owner_of_key(key)) == 0
                 && !session_is_expired(s, now_ns);
    return count < key->limits.sessions
           || fault_set(fault, FAULT_QUOTA,
                        "'%s' has %lld sessions, as many as it may; delete one, or wait until one "
                        "ends",
                        session_owner_of_key(key), (long long)count);
}

/* Whether the store may have one more: else *spare is the session that makes room, or NULL, with
 * the fault. All sessions are looked at for it, so a refusal holds for a while. */
static bool has_place(struct session_store *store, int64_t now_ns, struct session **spare,
                      enum session_end *why, struct fault *fault)
{
    enum { LOOK_AGAIN_NS = 100000000 };
    *spare = NULL;
    if (store->count < store->count_max)
        return true;
    if (now_ns >= store->no_spare_until_ns)
        *spare = session_store_spare(store, now_ns, why);
    if (*spare)
        return true;
    if (now_ns >= store->no_spare_until_ns)
        store->no_spare_until_ns = now_ns + LOOK_AGAIN_NS;
    return fault_set(fault, FAULT_FULL,
                     "there are %lld sessions, as many as there may be (--sessions-max); delete "
                     "one, or wait until one ends",
                     (long long)store->count);
}

static bool is_taken(const char *id, struct fault *fault)
{
    return fault_set_at(fault, "/id", FAULT_CONFLICT,
                        "there is a session '%.64s' already; delete it, or take another id", id);
}

bool session_store_put(struct session_store *store, struct session *session, struct fault *fault)
{
    struct session **node = tsearch(session, &store->by_id, compare);
    if (!node)
        return fault_no_memory(fault);
    if (*node != session)
        return is_taken(session->id, fault);
    LIST_APPEND(&store->all, session, in_store);
    store->count++;
    store->no_spare_until_ns = INT64_MIN; /* it may be evictable */
    if (session->account)
        session->account->sessions++;
    metrics_gauge_add(METRICS_SESSIONS, 1);
    return true;
}

bool session_store_put_new(struct session_store *store, struct session *session,
                           const struct access_key *key, int64_t now_ns, struct session **ended,
                           struct fault *fault)
{
    enum session_end why;
    *ended = NULL;
    if (session_store_at(store, session->id, session_owner(session)))
        return is_taken(session->id, fault);
    if (!key_has_place(store, key, now_ns, fault) || !has_place(store, now_ns, ended, &why, fault))
        return false;
    if (*ended)
        session_store_take_out(store, *ended, why);
    return session_store_put(store, session, fault);
}

struct session *session_store_take_expired(struct session_store *store, const char *id,
                                           const char *owner, int64_t now_ns)
{
    struct session *session = session_store_at(store, id, owner);
    if (!session || !session_is_expired(session, now_ns))
        return NULL;
    session_store_take_out(store, session, SESSION_EXPIRED);
    return session;
}

/* --------------------------------------------------------------------- the face -- */

static void lock(struct session_store *store)
{
    pthread_mutex_lock(&store->mutex);
}

static void unlock(struct session_store *store)
{
    pthread_mutex_unlock(&store->mutex);
}

void session_store_let_go(struct session_store *store, struct session *first)
{
    for (struct session *next; first; first = next) {
        next = first->in_store.next;
        session_saved_drop(first);
        session_store_drop_aside(store, first);
        session_release(first);
    }
}

/* Ends what has expired; a session whose time has come is not found, however seldom this runs. */
void session_store_sweep(struct session_store *store, int64_t now_ns)
{
    LIST_OF(struct session) expired = { NULL };
    lock(store);
    for (struct session *session = store->all.first, *next; session; session = next) {
        next = session->in_store.next;
        if (!session_is_expired(session, now_ns))
            continue;
        session_store_take_out(store, session, SESSION_EXPIRED);
        LIST_APPEND(&expired, session, in_store);
    }
    unlock(store);
    session_store_let_go(store, expired.first);
}

void session_store_free(struct session_store *store)
{
    if (!store)
        return;
    while (store->all.first) {
        struct session *session = store->all.first;
        session_store_take_out(store, session, SESSION_DELETED);
        session_release(session);
    }
    session_store_free_aside(store);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

static bool make_id(const struct session_store *store, char id[SESSION_ID_MAX + 1])
{
    char random[RANDOM_ID_LENGTH + 1];
    if (!random_id_make(random))
        return false;
    snprintf(id, SESSION_ID_MAX + 1, "%s%s%s", store->replica ? store->replica : "",
             store->replica ? "." : "", random);
    return true;
}

bool session_store_add(struct session_store *store, struct session *session, const char *wanted,
                       const struct access_key *key, struct fault *fault)
{
    const int64_t now_ns = clock_now_ns();
    session->account = key ? access_account_hold(key->account) : NULL;
    if (wanted) {
        text_copy(session->id, sizeof session->id, wanted);
    } else if (!make_id(store, session->id)) {
        session_release(session);
        return fault_no_memory(fault);
    }
    /* What is refused anyway evicts nobody. */
    if (!session_store_takes(store, session->id, key, fault)
        || !session_store_count_own(store, session, fault)) {
        session_release(session);
        return false;
    }
    session_hold(session); /* it may end as soon as it has its place */
    lock(store);
    struct session *ended;
    struct session *expired =
        session_store_take_expired(store, session->id, session_owner(session), now_ns);
    const bool good = session_store_put_new(store, session, key, now_ns, &ended, fault);
    unlock(store);
    session_store_let_go(store, expired);
    session_store_let_go(store, ended);
    if (good)
        session_store_drop_aside(store, session);
    else
        session_release(session);
    session_release(session);
    return good;
}

bool session_store_takes(struct session_store *store, const char *wanted,
                         const struct access_key *key, struct fault *fault)
{
    const int64_t now_ns = clock_now_ns();
    struct session *spare;
    enum session_end why;
    lock(store);
    const struct session *session = session_store_at(store, wanted, session_owner_of_key(key));
    const bool good = session && !session_is_expired(session, now_ns)
                          ? is_taken(wanted, fault)
                          : key_has_place(store, key, now_ns, fault)
                                && has_place(store, now_ns, &spare, &why, fault);
    unlock(store);
    return good;
}

bool session_store_delete(struct session_store *store, struct session *session, struct fault *fault)
{
    if (!session_saved_remove(session, fault))
        return false;
    lock(store);
    const bool is_there = session_store_at(store, session->id, session_owner(session)) == session;
    if (is_there)
        session_store_take_out(store, session, SESSION_DELETED);
    const enum session_end why = (enum session_end)atomic_load(&session->end);
    unlock(store);
    if (!is_there)
        return session_ended_fault(session->id, why == SESSION_LIVES ? SESSION_DELETED : why,
                                   fault);
    session_store_drop_aside(store, session);
    session_release(session);
    return true;
}

static int compare_ages(const void *a, const void *b)
{
    const struct session *one = *(struct session *const *)a, *other = *(struct session *const *)b;
    return one->created_ns < other->created_ns ? -1 : one->created_ns > other->created_ns;
}

bool session_store_sort(struct session_store *store, struct fault *fault)
{
    size_t count = 0, i = 0;
    lock(store);
    for (const struct session *s = store->all.first; s; s = s->in_store.next)
        count++;
    struct session **sorted = calloc(count + 1, sizeof(struct session *));
    while (sorted && store->all.first) {
        sorted[i] = store->all.first;
        LIST_TAKE_OUT(&store->all, sorted[i], in_store);
        i++;
    }
    if (sorted)
        qsort(sorted, count, sizeof(struct session *), compare_ages);
    for (i = 0; sorted && i < count; i++)
        LIST_APPEND(&store->all, sorted[i], in_store);
    unlock(store);
    const bool is_sorted = sorted != NULL;
    free(sorted);
    return is_sorted || fault_no_memory(fault);
}
