/* SPDX-License-Identifier: Apache-2.0 */
/* http_framing.c - whether every reader of a request sees the same one (RFC 9112).
 *
 * Where a proxy and this daemon read the same bytes as different requests, a client can hide a
 * second request in the first, from the rules of the proxy or from those of the daemon.
 * libmicrohttpd 0.9.75 takes names with blanks, glues a folded line to the name of the next header,
 * ends lines at a bare line feed and values at a NUL, and tells the daemon none of this. But it
 * parses where it reads: it turns "name: value CRLF" into "name NUL value NUL NUL" in place. So the
 * places where names and values lie tell how they came, and this file checks them. Later versions
 * copy what they read, and are strict when asked (http_threads.c): with such a version this file
 * leaves out the places and checks the rest.
 *
 * It goes through the headers once, and settles all that says where a body ends. */
#include "http/http_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    LINE_END = 2,                            /* bytes of CRLF, or of the two NULs in its place */
    BEFORE_BODY_BYTES = HTTP_POOL_BYTES / 2, /* of headers; the body is read through the rest */
    RECORD_BYTES = 64,                       /* of the pool, that libmicrohttpd uses for a header */
    BESIDE_ANSWER_BYTES = HTTP_POOL_BYTES - 1536, /* the answer's headers need the rest */
};

/* A walk through the headers, or the trailers. */
struct headers {
    struct http_headers *known; /* keeps the headers that attnd reads; NULL: keeps none */
    unsigned count;
    bool in_place;     /* libmicrohttpd has left them where it read them */
    const char *next;  /* where the next line must begin; NULL: not known */
    const char *wrong; /* the first fault that was found; NULL: none */
};

/* -------------------------------------------------------------- characters -- */

enum { TOKEN = 1, HOST = 2, TARGET = 4, VALUE = 8 };

/* The classes of each character, added up:
 * - TOKEN: tchar (RFC 9110, 5.6.2);
 * - HOST: a host with its port (RFC 3986, 3.2.2 and 3.2.3);
 * - TARGET: all but control characters, blanks and '#', so that a target is one word;
 * - VALUE: the value of a field (RFC 9110, 5.5, which allows to keep DEL: no reader ends a line or
 * a value at it). An octet over 127 is of this class alone. */
static const unsigned char classes[128] = {
    /* clang-format off */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, /* 0x00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x10 */
    8, 15, 12, 9, 15, 15, 15, 15, 14, 14, 15, 15, 14, 15, 15, 12, /* 0x20 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 14, 12, 14, 12, 12, /* 0x30 */
    12, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* 0x40 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 12, 14, 13, 15, /* 0x50 */
    13, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* 0x60 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 12, 13, 12, 15, 8, /* 0x70 */
    /* clang-format on */
};

/* How many characters of a text, from its beginning, are of a class; NUL is of none. */
static size_t span(const char *text, unsigned class)
{
    size_t size = 0;
    for (;; size++) {
        const unsigned char c = (unsigned char)text[size];
        if (!((c < sizeof classes ? classes[c] : VALUE) & class))
            return size;
    }
}

/* ------------------------------------------------------------------ target -- */

/* Notes the target, keeps its query and cuts it off: libmicrohttpd would parse its arguments into
 * the pool, and most routes do not read it. */
void *http_on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    struct http_thread *thread = context;
    struct http_connection *record = http_connection_of(connection);
    thread->call_count++;
    if (!record || !target)
        return NULL;
    record->dropped_max = HTTP_DROPPED_BYTES;
    record->target = target;
    record->target_size = strlen(target);
    record->target_is_word = span(target, TARGET) == record->target_size;
    char *query = memchr((char *)(uintptr_t)target, '?', record->target_size);
    record->query[0] = '\0';
    record->query_is_long = false;
    if (query) {
        const size_t size = record->target_size - (size_t)(query + 1 - target);
        record->query_is_long = size > HTTP_QUERY_BYTES;
        if (!record->query_is_long)
            memcpy(record->query, query + 1, size + 1);
        query[1] = '\0';
    }
    return NULL;
}

/* ----------------------------------------------------------------- headers -- */

/* Whether only the NUL in place of the colon, and blanks, lie between a name and its value. */
static bool lies_behind(const char *value, const char *name, size_t name_size)
{
    const char *from = name + name_size + 1;
    return value >= from && strspn(from, " \t") >= (size_t)(value - from);
}

