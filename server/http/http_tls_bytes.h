/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_bytes.h - the bytes of a TLS connection between GnuTLS and the socket. */
#ifndef ATTND_HTTP_TLS_BYTES_H
#define ATTND_HTTP_TLS_BYTES_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct http_tls_session;

/* Buffers of one connection thread, which its connections use in turn. */
struct http_tls_bytes;
struct http_tls_bytes *http_tls_bytes_create(void); /* NULL: no memory */
void http_tls_bytes_free(struct http_tls_bytes *bytes);

/* What one connection has beside them. A zeroed one is empty. */
struct http_tls_rest {
    char *data; /* malloc'd; read from the socket, and not yet by GnuTLS */
    size_t at, size;
};

/* GnuTLS's functions to read and write; the context is the session. */
ssize_t http_tls_bytes_pull(gnutls_transport_ptr_t context, void *data, size_t size);
ssize_t http_tls_bytes_push(gnutls_transport_ptr_t context, const giovec_t *parts, int part_count);

/* The bytes that were read ahead of GnuTLS. */
size_t http_tls_bytes_ahead(const struct http_tls_session *tls);

/* Notes that GnuTLS has read; more: it got bytes, so there may be others (http_tls_handshakes.c).
 */
void http_tls_note_read(struct http_tls_session *tls, bool more);

/* The thread's run of libmicrohttpd is over: sends what is held back. */
void http_tls_bytes_ran(struct http_tls_bytes *bytes);

/* The session is over. */
void http_tls_bytes_leave(struct http_tls_session *tls);

#endif
