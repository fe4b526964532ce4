/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_connection.c - see traffic_connection.h.
 *
 * A connection keeps the head of its answer, because the head may come in parts. Only the length
 * of the body is looked at, but the body is read, as any client would read it. */
#include "traffic_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18 };

static char read_bytes[READ_BYTES];
static int read_count;

/* Connects a socket of its own; -1 and errno where that fails. */
static int connect_port(int port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons((uint16_t)port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int one = 1;
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return -1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(made, (const struct sockaddr *)&address, sizeof address) == 0
        || errno == EINPROGRESS)
        return made;
    close(made);
    return -1;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(made, (const struct sockaddr *)&address, sizeof address) == 0)
        return made;
    close(made);
    return -1;
}

/* Every connection has these credentials: no certificate of its own, and trust in any. */
static gnutls_certificate_credentials_t credentials(void)
{
    static gnutls_certificate_credentials_t made;
    if (!made && gnutls_certificate_allocate_credentials(&made) != GNUTLS_E_SUCCESS)
        abort();
    return made;
}

static bool shake_hands(struct traffic_connection *connection)
{
    gnutls_session_t session;
    int result;
    if (gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
        return false;
    connection->tls = session;
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials());
    gnutls_transport_set_int(session, connection->descriptor);
    do {
        struct pollfd wait = { .fd = connection->descriptor, .events = POLLIN };
        result = gnutls_handshake(session);
        if (gnutls_record_get_direction(session) == 1)
            wait.events = POLLOUT;
        if (result == GNUTLS_E_AGAIN)
            poll(&wait, 1, -1);
    } while (result < 0 && gnutls_error_is_fatal(result) == 0);
    return result == GNUTLS_E_SUCCESS;
}

bool traffic_connection_open_at(struct traffic_connection *connection,
                                const struct traffic_place *place)
{
    *connection = (struct traffic_connection){
        .descriptor = place->unix_path ? connect_unix(place->unix_path) : connect_port(place->port),
    };
    if (connection->descriptor < 0)
        return false;
    if (!place->is_tls || shake_hands(connection))
        return true;
    traffic_connection_close(connection);
    errno = EPROTO;
    return false;
}

bool traffic_connection_open(struct traffic_connection *connection, int port)
{
    return traffic_connection_open_at(connection, &(struct traffic_place){ .port = port });
}

void traffic_connection_close(struct traffic_connection *connection)
{
    if (connection->tls)
        gnutls_deinit(connection->tls);
    connection->tls = NULL;
    close(connection->descriptor);
    connection->descriptor = -1;
}

void traffic_connection_begin(struct traffic_connection *connection,
                              const struct traffic_request *request, int64_t intended_ns)
{
    connection->request = request;
    connection->intended_ns = intended_ns;
    connection->sent_bytes = 0;
    connection->head_bytes = 0;
    connection->has_head = connection->closes = connection->is_answered = false;
    connection->status = 0;
    connection->body_left_bytes = 0;
    if (connection->body)
        connection->body->used = 0;
}

/* The head ends with an empty line. */
const char *traffic_connection_header(const struct traffic_connection *connection, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = strchr(connection->head, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " ");
    }
    return NULL;
}

static bool read_head(struct traffic_connection *connection)
{
    const char *length = traffic_connection_header(connection, "content-length");
    const char *after = traffic_connection_header(connection, "connection");
    if (sscanf(connection->head, "HTTP/1.1 %d", &connection->status) != 1
        || (!length && connection->status != 204))
        return false;
    connection->body_left_bytes = length ? strtoll(length, NULL, 10) : 0;
    connection->closes = after && strncasecmp(after, "close", 5) == 0;
    connection->has_head = true;
    return connection->status >= 100 && connection->status < 600;
}

/* Takes the bytes that belong to the head. Returns how many there are; -1: this is no head. */
static int take_head(struct traffic_connection *connection, const char *bytes, int count)
{
    const int before = connection->head_bytes;
    const int room = TRAFFIC_HEAD_BYTES - before;
    memcpy(connection->head + before, bytes, (size_t)(count < room ? count : room));
    connection->head_bytes += count < room ? count : room;
    connection->head[connection->head_bytes] = '\0';
    char *end = strstr(connection->head, "\r\n\r\n");
    if (!end)
        return connection->head_bytes == TRAFFIC_HEAD_BYTES ? -1 : count;
    end[2] = '\0';
    return read_head(connection) ? (int)(end + 4 - connection->head) - before : -1;
}

