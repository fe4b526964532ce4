/* SPDX-License-Identifier: Apache-2.0 */
/* kept_store.c - a list of traces under one mutex, and the ids of those that ended.
 *
 * The budget has room for hundreds of thousands of small traces, and any client may ask for one. So
 * a trace is found by its id, and the next to end, in a number of steps like the logarithm of their
 * count; a list of them passes over entries that lie side by side. */
#include "operations/trace/kept_store.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/heap.h"
#include "base/unique_id.h"
#include "telemetry/metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Of a trace that has ended. */
struct ended {
    char id[RANDOM_ID_LENGTH + 1];
    char account[ACCESS_NAME_MAX + 1]; /* "": no keys were in use */
};

/* Of a trace that is kept. */
struct kept_entry {
    struct kept_trace *trace;
    const struct access_account *account; /* the trace's, or NULL */
};

struct kept_store {
    pthread_mutex_t mutex; /* guards all that follows */
    size_t bytes_max, bytes;
    struct kept_entry *entries; /* in no order */
    int64_t count, capacity;
    void *by_id;        /* tsearch(3) */
    struct heap by_end; /* the next to end is first */
    struct ended ended[KEPT_ENDED_MAX];
    int64_t ended_count; /* ever */
};

struct kept_store *kept_store_create(size_t bytes_max)
{
    struct kept_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    pthread_mutex_init(&store->mutex, NULL);
    store->bytes_max = bytes_max;
    return store;
}

/* ---------------------------------------------------------------- under the mutex -- */

static void show_gauges(const struct kept_store *store)
{
    metrics_gauge_set(METRICS_TRACES_KEPT, store->count);
    metrics_gauge_set(METRICS_TRACE_BYTES, (int64_t)store->bytes);
}

static const char *account_name(const struct kept_trace *kept)
{
    return kept->account ? kept->account->name : "";
}

static void give_back(struct kept_store *store, size_t bytes, struct access_account *account)
{
    store->bytes -= bytes;
    if (account) {
        account->traces--;
        account->trace_bytes -= bytes;
    }
    show_gauges(store);
}

static int compare_ids(const void *a, const void *b)
{
    const struct kept_trace *one = a, *other = b;
    return strcmp(one->id, other->id);
}

static bool ends_before(const void *a, const void *b)
{
    const struct kept_trace *one = a, *other = b;
    return one->expires_ns < other->expires_ns;
}

static int64_t *place_of(void *item)
{
    struct kept_trace *kept = item;
    return &kept->place;
}

static const struct heap_order BY_END = { ends_before, place_of };

/* The trace of that id; NULL: there is none. */
static struct kept_trace *trace_at(const struct kept_store *store, const char *id)
{
    struct kept_trace wanted = { .bytes = 0 };
    if (strlen(id) >= sizeof wanted.id)
        return NULL;
    text_copy(wanted.id, sizeof wanted.id, id);
    void *node = tfind(&wanted, &store->by_id, compare_ids);
    return node ? *(struct kept_trace **)node : NULL;
}

/* False: no memory, and nothing has changed. */
static bool put(struct kept_store *store, struct kept_trace *kept)
{
    struct kept_entry *entries =
        array_with_room(store->entries, store->count, &store->capacity, sizeof *entries);
    if (!entries)
        return false;
    store->entries = entries;
    if (!heap_reserve(&store->by_end, store->by_end.count + 1, ARRAY_CAPACITY_MIN)
        || !tsearch(kept, &store->by_id, compare_ids))
        return false;
    heap_put(&store->by_end, BY_END, kept);
    kept->number = store->count;
    entries[store->count++] = (struct kept_entry){ kept, kept->account };
    return true;
}

/* Takes a trace out and remembers its id. The caller releases it, without the mutex. */
static struct kept_trace *take_out(struct kept_store *store, struct kept_trace *kept)
{
    struct ended *ended = &store->ended[store->ended_count++ % KEPT_ENDED_MAX];
    memcpy(ended->id, kept->id, sizeof ended->id);
    text_copy(ended->account, sizeof ended->account, account_name(kept));
    tdelete(kept, &store->by_id, compare_ids);
    heap_remove(&store->by_end, BY_END, kept);
    store->entries[kept->number] = store->entries[--store->count];
    store->entries[kept->number].trace->number = kept->number;
    give_back(store, kept->bytes, kept->account);
    return kept;
}

