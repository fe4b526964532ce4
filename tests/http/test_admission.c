/* test_admission.c - requests are judged by what they will cost: before their body comes, before it
 * is read, and before anything is computed.
 *
 * One worker and a request that holds it; what is refused must be refused while that one runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "daemon.h"
#include "request_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PATH[] = "/v1/attention";
static const char BATCH[] = "/v1/attention/batch";
static const char GOOD[] = "{\"model\":\"sdpa\",\"query\":[[1]]}";
static const char *const PATIENT[] = { "Content-Type: application/json", NULL };

static struct daemon server;
static struct http_client client;

/* A request that takes this CPU time at least, as predicted once its kind has been measured; two
 * and five of it in a batch. */
static const double LEAST_S = 0.4;
static char *slow, *slow_pair, *slow_batch;
static double cost_s;

static void start(const char *flag, const char *value)
{
    daemon_start_with(&server, "--workers", "1", flag, value, NULL);
    http_client_init(&client, server.port);
}

static void stop(void)
{
    http_client_free(&client);
    daemon_stop(&server);
}

static double metric(const char *series)
{
    struct metrics_page page = { 0 };
    answer_metrics(&client, &page);
    const double value = metrics_page_value(&page, series);
    metrics_page_free(&page);
    return value;
}

static struct http_response send(const char *path, const char *body, const char *const *headers)
{
    return http_client_send(
        &client, &(struct http_request){ .path = path, .body = body, .headers = headers });
}

static void expect_status(const char *path, const char *body, long status)
{
    struct http_response response = send(path, body, PATIENT);
    if (response.status != status)
        fail_msg("%s was answered with %ld, not %ld: %s", path, response.status, status,
                 response.body);
    http_response_free(&response);
}

/* A request in the background, which should be being computed when this returns: what is predicted
 * for it; 0 where it never was seen in the queue. */
static double try_hold(struct http_background *holder, const char *path, const char *body)
{
    double planned_s = 0;
    http_background_start(holder, server.port,
                          &(struct http_request){ .path = path, .body = body, .headers = PATIENT });
    for (int i = 0; i < 2000 && planned_s <= 0.02; i++) {
        planned_s = metric("attnd_queue_cost_seconds");
        daemon_pause(0.002);
    }
    return planned_s > 0.02 ? planned_s : 0;
}

static void hold(struct http_background *holder, const char *path, const char *body)
{
    if (try_hold(holder, path, body) == 0) {
        struct http_response response = http_background_join(holder);
        fail_msg("never seen in the queue: %ld %s", response.status, response.body);
    }
}

static void expect_still_held(void)
{
    assert_true(metric("attnd_queue_jobs") >= 1);
}

static void expect_served(struct http_background *holder)
{
    struct http_response response = http_background_join(holder);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

static void expect_overloaded(struct http_response *response)
{
    char value[32] = "";
    answer_expect_fault(response, 429, "overloaded", NULL);
    assert_non_null(http_response_header(response, "Retry-After", value, sizeof value));
    assert_int_equal(strspn(value, "0123456789"), strlen(value));
    assert_in_range(atoi(value), 1, 60);
    http_response_free(response);
}

/* What is predicted for the body, which is answered once. */
static double predicted_s(const char *body)
{
    static const char series[] = "attnd_cost_predicted_seconds_total";
    const double before_s = metric(series);
    expect_status(PATH, body, 200);
    return metric(series) - before_s;
}

/* ------------------------------------------------------------------- items -- */

static void test_items_of_batches_count(void **state)
{
    (void)state;
    struct http_background holder;
    start("--queue-max", "8");
    expect_status(
        BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{},{},{},{}]}", 200);
    /* More than there are places is taken where all are free. */
    expect_status(BATCH,
                  "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{},{},{},{},{}]}",
                  200);

    hold(&holder, BATCH, slow_batch);
    struct http_response response =
        send(BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{}]}", PATIENT);
    expect_overloaded(&response);
    expect_status(BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{}]}", 200);
    expect_status(PATH, GOOD, 200);
    expect_still_held();
    expect_served(&holder);
    /* All places are free again. */
    expect_status(
        BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{},{},{},{}]}", 200);
    assert_true(metric("attnd_refused_total{reason=\"overloaded\"}") == 1);
    stop();
}

/* -------------------------------------------------------------------- cost -- */

/* Whether the request ever came to a worker. */
static bool was_read(const struct http_response *response)
{
    char value[256] = "";
    assert_non_null(http_response_header(response, "Server-Timing", value, sizeof value));
    return strstr(value, "parse") != NULL;
}

/* Starts a daemon whose queue takes one of slow, which it is computing when this returns, and not
 * two. On a busy machine the fit at the start predicts now more and now less, so the limit follows
 * what this daemon's predecessor said. */
