/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.h - the grammar of RFC 8259, token by token.
 *
 * A scan is a place in the text. Functions move the place past one token, or say what is wrong
 * there. They store nothing: a token is its bytes in the text. Readers of whole JSON texts
 * (json.c, safetensors_header.c) are made of them.
 *
 * A function that returns false has set the fault `json`, unless its comment says otherwise. */
#ifndef ATTND_JSON_SCAN_H
#define ATTND_JSON_SCAN_H

#include "base/fault.h"

struct json_scan {
    const char *text, *end;
    const char *p; /* text <= p <= end */
    bool nonfinite_allowed;
    bool nul_allowed; /* U+0000, escaped, in strings */
    struct fault *fault;
};

/* Sets a fault that says what was expected, what stands at p instead, and at which byte. Returns
 * false. */
bool json_scan_expected(struct json_scan *scan, const char *what);

/* Sets a fault with a message and the byte that `at` points to. Returns false. */
bool json_scan_fail(struct json_scan *scan, const char *at, const char *message);

/* Moves past a string and its quotes; p is at the first quote. */
bool json_scan_string(struct json_scan *scan);

/* Messages for json_scan_fail() that more than one reader of strings has. */
#define JSON_SCAN_BAD_ESCAPE  "a string holds an escape that JSON does not have"
#define JSON_SCAN_HALF_PAIR   "half of a surrogate pair"
#define JSON_SCAN_CONTROL     "a string holds a control character"
#define JSON_SCAN_OPEN_STRING "the text ends inside a string that begins"

/* Moves past \uXXXX, or past two of them that are a surrogate pair; p is at the first backslash.
 * *code is the character, or the surrogate where its other half is missing. False where an X is not
 * a hexadecimal digit. */
bool json_scan_unicode(struct json_scan *scan, unsigned *code);

/* Moves past the word if its bytes are at p; else it stays. */
bool json_scan_word(struct json_scan *scan, const char *word);

/* Moves past true, false or null. Any other word at p is a fault. */
bool json_scan_literal(struct json_scan *scan);

/* Moves past NaN, Infinity or -Infinity, and sets *value to it. Where they are not allowed, or none
 * stands at p, returns false without a fault and without moving. */
bool json_scan_nonfinite(struct json_scan *scan, float *value);

/* Sets the fault for a NaN or an Infinity that is not allowed at p, or for bytes there that begin
 * like a number and are none. Returns false. */
bool json_scan_bad_number(struct json_scan *scan);

/* The byte at p. At the end of the text: NUL, which is valid nowhere between tokens. */
static inline char json_scan_peek(const struct json_scan *scan)
{
    return scan->p < scan->end ? *scan->p : '\0';
}

/* Returns p moved past white space, of which JSON has four characters. */
static inline const char *json_pass_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static inline void json_scan_space(struct json_scan *scan)
{
    scan->p = json_pass_space(scan->p, scan->end);
}

/* Whether a code is half of a surrogate pair. Half of a pair is not a character. */
static inline bool json_scan_is_surrogate(unsigned code)
{
    return code >= 0xD800 && code <= 0xDFFF;
}

static inline bool json_scan_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

#endif
