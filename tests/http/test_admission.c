/* SPDX-License-Identifier: Apache-2.0 */
/* test_admission.c - the daemon judges a request by its cost: before the body comes, before the
 * daemon reads the body, and before it computes anything.
 *
 * There is one worker, and one request holds it. The daemon must refuse the other requests while
 * that request runs. */
#include "answer.h"
#include "daemon.h"
#include "endless.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char BATCH[] = "/v1/attention/batch";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static const char *const PATIENT[] = { "Content-Type: application/json", NULL };

/* Rows of an item that takes a worker seconds, and of an item that takes a small part of
 * a second. */
enum { LONG_ROWS = 4096, SHORT_ROWS = 16 };

static void start(const char *flag, const char *value)
{
    daemon_start_with(&server, "--workers", "1", DAEMON_PATIENT, flag, value, NULL);
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

static void expect_overloaded(struct http_response *response)
{
    char value[32] = "";
    answer_expect_fault(response, 429, "overloaded", NULL);
    assert_non_null(http_response_header(response, "Retry-After", value, sizeof value));
    assert_int_equal(strspn(value, "0123456789"), strlen(value));
    assert_in_range(atoi(value), 1, 3600);
    http_response_free(response);
}

/* The seconds that this daemon predicts for one item of so many rows. It computes that item alone,
 * so the daemon does not take it for a batch. */
static double predicted_s(int64_t rows)
{
    static const char series[] = "attnd_cost_predicted_seconds_total";
    char *body = endless_text(rows, 0);
    const double before_s = metric(series);
    expect_status(PATH, body, 200);
    free(body);
    return metric(series) - before_s;
}

/* ------------------------------------------------------------------- items -- */

TEST(items_of_batches_count)
{
    struct endless holder;
    start("--queue-max", "8");
    expect_status(
        BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{},{},{},{}]}", 200);
    /* A batch with more items than places is taken while all places are free. */
    expect_status(BATCH,
                  "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{},{},{},{},{}]}",
                  200);

    endless_begin(&holder, &client, LONG_ROWS, 5);
    struct http_response response =
        send(BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{}]}", PATIENT);
    expect_overloaded(&response);
    expect_status(BATCH, JSON({"model":"sdpa","query":[[1]],"requests":[{},{},{}]}), 200);
    expect_status(PATH, GOOD, 200);
    endless_end(&holder);
    /* All places are free again. */
    expect_status(
        BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{},{},{},{}]}", 200);
    assert_true(metric("attnd_refused_total{reason=\"overloaded\"}") == 1);
    stop();
}

/* Predicted seconds of what is open, as the key "watcher" reads them. */
static double open_cost_s(void)
{
    const struct http_request request = { .path = "/metrics" };
    struct http_response response = key_expect(&client, "watcher", &request, 200);
    struct metrics_page page = { 0 };
    metrics_page_read(&page, response.body);
    const double seconds = metrics_page_value(&page, "attnd_queue_cost_seconds");
    metrics_page_free(&page);
    http_response_free(&response);
    return seconds;
}

/* Sends a batch of the key "greedy" that runs until its client leaves, and waits until it runs: the
 * cost of it is there once it is planned, and becomes less with each task. */
static void begin_greedy(struct http_raw *raw, int items)
{
    char head[256];
    char *body = endless_text(SHORT_ROWS, items);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             BATCH, key_secret("greedy"), strlen(body));
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send_text(raw, body));
    free(body);
    const double until = daemon_now() + 20 * daemon_slowness();
    double last_s = 0;
    for (int less = 0; less < 2; daemon_pause(0.005)) {
        const double cost_s = open_cost_s();
        less += last_s > 1 && cost_s < last_s;
        last_s = cost_s;
        if (daemon_now() > until)
            fail_msg("the batch does not run");
    }
}

