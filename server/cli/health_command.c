/* SPDX-License-Identifier: Apache-2.0 */
/* health_command.c - attnd health, which containers run as their health check, so their image needs
 * no curl.
 *
 * It sends one HTTP request over one socket, by TLS where the URL or the environment says so, with
 * one deadline for all of it. Of the answer only the status line matters. */
#include "cli/commands.h"

#include "base/clock.h"
#include "base/unix_address.h"
#include "host/config_options.h"
#include "host/config_value.h"
#include "host/listen_address.h"

#include <gnutls/gnutls.h>

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* Whom the client believes. */
struct health_trust {
    const char *ca;  /* a file in PEM; NULL: the authorities that the system believes */
    bool is_anybody; /* any certificate will do */
};

/* A connection with TLS, read and written by a deadline. */
struct health_tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    int socket;
    int64_t deadline_ns;
};

/* ----------------------------------------------------------- bytes of TLS -- */

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

/* As send(2) and recv(2) with a socket that waits until the deadline: -1 with errno. */
static ssize_t health_tls_send(struct health_tls *tls, const void *data, size_t size)
{
    errno = 0;
    return result_of(gnutls_record_send(tls->session, data, size));
}

static ssize_t health_tls_receive(struct health_tls *tls, void *data, size_t size)
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

static bool tls_begin(struct health_tls *tls, const char *host, const struct health_trust *trust)
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

static void health_tls_close(struct health_tls *tls)
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

/* Shakes hands over a connected socket, which stays the caller's. host is a name or an address that
 * the certificate must be for. NULL with the reason, which is cut to size bytes. */
static struct health_tls *health_tls_open(int socket, const char *host,
                                          const struct health_trust *trust, int64_t deadline_ns,
                                          char *reason, size_t size)
{
    struct health_tls *tls = calloc(1, sizeof *tls);
    snprintf(reason, size, "no memory");
    if (!tls)
        return NULL;
    tls->socket = socket;
    tls->deadline_ns = deadline_ns;
    if (gnutls_certificate_allocate_credentials(&tls->credentials) == 0
        && set_trust(tls, trust, reason, size) && tls_begin(tls, host, trust)
        && shake_hands(tls, reason, size))
        return tls;
    health_tls_close(tls);
    return NULL;
}

/* ----------------------------------------------------------------- target -- */

enum { HOST_BYTES_MAX = 256, PORT_BYTES_MAX = 8, PATH_BYTES_MAX = 512, TIMEOUT_MS = 3000 };

struct target {
    char authority[HOST_BYTES_MAX + PORT_BYTES_MAX + 4]; /* as in the URL, for Host */
    char host[HOST_BYTES_MAX];                           /* without brackets */
    char port[PORT_BYTES_MAX];
    char path[PATH_BYTES_MAX]; /* "/readyz", behind the URL's own path if it has one */
    bool is_unix;              /* authority and host are the name of a Unix socket */
    bool is_tls;
    struct health_trust trust;
};

static bool complain(const char *target, const char *reason)
{
    fprintf(stderr, "attnd health: %s: %s\n", target, reason);
    return false;
}

/* Copies size bytes as a string; false where they do not fit. */
static bool copy(char *out, size_t out_size, const char *text, size_t size)
{
    if (size >= out_size)
        return false;
    memcpy(out, text, size);
    out[size] = '\0';
    return true;
}

/* Reads "localhost:8080", "[::1]:8080" or "localhost". */
static bool read_authority(struct target *target, const char *text, size_t size)
{
    if (size == 0 || !copy(target->authority, sizeof target->authority, text, size))
        return false;
    const bool bracketed = text[0] == '[';
    const char *host = target->authority + bracketed;
    const size_t host_size = strcspn(host, bracketed ? "]" : ":");
    const char *after = host + host_size;
    if (bracketed && *after++ != ']')
        return false;
    int64_t port = target->is_tls ? 443 : 80;
    if (*after && (*after != ':' || !config_value_integer(after + 1, &port) || port > 65535))
        return false;
    snprintf(target->port, sizeof target->port, "%d", (int)port);
    return host_size > 0 && copy(target->host, sizeof target->host, host, host_size);
}

