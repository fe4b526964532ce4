/* SPDX-License-Identifier: Apache-2.0 */
/* test_slow_clients.c - clients that hold a connection and do nothing with it, and clients that do
 * not take their answer. Each kind has its limit, is counted, and disturbs no other client.
 *
 * A body that does not come is in test_limits.c. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

#include <sys/socket.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static const char ASK[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
static const char IDLE[] = "attnd_connections_closed_total{reason=\"idle\"}";
static const char FOR_ANOTHER[] = "attnd_connections_closed_total{reason=\"for_another\"}";
static const char SLOW_READER[] = "attnd_cancelled_total{reason=\"slow_reader\"}";

static void start(const char *flag, const char *value)
{
    fixture_serve("--workers", "2", flag, value);
}

static void stop(void)
{
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    http_client_free(&client);
    daemon_stop(&server);
}

static void ask(struct http_raw *raw)
{
    assert_true(http_raw_send_text(raw, ASK));
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

/* ------------------------------------------------------------------------ idle -- */

TEST(idle_connections_are_closed)
{
    struct http_raw silent, answered, half;
    start("--idle-timeout", "400ms");
    http_raw_connect(&silent, server.port);
    http_raw_connect(&answered, server.port);
    http_raw_connect(&half, server.port);
    ask(&answered);
    assert_true(http_raw_send_text(&half, "GET /livez HTTP/1.1\r\nHost: loc"));
    answer_wait_for_metric(&client, IDLE, 3, INFINITY);
    assert_true(http_raw_is_closed(&silent, 10 * daemon_slowness()));
    assert_true(http_raw_is_closed(&answered, 10 * daemon_slowness()));
    assert_true(http_raw_is_closed(&half, 10 * daemon_slowness()));
    http_raw_close(&silent);
    http_raw_close(&answered);
    http_raw_close(&half);
    stop();
}