/* Takes out one expired trace; NULL: there is none. */
static struct kept_trace *take_expired(struct kept_store *store, int64_t now_ns)
{
    struct kept_trace *first = heap_first(&store->by_end);
    return first && first->expires_ns <= now_ns ? take_out(store, first) : NULL;
}

static bool is_for(const char *account, const struct access_key *key)
{
    return access_key_may(key, ACCESS_ADMIN) || strcmp(account, key ? key->account->name : "") == 0;
}

/* NULL, with a fault: the key has no trace of this id. */
static struct kept_trace *find_kept(const struct kept_store *store, const char *id,
                                    const struct access_key *key, struct fault *fault)
{
    struct kept_trace *kept = trace_at(store, id);
    if (kept && is_for(account_name(kept), key))
        return kept;
    for (int i = 0; i < KEPT_ENDED_MAX; i++)
        if (strcmp(store->ended[i].id, id) == 0 && is_for(store->ended[i].account, key)) {
            fault_set(fault, FAULT_GONE, "trace '%.64s' has ended; trace the text again", id);
            return NULL;
        }
    fault_set(fault, FAULT_NOT_FOUND, "no trace '%.64s' is kept", id);
    return NULL;
}

/* ------------------------------------------------------------------------ the face -- */

void kept_store_free(struct kept_store *store)
{
    if (!store)
        return;
    while (store->count > 0)
        kept_trace_release(take_out(store, store->entries[0].trace));
    free(store->entries);
    heap_free(&store->by_end);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

void kept_store_sweep(struct kept_store *store, int64_t now_ns)
{
    struct kept_trace *kept;
    do {
        pthread_mutex_lock(&store->mutex);
        kept = take_expired(store, now_ns);
        pthread_mutex_unlock(&store->mutex);
        kept_trace_release(kept);
    } while (kept);
}

/* Whether the key may have one more, of so many bytes. Under the mutex. */
static bool key_takes(const struct access_key *key, size_t bytes, struct fault *fault)
{
    const int64_t count_max = key ? key->limits.traces : 0;
    const size_t bytes_max = key ? (size_t)key->limits.trace_bytes : 0;
    if (bytes_max > 0 && bytes > bytes_max)
        return fault_set_at(fault, "/keep", FAULT_TOO_LARGE,
                            "keeping this trace takes %zu bytes; the traces of '%s' may hold %zu "
                            "(trace-memory); ask for fewer layers",
                            bytes, key->account->name, bytes_max);
    if (count_max > 0 && key->account->traces >= count_max)
        return fault_set_at(fault, "/keep", FAULT_QUOTA,
                            "'%s' keeps %" PRId64 " traces, as many as it may (traces); delete "
                            "one, or wait until one ends",
                            key->account->name, key->account->traces);
    const size_t used = key ? key->account->trace_bytes : 0;
    return bytes_max == 0 || used <= bytes_max - bytes
           || fault_set_at(fault, "/keep", FAULT_QUOTA,
                           "keeping this trace takes %zu bytes; the traces of '%s' hold %zu of the "
                           "%zu that they may (trace-memory); delete one, or wait until one ends",
                           bytes, key->account->name, used, bytes_max);
}

bool kept_store_reserve(struct kept_store *store, size_t bytes, const struct access_key *key,
                        struct fault *fault)
{
    if (bytes > store->bytes_max)
        return fault_set_at(fault, "/keep", FAULT_TOO_LARGE,
                            "keeping this trace takes %zu bytes; the daemon keeps at most %zu "
                            "(--trace-memory-max); ask for fewer layers",
                            bytes, store->bytes_max);
    kept_store_sweep(store, clock_now_ns());
    pthread_mutex_lock(&store->mutex);
    const size_t used = store->bytes;
    const bool may = key_takes(key, bytes, fault);
    const bool fits = may && used <= store->bytes_max - bytes;
    if (fits)
        store->bytes += bytes;
    if (fits && key) {
        key->account->traces++;
        key->account->trace_bytes += bytes;
    }
    show_gauges(store);
    pthread_mutex_unlock(&store->mutex);
    if (fits || !may)
        return fits;
    return fault_set_at(fault, "/keep", FAULT_MEMORY,
                        "keeping this trace takes %zu bytes, and traces of %zu bytes are kept "
                        "already; the daemon keeps at most %zu (--trace-memory-max); delete one, "
                        "or wait until one ends",
                        bytes, used, store->bytes_max);
}

void kept_store_return(struct kept_store *store, size_t bytes, struct access_account *account)
{
    pthread_mutex_lock(&store->mutex);
    give_back(store, bytes, account);
    pthread_mutex_unlock(&store->mutex);
}

bool kept_store_publish(struct kept_store *store, struct kept_trace *kept, int64_t keep_ns,
                        char id[TRACE_ID_MAX + 1], struct fault *fault)
{
    kept->expires_ns = clock_now_ns() + keep_ns;
    const bool has_id = random_id_make(kept->id);
    text_copy(id, TRACE_ID_MAX + 1, kept->id);
    pthread_mutex_lock(&store->mutex);
    const bool good = has_id && put(store, kept);
    if (!good)
        give_back(store, kept->bytes, kept->account);
    show_gauges(store);
    pthread_mutex_unlock(&store->mutex);
    if (good)
        return true;
    kept_trace_release(kept);
    return fault_no_memory(fault);
}

struct kept_trace *kept_store_find(struct kept_store *store, const char *id,
                                   const struct access_key *key, struct fault *fault)
{
    kept_store_sweep(store, clock_now_ns());
    pthread_mutex_lock(&store->mutex);
    struct kept_trace *kept = find_kept(store, id, key, fault);
    if (kept)
        kept_trace_hold(kept);
    pthread_mutex_unlock(&store->mutex);
    return kept;
}

void kept_store_renew(struct kept_store *store, struct kept_trace *kept, int64_t keep_ns)
{
    pthread_mutex_lock(&store->mutex);
    if (trace_at(store, kept->id) == kept) {
        kept->expires_ns = clock_now_ns() + keep_ns;
        heap_put(&store->by_end, BY_END, kept);
    }
    pthread_mutex_unlock(&store->mutex);
}

bool kept_store_delete(struct kept_store *store, const char *id, const struct access_key *key,
                       struct fault *fault)
{
    kept_store_sweep(store, clock_now_ns());
    pthread_mutex_lock(&store->mutex);
    struct kept_trace *kept = find_kept(store, id, key, fault);
    if (kept)
        take_out(store, kept);
    pthread_mutex_unlock(&store->mutex);
    kept_trace_release(kept);
    return kept != NULL;
}

int64_t kept_store_list(struct kept_store *store, const struct access_key *key, int64_t after,
                        int64_t count, void (*visit)(void *context, const struct kept_trace *kept),
                        void *context)
{
    const bool sees_all = access_key_may(key, ACCESS_ADMIN);
    const struct access_account *own = key ? key->account : NULL;
    int64_t number = 0;
    kept_store_sweep(store, clock_now_ns());
    pthread_mutex_lock(&store->mutex);
    for (int64_t i = 0; i < store->count; i++) {
        if (!sees_all && store->entries[i].account != own)
            continue;
        if (number >= after && number - after < count)
            visit(context, store->entries[i].trace);
        number++;
    }
    pthread_mutex_unlock(&store->mutex);
    return number;
}

void kept_store_end(struct kept_store *store, const char *id)
{
    pthread_mutex_lock(&store->mutex);
    struct kept_trace *kept = trace_at(store, id);
    if (kept)
        take_out(store, kept);
    pthread_mutex_unlock(&store->mutex);
    kept_trace_release(kept);
}