static void start_with_room_for_one(struct http_background *holder)
{
    enum { ATTEMPTS = 10 };
    double limit_s = 1.1 * cost_s;
    for (int i = 0; i < ATTEMPTS; i++) {
        char limit[32];
        snprintf(limit, sizeof limit, "%.0fms", 1000 * limit_s);
        start("--queue-cost-max", limit);
        assert_true(metric("attnd_queue_cost_seconds") == 0);
        const double planned_s = try_hold(holder, PATH, slow);
        if (planned_s > 0.7 * limit_s && planned_s < 1.8 * limit_s)
            return;
        struct http_response response = http_background_join(holder);
        http_response_free(&response);
        stop();
        limit_s = planned_s > 0 ? 1.1 * planned_s : 2 * limit_s;
    }
    fail_msg("no two daemons of %d predict the same", ATTEMPTS);
}

static void test_queue_full_of_cost(void **state)
{
    (void)state;
    struct http_background holder;
    start_with_room_for_one(&holder);
    /* Nothing is known of such a body but its size: it is read, and refused before it is computed.
     */
    struct http_response response = send(PATH, slow, PATIENT);
    expect_overloaded(&response);
    /* The next one of its kind need not be read any more. */
    response = send(PATH, slow, PATIENT);
    assert_false(was_read(&response));
    expect_overloaded(&response);
    expect_still_held();
    expect_served(&holder);
    assert_true(metric("attnd_queue_cost_seconds") == 0);
    expect_status(PATH, slow, 200);
    assert_true(metric("attnd_refused_total{reason=\"overloaded\"}") == 2);
    stop();
}

static void test_what_never_fits(void **state)
{
    (void)state;
    start("--queue-cost-max", "5ms");
    struct http_response response = send(PATH, slow, PATIENT);
    answer_expect_fault(&response, 413, "too_large", NULL);
    assert_non_null(strstr(response.body, "--queue-cost-max"));
    assert_null(http_response_header(&response, "Retry-After", (char[32]){ 0 }, 32));
    http_response_free(&response);

    /* To read 60 MB of JSON takes longer than that, so they need not come. */
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n"
                                         "Content-Type: application/json\r\n"
                                         "Content-Length: 60000000\r\n\r\n"));
    response = http_raw_receive(&raw, 5 * daemon_slowness());
    answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, 5 * daemon_slowness()));
    http_raw_close(&raw);
    expect_status(PATH, GOOD, 200);
    stop();
}

/* A long body that finds the queue full is told so before it comes. */
static void test_full_before_the_body(void **state)
{
    (void)state;
    static const char *const paths[] = { "/v1/attention", "/v1/softmax", "/v2/models/sdpa/infer" };
    struct http_background holder;
    start("--queue-max", "1");
    hold(&holder, PATH, slow);
    for (int i = 0; i < 3; i++) {
        struct http_raw raw;
        char head[256];
        snprintf(head, sizeof head,
                 "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: 1000000\r\n\r\n",
                 paths[i]);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, head));
        struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
        expect_overloaded(&response);
        http_raw_close(&raw);
    }
    struct http_response response = send(PATH, GOOD, PATIENT);
    expect_overloaded(&response);
    expect_still_held();
    expect_served(&holder);
    expect_status(PATH, GOOD, 200);
    stop();
}

static void start_with_body(struct http_raw *raw, const char *more_headers, size_t body_bytes,
                            size_t sent_bytes)
{
    char *request = NULL;
    const int head_bytes =
        asprintf(&request,
                 "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "%sContent-Length: %zu\r\n\r\n%*s",
                 PATH, more_headers, body_bytes, (int)body_bytes, "")
        - (int)body_bytes;
    assert_true(head_bytes > 0);
    assert_true(http_raw_send(raw, request, (size_t)head_bytes + sent_bytes));
    free(request);
}

static void expect_refused(struct http_raw *raw, bool lives)
{
    char value[32] = "";
    struct http_response response = http_raw_receive(raw, 20 * daemon_slowness());
    const char *connection = http_response_header(&response, "Connection", value, sizeof value);
    assert_int_equal(lives, connection == NULL);
    expect_overloaded(&response);
    if (!lives)
        assert_true(http_raw_is_closed(raw, 20 * daemon_slowness()));
}

/* What is refused and has come is read, and the connection takes another request; the bytes of the
 * one are not taken for the other. What has not come, or is to be asked for, is not waited for. */
