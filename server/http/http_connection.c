/* SPDX-License-Identifier: Apache-2.0 */
/* http_connection.c - the small things that every file here asks of a connection and its thread.
 *
 * It is below all files that use it and calls none of them, so that they need not call each other
 * in a circle. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "telemetry/log.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS INT64_C(1000000)

void http_wake(struct http_thread *thread)
{
    const uint64_t one = 1;
    if (write(thread->event, &one, sizeof one) < 0)
        log_line(LOG_ERROR, "eventfd", LOG_STRING("reason", strerror(errno)));
}

struct http_connection *http_connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

bool http_connection_send(struct http_connection *connection, const void *data, size_t size)
{
    if (connection->tls)
        return http_tls_send(connection, data, size);
    return send(connection->socket, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

void http_connection_shut(struct http_connection *connection, int how)
{
    if (connection->tls)
        http_tls_say_bye(connection);
    shutdown(connection->socket, how);
}

bool http_connection_unread(const struct http_connection *connection, size_t *bytes)
{
    int in_kernel = 0;
    if (ioctl(connection->socket, SIOCINQ, &in_kernel) != 0)
        return false;
    *bytes = (size_t)in_kernel + (connection->tls ? http_tls_pending(connection) : 0);
    return true;
}

void http_connection_end(struct http_connection *connection)
{
    connection->shut = true;
    http_connection_shut(connection, SHUT_RDWR);
    MHD_set_connection_option(connection->library, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
}

int64_t http_came_ago_ns(const struct http_connection *connection)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    if (connection->listener->is_unix
        || getsockopt(connection->socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    /* The kernel subtracts two counts of ticks, so up to one tick less may have passed. */
    const int64_t counted_ns = info.tcpi_last_data_recv * MS;
    const int64_t tick_ns = clock_tick_ns();
    return counted_ns > tick_ns ? counted_ns - tick_ns : 0;
}

/* ---------------------------------------------------------- lists of a thread -- */

void http_waiting_add(struct exchange *exchange)
{
    struct http_thread *thread = exchange->thread;
    if (!LIST_HAS(&thread->waiting, exchange, in_waiting))
        LIST_APPEND(&thread->waiting, exchange, in_waiting);
}

void http_waiting_remove(struct exchange *exchange)
{
    struct http_thread *thread = exchange->thread;
    if (LIST_HAS(&thread->waiting, exchange, in_waiting))
        LIST_TAKE_OUT(&thread->waiting, exchange, in_waiting);
}

/* Publishes how long the first connection is idle: other threads compare it with their own. */
static void tell_first(struct http_thread *thread)
{
    const struct http_connection *first = thread->idle.first;
    atomic_store_explicit(&thread->idle_first_ns, first ? first->idle_since_ns : INT64_MAX,
                          memory_order_relaxed);
}

void http_idle_begin(struct http_thread *thread, struct http_connection *connection)
{
    connection->idle_since_ns = clock_now_ns();
    LIST_APPEND(&thread->idle, connection, in_idle);
    tell_first(thread);
}

void http_idle_end(struct http_thread *thread, struct http_connection *connection)
{
    if (!LIST_HAS(&thread->idle, connection, in_idle))
        return;
    LIST_TAKE_OUT(&thread->idle, connection, in_idle);
    tell_first(thread);
}
