/* SPDX-License-Identifier: Apache-2.0 */
/* span_queue.c - see span_queue.h.
 *
 * The places are a ring, after D. Vyukov's bounded queue
 * (https://www.1024cores.net/home/lock-free-algorithms/queues/bounded-mpmc-queue). The turn of a
 * place says whose it is: the writer's whose number is the turn, and one later the reader's. */
#include "telemetry/span_queue.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE_BYTES = 64 };

struct place {
    _Atomic uint64_t turn;
    struct span_record record;
};

struct span_queue {
    uint64_t mask; /* places - 1 */
    struct place *places;
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t next_put;
    _Alignas(CACHE_LINE_BYTES) uint64_t next_taken; /* the reader's own */
};

struct span_queue *span_queue_create(int places)
{
    uint64_t count = 2;
    while (count < (uint64_t)places)
        count *= 2;
    struct span_queue *queue = aligned_alloc(CACHE_LINE_BYTES, sizeof *queue);
    struct place *all = calloc(count, sizeof *all);
    if (!queue || !all) {
        free(queue);
        free(all);
        return NULL;
    }
    *queue = (struct span_queue){ .mask = count - 1, .places = all };
    for (uint64_t i = 0; i < count; i++)
        atomic_init(&all[i].turn, i);
    return queue;
}

void span_queue_free(struct span_queue *queue)
{
    if (!queue)
        return;
    free(queue->places);
    free(queue);
}

/* Most records have no tracestate, so the bytes behind it are not copied. */
static void copy(struct span_record *to, const struct span_record *from)
{
    memcpy(to, from, offsetof(struct span_record, state) + strlen(from->state) + 1);
}

bool span_queue_put(struct span_queue *queue, const struct span_record *record)
{
    uint64_t number = atomic_load_explicit(&queue->next_put, memory_order_relaxed);
    struct place *place;
    for (;;) {
        place = &queue->places[number & queue->mask];
        const uint64_t turn = atomic_load_explicit(&place->turn, memory_order_acquire);
        if (turn == number
            && atomic_compare_exchange_weak_explicit(&queue->next_put, &number, number + 1,
                                                     memory_order_relaxed, memory_order_relaxed))
            break;
        if ((int64_t)(turn - number) < 0)
            return false;
        if (turn != number)
            number = atomic_load_explicit(&queue->next_put, memory_order_relaxed);
    }
    copy(&place->record, record);
    atomic_store_explicit(&place->turn, number + 1, memory_order_release);
    return true;
}

bool span_queue_is_full(struct span_queue *queue)
{
    const uint64_t number = atomic_load_explicit(&queue->next_put, memory_order_relaxed);
    struct place *place = &queue->places[number & queue->mask];
    return (int64_t)(atomic_load_explicit(&place->turn, memory_order_relaxed) - number) < 0;
}

const struct span_record *span_queue_first(struct span_queue *queue)
{
    struct place *place = &queue->places[queue->next_taken & queue->mask];
    const uint64_t turn = atomic_load_explicit(&place->turn, memory_order_acquire);
    return turn == queue->next_taken + 1 ? &place->record : NULL;
}

void span_queue_drop(struct span_queue *queue)
{
    struct place *place = &queue->places[queue->next_taken & queue->mask];
    atomic_store_explicit(&place->turn, queue->next_taken + queue->mask + 1, memory_order_release);
    queue->next_taken++;
}

int span_queue_places(const struct span_queue *queue)
{
    return (int)(queue->mask + 1);
}
