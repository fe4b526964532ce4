/* SPDX-License-Identifier: Apache-2.0 */
/* batch_line.c - see batch_line.h.
 *
 * A batch of a million lines has a few fields in each and a long body, so the body is passed over
 * by its strings and brackets alone. What else is wrong in it, its operation says. */
#include "batch/batch_line.h"

#include "base/utf8.h"
#include "formats/safetensors_header.h"

#include <string.h>

enum { BODY_DEPTH_MAX = 1024 };

enum { FIELD_CUSTOM_ID, FIELD_METHOD, FIELD_URL, FIELD_BODY, FIELD_COUNT };

static const char *const FIELDS[FIELD_COUNT] = { "custom_id", "method", "url", "body" };

static bool fail_field(int field, const char *message, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    fault_pointer_append(pointer, 0, FIELDS[field]);
    return fault_set_at(fault, pointer, FAULT_TYPE, "%s %s", FIELDS[field], message);
}

static bool is_utf8(const char *text, size_t size)
{
    for (size_t at = 0, step; at < size; at += step)
        if ((step = utf8_character_size(text + at, size - at)) == 0)
            return false;
    return true;
}

static bool read_string(struct header_scan *scan, int field, struct header_string *string)
{
    struct fault *fault = scan->json.fault;
    json_scan_space(&scan->json);
    if (json_scan_peek(&scan->json) != '"')
        return fail_field(field, "is no string", fault);
    if (!header_read_string(scan, "a string", string))
        return false;
    if (memchr(string->bytes, '\0', string->length))
        return fail_field(field, "has U+0000; expected text without it", fault);
    return is_utf8(string->bytes, string->length) || fail_field(field, "is not UTF-8", fault);
}

static bool read_id(struct header_scan *scan, struct batch_line *line)
{
    struct header_string string;
    if (!read_string(scan, FIELD_CUSTOM_ID, &string))
        return false;
    if (string.length == 0 || string.length > BATCH_ID_MAX)
        return fault_set_at(scan->json.fault, "/custom_id", FAULT_LENGTH,
                            "custom_id has %zu bytes; expected 1 to %d", string.length,
                            BATCH_ID_MAX);
    memcpy(line->id, string.bytes, string.length + 1);
    line->id_size = string.length;
    line->has_id = true;
    return true;
}

/* Returns p moved past what is no string and no bracket. */
static const char *pass_plain(const char *p, const char *end)
{
    static const bool STOPS[256] = {
        ['"'] = true, ['['] = true, [']'] = true, ['{'] = true, ['}'] = true
    };
    while (p < end && !STOPS[(unsigned char)*p])
        p++;
    return p;
}

/* Moves past an object, whose brackets match; p is at the first one. */
static bool pass_object(struct json_scan *scan)
{
    char open[BODY_DEPTH_MAX] = { '{' };
    int depth = 1;
    scan->p++;
    while (depth > 0) {
        scan->p = pass_plain(scan->p, scan->end);
        const char c = json_scan_peek(scan);
        if (scan->p == scan->end)
            return json_scan_expected(scan, open[depth - 1] == '{' ? "'}'" : "']'");
        if (c == '"') {
            if (!json_scan_string(scan))
                return false;
            continue;
        }
        if (c == '{' || c == '[') {
            if (depth == BODY_DEPTH_MAX)
                return json_scan_fail(scan, scan->p, "nested deeper than 1024");
            open[depth++] = c;
        } else if (c == '}' || c == ']') {
            if ((open[depth - 1] == '{') != (c == '}'))
                return json_scan_expected(scan, open[depth - 1] == '{' ? "'}'" : "']'");
            depth--;
        }
        scan->p++;
    }
    return true;
}

static bool read_body(struct header_scan *scan, struct batch_line *line)
{
    json_scan_space(&scan->json);
    const char *begin = scan->json.p;
    if (json_scan_peek(&scan->json) != '{')
        return fail_field(FIELD_BODY, "is no object", scan->json.fault);
    if (!pass_object(&scan->json))
        return false;
    line->body = (struct byte_slice){ begin, (size_t)(scan->json.p - begin) };
    return true;
}

static bool read_field(struct header_scan *scan, int field, struct batch_line *line)
{
    struct header_string string;
    if (field == FIELD_CUSTOM_ID)
        return read_id(scan, line);
    if (field == FIELD_BODY)
        return read_body(scan, line);
    if (!read_string(scan, field, &string))
        return false;
    *(field == FIELD_METHOD ? &line->method : &line->url) = string.bytes;
    return true;
}

static bool read_fields(struct header_scan *scan, struct batch_line *line)
{
    struct header_object object;
    struct header_string key;
    struct fault *fault = scan->json.fault;
    if (!header_object_open(scan, &object))
        return false;
    while (header_object_next(scan, &object, &key)) {
        int field = 0;
        while (field < FIELD_COUNT && !header_string_is(&key, FIELDS[field]))
            field++;
        if (field == FIELD_COUNT)
            return fault_set(fault, FAULT_FIELD,
                             "unknown field '%.60s'; a line has custom_id, method, url and body",
                             is_utf8(key.bytes, key.length) ? key.bytes : "?");
        if (!read_field(scan, field, line))
            return false;
    }
    return !scan->failed && header_at_end(scan);
}

bool batch_line_read(struct batch_line *line, char *text, size_t size, struct fault *fault)
{
    struct header_scan scan;
    *line = (struct batch_line){ .has_id = false };
    header_scan_init(&scan, text, size, fault);
    const bool good = read_fields(&scan, line);
    header_scan_free(&scan);
    if (!good)
        return false;
    const bool has[FIELD_COUNT] = { line->has_id, line->method != NULL, line->url != NULL,
                                    line->body.data != NULL };
    for (int i = 0; i < FIELD_COUNT; i++)
        if (!has[i])
            return fault_set(fault, FAULT_FIELD,
                             "there is no %s; a line has custom_id, method, url and body",
                             FIELDS[i]);
    return true;
}
