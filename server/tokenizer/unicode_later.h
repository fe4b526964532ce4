/* unicode_later.h - where utf8proc's version of Unicode is not the one of the reference
 * implementation.
 *
 * Tokens must be the reference's, and it takes each property from a table of another version of
 * Unicode: normal forms and marks from 9, categories from older ones, characters of words from 16,
 * case and numbers from 16 and 17. "later": utf8proc says that the character has the property and
 * the reference does not know it yet, or the other way round for words, numbers and case. "former":
 * the character had the property in the reference's version and has lost it since. */
#ifndef ATTND_UNICODE_LATER_H
#define ATTND_UNICODE_LATER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool unicode_later_mark(uint32_t code); /* also of combining classes */
bool unicode_later_nonspacing(uint32_t code);
bool unicode_later_other(uint32_t code);
bool unicode_later_punctuation(uint32_t code);
bool unicode_later_decomposition(uint32_t code);
bool unicode_later_numeric(uint32_t code);
bool unicode_later_word(uint32_t code);
bool unicode_former_mark(uint32_t code);
bool unicode_former_nonspacing(uint32_t code);
bool unicode_former_punctuation(uint32_t code);

/* The lower case of a character whose lower case is later; the character itself for all others. */
uint32_t unicode_later_lowercase(uint32_t code);

/* The category in Unicode 16, "Lu", of a character that has another one in Unicode 15; NULL for all
 * others. */
const char *unicode_later_category(uint32_t code);

#endif
