/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls.c - the TLS of the whole daemon: the identity in force, and what libmicrohttpd is told.
 *
 * Each connection takes its certificate when its handshake begins. So libmicrohttpd, which could
 * hold one certificate for its whole life, has none. */
#include "http/http_tls_session.h"

#include "telemetry/log.h"

#include <gnutls/abstract.h>

/* TLS 1.2 and 1.3, keys that are forgotten after the connection, encryption that also
 * authenticates: no CBC, no SHA-1, no RSA without padding that can be proved safe in the key
 * exchange. */
static const char PRIORITIES[] =
    "NONE:+COMP-NULL:+CTYPE-X509:+VERS-TLS1.3:+VERS-TLS1.2:+AEAD"
    ":+ECDHE-ECDSA:+ECDHE-RSA:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"
    ":+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+GROUP-X448:+GROUP-SECP521R1"
    ":+SIGN-EDDSA-ED25519:+SIGN-EDDSA-ED448:+SIGN-ECDSA-SHA256:+SIGN-ECDSA-SHA384"
    ":+SIGN-ECDSA-SHA512:+SIGN-ECDSA-SECP256R1-SHA256:+SIGN-ECDSA-SECP384R1-SHA384"
    ":+SIGN-ECDSA-SECP521R1-SHA512:+SIGN-RSA-PSS-SHA256:+SIGN-RSA-PSS-SHA384"
    ":+SIGN-RSA-PSS-SHA512:+SIGN-RSA-PSS-RSAE-SHA256:+SIGN-RSA-PSS-RSAE-SHA384"
    ":+SIGN-RSA-PSS-RSAE-SHA512:+SIGN-RSA-SHA256:+SIGN-RSA-SHA384:+SIGN-RSA-SHA512";

/* A connection for whose record there was no memory: its handshake fails. */
static int give_no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities,
                               int authority_count, const gnutls_pk_algorithm_t *algorithms,
                               int algorithm_count, gnutls_pcert_st **certificates,
                               unsigned *certificate_count, gnutls_privkey_t *key)
{
    (void)session, (void)authorities, (void)authority_count, (void)algorithms;
    (void)algorithm_count, (void)certificates, (void)certificate_count, (void)key;
    return -1;
}

const struct MHD_OptionItem HTTP_TLS_OPTIONS[] = {
    { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES },
    { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)give_no_certificate },
    { MHD_OPTION_END, 0, NULL },
};

bool http_tls_files_check(const struct http_tls_files *files, struct fault *fault)
{
    struct http_tls_identity *identity = NULL;
    const bool is_good = !files->certificate
                         || http_tls_identity_read(&identity, files, http_tls_check_client, fault);
    http_tls_identity_release(identity);
    return is_good;
}

bool http_tls_init(struct http *http, struct fault *fault)
{
    pthread_mutex_init(&http->identity_mutex, NULL);
    http->has_tls = http->options.tls.certificate != NULL;
    if (http->has_tls
        && !http_tls_identity_read(&http->identity, &http->options.tls, http_tls_check_client,
                                   fault))
        return false;
    if (http->has_tls)
        http_tls_identity_log(http->identity);
    return true;
}

void http_tls_read_again(struct http *http)
{
    struct http_tls_identity *read;
    struct fault fault;
    if (!http->has_tls)
        return;
    if (!http_tls_identity_read(&read, &http->options.tls, http_tls_check_client, &fault)) {
        log_line(LOG_WARNING, "certificate not read again", LOG_STRING("reason", fault.message));
        return;
    }
    pthread_mutex_lock(&http->identity_mutex);
    struct http_tls_identity *old = http->identity;
    http->identity = read;
    pthread_mutex_unlock(&http->identity_mutex);
    http_tls_identity_log(read);
    http_tls_identity_release(old);
}

struct http_tls_identity *http_tls_identity_now(struct http *http)
{
    pthread_mutex_lock(&http->identity_mutex);
    struct http_tls_identity *identity = http_tls_identity_hold(http->identity);
    pthread_mutex_unlock(&http->identity_mutex);
    return identity;
}

void http_tls_free(struct http *http)
{
    http_tls_identity_release(http->identity);
    pthread_mutex_destroy(&http->identity_mutex);
}
