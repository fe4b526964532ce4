/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - see guard.h.
 *
 * The kernel takes longer to map pages, to clear them at their first use and to unmap them than
 * most tests take to use them. So a freed mapping serves the next buffer of as many pages. */
#include "guard.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES_MAX = 1024, KEPT_PAGES_MAX = 16384 };

/* A freed mapping, in its first readable bytes. */
struct kept {
    struct kept *next;
};

static struct kept *kept[PAGES_MAX + 1]; /* by the pages between the guards */
static size_t kept_pages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* A freed mapping of so many pages, or NULL. */
static void *take_kept(size_t pages)
{
    struct kept *found = NULL;
    pthread_mutex_lock(&lock);
    if (pages <= PAGES_MAX && kept[pages]) {
        found = kept[pages];
        kept[pages] = found->next;
        kept_pages -= pages;
    }
    pthread_mutex_unlock(&lock);
    return found ? (char *)found - page_bytes() : NULL;
}

static bool keep(void *base, size_t pages)
{
    struct kept *freed = (void *)((char *)base + page_bytes());
    pthread_mutex_lock(&lock);
    const bool has_room = pages > 0 && pages <= PAGES_MAX && kept_pages + pages <= KEPT_PAGES_MAX;
    if (has_room) {
        freed->next = kept[pages];
        kept[pages] = freed;
        kept_pages += pages;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

static void *map(size_t total, size_t used)
{
    void *base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED
        || (used > 0 && mprotect((char *)base + page_bytes(), used, PROT_READ | PROT_WRITE) != 0)) {
        perror("guard_alloc");
        exit(1);
    }
    return base;
}

struct guard_buffer guard_alloc(size_t bytes)
{
    const size_t page = page_bytes(), pages = (bytes + page - 1) / page, used = pages * page;
    struct guard_buffer buffer = { .base = take_kept(pages), .total = used + 2 * page };
    if (!buffer.base)
        buffer.base = map(buffer.total, used);
    char *begin = (char *)buffer.base + page;
    if (used > 0)
        memset(begin, 0xA5, used);
    buffer.data = begin + used - bytes;
    return buffer;
}

void guard_free(struct guard_buffer *buffer)
{
    if (buffer->base != NULL && !keep(buffer->base, buffer->total / page_bytes() - 2))
        munmap(buffer->base, buffer->total);
    memset(buffer, 0, sizeof *buffer);
}
