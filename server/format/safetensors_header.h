/* safetensors_header.h - the JSON of a safetensors header, read token by token
 * and in place.
 *
 * cJSON does not fit here: a name may hold a NUL, sizes are 64-bit integers to
 * the last bit, and a header may have 100 MB, of which a tree would be many times
 * that. So a header is copied once; strings are decoded where they stand, and
 * nothing else is stored but the keys of the objects that are open, because an
 * object may not have the same key twice. */
#ifndef ATTND_SAFETENSORS_HEADER_H
#define ATTND_SAFETENSORS_HEADER_H

#include "text/json_scan.h"

enum { HEADER_DEPTH_MAX = 127 }; /* nested arrays and objects, as in the reference parser */

/* A decoded string in the copy; a NUL byte follows it. */
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
    bool failed;
};

/* text, of size bytes, is written to and must outlive what is read from it. */
void header_scan_init(struct header_scan *scan, char *text, size_t size, struct fault *fault);
void header_scan_free(struct header_scan *scan);

/* Past an object:
 *
 *     if (!header_object_open(scan, &object))
 *         return false;
 *     while (header_object_next(scan, &object, &key))
 *         ... past its value, return false where that fails ...
 *     return !scan->failed; */
struct header_object {
    int64_t first_key;
};
bool header_object_open(struct header_scan *scan, struct header_object *object);
bool header_object_next(struct header_scan *scan, struct header_object *object,
                        struct header_string *key);

/* The same for an array; count starts as 0 and counts the elements. */
bool header_array_open(struct header_scan *scan);
bool header_array_next(struct header_scan *scan, int64_t *count);

/* Past a string. what says for the message what is expected: "a string". string NULL: the string is
 * skipped, and half of a surrogate pair in it is no fault. */
bool header_read_string(struct header_scan *scan, const char *what, struct header_string *string);

/* A whole number, 0 to 2^64-1, written without sign, fraction or exponent. */
bool header_read_u64(struct header_scan *scan, uint64_t *number);

/* Past a value of any kind. */
bool header_skip_value(struct header_scan *scan);

/* Nothing but white space follows. */
bool header_at_end(struct header_scan *scan);

bool header_string_is(const struct header_string *string, const char *text);

/* Less than, equal to or greater than 0, as strings of bytes are ordered. */
int header_string_compare(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
