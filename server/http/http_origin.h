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

/* False, with a fault, for these two kinds of requests:
 *
 * - A request from a page of another origin that is not among the allowed ones: its Origin is not
 *   what Host says, or its Sec-Fetch-Site is neither same-origin nor none. A request that opens an
 *   address in a window of its own is allowed, for no page sees its answer; and so is one that
 * opens it in a frame, where framed is true.
 * - A request from any page to a Host that is a name. An attacker can make a name of theirs lead to
 *   this machine after the browser has loaded their page from it (DNS rebinding), and then page and
 *   daemon have one origin. Three kinds of names cannot be used so, and are allowed: localhost,
 *   the names that the daemon listens at, and those that its owner names (hosts). Addresses are
 * allowed too, and so is a request that a person typed (Sec-Fetch-Site: none). A browser sends no
 * Sec-Fetch-Site with plain HTTP to a name, so a client whose User-Agent begins with Mozilla and
 * that sends Accept-Language counts as a browser too.
 *
 * A client that sends none of these headers is not checked. */
bool http_origin_check(const struct http_pages *pages, const char *method,
                       const struct http_headers *headers, bool framed, struct fault *fault);

#endif
