/* SPDX-License-Identifier: Apache-2.0 */
/* http_origin.h - requests that a page in a browser makes.
 *
 * A person who opens a page lets the page send requests to every address that the person's machine
 * reaches, and a daemon that asks for no key would serve them. The browser says where a request
 * comes from: by Origin (RFC 6454 and the Fetch standard) on requests that may change something,
 * and by Sec-Fetch-Site (W3C, Fetch Metadata Request Headers) on all requests to an address that
 * the browser trusts. A page can set neither of these two headers. */
#ifndef ATTND_HTTP_ORIGIN_H
#define ATTND_HTTP_ORIGIN_H

#include "base/fault.h"
#include "http/http_headers.h"

/* Which pages may ask, and the names at which they may. The strings are borrowed. */
struct http_pages {
    const char *const *listen; /* the addresses that the daemon listens at, as typed */
    int listen_count;
    const char *const *hosts; /* further names, with or without a port */
    int host_count;
    const char *const *origins; /* of pages; "*": of all */
    int origin_count;
};

/* The value of Access-Control-Allow-Origin for the answer to a request: "*" where the pages of all
 * origins may ask, the Origin of the request where it is among the allowed ones, else NULL. The
 * value lies with the headers. */
const char *http_origin_allowed(const struct http_pages *pages, const struct http_headers *headers);

/* Whether answers differ by the Origin of the request. */
bool http_origin_varies(const struct http_pages *pages);

/* What a request is for. */
struct http_asked {
    const char *method;
    bool framed;      /* a page of any origin may open it in a frame */
    bool at_any_host; /* a client that is no browser may come by any name: it needs a key, or the
                         answer is the same for everybody */
};

/* False, with a fault, for these two kinds of requests:
 *
 * - A request from a page of another origin that is not among the allowed ones: its Origin is not
 *   what Host says, or its Sec-Fetch-Site is neither same-origin nor none. A request that opens an
 *   address in a new window is allowed, for no page sees its answer; and so is one that
 *   opens it in a frame, where framed is true.
 * - A request to a Host that is a name. An attacker can make a name of theirs lead to this machine
 *   after the browser has loaded their page from it (DNS rebinding), and then page and daemon have
 *   one origin: the request needs no Origin, and with plain HTTP to a name no Sec-Fetch-Site, and a
 *   page may set User-Agent. So all clients are checked, whatever they look like. Three kinds of
 *   names cannot be used so, and are allowed: localhost, the names that the daemon listens at, and
 *   those that its owner names (hosts). So are addresses, and requests of HTTP/1.0 without a Host,
 *   which no browser sends.
 *
 * at_any_host spares the second check to clients that are no browsers. A client is a browser if it
 * sends Origin or Sec-Fetch-Site, or Accept-Language with a User-Agent that begins with Mozilla. */
bool http_origin_check(const struct http_pages *pages, const struct http_asked *asked,
                       const struct http_headers *headers, struct fault *fault);

/* What an answer tells a browser about the page that asked (CORS, the Fetch
 * standard).
 *
 * A browser shows an answer to the page of another origin only where the answer names the origin.
 * Before most requests of such a page it asks by a preflight, an OPTIONS request with the headers
 * Origin and Access-Control-Request-Method, whether the page may send the request. */

enum { HTTP_CORS_FIELDS_MAX = 5 };

/* A header of an answer. */
struct http_field {
    const char *name, *value;
};

/* Whether a request is a preflight. */
bool http_cors_is_preflight(const char *method, const struct http_headers *headers);

/* Fills in the fields of an answer to the page of an allowed origin, and returns their number.
 * allowed is the origin, or "*" for all; methods lists those of the path. */
int http_cors_fields(struct http_field fields[HTTP_CORS_FIELDS_MAX], const char *allowed);
int http_cors_preflight_fields(struct http_field fields[HTTP_CORS_FIELDS_MAX], const char *allowed,
                               const char *methods, const struct http_headers *headers);

#endif