static void keep(struct traffic_body *body, const char *bytes, size_t count)
{
    if (body->used + count > body->room) {
        body->room = 2 * (body->used + count);
        body->bytes = realloc(body->bytes, body->room);
        if (!body->bytes)
            abort();
    }
    memcpy(body->bytes + body->used, bytes, count);
    body->used += count;
}

static bool take(struct traffic_connection *connection, const char *bytes, int count)
{
    if (!connection->has_head) {
        const int taken = take_head(connection, bytes, count);
        if (taken < 0)
            return false;
        bytes += taken;
        count -= taken;
    }
    connection->body_left_bytes -= count;
    if (connection->body_left_bytes < 0)
        return false;
    if (connection->body && count > 0)
        keep(connection->body, bytes, (size_t)count);
    connection->is_answered = connection->has_head && connection->body_left_bytes == 0;
    return true;
}

/* As send() and recv() without waiting. GnuTLS's way to say so becomes EAGAIN. */
static ssize_t of_tls(ssize_t count)
{
    if (count >= 0)
        return count;
    errno = gnutls_error_is_fatal((int)count) ? EPROTO : EAGAIN;
    return -1;
}

static ssize_t send_some(const struct traffic_connection *connection, const char *bytes,
                         size_t size)
{
    return connection->tls ? of_tls(gnutls_record_send(connection->tls, bytes, size))
                           : send(connection->descriptor, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* GnuTLS also says "again" when it has read a ticket of the session, while more lies in the socket;
 * epoll would not tell of that a second time. */
static ssize_t receive_tls(const struct traffic_connection *connection)
{
    struct pollfd more = { .fd = connection->descriptor, .events = POLLIN };
    ssize_t count;
    do
        count = gnutls_record_recv(connection->tls, read_bytes, READ_BYTES);
    while (count == GNUTLS_E_AGAIN && poll(&more, 1, 0) > 0);
    return of_tls(count);
}

static ssize_t receive_some(const struct traffic_connection *connection)
{
    return connection->tls ? receive_tls(connection)
                           : recv(connection->descriptor, read_bytes, READ_BYTES, MSG_DONTWAIT);
}

static bool step_out(struct traffic_connection *connection)
{
    const struct traffic_request *request = connection->request;
    while (connection->sent_bytes < request->size) {
        const ssize_t count = send_some(connection, request->bytes + connection->sent_bytes,
                                        request->size - connection->sent_bytes);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR;
        connection->sent_bytes += (size_t)count;
    }
    return true;
}

static bool step_in(struct traffic_connection *connection)
{
    while (!connection->is_answered) {
        const ssize_t count = receive_some(connection);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        read_count = (int)count;
        if (count == 0 || !take(connection, read_bytes, (int)count))
            return false;
    }
    return true;
}

enum traffic_step traffic_connection_step(struct traffic_connection *connection)
{
    /* A server may answer a request that it has not read, and then close. That answer counts. */
    const bool is_sending = step_out(connection);
    if (!step_in(connection))
        return TRAFFIC_BROKEN;
    if (connection->is_answered
        && (connection->closes || connection->sent_bytes == connection->request->size))
        return TRAFFIC_DONE;
    return is_sending ? TRAFFIC_WAITS : TRAFFIC_BROKEN;
}

double traffic_connection_timing(const struct traffic_connection *connection, const char *name)
{
    const char *timing = traffic_connection_header(connection, "server-timing");
    const char *found = timing ? strstr(timing, name) : NULL;
    const char *line_end = timing ? strchr(timing, '\r') : NULL;
    double duration;
    if (!found || found > line_end || sscanf(found + strlen(name), ";dur=%lf", &duration) != 1)
        return -1;
    return duration;
}

const char *traffic_connection_last_bytes(int *count)
{
    *count = read_count;
    return read_bytes;
}
