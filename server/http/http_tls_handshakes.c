/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_handshakes.c - the TLS handshakes of a connection thread.
 *
 * A handshake costs a signature, up to several milliseconds with a long RSA key. If libmicrohttpd
 * had its way, it would make all signatures of a burst in one run, and all kept connections of the
 * thread would wait for that. Between the messages of a handshake it would ask to be run again and
 * again, because it never notes that the socket has nothing to read. So its connection is suspended
 * during the handshake, except for single runs, and this file drives the handshake:
 *
 * 1. http_thread.disconnects tells when bytes have come.
 * 2. The client's hello is answered here: this is the signature. One turn of the thread answers
 *    hellos only for a short time. A client whose hello cannot be answered gets an alert, or words
 *    where it speaks plain HTTP; libmicrohttpd would only close the connection.
 * 3. When the client's next messages have come, the connection is resumed for one run of
 *    libmicrohttpd, which must believe that it has made the handshake itself.
 *
 * A handshake under way takes no more than an open connection does, so there is no bound on their
 * number but --connections-max. With one, clients that connect and stay silent would keep others
 * waiting in the kernel's queue until their time is over. */
#include "http/http_tls_session.h"

#include "base/clock.h"
#include "telemetry/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    HANDSHAKE_MS = 10000, /* the longest that one may take */
    TURN_MS = 2,          /* in one turn of a thread no hello is answered after this time */
    RUNNING_MAX = 16,     /* handshakes that one turn of a thread gives to libmicrohttpd */
    LOOK_MS = 100,        /* between two looks for handshakes that take too long */
};

#define MS INT64_C(1000000)

/* ------------------------------------------------------------ one handshake -- */

static void watch(const struct http_tls_session *tls, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = tls->connection };
    if (epoll_ctl(tls->thread->disconnects, EPOLL_CTL_MOD, tls->connection->socket, &event) != 0)
        log_line(LOG_DEBUG, "handshake", LOG_STRING("reason", strerror(errno)));
}

/* Waits for what the handshake needs next: bytes of the client, or room for those to the client.
 * The event comes once, also where some of the bytes stay unread. */
