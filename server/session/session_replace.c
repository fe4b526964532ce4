/* session_replace.c - see session_store.h: a session in place of another one of the same id, which
 * is set aside until it is known whether the new one stays.
 *
 * Several may wait so, each behind the one that took its place: earlier and later of a session. The
 * last one has the place. */
#include "session/session_store_internal.h"

#include "base/clock.h"
#include "text/text.h"

/* Sessions that are set aside, from this one on backwards, as a list by in_store. Under the mutex:
 * calls of each of them may still be running. */
static struct session *chain_of(struct session *first)
{
    for (struct session *next = first; next; next = next->in_store.next) {
        next->in_store.next = next->earlier;
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
    pthread_mutex_lock(&store->mutex);
    struct session *expired =
        session_store_take_expired(store, wanted, session_owner(session), now_ns);
    struct session *earlier = session_store_at(store, wanted, session_owner(session));
    if (earlier)
        session_store_take_from_place(store, earlier);
    const bool good = session_store_put_new(store, session, key, now_ns, &ended, fault);
    if (good && earlier) {
        session->earlier = earlier;
        earlier->later = session;
    }
    const bool is_lost = !good && earlier && !session_store_put(store, earlier, &unused);
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
    session_store_drop_aside(store, session);
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
    if (!earlier || !session_store_put(store, earlier, &unused))
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
