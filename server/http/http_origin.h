/* http_origin.h - requests that a page in a browser makes.
 *
 * Whoever opens a page lets it send requests to whatever their machine reaches, and a daemon that
 * asks for no key would do what it is asked. A browser says who asks: Origin (RFC 6454, and the
 * Fetch standard) on what may change something, Sec-Fetch-Site (W3C, Fetch Metadata Request
 * Headers) on everything that goes to an address it trusts. No page can set these two. */
#ifndef ATTND_HTTP_ORIGIN_H
#define ATTND_HTTP_ORIGIN_H

#include "base/fault.h"

/* Headers of a request, NULL where there is none of the name. */
struct http_origin {
    const char *method;
    const char *host;
    const char *origin;
    const char *site, *mode, *dest; /* Sec-Fetch-Site, -Mode, -Dest */
    const char *user_agent, *accept_language;
};

/* False, with a fault, for a request
 *
 * - of a page of another origin: its Origin is not what Host says, or Sec-Fetch-Site is neither
 *   same-origin nor none. But opening an address in a window of its own is no such page's doing;
 * - of any page, to a Host that is a name. A name can be made to lead to this machine after the
 * page of it has been loaded (DNS rebinding), and then all is of one origin. Names that cannot are
 *   localhost and those that the daemon listens at (listen, as typed); addresses are no names. What
 *   somebody has typed (Sec-Fetch-Site: none) is no page's doing. As plain HTTP to a name has no
 *   Sec-Fetch-Site, whoever says to be Mozilla and to read a language is a browser too.
 *
 * Every other client, which sends none of these headers, is none of its business. */
bool http_origin_check(const struct http_origin *from, const char *const *listen, int listen_count,
                       struct fault *fault);

#endif
