/* SPDX-License-Identifier: Apache-2.0 */
/* query_number.c - see query_number.h. */
#include "api/query_number.h"

#include <inttypes.h>
#include <stdlib.h>

static bool bad_number(const char *name, const char *value, int64_t end, struct fault *fault)
{
    return fault_set(fault, FAULT_OPTION,
                     "%s is '%.40s'; expected a whole number from 0 to %" PRId64, name, value,
                     end - 1);
}

bool query_number_read(const struct exchange *exchange, const char *name, int64_t end,
                       int64_t *given, struct fault *fault)
{
    char value[QUERY_PARAM_BYTES], *stop;
    if (!exchange_query(exchange, name, value, sizeof value))
        return fault_set(fault, FAULT_FIELD, "%s is missing; expected ?%s=N in the address", name,
                         name);
    const long long number = strtoll(value, &stop, 10);
    if (value[0] < '0' || value[0] > '9' || *stop || number >= end)
        return bad_number(name, value, end, fault);
    *given = number;
    return true;
}

/* A parameter that may be missing: *given then keeps its value. */
static bool read_optional(const struct exchange *exchange, const char *name, int64_t end,
                          int64_t *given, struct fault *fault)
{
    char value[QUERY_PARAM_BYTES];
    return !exchange_query(exchange, name, value, sizeof value)
           || query_number_read(exchange, name, end, given, fault);
}

bool query_number_read_part(const struct exchange *exchange, int64_t *offset, int64_t *limit,
                            struct fault *fault)
{
    enum { LISTED = 1000, LISTED_MAX = 10000 };
    static const char *const NAMES[] = { "offset", "limit" };
    *offset = 0;
    *limit = LISTED;
    return exchange_check_query(exchange, NAMES, 2, fault)
           && read_optional(exchange, NAMES[0], INT64_MAX, offset, fault)
           && read_optional(exchange, NAMES[1], LISTED_MAX + 1, limit, fault);
}
