/* json_scan.h - the grammar of RFC 8259, token by token.
 *
 * What json.c and json_array.c share: a place in the text, and functions that
 * move it past one token or say what is wrong there. Nothing is stored here; a
 * token is where it stands in the text. */
#ifndef ATTND_JSON_SCAN_H
#define ATTND_JSON_SCAN_H

#include "base/fault.h"

struct json_scan {
    const char *text, *end;
    const char *p; /* text <= p <= end */
    bool nonfinite_allowed;
    struct fault *fault;
};

/* Sets the fault json: what was expected, what stands at p instead, and the byte. False. */
bool json_scan_expected(struct json_scan *scan, const char *what);

/* Sets the fault json with a message of its own and the byte where at stands. False. */
bool json_scan_fail(struct json_scan *scan, const char *at, const char *message);

/* Past a string, with its quotes; p is at the first one. */
bool json_scan_string(struct json_scan *scan);

/* Messages for json_scan_fail() that more than one reader of strings has. */
#define JSON_SCAN_BAD_ESCAPE  "a string holds an escape that JSON does not have"
#define JSON_SCAN_HALF_PAIR   "half of a surrogate pair"
#define JSON_SCAN_CONTROL     "a string holds a control character"
#define JSON_SCAN_OPEN_STRING "the text ends inside a string that begins"

/* Past \uXXXX, or past two of them that are a surrogate pair; p is at the first backslash. *code is
 * the character, or a surrogate where it has no other half. False, with a fault, where X is no
 * hexadecimal digit. */
bool json_scan_unicode(struct json_scan *scan, unsigned *code);

/* Past true, false or null. Any other word at p is a fault. */
bool json_scan_literal(struct json_scan *scan);

/* Past NaN, Infinity or -Infinity, and which of them it was. Where they are not
 * allowed, or none stands here, false without a fault, and p stays. */
bool json_scan_nonfinite(struct json_scan *scan, float *value);

/* The fault for a NaN, an Infinity or a number at p that is none. False. */
bool json_scan_bad_number(struct json_scan *scan);

/* The byte at p; NUL, which is valid nowhere between tokens, at the end. */
static inline char json_scan_peek(const struct json_scan *scan)
{
    return scan->p < scan->end ? *scan->p : '\0';
}

/* p, past the four kinds of white space. */
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

/* Whether a code is half of a surrogate pair, which alone is no character. */
static inline bool json_scan_is_surrogate(unsigned code)
{
    return code >= 0xD800 && code <= 0xDFFF;
}

static inline bool json_scan_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

#endif
