/* SPDX-License-Identifier: Apache-2.0 */
/* http_origin.c - which pages and names may ask, and what answers tell a browser of it. */
#include "http/http_origin.h"

#include "host/web_origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 256 };

static bool is(const char *header, const char *value)
{
    return header && strcmp(header, value) == 0;
}

/* ------------------------------------------------------------------ the page -- */

static bool is_browser(const struct http_headers *headers)
{
    const char *const *values = headers->values;
    const char *agent = values[HTTP_HEADER_USER_AGENT];
    return values[HTTP_HEADER_ORIGIN] || values[HTTP_HEADER_SEC_FETCH_SITE]
           || (agent && values[HTTP_HEADER_ACCEPT_LANGUAGE]
               && strncmp(agent, "Mozilla/", strlen("Mozilla/")) == 0);
}

/* Whether the request opens an address in a new window, by a link or by hand, or in a frame
 * where that is allowed. The page that has the link or the frame does not see the answer. */
static bool is_navigation(const struct http_asked *asked, const struct http_headers *headers)
{
    const char *const *values = headers->values;
    const char *dest = values[HTTP_HEADER_SEC_FETCH_DEST];
    return !values[HTTP_HEADER_ORIGIN] && is(values[HTTP_HEADER_SEC_FETCH_MODE], "navigate")
           && (!dest || is(dest, "document") || (asked->framed && is(dest, "iframe")))
           && (is(asked->method, "GET") || is(asked->method, "HEAD"));
}

/* Whether Origin names the host of the request: "http://127.0.0.1:8080" names "127.0.0.1:8080". The
 * Origin "null", of a page without an origin, names none. */
static bool origin_is_host(const char *origin, const char *host)
{
    static const char *const SCHEMES[] = { "http://", "https://" };
    for (int i = 0; i < 2 && host; i++) {
        const size_t length = strlen(SCHEMES[i]);
        if (strncasecmp(origin, SCHEMES[i], length) == 0)
            return strcasecmp(origin + length, host) == 0;
    }
    return false;
}

/* Sec-Fetch-Site goes before the comparison with Host, which a proxy may have changed. */
static bool is_own_page(const struct http_asked *asked, const struct http_headers *headers)
{
    const char *origin = headers->values[HTTP_HEADER_ORIGIN];
    const char *site = headers->values[HTTP_HEADER_SEC_FETCH_SITE];
    if (site)
        return is(site, "same-origin") || (is(site, "none") && !origin)
               || is_navigation(asked, headers);
    return !origin || origin_is_host(origin, headers->values[HTTP_HEADER_HOST]);
}

bool http_origin_varies(const struct http_pages *pages)
{
    for (int i = 0; i < pages->origin_count; i++)
        if (is(pages->origins[i], "*"))
            return false;
    return pages->origin_count > 0;
}

const char *http_origin_allowed(const struct http_pages *pages, const struct http_headers *headers)
{
    char asking[WEB_ORIGIN_BYTES], allowed[WEB_ORIGIN_BYTES];
    const char *origin = headers->values[HTTP_HEADER_ORIGIN];
    if (pages->origin_count == 0)
        return NULL;
    if (!http_origin_varies(pages))
        return "*";
    if (!origin || headers->is_twice[HTTP_HEADER_ORIGIN] || !web_origin_read(asking, origin))
        return NULL;
    for (int i = 0; i < pages->origin_count; i++)
        if (web_origin_read(allowed, pages->origins[i]) && strcmp(asking, allowed) == 0)
            return origin;
    return NULL;
}

/* ------------------------------------------------------------------ the host -- */

/* Copies the host of "host:port" or "[v6]:port", without brackets and without the zone that an
 * address of one link may have. False where there is none, or where it does not fit. */
static bool read_host(const char *text, char host[NAME_BYTES])
{
    const bool is_v6 = text[0] == '[';
    const char *begin = text + is_v6;
    const char *end = begin + strcspn(begin, is_v6 ? "]" : ": \t");
    const size_t length = strcspn(begin, is_v6 ? "%]" : ": \t");
    if (length == 0 || length >= NAME_BYTES || (is_v6 && *end != ']'))
        return false;
    end += is_v6;
    if (*end == ':')
        end += 1 + strspn(end + 1, "0123456789");
    if (end[strspn(end, " \t")])
        return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    return true;
}

