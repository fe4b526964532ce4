/* SPDX-License-Identifier: Apache-2.0 */
/* http_accept.c - connections, accepted and shared out among the connection threads.
 *
 * Each thread has a daemon of libmicrohttpd, and these daemons could share the listening sockets.
 * But then the thread that wakes first takes most of a burst, and serves all of it while another
 * sleeps. So the first thread accepts all connections and gives each to the thread that has the
 * fewest. This also makes the bound on connections one bound, whatever the number of threads and
 * addresses. libmicrohttpd counts the connections of an IP address for each of its daemons alone,
 * so with a bound on these all connections of an address go to one thread. Connections of Unix
 * sockets have no IP address, and the bound is not theirs.
 *
 * listener.c opens the sockets. It is a separate file: it changes with what an address may be,
 * it is used without connection threads (--check-config), and both together would be too long. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "telemetry/log.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_MAX = 64,   /* of one listening socket, before the thread looks at the next */
    ACCEPTS_BUSY = 8,   /* the same while all threads are busy */
    GONE_MAX = 1024,    /* the same for connections whose clients have given up */
    GONE_AFTER_MS = 50, /* a client that ended its side longer ago than this has given up */
    PAUSE_MS = 100,     /* without accepting, where no descriptor or memory is left */
};

/* ------------------------------------------------------------------ counts -- */

static int thread_connections(const struct http_thread *thread)
{
    return atomic_load(&thread->open_count) + atomic_load(&thread->arriving_count);
}

static int all_connections(const struct http *http)
{
    int count = 0;
    for (int i = 0; i < http->thread_count; i++)
        count += thread_connections(&http->threads[i]);
    return count;
}

bool http_is_full(const struct http *http)
{
    int closing_count = 0;
    for (int i = 0; i < http->thread_count; i++)
        closing_count += atomic_load(&http->threads[i].closing_count);
    return all_connections(http) - closing_count >= http->options.connections_max;
}

void http_connection_opened(struct http_thread *thread)
{
    atomic_fetch_add(&thread->open_count, 1);
}

/* Wakes the first thread where it may be waiting for a connection to close. */
void http_connection_closed(struct http_thread *thread)
{
    struct http *http = thread->http;
    const bool was_full = all_connections(http) >= http->options.connections_max;
    atomic_fetch_sub(&thread->open_count, 1);
    if (was_full && thread != &http->threads[0] && !atomic_load(&http->stopping))
        http_wake(&http->threads[0]);
}

/* -------------------------------------------------------------- sharing out -- */

/* FNV-1a over the bytes of an IP address (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint32_t address_hash(const struct sockaddr_storage *address)
{
    const bool is_v6 = address->ss_family == AF_INET6;
    const unsigned char *bytes =
        is_v6 ? (const unsigned char *)&((const struct sockaddr_in6 *)address)->sin6_addr
              : (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < (is_v6 ? sizeof(struct in6_addr) : sizeof(struct in_addr)); i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static struct http_thread *thread_for(struct http *http, const struct http_arrival *arrival)
{
    if (http->options.connections_per_ip_max > 0 && !arrival->listener->is_unix)
        return &http->threads[address_hash(&arrival->address) % (unsigned)http->thread_count];
    struct http_thread *fewest = &http->threads[0];
    for (int i = 1; i < http->thread_count; i++)
        if (thread_connections(&http->threads[i]) < thread_connections(fewest))
            fewest = &http->threads[i];
    return fewest;
}

static struct MHD_Daemon *daemon_for(const struct http_thread *thread, bool is_tls)
{
    int i = 0;
    while (thread->libraries[i].is_tls != is_tls)
        i++;
    return thread->libraries[i].daemon;
}

/* Gives a connection to libmicrohttpd, which closes a connection that it cannot take. A TLS
 * connection without a record would have nobody to drive its handshake, and is shut down. */
static void add(struct http_thread *thread, struct http_arrival *arrival)
{
    thread->opened = NULL;
    thread->arriving = arrival;
    const bool is_taken =
        MHD_add_connection(daemon_for(thread, arrival->is_tls), arrival->socket,
                           (struct sockaddr *)&arrival->address, arrival->address_size)
        == MHD_YES;
    thread->arriving = NULL;
    if (!is_taken)
        log_line(LOG_DEBUG, "connection refused", LOG_STRING("reason", strerror(errno)));
    else if (arrival->is_tls && !thread->opened)
        shutdown(arrival->socket, SHUT_RDWR);
    if (arrival->is_tls && thread->opened)
        http_tls_begin(thread, thread->opened);
    atomic_fetch_sub(&thread->arriving_count, 1);
    free(arrival);
}

static void hand_over(struct http *http, struct http_arrival *arrival)
{
    struct http_thread *thread = thread_for(http, arrival);
    atomic_fetch_add(&thread->arriving_count, 1);
    if (thread == &http->threads[0]) {
        add(thread, arrival);
        return;
    }
    pthread_mutex_lock(&thread->mutex);
    arrival->next = thread->arrivals;
    thread->arrivals = arrival;
    pthread_mutex_unlock(&thread->mutex);
    http_wake(thread);
}

static struct http_arrival *take_arrivals(struct http_thread *thread)
{
    pthread_mutex_lock(&thread->mutex);
    struct http_arrival *arrivals = thread->arrivals;
    thread->arrivals = NULL;
    pthread_mutex_unlock(&thread->mutex);
    return arrivals;
}

void http_take_arrivals(struct http_thread *thread)
{
    struct http_arrival *arrival = take_arrivals(thread);
    while (arrival) {
        struct http_arrival *next = arrival->next;
        add(thread, arrival);
        arrival = next;
    }
}

