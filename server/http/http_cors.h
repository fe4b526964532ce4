/* http_cors.h - what an answer tells a browser about the page that asked (CORS, the Fetch
 * standard).
 *
 * A browser shows an answer to the page of another origin only where the answer names the origin.
 * Before most requests of such a page it asks by a preflight, an OPTIONS request with the headers
 * Origin and Access-Control-Request-Method, whether the page may send the request. */
#ifndef ATTND_HTTP_CORS_H
#define ATTND_HTTP_CORS_H

#include "http/http_headers.h"

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
