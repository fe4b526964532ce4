/* SPDX-License-Identifier: Apache-2.0 */
/* tls_tunnel.h - a TLS connection for tests that need each byte: what a test sends and receives
 * over the bare socket of a struct http_raw goes through TLS.
 *
 * A thread moves the bytes. The client is GnuTLS and believes any certificate. */
#ifndef TLS_TUNNEL_H
#define TLS_TUNNEL_H

#include "http_client.h"

struct tls_tunnel_options {
    const char *priorities;        /* of GnuTLS; NULL: NORMAL */
    const char *certificate, *key; /* files in PEM that the client shows; NULL: none */
    int new_keys, empty_records;   /* sent in one packet with each piece, and before it */
    bool cuts_off;                 /* at its end the client closes the socket without a word */
};

struct tls_tunnel {
    struct http_raw raw;
    char serial[64]; /* of the daemon's certificate, in hexadecimal digits */
    bool ended_well; /* the daemon said that no more comes; known after tls_tunnel_close() */
    void *inside;
};

/* Connects and shakes hands; false where the handshake fails. options may be NULL. */
bool tls_tunnel_open(struct tls_tunnel *tunnel, int port, const struct tls_tunnel_options *options);

/* Ends the connection. */
void tls_tunnel_close(struct tls_tunnel *tunnel);

#endif
