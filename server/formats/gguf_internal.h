/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_internal.h - what the reader of GGUF and its values share. */
#ifndef ATTND_GGUF_INTERNAL_H
#define ATTND_GGUF_INTERNAL_H

#include "formats/gguf.h"

enum { GGUF_LENGTH_BYTES = 8 }; /* before the bytes of a string */

/* The bytes of a number; 0 for a string and an array. */
size_t gguf_number_bytes(enum gguf_type type);

/* The little-endian number in count bytes, at most 8. */
uint64_t gguf_load(const char *bytes, size_t count);

#endif
