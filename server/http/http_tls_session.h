/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_session.h - the TLS of one connection, for the two files that make it:
 * http_tls_session.c and http_tls_handshakes.c.
 *
 * libmicrohttpd owns the session of GnuTLS, and ends it shortly before it closes the connection. */
#ifndef ATTND_HTTP_TLS_SESSION_H
#define ATTND_HTTP_TLS_SESSION_H

#include "http/http_internal.h"
#include "http/http_tls_bytes.h"
#include "http/http_tls_identity.h"

enum http_tls_phase {
    HTTP_TLS_HELLO,    /* waits for the client's hello; the daemon's own files answer it */
    HTTP_TLS_ANSWERED, /* the answer is sent; libmicrohttpd does the rest of the handshake */
    HTTP_TLS_OPEN,     /* the handshake has ended */
};

struct http_tls_session {
    gnutls_session_t library;
    struct http_connection *connection;
    struct http_thread *thread;
    struct http_tls_identity *identity; /* held; NULL: no byte of the hello has come */
    enum http_tls_phase phase;
    bool answering;    /* a hello is being answered: nothing is read behind it */
    bool has_sent;     /* in the same call */
    bool is_refused;   /* every read finds the end of the stream, so that libmicrohttpd gives up */
    bool body_follows; /* behind the head of an answer, which comes next */
    struct http_tls_rest rest;
    bool answered;                      /* the last message of the answer has been written */
    bool finished_there, finished_here; /* that message of the client, and of the daemon */
    bool knows_subject;
    char subject[HTTP_TLS_SUBJECT_MAX + 1];

    unsigned read_in; /* the run of libmicrohttpd, by its number, that read bytes last */
    int64_t since_ns; /* when the connection was opened */
    LIST_LINK(struct http_tls_session) in_handshakes, in_ready, in_running, in_unread;
};

/* http_tls.c: the identity in force; the caller holds it. */
struct http_tls_identity *http_tls_identity_now(struct http *http);

/* The record of a TLS connection whose session libmicrohttpd has just made. NULL: no memory. The
 * session must be gone when the record is freed. */
struct http_tls_session *http_tls_session_create(struct http_thread *thread,
                                                 struct http_connection *connection);
void http_tls_session_free(struct http_tls_session *tls);

/* Verifies the certificate that a client has sent, if it has sent one, and keeps its name. For
 * http_tls_identity_read(). */
int http_tls_check_client(gnutls_session_t library);

#endif
