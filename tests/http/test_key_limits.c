/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_limits.c - what a key may use: CPU time, requests in flight, memory. Who uses too much
 * is refused with quota, before its body is sent; other keys notice nothing. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

#include <signal.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

/* ------------------------------------------------------------------- metrics -- */

static void read_metrics(struct metrics_page *page)
{
    const struct http_request request = { .path = "/metrics" };
    struct http_response response = key_expect(&client, "watcher", &request, 200);
    *page = (struct metrics_page){ 0 };
    metrics_page_read(page, response.body);
    http_response_free(&response);
}

static double metric(const char *series)
{
    struct metrics_page page;
    read_metrics(&page);
    const double value = metrics_page_value(&page, series);
    metrics_page_free(&page);
    return value;
}

static void wait_for_metric(const char *series, double value)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    while (metric(series) != value) {
        if (daemon_now() > until)
            fail_msg("%s is %g, expected %g", series, metric(series), value);
        daemon_pause(0.005);
    }
}

/* ------------------------------------------------------------------ CPU time -- */

enum { WIDTH = 16 };

/* A request for one output of so many rows that attend to each other. The caller frees it. */
static char *make_body(int rows, const char *output)
{
    char *body = malloc((size_t)rows * (WIDTH * 4 + 4) + 100), *end = body;
    end += sprintf(end, "{\"model\":\"sdpa\",\"outputs\":[\"%s\"],\"query\":[", output);
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < WIDTH; i++)
            end += sprintf(end, "%s%d", i > 0 ? "," : row > 0 ? ",[" : "[", (row + i) % 10);
        *end++ = ']';
    }
    strcpy(end, "]}");
    return body;
}

static char *long_body; /* some 10 ms of CPU time, without sanitizers */

static struct http_request long_request(void)
{
    return (struct http_request){ .path = PATH, .body = long_body };
}

static void write_keys(double cpu, const char *more)
{
    char slow[128];
    const struct key_line keys[] = {
        { "watcher", "metrics" },         { "slow", slow },     { "one", "infer in-flight=1" },
        { "small", "infer memory=1MiB" }, { "other", "infer" }, { NULL, NULL },
    };
    snprintf(slow, sizeof slow, "infer,models cpu=%.4f%s", cpu, more);
    key_file_write(fixture_path("keys"), keys);
}

static void read_again(void)
{
    char *before = daemon_log(&server);
    const size_t length = strlen(before);
    free(before);
    kill(server.pid, SIGHUP);
    const double until = daemon_now() + 10 * daemon_slowness();
    for (bool found = false; !found; daemon_pause(0.005)) {
        char *log = daemon_log(&server);
        found = strstr(log + length, "keys read again") != NULL;
        free(log);
        if (!found && daemon_now() > until)
            fail_msg("the keys were not read again");
    }
}

/* The answer must be 429 quota; returns its Retry-After. */
static int expect_quota(struct http_response *response, const char *says)
{
    char value[32];
    answer_expect_fault(response, 429, "quota", NULL);
    if (!strstr(response->body, says))
        fail_msg("no \"%s\" in %s", says, response->body);
    assert_non_null(http_response_header(response, "Retry-After", value, sizeof value));
    http_response_free(response);
    return atoi(value);
}

static int refused(const char *key, const struct http_request *request, const char *says)
{
    struct http_response response = key_send(&client, key, request, NULL);
    return expect_quota(&response, says);
}

static void expect_served(const char *key, const struct http_request *request)
{
    struct http_response response = key_expect(&client, key, request, 200);
    http_response_free(&response);
}

static double cpu_of(const char *key)
{
    char series[100];
    snprintf(series, sizeof series, "attnd_key_cpu_seconds_total{key=\"%s\"}", key);
    return metric(series);
}

