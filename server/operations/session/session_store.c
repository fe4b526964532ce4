/* SPDX-License-Identifier: Apache-2.0 */
/* session_store.c - sessions get a place, one replaces another, and keys find them.
 *
 * A replaced session waits until it is known whether the new one stays. Several may wait, each
 * behind the one that took its place: earlier and later of a session. The last one has the place.
 *
 * A key that may see all sessions finds one by its id alone where it is clear whose is meant: its
 * own, or that of the only name that has or lately had one. So a request that is sent again never
 * reaches a session of another owner. */
#include "operations/session/session_store_internal.h"

#include "access/access_key.h"
#include "base/clock.h"
#include "base/unique_id.h"
#include "telemetry/metrics.h"
#include "json/text.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session_store *session_store_create(size_t bytes_max, int64_t count_max, const char *replica)
{
    struct session_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    if (!session_ended_init(&store->ended, SESSION_ENDED_MAX)) {
        free(store);
        return NULL;
    }
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

void session_store_free(struct session_store *store)
{
    if (!store)
        return;
    int64_t next = 0;
    struct session *session;
    while ((session = session_places_next(&store->places, true, NULL, &next))) {
        session_store_take_out(store, session, SESSION_DELETED);
        session_release(session);
    }
    session_places_free(&store->places);
    session_store_free_unloaded(store);
    session_ended_free(&store->ended);
    session_ended_free(&store->moved);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

void session_store_sweep(struct session_store *store, int64_t now_ns)
{
    struct session *session, *expired = NULL, *held = NULL;
    pthread_mutex_lock(&store->mutex);
    while ((session = session_places_expired(&store->places, now_ns))) {
        struct session **list = session_is_expired(session, now_ns) ? &expired : &held;
        if (list == &expired)
            session_store_take_out(store, session, SESSION_EXPIRED);
        else
            session_places_pass(&store->places, session);
        session->next = *list;
        *list = session;
    }
    for (; held; held = held->next)
        session_places_let_in(&store->places, held);
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, expired);
}

/* ------------------------------------------------------------------------ a place -- */

/* Whether the key may have one more. What has expired was taken out before. */
static bool key_has_place(const struct access_key *key, struct fault *fault)
{
    const int64_t most = key ? key->limits.sessions : 0;
    const int64_t count = key ? key->account->sessions : 0;
    return most == 0 || count < most
           || fault_set(fault, FAULT_QUOTA,
                        "'%s' has %lld sessions, as many as it may; delete one, or wait until one "
                        "ends",
                        session_owner_of_key(key), (long long)count);
}

/* Whether the store may have one more: else *spare is the session that makes room, or NULL, with
 * the fault. */
static bool has_place(struct session_store *store, struct session **spare, struct fault *fault)
{
    *spare = store->places.count < store->count_max ? NULL : session_store_spare(store);
    return *spare || store->places.count < store->count_max
           || fault_set(fault, FAULT_FULL,
                        "there are %lld sessions, as many as there may be (--sessions-max); delete "
                        "one, or wait until one ends",
                        (long long)store->places.count);
}

static bool is_taken(const char *id, struct fault *fault)
{
    return fault_set_at(fault, "/id", FAULT_CONFLICT,
                        "there is a session '%.64s' already; delete it, or take another id", id);
}

static bool put(struct session_store *store, struct session *session, struct fault *fault)
{
    struct session **node = tsearch(session, &store->by_id, session_store_compare);
    if (!node)
        return fault_no_memory(fault);
    if (*node != session)
        return is_taken(session->id, fault);
    if (!session_places_put(&store->places, session)) {
        tdelete(session, &store->by_id, session_store_compare);
        return fault_no_memory(fault);
    }
    if (session->account)
        session->account->sessions++;
    session_ended_forget_moved(store, session);
    metrics_gauge_add(METRICS_SESSIONS, 1);
    return true;
}

static bool put_new(struct session_store *store, struct session *session,
                    const struct access_key *key, struct session **ended, struct fault *fault)
{
    *ended = NULL;
    if (session_store_at(store, session->id, session_owner(session)))
        return is_taken(session->id, fault);
    if (!key_has_place(key, fault) || !has_place(store, ended, fault))
        return false;
    if (*ended) {
        session_store_take_out(store, *ended, SESSION_EVICTED);
        (*ended)->next = NULL;
    }
    return put(store, session, fault);
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
    pthread_mutex_lock(&store->mutex);
    struct session *ended;
    struct session *expired =
        session_store_take_expired(store, session->id, session_owner(session), now_ns);
    const bool good = put_new(store, session, key, &ended, fault);
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, expired);
    session_store_let_go(store, ended);
    if (good)
        session_store_drop_unloaded(store, session);
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
    session_store_sweep(store, now_ns);
    pthread_mutex_lock(&store->mutex);
    const struct session *session = session_store_at(store, wanted, session_owner_of_key(key));
    const bool good = session && !session_is_expired(session, now_ns)
                          ? is_taken(wanted, fault)
                          : key_has_place(key, fault) && has_place(store, &spare, fault);
    pthread_mutex_unlock(&store->mutex);
    return good;
}

