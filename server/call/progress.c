/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h. The places are few and fixed: a client that floods with ids takes
 * them and no memory. */
#include "call/progress.h"

#include "base/bytes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct progress {
    struct progress *next, *previous; /* of the taken places, the latest first; next also of the
                                         free ones */
    char id[PROGRESS_ID_MAX + 1];
    const struct access_account *account; /* NULL: no keys are in use */
    atomic_bool is_begun;
    _Atomic int64_t layers, of;
};

struct progress_store {
    pthread_mutex_t mutex;
    struct progress *taken, *free; /* under the mutex, as what lies in a place but its numbers */
    struct progress places[PROGRESS_MAX];
};

struct progress_store *progress_store_create(void)
{
    struct progress_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    pthread_mutex_init(&store->mutex, NULL);
    for (int i = PROGRESS_MAX - 1; i >= 0; i--) {
        store->places[i].next = store->free;
        store->free = &store->places[i];
    }
    return store;
}

void progress_store_free(struct progress_store *store)
{
    if (!store)
        return;
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

static const struct access_account *account_of(const struct access_key *key)
{
    return key ? key->account : NULL;
}

struct progress *progress_begin(struct progress_store *store, const char *id,
                                const struct access_key *key)
{
    pthread_mutex_lock(&store->mutex);
    struct progress *place = store->free;
    if (place) {
        store->free = place->next;
        text_copy(place->id, sizeof place->id, id);
        place->account = account_of(key);
        atomic_store(&place->is_begun, false);
        atomic_store(&place->layers, 0);
        atomic_store(&place->of, 0);
        place->previous = NULL;
        place->next = store->taken;
        if (store->taken)
            store->taken->previous = place;
        store->taken = place;
    }
    pthread_mutex_unlock(&store->mutex);
    return place;
}

void progress_end(struct progress_store *store, struct progress *place)
{
    if (!place)
        return;
    pthread_mutex_lock(&store->mutex);
    if (place->previous)
        place->previous->next = place->next;
    else
        store->taken = place->next;
    if (place->next)
        place->next->previous = place->previous;
    place->next = store->free;
    store->free = place;
    pthread_mutex_unlock(&store->mutex);
}

void progress_start(struct progress *place)
{
    if (place)
        atomic_store(&place->is_begun, true);
}

/* Whoever asks between the two reads no more layers than there are: `of` is written first, and read
 * last. */
void progress_set(struct progress *place, int64_t layers, int64_t of)
{
    if (!place)
        return;
    atomic_store(&place->of, of);
    atomic_store(&place->layers, layers);
}

bool progress_find(struct progress_store *store, const char *id, const struct access_key *key,
                   struct progress_seen *seen, struct fault *fault)
{
    const bool is_admin = access_key_may(key, ACCESS_ADMIN);
    pthread_mutex_lock(&store->mutex);
    struct progress *place = store->taken;
    while (place
           && (strcmp(place->id, id) != 0 || !(is_admin || place->account == account_of(key))))
        place = place->next;
    if (place) {
        seen->queued = !atomic_load(&place->is_begun);
        seen->layers = atomic_load(&place->layers);
        seen->of = atomic_load(&place->of);
    }
    pthread_mutex_unlock(&store->mutex);
    return place
           || fault_set(fault, FAULT_NOT_FOUND,
                        "no request with the id '%.128s' is computed; it has ended, or its "
                        "X-Request-Id was another",
                        id);
}
