/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - catches what a piece of code writes to one of the standard streams. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stddef.h>

struct capture {
    int descriptor; /* 1 or 2: the stream that is diverted */
    int saved;      /* where it went before */
    int file;
};

/* From here on, all writes to descriptor (1 or 2) go into memory. Fails the test if that is not
 * possible. */
void capture_begin(struct capture *capture, int descriptor);

/* Puts the stream back. Returns what was written, ended by NUL; the caller frees it. size may be
 * NULL. */
char *capture_end(struct capture *capture, size_t *size);

#endif