/* Ends a session that was found, if it is still there; place is that of one that moves. */
static bool end(struct session_store *store, struct session *session, enum session_end why,
                const struct fault_place *place, struct fault *fault)
{
    if (!session_store_remove_file(session, fault))
        return false;
    pthread_mutex_lock(&store->mutex);
    const bool is_there = session_store_at(store, session->id, session_owner(session)) == session;
    if (is_there && why == SESSION_MOVED) {
        free(session->digest);
        session->moved_to = place;
    }
    if (is_there)
        session_store_take_out(store, session, why);
    struct session_ending ending = { .why = (enum session_end)atomic_load(&session->end) };
    if (ending.why == SESSION_MOVED)
        ending.place = session->moved_to;
    pthread_mutex_unlock(&store->mutex);
    if (ending.why == SESSION_LIVES)
        ending.why = SESSION_DELETED;
    if (!is_there)
        return session_ended_fault(session->id, &ending, fault);
    session_store_drop_unloaded(store, session);
    session_release(session);
    return true;
}

bool session_store_delete(struct session_store *store, struct session *session, struct fault *fault)
{
    return end(store, session, SESSION_DELETED, NULL, fault);
}

bool session_store_move(struct session_store *store, struct session *session,
                        const struct fault_place *place, struct fault *fault)
{
    const int64_t most =
        store->count_max < SESSION_MOVED_MAX ? store->count_max : SESSION_MOVED_MAX;
    pthread_mutex_lock(&store->mutex);
    const bool has_room = store->moved.capacity > 0 || session_ended_init(&store->moved, most);
    pthread_mutex_unlock(&store->mutex);
    return has_room ? end(store, session, SESSION_MOVED, place, fault) : fault_no_memory(fault);
}

struct session *session_store_made_of(struct session_store *store, const char *id,
                                      const char *owner, const char *digest)
{
    pthread_mutex_lock(&store->mutex);
    struct session *session = session_store_at(store, id, owner);
    const bool is_of = session && session->digest && strcmp(session->digest, digest) == 0;
    if (is_of)
        session_hold(session);
    pthread_mutex_unlock(&store->mutex);
    return is_of ? session : NULL;
}

void session_store_sort(struct session_store *store)
{
    pthread_mutex_lock(&store->mutex);
    session_places_sort(&store->places);
    pthread_mutex_unlock(&store->mutex);
}

void session_store_set(struct session_store *store, struct session *session, int64_t ttl_ns,
                       bool is_evictable)
{
    pthread_mutex_lock(&store->mutex);
    atomic_store(&session->ttl_ns, ttl_ns);
    atomic_store(&session->is_evictable, is_evictable);
    if (session_store_at(store, session->id, session_owner(session)) == session)
        session_places_change(&store->places, session);
    pthread_mutex_unlock(&store->mutex);
}

/* -------------------------------------------------------- one in place of another -- */

/* Replaced sessions, from this one on backwards, joined by next. Under the mutex: calls of each of
 * them may still be running. */
static struct session *chain_of(struct session *first)
{
    for (struct session *next = first; next; next = next->next) {
        next->next = next->earlier;
        next->earlier = next->later = NULL;
    }
    return first;
}

bool session_store_replace(struct session_store *store, struct session *session, const char *wanted,
                           const struct access_key *key, struct fault *fault)
{
    const int64_t now_ns = clock_now_ns();
    struct fault unused;
    struct session *ended;
    session->account = key ? access_account_hold(key->account) : NULL;
    text_copy(session->id, sizeof session->id, wanted);
    if (!session_store_count_own(store, session, fault)) {
        session_release(session);
        return false;
    }
    session_store_sweep(store, now_ns);
    pthread_mutex_lock(&store->mutex);
    struct session *expired =
        session_store_take_expired(store, wanted, session_owner(session), now_ns);
    struct session *earlier = session_store_at(store, wanted, session_owner(session));
    if (earlier)
        session_store_take_from_place(store, earlier);
    const bool good = put_new(store, session, key, &ended, fault);
    if (good && earlier) {
        session->earlier = earlier;
        earlier->later = session;
    }
    const bool is_lost = !good && earlier && !put(store, earlier, &unused);
    struct session *lost = is_lost ? chain_of(earlier) : NULL;
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, expired);
    session_store_let_go(store, ended);
    session_store_let_go(store, lost);
    if (!good)
        session_release(session);
    return good;
}

