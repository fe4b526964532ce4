/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_call.c - see traffic_call.h. */
#include "traffic_call.h"

#include "daemon.h"
#include "fill.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

void traffic_call_open(struct traffic_connection *connection, int port)
{
    if (!traffic_connection_open(connection, port)) {
        perror("a connection");
        exit(1);
    }
}

double traffic_call(struct traffic_connection *connection, const struct traffic_request *request)
{
    const double begin = daemon_now();
    enum traffic_step step;
    traffic_connection_begin(connection, request, 0);
    while ((step = traffic_connection_step(connection)) == TRAFFIC_WAITS) {
        const bool is_sent = connection->sent_bytes == request->size;
        struct pollfd poll_for = { .fd = connection->descriptor,
                                   .events = is_sent ? POLLIN : POLLIN | POLLOUT };
        poll(&poll_for, 1, -1);
    }
    const double seconds = daemon_now() - begin;
    if (step != TRAFFIC_DONE || connection->status / 100 != 2) {
        int count;
        const char *last = traffic_connection_last_bytes(&count);
        fprintf(stderr, "status %d: %.*s\n", connection->status, count, last);
        exit(1);
    }
    return seconds;
}

char *traffic_trace_body(const char *model, int tokens, int vocabulary, const char *fields)
{
    struct fill fill = { 1 };
    char *body;
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    if (!stream)
        abort();
    fprintf(stream, "{\"model\":\"%s\",%s,\"tokens\":", model, fields);
    for (int i = 0; i < tokens; i++)
        fprintf(stream, "%c%" PRId64, i ? ',' : '[', fill_below(&fill, vocabulary));
    fputs("]}", stream);
    if (fclose(stream) != 0)
        abort();
    return body;
}

struct traffic_request traffic_trace(const char *model, int tokens, int vocabulary,
                                     const char *fields, const char *header)
{
    char *body = traffic_trace_body(model, tokens, vocabulary, fields);
    struct traffic_request request = traffic_json("/v1/trace", body, 0);
    free(body);
    if (header[0])
        traffic_add_header(&request, header);
    return request;
}
