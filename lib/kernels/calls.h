/* calls.h - rows that are needed next are called into the caches while a product is computed.
 *
 * A product waits for memory where keys and values come from farther than the second cache: what
 * the core itself foresees of six rows at a time is not enough. So each step of a product, which
 * leaves the units that load half idle, calls for one line of a list (kernels.h). One at a time:
 * more than a core has misses under way for would make it wait. */
#ifndef ATTN_CALLS_H
#define ATTN_CALLS_H

#include "kernels.h"
#include "vector.h"

enum { LINE_BYTES = 64 };

INLINE uintptr_t lines_bytes(const struct attn_upcoming *rows)
{
    return (uintptr_t)((rows->row_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
}

INLINE void begin_rows(struct attn_calls *calls)
{
    calls->line = (uintptr_t)calls->list->rows;
    calls->row_end = calls->line + lines_bytes(calls->list);
    calls->left = calls->list->count;
}

/* Goes on with given; nothing but resting_place is called where that is NULL or its list is empty.
 * At the end of a list step is 0, and one line is called over and over: that costs nothing, and the
 * loop needs no question. */
INLINE struct attn_calls take_up_calls(const struct attn_calls *given, const void *resting_place)
{
    struct attn_calls calls = { .line = (uintptr_t)resting_place };

    if (given == NULL)
        return calls;
    if (given->line != 0)
        return *given;
    calls.list = given->list;
    if (calls.list != NULL && calls.list->count > 0) {
        begin_rows(&calls);
        calls.step = LINE_BYTES;
    }
    return calls;
}

/* For the next kernel; given may be NULL. */
INLINE void hand_on_calls(struct attn_calls *given, const struct attn_calls *calls)
{
    if (given != NULL)
        *given = *calls;
}

INLINE void next_row(struct attn_calls *calls)
{
    if (--calls->left > 0) {
        calls->row_end += (uintptr_t)calls->list->stride_bytes;
        calls->line = calls->row_end - lines_bytes(calls->list);
    } else if ((++calls->list)->count > 0)
        begin_rows(calls);
    else {
        calls->line -= LINE_BYTES;
        calls->step = 0;
    }
}

INLINE void call_line(struct attn_calls *calls)
{
    __builtin_prefetch((const void *)calls->line, 0, 2);
    calls->line += calls->step;
    if (calls->line == calls->row_end)
        next_row(calls);
}

#endif
