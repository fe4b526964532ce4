/* http_headers.c - see http_headers.h. */
#include "http/http_headers.h"

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

void http_headers_note(struct http_headers *headers, const char *name, size_t size,
                       const char *value)
{
    for (int i = 0; i < HTTP_HEADER_COUNT && names[i].size <= size; i++) {
        if (names[i].size != size || strncasecmp(name, names[i].text, size) != 0)
            continue;
        if (headers->values[i])
            headers->is_twice[i] = true;
        else
            headers->values[i] = value;
        return;
    }
}
