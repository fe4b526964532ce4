/* SPDX-License-Identifier: Apache-2.0 */
/* failing_malloc.c - lets the n-th allocation of a program fail.
 *
 * Not a part of the tests but a library of its own, put before a program that
 * knows nothing of it (glibc; not together with a sanitizer, which has an
 * allocator itself):
 *
 *     cc -std=c11 -D_GNU_SOURCE -shared -fPIC failing_malloc.c -o failing_malloc.so
 *     LD_PRELOAD=./failing_malloc.so FAIL_ALLOCATION=7 program
 *
 * FAIL_ALLOCATION          the number of the allocation that returns NULL with ENOMEM, from 1;
 *                          0 or not set: none. What the loader and constructors of other
 *                          libraries take before this one's constructor does not count.
 * FAIL_ALLOCATION_TIMES    how many fail from there on; 1 where it is not set.
 * FAIL_ALLOCATION_REPORT   a file to which the end of the program adds the line "COUNT FAILED";
 *                          COUNT < n says that the scenario has been through every allocation.
 *                          A program that ends by _exit() or a signal writes none.
 * FAIL_ALLOCATION_CONTROL  a file of sizeof(struct failing_malloc) bytes that is used instead of
 *                          the numbers above: see failing_malloc.h.
 *
 * A program that executes another, or itself, hands all of it on; the count begins again, except
 * with a control file. Counted are malloc, calloc, realloc, posix_memalign, aligned_alloc and
 * memalign, whoever calls them, strdup() and fopen() inside of the C library included. free() is
 * the C library's own. */
#include "failing_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* glibc's own, under the names that stay reachable behind these. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *memalign(size_t alignment, size_t size);

static struct failing_malloc from_environment;
static struct failing_malloc *_Atomic control; /* NULL until the constructor ran */

static uint64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : 0;
}

static struct failing_malloc *map_control(const char *path)
{
    struct stat status;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    if (file >= 0 && fstat(file, &status) == 0
        && status.st_size >= (off_t)sizeof(struct failing_malloc))
        bytes =
            mmap(NULL, sizeof(struct failing_malloc), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (bytes != MAP_FAILED)
        return bytes;
    /* A test that believes it is in control and is not would pass for no reason. */
    fprintf(stderr, "failing_malloc: cannot map %s\n", path);
    _exit(127);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAIL_ALLOCATION_CONTROL");
    struct failing_malloc *chosen = path ? map_control(path) : &from_environment;
    if (!path) {
        atomic_store(&chosen->fail_times, number_of("FAIL_ALLOCATION_TIMES"));
        atomic_store(&chosen->fail_first, number_of("FAIL_ALLOCATION"));
    }
    atomic_store(&control, chosen);
}

__attribute__((destructor)) static void report(void)
{
    char line[64];
    struct failing_malloc *chosen = atomic_exchange(&control, NULL);
    const char *path = getenv("FAIL_ALLOCATION_REPORT");
    if (!path || !chosen)
        return;
    const int size =
        snprintf(line, sizeof line, "%llu %llu\n", (unsigned long long)atomic_load(&chosen->count),
                 (unsigned long long)atomic_load(&chosen->failed));
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)size) != size)
        fprintf(stderr, "failing_malloc: cannot write %s\n", path);
    if (file >= 0)
        close(file);
}

/* Counts one allocation; true where it is to fail, with errno set. */
static bool fails(void)
{
    struct failing_malloc *chosen = atomic_load(&control);
    if (!chosen)
        return false;
    const uint64_t number = atomic_fetch_add(&chosen->count, 1) + 1;
    const uint64_t first = atomic_load(&chosen->fail_first);
    const uint64_t times = atomic_load(&chosen->fail_times);
    if (first == 0 || number < first || number - first >= (times ? times : 1))
        return false;
    atomic_fetch_add(&chosen->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

/* A size of 0 frees and cannot fail. */
void *realloc(void *old, size_t size)
{
    const bool frees = old && size == 0;
    return !frees && fails() ? NULL : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (alignment == 0 || alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    const int saved_errno = errno;
    void *memory = fails() ? NULL : __libc_memalign(alignment, size);
    errno = saved_errno;
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}
