/* SPDX-License-Identifier: Apache-2.0 */
/* test_departures.c - clients that leave half-way, and clients that never do anything.
 *
 * Whatever the clients were doing, the daemon must be the same afterwards: it keeps no memory, no
 * open descriptor and no work in the queue, and it serves the other clients as usual. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

enum { DEPARTURES = 200 };

enum leaving { LEAVE_BY_CLOSE, LEAVE_BY_RESET, LEAVE_HALF_CLOSED };

static void leave(struct http_raw *raw, enum leaving how)
{
    if (how == LEAVE_BY_RESET)
        setsockopt(raw->socket, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
                   sizeof(struct linger));
    if (how == LEAVE_HALF_CLOSED)
        shutdown(raw->socket, SHUT_WR);
    else
        http_raw_close(raw);
}

/* Connects, sends size bytes of a request with this body, waits, leaves. */
static void depart(const char *body, size_t size, double wait, enum leaving how)
{
    struct http_raw raw;
    char head[256];
    int head_size = snprintf(head, sizeof(head),
                             "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Length: %zu\r\n\r\n",
                             strlen(body));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send(&raw, head, (size_t)head_size));
    http_raw_send(&raw, body, size);
    if (wait > 0)
        daemon_pause(wait);
    leave(&raw, how);
    if (how == LEAVE_HALF_CLOSED) {
        assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
        http_raw_close(&raw);
    }
}

static void expect_descriptors(int count)
{
    double until = daemon_now() + 10 * daemon_slowness();
    int now;
    while ((now = daemon_descriptor_count(&server)) > count) {
        if (daemon_now() > until)
            fail_msg("%d descriptors are open, %d were", now, count);
        daemon_pause(0.02);
    }
}

static void expect_served_within(double seconds)
{
    struct http_response response = http_client_post(&client, PATH, GOOD);
    assert_int_equal(response.status, 200);
    assert_true(response.seconds < seconds * daemon_slowness());
    http_response_free(&response);
}

/* Sends the first size bytes of the body and leaves, DEPARTURES times. The second half of these
 * departures must not make the daemon's memory grow. */
static void depart_many(const char *body, size_t size, double wait)
{
    expect_served_within(10);
    int descriptors = daemon_descriptor_count(&server);
    size_t memory = 0;
    for (int i = 0; i < DEPARTURES; i++) {
        depart(body, size, wait, i % 2 ? LEAVE_BY_CLOSE : LEAVE_BY_RESET);
        if (i == DEPARTURES / 2)
            memory = daemon_memory_bytes(&server);
    }
    expect_served_within(10);
    expect_descriptors(descriptors);
    size_t after = daemon_memory_bytes(&server);
    if (after > memory + (size_t)DEPARTURES / 4 * strlen(body))
        fail_msg("resident memory went from %zu to %zu bytes", memory, after);
}

/* Clients leave in the middle of the request line, of the headers and of a chunk. */
TEST(leaving_before_the_body)
{
    static const char *const starts[] = {
        "",
        "P",
        "POST /v1/att",
        "POST /v1/attention HTTP/1.1\r\n",
        "POST /v1/attention HTTP/1.1\r\nHost: loc",
        "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5",
        "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
        "chunked\r\n\r\n5\r\n{",
        "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        "Content-Length: 100\r\n\r\n",
    };
    expect_served_within(10);
    int descriptors = daemon_descriptor_count(&server);
    for (int i = 0; i < 20; i++)
        for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
            struct http_raw raw;
            http_raw_connect(&raw, server.port);
            http_raw_send_text(&raw, starts[s]);
            leave(&raw, i % 2 ? LEAVE_BY_CLOSE : LEAVE_BY_RESET);
        }
    expect_served_within(10);
    expect_descriptors(descriptors);
}

/* The clients send half of a body of 512 KiB, or nothing of it. */
TEST(leaving_in_the_body)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"query\":");
    request_text_random(&text, 1, 800, 64);
    request_text_add(&text, "}");
    depart_many(text.data, text.used / 2, 0);
    depart_many(text.data, 0, 0);
    free(text.data);
}

/* The clients send a whole request that takes a second. If the daemon computed them all, the next
 * request would wait for minutes. */
TEST(leaving_while_computing)
{
    char *slow = request_text_slow(&client, 1, "");
    depart_many(slow, strlen(slow), 0.01);
    depart(slow, strlen(slow), 0.05, LEAVE_HALF_CLOSED);
    expect_served_within(10);
    free(slow);
}

