/* unicode_delta.h - where utf8proc's version of Unicode is not the one of the reference
 * implementation.
 *
 * Tokens must be the reference's, and it takes each property from a table of another version of
 * Unicode: normal forms and marks from 9, categories from older ones, characters of words from 16,
 * case and numbers from 16 and 17. */
#ifndef ATTND_UNICODE_DELTA_H
#define ATTND_UNICODE_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* LATER: utf8proc says that the character has the property and the reference does not know it yet,
 * or the other way round for words and numbers. FORMER: the character had the property in the
 * reference's version and has lost it since. */
enum unicode_delta {
    UNICODE_LATER_MARK, /* also of combining classes */
    UNICODE_LATER_NONSPACING,
    UNICODE_LATER_OTHER,
    UNICODE_LATER_PUNCTUATION,
    UNICODE_LATER_DECOMPOSITION,
    UNICODE_LATER_NUMERIC,
    UNICODE_LATER_WORD,
    UNICODE_FORMER_MARK,
    UNICODE_FORMER_NONSPACING,
    UNICODE_FORMER_PUNCTUATION
};

bool unicode_delta_has(enum unicode_delta delta, uint32_t code);

/* The lower case of a character whose lower case is later; the character itself for all others. */
uint32_t unicode_delta_lowercase(uint32_t code);

/* The category in Unicode 16, "Lu", of a character that has another one in Unicode 15; NULL for all
 * others. */
const char *unicode_delta_category(uint32_t code);

#endif
