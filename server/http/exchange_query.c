/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_query.c - the parameters of a target's query, as pages write them:
 * name=value&name=value, percent-encoded, with + for a blank (the URL Standard,
 * application/x-www-form-urlencoded). */
#include "http/exchange.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 32 };

/* The next parameter of a query, decoded and cut to fit; returns what follows it. *whole: both fit,
 * and no escape is broken. */
struct parameter {
    char name[NAME_BYTES];
    char value[EXCHANGE_PARAM_MAX];
    bool whole;
};

static bool decode(char *out, size_t size, const char *text, size_t length)
{
    if (length == 0) {
        out[0] = '\0';
        return true;
    }
    return exchange_decode(out, size, text, length);
}

static const char *next_parameter(const char *query, struct parameter *parameter)
{
    const size_t length = strcspn(query, "&");
    const char *equals = memchr(query, '=', length);
    const size_t name_length = equals ? (size_t)(equals - query) : length;
    const char *value = query + name_length + (equals != NULL);
    parameter->name[0] = parameter->value[0] = '\0';
    parameter->whole = decode(parameter->name, sizeof parameter->name, query, name_length)
                       && decode(parameter->value, sizeof parameter->value, value,
                                 (size_t)(query + length - value));
    return query + length + (query[length] == '&');
}

bool exchange_query(const struct exchange *exchange, const char *name, char *value, size_t size)
{
    struct parameter parameter;
    const char *query = exchange->query ? exchange->query : "";
    while (*query) {
        query = next_parameter(query, &parameter);
        if (strcmp(parameter.name, name) != 0)
            continue;
        snprintf(value, size, "%s", parameter.value);
        return true;
    }
    return false;
}

bool exchange_check_query(const struct exchange *exchange, const char *const *names, int name_count,
                          struct fault *fault)
{
    struct parameter parameter;
    unsigned seen = 0;
    const char *query = exchange->query ? exchange->query : "";
    if (exchange->query_is_lost)
        return fault_no_memory(fault);
    if (exchange->query_is_long)
        return fault_set(fault, FAULT_OPTION, "the query of the address has more than 511 bytes");
    while (*query) {
        int i = 0;
        query = next_parameter(query, &parameter);
        while (i < name_count && strcmp(names[i], parameter.name) != 0)
            i++;
        if (!parameter.whole)
            return fault_set(fault, FAULT_OPTION,
                             "the address has a parameter that is too long or has a broken escape");
        if (i == name_count)
            return fault_set(fault, FAULT_FIELD, "unknown parameter '%s' of the address",
                             parameter.name);
        if (seen >> i & 1)
            return fault_set(fault, FAULT_DUPLICATE, "the address has the parameter %s twice",
                             parameter.name);
        seen |= 1u << i;
    }
    return true;
}
