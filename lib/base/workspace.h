/* workspace.h - divide the caller's memory into aligned parts. */
#ifndef ATTN_WORKSPACE_H
#define ATTN_WORKSPACE_H

#include "base/internal.h"

/* Return the next part of memory, count elements of size bytes: aligned; NULL if count is 0. If
 * memory is NULL, only *offset moves, so that one function both counts a workspace and lays it
 * out. */
static inline void *attn_cut(void *memory, size_t *offset, int64_t count, size_t size)
{
    void *part = memory != NULL && count > 0 ? (char *)memory + *offset : NULL;

    *offset += attn_align_up((size_t)count * size);
    return part;
}

#endif