void session_store_keep(struct session_store *store, struct session *session)
{
    pthread_mutex_lock(&store->mutex);
    struct session *earlier = chain_of(session->earlier);
    session->earlier = NULL;
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, earlier);
    session_store_drop_unloaded(store, session);
}

/* Gives its place, or its place behind a later one, to the one before it. Returns those that end,
 * as a list. */
static struct session *give_place(struct session_store *store, struct session *session,
                                  bool *is_there)
{
    struct fault unused;
    struct session *earlier = session->earlier, *later = session->later;
    *is_there = later || session_store_at(store, session->id, session_owner(session)) == session;
    session->earlier = session->later = NULL;
    if (later) {
        later->earlier = earlier;
        if (earlier)
            earlier->later = later;
        return NULL;
    }
    if (!*is_there)
        return chain_of(earlier);
    session_store_take_out(store, session, SESSION_DELETED);
    if (!earlier || !put(store, earlier, &unused))
        return chain_of(earlier);
    earlier->later = NULL;
    return NULL;
}

void session_store_put_back(struct session_store *store, struct session *session)
{
    bool is_there;
    pthread_mutex_lock(&store->mutex);
    struct session *ended = give_place(store, session, &is_there);
    atomic_store(&session->end, (int)SESSION_DELETED);
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, ended);
    if (is_there)
        session_release(session);
}

/* ---------------------------------------------------------------- owners of an id -- */

enum { OWNERS_MAX = 4 }; /* that a message names */

struct owners {
    const char *names[OWNERS_MAX];
    int count; /* at most OWNERS_MAX */
    bool has_more;
};

/* Sessions of one id whose owners are strictly between two of them. NULL: no bound. */
struct range {
    const char *id;
    const struct session *above, *below;
};

static int compare_range(const void *a, const void *b)
{
    const struct range *range = a;
    const struct session *session = b;
    const int ids = strcmp(range->id, session->id);
    if (ids != 0)
        return ids;
    if (range->above && strcmp(session_owner(session), session_owner(range->above)) <= 0)
        return 1;
    return range->below && strcmp(session_owner(session), session_owner(range->below)) >= 0 ? -1
                                                                                            : 0;
}

static void add_owner(struct owners *owners, const char *name)
{
    for (int i = 0; i < owners->count; i++)
        if (strcmp(owners->names[i], name) == 0)
            return;
    owners->has_more = owners->count == OWNERS_MAX;
    if (!owners->has_more)
        owners->names[owners->count++] = name;
}

/* Those whose session is there, from one bound to the other. */
static void add_owners(struct session_store *store, struct owners *owners, struct range *range)
{
    void *node = tfind(range, &store->by_id, compare_range);
    struct session *found = node ? *(struct session **)node : NULL;
    struct range before = *range, behind = *range;
    if (!found || owners->has_more)
        return;
    before.below = behind.above = found;
    add_owners(store, owners, &before);
    add_owner(owners, session_owner(found));
    add_owners(store, owners, &behind);
}

/* The names that have a session of that id, or had one lately. */
static struct owners owners_of(struct session_store *store, const char *id)
{
    struct owners owners = { .count = 0 };
    add_owners(store, &owners, &(struct range){ .id = id });
    const char *name;
    for (int64_t i = 0; !owners.has_more && (name = session_ended_next(&store->ended, id, &i));)
        add_owner(&owners, name);
    for (int64_t i = 0; !owners.has_more && (name = session_ended_next(&store->moved, id, &i));)
        add_owner(&owners, name);
    return owners;
}

static bool is_of_several(const struct owners *owners, const char *id, struct fault *fault)
{
    char names[OWNERS_MAX * (ACCESS_NAME_MAX + 4) + 1] = "";
    size_t used = 0;
    for (int i = 0; i < owners->count; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", i > 0 ? ", " : "",
                                 owners->names[i]);
    return fault_set(fault, FAULT_CONFLICT,
                     "%s%s each have a session '%.64s', or had one lately; say whose by owner",
                     names, owners->has_more ? " and others" : "", id);
}

