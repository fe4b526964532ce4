/* SPDX-License-Identifier: Apache-2.0 */
/* http_key.c - the key of a request, and whether it has the scope that the route asks for.
 *
 * This is settled by the head of a request. A client without a key has no byte of its body read,
 * and does not learn which paths there are or how busy the daemon is. */
#include "http/http_internal.h"

#include "access/access_key.h"
#include "access/access_keys.h"
#include "telemetry/key_metrics.h"

#include <string.h>
#include <strings.h>

#define HOW "send 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'"

/* Refuses what the headers give. No secret goes into the message: the client may log it. */
static enum access_secret_outcome find_secret(struct exchange *exchange, const char **secret,
                                              size_t *size, struct fault *fault)
{
    static const enum http_header HEADERS[] = { HTTP_HEADER_AUTHORIZATION, HTTP_HEADER_API_KEY };
    const struct http_headers *headers = &exchange->headers;
    for (int i = 0; i < 2; i++)
        if (headers->is_twice[HEADERS[i]]) {
            fault_set(fault, FAULT_KEY, "%s is among the headers twice; " HOW,
                      http_header_name(HEADERS[i]));
            return ACCESS_SECRET_REFUSED;
        }
    const enum access_secret_outcome outcome =
        access_secret_of_headers(headers->values[HTTP_HEADER_AUTHORIZATION],
                                 headers->values[HTTP_HEADER_API_KEY], secret, size);
    if (outcome == ACCESS_SECRET_REFUSED)
        fault_set(fault, FAULT_KEY, "the headers give no key, or two that differ; " HOW);
    return outcome;
}

/* The key whose name the client's certificate has, held; NULL with a fault, also where the client
 * has no certificate. */
static struct access_key *find_by_certificate(const struct exchange *exchange,
                                              struct access_keys *keys, struct fault *fault)
{
    const char *subject = http_tls_subject(http_connection_of(exchange->connection));
    struct access_key *key = subject ? access_keys_find_name(keys, subject) : NULL;
    if (!subject)
        fault_set(fault, FAULT_KEY, "a key is needed; " HOW);
    else if (!key)
        fault_set(fault, FAULT_KEY,
                  "no key has the name of the client's certificate, or it has expired; " HOW);
    return key;
}

/* The key of the request, held; NULL with a fault. A key in the headers goes before the client's
 * certificate. */
static struct access_key *find_key(struct exchange *exchange, struct access_keys *keys,
                                   struct fault *fault)
{
    const char *secret = NULL;
    size_t size = 0;
    const enum access_secret_outcome outcome = find_secret(exchange, &secret, &size, fault);
    exchange->key_came = outcome != ACCESS_SECRET_NONE;
    if (outcome == ACCESS_SECRET_REFUSED)
        return NULL;
    if (outcome == ACCESS_SECRET_NONE)
        return find_by_certificate(exchange, keys, fault);
    struct access_key *key = access_keys_find(keys, secret, size);
    if (!key)
        fault_set(fault, FAULT_KEY, "the key is not known here, or has expired; " HOW);
    return key;
}

/* From here to its end the request counts for its key, whatever comes of it. False, with a fault,
 * where the key has too many in flight. */
static bool begin_to_count(struct exchange *exchange, struct fault *fault)
{
    struct access_quota *quota = exchange_quota(exchange);
    exchange->memory.owner = &quota->memory;
    return access_quota_enter(quota, fault);
}

static bool key_check(struct exchange *exchange, struct access_keys *keys, struct fault *fault)
{
    struct fault too_many;
    const enum access_scope scope = exchange->route ? exchange->route->scope : ACCESS_ANY;
    if (scope == ACCESS_OPEN)
        return true;
    exchange->key = find_key(exchange, keys, fault);
    if (!exchange->key) {
        key_metrics_unknown();
        return false;
    }
    const bool has_place = begin_to_count(exchange, &too_many);
    if (!access_check_scope(exchange->key, scope, fault))
        return false;
    if (!has_place) {
        *fault = too_many;
        return false;
    }
    const char *model = exchange_model(exchange);
    return scope != ACCESS_INFER || !model || access_check_model(exchange->key, model, fault);
}

bool http_check_key(struct exchange *exchange)
{
    struct fault fault;
    if (key_check(exchange, exchange->thread->http->options.keys, &fault))
        return true;
    /* Other faults give way, not_found and method too: only a key learns which paths there are. */
    exchange->fault = fault;
    exchange->answer.allow[0] = '\0';
    return false;
}

/* The value lies in libmicrohttpd's pool, which is read no more for it. */
static enum MHD_Result forget_value(void *context, enum MHD_ValueKind kind, const char *name,
                                    size_t name_size, const char *value, size_t value_size)
{
    (void)context;
    (void)kind;
    (void)name_size;
    if (value
        && (strcasecmp(name, http_header_name(HTTP_HEADER_AUTHORIZATION)) == 0
            || strcasecmp(name, http_header_name(HTTP_HEADER_API_KEY)) == 0))
        explicit_bzero((char *)(uintptr_t)value, value_size);
    return MHD_YES;
}

void http_forget_key(struct MHD_Connection *connection)
{
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, forget_value, NULL);
}

const char *http_challenge(const struct exchange *exchange)
{
    switch (exchange->record.fault) {
    case FAULT_KEY:
        return exchange->key_came ? "Bearer realm=\"attnd\", error=\"invalid_token\""
                                  : "Bearer realm=\"attnd\"";
    case FAULT_SCOPE:
        return "Bearer realm=\"attnd\", error=\"insufficient_scope\"";
    default:
        return "";
    }
}
