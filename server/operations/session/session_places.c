/* SPDX-License-Identifier: Apache-2.0 */
/* session_places.c - an array with holes and two heaps whose keys are brought up to date late. */
#include "operations/session/session_places.h"

#include "base/grow.h"

#include <assert.h>
#include <stdlib.h>

/* When it expires if it was not used since. */
static int64_t end_of(const struct session *session)
{
    int64_t end;
    return __builtin_add_overflow(session->place.used_ns, session->ttl_ns, &end) ? INT64_MAX : end;
}

static bool ends_before(const void *a, const void *b)
{
    return end_of(a) < end_of(b);
}

static int64_t *end_place(void *item)
{
    struct session *session = item;
    return &session->place.by_end;
}

static bool used_before(const void *a, const void *b)
{
    const struct session *one = a, *other = b;
    return one->place.used_ns < other->place.used_ns;
}

static int64_t *use_place(void *item)
{
    struct session *session = item;
    return &session->place.by_use;
}

static const struct heap_order BY_END = { ends_before, end_place };
static const struct heap_order BY_USE = { used_before, use_place };

void session_places_free(struct session_places *places)
{
    assert(places->count == 0);
    free(places->entries);
    heap_free(&places->by_end);
    heap_free(&places->by_use);
    *places = (struct session_places){ .count = 0 };
}

/* --------------------------------------------------------------------- the entries -- */

/* Closes the holes. */
static void pack(struct session_places *places)
{
    int64_t end = 0;
    for (int64_t i = 0; i < places->end; i++)
        if (places->entries[i].session) {
            places->entries[i].session->place.entry = end;
            places->entries[end++] = places->entries[i];
        }
    places->end = end;
}

bool session_places_put(struct session_places *places, struct session *session)
{
    if (places->end == places->capacity && places->count < places->end / 2)
        pack(places);
    struct session_entry *entries =
        array_with_room(places->entries, places->end, &places->capacity, sizeof *entries);
    if (!entries)
        return false;
    places->entries = entries;
    if (!heap_reserve(&places->by_end, places->count + 1, ARRAY_CAPACITY_MIN)
        || !heap_reserve(&places->by_use, places->count + 1, ARRAY_CAPACITY_MIN))
        return false;
    session->place = (struct session_place){ .entry = places->end, .by_end = -1, .by_use = -1 };
    entries[places->end++] = (struct session_entry){ session, session->account };
    places->count++;
    session_places_let_in(places, session);
    return true;
}

void session_places_take_out(struct session_places *places, struct session *session)
{
    session_places_pass(places, session);
    places->entries[session->place.entry] = (struct session_entry){ .session = NULL };
    places->count--;
    while (places->end > 0 && !places->entries[places->end - 1].session)
        places->end--;
}

struct session *session_places_next(const struct session_places *places, bool everybodys,
                                    const struct access_account *account, int64_t *next)
{
    while (*next < places->end) {
        const struct session_entry *entry = &places->entries[(*next)++];
        if (entry->session && (everybodys || entry->account == account))
            return entry->session;
    }
    return NULL;
}

static int compare_ages(const void *a, const void *b)
{
    const struct session_entry *one = a, *other = b;
    const int64_t age = one->session->created_ns, other_age = other->session->created_ns;
    return age < other_age ? -1 : age > other_age;
}

void session_places_sort(struct session_places *places)
{
    pack(places);
    if (places->end > 0)
        qsort(places->entries, (size_t)places->end, sizeof *places->entries, compare_ages);
    pack(places); /* numbers them anew */
}

/* ----------------------------------------------------------------------- the heaps -- */

void session_places_pass(struct session_places *places, struct session *session)
{
    heap_remove(&places->by_end, BY_END, session);
    heap_remove(&places->by_use, BY_USE, session);
}

/* There is room for all sessions in both heaps. */
void session_places_let_in(struct session_places *places, struct session *session)
{
    session->place.used_ns = atomic_load(&session->used_ns);
    heap_put(&places->by_end, BY_END, session);
    if (session->is_evictable)
        heap_put(&places->by_use, BY_USE, session);
}

void session_places_change(struct session_places *places, struct session *session)
{
    session_places_pass(places, session);
    session_places_let_in(places, session);
}

/* Whether the heaps know its last use; else they do now. */
static bool is_known(struct session_places *places, struct session *session)
{
    const int64_t used_ns = atomic_load(&session->used_ns);
    if (session->place.used_ns == used_ns)
        return true;
    session->place.used_ns = used_ns;
    heap_sift(&places->by_end, BY_END, session);
    if (session->place.by_use >= 0)
        heap_sift(&places->by_use, BY_USE, session);
    return false;
}

struct session *session_places_expired(struct session_places *places, int64_t now_ns)
{
    struct session *first;
    while ((first = heap_first(&places->by_end)) && end_of(first) <= now_ns)
        if (is_known(places, first))
            return first;
    return NULL;
}

struct session *session_places_unused(struct session_places *places)
{
    struct session *first;
    while ((first = heap_first(&places->by_use)))
        if (is_known(places, first))
            return first;
    return NULL;
}