static void watch_handshake(const struct http_tls_session *tls)
{
    const bool writes = gnutls_record_get_direction(tls->library) == 1;
    watch(tls, (writes ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP | EPOLLONESHOT);
}

static void leave_lists(struct http_tls_session *tls)
{
    struct http_tls_handshakes *handshakes = &tls->thread->handshakes;
    if (LIST_HAS(&handshakes->all, tls, in_handshakes))
        LIST_TAKE_OUT(&handshakes->all, tls, in_handshakes);
    if (LIST_HAS(&handshakes->ready, tls, in_ready))
        LIST_TAKE_OUT(&handshakes->ready, tls, in_ready);
    if (LIST_HAS(&handshakes->running, tls, in_running))
        LIST_TAKE_OUT(&handshakes->running, tls, in_running);
    http_tls_note_read(tls, false);
}

static void resume(struct http_tls_session *tls)
{
    LIST_APPEND(&tls->thread->handshakes.running, tls, in_running);
    MHD_resume_connection(tls->connection->library);
}

/* Ends a handshake: libmicrohttpd finds the end of the stream and closes the connection. */
static void refuse(struct http_tls_session *tls, const char *reason)
{
    struct http_tls_handshakes *handshakes = &tls->thread->handshakes;
    log_line(LOG_DEBUG, "handshake ended", LOG_STRING("client", tls->connection->client),
             LOG_STRING("reason", reason));
    if (LIST_HAS(&handshakes->ready, tls, in_ready))
        LIST_TAKE_OUT(&handshakes->ready, tls, in_ready);
    tls->is_refused = true;
    resume(tls);
}

/* The handshake has ended well: the connection begins its wait for a request. */
static void finish(struct http_tls_session *tls)
{
    struct http_thread *thread = tls->thread;
    leave_lists(tls);
    tls->phase = HTTP_TLS_OPEN;
    watch(tls, EPOLLRDHUP | EPOLLET);
    if (!tls->connection->closing && LIST_HAS(&thread->idle, tls->connection, in_idle)) {
        http_idle_end(thread, tls->connection);
        http_idle_begin(thread, tls->connection);
    }
}

/* --------------------------------------------------------------- the hello -- */

/* Whether a client begins with the method of a plain request: no TLS begins with a letter. */
static bool is_plain_http(const struct http_tls_session *tls)
{
    char first;
    return recv(tls->connection->socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first >= 'A'
           && first <= 'Z';
}

static void refuse_plain_http(struct http_tls_session *tls)
{
    static const char body[] =
        "{\"error\":\"this port speaks TLS, and plain HTTP came; use https://\","
        "\"code\":\"http\"}\n";
    char answer[sizeof body + 128];
    const int size = snprintf(answer, sizeof answer,
                              "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
                              "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                              sizeof body - 1, body);
    if (send(tls->connection->socket, answer, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_line(LOG_DEBUG, "answer not sent", LOG_STRING("reason", strerror(errno)));
    refuse(tls, "plain HTTP");
}

/* The certificate is chosen now: what was read since the connection was opened counts. */
static void choose_identity(struct http_tls_session *tls)
{
    tls->identity = http_tls_identity_now(tls->thread->http);
    http_tls_identity_use(tls->identity, tls->library);
}

/* Reads of the hello what has come, and answers it where it is whole. */
static void answer_hello(struct http_tls_session *tls)
{
    if (!tls->identity && is_plain_http(tls)) {
        refuse_plain_http(tls);
        return;
    }
    if (!tls->identity)
        choose_identity(tls);
    tls->answering = true;
    tls->has_sent = false;
    const int status = gnutls_handshake(tls->library);
    tls->answering = false;
    if (status < 0 && gnutls_error_is_fatal(status)) {
        gnutls_alert_send_appropriate(tls->library, status);
        refuse(tls, gnutls_strerror(status));
        return;
    }
    if (tls->answered)
        tls->phase = HTTP_TLS_ANSWERED;
    watch_handshake(tls);
}

/* ------------------------------------------------------------- what is unread -- */

/* After a record without data (a new key, nothing but padding) GnuTLS returns GNUTLS_E_AGAIN, and
 * libmicrohttpd waits for an edge of the socket. But what the client sent behind the record has
 * made its edge already. So the daemon remembers the sessions that have not read their socket
 * empty. Where libmicrohttpd does not read on in its next run, its connection is suspended and
 * resumed: a connection that is resumed is read, edge or not. */

static bool is_suspended(const struct http_tls_session *tls)
{
    return MHD_get_connection_info(tls->connection->library,
                                   MHD_CONNECTION_INFO_CONNECTION_SUSPENDED)
        ->suspended;
}

static void read_on(struct http_thread *thread)
{
    for (struct http_tls_session *tls = thread->handshakes.unread.first, *next; tls; tls = next) {
        size_t bytes;
        next = tls->in_unread.next;
        if (tls->read_in == thread->run_count)
            continue;
        LIST_TAKE_OUT(&thread->handshakes.unread, tls, in_unread);
        if (is_suspended(tls) || !http_connection_unread(tls->connection, &bytes) || bytes == 0)
            continue;
        MHD_suspend_connection(tls->connection->library);
        MHD_resume_connection(tls->connection->library);
    }
}

/* Connections that wait for something else are resumed in any case. */
static void forget_suspended(struct http_tls_handshakes *handshakes)
{
    for (struct http_tls_session *tls = handshakes->unread.first, *next; tls; tls = next) {
        next = tls->in_unread.next;
        if (is_suspended(tls))
            LIST_TAKE_OUT(&handshakes->unread, tls, in_unread);
    }
}

/* ---------------------------------------------------------------- a thread -- */

void http_tls_begin(struct http_thread *thread, struct http_connection *connection)
{
    struct http_tls_session *tls = connection->tls;
    tls->since_ns = clock_now_ns();
    LIST_APPEND(&thread->handshakes.all, tls, in_handshakes);
    MHD_suspend_connection(connection->library);
    watch_handshake(tls);
}

bool http_tls_is_handshaking(const struct http_connection *connection)
{
    return connection->tls && connection->tls->phase != HTTP_TLS_OPEN;
}

void http_tls_see(struct http_thread *thread, struct http_connection *connection)
{
    struct http_tls_session *tls = connection->tls;
    if (!LIST_HAS(&thread->handshakes.ready, tls, in_ready)
        && !LIST_HAS(&thread->handshakes.running, tls, in_running))
        LIST_APPEND(&thread->handshakes.ready, tls, in_ready);
}

void http_tls_run(struct http_thread *thread)
{
    struct http_tls_handshakes *handshakes = &thread->handshakes;
    read_on(thread);
    if (!handshakes->ready.first)
        return;
    const int64_t until_ns = clock_now_ns() + TURN_MS * MS;
    for (int count = 0; handshakes->ready.first && count < RUNNING_MAX; count++) {
        struct http_tls_session *tls = handshakes->ready.first;
        LIST_TAKE_OUT(&handshakes->ready, tls, in_ready);
        if (tls->phase == HTTP_TLS_HELLO && !tls->is_refused)
            answer_hello(tls);
        else
            resume(tls);
        if (clock_now_ns() > until_ns)
            return;
    }
}

void http_tls_ran(struct http_thread *thread)
{
    struct http_tls_handshakes *handshakes = &thread->handshakes;
    while (handshakes->running.first) {
        struct http_tls_session *tls = handshakes->running.first;
        LIST_TAKE_OUT(&handshakes->running, tls, in_running);
        if (tls->finished_there && tls->finished_here) {
            finish(tls);
        } else {
            MHD_suspend_connection(tls->connection->library);
            watch_handshake(tls);
        }
    }
    forget_suspended(handshakes);
}

void http_tls_check(struct http_thread *thread, int64_t now_ns)
{
    for (struct http_tls_session *tls = thread->handshakes.all.first;
         tls && now_ns - tls->since_ns > HANDSHAKE_MS * MS; tls = tls->in_handshakes.next)
        if (!LIST_HAS(&thread->handshakes.running, tls, in_running))
            refuse(tls, "the handshake takes too long");
}

int http_tls_ms(const struct http_thread *thread, int most_ms)
{
    const struct http_tls_handshakes *handshakes = &thread->handshakes;
    if (handshakes->ready.first || handshakes->running.first || handshakes->unread.first)
        return 0;
    return handshakes->all.first && most_ms > LOOK_MS ? LOOK_MS : most_ms;
}

void http_tls_end(struct http_thread *thread)
{
    for (struct http_tls_session *tls = thread->handshakes.all.first; tls;
         tls = tls->in_handshakes.next)
        if (!LIST_HAS(&thread->handshakes.running, tls, in_running))
            refuse(tls, "the daemon stops");
}

bool http_tls_open(struct http_thread *thread, struct http_connection *connection)
{
    connection->tls = http_tls_session_create(thread, connection);
    return connection->tls != NULL;
}

void http_tls_close(struct http_connection *connection)
{
    struct http_tls_session *tls = connection->tls;
    if (!tls)
        return;
    leave_lists(tls);
    http_tls_session_free(tls);
    connection->tls = NULL;
}
