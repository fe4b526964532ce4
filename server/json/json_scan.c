/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.c - see json_scan.h.
 *
 * Messages name a byte by its offset from the beginning of the body, counted from 0, as an editor's
 * "go to byte" and a slice in any language do. */
#include "json/json_scan.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool json_scan_fail(struct json_scan *scan, const char *at, const char *message)
{
    return fault_set(scan->fault, FAULT_JSON, "malformed JSON: %s at byte %zu", message,
                     (size_t)(at - scan->text));
}

bool json_scan_expected(struct json_scan *scan, const char *what)
{
    char message[128];
    const unsigned char got = (unsigned char)json_scan_peek(scan);
    if (scan->p == scan->end)
        snprintf(message, sizeof message, "expected %s, but the text ends", what);
    else if (got > 0x20 && got < 0x7F)
        snprintf(message, sizeof message, "expected %s, got '%c'", what, got);
    else
        snprintf(message, sizeof message, "expected %s, got 0x%02X", what, got);
    return json_scan_fail(scan, scan->p, message);
}

/* The value of four hexadecimal digits at text; -1 where they are not four such digits. */
static int read_hex4(const char *text, const char *end)
{
    int code = 0;
    if (end - text < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = text[i];
        const char lower = (char)(c | 0x20);
        if (json_scan_is_digit(c))
            code = code * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            code = code * 16 + (lower - 'a' + 10);
        else
            return -1;
    }
    return code;
}

bool json_scan_unicode(struct json_scan *scan, unsigned *code)
{
    const char *at = scan->p;
    const int high = read_hex4(at + 2, scan->end);
    if (high < 0)
        return json_scan_fail(scan, at, "\\u is not followed by four hexadecimal digits");
    *code = (unsigned)high;
    scan->p += 6;
    const bool may_pair = high >= 0xD800 && high < 0xDC00 && scan->end - scan->p >= 2
                          && memcmp(scan->p, "\\u", 2) == 0;
    const int low = may_pair ? read_hex4(scan->p + 2, scan->end) : -1;
    if (low >= 0xDC00 && low <= 0xDFFF) {
        *code = 0x10000u + ((unsigned)(high - 0xD800) << 10) + (unsigned)(low - 0xDC00);
        scan->p += 6;
    }
    return true;
}

/* Moves past an escape in a string; p is at its backslash. */
static bool scan_escape(struct json_scan *scan)
{
    const char *at = scan->p;
    const char kind = scan->end - at > 1 ? at[1] : '\0';
    if (kind == 'u') {
        unsigned code = 0;
        if (!json_scan_unicode(scan, &code))
            return false;
        if (code == 0 && !scan->nul_allowed)
            return json_scan_fail(scan, at, "\\u0000 is not taken: names and values end at a NUL");
        return !json_scan_is_surrogate(code) || json_scan_fail(scan, at, JSON_SCAN_HALF_PAIR);
    }
    if (kind == '\0' || !strchr("\"\\/bfnrt", kind))
        return json_scan_fail(scan, at, JSON_SCAN_BAD_ESCAPE);
    scan->p += 2;
    return true;
}

/* Whether any of the eight bytes is '"', '\\', below 0x20 or above 0x7F. Exact: a subtraction
 * borrows only from the byte after one that is special itself. */
static bool has_special(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    const uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
    return (((quote - ones) | (backslash - ones) | (word - ones * 0x20) | word) & tops) != 0;
}

bool json_scan_string(struct json_scan *scan)
{
    const char *begin = scan->p++;
    for (;;) {
        uint64_t word;
        while (scan->end - scan->p >= 8) {
            memcpy(&word, scan->p, sizeof word);
            if (has_special(word))
                break;
            scan->p += sizeof word;
        }
        if (scan->p == scan->end)
            return json_scan_fail(scan, begin, JSON_SCAN_OPEN_STRING);
        const unsigned char c = (unsigned char)*scan->p;
        if (c == '"') {
            scan->p++;
            return true;
        }
        if (c == '\\') {
            if (!scan_escape(scan))
                return false;
        } else if (c < 0x20) {
            return json_scan_fail(scan, scan->p, JSON_SCAN_CONTROL);
        } else {
            const size_t size = utf8_character_size(scan->p, (size_t)(scan->end - scan->p));
            if (size == 0)
                return json_scan_fail(scan, scan->p, "a string is not UTF-8");
            scan->p += size;
        }
    }
}

bool json_scan_word(struct json_scan *scan, const char *word)
{
    const size_t size = strlen(word);
    if ((size_t)(scan->end - scan->p) < size || memcmp(scan->p, word, size) != 0)
        return false;
    scan->p += size;
    return true;
}

bool json_scan_literal(struct json_scan *scan)
{
    return json_scan_word(scan, "true") || json_scan_word(scan, "false")
           || json_scan_word(scan, "null") || json_scan_expected(scan, "a value");
}

bool json_scan_nonfinite(struct json_scan *scan, float *value)
{
    if (!scan->nonfinite_allowed)
        return false;
    if (json_scan_word(scan, "NaN"))
        *value = NAN;
    else if (json_scan_word(scan, "Infinity"))
        *value = INFINITY;
    else if (json_scan_word(scan, "-Infinity"))
        *value = -INFINITY;
    else
        return false;
    return true;
}

bool json_scan_bad_number(struct json_scan *scan)
{
    struct json_scan ahead = *scan;
    float value;
    ahead.nonfinite_allowed = true;
    if (!json_scan_nonfinite(&ahead, &value))
        return json_scan_fail(scan, scan->p, "a number that JSON does not have begins");
    return json_scan_fail(scan, scan->p,
                          scan->nonfinite_allowed
                              ? "NaN and Infinity are taken only in arrays of numbers, not"
                              : "NaN and Infinity are not JSON: in a mask null is -Infinity, and "
                                "tensors as bytes hold any number;");
}
