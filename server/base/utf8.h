/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - one character of UTF-8 (RFC 3629): whether it is well-formed, where it ends, and how it
 * is written. */
#ifndef ATTND_UTF8_H
#define ATTND_UTF8_H

#include <stddef.h>

/* Returns how many bytes, 1 to 4, the character at text has; at most size bytes are read. Returns 0
 * where no well-formed character begins there: at a lone continuation byte, an overlong form, a
 * surrogate, a code past U+10FFFF, or a character that is cut off (RFC 3629, section 4). */
size_t utf8_character_size(const char *text, size_t size);

/* Writes the character `code` (not a surrogate, at most 0x10FFFF). Returns how many bytes, 1 to 4.
 */
size_t utf8_encode(char out[4], unsigned code);

#endif
