/* SPDX-License-Identifier: Apache-2.0 */
/* test_unix_clients.c - what clients of a Unix socket get is what clients of TCP get, although the
 * kernel says less of their connections. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "unix_client.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static const char PATH[] = "/v1/attention";
static const char SMALL[] = JSON({"model":"demo","query":[[1,0,0],[0,1,0]]});
static const char SLOW_READER[] = "attnd_cancelled_total{reason=\"slow_reader\"}";
static const char CONNECTIONS[] = "attnd_connections";

static char name[64]; /* of the abstract socket */

/* Serves on a port, which the fixture's client uses, and on a Unix socket. */
static void serve(const char *flag, const char *value)
{
    char listen[80];
    snprintf(name, sizeof name, "@attnd-clients-%d", (int)getpid());
    snprintf(listen, sizeof listen, "unix:%s", name);
    fixture_serve("--workers", "2", "--listen", listen, flag, value);
}

static void stop(void)
{
    cJSON_Delete(answer_post(&client, PATH, SMALL));
    http_client_free(&client);
    daemon_stop(&server);
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

static struct http_raw connected(void)
{
    const struct http_raw raw = { .socket = unix_client_connect(name) };
    if (raw.socket < 0)
        fail_msg("%s: %s", name, strerror(errno));
    return raw;
}

static void send_request(struct http_raw *raw, const char *id, const char *body)
{
    char head[256];
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\nContent-Length: %zu\r\n"
             "\r\n",
             PATH, id, strlen(body));
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send_text(raw, body));
}

static void expect_answer(struct http_raw *raw)
{
    struct http_response response = http_raw_receive(raw, 20 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

/* The line of the log of a request; the caller frees it. */
static char *line_of(const char *id)
{
    char field[64];
    snprintf(field, sizeof field, "request_id=%s", id);
    char *log = daemon_log_with(&server, field), *found = strstr(log, field);
    *found = '\0';
    char *line = strrchr(log, '\n');
    char *copy = strdup(line ? line + 1 : log);
    free(log);
    return copy;
}

/* ------------------------------------------------------------------- who is who -- */

TEST(user_is_logged)
{
    char client_is[64];
    serve(NULL, NULL);
    struct http_raw raw = connected();
    send_request(&raw, "mine", SMALL);
    expect_answer(&raw);
    char *line = line_of("mine");
    snprintf(client_is, sizeof client_is, "client=\"unix:uid=%d\"", (int)getuid());
    if (!strstr(line, client_is))
        fail_msg("no %s in %s", client_is, line);
    free(line);
    http_raw_close(&raw);
    stop();
}

/* A bound on the connections of one IP address is not one on those of a Unix socket. */
TEST(bound_of_addresses)
{
    enum { COUNT = 20 };
    struct http_raw raw[COUNT];
    serve("--connections-per-ip-max", "1");
    for (int i = 0; i < COUNT; i++) {
        raw[i] = connected();
        send_request(&raw[i], "one-of-many", SMALL);
        expect_answer(&raw[i]);
    }
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    stop();
}

/* ------------------------------------------------------------------ long answers -- */

TEST(long_answer_is_whole)
{
    serve(NULL, NULL);
    char *body = request_text_large_answer();
    struct http_response other = http_client_post(&client, PATH, body);
    struct http_raw raw = connected();
    send_request(&raw, "long", body);
    struct http_response response = http_raw_receive(&raw, 30 * daemon_slowness());
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_size, other.body_size);
    assert_memory_equal(response.body, other.body, other.body_size);
    http_response_free(&response);
    http_response_free(&other);
    http_raw_close(&raw);
    free(body);
    stop();
}

/* Reads about step_bytes in each step of 20 ms. Returns the number of bytes read. */
static size_t read_steadily(struct http_raw *raw, size_t step_bytes, size_t bytes_max)
{
    size_t total = 0;
    char *step = malloc(step_bytes);
    while (total < bytes_max) {
        const size_t left = bytes_max - total;
        const ssize_t size =
            recv(raw->socket, step, left < step_bytes ? left : step_bytes, MSG_WAITALL);
        if (size <= 0)
            break;
        total += (size_t)size;
        daemon_pause(0.02);
    }
    free(step);
    return total;
}

static void expect_left(const char *id)
{
    char *line = line_of(id);
    if (!strstr(line, "status=499"))
        fail_msg("%s", line);
    free(line);
}

/* Nothing of an answer is taken; then next to nothing of it. */
TEST(answer_that_is_not_taken)
{
    serve("--send-timeout", "300ms");
    char *body = request_text_large_answer();
    struct http_raw raw = connected();
    send_request(&raw, "never", body);
    answer_wait_for_metric(&client, SLOW_READER, 1, 1);
    expect_left("never");
    http_raw_close(&raw);
    raw = connected();
    send_request(&raw, "crawls", body);
    size_t taken = 0;
    while (answer_metric(&client, SLOW_READER) < 2 && taken < 10000000)
        taken += read_steadily(&raw, 256, 256);
    assert_true(taken < 10000000);
    expect_left("crawls");
    http_raw_close(&raw);
    free(body);
    stop();
}

/* It takes many times the timeout, but the client always takes something. */
TEST(answer_that_is_taken_slowly)
{
    serve("--send-timeout", "300ms");
    char *body = request_text_large_answer();
    struct http_response response = http_client_post(&client, PATH, body);
    const size_t size = response.body_size;
    http_response_free(&response);
    struct http_raw raw = connected();
    send_request(&raw, "slowly", body);
    assert_true(read_steadily(&raw, 200000, size) >= size);
    assert_true(answer_metric(&client, SLOW_READER) == 0);
    http_raw_close(&raw);
    free(body);
    stop();
}

/* ---------------------------------------------------------------------- bodies -- */

TEST(body_that_is_too_large)
{
    serve("--body-max", "100KiB");
    struct http_raw raw = connected();
    char *body = malloc(300001);
    memset(body, ' ', 300000);
    body[300000] = '\0';
    char head[128];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n",
             PATH);
    assert_true(http_raw_send_text(&raw, head));
    http_raw_send(&raw, body, 300000); /* refused before it is read */
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    answer_expect_fault(&response, 413, "too_large", "");
    http_response_free(&response);
    http_raw_close(&raw);
    free(body);
    stop();
}

