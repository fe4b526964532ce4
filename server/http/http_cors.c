/* http_cors.c - see http_cors.h.
 *
 * No answer has Access-Control-Allow-Credentials: a browser then sends neither its cookies nor its
 * own client certificate with a page's request, and a page that may use the daemon's keys has to
 * bring one. */
#include "http/http_cors.h"

#include <string.h>

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