static enum MHD_Result see_header(void *context, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
    (void)kind;
    struct headers *headers = context;
    if (!value)
        value = "";
    headers->count++;
    if (headers->known)
        http_headers_note(headers->known, name, name_size, value);
    if (headers->wrong)
        return MHD_YES;
    if (name_size == 0 || span(name, TOKEN) != name_size)
        headers->wrong = "the name of a header is not a token";
    else if (span(value, VALUE) != value_size)
        headers->wrong = "the value of a header has a control character";
    if (headers->in_place) {
        if ((headers->next && name != headers->next) || !lies_behind(value, name, name_size))
            headers->wrong = "a line is folded, has a NUL, or does not end with CRLF";
        headers->next = value + value_size + LINE_END;
    }
    return MHD_YES;
}

/* -------------------------------------------------------------------- room -- */

/* The pool of a connection holds the headers of the request, libmicrohttpd's records of them, and
 * the headers of the answer. The body is read through the rest of the pool, so it would come a few
 * bytes at a time where little is left. */
static bool check_room(struct exchange *exchange, unsigned count, size_t bytes)
{
    const char *cookie = exchange->headers.values[HTTP_HEADER_COOKIE];
    size_t used = bytes + count * (size_t)RECORD_BYTES;
    if (cookie)
        used += strlen(cookie)
                + RECORD_BYTES
                      * (size_t)MHD_get_connection_values(exchange->connection, MHD_COOKIE_KIND,
                                                          NULL, NULL);
    exchange->has_room = used <= BESIDE_ANSWER_BYTES;
    if (!exchange->has_room)
        return fault_set(
            &exchange->fault, FAULT_HEADERS,
            "the headers are %zu bytes, %zu with %d for each of them; at most %d are taken", bytes,
            used, RECORD_BYTES, BESIDE_ANSWER_BYTES);
    if ((exchange->body_announced > 0 || exchange->is_chunked) && bytes > BEFORE_BODY_BYTES)
        return fault_set(&exchange->fault, FAULT_HEADERS,
                         "the headers are %zu bytes; before a body at most %d are taken", bytes,
                         BEFORE_BODY_BYTES);
    return true;
}

/* --------------------------------------------------------------- the whole -- */

static const char *line_is_wrong(const struct http_connection *record, const char *method,
                                 const char *path)
{
    if (method[0] == '\0' || method[span(method, TOKEN)] != '\0')
        return "the method is not a token";
    if (record->target && !record->target_is_word)
        return "the target has a blank, a control character, '#' or an octet over 127";
    if (path[0] != '/' && !(strcmp(path, "*") == 0 && strcmp(method, "OPTIONS") == 0))
        return "the target does not begin with '/'";
    return NULL;
}

/* Whether the request line is not "method target version CRLF" with one blank each between. */
static bool line_is_torn(const struct http_connection *record, const char *method, const char *path,
                         const char *version)
{
    return path != record->target || record->target != method + strlen(method) + 1
           || version != record->target + record->target_size + 1;
}

/* Whether a Host is not "host", "host:port" or "[v6]:port" (RFC 9110, 7.2). */
static bool host_is_wrong(const char *host)
{
    const bool is_v6 = host[0] == '[';
    const size_t size = span(host, HOST);
    size_t end = is_v6 + strcspn(host + is_v6, is_v6 ? "[] \t" : "[]: \t");
    if (is_v6 && host[end++] != ']')
        return true;
    if (host[end] == ':')
        end += 1 + strspn(host + end + 1, "0123456789");
    return end != size || host[size + strspn(host + size, " \t")] != '\0';
}

static bool malformed(struct exchange *exchange, const char *what)
{
    return fault_set(&exchange->fault, FAULT_HTTP, "%s", what);
}

static bool came_twice(struct exchange *exchange, enum http_header header)
{
    if (exchange->headers.is_twice[header])
        fault_set(&exchange->fault, FAULT_DUPLICATE, "%s is among the headers twice",
                  http_header_name(header));
    return exchange->headers.is_twice[header];
}

/* Whether the headers say in one way where the body ends. If they say it in two ways, the next
 * reader may take the other (RFC 9112, 6.3). Two equal lengths are refused too: a client that sends
 * two may as well send two that differ. */
