/* SPDX-License-Identifier: Apache-2.0 */
/* http_timers.c - the bounds on time: of a connection without a request, a body on its way, a
 * parked exchange, and an answer that its client does not take.
 *
 * libmicrohttpd has only one timeout, on silence. A client gets around it with a byte now and then,
 * a suspended connection has no timeout, and it counts in whole seconds. So it is switched off, and
 * this file keeps all times. A connection counts as idle from its opening, or the end of its last
 * request, until the headers of its next request are there. This bounds slow headers too. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "telemetry/metrics.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum {
    IDLE_KEPT_MS = 3000,   /* idle time before a connection is closed to make room for another */
    ANSWER_STEPS = 64,     /* a client must take 1/64 of an answer in each send timeout */
    DRAINING_MS = 1000,    /* while the daemon drains, in this time */
    DRAINING_BYTES = 1024, /* so much of a body must come */
    REFUSED_MS = 100,      /* the body of a request that its key refuses may take to come */
};

#define MS INT64_C(1000000)

/* --------------------------------------------------- exchanges that wait -- */

/* The bytes that the client has acknowledged since the connection began; 0 where that is not
 * known. Of a Unix socket, those that libmicrohttpd has asked for (http_send.c). */
static uint64_t acknowledged_bytes(const struct exchange *exchange)
{
    const struct http_connection *connection = http_connection_of(exchange->connection);
    if (connection->listener->is_unix)
        return connection->given_bytes;
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return getsockopt(connection->socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0
               ? info.tcpi_bytes_acked
               : 0;
}

/* Whether the client has taken too little of an answer during the last send timeout. Called again
 * and again while the answer is being sent. The kernel is not asked about an answer that leaves at
 * once. */
static bool answer_stalls(struct exchange *exchange, int64_t now_ns)
{
    const bool first = exchange->sending_since_ns == 0;
    const int64_t timeout_ns = exchange->thread->http->options.send_timeout_ns;
    if (!first && now_ns - exchange->sending_since_ns < timeout_ns)
        return false;
    const uint64_t taken = acknowledged_bytes(exchange);
    const uint64_t before = exchange->sending_taken;
    exchange->sending_since_ns = now_ns;
    exchange->sending_taken = taken;
    return !first && (taken == before || taken - before < exchange->answer.size / ANSWER_STEPS);
}

/* Whether too little of a body has come lately while the daemon drains, which does not wait for a
 * client that only holds it up. */
static bool body_stalls(struct exchange *exchange, int64_t now_ns)
{
    const int64_t since_ns = exchange->draining_since_ns;
    const size_t came = exchange->received - exchange->draining_received;
    if (!atomic_load(&exchange->thread->http->draining_since_ns)
        || (since_ns != 0 && now_ns - since_ns < DRAINING_MS * MS))
        return false;
    exchange->draining_since_ns = now_ns;
    exchange->draining_received = exchange->received;
    return since_ns != 0 && came < DRAINING_BYTES;
}

/* Whether a body has taken too long. A body that is only read to be dropped (http_body_queue.c),
 * because a key refuses its request, gets little time: who has no key must not hold a connection
 * with it, and the refusal must not wait for it. */
static bool body_is_late(const struct exchange *exchange, int64_t now_ns)
{
    const int64_t timeout_ns = exchange->thread->http->options.body_timeout_ns;
    const bool is_short = http_is_refused_by_key(exchange) && timeout_ns > REFUSED_MS * MS;
    return now_ns > exchange->body_deadline_ns - (is_short ? timeout_ns - REFUSED_MS * MS : 0);
}

/* Ends the connection of an answer, and throws away the part that lies in the socket's buffer. */
static void give_up_answer(struct exchange *exchange)
{
    const int socket = http_connection_of(exchange->connection)->socket;
    exchange->stalled = true;
    http_connection_of(exchange->connection)->shut = true;
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
               sizeof(struct linger));
    shutdown(socket, SHUT_RDWR);
}

