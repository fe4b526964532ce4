/* SPDX-License-Identifier: Apache-2.0 */
/* query_number.h - whole numbers among the parameters of an address. */
#ifndef ATTND_QUERY_NUMBER_H
#define ATTND_QUERY_NUMBER_H

#include "http/http.h"

/* The longest value of a parameter, with its end: none is cut. */
enum { QUERY_PARAM_BYTES = 256 };

/* A parameter that is a whole number below end. False, with the fault, where it is missing. */
bool query_number_read(const struct exchange *exchange, const char *name, int64_t end,
                       int64_t *given, struct fault *fault);

/* The part of a list that the parameters offset (default 0) and limit (default 1000, at most 10000)
 * ask for. The query must have no others. */
bool query_number_read_part(const struct exchange *exchange, int64_t *offset, int64_t *limit,
                            struct fault *fault);

#endif
