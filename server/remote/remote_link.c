/* SPDX-License-Identifier: Apache-2.0 */
/* remote_link.c - sockets that never wait but in poll(2), which also watches the stop. */
#include "remote/remote_link.h"

#include "base/clock.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, ADDRESSES_MAX = 8 };

static bool fail(char reason[REMOTE_REASON_MAX], const char *what, const char *why)
{
    snprintf(reason, REMOTE_REASON_MAX, "%.20s: %.200s", what, why);
    return false;
}

/* -------------------------------------------------------------------- stop -- */

bool remote_stop_init(struct remote_stop *stop, struct fault *fault)
{
    atomic_store(&stop->ends_ns, 0);
    stop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return stop->wake >= 0 || fault_from_shortage(fault, errno) || fault_no_memory(fault);
}

void remote_stop_set(struct remote_stop *stop, int64_t ends_ns)
{
    atomic_store(&stop->ends_ns, ends_ns);
    eventfd_write(stop->wake, 1);
}

void remote_stop_free(struct remote_stop *stop)
{
    if (stop->wake >= 0)
        close(stop->wake);
    stop->wake = -1;
}

static int64_t end_of(const struct remote_stop *stop)
{
    return stop ? atomic_load(&stop->ends_ns) : 0;
}

static int left_ms(int64_t until_ns)
{
    const int64_t ms = (until_ns - clock_now_ns()) / NS_PER_MS + 1;
    return ms < 0 ? 0 : ms < INT_MAX ? (int)ms : INT_MAX;
}

bool remote_stop_wait(struct remote_stop *stop, int64_t until_ns)
{
    while (end_of(stop) == 0 && clock_now_ns() < until_ns) {
        struct pollfd watched = { .fd = stop->wake, .events = POLLIN };
        poll(&watched, 1, left_ms(until_ns));
    }
    return end_of(stop) == 0;
}

/* Waits for events on a socket and returns those that came; 0: the deadline has passed. Once the
 * stop is set, its descriptor stays readable and is watched no more. */
static short wait_for(const struct remote_link *link, short events, int64_t deadline_ns)
{
    for (;;) {
        const int64_t ends_ns = end_of(link->stop);
        const int64_t until_ns = ends_ns != 0 && ends_ns < deadline_ns ? ends_ns : deadline_ns;
        struct pollfd watched[] = {
            { .fd = link->socket, .events = events },
            { .fd = link->stop && ends_ns == 0 ? link->stop->wake : -1, .events = POLLIN },
        };
        if (clock_now_ns() >= until_ns)
            return 0;
        if (poll(watched, 2, left_ms(until_ns)) > 0 && watched[0].revents != 0)
            return watched[0].revents;
    }
}

/* ------------------------------------------------------------------- trust -- */

struct remote_trust {
    gnutls_certificate_credentials_t credentials;
};

struct remote_trust *remote_trust_create(const char *ca, struct fault *fault)
{
    struct remote_trust *trust = calloc(1, sizeof *trust);
    if (!trust || gnutls_certificate_allocate_credentials(&trust->credentials) != 0) {
        free(trust);
        fault_no_memory(fault);
        return NULL;
    }
    const int count =
        ca ? gnutls_certificate_set_x509_trust_file(trust->credentials, ca, GNUTLS_X509_FMT_PEM)
           : gnutls_certificate_set_x509_system_trust(trust->credentials);
    if (count > 0)
        return trust;
    fault_set(fault, FAULT_OPTION, "%.200s: no certificate of an authority is there, in PEM: %s",
              ca ? ca : "the system's authorities", count < 0 ? gnutls_strerror(count) : "none");
    remote_trust_free(trust);
    return NULL;
}

void remote_trust_free(struct remote_trust *trust)
{
    if (!trust)
        return;
    gnutls_certificate_free_credentials(trust->credentials);
    free(trust);
}

/* --------------------------------------------------------------- handshake -- */

