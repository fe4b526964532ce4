/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_identity.h - what the daemon shows to TLS clients, and whose certificates it takes: read
 * from files, and read again while connections go on.
 *
 * An identity never changes once it is read. Each TLS connection holds the one that was in force
 * when its handshake began, and the last holder frees it. */
#ifndef ATTND_HTTP_TLS_IDENTITY_H
#define ATTND_HTTP_TLS_IDENTITY_H

#include "http/http.h"

#include <gnutls/gnutls.h>

struct http_tls_identity;

/* Reads the files; the caller holds the identity. On a fault, which names the flag, the file and
 * what is wrong, *identity is untouched. check_client is called in the handshake of each client
 * that was asked for a certificate, as gnutls_certificate_set_verify_function() says. */
bool http_tls_identity_read(struct http_tls_identity **identity, const struct http_tls_files *files,
                            gnutls_certificate_verify_function *check_client, struct fault *fault);

/* One more holder, and one less; from any thread. NULL is fine in the second. */
struct http_tls_identity *http_tls_identity_hold(struct http_tls_identity *identity);
void http_tls_identity_release(struct http_tls_identity *identity);

/* Makes a session that has not begun its handshake show this identity. The caller holds the
 * identity as long as the session lives. */
void http_tls_identity_use(const struct http_tls_identity *identity, gnutls_session_t session);

/* Writes a line for the log: the file, its serial number, its name and its last day. */
void http_tls_identity_log(const struct http_tls_identity *identity);

#endif