static void check_waiting(struct http_thread *thread, int64_t now_ns)
{
    if (!thread->waiting.first || now_ns - thread->timers_checked_ns < HTTP_TIMER_MS * MS)
        return;
    thread->timers_checked_ns = now_ns;
    for (struct exchange *exchange = thread->waiting.first, *next; exchange; exchange = next) {
        next = exchange->in_waiting.next;
        if (exchange->queued) {
            if (answer_stalls(exchange, now_ns)) {
                http_waiting_remove(exchange);
                give_up_answer(exchange);
            }
        } else if (exchange->body_state == HTTP_BODY_WAITS) {
            if (exchange->outlook.latest_ns && now_ns > exchange->outlook.latest_ns)
                http_body_queue_call(exchange);
        } else if (exchange->reading
                   && (body_is_late(exchange, now_ns) || body_stalls(exchange, now_ns))) {
            if (!http_is_refused_by_key(exchange))
                fault_set(&exchange->fault, FAULT_TIMEOUT, "the body did not arrive in time");
            http_end_body(exchange);
        } else if (exchange->reading && http_chunk_line_stalls(exchange)) {
            fault_set(
                &exchange->fault, FAULT_CODING,
                "a line of the chunked body is longer than what the headers leave of %d bytes",
                HTTP_POOL_BYTES);
            http_end_body(exchange);
        } else if (exchange->parked && exchange->deadline_ns && now_ns > exchange->deadline_ns) {
            http_waiting_remove(exchange);
            exchange->end(exchange->owner, EXCHANGE_DEADLINE);
        }
    }
}

/* ------------------------------------------------------ idle connections -- */

/* Whether this thread has the connection that has been idle the longest of all. */
static bool has_longest_idle(const struct http_thread *thread)
{
    const struct http *http = thread->http;
    const int64_t own_ns = atomic_load(&thread->idle_first_ns);
    for (int i = 0; i < http->thread_count; i++)
        if (atomic_load(&http->threads[i].idle_first_ns) < own_ns)
            return false;
    return true;
}

static void close_idle(struct http_thread *thread, struct http_connection *connection,
                       enum connection_end why)
{
    http_idle_end(thread, connection);
    connection->closing = true;
    atomic_fetch_add(&thread->closing_count, 1);
    connection_metrics_closed(why);
    http_connection_shut(connection, SHUT_RDWR);
}

/* Closes connections that are idle for too long. While the daemon is full, a connection may be
 * closed sooner, to make room for another. The list is in the order of time. */
static void check_idle(struct http_thread *thread, int64_t now_ns)
{
    const int64_t timeout_ns = thread->http->options.idle_timeout_ns;
    for (struct http_connection *connection = thread->idle.first, *next; connection;
         connection = next) {
        const int64_t idle_ns = now_ns - connection->idle_since_ns;
        next = connection->in_idle.next;
        if (idle_ns > timeout_ns)
            close_idle(thread, connection, CONNECTION_IDLE);
        else if (idle_ns <= IDLE_KEPT_MS * MS || !http_is_full(thread->http)
                 || !has_longest_idle(thread))
            return;
        else
            close_idle(thread, connection, CONNECTION_FOR_ANOTHER);
    }
}

int http_timers_ms(const struct http_thread *thread, int most_ms)
{
    int wait_ms = thread->waiting.first && most_ms > HTTP_TIMER_MS ? HTTP_TIMER_MS : most_ms;
    if (!thread->idle.first)
        return wait_ms;
    if (atomic_load(&thread->http->draining_since_ns))
        return wait_ms < HTTP_TIMER_MS ? wait_ms : HTTP_TIMER_MS;
    int64_t allowed_ns = thread->http->options.idle_timeout_ns;
    if (allowed_ns > IDLE_KEPT_MS * MS && http_is_full(thread->http))
        allowed_ns = IDLE_KEPT_MS * MS;
    const int64_t left_ms =
        (thread->idle.first->idle_since_ns + allowed_ns - clock_now_ns()) / MS + 1;
    if (left_ms < 1)
        return 1;
    return left_ms < wait_ms ? (int)left_ms : wait_ms;
}

void http_check_timers(struct http_thread *thread)
{
    const int64_t now_ns = clock_now_ns();
    check_waiting(thread, now_ns);
    http_linger_check(thread, now_ns);
    http_tls_check(thread, now_ns);
    if (atomic_load(&thread->http->draining_since_ns))
        http_drain_idle(thread);
    else
        check_idle(thread, now_ns);
}