/* A name's batch of more items than the queue has places leaves half of them to other names. */
TEST(a_batch_leaves_places)
{
    static const struct key_line keys[] = { { "greedy", "infer weight=0.01" },
                                            { "other", "infer" },
                                            { "watcher", "metrics" },
                                            { NULL, NULL } };
    static const struct http_request one = { .path = PATH, .body = GOOD };
    static const struct http_request four = {
        .path = BATCH, .body = "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{}]}"
    };
    static const struct http_request five = {
        .path = BATCH, .body = "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{},{},{}]}"
    };
    struct http_raw raw;
    key_file_write(fixture_path("keys"), keys);
    daemon_start_with(&server, "--workers", "1", DAEMON_PATIENT, "--queue-max", "8", "--keys",
                      fixture_path("keys"), NULL);
    http_client_init(&client, server.port);
    begin_greedy(&raw, 1000);
    for (int i = 0; i < 20; i++) {
        struct http_response response = key_expect(&client, "other", &one, 200);
        http_response_free(&response);
    }
    struct http_response response = key_expect(&client, "other", &four, 200);
    http_response_free(&response);
    key_expect_refused(&client, "other", &five, 429, "overloaded", NULL);
    key_expect_refused(&client, "greedy", &one, 429, "overloaded", NULL);
    assert_true(open_cost_s() > 0); /* the batch runs */
    http_raw_close(&raw);
    stop();
}

/* The same without keys, where a batch leaves a quarter. */
TEST(a_batch_leaves_places_without_keys)
{
    struct endless holder;
    start("--queue-max", "8");
    endless_begin(&holder, &client, SHORT_ROWS, 1000);
    expect_status(PATH, GOOD, 200);
    expect_status(BATCH, JSON({"model":"sdpa","query":[[1]],"requests":[{},{}]}), 200);
    struct http_response response =
        send(BATCH, "{\"model\":\"sdpa\",\"query\":[[1]],\"requests\":[{},{},{}]}", PATIENT);
    expect_overloaded(&response);
    endless_end(&holder);
    stop();
}

/* -------------------------------------------------------------------- cost -- */

/* Whether a worker ever read the request. */
static bool was_read(const struct http_response *response)
{
    char value[256] = "";
    assert_non_null(http_response_header(response, "Server-Timing", value, sizeof value));
    return strstr(value, "parse") != NULL;
}

/* The number of items in a batch for which this daemon predicts about so many seconds. */
static int items_for(double seconds)
{
    const double items = seconds / predicted_s(SHORT_ROWS);
    assert_true(items > 4 && items < 20000);
    return (int)items;
}

TEST(queue_full_of_cost)
{
    struct endless holder;
    start("--queue-cost-max", "60s");
    /* The queue takes one of these batches and not two, even if the prediction changes by a
     * quarter. */
    const int items = items_for(45);
    char *long_one = endless_text(SHORT_ROWS, items);
    assert_true(metric("attnd_queue_cost_seconds") == 0);
    endless_begin(&holder, &client, SHORT_ROWS, items);
    struct http_response response = send(BATCH, long_one, PATIENT);
    expect_overloaded(&response);
    /* The daemon refuses the next request of the same kind without reading it. */
    response = send(BATCH, long_one, PATIENT);
    assert_false(was_read(&response));
    expect_overloaded(&response);
    endless_end(&holder);
    answer_wait_for_metric(&client, "attnd_queue_cost_seconds", 0, 0);
    endless_begin(&holder, &client, SHORT_ROWS, items);
    endless_end(&holder);
    assert_true(metric("attnd_refused_total{reason=\"overloaded\"}") == 2);
    free(long_one);
    stop();
}

