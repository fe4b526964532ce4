/* session_store.c - see session_store.h. */
#include "session/session_store.h"

#include "access/access_check.h"
#include "base/clock.h"
#include "base/random_id.h"
#include "session/session_ended.h"
#include "session/session_evict.h"
#include "session/session_saved.h"
#include "text/text.h"
#include "watch/metrics.h"

#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session_store {
    pthread_mutex_t mutex;       /* guards all that follows but the budget's bytes */
    void *by_id;                 /* tsearch(3): by id, then by the owner's name */
    LIST_OF(struct session) all; /* in the order of their making */
    struct session_ended ended;
    struct session_budget budget;
    const char *replica; /* or NULL */
};

struct session_store *session_store_create(size_t bytes_max, const char *replica)
{
    struct session_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    pthread_mutex_init(&store->mutex, NULL);
    store->budget.bytes_max = bytes_max;
    store->replica = replica;
    return store;
}

struct session_budget *session_store_budget(struct session_store *store)
{
    return &store->budget;
}

/* ---------------------------------------------------------------- under the mutex -- */

static const char *owner_of(const struct session *session)
{
    return session->account ? session->account->name : "";
}

static const char *name_of(const struct access_key *key)
{
    return key ? key->account->name : "";
}

static int compare(const void *a, const void *b)
{
    const struct session *one = a, *other = b;
    const int ids = strcmp(one->id, other->id);
    return ids != 0 ? ids : strcmp(owner_of(one), owner_of(other));
}

static void take_from_place(struct session_store *store, struct session *session)
{
    tdelete(session, &store->by_id, compare);
    LIST_TAKE_OUT(&store->all, session, in_store);
    if (session->account)
        session->account->sessions--;
    metrics_gauge_add(METRICS_SESSIONS, -1);
}

/* Takes a session out and remembers it. The caller releases it, without the mutex. */
static void take_out(struct session_store *store, struct session *session, enum session_end why)
{
    session_ended_add(&store->ended, session, why);
    atomic_store(&session->end, (int)why);
    take_from_place(store, session);
}

static bool is_expired(const struct session *session, int64_t now_ns)
{
    return now_ns - atomic_load(&session->used_ns) >= session->ttl_ns
           && atomic_load(&session->holders) == 1;
}

static struct session *find_own(struct session_store *store, const char *id, const char *owner)
{
    struct access_account account;
    struct session wanted = { .account = owner[0] ? &account : NULL };
    text_copy(wanted.id, sizeof wanted.id, id);
    text_copy(account.name, sizeof account.name, owner);
    void *node = tfind(&wanted, &store->by_id, compare);
    return node ? *(struct session **)node : NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct session *)a)->id, ((const struct session *)b)->id);
}

/* Whoever's it is: the tree is in the order of ids first. */
static struct session *find_any(struct session_store *store, const char *id)
{
    struct session wanted;
    text_copy(wanted.id, sizeof wanted.id, id);
    void *node = tfind(&wanted, &store->by_id, compare_ids);
    return node ? *(struct session **)node : NULL;
}

static struct session *find(struct session_store *store, const char *id,
                            const struct access_key *key)
{
    struct session *session = find_own(store, id, name_of(key));
    return session || !key || !access_key_may(key, ACCESS_SESSIONS_ALL) ? session
                                                                        : find_any(store, id);
}

/* --------------------------------------------------------------------- faults -- */

static bool not_there(const struct session_store *store, const char *id,
                      const struct access_key *key, struct fault *fault)
{
    const enum session_end why = session_ended_why(&store->ended, id, name_of(key));
    if (why != SESSION_LIVES)
        return session_ended_fault(id, why, fault);
    return fault_set(fault, FAULT_NOT_FOUND, "there is no session '%.64s'", id);
}

