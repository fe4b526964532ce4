/* capture.h - what a piece of code writes to one of the standard streams. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stddef.h>

struct capture {
    int descriptor; /* 1 or 2: the stream that is diverted */
    int saved;      /* where it went before */
    int file;
};

/* From here on descriptor (1 or 2) goes into memory. The test fails where that cannot be had. */
void capture_begin(struct capture *capture, int descriptor);

/* Puts the stream back. Returns what came, ended by NUL, to be freed; size may be NULL. */
char *capture_end(struct capture *capture, size_t *size);

#endif
