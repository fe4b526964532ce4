/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_session.c - the TLS of one connection: its bytes, its messages, its client's name.
 *
 * libmicrohttpd makes the session of GnuTLS, reads and writes it. Between GnuTLS and the socket
 * stand the functions of http_tls_bytes.c. They tell whether bytes move (http_chunk_line.c looks at
 * that), hold the reading back while a hello is answered, and end a session that the daemon
 * refuses. This file also watches the messages of the handshake, since libmicrohttpd does not tell
 * when it has ended.
 *
 * A session that the client renegotiates is ended by libmicrohttpd. */
#include "http/http_tls_session.h"

#include "telemetry/log.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ------------------------------------------------------------------- bytes -- */

size_t http_tls_pending(const struct http_connection *connection)
{
    return gnutls_record_check_pending(connection->tls->library)
           + http_tls_bytes_ahead(connection->tls);
}

bool http_tls_send(struct http_connection *connection, const void *data, size_t size)
{
    return gnutls_record_send(connection->tls->library, data, size) == (ssize_t)size;
}

void http_tls_expect_body(struct http_connection *connection)
{
    connection->tls->body_follows = connection->tls->phase == HTTP_TLS_OPEN;
}

void http_tls_say_bye(struct http_connection *connection)
{
    if (connection->tls->phase == HTTP_TLS_OPEN)
        gnutls_bye(connection->tls->library, GNUTLS_SHUT_WR);
}

/* ---------------------------------------------------------------- messages -- */

static struct http_tls_session *session_of(gnutls_session_t library)
{
    return gnutls_transport_get_ptr(library);
}

/* Called for each message of the handshake, once it has been read or written. */
static int see_message(gnutls_session_t library, unsigned type, unsigned when, unsigned incoming,
                       const gnutls_datum_t *message)
{
    (void)when;
    (void)message;
    struct http_tls_session *tls = session_of(library);
    if (type == GNUTLS_HANDSHAKE_FINISHED)
        *(incoming ? &tls->finished_there : &tls->finished_here) = true;
    if (!incoming
        && (type == GNUTLS_HANDSHAKE_FINISHED || type == GNUTLS_HANDSHAKE_SERVER_HELLO_DONE))
        tls->answered = true;
    return 0;
}

/* ------------------------------------------------------------- certificate -- */

/* Copies the common name. A certificate that has none, or several, has the name "". */
static void take_subject(struct http_tls_session *tls, gnutls_x509_crt_t certificate)
{
    char name[HTTP_TLS_SUBJECT_MAX + 1];
    size_t size = sizeof name, second_size = 0;
    tls->knows_subject = true;
    const int first =
        gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size);
    const int second = gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 1, 0,
                                                     NULL, &second_size);
    if (first == 0 && second == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE && strlen(name) == size)
        memcpy(tls->subject, name, size + 1);
}

static gnutls_alert_description_t alert_for(unsigned status)
{
    if (status & GNUTLS_CERT_EXPIRED)
        return GNUTLS_A_CERTIFICATE_EXPIRED;
    if (status & GNUTLS_CERT_SIGNER_NOT_FOUND)
        return GNUTLS_A_UNKNOWN_CA;
    return GNUTLS_A_BAD_CERTIFICATE;
}

/* Ends the handshake, with an alert that says why. */
static int refuse_client(struct http_tls_session *tls, gnutls_alert_description_t alert,
                         const char *reason)
{
    log_line(LOG_INFO, "client certificate refused", LOG_STRING("client", tls->connection->client),
             LOG_STRING("reason", reason));
    gnutls_alert_send(tls->library, GNUTLS_AL_FATAL, alert);
    return GNUTLS_E_CERTIFICATE_ERROR;
}

int http_tls_check_client(gnutls_session_t library)
{
    struct http_tls_session *tls = session_of(library);
    unsigned count = 0, status = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(library, &count);
    gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                      .data =
                                          (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT };
    gnutls_x509_crt_t certificate;
    gnutls_datum_t reason;
    if (!chain || count == 0)
        return 0; /* the client has none, and may give a key */
    if (gnutls_certificate_verify_peers(library, &purpose, 1, &status) != 0)
        return refuse_client(tls, GNUTLS_A_BAD_CERTIFICATE, "the certificate cannot be read");
    if (status != 0) {
        if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &reason, 0) != 0)
            return refuse_client(tls, alert_for(status), "the certificate is not valid");
        const int refused = refuse_client(tls, alert_for(status), (const char *)reason.data);
        gnutls_free(reason.data);
        return refused;
    }
    if (gnutls_x509_crt_init(&certificate) != 0)
        return GNUTLS_E_MEMORY_ERROR;
    const int imported = gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER);
    if (imported == 0)
        take_subject(tls, certificate);
    gnutls_x509_crt_deinit(certificate);
    return imported;
}

const char *http_tls_subject(const struct http_connection *connection)
{
    return connection->tls && connection->tls->knows_subject ? connection->tls->subject : NULL;
}

/* ------------------------------------------------------------------ the whole -- */

struct http_tls_session *http_tls_session_create(struct http_thread *thread,
                                                 struct http_connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->library, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct http_tls_session *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    tls->library = info->tls_session;
    tls->connection = connection;
    tls->thread = thread;
    gnutls_transport_set_ptr(tls->library, tls);
    gnutls_transport_set_pull_function(tls->library, http_tls_bytes_pull);
    gnutls_transport_set_vec_push_function(tls->library, http_tls_bytes_push);
    gnutls_handshake_set_hook_function(tls->library, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST,
                                       see_message);
    return tls;
}

void http_tls_session_free(struct http_tls_session *tls)
{
    http_tls_bytes_leave(tls);
    http_tls_identity_release(tls->identity);
    free(tls);
}
