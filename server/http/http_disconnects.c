/* SPDX-License-Identifier: Apache-2.0 */
/* http_disconnects.c - connections that open and close, and the clients that leave them.
 *
 * libmicrohttpd reads until a short read and then waits for an edge. So it does not see an end of
 * stream that came with the last bytes, until the idle timeout; and it looks at nothing while a
 * connection is suspended. A second epoll descriptor, http_thread.disconnects, sees these ends. An
 * end that was seen before a run of libmicrohttpd is acted upon after the run, when the bytes that
 * came before the end have been read. A client that leaves while its exchange is parked ends the
 * exchange, even a client that has closed only its sending end: the kernel does not tell the two
 * apart. */
#include "http/http_internal.h"

#include "http/peer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "json/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void leaving_remove(struct http_thread *thread, struct http_connection *connection)
{
    if (LIST_HAS(&thread->leaving, connection, in_leaving))
        LIST_TAKE_OUT(&thread->leaving, connection, in_leaving);
}

void http_see_disconnects(struct http_thread *thread)
{
    struct epoll_event events[64];
    int count;
    do {
        count = epoll_wait(thread->disconnects, events, 64, 0);
        for (int i = 0; i < count; i++) {
            if (*(enum http_watched *)events[i].data.ptr == HTTP_WATCHED_LINGER) {
                http_linger_read(thread, events[i].data.ptr);
                continue;
            }
            struct http_connection *connection = events[i].data.ptr;
            if (http_tls_is_handshaking(connection)) {
                http_tls_see(thread, connection);
                continue;
            }
            connection->left = true;
            /* The shutdown that follows is one more edge, which must not come back here. */
            epoll_ctl(thread->disconnects, EPOLL_CTL_DEL, connection->socket, NULL);
            LIST_APPEND(&thread->leaving, connection, in_leaving);
        }
    } while (count == 64);
}

/* Whether bytes of a TLS client that left are still to be read: libmicrohttpd reads one record in a
 * run. Not while the connection waits for something else. */
static bool reads_on(const struct http_connection *connection)
{
    const struct exchange *exchange = connection->exchange;
    size_t bytes = 0;
    return connection->tls
           && (!exchange
               || (exchange->reading && !exchange->is_held
                   && exchange->body_state != HTTP_BODY_WAITS))
           && http_connection_unread(connection, &bytes) && bytes > 0;
}

void http_end_disconnects(struct http_thread *thread)
{
    for (struct http_connection *connection = thread->leaving.first, *next; connection;
         connection = next) {
        struct exchange *exchange = connection->exchange;
        next = connection->in_leaving.next;
        if (reads_on(connection))
            continue;
        leaving_remove(thread, connection);
        if (exchange && exchange->is_held)
            http_refusals_release(exchange);
        else if (exchange && exchange->body_state == HTTP_BODY_WAITS) {
            http_body_queue_call(exchange);
        } else if (!exchange) {
            http_connection_shut(connection, SHUT_RDWR);
        } else if (exchange->reading) {
            http_connection_end(connection);
        } else if (exchange->parked && LIST_HAS(&thread->waiting, exchange, in_waiting)
                   && !exchange->queued) {
            http_waiting_remove(exchange);
            exchange->end(exchange->owner, EXCHANGE_LEFT);
        }
    }
}

/* Users of one machine have no addresses that tell them apart, so the user is the peer. */
static void describe_local_client(struct http_connection *record, int64_t uid)
{
    record->peer = peer_number_of_user(uid);
    if (uid >= 0)
        snprintf(record->client, sizeof record->client, "unix:uid=%lld", (long long)uid);
    else
        text_copy(record->client, sizeof record->client, "unix");
}

static void describe_client(struct http_connection *record, struct MHD_Connection *connection)
{
    const struct sockaddr *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    record->peer = peer_number(address);
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, record->client,
                  sizeof record->client);
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, record->client,
                  sizeof record->client);
}

static struct http_connection *connection_create(struct http_thread *thread,
                                                 struct MHD_Connection *connection)
{
    struct http_connection *record = calloc(1, sizeof *record);
    if (!record)
        return NULL; /* the requests of this connection get 503 */
    record->library = connection;
    record->socket =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    record->listener = thread->arriving->listener;
    if (http_is_tls(thread->http, record->listener) && !http_tls_open(thread, record)) {
        free(record);
        return NULL;
    }
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLET, .data.ptr = record };
    if (epoll_ctl(thread->disconnects, EPOLL_CTL_ADD, record->socket, &event) != 0)
        log_line(LOG_DEBUG, "disconnects", LOG_STRING("reason", strerror(errno)));
    if (record->listener->is_unix)
        describe_local_client(record, thread->arriving->uid);
    else
        describe_client(record, connection);
    http_idle_begin(thread, record);
    return record;
}

void http_on_connection(void *context, struct MHD_Connection *connection, void **state,
                        enum MHD_ConnectionNotificationCode code)
{
    struct http_thread *thread = context;
    struct http_connection *record = *state;
    thread->call_count++;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        metrics_gauge_add(METRICS_CONNECTIONS, 1);
        http_connection_opened(thread);
        *state = thread->opened = connection_create(thread, connection);
        return;
    }
    metrics_gauge_add(METRICS_CONNECTIONS, -1);
    if (record) {
        leaving_remove(thread, record);
        http_idle_end(thread, record);
        http_linger_begin(thread, record);
        http_tls_close(record);
        if (thread->opened == record)
            thread->opened = NULL;
        atomic_fetch_sub(&thread->closing_count, record->closing);
        free(record);
    }
    http_connection_closed(thread);
}