TEST(what_never_fits)
{
    char *slow = endless_text(LONG_ROWS, 0);
    start("--queue-cost-max", "5ms");
    struct http_response response = send(PATH, slow, PATIENT);
    free(slow);
    answer_expect_fault(&response, 413, "too_large", NULL);
    assert_non_null(strstr(response.body, "--queue-cost-max"));
    assert_null(http_response_header(&response, "Retry-After", (char[32]){ 0 }, 32));
    http_response_free(&response);

    /* Reading 60 MB of JSON alone takes longer than that, so the daemon refuses before the body
     * comes. */
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

/* When the queue is full, the daemon refuses a long body before it comes. */
TEST(full_before_the_body)
{
    static const char *const paths[] = { "/v1/attention", "/v1/softmax", "/v2/models/sdpa/infer" };
    struct endless holder;
    start("--queue-max", "1");
    endless_begin_any(&holder, &client);
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
    endless_end(&holder);
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

/* If a refused body has come, the daemon reads it, and the connection takes another request. The
 * bytes of the body are not taken for that request. The daemon does not wait for a body that has
 * not come, or that the client sends only when asked. */
TEST(connections_of_the_refused)
{
    enum { SHORT_BYTES = 1000, LONG_BYTES = 30000 };
    struct endless holder;
    struct http_raw raw;
    start("--queue-max", "1");
    endless_begin_any(&holder, &client);
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
    endless_end(&holder);
    expect_status(PATH, GOOD, 200);
    assert_true(metric("attnd_refused_total{reason=\"overloaded\"}") == 6);
    stop();
}

/* A connection that is refused again and again is answered ever later, all the same with its
 * refusal, and as before when there is room again. Others may leave while they wait, and the daemon
 * ends while one does. */
TEST(refused_again_and_again)
{
    enum { AT_ONCE = 16, MORE = 40, REST_MS = 10, BODY_BYTES = 30000 };
    struct endless holder;
    struct http_raw raw, leaving, left;
    start("--queue-max", "1");
    endless_begin_any(&holder, &client);
    http_raw_connect(&raw, server.port);
    http_raw_connect(&leaving, server.port);
    http_raw_connect(&left, server.port);
    const double began_s = daemon_now();
    for (int i = 0; i < AT_ONCE + MORE; i++) {
        start_with_body(&raw, "", BODY_BYTES, BODY_BYTES);
        start_with_body(&leaving, "", BODY_BYTES, BODY_BYTES);
        start_with_body(&left, "", BODY_BYTES, BODY_BYTES);
        expect_refused(&raw, true);
        expect_refused(&leaving, true);
        expect_refused(&left, true);
    }
    assert_true(daemon_now() - began_s > (MORE - 1) * REST_MS / 1e3);
    start_with_body(&leaving, "", BODY_BYTES, BODY_BYTES);
    http_raw_close(&leaving);
    endless_end(&holder);
    expect_status(PATH, GOOD, 200);
    endless_begin_any(&holder, &client);
    start_with_body(&raw, "", BODY_BYTES, BODY_BYTES);
    expect_refused(&raw, true);
    start_with_body(&left, "", BODY_BYTES, BODY_BYTES);
    endless_leave(&holder);
    stop();
    http_raw_close(&left);
    http_raw_close(&raw);
}

/* --------------------------------------------------------------- deadlines -- */

TEST(deadlines_that_cannot_be_met)
{
    struct endless holder;
    char header[2][48], holders[48];
    const char *const soon[] = { "Content-Type: application/json", header[0], NULL };
    const char *const later[] = { "Content-Type: application/json", header[1], NULL };
    start("--queue-max", "100000");
    const double cost_s = 40;
    const int items = items_for(cost_s);
    char *long_one = endless_text(SHORT_ROWS, items);
    char *twice_as_long = endless_text(SHORT_ROWS, 2 * items);
    snprintf(header[0], sizeof header[0], "X-Timeout-Ms: %.0f", 250 * cost_s);
    snprintf(header[1], sizeof header[1], "X-Timeout-Ms: %.0f", 1300 * cost_s);
    /* The request is alone in the daemon: the daemon plans it, and begins none of its tasks. */
    struct http_response response = send(BATCH, long_one, soon);
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    assert_true(metric("attnd_queue_jobs") == 0);
    assert_true(metric("attnd_refused_total{reason=\"deadline\"}") == 1);

    /* A request of twice the work would be in time if it were alone. The daemon refuses it, because
     * another request has an earlier deadline and so goes first. A short request, which goes
     * between the two, is served. */
    snprintf(holders, sizeof holders, "X-Timeout-Ms: %.0f\r\n", 1100 * cost_s);
    endless_begin_with(&holder, &client, holders, SHORT_ROWS, items);
    response = send(BATCH, twice_as_long, later);
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    assert_true(metric("attnd_refused_total{reason=\"deadline\"}") == 2);
    assert_true(metric("attnd_queue_jobs") == 1);
    response = send(PATH, GOOD, later);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    endless_end(&holder);
    free(long_one);
    free(twice_as_long);
    stop();
}

/* ----------------------------------------------------------- what is shown -- */

TEST(costs_are_shown)
{
    start("--queue-max", "9");
    assert_true(predicted_s(SHORT_ROWS) > 0);
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

static int teardown(void **state)
{
    daemon_kill(&server);
    return 0;
}

EACH_TEST(NULL, teardown);
ALL_TESTS(fixture_make_directory, fixture_clear);