/* Sends the head of a request with a body that never comes. The answer comes all the same. */
static struct http_response send_head(const char *method, const char *path, const char *key)
{
    struct http_raw raw;
    char head[400];
    http_raw_connect(&raw, server.port);
    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n",
             method, path, key_secret(key));
    assert_true(http_raw_send_text(&raw, head));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    http_raw_close(&raw);
    return response;
}

TEST(cpu_time)
{
    const struct http_request request = long_request();
    const double before = cpu_of("other");
    expect_served("other", &request);
    const double used = cpu_of("other") - before;
    assert_true(used > 0.001);
    /* So the debt of one such request is about 3 s, and longer where the requests that are sent
     * meanwhile take longer. */
    write_keys(used / (daemon_slowness() > 2 ? 1.5 * daemon_slowness() : 3), " burst=1ms");
    read_again();

    expect_served("slow", &request);
    const int wait_s = refused("slow", &request, "has used up its CPU time (cpu); try again in ");
    assert_in_range(wait_s, 1, 20);
    expect_served("other", &request);
    struct http_response response = send_head("POST", PATH, "slow");
    assert_in_range(expect_quota(&response, "CPU time"), 1, wait_s);
    response = send_head("PUT", "/v1/models/m", "slow");
    assert_in_range(expect_quota(&response, "CPU time"), 1, wait_s);
    expect_served("slow", &(struct http_request){ .path = "/v1/models" }); /* costs nothing */

    read_again(); /* the debt stays */
    const int left_s = refused("slow", &request, "try again in ");
    assert_in_range(left_s, 1, wait_s);
    daemon_pause(left_s);
    expect_served("slow", &request);
    wait_for_metric("attnd_key_requests_total{key=\"slow\",outcome=\"ok\"}", 3);
    wait_for_metric("attnd_key_requests_total{key=\"slow\",outcome=\"refused\"}", 4);
    wait_for_metric("attnd_key_refused_total{key=\"slow\",reason=\"quota\"}", 4);
    assert_true(cpu_of("slow") > used / 2);
}

/* Who fails pays as well: the body is read before it is found to be wrong. */
TEST(failed_calls_pay)
{
    char *body = strdup(long_body);
    body[strlen(body) - 1] = ','; /* no end */
    const double before = cpu_of("other");
    const struct http_request request = { .path = PATH, .body = body };
    key_expect_refused(&client, "other", &request, 400, "json", NULL);
    assert_true(cpu_of("other") > before);
    wait_for_metric("attnd_key_requests_total{key=\"other\",outcome=\"failed\"}", 1);
    free(body);
}

/* What a number of such calls, which fail, are charged. */
static double charged_for(const char *body)
{
    enum { CALLS = 20 };
    const double before = cpu_of("other");
    const struct http_request request = { .path = PATH, .body = body };
    for (int i = 0; i < CALLS; i++) {
        struct http_response response = key_send(&client, "other", &request, NULL);
        assert_int_equal(response.status, 400);
        http_response_free(&response);
    }
    return cpu_of("other") - before;
}

/* Two bodies of one size, and so of one prediction: the one with many names takes many times as
 * long to read as the one with a long string, and pays for it. */
TEST(short_bodies_pay_what_they_use)
{
    enum { BYTES = 14000 };
    char names[BYTES + 1], string[BYTES + 1];
    size_t used = (size_t)sprintf(names, "{");
    for (int i = 0; used + 20 < BYTES; i++)
        used += (size_t)sprintf(names + used, "\"k%d\":0,", i);
    memset(names + used, ' ', BYTES - used);
    strcpy(names + BYTES - 9, "\"last\":0}");
    memset(string, 'a', BYTES);
    memcpy(string, "{\"k\":\"", 6);
    strcpy(string + BYTES - 2, "\"}");
    charged_for(string); /* so that both find what the other finds */
    const double of_string = charged_for(string), of_names = charged_for(names);
    if (!(of_names > 3 * of_string))
        fail_msg("%g s for many names, %g s for a string of the same size", of_names, of_string);
}

