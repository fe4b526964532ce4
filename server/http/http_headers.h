/* http_headers.h - the headers of a request that attnd reads.
 *
 * They are gone through once, when they are there: looking one up by its name compares it with all
 * that came. */
#ifndef ATTND_HTTP_HEADERS_H
#define ATTND_HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

/* From the shortest name to the longest. */
#define HTTP_HEADER_MAP(X)                                                                         \
    X(HOST, "Host")                                                                                \
    X(ACCEPT, "Accept")                                                                            \
    X(COOKIE, "Cookie")                                                                            \
    X(EXPECT, "Expect")                                                                            \
    X(ORIGIN, "Origin")                                                                            \
    X(USER_AGENT, "User-Agent")                                                                    \
    X(TRACEPARENT, "traceparent")                                                                  \
    X(CONTENT_TYPE, "Content-Type")                                                                \
    X(REQUEST_ID, "X-Request-Id")                                                                  \
    X(TIMEOUT_MS, "X-Timeout-Ms")                                                                  \
    X(CONTENT_LENGTH, "Content-Length")                                                            \
    X(SEC_FETCH_DEST, "Sec-Fetch-Dest")                                                            \
    X(SEC_FETCH_MODE, "Sec-Fetch-Mode")                                                            \
    X(SEC_FETCH_SITE, "Sec-Fetch-Site")                                                            \
    X(ACCEPT_ENCODING, "Accept-Encoding")                                                          \
    X(ACCEPT_LANGUAGE, "Accept-Language")                                                          \
    X(CONTENT_ENCODING, "Content-Encoding")                                                        \
    X(TRANSFER_ENCODING, "Transfer-Encoding")                                                      \
    X(INFERENCE_LENGTH, "Inference-Header-Content-Length")

enum http_header {
#define X(name, text) HTTP_HEADER_##name,
    HTTP_HEADER_MAP(X)
#undef X
        HTTP_HEADER_COUNT
};

/* Begins as all zeros. Values are those of the first of each name, and lie where they were read. */
struct http_headers {
    const char *values[HTTP_HEADER_COUNT]; /* NULL: it did not come */
    bool is_twice[HTTP_HEADER_COUNT];
};

const char *http_header_name(enum http_header header);

/* Keeps the header if it is among those that are read. size is the name's. */
void http_headers_note(struct http_headers *headers, const char *name, size_t size,
                       const char *value);

#endif
