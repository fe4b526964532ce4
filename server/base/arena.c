/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h.
 *
 * An arena is a list of blocks. Small allocations are cut from the first block. An allocation that
 * does not fit there and is larger than half a block gets a block of exactly its size, behind the
 * first one, so that one tensor does not end the use of a block that is still half empty. Sizes are
 * counted as rounded up to the alignment, because that is the memory that they take. */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGNMENT = 64, ARENA_BLOCK_BYTES = 64 * 1024 };

struct arena_block {
    struct arena_block *next;
    char *data; /* aligned, inside the malloc'd block */
    size_t used, capacity;
};

void arena_init(struct arena *arena, size_t bytes_max)
{
    *arena = (struct arena){ .bytes_max = bytes_max };
}

/* A block with room for capacity bytes, a multiple of the alignment; in no list yet. Its memory
 * stays reserved until the share ends. */
static struct arena_block *block_create(struct memory_share *memory, size_t capacity)
{
    size_t total;
    if (__builtin_add_overflow(capacity, sizeof(struct arena_block) + ARENA_ALIGNMENT, &total))
        return NULL;
    if (!memory_reserve(memory, total))
        return NULL;
    struct arena_block *block = malloc(total);
    if (!block)
        return NULL;
    char *data = (char *)(block + 1);
    data += -(uintptr_t)data % ARENA_ALIGNMENT;
    *block = (struct arena_block){ .data = data, .capacity = capacity };
    return block;
}

static struct arena_block *block_with_room(struct arena *arena, size_t size)
{
    struct arena_block *first = arena->blocks;
    if (first && first->capacity - first->used >= size)
        return first;
    const bool large = size > ARENA_BLOCK_BYTES / 2;
    struct arena_block *block = block_create(arena->memory, large ? size : ARENA_BLOCK_BYTES);
    if (!block)
        return NULL;
    if (large && first) {
        block->next = first->next;
        first->next = block;
    } else {
        block->next = first;
        arena->blocks = block;
    }
    return block;
}

size_t arena_rounded(size_t size)
{
    size_t more;
    return __builtin_add_overflow(size, ARENA_ALIGNMENT - 1, &more) ? SIZE_MAX
                                                                    : more - more % ARENA_ALIGNMENT;
}

bool arena_reserve(struct arena *arena, size_t size)
{
    struct arena_block *block = block_create(arena->memory, size);
    if (!block)
        return false;
    block->next = arena->blocks;
    arena->blocks = block;
    return true;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    const size_t rounded = arena_rounded(size);
    if (rounded == SIZE_MAX)
        return NULL;
    if (rounded > arena->bytes_max - arena->used) {
        arena->was_over = true;
        memory_never_fits(arena->memory, arena->bytes_max);
        return NULL;
    }
    struct arena_block *block = block_with_room(arena, rounded);
    if (!block)
        return NULL;
    void *memory = block->data + block->used;
    block->used += rounded;
    arena->used += rounded;
    return memory;
}

void *arena_calloc(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    void *memory = arena_alloc(arena, total);
    if (memory)
        memset(memory, 0, total);
    return memory;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = arena_alloc(arena, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void arena_explain(const struct arena *arena, struct fault *fault)
{
    const struct memory_share over = { .never_over = arena->bytes_max };
    if (arena->was_over)
        memory_explain(&over, fault);
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    struct arena_block *block = arena->blocks;
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){ .bytes_max = arena->bytes_max };
}
