/* utf8.h - where one character of UTF-8 ends, and whether it is one. */
#ifndef ATTND_UTF8_H
#define ATTND_UTF8_H

#include <stddef.h>

/* The bytes, 1 to 4, of the well-formed character that begins at text, of which
 * size bytes may be read; 0 where there is none: no lone continuation byte, no
 * overlong form, no surrogate, nothing past U+10FFFF (RFC 3629, section 4). */
size_t utf8_character_size(const char *text, size_t size);

/* Writes the character code (not a surrogate, at most 0x10FFFF) and returns its bytes, 1 to 4. */
size_t utf8_encode(char out[4], unsigned code);

#endif