static bool tls_begin(struct remote_link *link, const struct remote_address *address,
                      const struct remote_trust *trust)
{
    const gnutls_datum_t protocol = { (unsigned char *)"http/1.1", 8 };
    if (gnutls_init(&link->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != 0
        || gnutls_set_default_priority(link->session) != 0
        || gnutls_credentials_set(link->session, GNUTLS_CRD_CERTIFICATE, trust->credentials) != 0
        || gnutls_alpn_set_protocols(link->session, &protocol, 1, 0) != 0)
        return false;
    if (address->host_is_name
        && gnutls_server_name_set(link->session, GNUTLS_NAME_DNS, address->host,
                                  strlen(address->host))
               != 0)
        return false;
    gnutls_session_set_verify_cert(link->session, address->host, 0);
    gnutls_transport_set_int(link->session, link->socket);
    return true;
}

/* A trust that is missing believes nobody. */
static bool explain(const struct remote_link *link, int status, char reason[REMOTE_REASON_MAX])
{
    gnutls_datum_t words;
    if (status != GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR
        || gnutls_certificate_verification_status_print(
               gnutls_session_get_verify_cert_status(link->session), GNUTLS_CRT_X509, &words, 0)
               != 0)
        return fail(reason, "TLS", gnutls_strerror(status));
    fail(reason, "TLS", (const char *)words.data);
    gnutls_free(words.data);
    return false;
}

/* Waits for what GnuTLS waits for. */
static bool tls_wait(const struct remote_link *link, int64_t deadline_ns)
{
    const bool writes = gnutls_record_get_direction(link->session) == 1;
    return wait_for(link, writes ? POLLOUT : POLLIN, deadline_ns) != 0;
}

static bool shake_hands(struct remote_link *link, const struct remote_address *address,
                        const struct remote_trust *trust, int64_t deadline_ns,
                        char reason[REMOTE_REASON_MAX])
{
    if (!trust || !tls_begin(link, address, trust))
        return fail(reason, "TLS", trust ? "no memory" : "no authority is trusted");
    for (;;) {
        const int status = gnutls_handshake(link->session);
        if (status == 0)
            return true;
        if (gnutls_error_is_fatal(status) != 0)
            return explain(link, status, reason);
        if (status == GNUTLS_E_AGAIN && !tls_wait(link, deadline_ns))
            return fail(reason, "TLS", strerror(ETIMEDOUT));
    }
}

/* -------------------------------------------------------------- connection -- */

void remote_link_close(struct remote_link *link)
{
    if (link->session)
        gnutls_deinit(link->session);
    if (link->socket >= 0)
        close(link->socket);
    link->session = NULL;
    link->socket = -1;
}

/* Returns 0 or an errno. */
static int connect_to(struct remote_link *link, const struct addrinfo *address, int64_t deadline_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    link->socket =
        socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (link->socket < 0)
        return errno;
    if (connect(link->socket, address->ai_addr, address->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        const bool came = wait_for(link, POLLOUT, deadline_ns) != 0;
        error = !came ? ETIMEDOUT : 0;
        if (came && getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error)
        remote_link_close(link);
    else
        setsockopt(link->socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return error;
}

/* Tries the addresses of the host in turn; each may take an equal part of the time. localhost is
 * the loopback whatever the machine's files say, or where it has none (RFC 6761, 6.3). */
static bool connect_any(struct remote_link *link, const struct remote_address *address,
                        int64_t deadline_ns, char reason[REMOTE_REASON_MAX])
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV
                                                | (address->host_is_name ? 0 : AI_NUMERICHOST) };
    struct addrinfo *found = NULL;
    char port[8];
    int count = 0, error = EHOSTUNREACH;
    snprintf(port, sizeof port, "%d", address->port);
    const char *host = strcasecmp(address->host, "localhost") == 0 ? NULL : address->host;
    const int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0)
        return fail(reason, "resolve", gai_strerror(result));
    for (const struct addrinfo *at = found; at && count < ADDRESSES_MAX; at = at->ai_next)
        count++;
    for (const struct addrinfo *at = found; at && count > 0 && error; at = at->ai_next, count--) {
        const int64_t now_ns = clock_now_ns();
        error = connect_to(link, at, now_ns + (deadline_ns - now_ns) / count);
    }
    freeaddrinfo(found);
    return error == 0 || fail(reason, "connect", strerror(error));
}

bool remote_link_open(struct remote_link *link, const struct remote_address *address,
                      const struct remote_trust *trust, int64_t deadline_ns,
                      char reason[REMOTE_REASON_MAX])
{
    const int64_t ends_ns = end_of(link->stop), now_ns = clock_now_ns();
    if (now_ns >= deadline_ns || (ends_ns != 0 && now_ns >= ends_ns))
        return fail(reason, "connect", strerror(ETIMEDOUT));
    if (!connect_any(link, address, deadline_ns, reason))
        return false;
    if (!address->is_tls || shake_hands(link, address, trust, deadline_ns, reason))
        return true;
    remote_link_close(link);
    return false;
}

bool remote_link_is_quiet(const struct remote_link *link)
{
    char byte;
    return link->socket >= 0 && (!link->session || gnutls_record_check_pending(link->session) == 0)
           && recv(link->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0
           && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* -------------------------------------------------------------------- bytes -- */

/* Sends some bytes: how many, 0 where none can go now, or -1 with the reason. */
static ssize_t send_some(struct remote_link *link, const char *bytes, size_t size, bool more,
                         char reason[REMOTE_REASON_MAX])
{
    if (!link->session) {
        const ssize_t sent = send(link->socket, bytes, size, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        if (sent >= 0)
            return sent;
        if (errno == EAGAIN || errno == EINTR)
            return 0;
        fail(reason, "send", strerror(errno));
        return -1;
    }
    const ssize_t sent = gnutls_record_send(link->session, bytes, size);
    if (sent >= 0 || gnutls_error_is_fatal((int)sent) == 0)
        return sent > 0 ? sent : 0;
    fail(reason, "send", gnutls_strerror((int)sent));
    return -1;
}

bool remote_link_send(struct remote_link *link, const char *bytes, size_t size, bool more,
                      int64_t deadline_ns, bool *answered, char reason[REMOTE_REASON_MAX])
{
    /* Certificates of TLS 1.3 sessions come unasked, so there only the end of all is watched. */
    const short early = link->session ? 0 : POLLIN;
    while (size > 0) {
        const ssize_t sent = send_some(link, bytes, size, more, reason);
        if (sent < 0) {
            *answered = true; /* it may have answered, and closed */
            return false;
        }
        bytes += sent;
        size -= (size_t)sent;
        if (sent > 0)
            continue;
        const short came = wait_for(link, (short)(POLLOUT | early), deadline_ns);
        if (came == 0)
            return fail(reason, "send", strerror(ETIMEDOUT));
        *answered = (came & POLLIN) != 0 && (came & POLLOUT) == 0;
        if (*answered)
            return fail(reason, "send", "the other side answered before it took all");
    }
    return true;
}

ssize_t remote_link_receive(struct remote_link *link, char *bytes, size_t size, int64_t deadline_ns,
                            char reason[REMOTE_REASON_MAX])
{
    for (;;) {
        const bool is_plain = !link->session;
        const ssize_t came = is_plain ? recv(link->socket, bytes, size, MSG_DONTWAIT)
                                      : gnutls_record_recv(link->session, bytes, size);
        if (came >= 0)
            return came;
        const bool again =
            is_plain ? errno == EAGAIN || errno == EINTR : gnutls_error_is_fatal((int)came) == 0;
        if (!again) {
            fail(reason, "answer", is_plain ? strerror(errno) : gnutls_strerror((int)came));
            return -1;
        }
        if (!(is_plain ? wait_for(link, POLLIN, deadline_ns) != 0 : tls_wait(link, deadline_ns))) {
            fail(reason, "answer", strerror(ETIMEDOUT));
            return -1;
        }
    }
}