bool session_store_check(const struct session *session, struct fault *fault)
{
    const enum session_end why = (enum session_end)atomic_load(&session->end);
    return why == SESSION_LIVES || session_ended_fault(session->id, why, fault);
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

/* Releases a session that was taken out because its time had come or memory was short. */
static void let_go(struct session *session)
{
    if (session)
        session_saved_drop(session);
    session_release(session);
}

static void let_all_go(struct session *first)
{
    for (struct session *next; first; first = next) {
        next = first->in_store.next;
        let_go(first);
    }
}

/* Ends what has expired; a session whose time has come is not found, however seldom this runs. */
void session_store_sweep(struct session_store *store, int64_t now_ns)
{
    LIST_OF(struct session) expired = { NULL };
    lock(store);
    for (struct session *session = store->all.first, *next; session; session = next) {
        next = session->in_store.next;
        if (!is_expired(session, now_ns))
            continue;
        take_out(store, session, SESSION_EXPIRED);
        LIST_APPEND(&expired, session, in_store);
    }
    unlock(store);
    let_all_go(expired.first);
}

void session_store_free(struct session_store *store)
{
    if (!store)
        return;
    while (store->all.first) {
        struct session *session = store->all.first;
        take_out(store, session, SESSION_DELETED);
        session_release(session);
    }
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

/* Whether the key may have one more. */
static bool has_place(const struct session_store *store, const struct access_key *key,
                      int64_t now_ns, struct fault *fault)
{
    int64_t count = 0;
    if (!key || key->limits.sessions == 0 || key->account->sessions < key->limits.sessions)
        return true;
    for (const struct session *s = store->all.first; s; s = s->in_store.next)
        count += strcmp(owner_of(s), name_of(key)) == 0 && !is_expired(s, now_ns);
    return count < key->limits.sessions
           || fault_set(fault, FAULT_QUOTA,
                        "'%s' has %lld sessions, as many as it may; delete one, or wait until one "
                        "ends",
                        name_of(key), (long long)count);
}

static bool is_taken(const char *id, struct fault *fault)
{
    return fault_set_at(fault, "/id", FAULT_CONFLICT,
                        "there is a session '%.64s' already; delete it, or take another id", id);
}

/* False, with the fault: the id is taken, or no memory. */
static bool put(struct session_store *store, struct session *session, struct fault *fault)
{
    struct session **node = tsearch(session, &store->by_id, compare);
    if (!node)
        return fault_no_memory(fault);
    if (*node != session)
        return is_taken(session->id, fault);
    LIST_APPEND(&store->all, session, in_store);
    if (session->account)
        session->account->sessions++;
    metrics_gauge_add(METRICS_SESSIONS, 1);
    return true;
}

static bool add(struct session_store *store, struct session *session, const struct access_key *key,
                int64_t now_ns, struct fault *fault)
{
    return has_place(store, key, now_ns, fault) && put(store, session, fault);
}

/* The owner's session of that id, where its time has come, for the caller to release. */
static struct session *take_expired(struct session_store *store, const char *id, const char *owner,
                                    int64_t now_ns)
{
    struct session *session = find_own(store, id, owner);
    if (!session || !is_expired(session, now_ns))
        return NULL;
    take_out(store, session, SESSION_EXPIRED);
    return session;
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
    lock(store);
    struct session *expired = take_expired(store, session->id, owner_of(session), now_ns);
    const bool good = add(store, session, key, now_ns, fault);
    unlock(store);
    let_go(expired);
    if (!good)
        session_release(session);
    return good;
}

bool session_store_replace(struct session_store *store, struct session *session, const char *wanted,
                           const struct access_key *key, struct session **earlier,
                           struct fault *fault)
{
    const int64_t now_ns = clock_now_ns();
    struct fault unused;
    session->account = key ? access_account_hold(key->account) : NULL;
    text_copy(session->id, sizeof session->id, wanted);
    lock(store);
    struct session *expired = take_expired(store, wanted, owner_of(session), now_ns);
    *earlier = find_own(store, wanted, owner_of(session));
    if (*earlier)
        take_from_place(store, *earlier);
    const bool good = add(store, session, key, now_ns, fault);
    if (!good && *earlier && put(store, *earlier, &unused))
        *earlier = NULL;
    unlock(store);
    let_go(expired);
    if (good)
        return true;
    session_store_end_aside(*earlier); /* there was no memory to put it back */
    *earlier = NULL;
    session_release(session);
    return false;
}

void session_store_end_aside(struct session *earlier)
{
    if (earlier)
        atomic_store(&earlier->end, (int)SESSION_DELETED);
    let_go(earlier);
}

void session_store_put_back(struct session_store *store, struct session *session,
                            struct session *earlier)
{
    struct fault unused;
    lock(store);
    const bool is_there = find_own(store, session->id, owner_of(session)) == session;
    if (is_there)
        take_out(store, session, SESSION_DELETED);
    const bool is_back = is_there && earlier && atomic_load(&earlier->end) == (int)SESSION_LIVES
                         && put(store, earlier, &unused);
    if (!is_there)
        atomic_store(&session->end, (int)SESSION_DELETED);
    unlock(store);
    if (is_there)
        session_release(session);
    if (!is_back)
        session_store_end_aside(earlier);
}

bool session_store_takes(struct session_store *store, const char *wanted,
                         const struct access_key *key, struct fault *fault)
{
    const int64_t now_ns = clock_now_ns();
    lock(store);
    const struct session *session = find_own(store, wanted, name_of(key));
    const bool good = session && !is_expired(session, now_ns)
                          ? is_taken(wanted, fault)
                          : has_place(store, key, now_ns, fault);
    unlock(store);
    return good;
}

struct session *session_store_find(struct session_store *store, const char *id,
                                   const struct access_key *key, struct fault *fault)
{
    struct session *session = session_store_look(store, id, key, fault);
    if (session)
        session_touch(session);
    return session;
}

static struct session *look(struct session_store *store, const char *id,
                            const struct access_key *key, bool own_only, struct fault *fault)
{
    const int64_t now_ns = clock_now_ns();
    struct session *expired = NULL;
    lock(store);
    struct session *session = own_only ? find_own(store, id, name_of(key)) : find(store, id, key);
    if (session && is_expired(session, now_ns)) {
        take_out(store, session, SESSION_EXPIRED);
        expired = session;
        session = NULL;
    }
    if (session)
        session_hold(session);
    else
        not_there(store, id, key, fault);
    unlock(store);
    let_go(expired);
    return session;
}

struct session *session_store_look(struct session_store *store, const char *id,
                                   const struct access_key *key, struct fault *fault)
{
    return look(store, id, key, false, fault);
}

struct session *session_store_find_own(struct session_store *store, const char *id,
                                       const struct access_key *key, struct fault *fault)
{
    struct session *session = look(store, id, key, true, fault);
    if (session)
        session_touch(session);
    return session;
}

struct session *session_store_find_to_call(struct session_store *store, const char *id,
                                           const struct access_key *key, struct fault *fault)
{
    struct session *session = session_store_find(store, id, key, fault);
    if (!session || access_check_model(key, session->model->name, fault))
        return session;
    session_release(session);
    return NULL;
}

bool session_store_delete(struct session_store *store, struct session *session, struct fault *fault)
{
    if (!session_saved_remove(session, fault))
        return false;
    lock(store);
    const bool is_there = atomic_load(&session->end) == (int)SESSION_LIVES;
    if (is_there)
        take_out(store, session, SESSION_DELETED);
    unlock(store);
    if (!is_there)
        return session_store_check(session, fault);
    session_release(session);
    return true;
}

static bool is_candidate(const struct session *session)
{
    return session->is_evictable && atomic_load(&session->holders) == 1
           && session_bytes_held(session) > 0;
}

/* In an array of malloc's; NULL: no memory. */
static struct session **candidates(struct session_store *store, int64_t *count)
{
    size_t all = 0;
    *count = 0;
    for (const struct session *s = store->all.first; s; s = s->in_store.next)
        all += is_candidate(s);
    struct session **found = calloc(all + 1, sizeof(struct session *));
    for (struct session *s = store->all.first; found && s && (size_t)*count < all;
         s = s->in_store.next)
        if (is_candidate(s))
            found[(*count)++] = s;
    return found;
}

bool session_store_evict(struct session_store *store, size_t bytes_wanted)
{
    LIST_OF(struct session) ended = { NULL };
    int64_t count = 0, chosen = 0;
    lock(store);
    const size_t used = atomic_load(&store->budget.bytes), most = store->budget.bytes_max;
    const size_t room = used < most ? most - used : 0;
    struct session **found = room < bytes_wanted ? candidates(store, &count) : NULL;
    if (found)
        chosen = session_evict_choose(found, count, bytes_wanted - room);
    for (int64_t i = 0; i < chosen; i++) {
        take_out(store, found[i], SESSION_EVICTED);
        LIST_APPEND(&ended, found[i], in_store);
    }
    unlock(store);
    free(found);
    let_all_go(ended.first);
    return room >= bytes_wanted || chosen > 0;
}

int64_t session_store_list(struct session_store *store, const struct access_key *key, int64_t after,
                           int64_t count, void (*visit)(void *context, struct session *session),
                           void *context)
{
    const bool sees_all = access_key_may(key, ACCESS_SESSIONS_ALL);
    int64_t number = 0;
    lock(store);
    for (struct session *s = store->all.first; s; s = s->in_store.next) {
        if (!sees_all && strcmp(owner_of(s), name_of(key)) != 0)
            continue;
        if (number >= after && number - after < count)
            visit(context, s);
        number++;
    }
    unlock(store);
    return number;
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