/* Every kind of call is charged. */
TEST(kinds_of_calls)
{
    static const struct http_request requests[] = {
        { .path = "/v1/softmax", .body = "{\"input\":[1,2,3]}" },
        { .path = "/v1/attention/batch",
          .body = "{\"requests\":[{\"model\":\"sdpa\",\"query\":[[1]]}]}" },
        { .path = "/v1/attention/merge",
          .body = "{\"model\":\"sdpa\",\"parts\":[{\"context\":[[[1]]],\"lse\":[[0]]}]}" },
        { .path = "/v1/attention/gradients",
          .body = "{\"model\":\"sdpa\",\"query\":[[1]],\"context_gradient\":[[1]]}" },
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const double before = cpu_of("other");
        expect_served("other", &requests[i]);
        if (!(cpu_of("other") > before))
            fail_msg("%s is not charged", requests[i].path);
    }
}

/* ----------------------------------------------------------------- in flight -- */

TEST(in_flight)
{
    const struct http_request request = { .path = PATH, .body = GOOD };
    const char *active = "attnd_key_requests_active{key=\"one\"}";
    struct http_raw held;
    char head[400];
    expect_served("one", &request);
    wait_for_metric(active, 0);
    http_raw_connect(&held, server.port);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n"
             "Content-Length: 1000\r\n\r\n{",
             PATH, key_secret("one"));
    assert_true(http_raw_send_text(&held, head));
    wait_for_metric(active, 1);
    assert_int_equal(refused("one", &request, "has 1 requests in flight, as many as it may"), 1);
    assert_int_equal(refused("one", &(struct http_request){ .path = "/v1/models" }, "in-flight"),
                     1);
    expect_served("other", &request);
    http_raw_close(&held);
    wait_for_metric(active, 0);
    expect_served("one", &request);
    wait_for_metric("attnd_key_requests_total{key=\"one\",outcome=\"cancelled\"}", 1);
}

/* -------------------------------------------------------------------- memory -- */

TEST(memory)
{
    static const char held[] = "attnd_key_memory_bytes{key=\"small\"}";
    char *weights = make_body(600, "weights"); /* 360 000 floats are more than 1 MiB */
    const struct http_request large = { .path = PATH, .body = weights };
    const struct http_request small = { .path = PATH, .body = GOOD };
    assert_int_equal(refused("small", &large, "may hold 1048576 bytes of memory together"), 1);
    struct http_response response = send_head("POST", PATH, "small");
    assert_int_equal(expect_quota(&response, "may hold 1048576 bytes"), 1);
    expect_served("other", &large);
    expect_served("small", &small);
    wait_for_metric(held, 0);
    wait_for_metric("attnd_key_refused_total{key=\"small\",reason=\"quota\"}", 2);
    wait_for_metric("attnd_memory_refused_total", 0); /* which is of the daemon's budget */
    free(weights);
}

/* ------------------------------------------------------------------- counters -- */

TEST(who_is_counted)
{
    const struct http_request request = { .path = PATH, .body = GOOD };
    const double unknown = metric("attnd_keys_unknown_total");
    key_expect_refused(&client, NULL, &request, 401, "key", NULL);
    key_expect_refused(&client, "nobody", &request, 401, "key", NULL);
    wait_for_metric("attnd_keys_unknown_total", unknown + 2);
    key_expect_refused(&client, "watcher", &request, 403, "scope", NULL);
    wait_for_metric("attnd_key_refused_total{key=\"watcher\",reason=\"scope\"}", 1);
    struct metrics_page page;
    read_metrics(&page);
    for (int i = 0; i < page.series_count; i++)
        assert_null(strstr(page.series[i].name, "nobody"));
    metrics_page_free(&page);
}

static int start(void **state)
{
    fixture_make_directory(state);
    long_body = make_body(4000, "context");
    write_keys(1, "");
    fixture_serve("--models", directory, "--model-control", "explicit", "--workers", "2", "--keys",
                  fixture_path("keys"));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
