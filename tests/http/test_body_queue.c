/* SPDX-License-Identifier: Apache-2.0 */
/* test_body_queue.c - long bodies wait for one another, and the daemon answers all of them. Other
 * requests that come in the meantime, clients that leave and clients that send slowly do not change
 * that.
 *
 * A body that is long enough to wait is mostly blanks, which cost little. Some clients send such
 * bodies one after another, so that the other clients find bodies that wait. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static const char WAITING[] = "attnd_bodies_waiting";
static const char LEFT[] = "attnd_cancelled_total{reason=\"left_reading\"}";

enum {
    BODY_BYTES = 3 << 19,
    SENDERS = 6,
    LEAST = 3,
    CROWD = 24,
    SLOW = 16,
    LEAVERS = 60,
    READ = 40
};

static char body[BODY_BYTES + 1];

static pthread_t senders[SENDERS];
static _Atomic bool senders_stop;
static _Atomic int failed_count;

static int setup(void **state)
{
    memset(body, ' ', BODY_BYTES);
    memcpy(body + sizeof body - sizeof GOOD, GOOD, sizeof GOOD);
    fixture_serve("--workers", "2");
    return 0;
}

static void *send_on(void *port)
{
    struct http_client own;
    http_client_init(&own, *(const int *)port);
    while (!atomic_load(&senders_stop)) {
        struct http_response response = http_client_post(&own, PATH, body);
        if (response.status != 200)
            atomic_fetch_add(&failed_count, 1);
        http_response_free(&response);
    }
    http_client_free(&own);
    return NULL;
}

/* Starts the senders, and returns when bodies wait. */
static void start_senders(void)
{
    atomic_store(&senders_stop, false);
    atomic_store(&failed_count, 0);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&senders[i], NULL, send_on, &server.port), 0);
    answer_wait_for_metric(&client, WAITING, 1, INFINITY);
}

/* Stops the senders. All their requests were answered with 200, and no body waits any more. */
static void stop_senders(void)
{
    atomic_store(&senders_stop, true);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    assert_int_equal(failed_count, 0);
    answer_wait_for_metric(&client, WAITING, 0, 0);
}

static void send_head(struct http_raw *raw, const char *version, const char *more)
{
    char head[256];
    snprintf(head, sizeof head,
             "POST %s HTTP/%s\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n", PATH,
             version, more);
    assert_true(http_raw_send_text(raw, head));
}

static void connect_head(struct http_raw *raw, const char *version, const char *more)
{
    http_raw_connect(raw, server.port);
    send_head(raw, version, more);
}

static const char *announcing(const char *more)
{
    static char headers[160];
    snprintf(headers, sizeof headers, "Content-Length: %d\r\n%s", BODY_BYTES, more);
    return headers;
}

static void expect(struct http_raw *raw, long status)
{
    struct http_response response = http_raw_receive(raw, 20 * daemon_slowness());
    assert_int_equal(response.status, status);
    http_response_free(&response);
}

/* -------------------------------------------------------------------- tests -- */

TEST(a_crowd)
{
    struct http_crowd crowd;
    struct http_request requests[CROWD];
    struct http_response responses[CROWD];
    for (int i = 0; i < CROWD; i++)
        requests[i] = (struct http_request){ .path = PATH, .body = body, .chunked = i % 3 == 2 };
    http_crowd_init(&crowd, server.port, CROWD);
    for (int round = 0; round < 2; round++) {
        http_crowd_send(&crowd, requests, responses);
        for (int i = 0; i < CROWD; i++) {
            assert_int_equal(responses[i].status, 200);
            http_response_free(&responses[i]);
        }
    }
    http_crowd_free(&crowd);
    assert_true(answer_metric(&client, WAITING) == 0);
    fixture_stop(state);
}

