/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - memory whose last byte touches an unreadable page.
 *
 * A kernel that reads or writes one element past its arguments dies at once. That is also true
 * where a sanitizer does not look: inline assembly, or a build without sanitizers. Memory of a
 * sanitized malloc has no such page, so tests of kernels use this. */
#ifndef GUARD_H
#define GUARD_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct guard_buffer {
    void *data;   /* the bytes asked for; never NULL, also for 0 bytes */
    void *base;   /* the mapping, which begins one unreadable page early */
    size_t total; /* its bytes, both guard pages counted */
};

/* bytes of memory, each byte 0xA5 (a float of about -2.9e-16). They end at the guard page. Ends
 * the program if there is no memory: no test can go on without it. */
struct guard_buffer guard_alloc(size_t bytes);

/* A zeroed buffer is fine too. */
void guard_free(struct guard_buffer *buffer);

#endif
