/* SPDX-License-Identifier: Apache-2.0 */
/* http_headers.c - see http_headers.h. */
#include "http/http_headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct name {
    const char *text;
    size_t size;
} names[HTTP_HEADER_COUNT] = {
#define X(name, text) { text, sizeof(text) - 1 },
    HTTP_HEADER_MAP(X, X)
#undef X
};

const char *http_header_name(enum http_header header)
{
    return names[header].text;
}

static bool is_list(int header)
{
    return header == HTTP_HEADER_ACCEPT || header == HTTP_HEADER_ACCEPT_ENCODING
           || header == HTTP_HEADER_CONTENT_ENCODING || header == HTTP_HEADER_IF_NONE_MATCH
           || header == HTTP_HEADER_TRACESTATE;
}

static void join(struct http_headers *headers, int header, const char *value)
{
    const char *before = headers->values[header];
    char *joined;
    if (!value[0])
        return;
    if (asprintf(&joined, "%s%s%s", before, before[0] ? "," : "", value) < 0) {
        headers->has_no_memory = true;
        return;
    }
    free(headers->joined[header]);
    headers->values[header] = headers->joined[header] = joined;
}

void http_headers_note(struct http_headers *headers, const char *name, size_t size,
                       const char *value)
{
    for (int i = 0; i < HTTP_HEADER_COUNT && names[i].size <= size; i++) {
        if (names[i].size != size || strncasecmp(name, names[i].text, size) != 0)
            continue;
        if (!headers->values[i]) {
            headers->values[i] = value;
            return;
        }
        headers->is_twice[i] = true;
        if (is_list(i))
            join(headers, i, value);
        else if (strcmp(headers->values[i], value) != 0)
            headers->differs[i] = true;
        return;
    }
}

void http_headers_clear(struct http_headers *headers)
{
    for (int i = 0; i < HTTP_HEADER_COUNT; i++)
        free(headers->joined[i]);
}
