/* SPDX-License-Identifier: Apache-2.0 */
/* test_nv_metrics.c - --metrics-nv-aliases: each model's numbers under Triton's names. */
#include "answer.h"
#include "endless.h"
#include "fixture.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"demo","query":[[1,0,0]]});

static double value_of(const char *name, const char *model, const char *more)
{
    struct metrics_page page;
    char series[256];
    snprintf(series, sizeof series, "nv_inference_%s{model=\"%s\",version=\"1\"%s}", name, model,
             more);
    answer_metrics(&client, &page);
    if (!metrics_page_has(&page, series))
        fail_msg("no %s", series);
    const double value = metrics_page_value(&page, series);
    metrics_page_free(&page);
    return value;
}

static void expect(const char *name, const char *model, const char *more, double value)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    double found;
    while ((found = value_of(name, model, more)) != value) {
        if (daemon_now() > until)
            fail_msg("%s of %s%s is %g, not %g", name, model, more, found, value);
        daemon_pause(0.01);
    }
}

#define FAILURE  "request_failure"
#define REJECTED ",reason=\"REJECTED\""

static void expect_failures(const char *model, double rejected, double canceled, double backend,
                            double other)
{
    expect(FAILURE, model, REJECTED, rejected);
    expect(FAILURE, model, ",reason=\"CANCELED\"", canceled);
    expect(FAILURE, model, ",reason=\"BACKEND\"", backend);
    expect(FAILURE, model, ",reason=\"OTHER\"", other);
}

/* Every model has every series from the start. */
TEST(at_first)
{
    static const char *const names[] = {
        "request_success",
        "count",
        "exec_count",
        "request_duration_us",
        "queue_duration_us",
        "compute_input_duration_us",
        "compute_infer_duration_us",
        "compute_output_duration_us",
        "pending_request_count",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(value_of(names[i], "demo", "") == 0);
        assert_true(value_of(names[i], "sdpa", "") == 0);
    }
    expect_failures("demo", 0, 0, 0, 0);
    struct metrics_page page;
    answer_metrics(&client, &page);
    assert_string_equal(metrics_page_type(&page, "nv_inference_request_success"), "counter");
    assert_string_equal(metrics_page_type(&page, "nv_inference_request_failure"), "counter");
    assert_string_equal(metrics_page_type(&page, "nv_inference_pending_request_count"), "gauge");
    metrics_page_free(&page);
}

TEST(successes)
{
    for (int i = 0; i < 3; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    cJSON_Delete(answer_post(&client, "/v1/attention/batch",
                             "{\"model\":\"demo\",\"requests\":[{\"query\":[[1,0,0]]},"
                             "{\"query\":[[1,0]]},{\"query\":[[0,0,1]]}]}"));
    expect("request_success", "demo", "", 4);
    expect("count", "demo", "", 5);
    expect("exec_count", "demo", "", 4);
    expect("request_success", "sdpa", "", 0);
    expect("pending_request_count", "demo", "", 0);
    static const char *const parts[] = { "queue_duration_us", "compute_input_duration_us",
                                         "compute_infer_duration_us",
                                         "compute_output_duration_us" };
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += value_of(parts[i], "demo", "");
    const double whole = value_of("request_duration_us", "demo", "");
    assert_true(whole > 0 && whole >= sum && whole <= sum + 4); /* each is cut to microseconds */
    expect_failures("demo", 0, 0, 0, 1);
}

static void leave_after(const char *body, double seconds)
{
    char head[256];
    struct http_raw raw;
    const int size = snprintf(head, sizeof head,
                              "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: %zu\r\n\r\n",
                              strlen(body));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send(&raw, head, (size_t)size));
    assert_true(http_raw_send(&raw, body, strlen(body)));
    answer_wait_for_metric(&client, "attnd_queue_jobs", 1, 1);
    daemon_pause(seconds);
    http_raw_close(&raw);
}

TEST(failures)
{
    char *slow = endless_text(4096, 0);
    const double successes = value_of("request_success", "sdpa", "");
    answer_refused(&client, PATH, JSON({"model":"sdpa","query":[[1],[1,2]]}), 400, "ragged", NULL);
    expect_failures("sdpa", 0, 0, 0, 0); /* the daemon had not looked up its model yet */
    answer_refused(&client, PATH, "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[1,2]]}", 400,
                   "shape", NULL);
    expect_failures("sdpa", 0, 0, 0, 1);
    /* The client leaves in the middle of the computation. */
    leave_after(slow, 0.2 * daemon_slowness());
    expect_failures("sdpa", 0, 1, 0, 1);
    /* Before the body has been read no model has a deadline. */
    for (double ms = 500; ms < 64000 && value_of(FAILURE, "sdpa", REJECTED) == 0; ms *= 2) {
        char timeout[64];
        snprintf(timeout, sizeof timeout, "X-Timeout-Ms: %.0f", ms * daemon_slowness());
        const char *const headers[] = { timeout, "Content-Type: application/json", NULL };
        const struct http_request request = { .path = PATH, .body = slow, .headers = headers };
        answer_send_refused(&client, &request, 504, "deadline", NULL);
    }
    expect_failures("sdpa", 1, 1, 0, 1);
    expect("request_success", "sdpa", "", successes);
    expect("pending_request_count", "sdpa", "", 0);
    free(slow);
}

static int start(void **state)
{
    fixture_serve("--metrics-nv-aliases");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
