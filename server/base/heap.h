/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h - binary heaps of pointers. Each item keeps its place in the heap, so an item whose key
 * has changed is moved, and any item is taken out, in a number of steps like the logarithm of the
 * count.
 *
 * The functions are inline, so that those of a constant struct heap_order are inlined in them.
 * Heaps borrow their items; callers hold the locks. A zeroed heap is empty. */
#ifndef ATTND_HEAP_H
#define ATTND_HEAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct heap {
    void **items; /* [count]; there is room for capacity; the first item goes before all others */
    int64_t count, capacity;
};

struct heap_order {
    bool (*goes_before)(const void *a, const void *b);
    int64_t *(*place)(void *item); /* where the item keeps its place; -1: it is not in the heap */
};

/* Room for count items, first at least. False: no memory, and nothing has changed. */
static inline bool heap_reserve(struct heap *heap, int64_t count, int64_t first)
{
    if (count <= heap->capacity)
        return true;
    const int64_t capacity = count < first ? first : 2 * count;
    void **items = reallocarray(heap->items, (size_t)capacity, sizeof(void *));
    if (!items)
        return false;
    heap->items = items;
    heap->capacity = capacity;
    return true;
}

static inline void heap_free(struct heap *heap)
{
    free(heap->items);
    *heap = (struct heap){ 0 };
}

/* The first item; NULL: there is none. */
static inline void *heap_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->items[0] : NULL;
}

static inline void heap_place(struct heap *heap, struct heap_order order, int64_t at, void *item)
{
    heap->items[at] = item;
    *order.place(item) = at;
}

/* Moves an item of the heap up or down to its right place. */
static inline void heap_sift(struct heap *heap, struct heap_order order, void *item)
{
    int64_t at = *order.place(item);
    while (at > 0 && order.goes_before(item, heap->items[(at - 1) / 2])) {
        heap_place(heap, order, at, heap->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child + 1 < heap->count
            && order.goes_before(heap->items[child + 1], heap->items[child]))
            child++;
        if (child >= heap->count || !order.goes_before(heap->items[child], item))
            break;
        heap_place(heap, order, at, heap->items[child]);
        at = child;
    }
    heap_place(heap, order, at, item);
}

/* Puts the item at its place, also one that is in the heap already. The caller has reserved room.
 */
static inline void heap_put(struct heap *heap, struct heap_order order, void *item)
{
    if (*order.place(item) < 0)
        heap_place(heap, order, heap->count++, item);
    heap_sift(heap, order, item);
}

/* Has no effect on an item that is not in the heap. */
static inline void heap_remove(struct heap *heap, struct heap_order order, void *item)
{
    const int64_t at = *order.place(item);
    if (at < 0)
        return;
    *order.place(item) = -1;
    void *last = heap->items[--heap->count];
    if (last != item) {
        heap_place(heap, order, at, last);
        heap_sift(heap, order, last);
    }
}

#endif
