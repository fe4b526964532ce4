/* collector.c - see collector.h. */
#include "spans/collector.h"

#include "base/clock.h"
#include "base/version.h"
#include "text/text.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, ADDRESSES_MAX = 8 };

static bool fail(char reason[COLLECTOR_REASON_MAX], const char *what, const char *why)
{
    snprintf(reason, COLLECTOR_REASON_MAX, "%.20s: %.90s", what, why);
    return false;
}

/* ------------------------------------------------------------------- time -- */

/* The sooner of a deadline and the end of all calls. */
static int64_t soonest(const struct collector *collector, int64_t deadline_ns)
{
    const int64_t ends_ns = atomic_load(collector->ends_ns);
    return ends_ns != 0 && ends_ns < deadline_ns ? ends_ns : deadline_ns;
}

/* Waits for events on a descriptor, or -1. Once the end has been set, collector->wake stays
 * readable and is watched no more. False: the deadline has passed. */
static bool wait_for(struct collector *collector, int descriptor, short events, int64_t deadline_ns)
{
    for (;;) {
        const int64_t left_ns = soonest(collector, deadline_ns) - clock_now_ns();
        const bool ends = atomic_load(collector->ends_ns) != 0;
        const int64_t left_ms = left_ns / NS_PER_MS + 1;
        struct pollfd watched[] = { { .fd = descriptor, .events = events },
                                    { .fd = ends ? -1 : collector->wake, .events = POLLIN } };
        if (left_ns <= 0)
            return false;
        if (poll(watched, 2, left_ms < INT_MAX ? (int)left_ms : INT_MAX) > 0
            && watched[0].revents != 0)
            return true;
    }
}

