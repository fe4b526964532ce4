/* prefetch.h - rows that are needed next are called into the caches while a product is computed.
 *
 * A product waits for memory where keys and values come from farther than the second cache: what
 * the core itself foresees of six rows at a time is not enough. So each step of a product, which
 * leaves the units that load half idle, calls for one line of a list (kernels.h). One at a time:
 * more than a core has misses under way for would make it wait. */
#ifndef ATTN_PREFETCH_H
#define ATTN_PREFETCH_H

#include "kernels.h"
#include "vector.h"

enum { LINE_BYTES = 64 };

INLINE uintptr_t lines_bytes(const struct attn_upcoming *rows)
{
    return (uintptr_t)((rows->row_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
}

INLINE void begin_rows(struct attn_prefetch *prefetch)
{
    prefetch->line = (uintptr_t)prefetch->list->rows;
    prefetch->row_end = prefetch->line + lines_bytes(prefetch->list);
    prefetch->left = prefetch->list->count;
}

/* Goes on with given; nothing but resting_place is called where that is NULL or its list is empty.
 * At the end of a list step is 0, and one line is called over and over: that costs nothing, and the
 * loop needs no question. */
INLINE struct attn_prefetch begin_prefetch(const struct attn_prefetch *given,
                                           const void *resting_place)
{
    struct attn_prefetch prefetch = { .line = (uintptr_t)resting_place };

    if (given == NULL)
        return prefetch;
    if (given->line != 0)
        return *given;
    prefetch.list = given->list;
    if (prefetch.list != NULL && prefetch.list->count > 0) {
        begin_rows(&prefetch);
        prefetch.step = LINE_BYTES;
    }
    return prefetch;
}

/* For the next kernel; given may be NULL. */
INLINE void pass_prefetch(struct attn_prefetch *given, const struct attn_prefetch *prefetch)
{
    if (given != NULL)
        *given = *prefetch;
}

INLINE void next_row(struct attn_prefetch *prefetch)
{
    if (--prefetch->left > 0) {
        prefetch->row_end += (uintptr_t)prefetch->list->stride_bytes;
        prefetch->line = prefetch->row_end - lines_bytes(prefetch->list);
    } else if ((++prefetch->list)->count > 0)
        begin_rows(prefetch);
    else {
        prefetch->line -= LINE_BYTES;
        prefetch->step = 0;
    }
}

INLINE void prefetch_line(struct attn_prefetch *prefetch)
{
    __builtin_prefetch((const void *)prefetch->line, 0, 2);
    prefetch->line += prefetch->step;
    if (prefetch->line == prefetch->row_end)
        next_row(prefetch);
}

#endif
