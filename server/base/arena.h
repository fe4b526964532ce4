/* arena.h - bytes that live as long as one request, freed in one call. */
#ifndef ATTND_ARENA_H
#define ATTND_ARENA_H

#include "base/memory_budget.h"

#include <stddef.h>

struct arena {
    struct arena_block *blocks;
    size_t used;                 /* bytes handed out */
    size_t bytes_max;            /* arena_alloc() returns NULL past it */
    struct memory_share *memory; /* of the request, may be set after arena_init(); NULL: none */
};

void arena_init(struct arena *arena, size_t bytes_max);

/* size bytes aligned to 64, not cleared; NULL where there is no memory or the
 * limit is passed. size 0 gives a valid pointer. */
void *arena_alloc(struct arena *arena, size_t size);

/* The same for count elements of size bytes, all zero; NULL also on overflow. */
void *arena_calloc(struct arena *arena, size_t count, size_t size);

char *arena_strdup(struct arena *arena, const char *text);

void arena_free(struct arena *arena);

#endif
