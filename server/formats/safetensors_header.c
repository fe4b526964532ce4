/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_header.c - see safetensors_header.h.
 *
 * json_scan.h reads the tokens that need no decoding. The caller has checked that the whole header
 * is UTF-8, so a byte above 0x7F here is simply a part of a string. */
#include "formats/safetensors_header.h"

#include "base/grow.h"
#include "base/utf8.h"
#include "json/json_numbers.h"

#include <stdlib.h>
#include <string.h>

/* A key of an open object, by its place in the text. A header has at most 100 MB, so 32 bits do. */
struct header_key {
    uint32_t offset, length;
};

void header_scan_init(struct header_scan *scan, char *text, size_t size, struct fault *fault)
{
    *scan = (struct header_scan){
        .json = { .text = text, .end = text + size, .p = text, .fault = fault },
    };
}

void header_scan_free(struct header_scan *scan)
{
    free(scan->keys);
    scan->keys = NULL;
}

static bool expected(struct header_scan *scan, const char *what)
{
    scan->failed = true;
    return json_scan_expected(&scan->json, what);
}

static bool fail(struct header_scan *scan, const char *at, const char *message)
{
    scan->failed = true;
    return json_scan_fail(&scan->json, at, message);
}

/* Moves past white space and c; false where another character follows the white space. */
static bool take(struct header_scan *scan, char c)
{
    json_scan_space(&scan->json);
    if (json_scan_peek(&scan->json) != c || scan->json.p == scan->json.end)
        return false;
    scan->json.p++;
    return true;
}

/* ---------------------------------------------------------------- strings -- */

bool header_string_is(const struct header_string *string, const char *text)
{
    return string->length == strlen(text) && memcmp(string->bytes, text, string->length) == 0;
}

int header_string_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

/* Decodes \uXXXX, or two of them that are a surrogate pair, at p. Half of a pair is not a
 * character; a string that is skipped may contain one, and no byte is written for it. */
static bool decode_unicode(struct header_scan *scan, bool is_skipped, char **out)
{
    const char *at = scan->json.p;
    unsigned code;
    if (!json_scan_unicode(&scan->json, &code)) {
        scan->failed = true;
        return false;
    }
    if (json_scan_is_surrogate(code))
        return is_skipped || fail(scan, at, JSON_SCAN_HALF_PAIR);
    *out += utf8_encode(*out, code);
    return true;
}

static bool decode_escape(struct header_scan *scan, bool is_skipped, char **out)
{
    static const char LETTERS[] = "\"\\/bfnrt", BYTES[] = "\"\\/\b\f\n\r\t";
    struct json_scan *json = &scan->json;
    const char kind = json->end - json->p > 1 ? json->p[1] : '\0';
    if (kind == 'u')
        return decode_unicode(scan, is_skipped, out);
    const char *letter = kind ? strchr(LETTERS, kind) : NULL;
    if (!letter)
        return fail(scan, json->p, JSON_SCAN_BAD_ESCAPE);
    *(*out)++ = BYTES[letter - LETTERS];
    json->p += 2;
    return true;
}

/* The decoded string is never longer than its text, so it is written over the text, with a NUL byte
 * over the closing quote at the latest. */
bool header_read_string(struct header_scan *scan, const char *what, struct header_string *string)
{
    struct json_scan *json = &scan->json;
    if (!take(scan, '"'))
        return expected(scan, what);
    char *const begin = (char *)json->p;
    char *out = begin;
    while (json->p < json->end && *json->p != '"') {
        if ((unsigned char)*json->p < 0x20)
            return fail(scan, json->p, JSON_SCAN_CONTROL);
        if (*json->p != '\\')
            *out++ = *json->p++;
        else if (!decode_escape(scan, !string, &out))
            return false;
    }
    if (json->p == json->end)
        return fail(scan, begin - 1, JSON_SCAN_OPEN_STRING);
    json->p++;
    *out = '\0';
    if (string)
        *string = (struct header_string){ begin, (size_t)(out - begin) };
    return true;
}

/* ---------------------------------------------------------------- numbers -- */

bool header_read_u64(struct header_scan *scan, uint64_t *number)
{
    static const char WHAT[] = "a whole number without sign, fraction or exponent";
    struct json_scan *json = &scan->json;
    json_scan_space(json);
    const char *begin = json->p;
    if (!json_scan_is_digit(json_scan_peek(json)))
        return expected(scan, WHAT);
    uint64_t value = 0;
    while (json_scan_is_digit(json_scan_peek(json)) && (json->p == begin || *begin != '0')) {
        if (__builtin_mul_overflow(value, 10, &value)
            || __builtin_add_overflow(value, (uint64_t)(*json->p - '0'), &value))
            return fail(scan, begin, "a number is not below 2^64");
        json->p++;
    }
    const char next = json_scan_peek(json);
    if (json_scan_is_digit(next) || next == '.' || next == 'e' || next == 'E')
        return fail(scan, begin, "a size must be a whole number without fraction or exponent;");
    *number = value;
    return true;
}

