/* session_evict.c - see session_evict.h, and room of session_store.h. */
#include "session/session_evict.h"

#include "session/session_store_internal.h"

#include <stdlib.h>

static int compare_uses(const void *a, const void *b)
{
    const struct session *one = *(struct session *const *)a, *other = *(struct session *const *)b;
    const int64_t used = atomic_load(&one->used_ns), other_used = atomic_load(&other->used_ns);
    return used < other_used ? -1 : used > other_used;
}

static void forget(struct session *session)
{
    for (int64_t i = 0; i < session->layer_count; i++)
        for (int64_t p = 0; p < session->layers[i].rows.part_count; p++) {
            struct session_page *page = session->layers[i].rows.parts[p].page;
            page->ending = 0;
            page->bytes_ending = 0;
        }
}

/* Bytes that are freed when this session ends, too. */
static size_t add(struct session *session)
{
    size_t bytes = session->own_bytes;
    for (int64_t i = 0; i < session->layer_count; i++)
        for (int64_t p = 0; p < session->layers[i].rows.part_count; p++) {
            struct session_page *page = session->layers[i].rows.parts[p].page;
            if (++page->ending < atomic_load(&page->holders))
                continue;
            page->bytes_ending = session_page_bytes_held(page);
            bytes += page->bytes_ending;
        }
    return bytes;
}

/* Bytes that are not freed when this session stays after all. */
static size_t take_back(struct session *session)
{
    size_t bytes = session->own_bytes;
    for (int64_t i = 0; i < session->layer_count; i++)
        for (int64_t p = 0; p < session->layers[i].rows.part_count; p++) {
            struct session_page *page = session->layers[i].rows.parts[p].page;
            bytes += page->bytes_ending;
            page->bytes_ending = 0;
            page->ending--;
        }
    return bytes;
}

int64_t session_evict_choose(struct session **sessions, int64_t count, size_t bytes)
{
    size_t freed = 0;
    int64_t tried = 0, chosen = 0;
    for (int64_t i = 0; i < count; i++)
        forget(sessions[i]);
    qsort(sessions, (size_t)count, sizeof(struct session *), compare_uses);
    while (tried < count && freed < bytes)
        freed += add(sessions[tried++]);
    const bool is_enough = freed >= bytes;
    for (int64_t i = tried - 1; i >= 0; i--) { /* the last one used stays first */
        struct session *session = sessions[i];
        const size_t own = take_back(session);
        if (is_enough && freed - own >= bytes) {
            freed -= own;
            sessions[i] = NULL;
        } else if (is_enough) {
            add(session);
        }
    }
    for (int64_t i = 0; is_enough && i < tried; i++)
        if (sessions[i])
            sessions[chosen++] = sessions[i];
    return chosen;
}

/* ---------------------------------------------------------------------------- room -- */

static bool is_candidate(const struct session *session)
{
    return session->is_evictable && atomic_load(&session->holders) == 1;
}

struct session *session_store_spare(const struct session_store *store, int64_t now_ns,
                                    enum session_end *why)
{
    struct session *spare = NULL;
    *why = SESSION_EVICTED;
    for (struct session *s = store->all.first; s; s = s->in_store.next) {
        if (session_is_expired(s, now_ns)) {
            *why = SESSION_EXPIRED;
            return s;
        }
        if (is_candidate(s) && (!spare || atomic_load(&s->used_ns) < atomic_load(&spare->used_ns)))
            spare = s;
    }
    return spare;
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
    pthread_mutex_lock(&store->mutex);
    const size_t used = atomic_load(&store->budget.bytes), most = store->budget.bytes_max;
    const size_t room = used < most ? most - used : 0;
    struct session **found = room < bytes_wanted ? candidates(store, &count) : NULL;
    if (found)
        chosen = session_evict_choose(found, count, bytes_wanted - room);
    for (int64_t i = 0; i < chosen; i++) {
        session_store_take_out(store, found[i], SESSION_EVICTED);
        LIST_APPEND(&ended, found[i], in_store);
    }
    pthread_mutex_unlock(&store->mutex);
    free(found);
    session_store_let_go(store, ended.first);
    return room >= bytes_wanted || chosen > 0;
}

bool session_store_make_room(struct session_store *store, size_t bytes, struct fault *fault)
{
    while (!session_budget_check(session_store_budget(store), bytes, fault))
        if (fault->code != FAULT_FULL || !session_store_evict(store, bytes))
            return false;
    fault->code = FAULT_NONE;
    return true;
}

/* Whether what the rows wanted may have room when it is tried again: others may take it. */
static bool may_try_again(struct session_store *store, const struct session_rows *rows, int tries,
                          const struct fault *fault)
{
    enum { TRIES = 16 };
    return fault->code == FAULT_FULL && tries < TRIES
           && session_store_evict(store, rows->bytes_wanted);
}

bool session_store_begin_rows(struct session_store *store, struct session_rows *rows, int64_t count,
                              struct fault *fault)
{
    for (int i = 0; !session_rows_begin(rows, session_store_budget(store), count, fault); i++)
        if (!may_try_again(store, rows, i, fault))
            return false;
    fault->code = FAULT_NONE;
    return true;
}

bool session_store_count_own(struct session_store *store, struct session *session,
                             struct fault *fault)
{
    enum { TRIES = 16 };
    struct session_budget *budget = session_store_budget(store);
    for (int i = 0; !session_count_own(session, budget, fault); i++)
        if (fault->code != FAULT_FULL || i == TRIES
            || !session_store_make_room(store, session_own_bytes(session), fault))
            return false;
    fault->code = FAULT_NONE;
    return true;
}

bool session_store_add_groups(struct session_store *store, struct session_rows *rows,
                              const int64_t *lengths, int64_t count, struct fault *fault)
{
    struct session_budget *budget = session_store_budget(store);
    for (int i = 0; !session_rows_add_groups(rows, budget, lengths, count, fault); i++)
        if (!may_try_again(store, rows, i, fault))
            return false;
    fault->code = FAULT_NONE;
    return true;
}
