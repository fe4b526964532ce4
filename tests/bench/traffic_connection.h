/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_connection.h - one connection of a load: sends a request, reads an answer, never
 * blocks. */
#ifndef BENCH_TRAFFIC_CONNECTION_H
#define BENCH_TRAFFIC_CONNECTION_H

#include "base/list.h"
#include "traffic_requests.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRAFFIC_HEAD_BYTES = 2048 };

/* Where a server listens: a port of 127.0.0.1, or a unix socket. */
struct traffic_place {
    int port;
    const char *unix_path; /* NULL: the port */
    bool is_tls;           /* any certificate will do */
};

/* The body of the answer that was read last. Zeroed is empty; the caller frees bytes. */
struct traffic_body {
    char *bytes;
    size_t used, room;
};

struct traffic_connection {
    int descriptor;
    void *tls;                 /* gnutls_session_t; NULL: none */
    struct traffic_body *body; /* the caller's, set after opening; NULL: no body is kept */
    const struct traffic_request *request;
    size_t sent_bytes;
    int64_t intended_ns;

    /* The answer. */
    char head[TRAFFIC_HEAD_BYTES + 1];
    int head_bytes;   /* of the head, read so far */
    bool has_head;    /* the head is whole, and the fields below hold */
    bool closes;      /* the server wants no other request on this connection */
    bool is_answered; /* wholly read */
    int status;
    int64_t body_left_bytes;

    LIST_LINK(struct traffic_connection) in_busy; /* connections that have a request */
};

enum traffic_step {
    TRAFFIC_WAITS,  /* for the socket */
    TRAFFIC_DONE,   /* the request is sent and the answer read */
    TRAFFIC_BROKEN, /* closed, or no answer that could be understood */
};

/* Begins to connect to a port of 127.0.0.1. If that fails, it returns false and sets errno. */
bool traffic_connection_open(struct traffic_connection *connection, int port);

/* The same for any place. With TLS it returns after the handshake. */
bool traffic_connection_open_at(struct traffic_connection *connection,
                                const struct traffic_place *place);

void traffic_connection_close(struct traffic_connection *connection);

void traffic_connection_begin(struct traffic_connection *connection,
                              const struct traffic_request *request, int64_t intended_ns);

/* Sends and reads what it can without waiting. */
enum traffic_step traffic_connection_step(struct traffic_connection *connection);

/* The value of a header of the answer, which goes on to the end of its line; NULL: there is none.
 */
const char *traffic_connection_header(const struct traffic_connection *connection,
                                      const char *name);

/* A duration of the answer's Server-Timing, in milliseconds; below 0: the answer has none. */
double traffic_connection_timing(const struct traffic_connection *connection, const char *name);

/* The bytes that were read last, for messages about a body whose beginning came with the head. */
const char *traffic_connection_last_bytes(int *count);

#endif