/* --------------------------------------------------------------------------- faults -- */

static bool not_there(const struct session_store *store, const char *id, const char *owner,
                      bool is_own, struct fault *fault)
{
    const struct session_ending ending = session_ended_why(store, id, owner);
    if (ending.why != SESSION_LIVES)
        return session_ended_fault(id, &ending, fault);
    return is_own ? fault_set(fault, FAULT_NOT_FOUND, "there is no session '%.64s'", id)
                  : fault_set(fault, FAULT_NOT_FOUND, "there is no session '%.64s' of '%.64s'", id,
                              owner);
}

bool session_store_check(const struct session *session, struct fault *fault)
{
    struct session_ending ending = { .why = (enum session_end)atomic_load(&session->end) };
    if (ending.why == SESSION_MOVED)
        ending.place = session->moved_to;
    return ending.why == SESSION_LIVES || session_ended_fault(session->id, &ending, fault);
}

/* ---------------------------------------------------------------------- whose it is -- */

/* Whose session of that id a key means. NULL, with the fault: that is not clear. */
static const char *settle_owner(struct session_store *store, const char *id, const char *said,
                                const struct access_key *key, struct fault *fault)
{
    const char *own = session_owner_of_key(key);
    if (said)
        return said;
    if (!key || !access_key_may(key, ACCESS_SESSIONS_ALL) || session_store_at(store, id, own)
        || session_ended_why(store, id, own).why != SESSION_LIVES)
        return own;
    const struct owners owners = owners_of(store, id);
    if (owners.count > 1) {
        is_of_several(&owners, id, fault);
        return NULL;
    }
    return owners.count == 1 ? owners.names[0] : own;
}

static struct session *find(struct session_store *store, const char *id, const char *said,
                            const struct access_key *key, struct fault *fault)
{
    const char *own = session_owner_of_key(key);
    const char *owner = settle_owner(store, id, said, key, fault);
    if (!owner)
        return NULL;
    const bool is_own = strcmp(owner, own) == 0;
    const bool may_see = is_own || (key && access_key_may(key, ACCESS_SESSIONS_ALL));
    struct session *session = may_see ? session_store_at(store, id, owner) : NULL;
    if (!session && may_see)
        not_there(store, id, owner, is_own, fault);
    if (!may_see)
        fault_set(fault, FAULT_NOT_FOUND, "there is no session '%.64s' of '%.64s'", id, owner);
    return session;
}

struct session *session_store_look(struct session_store *store, const char *id, const char *owner,
                                   const struct access_key *key, struct fault *fault)
{
    struct session *expired = NULL;
    pthread_mutex_lock(&store->mutex);
    struct session *session = find(store, id, owner, key, fault);
    if (session && session_is_expired(session, clock_now_ns())) {
        session_store_take_out(store, session, SESSION_EXPIRED);
        session_ended_fault(id, &(struct session_ending){ .why = SESSION_EXPIRED }, fault);
        expired = session;
        session = NULL;
    }
    if (session)
        session_hold(session);
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, expired);
    return session;
}

struct session *session_store_find(struct session_store *store, const char *id, const char *owner,
                                   const struct access_key *key, struct fault *fault)
{
    struct session *session = session_store_look(store, id, owner, key, fault);
    if (session)
        session_touch(session);
    return session;
}

struct session *session_store_find_to_call(struct session_store *store, const char *id,
                                           const char *owner, const struct access_key *key,
                                           struct fault *fault)
{
    struct session *session = session_store_find(store, id, owner, key, fault);
    if (!session || access_check_model(key, session->model->name, fault))
        return session;
    session_release(session);
    return NULL;
}

int64_t session_store_list(struct session_store *store, const struct access_key *key, int64_t after,
                           struct session **held, int64_t count, int64_t *total)
{
    const bool sees_all = access_key_may(key, ACCESS_SESSIONS_ALL);
    const struct access_account *account = sees_all ? NULL : key->account;
    struct session *session;
    int64_t next = 0, number = 0, found = 0;
    pthread_mutex_lock(&store->mutex);
    *total = sees_all ? store->places.count : account->sessions;
    while (found < count && after < *total
           && (session = session_places_next(&store->places, sees_all, account, &next)))
        if (number++ >= after)
            held[found++] = session_hold(session);
    pthread_mutex_unlock(&store->mutex);
    return found;
}
