/* SPDX-License-Identifier: Apache-2.0 */
/* http_headers.h - the headers of a request that attnd reads.
 *
 * The daemon goes through all headers once, when they have come. A look-up by name in libmicrohttpd
 * would compare the name with every header that came, each time. */
#ifndef ATTND_HTTP_HEADERS_H
#define ATTND_HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

/* From the shortest name to the longest. PAGE(...) is a header that the page of an allowed origin
 * may set (http_origin.h), X(...) one that the browser itself or no browser sends. */
#define HTTP_HEADER_MAP(X, PAGE)                                                                   \
    X(HOST, "Host")                                                                                \
    PAGE(ACCEPT, "Accept")                                                                         \
    X(COOKIE, "Cookie")                                                                            \
    X(EXPECT, "Expect")                                                                            \
    X(ORIGIN, "Origin")                                                                            \
    PAGE(API_KEY, "X-Api-Key")                                                                     \
    PAGE(TRACESTATE, "tracestate")                                                                 \
    X(USER_AGENT, "User-Agent")                                                                    \
    PAGE(TRACEPARENT, "traceparent")                                                               \
    PAGE(CONTENT_TYPE, "Content-Type")                                                             \
    PAGE(REQUEST_ID, "X-Request-Id")                                                               \
    PAGE(TIMEOUT_MS, "X-Timeout-Ms")                                                               \
    X(IF_NONE_MATCH, "If-None-Match")                                                              \
    PAGE(AUTHORIZATION, "Authorization")                                                           \
    X(CONTENT_LENGTH, "Content-Length")                                                            \
    X(SEC_FETCH_DEST, "Sec-Fetch-Dest")                                                            \
    X(SEC_FETCH_MODE, "Sec-Fetch-Mode")                                                            \
    X(SEC_FETCH_SITE, "Sec-Fetch-Site")                                                            \
    X(ACCEPT_ENCODING, "Accept-Encoding")                                                          \
    X(ACCEPT_LANGUAGE, "Accept-Language")                                                          \
    PAGE(CONTENT_ENCODING, "Content-Encoding")                                                     \
    X(TRANSFER_ENCODING, "Transfer-Encoding")                                                      \
    X(ASKED_METHOD, "Access-Control-Request-Method")                                               \
    PAGE(INFERENCE_LENGTH, "Inference-Header-Content-Length")                                      \
    X(ASKED_PRIVATE_NETWORK, "Access-Control-Request-Private-Network")

enum http_header {
#define X(name, text) HTTP_HEADER_##name,
    HTTP_HEADER_MAP(X, X)
#undef X
        HTTP_HEADER_COUNT
};

/* Begins as all zeros. */
struct http_headers {
    const char *values[HTTP_HEADER_COUNT]; /* of the first header of each name, where libmicrohttpd
                                              has it, or of all that are joined; NULL: none came */
    bool is_twice[HTTP_HEADER_COUNT];      /* a second header of that name came */
    bool differs[HTTP_HEADER_COUNT];       /* one came whose value is not that of the first */
    char *joined[HTTP_HEADER_COUNT];       /* malloc'd: several headers that are one list */
    bool has_no_memory;                    /* for joining them */
};

/* The name of a header as it is written in a request. */
const char *http_header_name(enum http_header header);

/* Keeps a header if its name is in the list above; size is the length of the name. Headers whose
 * value is a list are joined in their order, with commas (RFC 9110, 5.3). */
void http_headers_note(struct http_headers *headers, const char *name, size_t size,
                       const char *value);

/* Frees what was joined. */
void http_headers_clear(struct http_headers *headers);

#endif
