/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_route.c - the route of a request, found by its method and its path. */
#include "http/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

bool exchange_decode(char *out, size_t out_size, const char *piece, size_t length)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = piece[i];
        if (c == '%') {
            const int high = i + 2 < length ? hex_digit(piece[i + 1]) : -1;
            const int low = i + 2 < length ? hex_digit(piece[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || used + 1 >= out_size)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return used > 0;
}

static bool path_matches(const char *pattern, const char *path,
                         char params[ROUTE_PARAMS_MAX][EXCHANGE_PARAM_MAX])
{
    int param = 0;
    for (int i = 0; i < ROUTE_PARAMS_MAX; i++)
        params[i][0] = '\0';
    for (;;) {
        if (*pattern == '{') {
            assert(param < ROUTE_PARAMS_MAX);
            const size_t length = strcspn(path, "/");
            if (!exchange_decode(params[param++], EXCHANGE_PARAM_MAX, path, length))
                return false;
            path += length;
            pattern = strchr(pattern, '}') + 1;
        } else if (*pattern != *path) {
            return false;
        } else if (*pattern == '\0') {
            return true;
        } else {
            pattern++;
            path++;
        }
    }
}

static bool method_matches(const char *route_method, const char *method)
{
    return strcmp(route_method, method) == 0
           || (strcmp(route_method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* Adds a method to the list for Allow, unless it is there: two routes that match one path may have
 * the same method. */
static void allow_append(char *allow, size_t size, const char *method)
{
    const size_t used = strlen(allow);
    const char *more = strcmp(method, "GET") == 0 ? "GET, HEAD" : method;
    if (strstr(allow, more))
        return;
    snprintf(allow + used, size - used, "%s%s", used ? ", " : "", more);
}

static bool is_any_of(const char *path, const char *const *paths, size_t count)
{
    const size_t length = strlen(path);
    const size_t end = length > 1 && path[length - 1] == '/' ? length - 1 : length;
    for (size_t i = 0; i < count; i++)
        if (strlen(paths[i]) == end && strncmp(path, paths[i], end) == 0)
            return true;
    return false;
}

/* Where that is which other servers have at path: what probes ask for, and the pages that people
 * look for. */
static const char *say_where(const char *path)
{
    static const char *const PROBES[] = {
        "/health",  "/healthz",      "/healthcheck", "/health/live", "/health/ready", "/ping",
        "/live",    "/liveness",     "/alive",       "/ready",       "/readiness",    "/status",
        "/statusz", "/health_check", "/-/healthy",   "/-/ready",     "/up",
    };
    static const char *const PAGES[] = { "/docs", "/redoc", "/swagger", "/swagger-ui" };
    if (is_any_of(path, PROBES, sizeof PROBES / sizeof PROBES[0]))
        return "; GET /livez says that the daemon lives, and GET /readyz that it serves";
    if (is_any_of(path, PAGES, sizeof PAGES / sizeof PAGES[0]))
        return "; the reference is at /docs/calls, /docs/types and /docs/flags, and as OpenAPI at "
               "/openapi.json";
    return "";
}

void exchange_find_route(struct exchange *exchange, const struct route *routes, int route_count,
                         unsigned hidden_scopes, const char *method, const char *path)
{
    char *allow = exchange->answer.allow;
    for (int i = 0; i < route_count; i++) {
        if (!path_matches(routes[i].pattern, path, exchange->params))
            continue;
        const bool is_hidden = hidden_scopes & 1u << routes[i].scope;
        const bool is_asked = method_matches(routes[i].method, method);
        if (is_asked && is_hidden) {
            allow[0] = '\0';
            break;
        }
        if (is_hidden)
            continue;
        if (is_asked) {
            exchange->route = &routes[i];
            exchange->record.route = routes[i].metrics_index;
            allow[0] = '\0';
            return;
        }
        allow_append(allow, sizeof exchange->answer.allow, routes[i].method);
    }
    if (allow[0])
        fault_set(&exchange->fault, FAULT_METHOD, "%s is not offered here; it takes %s",
                  exchange->method, allow);
    else
        fault_set(&exchange->fault, FAULT_NOT_FOUND, "there is nothing at %s%s", exchange->path,
                  say_where(path));
}

const char *exchange_model(const struct exchange *exchange)
{
    static const char MODEL[] = "{model}";
    const char *segment = exchange->route ? exchange->route->pattern : "";
    for (int i = 0; i < ROUTE_PARAMS_MAX && (segment = strchr(segment, '{')); i++, segment++)
        if (strncmp(segment, MODEL, sizeof MODEL - 1) == 0)
            return exchange->params[i];
    return NULL;
}