/* The answer is larger than the socket's buffers, and the client does not read it. */
TEST(leaving_in_the_answer)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":");
    request_text_random(&text, 2, 1000, 2);
    request_text_add(&text, "}");
    int descriptors = daemon_descriptor_count(&server);
    for (int i = 0; i < 20; i++)
        depart(text.data, text.used, 0.1, i % 2 ? LEAVE_BY_CLOSE : LEAVE_BY_RESET);
    expect_served_within(10);
    expect_descriptors(descriptors);
    free(text.data);
}

static int status_of_half_closed(void)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    shutdown(raw.socket, SHUT_WR);
    struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
    const int status = (int)response.status;
    if (status == 429)
        assert_non_null(strstr(response.body, "waited too long to be accepted"));
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, 5 * daemon_slowness()));
    http_raw_close(&raw);
    return status;
}

/* The client sends a whole request and closes its side of the connection. The thread that reads
 * this request also answers it, so the daemon still answers what came before the end of
 * the stream. A daemon without a CPU for so long that it takes the client for gone says so. */
TEST(half_closed_after_the_request)
{
    const double until = daemon_now() + 30 * daemon_slowness();
    for (int served = 0; served < 50;) {
        const int status = status_of_half_closed();
        if (status != 429 || daemon_now() > until)
            assert_int_equal(status, 200);
        served += status == 200;
    }
}

/* There are two thousand connections that send nothing more, and requests on another connection. */
TEST(idle_connections)
{
    enum { IDLE = 2000 };
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < IDLE + 100) {
        print_message("    the limit of %lu open files is too low for this test\n",
                      (unsigned long)limit.rlim_cur);
        skip();
    }
    expect_served_within(10);
    int descriptors = daemon_descriptor_count(&server);
    size_t memory = daemon_memory_bytes(&server);
    struct http_raw *idle = calloc(IDLE, sizeof(*idle));
    for (int i = 0; i < IDLE; i++) {
        http_raw_connect(&idle[i], server.port);
        if (i % 3 == 1)
            http_raw_send_text(&idle[i], "POST /v1/attention HTT");
        if (i % 3 == 2)
            http_raw_send_text(&idle[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if (i % 10 == 0)
            expect_served_within(5);
    }
    for (int i = 0; i < 200; i++)
        expect_served_within(5);
    /* The idle connections still work: each that sent a request gets its answer, and can be used
     * again. */
    for (int i = 2; i < IDLE; i += 3) {
        for (int asked = 0; asked < 2; asked++) {
            if (asked > 0)
                http_raw_send_text(&idle[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
            struct http_response response = http_raw_receive(&idle[i], 5 * daemon_slowness());
            assert_int_equal(response.status, 200);
            http_response_free(&response);
        }
    }
    size_t now = daemon_memory_bytes(&server);
    assert_true(now < memory + (size_t)(IDLE * 48.0 * 1024 * daemon_slowness()));
    for (int i = 0; i < IDLE; i++)
        http_raw_close(&idle[i]);
    free(idle);
    expect_served_within(10);
    expect_descriptors(descriptors);
}

/* Raises the limit of descriptors to the hard limit, for the test and the daemon. */
static int start(void **state)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    daemon_keep_little();
    fixture_serve("--workers", "2");
    return 0;
}

/* The daemon reads nothing from a client that gives up before its connection is accepted. If that
 * client still listens, the daemon tells it so. A client that has not given up is answered. */
TEST(leaving_the_queue)
{
    enum { GONE = 20 };
    static const char request[] = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char requests[] =
        "attnd_requests_total{method=\"GET\",route=\"/v1/models\",status=\"200\"}";
    struct http_raw raw;
    struct metrics_page page = { 0 };
    daemon_stop(&server);
    daemon_start(&server, NULL);
    kill(server.pid, SIGSTOP);
    daemon_pause(0.05);
    for (int i = 0; i < GONE; i++) {
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, request));
        http_raw_close(&raw);
    }
    struct http_raw listens;
    http_raw_connect(&listens, server.port);
    assert_true(http_raw_send_text(&listens, request));
    shutdown(listens.socket, SHUT_WR);
    daemon_pause(0.3);
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, request));
    kill(server.pid, SIGCONT);
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_raw_close(&raw);
    response = http_raw_receive(&listens, 10 * daemon_slowness());
    cJSON *refusal = answer_json(&response, 429);
    answer_expect(refusal, "code", "\"overloaded\"", 0);
    cJSON_Delete(refusal);
    http_response_free(&response);
    http_raw_close(&listens);
    struct http_client asking;
    http_client_init(&asking, server.port);
    answer_metrics(&asking, &page);
    assert_int_equal((int)metrics_page_value(&page, requests), 1);
    metrics_page_free(&page);
    http_client_free(&asking);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
