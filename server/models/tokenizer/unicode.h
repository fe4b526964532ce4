/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.h - properties of characters, by utf8proc. The only file of the room that knows it. */
#ifndef ATTND_UNICODE_H
#define ATTND_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at text, valid UTF-8 that is not empty. Returns how many bytes it has. */
static inline uint32_t unicode_decode(const char *text, uint32_t *code)
{
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80)
        return *code = b[0], 1;
    if (b[0] < 0xE0)
        return *code = (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu), 2;
    if (b[0] < 0xF0)
        return *code = (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu), 3;
    *code = (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
    return 4;
}

/* Where the character that ends before text + end begins; *code is the character. */
static inline uint32_t unicode_before(const char *text, uint32_t end, uint32_t *code)
{
    do
        end--;
    while (((unsigned char)text[end] & 0xC0) == 0x80);
    unicode_decode(text + end, code);
    return end;
}

/* How many characters valid UTF-8 has. */
static inline int64_t unicode_count(const char *text, size_t size)
{
    int64_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* The offset of the first byte that is not UTF-8; size where all is. */
size_t unicode_find_invalid(const char *text, size_t size);

bool unicode_is_whitespace(uint32_t code);  /* the property White_Space */
bool unicode_is_other(uint32_t code);       /* categories Cc, Cf, Cn, Co, Cs */
bool unicode_is_punctuation(uint32_t code); /* categories P* */
bool unicode_is_mark(uint32_t code);        /* categories M* */
bool unicode_is_nonspacing(uint32_t code);  /* category Mn */
bool unicode_is_numeric(uint32_t code);     /* categories N* */
bool unicode_is_word(uint32_t code);        /* \w of the reference: letters, marks, Nd, Pc */

/* The general category in Unicode 16, as regular expressions of the reference have it: "Lu". */
const char *unicode_category(uint32_t code);

/* Writes the lower case of a character, up to 3 characters (only U+0130 has more than one). Returns
 * how many. */
size_t unicode_lowercase(uint32_t code, uint32_t lower[3]);

/* Where a grapheme cluster ends (UAX 29, extended): whether one ends between two characters.
 * *state is 0 at the beginning of a text. */
bool unicode_grapheme_ends(uint32_t before, uint32_t after, int32_t *state);

enum { UNICODE_DECOMPOSED_MAX = 18 };

uint8_t unicode_combining_class(uint32_t code);

/* Writes the full decomposition of a character, canonical or compatible (UAX 15), in no canonical
 * order yet. Returns how many characters. */
size_t unicode_decompose(uint32_t code, bool compatible, uint32_t out[UNICODE_DECOMPOSED_MAX]);

/* The primary composite of two characters; 0: there is none. */
uint32_t unicode_compose(uint32_t first, uint32_t second);

/* Whether the character may become one with a character before it. */
bool unicode_composes_behind(uint32_t code);

#endif
