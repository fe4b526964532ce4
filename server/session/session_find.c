/* session_find.c - see session_store.h: sessions as keys find them.
 *
 * A key that may see all sessions finds one by its id alone where it is clear whose is meant: its
 * own, or that of the only name that has or lately had one. So a request that is sent again never
 * comes to a session of somebody else. */
#include "session/session_store_internal.h"

#include "access/access_check.h"
#include "base/clock.h"

#include <search.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- owners of an id -- */

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
    const enum session_end why = session_ended_why(&store->ended, id, owner);
    if (why != SESSION_LIVES)
        return session_ended_fault(id, why, fault);
    return is_own ? fault_set(fault, FAULT_NOT_FOUND, "there is no session '%.64s'", id)
                  : fault_set(fault, FAULT_NOT_FOUND, "there is no session '%.64s' of '%.64s'", id,
                              owner);
}

bool session_store_check(const struct session *session, struct fault *fault)
{
    const enum session_end why = (enum session_end)atomic_load(&session->end);
    return why == SESSION_LIVES || session_ended_fault(session->id, why, fault);
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
        || session_ended_why(&store->ended, id, own) != SESSION_LIVES)
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
        session_ended_fault(id, SESSION_EXPIRED, fault);
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
                           int64_t count, void (*visit)(void *context, struct session *session),
                           void *context)
{
    const bool sees_all = access_key_may(key, ACCESS_SESSIONS_ALL);
    int64_t number = 0;
    pthread_mutex_lock(&store->mutex);
    for (struct session *s = store->all.first; s; s = s->in_store.next) {
        if (!sees_all && strcmp(session_owner(s), session_owner_of_key(key)) != 0)
            continue;
        if (number >= after && number - after < count)
            visit(context, s);
        number++;
    }
    pthread_mutex_unlock(&store->mutex);
    return number;
}