TEST(ways_to_send)
{
    struct http_raw raw;
    start_senders();
    /* The daemon asks the client for the body when its turn has come, and not before. */
    connect_head(&raw, "1.1", announcing("Expect: 100-continue\r\n"));
    expect(&raw, 100);
    assert_true(http_raw_send_text(&raw, body));
    expect(&raw, 200);
    /* This body is chunked, on the same connection, and another request follows it at once. */
    send_head(&raw, "1.1", "Transfer-Encoding: chunked\r\n");
    char chunk[32];
    snprintf(chunk, sizeof chunk, "%x\r\n", BODY_BYTES);
    assert_true(http_raw_send_text(&raw, chunk));
    assert_true(http_raw_send_text(&raw, body));
    assert_true(http_raw_send_text(&raw, "\r\n0\r\n\r\n"));
    assert_true(http_raw_send_text(&raw, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    expect(&raw, 200);
    expect(&raw, 200);
    http_raw_close(&raw);
    connect_head(&raw, "1.0", announcing(""));
    assert_true(http_raw_send_text(&raw, body));
    expect(&raw, 200);
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    http_raw_close(&raw);
    stop_senders();
    fixture_stop(state);
}

/* The request has no time left. The daemon says so before the body comes, and the connection takes
 * no other request. */
TEST(too_late)
{
    struct http_raw raw;
    char value[32] = "";
    start_senders();
    connect_head(&raw, "1.1", announcing("Expect: 100-continue\r\nX-Timeout-Ms: 0.001\r\n"));
    http_raw_send_text(&raw, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
    assert_string_equal(http_response_header(&response, "Connection", value, sizeof value),
                        "close");
    assert_non_null(
        strstr(response.body, "the request could not be answered: of its time there is less"));
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    assert_int_equal(raw.used, 0);
    http_raw_close(&raw);
    stop_senders();
    assert_true(answer_metric(&client, "attnd_refused_total{reason=\"deadline\"}") == 1);
    fixture_stop(state);
}

/* A test waits for this before its clients leave, because the daemon reads and counts nothing of a
 * client that leaves earlier. */
static void wait_until_accepted(int descriptor_count)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_descriptor_count(&server) < descriptor_count) {
        assert_true(daemon_now() < until);
        daemon_pause(0.02);
    }
}

/* Clients leave when they have sent nothing of their body, half of it, or all of it. */
TEST(leaving)
{
    struct http_raw leavers[LEAVERS];
    start_senders();
    const int descriptor_count = daemon_descriptor_count(&server);
    for (int i = 0; i < LEAVERS; i++) {
        connect_head(&leavers[i], "1.1", announcing(""));
        if (i % 3 > 0)
            http_raw_send(&leavers[i], body, i % 3 == 1 ? BODY_BYTES / 2 : BODY_BYTES);
    }
    wait_until_accepted(descriptor_count + LEAVERS);
    for (int i = 0; i < LEAVERS; i++)
        http_raw_close(&leavers[i]);
    /* At least two of three clients count as left: the third may have sent its whole body, so its
     * request may have been read and be answered. */
    answer_wait_for_metric(&client, LEFT, READ, LEAVERS);
    stop_senders();
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_descriptor_count(&server) > descriptor_count && daemon_now() < until)
        daemon_pause(0.02);
    assert_true(daemon_descriptor_count(&server) <= descriptor_count);
    free(daemon_log_with(&server, "status=499"));
    fixture_stop(state);
}

/* A client that begins a body and then stops does not keep the daemon from reading other bodies. */
TEST(slow_clients)
{
    struct http_raw slow[SLOW];
    for (int i = 0; i < SLOW; i++) {
        connect_head(&slow[i], "1.1", announcing(""));
        assert_true(http_raw_send(&slow[i], body, (size_t)(1 + i * 1000)));
    }
    answer_wait_for_active(&client, SLOW);
    for (int i = 0; i < SLOW; i++) {
        struct http_response response = http_client_post(&client, PATH, body);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    answer_wait_for_metric(&client, WAITING, 0, 0);
    for (int i = 0; i < SLOW; i++) {
        assert_true(http_raw_send_text(&slow[i], body + 1 + (size_t)i * 1000));
        expect(&slow[i], 200);
        http_raw_close(&slow[i]);
    }
    fixture_stop(state);
}

/* The requests that wait when the daemon is told to stop were accepted, so the daemon answers them.
 * The log has no request without an answer. */
TEST(drain)
{
    struct http_background backgrounds[CROWD];
    start_senders();
    const struct http_request request = { .path = PATH, .body = body };
    for (int i = 0; i < CROWD; i++)
        http_background_start(&backgrounds[i], server.port, &request);
    answer_wait_for_metric(&client, WAITING, LEAST, INFINITY);
    atomic_store(&senders_stop, true);
    kill(server.pid, SIGTERM);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    for (int i = 0; i < CROWD; i++) {
        struct http_response response = http_background_join(&backgrounds[i]);
        assert_true(response.status == 200 || response.status == 503 || response.status == 0);
        http_response_free(&response);
    }
    assert_int_equal(daemon_wait(&server, 20 * daemon_slowness()), 0);
    char *log = daemon_log(&server);
    assert_non_null(strstr(log, "status=200"));
    assert_null(strstr(log, "status=499"));
    assert_null(strstr(log, "status=408"));
    free(log);
    fixture_stop(state);
}

EACH_TEST(setup, fixture_clear);