static bool check_body(struct exchange *exchange, bool is_1_0)
{
    const char *transfer = exchange->headers.values[HTTP_HEADER_TRANSFER_ENCODING];
    if (came_twice(exchange, HTTP_HEADER_CONTENT_LENGTH)
        || came_twice(exchange, HTTP_HEADER_TRANSFER_ENCODING))
        return false;
    if (exchange->headers.values[HTTP_HEADER_CONTENT_LENGTH] && transfer)
        return fault_set(&exchange->fault, FAULT_CODING,
                         "the headers have a Content-Length and a Transfer-Encoding; expected one");
    if (transfer && strcasecmp(transfer, "chunked") != 0)
        return fault_set(&exchange->fault, FAULT_CODING,
                         "Transfer-Encoding is '%.64s'; expected chunked", transfer);
    if (transfer && is_1_0)
        return fault_set(&exchange->fault, FAULT_CODING,
                         "Transfer-Encoding is of HTTP/1.1, and the request is of HTTP/1.0");
    return !came_twice(exchange, HTTP_HEADER_INFERENCE_LENGTH);
}

/* Whether no header of one value came with two. Headers that are not here either change no answer
 * (User-Agent), have rules of their own (keys, traceparent), or were joined. */
static bool check_single(struct exchange *exchange)
{
    static const enum http_header SINGLE[] = {
        HTTP_HEADER_CONTENT_TYPE,          HTTP_HEADER_REQUEST_ID,     HTTP_HEADER_TIMEOUT_MS,
        HTTP_HEADER_SEC_FETCH_DEST,        HTTP_HEADER_SEC_FETCH_MODE, HTTP_HEADER_ASKED_METHOD,
        HTTP_HEADER_ASKED_PRIVATE_NETWORK,
    };
    for (size_t i = 0; i < sizeof SINGLE / sizeof SINGLE[0]; i++)
        if (exchange->headers.differs[SINGLE[i]])
            return !came_twice(exchange, SINGLE[i]);
    return !exchange->headers.has_no_memory || fault_no_memory(&exchange->fault);
}

static bool check_host(struct exchange *exchange, bool is_1_0)
{
    const char *host = exchange->headers.values[HTTP_HEADER_HOST];
    if (exchange->headers.is_twice[HTTP_HEADER_HOST])
        return malformed(exchange, "Host is among the headers twice");
    if (!host && !is_1_0)
        return malformed(exchange, "there is no Host among the headers");
    if (host && host_is_wrong(host))
        return malformed(exchange, "Host is not a host with or without a port");
    return true;
}

/* Keeps the headers that attnd reads, and notes what they say of the body. */
static void go_through(struct exchange *exchange, struct headers *headers)
{
    const char *const *values = exchange->headers.values;
    headers->known = &exchange->headers;
    MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, see_header, headers);
    /* libmicrohttpd has refused a Content-Length that is not a number. */
    if (values[HTTP_HEADER_CONTENT_LENGTH])
        exchange->body_announced = strtoull(values[HTTP_HEADER_CONTENT_LENGTH], NULL, 10);
    exchange->is_chunked = values[HTTP_HEADER_TRANSFER_ENCODING] != NULL;
}

bool http_check_framing(struct exchange *exchange, const char *method, const char *path,
                        const char *version)
{
    const struct http_connection *record = http_connection_of(exchange->connection);
    const bool in_place = exchange->thread->http->parses_in_place && record->target;
    const bool is_1_0 = strcmp(version, "HTTP/1.0") == 0;
    const size_t bytes =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
            ->header_size;
    struct headers headers = { .wrong = line_is_wrong(record, method, path), .in_place = in_place };
    if (in_place)
        headers.next = version + strlen(version) + LINE_END;
    go_through(exchange, &headers);
    if (!check_room(exchange, headers.count, bytes))
        return false;
    if (headers.wrong)
        return malformed(exchange, headers.wrong);
    if (in_place
        && (line_is_torn(record, method, path, version)
            || headers.next + LINE_END != method + bytes))
        return malformed(
            exchange, "a line of the headers has a NUL or an odd blank, or does not end with CRLF");
    return check_host(exchange, is_1_0) && !came_twice(exchange, HTTP_HEADER_ORIGIN)
           && !came_twice(exchange, HTTP_HEADER_SEC_FETCH_SITE) && check_single(exchange)
           && check_body(exchange, is_1_0);
}

bool http_check_trailers(struct exchange *exchange)
{
    struct headers trailers = { .in_place = exchange->thread->http->parses_in_place };
    if (!exchange->is_chunked)
        return true;
    MHD_get_connection_values_n(exchange->connection, MHD_FOOTER_KIND, see_header, &trailers);
    return !trailers.wrong || malformed(exchange, trailers.wrong);
}