/* Whether text fits into a request line: printable ASCII without spaces. */
static bool is_one_word(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* The target is a Unix socket, whose name is as unix_address() takes it. */
static bool set_unix(struct target *target, const char *name)
{
    target->is_unix = true;
    snprintf(target->path, sizeof target->path, "/readyz");
    return copy(target->host, sizeof target->host, name, strlen(name))
           && copy(target->authority, sizeof target->authority, name, strlen(name));
}

static bool read_url(struct target *target, const char *url)
{
    static const char SCHEME[] = "http://", TLS_SCHEME[] = "https://";
    struct listen_address address;
    if (listen_address_read(&address, url) && address.unix_name)
        return set_unix(target, address.unix_name);
    target->is_tls = strncmp(url, TLS_SCHEME, strlen(TLS_SCHEME)) == 0;
    if (!target->is_tls && strncmp(url, SCHEME, strlen(SCHEME)) != 0)
        return complain(url, "expected a URL such as http://127.0.0.1:8080");
    const char *authority = url + strlen(target->is_tls ? TLS_SCHEME : SCHEME);
    const size_t authority_size = strcspn(authority, "/");
    const char *base = authority + authority_size;
    size_t base_size = strlen(base);
    while (base_size > 0 && base[base_size - 1] == '/')
        base_size--;
    const int length =
        snprintf(target->path, sizeof target->path, "%.*s/readyz", (int)base_size, base);
    if (!is_one_word(url) || length < 0 || (size_t)length >= sizeof target->path
        || !read_authority(target, authority, authority_size))
        return complain(url, "expected a URL such as http://127.0.0.1:8080");
    return true;
}

/* Reads where a daemon of the same environment listens. Where that is every address of this
 * machine, the target is the loopback. Any certificate will do there: the daemon's is for another
 * name than the loopback's. */
static bool read_listen_variable(struct target *target)
{
    const char *listen = getenv("ATTND_LISTEN");
    if (!listen || !listen[0])
        listen = config_option_find("listen", strlen("listen"))->initial;
    struct listen_address address;
    char first[HOST_BYTES_MAX];
    snprintf(target->path, sizeof target->path, "/readyz");
    if (!copy(first, sizeof first, listen, strcspn(listen, ","))
        || !listen_address_read(&address, first) || strcmp(address.port, "0") == 0)
        return complain("ATTND_LISTEN", "its first address cannot be asked; give a URL");
    if (address.unix_name)
        return set_unix(target, address.unix_name);
    const char *certificate = getenv("ATTND_TLS_CERT");
    target->is_tls = certificate && certificate[0];
    target->trust.is_anybody = true;
    const char *host = strcmp(address.host, "0.0.0.0") == 0 ? "127.0.0.1"
                       : strcmp(address.host, "::") == 0    ? "::1"
                                                            : address.host;
    snprintf(target->host, sizeof target->host, "%s", host);
    snprintf(target->port, sizeof target->port, "%s", address.port);
    snprintf(target->authority, sizeof target->authority, strchr(host, ':') ? "[%s]:%s" : "%s:%s",
             host, address.port);
    return true;
}

/* Waits for events; false and errno where the deadline came first. */
static bool wait_for(int socket, short events, int64_t deadline_ns)
{
    for (;;) {
        const int64_t left_ms = (deadline_ns - clock_now_ns()) / 1000000;
        struct pollfd wanted = { .fd = socket, .events = events };
        const int ready = poll(&wanted, 1, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0)
            return true;
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

/* A connected socket, or -1 and errno. */
static int connect_to(const struct sockaddr *address, socklen_t address_size, int64_t deadline_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    const int connection =
        socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return -1;
    if (connect(connection, address, address_size) == 0)
        return connection;
    if (errno == EINPROGRESS && wait_for(connection, POLLOUT, deadline_ns)
        && getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &size) == 0) {
        if (error == 0)
            return connection;
        errno = error;
    }
    error = errno;
    close(connection);
    errno = error;
    return -1;
}

/* Connects to the first address of the host that answers. localhost is the loopback of both
 * families, even where the system's files do not say so. */
static int connect_any(const struct target *target, int64_t deadline_ns)
{
    const char *host = strcmp(target->host, "localhost") == 0 ? NULL : target->host;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    const int status = getaddrinfo(host, target->port, &hints, &found);
    if (status != 0) {
        complain(target->authority, gai_strerror(status));
        return -1;
    }
    int connection = -1;
    for (const struct addrinfo *address = found; address && connection < 0;
         address = address->ai_next)
        connection = connect_to(address->ai_addr, address->ai_addrlen, deadline_ns);
    if (connection < 0)
        complain(target->authority, strerror(errno));
    freeaddrinfo(found);
    return connection;
}

static int connect_unix(const struct target *target, int64_t deadline_ns)
{
    struct sockaddr_un address;
    const socklen_t size = unix_address(&address, target->host);
    const int connection = connect_to((const struct sockaddr *)&address, size, deadline_ns);
    if (connection < 0)
        complain(target->authority, strerror(errno));
    return connection;
}

/* A connection to the daemon. */
struct link {
    int socket;
    int64_t deadline_ns;
    struct health_tls *tls; /* NULL: plain */
};

/* The request is far smaller than a socket's buffer: one send() takes it whole. */
static bool send_request(const struct link *to, const struct target *target)
{
    char request[PATH_BYTES_MAX + HOST_BYTES_MAX + 128];
    const int size = snprintf(request, sizeof request,
                              "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n"
                              "User-Agent: attnd-health\r\n\r\n",
                              target->path, target->is_unix ? "localhost" : target->authority);
    const ssize_t sent = to->tls ? health_tls_send(to->tls, request, (size_t)size)
                                 : send(to->socket, request, (size_t)size, MSG_NOSIGNAL);
    return sent == size;
}

/* Reads what has come; -1 with errno, ETIMEDOUT where nothing did by the deadline. */
static ssize_t receive(const struct link *from, char *data, size_t size)
{
    if (from->tls)
        return health_tls_receive(from->tls, data, size);
    return wait_for(from->socket, POLLIN, from->deadline_ns) ? recv(from->socket, data, size, 0)
                                                             : -1;
}

/* Reads the status line without its end; false and errno where none came. */
static bool read_status_line(const struct link *from, char *line, size_t line_size)
{
    size_t used = 0;
    for (;;) {
        const ssize_t size = receive(from, line + used, line_size - 1 - used);
        if (size < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (size <= 0) {
            errno = size == 0 ? ECONNRESET : errno;
            return false;
        }
        used += (size_t)size;
        line[used] = '\0';
        char *end = strpbrk(line, "\r\n");
        if (end)
            *end = '\0';
        if (end || used == line_size - 1)
            return true;
    }
}

/* The status in a line such as "HTTP/1.1 200 OK"; -1 where it is no status line of HTTP/1. */
static int status_of(const char *line)
{
    static const char VERSION[] = "HTTP/1.";
    const size_t size = strlen(VERSION);
    if (strncmp(line, VERSION, size) != 0 || (line[size] != '0' && line[size] != '1')
        || line[size + 1] != ' ')
        return -1;
    char *end;
    const char *digits = line + size + 2;
    const long status = strtol(digits, &end, 10);
    return end == digits + 3 && status >= 100 ? (int)status : -1;
}

/* Sends the request over a connected socket and reads the status line; false after a complaint. */
static bool exchange_lines(const struct target *target, int socket, int64_t deadline_ns, char *line,
                           size_t line_size)
{
    char reason[256];
    struct link daemon = { .socket = socket, .deadline_ns = deadline_ns };
    if (target->is_tls) {
        daemon.tls = health_tls_open(socket, target->host, &target->trust, deadline_ns, reason,
                                     sizeof reason);
        if (!daemon.tls)
            return complain(target->authority, reason);
    }
    const bool answered =
        send_request(&daemon, target) && read_status_line(&daemon, line, line_size);
    const int error = errno;
    health_tls_close(daemon.tls);
    return answered || complain(target->authority, strerror(error));
}

static bool ask(const struct target *target)
{
    char line[PATH_BYTES_MAX + 32];
    const int64_t deadline_ns = clock_now_ns() + TIMEOUT_MS * INT64_C(1000000);
    const int connection =
        target->is_unix ? connect_unix(target, deadline_ns) : connect_any(target, deadline_ns);
    if (connection < 0)
        return false;
    const bool answered = exchange_lines(target, connection, deadline_ns, line, sizeof line);
    close(connection);
    if (!answered)
        return false;
    const int status = status_of(line);
    if (status < 0)
        return complain(target->authority, "what answers is not HTTP");
    if (status == 200)
        return true;
    snprintf(line, sizeof line, "%s answered %d", target->path, status);
    return complain(target->authority, line);
}

/* Reads the flags; returns the place of the first argument behind them, or 0 after a complaint. */
static int read_trust(struct health_trust *trust, int argc, char **argv)
{
    int at = 2;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--insecure") == 0) {
            trust->is_anybody = true;
        } else if (strcmp(argv[at], "--ca") == 0 && at + 1 < argc) {
            trust->ca = argv[++at];
        } else {
            fprintf(stderr, "attnd health: %s: expected --ca FILE, --insecure or a URL\n",
                    argv[at]);
            return 0;
        }
    }
    return at;
}

int health_command(int argc, char **argv)
{
    struct target target = { .is_unix = false };
    if (config_help_asked(argv)) {
        printf("usage: attnd health [URL]\n"
               "       attnd health [--ca FILE | --insecure] https://HOST:PORT\n\n"
               "Asks URL/readyz, or the first address of ATTND_LISTEN; exits with 0 where that is\n"
               "answered with 200 within 3 s, and else with 1. URL is also unix:/PATH or\n"
               "unix:@NAME. An https:// URL must show a certificate that FILE, or the system,\n"
               "believes; with --insecure any will do. ATTND_TLS_CERT says that the address of\n"
               "ATTND_LISTEN speaks TLS, and any certificate will do there.\n");
        return 0;
    }
    const int at = read_trust(&target.trust, argc, argv);
    if (at == 0)
        return 1;
    if (argc > at + 1) {
        fprintf(stderr, "attnd health: more than one URL\n");
        return 1;
    }
    if (!(argc == at + 1 ? read_url(&target, argv[at]) : read_listen_variable(&target)))
        return 1;
    return ask(&target) ? 0 : 1;
}
