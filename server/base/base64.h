/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as text and back: base64 with its padding (RFC 4648, section 4). */
#ifndef ATTND_BASE64_H
#define ATTND_BASE64_H

#include "base/bytes.h"

#include <stdint.h>

/* The characters of so many bytes; SIZE_MAX on overflow. */
size_t base64_length(size_t bytes);

/* Writes base64_length(bytes.size) characters to text, without a NUL byte. */
void base64_encode(char *text, struct byte_slice bytes);

/* Decodes text to at most size / 4 * 3 bytes at out, which may be the text itself. Returns how many
 * there are; -1: text is not base64, and out may be written into. Bits of the last character that
 * belong to no byte are ignored. */
int64_t base64_decode(const char *text, size_t size, unsigned char *out);

#endif
