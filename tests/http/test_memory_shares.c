/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_shares.c - clients that try to take all memory of requests: they announce bodies,
 * send them slowly, or do not read answers. Other clients are served meanwhile, and the memory
 * comes back. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static const char IN_FLIGHT[] = "attnd_memory_in_flight_bytes";
static const char BODIES[] = "attnd_memory_bodies_bytes";

enum { MIB = 1 << 20, KIB = 1 << 10 };

static void start(const char *memory_max)
{
    char timeout[32];
    snprintf(timeout, sizeof timeout, "%.0fs", 5 * daemon_slowness());
    fixture_serve("--workers", "2", "--memory-max", memory_max, "--body-timeout", timeout);
}

static void stop(void)
{
    answer_wait_for_metric(&client, IN_FLIGHT, 0, 0);
    answer_wait_for_metric(&client, BODIES, 0, 0);
    http_client_free(&client);
    daemon_stop(&server);
}

/* A good request of this many bytes, most of them blanks. */
static void expect_served(size_t size)
{
    char *body = malloc(size);
    memset(body, ' ', size);
    memcpy(body, GOOD, strlen(GOOD));
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = body, .body_size = size });
    if (response.status != 200)
        fail_msg("%zu bytes: %ld %s", size, response.status, response.body);
    http_response_free(&response);
    free(body);
}

static void expect_refused(size_t size)
{
    char *body = calloc(1, size + 1);
    memset(body, ' ', size);
    answer_send_refused(&client, &(struct http_request){ .path = PATH, .body = body }, 503,
                        "memory", NULL);
    free(body);
}

/* Connects from this address, for example 127.0.0.2, so that the daemon sees another peer. */
static void connect_from(struct http_raw *raw, const char *address)
{
    *raw = (struct http_raw){ .socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    struct sockaddr_in from = { .sin_family = AF_INET };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)server.port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
    assert_int_equal(bind(raw->socket, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(raw->socket, (struct sockaddr *)&to, sizeof to), 0);
}

/* Announces a body and sends this many bytes of it. */
static void begin_body(struct http_raw *raw, const char *address, size_t length, size_t sent)
{
    char head[200];
    char *bytes = malloc(sent);
    memset(bytes, ' ', sent);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", PATH, length);
    connect_from(raw, address);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send(raw, bytes, sent));
    free(bytes);
}

/* ---------------------------------------------------------------------- bodies -- */

TEST(announced_and_not_sent)
{
    enum { COUNT = 4 };
    struct http_raw raw[COUNT];
    start("512MiB");
    for (int i = 0; i < COUNT; i++)
        begin_body(&raw[i], "127.0.0.1", 64 * MIB, 1);
    answer_wait_for_metric(&client, BODIES, COUNT, COUNT * 16 * KIB);
    for (int i = 0; i < 10; i++)
        expect_served(strlen(GOOD));
    expect_served(8 * MIB);
    assert_true(answer_metric(&client, "attnd_memory_refused_total") == 0);
    for (int i = 0; i < COUNT; i++) {
        assert_true(http_raw_is_closed(&raw[i], 20 * daemon_slowness()));
        http_raw_close(&raw[i]);
    }
    stop();
}

TEST(many_that_trickle)
{
    enum { COUNT = 200 };
    static struct http_raw raw[COUNT];
    start("64MiB");
    for (int i = 0; i < COUNT; i++)
        begin_body(&raw[i], "127.0.0.1", MIB, 1);
    answer_wait_for_metric(&client, BODIES, COUNT, COUNT * 16 * KIB);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COUNT; i++)
            assert_true(http_raw_send(&raw[i], " ", 1));
        expect_served(strlen(GOOD));
    }
    expect_served(8 * MIB);
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    stop();
}

/* One peer has sent half of the budget and sends no more. Another peer still has room, and both
 * peers still have room for small requests. After the timeout the memory is free, as if the first
 * peer had never sent anything. */
TEST(sent_and_not_ended)
{
    enum { COUNT = 4 };
    struct http_raw raw[COUNT], same;
    start("64MiB");
    for (int i = 0; i < COUNT; i++) {
        begin_body(&raw[i], "127.0.0.2", 8 * MIB, 8 * MIB - 1);
        answer_wait_for_metric(&client, BODIES, (i + 1) * 8 * MIB - 64 * KIB, (i + 1) * 8 * MIB);
    }
    expect_served(strlen(GOOD));
    expect_served(3 * MIB);
    begin_body(&same, "127.0.0.2", MIB, 0);
    struct http_response response = http_raw_receive(&same, 10 * daemon_slowness());
    answer_expect_fault(&response, 503, "memory", NULL);
    http_response_free(&response);
    http_raw_close(&same);
    begin_body(&same, "127.0.0.2", 60 * KIB, 60 * KIB);
    response = http_raw_receive(&same, 10 * daemon_slowness());
    assert_int_equal(response.status, 400); /* the body is blanks: the daemon read it */
    http_response_free(&response);
    http_raw_close(&same);
    expect_refused(16 * MIB);
    for (int i = 0; i < COUNT; i++) {
        assert_true(http_raw_is_closed(&raw[i], 20 * daemon_slowness()));
        http_raw_close(&raw[i]);
    }
    answer_wait_for_metric(&client, IN_FLIGHT, 0, 0);
    expect_served(16 * MIB);
    stop();
}

/* This is how clients behind a proxy look: one address may take all the memory of bodies while no
 * other address wants any. */
TEST(one_peer_alone)
{
    struct http_raw raw;
    start("64MiB");
    begin_body(&raw, "127.0.0.1", 32 * MIB, 32 * MIB);
    struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
    assert_int_equal(response.status, 400); /* the body is blanks: the daemon read it */
    http_response_free(&response);
    http_raw_close(&raw);
    begin_body(&raw, "127.0.0.1", 20 * MIB, 20 * MIB - 1);
    answer_wait_for_metric(&client, BODIES, 20 * MIB - 64 * KIB, 20 * MIB);
    expect_served(11 * MIB);
    http_raw_close(&raw);
    stop();
}

/* --------------------------------------------------------------------- answers -- */

/* Three clients do not read their answers, which together take more than half of the budget. They
 * take nothing of what bodies may take. */
TEST(answers_that_are_not_read)
{
    enum { COUNT = 3 };
    struct http_raw raw[COUNT];
    char head[200];
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":");
    request_text_random(&text, 5, 1500, 2);
    request_text_add(&text, "}");
    start("160MiB");
    for (int i = 0; i < COUNT; i++) {
        snprintf(head, sizeof head,
                 "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", PATH,
                 strlen(text.data));
        connect_from(&raw[i], "127.0.0.1");
        assert_true(http_raw_send_text(&raw[i], head));
        assert_true(http_raw_send_text(&raw[i], text.data));
        answer_wait_for_metric(&client, IN_FLIGHT, (i + 1) * 27 * MIB, 160 * MIB);
        answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    }
    assert_true(answer_metric(&client, IN_FLIGHT) > 80 * MIB);
    answer_wait_for_metric(&client, BODIES, 0, 0);
    for (int i = 0; i < 10; i++)
        expect_served(strlen(GOOD));
    expect_served(8 * MIB);
    for (int i = 0; i < COUNT; i++) {
        struct http_response response = http_raw_receive(&raw[i], 30 * daemon_slowness());
        assert_int_equal(response.status, 200);
        http_response_free(&response);
        http_raw_close(&raw[i]);
    }
    free(text.data);
    stop();
}

EACH_TEST(NULL, fixture_clear);
