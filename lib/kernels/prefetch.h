/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - prefetch rows that are needed next while a product is computed.
 *
 * A product waits for memory when keys and values come from farther away than the second cache: the
 * core's own prefetching of six rows at a time is not enough. So each step of a product, whose load
 * units are half idle, prefetches one line of a list (kernels.h). Only one line per step: more
 * misses than a core can have in flight would make it wait. */
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

/* Continue with given. If it is NULL or its list is empty, prefetch only idle_line. At the end of a
 * list step becomes 0 and the same line is prefetched again and again: that costs nothing and saves
 * a test in the loop. */
INLINE struct attn_prefetch begin_prefetch(const struct attn_prefetch *given, const void *idle_line)
{
    struct attn_prefetch prefetch = { .line = (uintptr_t)idle_line };

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

/* Hand the progress to the next kernel; given may be NULL. */
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
    __builtin_prefetch((const void *)prefetch->line, 0, 3);
    prefetch->line += prefetch->step;
    if (prefetch->line == prefetch->row_end)
        next_row(prefetch);
}

#endif