void http_drop_arrivals(struct http_thread *thread)
{
    struct http_arrival *arrival = take_arrivals(thread);
    while (arrival) {
        struct http_arrival *next = arrival->next;
        close(arrival->socket);
        free(arrival);
        arrival = next;
    }
}

/* --------------------------------------------------------------- accepting -- */

enum outcome { TAKEN, GONE, NONE_LEFT, NOT_NOW };

/* Whether the client of a connection has given up. Under overload the kernel's queue fills with
 * connections of such clients, and to read their requests and refuse them takes several times as
 * long as to refuse them unread. A client may end its side and still wait for the answer, as nc -N
 * does. Such a client is served if it ended its side a short time ago; otherwise it reads the
 * refusal. Of a Unix socket the kernel says whether the client has closed both sides, and then it
 * has given up for certain. */
static bool has_given_up(int socket, bool is_unix)
{
    struct pollfd both_sides = { .fd = socket };
    if (is_unix)
        return poll(&both_sides, 1, 0) == 1 && both_sides.revents & POLLHUP;
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0
           && info.tcpi_state != TCP_ESTABLISHED && info.tcpi_last_data_recv > GONE_AFTER_MS;
}

static void refuse_unread(const struct http_arrival *arrival)
{
    static const char body[] =
        "{\"error\":\"the connection waited too long to be accepted, and its "
        "client had ended its side; send the request again later\","
        "\"code\":\"overloaded\"}\n";
    char answer[sizeof body + 192];
    const int size = snprintf(answer, sizeof answer,
                              "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n"
                              "Retry-After: 1\r\nContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\n\r\n%s",
                              sizeof body - 1, body);
    if (!arrival->is_tls
        && send(arrival->socket, answer, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_line(LOG_DEBUG, "refusal not sent", LOG_STRING("reason", strerror(errno)));
    close(arrival->socket);
}

/* Whose process is at the other end of a Unix socket. libmicrohttpd tells an IP address by the size
 * of the address alone, so it gets none of the name that the client may have given its socket. */
static void describe_unix(struct http_arrival *arrival)
{
    struct ucred client;
    socklen_t size = sizeof client;
    const bool known = getsockopt(arrival->socket, SOL_SOCKET, SO_PEERCRED, &client, &size) == 0;
    arrival->uid = known ? (int64_t)client.uid : -1;
    arrival->address_size = sizeof arrival->address.ss_family;
}

/* The connection stays in the kernel's queue. Without a pause the thread would spin, because the
 * listening socket is ready all the while. */
static enum outcome pause_accepting(struct http *http, int error)
{
    log_line(LOG_WARNING, "no connection can be taken", LOG_STRING("reason", strerror(error)));
    http->accepts_again_ns = clock_now_ns() + PAUSE_MS * INT64_C(1000000);
    return NOT_NOW;
}

static enum outcome accept_one(struct http *http, const struct listener *listener)
{
    struct http_arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival)
        return pause_accepting(http, ENOMEM);
    arrival->listener = listener;
    arrival->is_tls = http_is_tls(http, listener);
    arrival->address_size = sizeof arrival->address;
    arrival->socket = accept4(listener->socket, (struct sockaddr *)&arrival->address,
                              &arrival->address_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (arrival->socket >= 0 && has_given_up(arrival->socket, listener->is_unix)) {
        refuse_unread(arrival);
        free(arrival);
        return GONE;
    }
    if (arrival->socket >= 0) {
        if (listener->is_unix)
            describe_unix(arrival);
        hand_over(http, arrival);
        return TAKEN;
    }
    const int error = errno;
    free(arrival);
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
        return pause_accepting(http, error);
    /* In the first two cases this connection has gone, and the next may be there. */
    return error == ECONNABORTED || error == EINTR ? GONE : NONE_LEFT;
}

bool http_may_accept(const struct http *http)
{
    return all_connections(http) < http->options.connections_max
           && (!http->accepts_again_ns || clock_now_ns() > http->accepts_again_ns);
}

bool http_is_tls(const struct http *http, const struct listener *listener)
{
    return http->has_tls && !listener->is_unix;
}

int http_accept_ms(const struct http *http, int most_ms)
{
    const bool pauses = http->accepts_again_ns && http->accepts_again_ns >= clock_now_ns();
    if (http->handshakes_end_ns && atomic_load(&http->accepting) && most_ms > HTTP_TIMER_MS)
        return HTTP_TIMER_MS;
    return pauses && most_ms > PAUSE_MS ? PAUSE_MS : most_ms;
}

/* Whether all threads are busy. A connection that is accepted then only makes all clients wait
 * longer, and its bytes have left the cache by the time that they are read. In the kernel's queue
 * it costs nothing. */
static bool all_are_busy(const struct http *http)
{
    for (int i = 0; i < http->thread_count; i++)
        if (!atomic_load(&http->threads[i].is_busy))
            return false;
    return true;
}

/* Where the daemon is full afterwards, all threads look for idle connections to close. */
bool http_accept(struct http *http, const struct listener *listener)
{
    http->accepts_again_ns = 0;
    const int most = all_are_busy(http) ? ACCEPTS_BUSY : ACCEPTS_MAX;
    for (int taken = 0, gone = 0; taken < most && gone < GONE_MAX && http_may_accept(http);) {
        const enum outcome outcome = accept_one(http, listener);
        if (outcome == NONE_LEFT || outcome == NOT_NOW)
            return outcome == NONE_LEFT;
        taken += outcome == TAKEN;
        gone += outcome == GONE;
    }
    for (int i = 1; i < http->thread_count && http_is_full(http); i++)
        http_wake(&http->threads[i]);
    return false;
}
