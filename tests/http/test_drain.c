/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain.c - SIGTERM loses no request. The daemon answers every client that could connect, also
 * one in the queue of the listening socket and one on a kept connection. A client that sends
 * nothing sees an orderly end. */
#include "daemon.h"
#include "http_client.h"
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static const char REQUEST[] = "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"
                              "Content-Type: application/json\r\nContent-Length: 42\r\n\r\n"
                              "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]]}";

static struct daemon server;

static void send_request(struct http_raw *raw)
{
    assert_true(http_raw_send_text(raw, REQUEST));
}

/* Expects an answer that is the last of its connection. The answer says so, unless the daemon sent
 * it before it saw the signal. */
static void expect_answer(struct http_raw *raw)
{
    char value[32];
    struct http_response response = http_raw_receive(raw, 20 * daemon_slowness());
    assert_int_equal(response.status, 200);
    if (http_response_header(&response, "Connection", value, sizeof(value)))
        assert_string_equal(value, "close");
    http_response_free(&response);
    assert_true(http_raw_is_closed(raw, 20 * daemon_slowness()));
    http_raw_close(raw);
}

/* Opens a connection that has had an answer and is kept. */
static void connect_and_use(struct http_raw *raw)
{
    http_raw_connect(raw, server.port);
    send_request(raw);
    struct http_response response = http_raw_receive(raw, 20 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

/* Stops the daemon until end_and_let_go(). When it wakes, it finds all that the clients did in
 * between, and SIGTERM. */
static void hold(void)
{
    daemon_freeze(&server);
}

static void end_and_let_go(void)
{
    kill(server.pid, SIGTERM);
    kill(server.pid, SIGCONT);
}

static void expect_orderly_end(void)
{
    assert_int_equal(daemon_wait(&server, 30 * daemon_slowness()), 0);
}

TEST(queue_is_served)
{
    enum { COUNT = 200 };
    struct http_raw raw[COUNT];
    daemon_start(&server, NULL);
    hold();
    for (int i = 0; i < COUNT; i++) {
        http_raw_connect(&raw[i], server.port);
        send_request(&raw[i]);
    }
    end_and_let_go();
    for (int i = 0; i < COUNT; i++)
        expect_answer(&raw[i]);
    expect_orderly_end();
}

/* There are more connections than may be open at once. Each connection that ends makes room for one
 * that still waits. */
TEST(queue_is_served_where_all_places_are_taken)
{
    enum { KEPT = 4, COUNT = 20 };
    struct http_raw kept[KEPT], raw[COUNT];
    daemon_start_with(&server, "--connections-max", "4", NULL);
    for (int i = 0; i < KEPT; i++)
        connect_and_use(&kept[i]);
    hold();
    for (int i = 0; i < COUNT; i++) {
        http_raw_connect(&raw[i], server.port);
        send_request(&raw[i]);
    }
    end_and_let_go();
    for (int i = 0; i < COUNT; i++)
        expect_answer(&raw[i]);
    expect_orderly_end();
    for (int i = 0; i < KEPT; i++)
        http_raw_close(&kept[i]);
}

TEST(kept_connections_are_served)
{
    enum { COUNT = 20 };
    struct http_raw raw[COUNT];
    daemon_start(&server, NULL);
    for (int i = 0; i < COUNT; i++)
        connect_and_use(&raw[i]);
    hold();
    for (int i = 0; i < COUNT; i++)
        send_request(&raw[i]);
    end_and_let_go();
    for (int i = 0; i < COUNT; i++)
        expect_answer(&raw[i]);
    expect_orderly_end();
}

/* The daemon waits for the rest of a request when a part of it is there. The kernel counts in ticks
 * when data came, so the part must not come in the same tick as the answer before it. */
TEST(request_on_its_way_is_served)
{
    enum { COUNT = 9 };
    struct http_raw raw[COUNT];
    daemon_start(&server, NULL);
    for (int i = 0; i < COUNT; i++)
        if (i % 3 == 0)
            connect_and_use(&raw[i]);
        else
            http_raw_connect(&raw[i], server.port);
    daemon_pause(0.05);
    hold();
    for (int i = 0; i < COUNT; i++)
        if (i % 3 < 2)
            assert_true(http_raw_send(&raw[i], REQUEST, 20));
    end_and_let_go();
    daemon_pause(0.1);
    for (int i = 0; i < COUNT; i++) {
        const int sent = i % 3 < 2 ? 20 : 0;
        assert_true(http_raw_send_text(&raw[i], REQUEST + sent));
    }
    for (int i = 0; i < COUNT; i++)
        expect_answer(&raw[i]);
    expect_orderly_end();
}

/* An idle connection sees the end of the stream and no reset. */
TEST(idle_connections_end_in_order)
{
    enum { COUNT = 20 };
    struct http_raw raw[COUNT];
    char byte;
    daemon_start(&server, NULL);
    for (int i = 0; i < COUNT; i++)
        if (i % 2)
            connect_and_use(&raw[i]);
        else
            http_raw_connect(&raw[i], server.port);
    daemon_stop(&server);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(recv(raw[i].socket, &byte, 1, 0), 0);
        http_raw_close(&raw[i]);
    }
}

/* ------------------------------------------------------ a connection each -- */

struct caller {
    pthread_t thread;
    int answered, failed;
};

/* Opens a connection for each request, until a connection is refused. */
static void *call_until_refused(void *argument)
{
    struct caller *caller = argument;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server.port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (;;) {
        struct http_raw raw = { .socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
        if (connect(raw.socket, (struct sockaddr *)&address, sizeof(address)) != 0) {
            caller->failed += errno != ECONNREFUSED;
            close(raw.socket);
            return NULL;
        }
        const bool sent = http_raw_send_text(&raw, REQUEST);
        struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
        const bool answered = sent && response.status == 200;
        caller->answered += answered;
        caller->failed += !answered;
        http_response_free(&response);
        http_raw_close(&raw);
    }
}

TEST(whoever_connects_is_answered)
{
    enum { CALLERS = 4, ROUNDS = 4 };
    int answered = 0, failed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct caller callers[CALLERS] = { 0 };
        daemon_start(&server, NULL);
        for (int i = 0; i < CALLERS; i++)
            assert_int_equal(
                pthread_create(&callers[i].thread, NULL, call_until_refused, &callers[i]), 0);
        daemon_pause(0.2);
        kill(server.pid, SIGTERM);
        for (int i = 0; i < CALLERS; i++) {
            pthread_join(callers[i].thread, NULL);
            answered += callers[i].answered;
            failed += callers[i].failed;
        }
        expect_orderly_end();
    }
    print_message("    %d requests answered, %d failed\n", answered, failed);
    assert_true(answered > 0);
    assert_int_equal(failed, 0);
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

EACH_TEST(NULL, clear);
