/* SPDX-License-Identifier: Apache-2.0 */
/* tls_tunnel.c - see tls_tunnel.h. */
#include "tls_tunnel.h"
#include "test.h"

#include "daemon.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct inside {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    int wire;  /* to the daemon */
    int inner; /* to the test */
    pthread_t thread;
    int new_keys, empty_records;
    bool cuts_off, ended_well;
};

/* Sends all bytes by TLS; false where the daemon takes no more. */
static bool send_all(struct inside *inside, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = gnutls_record_send(inside->session, bytes, size);
        if (sent < 0 && gnutls_error_is_fatal((int)sent))
            return false;
        if (sent > 0) {
            bytes += sent;
            size -= (size_t)sent;
        }
    }
    return true;
}

/* Moves one piece from the daemon to the test; false at the end. */
static bool move_in(struct inside *inside)
{
    char piece[16384];
    const ssize_t size = gnutls_record_recv(inside->session, piece, sizeof piece);
    if (size < 0)
        return !gnutls_error_is_fatal((int)size);
    inside->ended_well = size == 0;
    for (ssize_t done = 0, some; done < size; done += some)
        if ((some = send(inside->inner, piece + done, (size_t)(size - done), MSG_NOSIGNAL)) <= 0)
            return false;
    return size > 0;
}

/* Sends records that hold no data of the test. */
static bool send_no_data(struct inside *inside)
{
    bool good = true;
    for (int i = 0; good && i < inside->new_keys; i++)
        good = gnutls_session_key_update(inside->session, 0) == 0;
    for (int i = 0; good && i < inside->empty_records; i++)
        good = gnutls_record_send2(inside->session, "", 0, 16, 0) >= 0;
    return good;
}

/* Moves one piece from the test to the daemon; false when the test has ended its side. */
static bool move_out(struct inside *inside)
{
    char piece[16384];
    const int one = 1, none = 0;
    const ssize_t size = recv(inside->inner, piece, sizeof piece, 0);
    setsockopt(inside->wire, IPPROTO_TCP, TCP_CORK, &one, sizeof one);
    const bool sent = size > 0 && send_no_data(inside) && send_all(inside, piece, (size_t)size);
    setsockopt(inside->wire, IPPROTO_TCP, TCP_CORK, &none, sizeof none);
    return sent;
}

static void *run(void *context)
{
    struct inside *inside = context;
    for (bool reads = true; reads;) {
        struct pollfd fds[] = { { .fd = inside->wire, .events = POLLIN },
                                { .fd = inside->inner, .events = POLLIN } };
        if (gnutls_record_check_pending(inside->session) == 0)
            poll(fds, 2, -1);
        else
            fds[0].revents = POLLIN;
        if (fds[0].revents)
            reads = move_in(inside);
        if (fds[1].revents && !move_out(inside))
            break;
    }
    shutdown(inside->inner, SHUT_RDWR);
    if (!inside->cuts_off)
        gnutls_bye(inside->session, GNUTLS_SHUT_WR);
    shutdown(inside->wire, SHUT_RDWR);
    return NULL;
}

static void note_serial(struct tls_tunnel *tunnel, gnutls_session_t session)
{
    unsigned count;
    unsigned char serial[24];
    size_t size = sizeof serial;
    gnutls_x509_crt_t certificate;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    assert_non_null(chain);
    gnutls_x509_crt_init(&certificate);
    assert_int_equal(gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(gnutls_x509_crt_get_serial(certificate, serial, &size), 0);
    for (size_t i = 0; i < size; i++)
        snprintf(tunnel->serial + 2 * i, 3, "%02X", serial[i]);
    gnutls_x509_crt_deinit(certificate);
}

static void start_session(struct inside *inside, const struct tls_tunnel_options *options)
{
    const char *priorities = options->priorities ? options->priorities : "NORMAL";
    assert_int_equal(gnutls_init(&inside->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_certificate_allocate_credentials(&inside->credentials), 0);
    if (options->certificate)
        assert_true(gnutls_certificate_set_x509_key_file(inside->credentials, options->certificate,
                                                         options->key, GNUTLS_X509_FMT_PEM)
                    >= 0);
    gnutls_credentials_set(inside->session, GNUTLS_CRD_CERTIFICATE, inside->credentials);
    assert_int_equal(gnutls_priority_set_direct(inside->session, priorities, NULL), 0);
    gnutls_transport_set_int(inside->session, inside->wire);
    gnutls_handshake_set_timeout(inside->session, (unsigned)(20000 * daemon_slowness()));
}

static bool shake_hands(struct inside *inside)
{
    int status;
    do
        status = gnutls_handshake(inside->session);
    while (status < 0 && !gnutls_error_is_fatal(status));
    return status == 0;
}

static void free_inside(struct inside *inside)
{
    gnutls_deinit(inside->session);
    gnutls_certificate_free_credentials(inside->credentials);
    close(inside->wire);
    if (inside->inner > 0)
        close(inside->inner);
    free(inside);
}

bool tls_tunnel_open(struct tls_tunnel *tunnel, int port, const struct tls_tunnel_options *options)
{
    static const struct tls_tunnel_options nothing = { 0 };
    struct inside *inside = calloc(1, sizeof *inside);
    struct http_raw wire;
    int pair[2];
    assert_non_null(inside);
    *tunnel = (struct tls_tunnel){ 0 };
    http_raw_connect(&wire, port);
    inside->wire = wire.socket;
    inside->cuts_off = options && options->cuts_off;
    inside->new_keys = options ? options->new_keys : 0;
    inside->empty_records = options ? options->empty_records : 0;
    start_session(inside, options ? options : &nothing);
    if (!shake_hands(inside)) {
        free_inside(inside);
        return false;
    }
    note_serial(tunnel, inside->session);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    tunnel->raw.socket = pair[0];
    inside->inner = pair[1];
    tunnel->inside = inside;
    assert_int_equal(pthread_create(&inside->thread, NULL, run, inside), 0);
    return true;
}

void tls_tunnel_close(struct tls_tunnel *tunnel)
{
    struct inside *inside = tunnel->inside;
    shutdown(tunnel->raw.socket, SHUT_RDWR);
    pthread_join(inside->thread, NULL);
    tunnel->ended_well = inside->ended_well;
    http_raw_close(&tunnel->raw);
    free_inside(inside);
    tunnel->inside = NULL;
}