/* A byte now and then does not extend the time for the headers. */
TEST(slow_headers)
{
    struct http_raw trickle;
    start("--idle-timeout", "400ms");
    http_raw_connect(&trickle, server.port);
    assert_true(http_raw_send_text(&trickle, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "));
    double until = daemon_now() + 20 * daemon_slowness();
    while (http_raw_send_text(&trickle, "a") && daemon_now() < until)
        daemon_pause(0.05);
    assert_true(http_raw_is_closed(&trickle, 1));
    assert_true(answer_metric(&client, IDLE) >= 1);
    http_raw_close(&trickle);
    stop();
}

/* A connection is not idle while its request is computed or while its body is on its way. */
TEST(busy_connections_are_kept)
{
    start("--idle-timeout", "300ms");
    char *slow = request_text_slow(&client, 1.2, "");
    struct http_background computed;
    http_background_start(&computed, server.port,
                          &(struct http_request){ .path = PATH, .body = slow });
    struct http_raw sender;
    http_raw_connect(&sender, server.port);
    char head[200];
    snprintf(head, sizeof(head),
             "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
             strlen(GOOD));
    assert_true(http_raw_send_text(&sender, head));
    for (size_t i = 0; i < strlen(GOOD); i += 3) {
        assert_true(http_raw_send(&sender, GOOD + i, i + 3 < strlen(GOOD) ? 3 : strlen(GOOD) - i));
        daemon_pause(0.1);
    }
    struct http_response response = http_raw_receive(&sender, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    response = http_background_join(&computed);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_raw_close(&sender);
    free(slow);
    stop();
}

/* If there are too many connections, the one that has been idle the longest is closed; the others
 * stay. */
TEST(oldest_idle_makes_room)
{
    enum { COUNT = 20 };
    struct http_raw raw[COUNT], another;
    daemon_start_with(&server, "--workers", "2", "--connections-max", "20", NULL);
    for (int i = 0; i < COUNT; i++) {
        http_raw_connect(&raw[i], server.port);
        ask(&raw[i]);
    }
    ask(&raw[0]); /* the second is the oldest now */
    http_raw_connect(&another, server.port);
    ask(&another);
    assert_true(http_raw_is_closed(&raw[1], 10 * daemon_slowness()));
    ask(&raw[0]);
    ask(&raw[COUNT - 1]);
    http_raw_close(&raw[2]);
    http_client_init(&client, server.port);
    answer_wait_for_metric(&client, FOR_ANOTHER, 1, INFINITY);
    assert_true(answer_metric(&client, IDLE) == 0);
    http_raw_close(&another);
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    stop();
}

/* --------------------------------------------------------------------- reading -- */

static void send_request(struct http_raw *raw, const char *id, const char *body)
{
    char head[200];
    snprintf(head, sizeof(head),
             "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n"
             "Content-Length: %zu\r\n\r\n",
             id, strlen(body));
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send_text(raw, body));
}

/* Reads about step_bytes in each step until the end. Returns the number of bytes read. */
static size_t read_steadily(struct http_raw *raw, size_t step_bytes, size_t bytes_max)
{
    size_t total = 0;
    char *step = malloc(step_bytes);
    while (total < bytes_max) {
        const size_t left = bytes_max - total;
        const size_t wanted = left < step_bytes ? left : step_bytes;
        const ssize_t size = recv(raw->socket, step, wanted, MSG_WAITALL);
        if (size <= 0)
            break;
        total += (size_t)size;
        daemon_pause(0.02);
    }
    free(step);
    return total;
}

static void expect_logged_as_left(const char *id)
{
    char field[64];
    snprintf(field, sizeof(field), "request_id=%s", id);
    char *log = daemon_log_with(&server, field);
    char *found = strstr(log, field);
    *found = '\0';
    char *line = strrchr(log, '\n');
    assert_non_null(strstr(line ? line : log, "status=499"));
    free(log);
}

TEST(answer_that_nobody_takes)
{
    struct http_raw raw;
    start("--send-timeout", "300ms");
    char *body = request_text_large_answer();
    send_request(&raw, "never", body);
    answer_wait_for_metric(&client, SLOW_READER, 1, 1);
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    expect_logged_as_left("never");
    answer_wait_for_metric(&client, "attnd_requests_active", 1, 1);
    http_raw_close(&raw);
    free(body);
    stop();
}

/* A little progress is not enough; otherwise a client could hold its answer's memory for days. */
TEST(answer_that_is_crawled_through)
{
    struct http_raw raw;
    start("--send-timeout", "300ms");
    char *body = request_text_large_answer();
    send_request(&raw, "crawls", body);
    size_t taken = 0;
    while (answer_metric(&client, SLOW_READER) == 0 && taken < 10000000)
        taken += read_steadily(&raw, 256, 256);
    assert_true(taken < 10000000);
    expect_logged_as_left("crawls");
    http_raw_close(&raw);
    free(body);
    stop();
}

/* Reading takes many times the timeout, but the client always takes something: it gets the whole
 * answer. */
TEST(answer_that_is_taken_slowly)
{
    struct http_raw raw;
    start("--send-timeout", "300ms");
    char *body = request_text_large_answer();
    struct http_response response = http_client_post(&client, PATH, body);
    const size_t size = response.body_size;
    http_response_free(&response);
    assert_true(size > 15000000);
    send_request(&raw, "slowly", body);
    double start_time = daemon_now();
    assert_true(read_steadily(&raw, 400000, size) >= size);
    print_message("    %zu bytes in %.2f s\n", size, daemon_now() - start_time);
    assert_true(answer_metric(&client, SLOW_READER) == 0);
    http_raw_close(&raw);
    free(body);
    stop();
}

/* The client sends request after request and reads no answer. */
TEST(answers_that_pile_up)
{
    enum { COUNT = 400 };
    static const char request[] = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct http_raw raw;
    start("--send-timeout", "300ms");
    http_raw_connect(&raw, server.port);
    for (int i = 0; i < COUNT && http_raw_send_text(&raw, request); i++)
        ;
    answer_wait_for_metric(&client, SLOW_READER, 1, 1);
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    http_raw_close(&raw);
    stop();
}

EACH_TEST(NULL, fixture_clear);
