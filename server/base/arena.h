/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that lives as long as one request and is freed in one call. */
#ifndef ATTND_ARENA_H
#define ATTND_ARENA_H

#include "base/memory_budget.h"

#include <stdbool.h>
#include <stddef.h>

struct arena {
    struct arena_block *blocks;
    size_t used;                 /* bytes handed out */
    size_t bytes_max;            /* bound of used; arena_alloc() returns NULL past it */
    bool was_over;               /* it did so */
    struct memory_share *memory; /* the request's; NULL: not counted. Set after arena_init() */
};

void arena_init(struct arena *arena, size_t bytes_max);

/* Returns size bytes, aligned to 64 and not cleared; NULL where there is no memory or bytes_max
 * would be passed. Size 0 gives a valid pointer. */
void *arena_alloc(struct arena *arena, size_t size);

/* Returns count elements of size bytes, all zero; NULL also where count * size overflows. */
void *arena_calloc(struct arena *arena, size_t count, size_t size);

/* Makes a block for size bytes, no more, that the next pieces are cut from. For an arena that stays
 * and whose size is known: it takes memory for what is in it alone. The size of each piece counts
 * as arena_rounded() says. False: no memory. */
bool arena_reserve(struct arena *arena, size_t size);
size_t arena_rounded(size_t size); /* SIZE_MAX on overflow */

/* Returns a copy of the string in the arena; NULL as arena_alloc(). */
char *arena_strdup(struct arena *arena, const char *text);

/* Makes of a lack of memory that bytes_max made a fault that does not ask the client to try again:
 * of an arena without a share, whose request is told nothing by memory_explain(). */
void arena_explain(const struct arena *arena, struct fault *fault);

/* Frees all memory of the arena, which is then empty and may be used again. NULL is taken. */
void arena_free(struct arena *arena);

#endif
