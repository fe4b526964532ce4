/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c - what is too large, too many, or too slow, and clients that leave.
 *
 * Each limit has its own daemon, in which the limit is small. A refusal must come before the work
 * that it saves: before the daemon reads the body, or before it computes the answer. */
#include "answer.h"
#include "daemon.h"
#include "endless.h"
#include "request_text.h"
#include "test.h"

#include <signal.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

static struct daemon server;

static void expect_served(int port)
{
    struct http_client client;
    http_client_init(&client, port);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    http_client_free(&client);
}

static char *head_text(const char *more)
{
    char *text;
    assert_true(asprintf(&text,
                         "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Type: application/json\r\n%s\r\n",
                         more)
                > 0);
    return text;
}

/* ------------------------------------------------------------------------ size -- */

enum { BODY_MAX = 65536 };

static void start_small(void)
{
    daemon_start_with(&server, "--body-max", "64KiB", NULL);
}

/* The client sends only headers, so the refusal cannot wait for a body. */
static void refused_on_headers(const char *more)
{
    struct http_raw raw;
    char *head = head_text(more);
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
    answer_expect_fault(&response, 413, "too_large", NULL);
    assert_non_null(strstr(response.body, "65536"));
    assert_true(http_raw_is_closed(&raw, 5 * daemon_slowness()));
    http_response_free(&response);
    http_raw_close(&raw);
    free(head);
}

TEST(content_length_over_the_limit)
{
    start_small();
    refused_on_headers("Content-Length: 65537\r\n");
    refused_on_headers("Content-Length: 1000000000000\r\n");
    refused_on_headers("Content-Length: 65537\r\nExpect: 100-continue\r\n");
    expect_served(server.port);
    daemon_stop(&server);
}

/* None of these is a length that the daemon can use. libmicrohttpd may answer them in its own
 * words. */
TEST(content_length_that_is_none)
{
    static const char *const lines[] = {
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 18446744073709551615\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: x\r\n",
        "Content-Length: 5 5\r\n",
    };
    start_small();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct http_raw raw;
        char *head = head_text(lines[i]);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, head));
        struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
        if (response.status != 400 && response.status != 413 && !raw.closed)
            fail_msg("%s was answered with %ld", lines[i], response.status);
        http_response_free(&response);
        http_raw_close(&raw);
        free(head);
    }
    expect_served(server.port);
    daemon_stop(&server);
}

TEST(body_at_the_limit)
{
    start_small();
    struct http_client client;
    http_client_init(&client, server.port);
    char *body = malloc(BODY_MAX + 1);
    memset(body, ' ', BODY_MAX);
    memcpy(body, GOOD, sizeof(GOOD) - 1);
    for (int chunked = 0; chunked < 2; chunked++) {
        struct http_response response = http_client_send(
            &client, &(struct http_request){
                         .path = PATH, .body = body, .body_size = BODY_MAX, .chunked = chunked });
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    free(body);
    http_client_free(&client);
    daemon_stop(&server);
}

/* A chunked body that goes on and on is answered, or the connection is cut off, before long. */
TEST(chunked_over_the_limit)
{
    enum { CHUNK = 16384, CHUNKS = 4096 };
    start_small();
    struct http_raw raw;
    char *head = head_text("Transfer-Encoding: chunked\r\n");
    char chunk[CHUNK + 16];
    int size = snprintf(chunk, sizeof(chunk), "%x\r\n%*s\r\n", CHUNK, CHUNK, "");
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    int sent = 0;
    while (sent < CHUNKS && http_raw_send(&raw, chunk, (size_t)size))
        sent++;
    struct http_response response = { 0 };
    if (sent == CHUNKS) {
        http_raw_send_text(&raw, "0\r\n\r\n");
        response = http_raw_receive(&raw, 5 * daemon_slowness());
        answer_expect_fault(&response, 413, "too_large", NULL);
    }
    http_response_free(&response);
    http_raw_close(&raw);
    free(head);

    /* A body that is a little over the limit is answered. */
    struct http_client client;
    http_client_init(&client, server.port);
    char *body = calloc(1, BODY_MAX + 2);
    memset(body, ' ', BODY_MAX + 1);
    response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = body, .chunked = true });
    if (response.status != 0)
        answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    http_client_free(&client);
    free(body);
    expect_served(server.port);
    assert_true(daemon_memory_bytes(&server) < (size_t)(400e6 * daemon_slowness()));
    daemon_stop(&server);
}

