/* SPDX-License-Identifier: Apache-2.0 */
/* session_end.c - how sessions end: taken out of their place in the store, their files removed, and
 * the reason remembered; and which of them are evicted where memory is short. */
#include "operations/session/session_store_internal.h"

#include "host/file_save.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "json/text.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------- those that ended -- */

/* FNV-1a. */
static uint32_t hash_of(const char *id)
{
    uint32_t hash = 2166136261u;
    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return hash;
}

bool session_ended_init(struct session_ended *ended, int64_t capacity)
{
    *ended = (struct session_ended){ .capacity = capacity };
    ended->all = calloc((size_t)capacity, sizeof *ended->all);
    ended->hashes = calloc((size_t)capacity, sizeof *ended->hashes);
    if (ended->all && ended->hashes)
        return true;
    session_ended_free(ended);
    return false;
}

void session_ended_free(struct session_ended *ended)
{
    free(ended->all);
    free(ended->hashes);
    *ended = (struct session_ended){ .count = 0 };
}

static void ended_add(struct session_ended *ended, const struct session *session,
                      enum session_end why)
{
    const int64_t number = ended->count++ % ended->capacity;
    struct session_ended_entry *entry = &ended->all[number];
    ended->hashes[number] = hash_of(session->id);
    text_copy(entry->id, sizeof entry->id, session->id);
    text_copy(entry->account, sizeof entry->account, session_owner(session));
    entry->ending = (struct session_ending){ why, why == SESSION_MOVED ? session->moved_to : NULL };
}

/* The last one of that id and name of a key; NULL: there is none. */
static struct session_ended_entry *ended_find(const struct session_ended *ended, const char *id,
                                              const char *account)
{
    const uint32_t hash = hash_of(id);
    const int64_t oldest = ended->count > ended->capacity ? ended->count - ended->capacity : 0;
    for (int64_t i = ended->count - 1; i >= oldest; i--) {
        const int64_t number = i % ended->capacity;
        if (ended->hashes[number] == hash && strcmp(ended->all[number].id, id) == 0
            && strcmp(ended->all[number].account, account) == 0)
            return &ended->all[number];
    }
    return NULL;
}

/* One that has moved had lived after all of its id that ended. */
struct session_ending session_ended_why(const struct session_store *store, const char *id,
                                        const char *account)
{
    const struct session_ended_entry *entry = ended_find(&store->moved, id, account);
    if (!entry)
        entry = ended_find(&store->ended, id, account);
    return entry ? entry->ending : (struct session_ending){ .why = SESSION_LIVES };
}

void session_ended_forget_moved(struct session_store *store, const struct session *session)
{
    struct session_ended_entry *entry =
        ended_find(&store->moved, session->id, session_owner(session));
    if (entry)
        entry->id[0] = '\0';
}

const char *session_ended_next(const struct session_ended *ended, const char *id, int64_t *next)
{
    const uint32_t hash = hash_of(id);
    const int64_t end = ended->count < ended->capacity ? ended->count : ended->capacity;
    while (*next < end) {
        const int64_t number = (*next)++;
        if (ended->hashes[number] == hash && strcmp(ended->all[number].id, id) == 0)
            return ended->all[number].account;
    }
    return NULL;
}

static bool moved_fault(const char *id, const struct fault_place *place, struct fault *fault)
{
    fault_set(fault, FAULT_MOVED, "session '%.64s' has moved to %s%s%s%s: send the request there",
              id, place->url, place->replica[0] ? " (replica '" : "", place->replica,
              place->replica[0] ? "')" : "");
    fault->place = place;
    return false;
}

bool session_ended_fault(const char *id, const struct session_ending *ending, struct fault *fault)
{
    if (ending->why == SESSION_MOVED)
        return moved_fault(id, ending->place, fault);
    static const char *const WORDS[] = {
        [SESSION_LIVES] = "has ended",
        [SESSION_DELETED] = "was deleted",
        [SESSION_EXPIRED] = "has expired: nobody used it for its ttl",
        [SESSION_EVICTED] = "was evicted: memory was short, and it was made evictable",
    };
    return fault_set(fault, FAULT_GONE, "session '%.64s' %s; make a new one", id,
                     WORDS[ending->why]);
}

/* ------------------------------------------------------------------- their places -- */

const char *session_owner(const struct session *session)
{
    return session->account ? session->account->name : "";
}

const char *session_owner_of_key(const struct access_key *key)
{
    return key ? key->account->name : "";
}

