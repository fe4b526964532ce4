/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_header.h - the JSON of a safetensors header, read token by token and in place.
 *
 * cJSON does not fit here: a name may contain a NUL, sizes are exact 64-bit integers, and a header
 * may have 100 MB, whose tree would take many times that. So a header is copied once, and strings
 * are decoded in the copy. Beside it, only the keys of the objects that are open are stored,
 * because an object may not have a key twice. */
#ifndef ATTND_SAFETENSORS_HEADER_H
#define ATTND_SAFETENSORS_HEADER_H

#include "json/json_scan.h"

enum { HEADER_DEPTH_MAX = 127 }; /* nested arrays and objects, as in the reference parser */

/* A decoded string in the copy of the header; a NUL byte follows it. */
struct header_string {
    const char *bytes;
    size_t length;
};

struct header_key; /* private */

struct header_scan {
    struct json_scan json; /* over a copy that may be written to */
    struct header_key *keys;
    int64_t key_count, key_capacity;
    int depth;
    bool failed; /* a function has set the fault */
};

/* Begins to read text, of size bytes. Reading overwrites text, which must outlive the strings that
 * are read. */
void header_scan_init(struct header_scan *scan, char *text, size_t size, struct fault *fault);
void header_scan_free(struct header_scan *scan);

/* To read an object:
 *
 *     if (!header_object_open(scan, &object))
 *         return false;
 *     while (header_object_next(scan, &object, &key))
 *         ... read or skip the value; return false where that fails ...
 *     return !scan->failed; */
struct header_object {
    int64_t first_key;
};
bool header_object_open(struct header_scan *scan, struct header_object *object);
bool header_object_next(struct header_scan *scan, struct header_object *object,
                        struct header_string *key);

/* The same for an array; *count must start as 0 and counts the elements. */
bool header_array_open(struct header_scan *scan);
bool header_array_next(struct header_scan *scan, int64_t *count);

/* Reads a string; `what` says for the message what is expected, "a string". Where string is NULL,
 * the string is skipped, and half of a surrogate pair in it is no fault. */
bool header_read_string(struct header_scan *scan, const char *what, struct header_string *string);

/* Reads a whole number, 0 to 2^64-1, written without sign, fraction or exponent. */
bool header_read_u64(struct header_scan *scan, uint64_t *number);

/* Skips a value of any kind. */
bool header_skip_value(struct header_scan *scan);

/* Whether only white space follows; else sets a fault. */
bool header_at_end(struct header_scan *scan);

bool header_string_is(const struct header_string *string, const char *text);

/* Compares two strings of bytes: less than, equal to or greater than 0, as memcmp(). */
int header_string_compare(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