void collector_wait(struct collector *collector, int64_t until_ns)
{
    while (atomic_load(collector->ends_ns) == 0 && clock_now_ns() < until_ns) {
        const int64_t left_ms = (until_ns - clock_now_ns()) / NS_PER_MS + 1;
        struct pollfd watched = { .fd = collector->wake, .events = POLLIN };
        poll(&watched, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
    }
}

/* ------------------------------------------------------------- connection -- */

void collector_close(struct collector *collector)
{
    if (collector->socket >= 0)
        close(collector->socket);
    collector->socket = -1;
}

/* Returns 0 or an errno. */
static int connect_to(struct collector *collector, const struct addrinfo *address,
                      int64_t deadline_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    collector->socket =
        socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (collector->socket < 0)
        return errno;
    if (connect(collector->socket, address->ai_addr, address->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        const bool came = wait_for(collector, collector->socket, POLLOUT, deadline_ns);
        error = !came ? ETIMEDOUT : 0;
        if (came && getsockopt(collector->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error)
        collector_close(collector);
    else
        setsockopt(collector->socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return error;
}

/* Tries the addresses of the host in turn; each may take an equal part of the time. */
static bool open_connection(struct collector *collector, int64_t deadline_ns,
                            char reason[COLLECTOR_REASON_MAX])
{
    const struct span_options *options = collector->options;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV
                                                | (options->host_is_name ? 0 : AI_NUMERICHOST) };
    struct addrinfo *found = NULL;
    char port[8];
    int count = 0, error = EHOSTUNREACH;
    if (clock_now_ns() >= soonest(collector, deadline_ns))
        return fail(reason, "connect", strerror(ETIMEDOUT));
    snprintf(port, sizeof port, "%d", options->port);
    const int result = getaddrinfo(options->host, port, &hints, &found);
    if (result != 0)
        return fail(reason, "resolve", gai_strerror(result));
    for (const struct addrinfo *at = found; at && count < ADDRESSES_MAX; at = at->ai_next)
        count++;
    for (const struct addrinfo *at = found; at && count > 0 && error; at = at->ai_next, count--) {
        const int64_t now_ns = clock_now_ns();
        error = connect_to(collector, at, now_ns + (deadline_ns - now_ns) / count);
    }
    freeaddrinfo(found);
    return error == 0 || fail(reason, "connect", strerror(error));
}

/* A kept connection on which something has come, be it the end, is not used again. */
static bool is_usable(const struct collector *collector)
{
    char byte;
    return collector->socket >= 0 && recv(collector->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0
           && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* ---------------------------------------------------------------- request -- */

static bool send_whole(struct collector *collector, const char *bytes, size_t size, int flags,
                       int64_t deadline_ns, char reason[COLLECTOR_REASON_MAX])
{
    while (size > 0) {
        const ssize_t sent = send(collector->socket, bytes, size, MSG_NOSIGNAL | flags);
        if (sent >= 0) {
            bytes += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN) {
            if (!wait_for(collector, collector->socket, POLLOUT, deadline_ns))
                return fail(reason, "send", strerror(ETIMEDOUT));
        } else if (errno != EINTR) {
            return fail(reason, "send", strerror(errno));
        }
    }
    return true;
}

static bool send_request(struct collector *collector, const char *body, size_t size,
                         int64_t deadline_ns, char reason[COLLECTOR_REASON_MAX])
{
    const struct span_options *options = collector->options;
    const bool is_v6 = strchr(options->host, ':') != NULL;
    char head[SPAN_TARGET_MAX + SPAN_HOST_MAX + 256];
    const int length = snprintf(
        head, sizeof head,
        "POST %s HTTP/1.1\r\nHost: %s%s%s:%d\r\nUser-Agent: attnd/" ATTND_VERSION
        "\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        options->target, is_v6 ? "[" : "", options->host, is_v6 ? "]" : "", options->port, size);
    return send_whole(collector, head, (size_t)length, MSG_MORE, deadline_ns, reason)
           && send_whole(collector, body, size, 0, deadline_ns, reason);
}

/* ----------------------------------------------------------------- answer -- */

static bool receive(struct collector *collector, int64_t deadline_ns,
                    struct collector_answer *answer, char reason[COLLECTOR_REASON_MAX])
{
    collector->used = 0;
    for (;;) {
        if (!wait_for(collector, collector->socket, POLLIN, deadline_ns))
            return fail(reason, "answer", strerror(ETIMEDOUT));
        const ssize_t came = recv(collector->socket, collector->bytes + collector->used,
                                  COLLECTOR_ANSWER_BYTES_MAX - collector->used, MSG_DONTWAIT);
        if (came == 0)
            return fail(reason, "answer", "the collector closed the connection");
        if (came < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (came < 0)
            return fail(reason, "answer", strerror(errno));
        collector->used += (size_t)came;
        switch (collector_answer_read(answer, collector->bytes, collector->used)) {
        case COLLECTOR_DONE:
            return true;
        case COLLECTOR_BAD:
            return fail(reason, "answer", "it is no HTTP/1.1");
        case COLLECTOR_MORE:
            break;
        }
    }
}

/* A collector may answer before it has read all, and close: its answer counts even where sending
 * has failed. */
static bool exchange(struct collector *collector, const char *body, size_t size,
                     int64_t deadline_ns, struct collector_answer *answer,
                     char reason[COLLECTOR_REASON_MAX])
{
    char ignored[COLLECTOR_REASON_MAX];
    if (send_request(collector, body, size, deadline_ns, reason))
        return receive(collector, deadline_ns, answer, reason);
    const bool answered = receive(collector, deadline_ns, answer, ignored);
    if (answered)
        answer->closes = true;
    return answered;
}

/* Collectors close connections that are idle, and one may do so while a request is on its way: so a
 * request over a kept connection that gets no byte of an answer is sent again over a new one. */
bool collector_post(struct collector *collector, const char *body, size_t size,
                    struct collector_answer *answer, char reason[COLLECTOR_REASON_MAX])
{
    const int64_t deadline_ns = clock_now_ns() + collector->options->timeout_ns;
    bool done = false;
    collector->used = 0;
    if (is_usable(collector)) {
        done = exchange(collector, body, size, deadline_ns, answer, reason);
        if (!done && (collector->used > 0 || clock_now_ns() >= soonest(collector, deadline_ns))) {
            collector_close(collector);
            return false;
        }
    }
    if (!done) {
        collector_close(collector);
        done = open_connection(collector, deadline_ns, reason)
               && exchange(collector, body, size, deadline_ns, answer, reason);
    }
    if (!done || answer->closes)
        collector_close(collector);
    return done;
}