/* 64 heads, 4000 queries and 8000 keys: the weights would take 8e9 bytes and seconds of work. */
TEST(answer_over_the_limit)
{
    daemon_start_with(&server, "--answer-max", "1MiB", NULL);
    struct http_client client;
    http_client_init(&client, server.port);
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"q_heads\":64,\"kv_heads\":1,"
                            "\"outputs\":[\"lse\",\"weights\"],\"key\":");
    request_text_random(&text, 1, 8000, 1);
    request_text_add(&text, ",\"query\":");
    request_text_random(&text, 2, 4000, 64);
    request_text_add(&text, "}");
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    size_t before = daemon_memory_bytes(&server);
    struct http_response response = http_client_post(&client, PATH, text.data);
    answer_expect_fault(&response, 413, "answer_too_large", NULL);
    assert_non_null(strstr(response.body, "1048576"));
    assert_true(response.seconds < 5 * daemon_slowness());
    assert_false(response.on_new_connection);
    assert_true(daemon_memory_bytes(&server) < before + (size_t)(200e6 * daemon_slowness()));
    http_response_free(&response);
    free(text.data);
    http_client_free(&client);
    expect_served(server.port);
    daemon_stop(&server);
}

/* The answer of each item is small, but all answers together are too large. */
TEST(batch_answer_over_the_limit)
{
    daemon_start_with(&server, "--answer-max", "64KiB", NULL);
    struct http_client client;
    http_client_init(&client, server.port);
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"query\":");
    request_text_random(&text, 3, 40, 4);
    request_text_add(&text, ",\"requests\":[{}");
    for (int i = 0; i < 20; i++)
        request_text_add(&text, ",{}");
    request_text_add(&text, "]}");
    struct http_response response = http_client_post(&client, "/v1/attention/batch", text.data);
    answer_expect_fault(&response, 413, "answer_too_large", NULL);
    http_response_free(&response);
    free(text.data);
    http_client_free(&client);
    expect_served(server.port);
    daemon_stop(&server);
}

/* ------------------------------------------------------------------------ time -- */

static void expect_late(struct http_client *client, const char *body, const char *const *headers)
{
    struct http_response response = http_client_send(
        client, &(struct http_request){ .path = PATH, .body = body, .headers = headers });
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
}

enum { LONG_ROWS = 4096 }; /* seconds of work */

TEST(deadline)
{
    daemon_start_with(&server, "--workers", "1", DAEMON_PATIENT, NULL);
    struct http_client client;
    struct endless ahead;
    http_client_init(&client, server.port);
    char *slow = endless_text(LONG_ROWS, 0);
    const char *const hurried[] = { "X-Timeout-Ms: 100", "Content-Type: application/json", NULL };
    expect_late(&client, slow, hurried);

    /* The request waits in the queue behind a slow one. Its time is over before its turn, and the
     * daemon answers then and not later. */
    endless_begin_any(&ahead, &client);
    expect_late(&client, slow, hurried);
    endless_end(&ahead);
    expect_served(server.port);
    free(slow);
    http_client_free(&client);
    daemon_stop(&server);
}

/* --timeout is the longest time that a request may take, even if the request asks for more. */
TEST(longest_time)
{
    const char *const patient[] = { "X-Timeout-Ms: 60000", NULL };
    struct http_client client;
    char *slow = endless_text(LONG_ROWS, 0);
    daemon_start_with(&server, "--timeout", "200ms", NULL);
    http_client_init(&client, server.port);
    expect_late(&client, slow, patient);
    expect_late(&client, slow, NULL);
    free(slow);
    http_client_free(&client);
    expect_served(server.port);
    daemon_stop(&server);
}

/* The daemon answers 408 or just closes the connection, soon after the time is over. */
static void expect_given_up(struct http_raw *raw, double seconds)
{
    struct http_response response = http_raw_receive(raw, seconds);
    if (response.status != 0)
        answer_expect_fault(&response, 408, "timeout", NULL);
    else if (!raw->closed)
        fail_msg("a body that does not come is still waited for");
    http_response_free(&response);
    assert_true(http_raw_is_closed(raw, seconds));
    http_raw_close(raw);
}

