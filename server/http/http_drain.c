/* SPDX-License-Identifier: Apache-2.0 */
/* http_drain.c - the end of all connections, so that no request is lost on the way.
 *
 * A client whose handshake has ended may have sent its request, and to close the listening socket
 * resets the connections that are still in the socket's queue. So the daemon begins no more
 * handshakes, lets those under way end, empties the queue, and only then closes the socket. The
 * request that was sent on a connection gets its answer, which is the last on that connection.
 *
 * A socket that a service manager passed is only closed here: clients go on to connect to it, and
 * the daemon that gets it next answers those that are in its queue by then.
 *
 * A connection on which nothing comes is closed in two steps: the daemon's sending end first, and
 * the rest when the bytes have come that may have crossed this on the way. For bytes that reach a
 * closed socket are answered by a reset. A reset tells the client as much as an end without an
 * answer does, but it may destroy an earlier answer that the client has not read yet. */
#include "http/http_internal.h"

#include "base/clock.h"

#include <sys/socket.h>

enum {
    CROSSING_MS = 20, /* in which packets arrive that were sent before the other end was seen */
    QUIET_MS = 50,    /* in which a client that uses its connection again sends the next request */
    FIRST_MS = 1000,  /* for the first request of a connection, or the rest of a request */
};

#define MS INT64_C(1000000)

/* ------------------------------------------------------------------ the queue -- */

static void close_listeners(struct http *http)
{
    for (int i = 0; i < http->listener_count; i++)
        listener_close(&http->listeners[i]);
    atomic_store(&http->accepting, false);
}

bool http_accept_last(struct http *http)
{
    const int64_t now_ns = clock_now_ns();
    bool all_taken = true;
    if (http->handshakes_end_ns == 0) {
        http->handshakes_end_ns = now_ns + CROSSING_MS * MS;
        for (int i = 0; i < http->listener_count; i++)
            listener_begin_none(&http->listeners[i]);
    }
    for (int i = 0; i < http->listener_count; i++) {
        const struct listener *listener = &http->listeners[i];
        const bool taken = http_may_accept(http) && http_accept(http, listener);
        all_taken = (taken || listener->is_passed) && all_taken;
    }
    if (!all_taken || now_ns < http->handshakes_end_ns)
        return false;
    close_listeners(http);
    return true;
}

/* -------------------------------------------------------- idle connections -- */

/* Whether a part of a request has come since the connection became idle, as far as the kernel's
 * ticks tell. */
static bool has_begun(const struct http_connection *connection, int64_t idle_ns)
{
    return http_came_ago_ns(connection) + 2 * clock_tick_ns() < idle_ns;
}

static bool may_close(const struct http_connection *connection, int64_t now_ns, int64_t drain_ns)
{
    const int64_t idle_ns = now_ns - connection->idle_since_ns;
    if (idle_ns <= QUIET_MS * MS || (!connection->served && idle_ns <= FIRST_MS * MS))
        return false;
    return !has_begun(connection, idle_ns) || now_ns - drain_ns > FIRST_MS * MS;
}

/* Closes the sending end. The connection goes to the end of the list, which is in the order of
 * time. */
static void close_sending_end(struct http_thread *thread, struct http_connection *connection)
{
    http_idle_end(thread, connection);
    connection->closing = true;
    atomic_fetch_add(&thread->closing_count, 1);
    http_connection_shut(connection, SHUT_WR);
    http_idle_begin(thread, connection);
}

void http_drain_idle(struct http_thread *thread)
{
    const int64_t now_ns = clock_now_ns();
    const int64_t drain_ns = atomic_load(&thread->http->draining_since_ns);
    for (struct http_connection *connection = thread->idle.first, *next; connection;
         connection = next) {
        next = connection->in_idle.next;
        if (connection->closing && now_ns - connection->idle_since_ns > CROSSING_MS * MS) {
            http_idle_end(thread, connection);
            http_connection_shut(connection, SHUT_RDWR);
        } else if (!connection->closing && may_close(connection, now_ns, drain_ns)) {
            close_sending_end(thread, connection);
        }
    }
}

/* --------------------------------------------------------------- the daemon -- */

void http_end_connections(struct http *http)
{
    atomic_store(&http->ending, true);
}

void http_drain(struct http *http)
{
    atomic_store(&http->draining_since_ns, clock_now_ns());
    for (int i = 0; i < http->thread_count; i++)
        http_wake(&http->threads[i]);
}

int64_t http_active_count(const struct http *http)
{
    return atomic_load(&http->active_count);
}

/* Looks at the places in the order in which a connection goes through them, so that no connection
 * is missed on its way. */
bool http_is_drained(const struct http *http)
{
    if (atomic_load(&http->accepting))
        return false;
    for (int i = 0; i < http->thread_count; i++)
        if (atomic_load(&http->threads[i].arriving_count) > 0)
            return false;
    for (int i = 0; i < http->thread_count; i++)
        if (atomic_load(&http->threads[i].idle_first_ns) != INT64_MAX)
            return false;
    return http_active_count(http) == 0;
}

void http_refuse(struct http *http)
{
    atomic_store(&http->refusing, true);
}
