/* bytes.h - bytes that lie somewhere, and how they are packed on their way. */
#ifndef ATTND_BYTES_H
#define ATTND_BYTES_H

#include <stddef.h>

struct byte_slice {
    const void *data;
    size_t size;
};

/* The codings of HTTP that are known (RFC 9110, section 8.4.1); coding.h does them. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_COUNT };

#endif
