/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - a view of bytes, and the codings that bodies are packed with. */
#ifndef ATTND_BYTES_H
#define ATTND_BYTES_H

#include <stddef.h>

/* size bytes that someone else owns. */
struct byte_slice {
    const void *data;
    size_t size;
};

/* The content codings of HTTP that the server knows (RFC 9110, section 8.4.1); see coding.h. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_COUNT };

#endif
