/* SPDX-License-Identifier: Apache-2.0 */
/* test_chunk_lines.c - a chunked body with a line that has no end, or with a trailer that has none.
 *
 * The recipient of such a line bounds it and answers with a 4xx (RFC 9112, 7.1.1). This holds
 * whatever the client sent before the bound, however it sent that, and whether or not it waits for
 * the answer. In each case the daemon closes the descriptor, no thread keeps running, and other
 * clients notice nothing. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

static const char HEAD[] = "POST /v1/softmax HTTP/1.1\r\nHost: x\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";
static const char CONNECTIONS[] = "attnd_connections";

enum { LONG = 20000 };
static char filler[LONG];

/* Starts a daemon. The body timeout is long, so that a body is refused for its lines and not
 * because it took too long. */
static int start(void **state)
{
    memset(filler, 'a', sizeof filler);
    fixture_serve("--body-timeout", "250s", "--connections-max", "100");
    return 0;
}

static void begin(struct http_raw *raw, const char *body, size_t filler_bytes)
{
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, HEAD));
    assert_true(http_raw_send_text(raw, body));
    http_raw_send(raw, filler, filler_bytes); /* the daemon may refuse the body before its end */
}

/* The daemon uses almost no CPU while no client asks for anything. A thread that never stops would
 * use most of the time, even if it shared one CPU with the other threads. */
static void expect_rest(void)
{
    const double seconds = 2;
    answer_wait_for_metric(&client, CONNECTIONS, 0, INFINITY);
    const double before = daemon_cpu_seconds(&server);
    daemon_pause(seconds);
    const double used = daemon_cpu_seconds(&server) - before;
    if (used > seconds / 8)
        fail_msg("%.2f s of CPU in %.0f s without a request", used, seconds);
}

/* Only the client's own descriptor is open. The daemon closes a descriptor a little after it stops
 * counting the connection. */
static void expect_given_back(int descriptors)
{
    answer_wait_for_metric(&client, CONNECTIONS, 1, 1);
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_descriptor_count(&server) > descriptors && daemon_now() < until)
        daemon_pause(0.01);
    assert_int_equal(daemon_descriptor_count(&server), descriptors);
}

static int descriptors_before(void)
{
    cJSON_Delete(answer_get(&client, "/livez"));
    answer_wait_for_metric(&client, CONNECTIONS, 1, 1);
    return daemon_descriptor_count(&server);
}

static void expect_refused(struct http_raw *raw)
{
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    answer_expect_fault(&response, 400, "encoding", "");
    assert_non_null(strstr(response.body, "a line of the chunked body is longer"));
    http_response_free(&response);
    assert_true(http_raw_is_closed(raw, 10 * daemon_slowness()));
    http_raw_close(raw);
}

TEST(is_refused)
{
    static const char *const beginnings[] = { "1;", "1\r\n \r\n1;", "1;a=\"", "0;" };
    const int descriptors = descriptors_before();
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        struct http_raw raw;
        begin(&raw, beginnings[i], LONG);
        expect_refused(&raw);
    }
    expect_given_back(descriptors);
    expect_rest();
}

TEST(in_pieces)
{
    const int descriptors = descriptors_before();
    struct http_raw raw;
    begin(&raw, "1;", 0);
    for (int i = 0; i < LONG / 100; i++) {
        http_raw_send(&raw, filler, 100);
        daemon_pause(0.001);
    }
    expect_refused(&raw);
    expect_given_back(descriptors);
    expect_rest();
}

/* There may be a hundred connections, and 99 clients and the test's own take them all. When the
 * clients have left, there is room for another client. */
TEST(client_leaves)
{
    enum { COUNT = 99 };
    const int descriptors = descriptors_before();
    struct http_raw raw[COUNT];
    for (int i = 0; i < COUNT; i++)
        begin(&raw[i], "1;", LONG);
    daemon_pause(0.2);
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    struct http_raw another;
    http_raw_connect(&another, server.port);
    assert_true(http_raw_send_text(&another, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    struct http_response response = http_raw_receive(&another, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_raw_close(&another);
    expect_given_back(descriptors);
    expect_rest();
}

/* Some lines fill the whole buffer to the last byte, and some are a little shorter. The daemon
 * cannot refuse them yet. It lets them wait, and that costs no CPU. */
TEST(just_full)
{
    enum { LEAST = 15000, STEP = 32, COUNT = 50 };
    const int descriptors = descriptors_before();
    struct http_raw raw[COUNT];
    for (int i = 0; i < COUNT; i++)
        begin(&raw[i], "1;", (size_t)(LEAST + i * STEP));
    expect_rest();
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    expect_given_back(descriptors);
    expect_rest();
}

TEST(trailer_without_end)
{
    static const char *const beginnings[] = { "0\r\nX: ", "1\r\n \r\n0\r\nA: b\r\nX: ", "0\r\nX-" };
    const int descriptors = descriptors_before();
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        struct http_raw raw;
        begin(&raw, beginnings[i], LONG);
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        assert_int_equal(response.status, 431);
        http_response_free(&response);
        assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
        http_raw_close(&raw);
        begin(&raw, beginnings[i], LONG);
        http_raw_close(&raw);
    }
    expect_given_back(descriptors);
    expect_rest();
}

/* When the daemon stops, it waits for none of these clients. */
TEST(stops_at_once)
{
    struct http_raw stays, leaves;
    begin(&stays, "1;", LONG);
    begin(&leaves, "1;", LONG);
    http_raw_close(&leaves);
    http_client_free(&client);
    daemon_stop(&server); /* it takes at most half of --drain-max */
    http_raw_close(&stays);
}

ALL_TESTS(start, fixture_clear);
