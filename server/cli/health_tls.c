/* health_tls.c - see health_tls.h. */
#include "cli/health_tls.h"

#include "base/clock.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct health_tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    int socket;
    int64_t deadline_ns;
};

/* ------------------------------------------------------------------- bytes -- */

/* Reads what has come, and waits where nothing has. */
static ssize_t pull(gnutls_transport_ptr_t context, void *data, size_t size)
{
    const struct health_tls *tls = context;
    for (;;) {
        const ssize_t some = recv(tls->socket, data, size, MSG_DONTWAIT);
        if (some >= 0 || errno != EAGAIN)
            return some;
        const int64_t left_ms = (tls->deadline_ns - clock_now_ns()) / 1000000;
        struct pollfd wanted = { .fd = tls->socket, .events = POLLIN };
        if (left_ms <= 0 || poll(&wanted, 1, (int)left_ms) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

static ssize_t push(gnutls_transport_ptr_t context, const void *data, size_t size)
{
    return send(((const struct health_tls *)context)->socket, data, size, MSG_NOSIGNAL);
}

static ssize_t result_of(ssize_t moved)
{
    if (moved >= 0)
        return moved;
    if (gnutls_error_is_fatal((int)moved) == 0)
        errno = EAGAIN;
    else if (errno == 0)
        errno = EPROTO;
    return -1;
}

ssize_t health_tls_send(struct health_tls *tls, const void *data, size_t size)
{
    errno = 0;
    return result_of(gnutls_record_send(tls->session, data, size));
}

ssize_t health_tls_receive(struct health_tls *tls, void *data, size_t size)
{
    errno = 0;
    return result_of(gnutls_record_recv(tls->session, data, size));
}

/* --------------------------------------------------------------- handshake -- */

static bool set_trust(struct health_tls *tls, const struct health_trust *trust, char *reason,
                      size_t size)
{
    if (trust->is_anybody)
        return true;
    const int count = trust->ca ? gnutls_certificate_set_x509_trust_file(
                          tls->credentials, trust->ca, GNUTLS_X509_FMT_PEM)
                                : gnutls_certificate_set_x509_system_trust(tls->credentials);
    if (!trust->ca || count > 0)
        return true;
    snprintf(reason, size, "%s: holds no certificate in PEM", trust->ca);
    return false;
}

static bool begin(struct health_tls *tls, const char *host, const struct health_trust *trust)
{
    if (gnutls_init(&tls->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) != 0
        || gnutls_set_default_priority(tls->session) != 0
        || gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials) != 0)
        return false;
    gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, host, strlen(host));
    if (!trust->is_anybody)
        gnutls_session_set_verify_cert(tls->session, host, 0);
    gnutls_transport_set_ptr(tls->session, tls);
    gnutls_transport_set_pull_function(tls->session, pull);
    gnutls_transport_set_push_function(tls->session, push);
    return true;
}

static void explain(const struct health_tls *tls, int status, char *reason, size_t size)
{
    gnutls_datum_t words;
    if (status == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR
        && gnutls_certificate_verification_status_print(
               gnutls_session_get_verify_cert_status(tls->session), GNUTLS_CRT_X509, &words, 0)
               == 0) {
        snprintf(reason, size, "%s Give --ca FILE or --insecure", (const char *)words.data);
        gnutls_free(words.data);
    } else if (status == GNUTLS_E_PULL_ERROR) {
        snprintf(reason, size, "%s", strerror(errno));
    } else {
        snprintf(reason, size, "%s", gnutls_strerror(status));
    }
}

static bool shake_hands(struct health_tls *tls, char *reason, size_t size)
{
    int status;
    do
        status = gnutls_handshake(tls->session);
    while (status < 0 && gnutls_error_is_fatal(status) == 0);
    if (status < 0)
        explain(tls, status, reason, size);
    return status == 0;
}

struct health_tls *health_tls_open(int socket, const char *host, const struct health_trust *trust,
                                   int64_t deadline_ns, char *reason, size_t size)
{
    struct health_tls *tls = calloc(1, sizeof *tls);
    snprintf(reason, size, "no memory");
    if (!tls)
        return NULL;
    tls->socket = socket;
    tls->deadline_ns = deadline_ns;
    if (gnutls_certificate_allocate_credentials(&tls->credentials) == 0
        && set_trust(tls, trust, reason, size) && begin(tls, host, trust)
        && shake_hands(tls, reason, size))
        return tls;
    health_tls_close(tls);
    return NULL;
}

void health_tls_close(struct health_tls *tls)
{
    if (!tls)
        return;
    if (tls->session) {
        gnutls_bye(tls->session, GNUTLS_SHUT_WR);
        gnutls_deinit(tls->session);
    }
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    free(tls);
}
