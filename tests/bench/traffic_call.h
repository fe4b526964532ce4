/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_call.h - one request at a time on one connection, for answers that take longer than the
 * client does. */
#ifndef BENCH_TRAFFIC_CALL_H
#define BENCH_TRAFFIC_CALL_H

#include "traffic_connection.h"

/* Connects to a port of 127.0.0.1, or ends the program. */
void traffic_call_open(struct traffic_connection *connection, int port);

/* Sends the request and reads the answer. Returns the seconds that this took. If the answer is no
 * success, it prints the answer's end and ends the program. */
double traffic_call(struct traffic_connection *connection, const struct traffic_request *request);

/* The body of POST /v1/trace with so many random tokens below vocabulary, and more fields:
 * "\"layers\":[0]". The caller frees it. */
char *traffic_trace_body(const char *model, int tokens, int vocabulary, const char *fields);

/* The same as a request, with a header ("" or "Name: value"). */
struct traffic_request traffic_trace(const char *model, int tokens, int vocabulary,
                                     const char *fields, const char *header);

#endif