int session_store_compare(const void *a, const void *b)
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
    void *node = tfind(&wanted, &store->by_id, session_store_compare);
    return node ? *(struct session **)node : NULL;
}

bool session_is_expired(const struct session *session, int64_t now_ns)
{
    return now_ns - atomic_load(&session->used_ns) >= session->ttl_ns
           && atomic_load(&session->holders) == 1;
}

void session_store_take_from_place(struct session_store *store, struct session *session)
{
    tdelete(session, &store->by_id, session_store_compare);
    session_places_take_out(&store->places, session);
    if (session->account)
        session->account->sessions--;
    metrics_gauge_add(METRICS_SESSIONS, -1);
}

void session_store_take_out(struct session_store *store, struct session *session,
                            enum session_end why)
{
    ended_add(why == SESSION_MOVED ? &store->moved : &store->ended, session, why);
    atomic_store(&session->end, (int)why);
    session_store_take_from_place(store, session);
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

/* -------------------------------------------------------------------- their files -- */

static bool remove_file(const char *path, struct fault *fault)
{
    const char *slash = strrchr(path, '/');
    char *directory = strndup(path, (size_t)(slash - path));
    if (!directory)
        return fault_no_memory(fault);
    const struct file_folder folder = { directory, SESSION_FILE_WORDS, SESSION_FILE_MODE };
    const bool removed = file_save_remove(&folder, path, fault);
    free(directory);
    return removed;
}

/* Calls of a session take turns, but it may end meanwhile: who takes the path removes the file. */
bool session_store_remove_file(struct session *session, struct fault *fault)
{
    char *path = atomic_exchange(&session->saved, NULL);
    if (!path)
        return true;
    if (!remove_file(path, fault)) {
        atomic_store(&session->saved, path);
        return false;
    }
    free(path);
    return true;
}

static void log_kept(const char *id, const struct fault *fault)
{
    log_line(LOG_WARNING, "session's file not removed", LOG_STRING("session", id),
             LOG_STRING("reason", fault->message));
}

struct session_unloaded {
    LIST_LINK(struct session_unloaded) in_store;
    char *id, *owner, *path;
};

static void unloaded_free(struct session_unloaded *file)
{
    free(file->id);
    free(file->owner);
    free(file->path);
    free(file);
}

bool session_store_add_unloaded(struct session_store *store, const char *id, const char *owner,
                                const char *path)
{
    struct session_unloaded *file = calloc(1, sizeof *file);
    if (!file)
        return false;
    *file =
        (struct session_unloaded){ .id = strdup(id), .owner = strdup(owner), .path = strdup(path) };
    if (!file->id || !file->owner || !file->path) {
        unloaded_free(file);
        return false;
    }
    pthread_mutex_lock(&store->mutex);
    LIST_APPEND(&store->unloaded, file, in_store);
    pthread_mutex_unlock(&store->mutex);
    return true;
}

void session_store_drop_unloaded(struct session_store *store, const struct session *session)
{
    LIST_OF(struct session_unloaded) dropped = { .first = NULL };
    struct fault fault;
    pthread_mutex_lock(&store->mutex);
    for (struct session_unloaded *file = store->unloaded.first, *next; file; file = next) {
        next = file->in_store.next;
        if (strcmp(file->id, session->id) != 0 || strcmp(file->owner, session_owner(session)) != 0)
            continue;
        LIST_TAKE_OUT(&store->unloaded, file, in_store);
        LIST_APPEND(&dropped, file, in_store);
    }
    pthread_mutex_unlock(&store->mutex);
    for (struct session_unloaded *file = dropped.first, *next; file; file = next) {
        next = file->in_store.next;
        if (!remove_file(file->path, &fault))
            log_kept(session->id, &fault);
        unloaded_free(file);
    }
}

void session_store_free_unloaded(struct session_store *store)
{
    for (struct session_unloaded *file = store->unloaded.first, *next; file; file = next) {
        next = file->in_store.next;
        unloaded_free(file);
    }
}

void session_store_let_go(struct session_store *store, struct session *first)
{
    struct fault fault;
    for (struct session *next; first; first = next) {
        next = first->next;
        if (!session_store_remove_file(first, &fault))
            log_kept(first->id, &fault);
        session_store_drop_unloaded(store, first);
        session_release(first);
    }
}

/* -------------------------------------------------------------- which are evicted -- */

/* In a page, ending and bytes_ending are 0 but while sessions are chosen. */

static void pages_forget(struct session *session)
{
    for (int64_t i = 0; i < session->layer_count; i++)
        for (int64_t p = 0; p < session->layers[i].rows.part_count; p++) {
            struct session_page *page = session->layers[i].rows.parts[p].page;
            page->ending = 0;
            page->bytes_ending = 0;
        }
}

/* Bytes that are freed when this session ends, too. */
static size_t pages_add(struct session *session)
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
static size_t pages_take_back(struct session *session)
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

/* Sessions that were left out of the store's places for a while, joined by next. */
static void let_in(struct session_places *places, struct session *first)
{
    for (; first; first = first->next)
        session_places_let_in(places, first);
}

/* The least recently used of those that are evictable and that nobody holds, left out; NULL: there
 * is none. Those that are held are left out too, and put before *held. */
static struct session *next_candidate(struct session_places *places, struct session **held)
{
    struct session *session;
    while ((session = session_places_unused(places))) {
        session_places_pass(places, session);
        if (atomic_load(&session->holders) == 1)
            return session;
        session->next = *held;
        *held = session;
    }
    return NULL;
}

/* Takes back those of the tried sessions, the last one first, without which enough is freed.
 * Returns the others, and joins these to *spared. */
static struct session *choose(struct session *tried, size_t freed, size_t bytes,
                              struct session **spared)
{
    const bool is_enough = freed >= bytes;
    struct session *chosen = NULL;
    for (struct session *session = tried, *next; session; session = next) {
        next = session->next;
        const size_t own = pages_take_back(session);
        const bool is_needed = is_enough && freed - own < bytes;
        struct session **list = is_needed ? &chosen : spared;
        if (is_needed)
            pages_add(session);
        else
            freed -= own;
        session->next = *list;
        *list = session;
    }
    return chosen;
}

/* Chooses among sessions that nobody holds but the store, under its mutex: the least recently used
 * ones whose end frees so many bytes, without those whose end frees none of them. A page that they
 * share counts once, and one that another session has not at all. Returns them, joined by next;
 * NULL: all of them together would not free so many. */
static struct session *choose_evicted(struct session_places *places, size_t bytes)
{
    struct session *tried = NULL, *spared = NULL, *session;
    size_t freed = 0;
    while (freed < bytes && (session = next_candidate(places, &spared))) {
        freed += pages_add(session);
        session->next = tried;
        tried = session;
    }
    struct session *chosen = choose(tried, freed, bytes, &spared);
    for (session = chosen; session; session = session->next)
        pages_forget(session);
    let_in(places, spared);
    return chosen;
}

/* --------------------------------------------------------------------------- room -- */

struct session *session_store_spare(struct session_store *store)
{
    struct session *held = NULL, *spare = next_candidate(&store->places, &held);
    let_in(&store->places, held);
    if (spare)
        session_places_let_in(&store->places, spare);
    return spare;
}

bool session_store_evict(struct session_store *store, size_t bytes_wanted)
{
    struct session *chosen = NULL;
    pthread_mutex_lock(&store->mutex);
    const size_t used = atomic_load(&store->budget.bytes), most = store->budget.bytes_max;
    const size_t room = used < most ? most - used : 0;
    if (room < bytes_wanted)
        chosen = choose_evicted(&store->places, bytes_wanted - room);
    for (struct session *session = chosen; session; session = session->next)
        session_store_take_out(store, session, SESSION_EVICTED);
    pthread_mutex_unlock(&store->mutex);
    session_store_let_go(store, chosen);
    return room >= bytes_wanted || chosen;
}

bool session_store_make_room(struct session_store *store, size_t bytes, struct fault *fault)
{
    while (!session_budget_check(&store->budget, bytes, fault))
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
    for (int i = 0; !session_rows_begin(rows, &store->budget, count, fault); i++)
        if (!may_try_again(store, rows, i, fault))
            return false;
    fault->code = FAULT_NONE;
    return true;
}

bool session_store_count_own(struct session_store *store, struct session *session,
                             struct fault *fault)
{
    enum { TRIES = 16 };
    struct session_budget *budget = &store->budget;
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
    struct session_budget *budget = &store->budget;
    for (int i = 0; !session_rows_add_groups(rows, budget, lengths, count, fault); i++)
        if (!may_try_again(store, rows, i, fault))
            return false;
    fault->code = FAULT_NONE;
    return true;
}