/* ----------------------------------------------------- arrays and objects -- */

static bool open_bracket(struct header_scan *scan, char bracket, const char *what)
{
    if (!take(scan, bracket))
        return expected(scan, what);
    if (++scan->depth > HEADER_DEPTH_MAX)
        return fail(scan, scan->json.p - 1, "nested deeper than 127");
    return true;
}

bool header_array_open(struct header_scan *scan)
{
    return open_bracket(scan, '[', "an array");
}

bool header_array_next(struct header_scan *scan, int64_t *count)
{
    if (take(scan, ']')) {
        scan->depth--;
        return false;
    }
    if (*count > 0 && !take(scan, ','))
        return expected(scan, "',' or ']'");
    (*count)++;
    return true;
}

bool header_object_open(struct header_scan *scan, struct header_object *object)
{
    object->first_key = scan->key_count;
    return open_bracket(scan, '{', "an object");
}

static bool push_key(struct header_scan *scan, const struct header_string *key)
{
    struct header_key *keys =
        array_with_room(scan->keys, scan->key_count, &scan->key_capacity, sizeof *keys);
    if (!keys) {
        scan->failed = true;
        return fault_no_memory(scan->json.fault);
    }
    scan->keys = keys;
    scan->keys[scan->key_count++] = (struct header_key){
        (uint32_t)(key->bytes - scan->json.text),
        (uint32_t)key->length,
    };
    return true;
}

static int compare_keys(const void *left, const void *right, void *text)
{
    const struct header_key *a = left, *b = right;
    return header_string_compare((const char *)text + a->offset, a->length,
                                 (const char *)text + b->offset, b->length);
}

/* Checks that the object that ends here has no key twice, and forgets its keys. */
static bool close_object(struct header_scan *scan, const struct header_object *object)
{
    const size_t count = (size_t)(scan->key_count - object->first_key);
    char *text = (char *)scan->json.text;
    scan->depth--;
    scan->key_count = object->first_key;
    if (count < 2)
        return true;
    struct header_key *keys = scan->keys + object->first_key;
    qsort_r(keys, count, sizeof *keys, compare_keys, text);
    for (size_t i = 1; i < count; i++)
        if (compare_keys(&keys[i - 1], &keys[i], text) == 0) {
            scan->failed = true;
            return fault_set(scan->json.fault, FAULT_DUPLICATE,
                             "'%.100s' stands twice in one object", text + keys[i].offset);
        }
    return true;
}

bool header_object_next(struct header_scan *scan, struct header_object *object,
                        struct header_string *key)
{
    const bool is_first = scan->key_count == object->first_key;
    if (take(scan, '}')) {
        close_object(scan, object);
        return false;
    }
    if (!is_first && !take(scan, ','))
        return expected(scan, "',' or '}'");
    if (!header_read_string(scan, "a string, the key of a member", key))
        return false;
    if (!take(scan, ':'))
        return expected(scan, "':'");
    return push_key(scan, key);
}

/* ------------------------------------------------------------- any value -- */

static bool skip_number(struct header_scan *scan)
{
    float value;
    const char *end = json_read_float(scan->json.p, scan->json.end, &value);
    if (!end)
        return expected(scan, "a value");
    scan->json.p = end;
    return true;
}

static bool skip_array(struct header_scan *scan)
{
    int64_t count = 0;
    if (!header_array_open(scan))
        return false;
    while (header_array_next(scan, &count))
        if (!header_skip_value(scan))
            return false;
    return !scan->failed;
}

static bool skip_object(struct header_scan *scan)
{
    struct header_object object;
    struct header_string key = { 0 };
    if (!header_object_open(scan, &object))
        return false;
    while (header_object_next(scan, &object, &key))
        if (!header_skip_value(scan))
            return false;
    return !scan->failed;
}

/* HEADER_DEPTH_MAX bounds the recursion. */
bool header_skip_value(struct header_scan *scan)
{
    json_scan_space(&scan->json);
    const char c = json_scan_peek(&scan->json);
    if (c == '{')
        return skip_object(scan);
    if (c == '[')
        return skip_array(scan);
    if (c == '"')
        return header_read_string(scan, "a string", NULL);
    if (c == '-' || json_scan_is_digit(c))
        return skip_number(scan);
    if (json_scan_literal(&scan->json))
        return true;
    scan->failed = true;
    return false;
}

bool header_at_end(struct header_scan *scan)
{
    json_scan_space(&scan->json);
    return scan->json.p == scan->json.end || expected(scan, "the end of the header");
}
