/* SPDX-License-Identifier: Apache-2.0 */
/* http_chunk_line.c - lines of a chunked body that are longer than libmicrohttpd has room for.
 *
 * libmicrohttpd wants the whole line of a chunk's size and its extensions in the pool of the
 * connection. When the pool is full before the line has ended, 0.9.75 never reads again: it asks to
 * be run at once for ever, does not see the client leave, and takes no answer (later versions
 * refuse such a line). So this file finds bytes that the library leaves unread, by the kernel's
 * counts. Then http_end_body() sends the answer, and a timeout of libmicrohttpd ends the
 * connection. And where the library asks for one run after another and does nothing, this file
 * makes it wait. */
#include "http/http_internal.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum {
    STALLED_LOOKS = 3,  /* in a row that find the same bytes unread */
    IDLE_RUNS_MAX = 64, /* runs without a callback before the library has to wait */
};

/* The bytes that have been read of the connection since its beginning; false where all bytes that
 * came have been read. Of a Unix socket the kernel does not count them, and the bytes of the body
 * stand for them: a line that fits is read in one or two runs, even if nothing of the body comes
 * with it. */
static bool leaves_unread(const struct exchange *exchange, uint64_t *read_bytes)
{
    const struct http_connection *connection = http_connection_of(exchange->connection);
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    size_t unread_bytes = 0;
    if (!http_connection_unread(connection, &unread_bytes) || unread_bytes == 0)
        return false;
    *read_bytes = exchange->received;
    if (connection->listener->is_unix)
        return true;
    if (getsockopt(connection->socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    *read_bytes = info.tcpi_bytes_received - unread_bytes;
    return true;
}

bool http_chunk_line_stalls(struct exchange *exchange)
{
    uint64_t read_bytes;
    if (!exchange->is_chunked || !leaves_unread(exchange, &read_bytes)) {
        exchange->stalled_looks = 0;
        return false;
    }
    if (exchange->stalled_looks == 0 || read_bytes != exchange->stalled_bytes) {
        exchange->stalled_looks = 1;
        exchange->stalled_bytes = read_bytes;
        return false;
    }
    return ++exchange->stalled_looks >= STALLED_LOOKS;
}

void http_chunk_line_run(struct http_thread *thread, bool had_calls)
{
    if (!had_calls)
        thread->idle_runs++;
    else if (thread->idle_runs <= IDLE_RUNS_MAX)
        thread->idle_runs = 0;
    thread->ran_idle = !had_calls;
}

int http_chunk_line_ms(struct http_thread *thread, int wanted_ms)
{
    if (wanted_ms > 0)
        thread->idle_runs = 0;
    else if (thread->ran_idle && thread->idle_runs > IDLE_RUNS_MAX)
        return HTTP_TIMER_MS;
    return wanted_ms;
}