static bool is_address(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

/* localhost and names under it lead to this machine alone (RFC 6761, 6.3). */
static bool is_localhost(const char *host)
{
    static const char NAME[] = "localhost";
    const size_t length = strlen(host), size = strlen(NAME);
    if (length < size || strcasecmp(host + length - size, NAME) != 0)
        return false;
    return length == size || host[length - size - 1] == '.';
}

/* The path of a Unix socket is no name of a host. */
static bool is_among(const char *host, const char *const *names, int count)
{
    char name[NAME_BYTES];
    for (int i = 0; i < count; i++)
        if (strncmp(names[i], "unix:", strlen("unix:")) != 0 && read_host(names[i], name)
            && strcasecmp(host, name) == 0)
            return true;
    return false;
}

static bool is_trusted_host(const struct http_pages *pages, const char *text)
{
    char host[NAME_BYTES];
    if (!read_host(text, host))
        return false;
    return is_address(host) || is_localhost(host) || is_among(host, pages->hosts, pages->host_count)
           || is_among(host, pages->listen, pages->listen_count);
}

bool http_origin_check(const struct http_pages *pages, const struct http_asked *asked,
                       const struct http_headers *headers, struct fault *fault)
{
    const char *host = headers->values[HTTP_HEADER_HOST];
    const char *origin = headers->values[HTTP_HEADER_ORIGIN];
    const char *site = headers->values[HTTP_HEADER_SEC_FETCH_SITE];
    const bool browser = is_browser(headers);
    if (browser && !is_own_page(asked, headers) && !http_origin_allowed(pages, headers))
        return fault_set(
            fault, FAULT_FORBIDDEN,
            "a page of another origin asks (Origin '%.80s', Sec-Fetch-Site '%.20s'); "
            "browsers are answered on pages of this address and of what --allow-origin says",
            origin ? origin : "", site ? site : "");
    if ((!browser && (asked->at_any_host || !host)) || (host && is_trusted_host(pages, host)))
        return true;
    return fault_set(fault, FAULT_FORBIDDEN,
                     "Host is '%.80s'; requests are answered at an IP address, at localhost and at "
                     "what --listen and --host say, for another name may be made to lead anywhere; "
                     "start attnd with --host NAME, also for the name that a reverse proxy sends",
                     host ? host : "");
}

/* ------------------------------------------------------- answers to pages -- */

/* No answer has Access-Control-Allow-Credentials: a browser then sends neither its cookies nor its
 * own client certificate with a page's request, and a page that may use the daemon's keys has to
 * bring one. */

/* The headers that a page may set: those that attnd reads, and the one that a balancer reads. */
#define X(name, text)
#define PAGE(name, text) ", " text
static const char ASKED[] = HTTP_HEADER_MAP(X, PAGE) ", Attnd-Replica";
#undef X
#undef PAGE

/* The headers of answers that a page may read beside those that every page may (Content-Type). */
static const char EXPOSED[] = "X-Request-Id, Attnd-Replica, Server-Timing, Retry-After, "
                              "Inference-Header-Content-Length, WWW-Authenticate, ETag, "
                              "X-Tile-Shape, X-Tile-Min, X-Tile-Max";

/* The seconds for which a browser need not ask again; none keeps an answer longer than Chromium's
 * two hours. Every request is checked all the same. */
static const char MAX_AGE[] = "7200";

bool http_cors_is_preflight(const char *method, const struct http_headers *headers)
{
    return strcmp(method, "OPTIONS") == 0 && headers->values[HTTP_HEADER_ORIGIN]
           && headers->values[HTTP_HEADER_ASKED_METHOD];
}

int http_cors_fields(struct http_field fields[HTTP_CORS_FIELDS_MAX], const char *allowed)
{
    fields[0] = (struct http_field){ "Access-Control-Allow-Origin", allowed };
    fields[1] = (struct http_field){ "Access-Control-Expose-Headers", EXPOSED };
    return 2;
}

int http_cors_preflight_fields(struct http_field fields[HTTP_CORS_FIELDS_MAX], const char *allowed,
                               const char *methods, const struct http_headers *headers)
{
    const char *private = headers->values[HTTP_HEADER_ASKED_PRIVATE_NETWORK];
    fields[0] = (struct http_field){ "Access-Control-Allow-Origin", allowed };
    fields[1] = (struct http_field){ "Access-Control-Allow-Methods", methods };
    fields[2] = (struct http_field){ "Access-Control-Allow-Headers", ASKED + strlen(", ") };
    fields[3] = (struct http_field){ "Access-Control-Max-Age", MAX_AGE };
    if (!private || strcmp(private, "true") != 0)
        return 4;
    fields[4] = (struct http_field){ "Access-Control-Allow-Private-Network", "true" };
    return 5;
}