/* A line of a chunked body that has no end is refused, and no thread keeps running for it; one of a
 * size that there is room for is taken. */
TEST(chunk_lines)
{
    enum { LONG = 20000, SHORT = 4000 };
    static const char HEAD[] = "POST /v1/softmax HTTP/1.1\r\nHost: x\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    static char filler[LONG + 1];
    memset(filler, 'a', LONG);
    serve("--body-timeout", "250s");
    struct http_raw raw = connected();
    assert_true(http_raw_send_text(&raw, HEAD));
    assert_true(http_raw_send_text(&raw, "1;x="));
    http_raw_send(&raw, filler, LONG);
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    answer_expect_fault(&response, 400, "encoding", "");
    http_response_free(&response);
    http_raw_close(&raw);
    answer_wait_for_metric(&client, CONNECTIONS, 1, 1);
    const double before = daemon_cpu_seconds(&server);
    daemon_pause(1);
    assert_true(daemon_cpu_seconds(&server) - before < 0.25);

    raw = connected();
    assert_true(http_raw_send_text(&raw, HEAD));
    assert_true(http_raw_send_text(&raw, "f;x="));
    assert_true(http_raw_send(&raw, filler, SHORT));
    assert_true(http_raw_send_text(&raw, "\r\n{\"input\":[[1]]}\r\n0\r\n\r\n"));
    expect_answer(&raw);
    http_raw_close(&raw);
    stop();
}

/* -------------------------------------------------------------- clients that leave -- */

/* A client that leaves while its request is computed ends the request; so does one that only ends
 * its own side. */
TEST(client_that_leaves)
{
    serve(NULL, NULL);
    char *slow = request_text_slow(&client, 3, "");
    static const char *const ids[] = { "closes", "ends-its-side" };
    for (int i = 0; i < 2; i++) {
        struct http_raw raw = connected();
        send_request(&raw, ids[i], slow);
        answer_wait_for_metric(&client, "attnd_requests_active", 2, INFINITY);
        if (i == 0)
            http_raw_close(&raw);
        else
            shutdown(raw.socket, SHUT_WR);
        expect_left(ids[i]);
        if (i == 1)
            http_raw_close(&raw);
    }
    free(slow);
    stop();
}

/* Clients that have closed their connection before it was accepted are not served; one that waits
 * behind them is, and so is one that has only ended its side. */
TEST(clients_that_gave_up)
{
    enum { GONE = 30 };
    serve(NULL, NULL);
    daemon_freeze(&server);
    for (int i = 0; i < GONE; i++) {
        struct http_raw raw = connected();
        send_request(&raw, "gave-up", SMALL);
        http_raw_close(&raw);
    }
    struct http_raw waits = connected(), ended = connected();
    send_request(&waits, "waits", SMALL);
    send_request(&ended, "ended", SMALL);
    shutdown(ended.socket, SHUT_WR);
    kill(server.pid, SIGCONT);
    expect_answer(&waits);
    expect_answer(&ended);
    http_raw_close(&waits);
    http_raw_close(&ended);
    char *log = daemon_log(&server);
    assert_null(strstr(log, "gave-up"));
    free(log);
    stop();
}

/* ----------------------------------------------------------------------- the drain -- */

/* Clients that have connected are answered, among them those that the daemon has not accepted when
 * it is told to end. One that comes later is refused at once. */
TEST(drain)
{
    enum { COUNT = 200 };
    struct http_raw raw[COUNT];
    serve(NULL, NULL);
    struct http_raw kept = connected(), silent = connected();
    send_request(&kept, "kept", SMALL);
    expect_answer(&kept);
    char *slow = request_text_slow(&client, 0.5, "");
    struct http_raw busy = connected();
    send_request(&busy, "busy", slow);
    answer_wait_for_metric(&client, "attnd_requests_active", 2, INFINITY);
    http_client_free(&client);
    daemon_freeze(&server);
    for (int i = 0; i < COUNT; i++) {
        raw[i] = connected();
        send_request(&raw[i], "queued", SMALL);
    }
    kill(server.pid, SIGTERM);
    kill(server.pid, SIGCONT);
    for (int i = 0; i < COUNT; i++) {
        expect_answer(&raw[i]);
        assert_true(http_raw_is_closed(&raw[i], 10 * daemon_slowness()));
        http_raw_close(&raw[i]);
    }
    const int late = unix_client_connect(name);
    assert_int_equal(late, -1);
    assert_int_equal(errno, ECONNREFUSED);
    expect_answer(&busy);
    assert_true(http_raw_is_closed(&kept, 10 * daemon_slowness()));
    assert_true(http_raw_is_closed(&silent, 10 * daemon_slowness()));
    assert_int_equal(daemon_wait(&server, 20 * daemon_slowness()), 0);
    http_raw_close(&busy);
    http_raw_close(&kept);
    http_raw_close(&silent);
    free(slow);
}

EACH_TEST(NULL, clear);