static void test_connections_of_the_refused(void **state)
{
    (void)state;
    enum { SHORT_BYTES = 1000, LONG_BYTES = 30000 };
    struct http_background holder;
    struct http_raw raw;
    start("--queue-max", "1");
    hold(&holder, PATH, slow);
    http_raw_connect(&raw, server.port);
    for (int i = 0; i < 3; i++) {
        start_with_body(&raw, "", LONG_BYTES, LONG_BYTES);
        expect_refused(&raw, true);
    }
    start_with_body(&raw, "", SHORT_BYTES, SHORT_BYTES);
    expect_refused(&raw, true);
    start_with_body(&raw, "", (size_t)3 * LONG_BYTES, LONG_BYTES / 2);
    expect_refused(&raw, false);
    http_raw_close(&raw);

    http_raw_connect(&raw, server.port);
    start_with_body(&raw, "Expect: 100-continue\r\n", 17000, 0);
    expect_refused(&raw, false);
    http_raw_close(&raw);
    expect_still_held();
    expect_served(&holder);
    expect_status(PATH, GOOD, 200);
    assert_true(metric("attnd_refused_total{reason=\"overloaded\"}") == 6);
    stop();
}

/* --------------------------------------------------------------- deadlines -- */

static void test_deadlines_that_cannot_be_met(void **state)
{
    (void)state;
    struct http_background holder;
    char header[2][48];
    const char *const soon[] = { "Content-Type: application/json", header[0], NULL };
    const char *const later[] = { "Content-Type: application/json", header[1], NULL };
    start("--queue-max", "9");
    snprintf(header[0], sizeof header[0], "X-Timeout-Ms: %.3f", 250 * cost_s);
    snprintf(header[1], sizeof header[1], "X-Timeout-Ms: %.3f", 1300 * cost_s);
    /* On its own: planned, and no task of it begun. */
    struct http_response response = send(PATH, slow, soon);
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    assert_true(metric("attnd_queue_jobs") == 0);
    assert_true(metric("attnd_refused_total{reason=\"deadline\"}") == 1);

    /* Twice as much, which would do alone, is refused behind it while it still has most of its time
     * before it; a short one, which goes between, is served. */
    hold(&holder, PATH, slow);
    response = send(BATCH, slow_pair, later);
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    expect_still_held();
    response = send(PATH, GOOD, later);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    expect_still_held();
    expect_served(&holder);
    stop();
}

/* ----------------------------------------------------------- what is shown -- */

static void test_costs_are_shown(void **state)
{
    (void)state;
    start("--queue-max", "9");
    assert_true(predicted_s(slow) > 0);
    struct metrics_page page = { 0 };
    answer_metrics(&client, &page);
    assert_true(metrics_page_value(&page, "attnd_cost_actual_seconds_total") > 0);
    assert_true(metrics_page_value(&page, "attnd_cost_observations_total") >= 1);
    assert_true(metrics_page_value(&page, "attnd_cost_rate_seconds{term=\"read_text\"}") > 0);
    assert_true(metrics_page_value(&page, "attnd_cost_slowdown_ratio") >= 1);
    metrics_page_free(&page);
    free(daemon_log_with(&server, "cost_ms="));
    stop();
}

static char *with_items(const char *more)
{
    char *batch = NULL;
    assert_true(asprintf(&batch, "%.*s%s", (int)strlen(slow) - 1, slow, more) > 0);
    return batch;
}

/* One request for all tests, long enough in CPU time, however busy the machine is. */
static int make_slow(void **state)
{
    (void)state;
    start("--queue-max", "9");
    for (double seconds = LEAST_S; cost_s < LEAST_S; seconds *= 1.5) {
        free(slow);
        slow = request_text_slow(&client, seconds, "");
        cost_s = predicted_s(slow);
    }
    stop();
    /* The daemons of the tests have measured nothing of it yet. */
    start("--queue-max", "9");
    cost_s = predicted_s(slow);
    stop();
    slow_pair = with_items(",\"requests\":[{},{}]}");
    slow_batch = with_items(",\"requests\":[{},{},{},{},{}]}");
    return 0;
}

static int free_slow(void **state)
{
    (void)state;
    free(slow);
    free(slow_pair);
    free(slow_batch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_kill(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_items_of_batches_count, teardown),
        cmocka_unit_test_teardown(test_queue_full_of_cost, teardown),
        cmocka_unit_test_teardown(test_what_never_fits, teardown),
        cmocka_unit_test_teardown(test_full_before_the_body, teardown),
        cmocka_unit_test_teardown(test_connections_of_the_refused, teardown),
        cmocka_unit_test_teardown(test_deadlines_that_cannot_be_met, teardown),
        cmocka_unit_test_teardown(test_costs_are_shown, teardown),
    };
    return cmocka_run_group_tests(tests, make_slow, free_slow);
}
