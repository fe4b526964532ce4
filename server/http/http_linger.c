/* SPDX-License-Identifier: Apache-2.0 */
/* http_linger.c - connections that end before their client has sent all.
 *
 * To close a socket that has unread bytes, or to which more bytes come, resets the connection. A
 * reset throws away the answer that the client, busy sending, has not read yet, so the client would
 * never know why it was refused (RFC 9112, 9.6). So a second descriptor keeps such a connection
 * open when libmicrohttpd closes its own. The daemon closes its sending end and drops the bytes
 * that come, until the client closes its end, falls silent, or has used up its time or its bytes.
 * Only a few connections may linger at a time.
 *
 * Under overload most connections end so, and to take their bodies from the network and drop them
 * would cost a good part of the answers that the daemon still gives. So requests that are refused
 * for load or for their key have a budget: while more bytes of theirs were dropped lately than
 * REFUSED_BYTES_PER_S pays for, such a connection is closed at once, and only a client that reads
 * while it sends is sure to see the answer. */
#include "http/http_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LINGERING_MAX = 32, /* connections at a time, in the whole daemon: their descriptors come on top
                           of --connections-max */
    SILENCE_MS = 1000,  /* without a byte, after which a connection ends */
    LOOK_MS = 100,      /* between two looks for connections to end */
    READ_BYTES = 64 * 1024,
    READS_MAX = 8, /* of one connection, before the thread looks at others */
};

enum {
    REFUSED_BYTES_PER_S = 32 * 1024 * 1024, /* less than a hundredth of a CPU's time */
    REFUSED_AHEAD_MS = 1000,                /* that dropped bytes may be ahead of that rate */
};

#define MS INT64_C(1000000)

struct http_linger {
    enum http_watched watched;
    int socket;
    bool has_budget; /* its request was refused for load or for its key */
    int flags;       /* of recv() */
    uint64_t bytes_left;
    int64_t heard_ns, until_ns;
    LIST_LINK(struct http_linger) in_lingering;
};

static void linger_end(struct http_thread *thread, struct http_linger *linger)
{
    LIST_TAKE_OUT(&thread->lingering, linger, in_lingering);
    if (linger->socket >= 0)
        close(linger->socket);
    free(linger);
    atomic_fetch_sub(&thread->http->lingering_count, 1);
}

/* How many bytes may be dropped; 0: the connection need not linger. A connection that the client
 * has left, or that was shut down for another reason than an answer, does not linger. */
static uint64_t wanted_bytes(const struct http_connection *connection)
{
    int unread_bytes = 0;
    if (connection->left || connection->closing || connection->shut)
        return 0;
    if (connection->dropped_max > 0)
        return connection->dropped_max;
    const bool has_more =
        ioctl(connection->socket, SIOCINQ, &unread_bytes) == 0 && unread_bytes > 0;
    return has_more ? HTTP_DROPPED_BYTES : 0;
}

/* Whether the budget of refused requests has something left. */
static bool has_budget_left(const struct http *http, int64_t now_ns)
{
    return atomic_load(&http->dropped_paid_ns) <= now_ns + REFUSED_AHEAD_MS * MS;
}

/* Dropped bytes move the time at which all of them are paid for. */
static void pay(struct http *http, uint64_t bytes, int64_t now_ns)
{
    const int64_t cost_ns = (int64_t)(bytes * 1000 / (REFUSED_BYTES_PER_S / 1000)) * 1000;
    int64_t paid_ns = atomic_load(&http->dropped_paid_ns);
    while (!atomic_compare_exchange_weak(&http->dropped_paid_ns, &paid_ns,
                                         (paid_ns > now_ns ? paid_ns : now_ns) + cost_ns))
        ;
}

static bool watch(struct http_thread *thread, struct http_linger *linger, int socket)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = linger };
    linger->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    epoll_ctl(thread->disconnects, EPOLL_CTL_DEL, socket,
              NULL); /* its copy keeps the file open, so to close it would not do this */
    return linger->socket >= 0
           && epoll_ctl(thread->disconnects, EPOLL_CTL_ADD, linger->socket, &event) == 0
           && shutdown(linger->socket, SHUT_WR) == 0;
}

void http_linger_begin(struct http_thread *thread, const struct http_connection *connection)
{
    struct http *http = thread->http;
    const uint64_t bytes = wanted_bytes(connection);
    const int64_t now_ns = clock_now_ns();
    if (bytes == 0 || (connection->was_refused && !has_budget_left(http, now_ns)))
        return;
    struct http_linger *linger = NULL;
    if (atomic_fetch_add(&http->lingering_count, 1) < LINGERING_MAX)
        linger = calloc(1, sizeof *linger);
    if (!linger) {
        atomic_fetch_sub(&http->lingering_count, 1);
        return;
    }
    linger->watched = HTTP_WATCHED_LINGER;
    linger->has_budget = connection->was_refused;
    /* TCP drops the bytes without copying them (tcp(7)). */
    linger->flags = MSG_DONTWAIT | (connection->listener->is_unix ? 0 : MSG_TRUNC);
    linger->bytes_left = bytes;
    linger->heard_ns = now_ns;
    linger->until_ns = linger->heard_ns + http->options.body_timeout_ns;
    LIST_APPEND(&thread->lingering, linger, in_lingering);
    if (!watch(thread, linger, connection->socket))
        linger_end(thread, linger);
}

void http_linger_read(struct http_thread *thread, struct http_linger *linger)
{
    char dropped[READ_BYTES];
    for (int reads = 0; reads < READS_MAX; reads++) {
        const ssize_t size = recv(linger->socket, dropped, sizeof dropped, linger->flags);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size <= 0 || (uint64_t)size > linger->bytes_left) {
            linger_end(thread, linger);
            return;
        }
        linger->bytes_left -= (uint64_t)size;
        linger->heard_ns = clock_now_ns();
        if (linger->has_budget)
            pay(thread->http, (uint64_t)size, linger->heard_ns);
    }
}

void http_linger_check(struct http_thread *thread, int64_t now_ns)
{
    for (struct http_linger *linger = thread->lingering.first, *next; linger; linger = next) {
        next = linger->in_lingering.next;
        if (now_ns > linger->until_ns || now_ns - linger->heard_ns > SILENCE_MS * MS)
            linger_end(thread, linger);
    }
}

int http_linger_ms(const struct http_thread *thread, int most_ms)
{
    return thread->lingering.first && most_ms > LOOK_MS ? LOOK_MS : most_ms;
}

void http_linger_end(struct http_thread *thread)
{
    for (struct http_linger *linger = thread->lingering.first, *next; linger; linger = next) {
        next = linger->in_lingering.next;
        linger_end(thread, linger);
    }
}
