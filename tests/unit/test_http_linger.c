/* SPDX-License-Identifier: Apache-2.0 */
/* How much of refused bodies is taken from the network and dropped. The test plays the clock, the
 * clients and the part of libmicrohttpd. */
#include "http/http_internal.h"
#include "test.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 100, MIB = 1024 * 1024, BUDGET = 32 * MIB };

#define SECOND INT64_C(1000000000)

static struct http *http;
static struct http_thread *thread;
static int64_t now_ns;

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    (void)clock_id;
    *tp = (struct timespec){ .tv_sec = now_ns / SECOND, .tv_nsec = now_ns % SECOND };
    return 0;
}

static int setup(void **state)
{
    http = calloc(1, sizeof *http + sizeof http->threads[0]);
    assert_non_null(http);
    http->options.body_timeout_ns = 60 * SECOND;
    thread = &http->threads[0];
    thread->http = http;
    thread->disconnects = epoll_create1(EPOLL_CLOEXEC);
    now_ns = 1000 * SECOND;
    return 0;
}

static int teardown(void **state)
{
    http_linger_end(thread);
    close(thread->disconnects);
    free(http);
    return 0;
}

/* A connected pair over the loopback interface: 0 the daemon's, 1 the client's. */
static void connect_pair(int sockets[2])
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    sockets[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(sockets[1], (struct sockaddr *)&address, sizeof address), 0);
    sockets[0] = accept(listening, NULL, NULL);
    assert_true(sockets[0] >= 0);
    close(listening);
}

/* Sends a body of a MiB on a connection that has had its answer, as far as the daemon reads it, and
 * leaves. Returns how many bytes the daemon dropped. */
static size_t send_after_answer(bool was_refused)
{
    static char piece[64 * 1024];
    const struct listener listener = { .is_unix = false };
    struct http_connection connection = { .listener = &listener,
                                          .dropped_max = 2 * MIB,
                                          .was_refused = was_refused };
    int sockets[2];
    size_t sent = 0;
    connect_pair(sockets);
    connection.socket = sockets[0];
    http_linger_begin(thread, &connection);
    struct http_linger *linger = thread->lingering.first;
    close(sockets[0]);
    while (linger && sent < MIB) {
        const ssize_t size = send(sockets[1], piece, sizeof piece, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += size > 0 ? (size_t)size : 0;
        http_linger_read(thread, linger);
    }
    close(sockets[1]);
    while (thread->lingering.first)
        http_linger_read(thread, thread->lingering.first);
    return sent;
}

static size_t send_all(bool was_refused)
{
    size_t dropped = 0;
    for (int i = 0; i < CLIENTS; i++)
        dropped += send_after_answer(was_refused);
    return dropped;
}

/* Overload refuses many bodies, and the daemon takes few of them from the network. */
TEST(refused_bodies_have_a_budget)
{
    assert_in_range(send_all(true), BUDGET, BUDGET + MIB);
    assert_int_equal(send_all(true), 0);
    now_ns += SECOND;
    assert_in_range(send_all(true), BUDGET - MIB, BUDGET + MIB);
    now_ns += 60 * SECOND;
    assert_in_range(send_all(true), BUDGET, BUDGET + MIB);
}

/* A client whose own mistake ends the connection always finds its answer. */
TEST(other_bodies_have_none)
{
    send_all(true);
    assert_int_equal(send_all(false), (size_t)CLIENTS * MIB);
}

EACH_TEST(setup, teardown);

int main(void)
{
    return test_run(NULL);
}
