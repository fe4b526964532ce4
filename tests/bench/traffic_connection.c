/* traffic_connection.c - see traffic_connection.h.
 *
 * A connection keeps the head of its answer, because the head may come in parts. Only the length
 * of the body is looked at, but the body is read, as any client would read it. */
#include "traffic_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18 };

static char read_bytes[READ_BYTES];
static int read_count;

bool traffic_connection_open(struct traffic_connection *connection, int port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons((uint16_t)port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int one = 1;
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *connection = (struct traffic_connection){ .descriptor = made };
    if (made < 0)
        return false;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(made, (const struct sockaddr *)&address, sizeof address) == 0
        || errno == EINPROGRESS)
        return true;
    close(made);
    connection->descriptor = -1;
    return false;
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
}

/* The value of a header, or NULL. The head ends with an empty line. */
static const char *header(const struct traffic_connection *connection, const char *name)
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
    const char *length = header(connection, "content-length");
    const char *after = header(connection, "connection");
    if (sscanf(connection->head, "HTTP/1.1 %d", &connection->status) != 1 || !length)
        return false;
    connection->body_left_bytes = strtoll(length, NULL, 10);
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

static bool take(struct traffic_connection *connection, const char *bytes, int count)
{
    if (!connection->has_head) {
        const int taken = take_head(connection, bytes, count);
        if (taken < 0)
            return false;
        count -= taken;
    }
    connection->body_left_bytes -= count;
    if (connection->body_left_bytes < 0)
        return false;
    connection->is_answered = connection->has_head && connection->body_left_bytes == 0;
    return true;
}

static bool step_out(struct traffic_connection *connection)
{
    const struct traffic_request *request = connection->request;
    while (connection->sent_bytes < request->size) {
        const ssize_t count =
            send(connection->descriptor, request->bytes + connection->sent_bytes,
                 request->size - connection->sent_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR;
        connection->sent_bytes += (size_t)count;
    }
    return true;
}

static bool step_in(struct traffic_connection *connection)
{
    while (!connection->is_answered) {
        const ssize_t count = recv(connection->descriptor, read_bytes, READ_BYTES, MSG_DONTWAIT);
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
    const char *timing = header(connection, "server-timing");
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