TEST(slow_body)
{
    daemon_start_with(&server, "--body-timeout", "1s", NULL);
    char *head = head_text("Content-Length: 30\r\n");
    struct http_raw none, half, trickle, chunked;
    http_raw_connect(&none, server.port);
    http_raw_connect(&half, server.port);
    http_raw_connect(&trickle, server.port);
    http_raw_connect(&chunked, server.port);
    double start = daemon_now();
    assert_true(http_raw_send_text(&none, head));
    assert_true(http_raw_send_text(&half, head));
    assert_true(http_raw_send(&half, GOOD, 15));
    assert_true(http_raw_send_text(&trickle, head));
    free(head);
    head = head_text("Transfer-Encoding: chunked\r\n");
    assert_true(http_raw_send_text(&chunked, head));
    assert_true(http_raw_send_text(&chunked, "5\r\n{\"mod\r\n"));
    free(head);
    /* A client that sends a byte now and then gets no more time. */
    bool taken = true;
    for (int i = 0; i < 25 && taken; i++) {
        taken = http_raw_send(&trickle, GOOD + i, 1);
        expect_served(server.port);
        daemon_pause(0.1);
    }
    double patience = 4 * daemon_slowness();
    expect_given_up(&none, patience);
    expect_given_up(&half, patience);
    expect_given_up(&chunked, patience);
    expect_given_up(&trickle, patience);
    assert_true(daemon_now() - start > 1);
    expect_served(server.port);
    daemon_stop(&server);
}

/* The body was sent in time, but the daemon stood still or was sending another answer. So the body
 * is not late. */
TEST(body_that_was_there)
{
    enum { SIZE = 4000000 }; /* more than the daemon reads at once */
    daemon_start_with(&server, "--body-timeout", "1s", NULL);
    char *body = malloc(SIZE);
    assert_non_null(body);
    memset(body, ' ', SIZE);
    memcpy(body, GOOD, strlen(GOOD));
    struct http_background sender;
    daemon_freeze(&server);
    http_background_start(&sender, server.port,
                          &(struct http_request){ .path = PATH, .body = body, .body_size = SIZE });
    daemon_pause(1.5);
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    struct http_response response = http_background_join(&sender);
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    free(body);
    daemon_stop(&server);
}

/* ------------------------------------------------------------------ how many -- */

TEST(queue_full)
{
    enum { COUNT = 10, QUEUE = 3 };
    daemon_start_with(&server, "--workers", "1", "--queue-max", "3", NULL);
    struct http_client client;
    http_client_init(&client, server.port);
    char *slow = request_text_slow(&client, 0.6, "");
    struct http_request requests[COUNT];
    struct http_response responses[COUNT];
    for (int i = 0; i < COUNT; i++)
        requests[i] = (struct http_request){ .path = PATH, .body = slow };
    struct http_crowd crowd;
    http_crowd_init(&crowd, server.port, COUNT);
    http_crowd_send(&crowd, requests, responses);
    int served = 0;
    for (int i = 0; i < COUNT; i++) {
        char value[32] = "";
        if (responses[i].status == 200) {
            served++;
        } else {
            answer_expect_fault(&responses[i], 429, "overloaded", NULL);
            assert_non_null(
                http_response_header(&responses[i], "Retry-After", value, sizeof(value)));
            assert_true(atoi(value) >= 1 && strspn(value, "0123456789") == strlen(value));
        }
        http_response_free(&responses[i]);
    }
    assert_true(served >= QUEUE && served < COUNT);
    /* The connections of the refused requests can be used again. */
    for (int i = 0; i < COUNT; i++) {
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .path = PATH, .body = GOOD });
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    http_crowd_free(&crowd);
    http_client_free(&client);
    free(slow);
    daemon_stop(&server);
}

/* The daemon serves no more than LIMIT connections at the same time, whichever threads have them. A
 * connection that ends makes room for another. */
static void limited_by(const char *flag)
{
    enum { COUNT = 30, LIMIT = 10 };
    daemon_start_with(&server, flag, "10", "--workers", "4", NULL);
    struct http_raw raw[COUNT];
    int served = 0;
    for (int i = 0; i < COUNT; i++) {
        http_raw_connect(&raw[i], server.port);
        http_raw_send_text(&raw[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (int i = 0; i < COUNT; i++) {
        struct http_response response = http_raw_receive(&raw[i], i ? 0.05 : 1);
        served += response.status == 200;
        http_response_free(&response);
    }
    assert_true(served >= 2 && served <= LIMIT);
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    double until = daemon_now() + 5 * daemon_slowness();
    for (bool again = false; !again;) {
        http_raw_connect(&raw[0], server.port);
        http_raw_send_text(&raw[0], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        struct http_response response = http_raw_receive(&raw[0], 1);
        again = response.status == 200;
        http_response_free(&response);
        http_raw_close(&raw[0]);
        assert_true(again || daemon_now() < until);
    }
    daemon_stop(&server);
}

TEST(connections_max)
{
    limited_by("--connections-max");
}

TEST(connections_per_ip_max)
{
    limited_by("--connections-per-ip-max");
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

EACH_TEST(NULL, clear);
