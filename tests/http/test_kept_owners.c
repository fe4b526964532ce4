/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_owners.c - who may keep traces, and how many: a trace is its maker's alone, and all
 * together have a budget of memory. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"
#include "word_model.h"

enum { WORDS = 90 };

static bool has_metric(struct http_client *own, const char *line)
{
    struct http_response response = http_client_get(own, "/metrics");
    const bool is_there = strstr(response.body, line) != NULL;
    http_response_free(&response);
    return is_there;
}

/* The daemon frees what has ended without being asked. */
static void wait_until_freed(struct http_client *own)
{
    for (int i = 0; i < 400 * daemon_slowness(); i++) {
        if (has_metric(own, "attnd_traces_kept 0\n") && has_metric(own, "attnd_trace_bytes 0\n"))
            return;
        daemon_pause(0.05);
    }
    fail_msg("the trace is still kept");
}

/* A daemon with room for one trace: a second one is refused before it is computed, until the first
 * has ended. */
TEST(budget)
{
    struct daemon other;
    struct http_client own;
    char time[64];
    snprintf(time, sizeof time, ",\"keep\":\"%.0fms\"", 1000 * daemon_slowness());
    char *body = word_model_request(WORDS, time);
    daemon_start_with(&other, "--models", directory, "--trace-memory-max", "48KiB", NULL);
    http_client_init(&own, other.port);
    struct http_response response = http_client_post(&own, "/v1/trace", body);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    assert_true(has_metric(&own, "attnd_traces_kept 1\n"));
    response = http_client_post(&own, "/v1/trace", body);
    if (response.status != 503 || !strstr(response.body, "--trace-memory-max"))
        fail_msg("%ld %s", response.status, response.body);
    http_response_free(&response);
    wait_until_freed(&own);
    response = http_client_post(&own, "/v1/trace", body);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_start_with(&other, "--models", directory, "--trace-memory-max", "1KiB", NULL);
    http_client_init(&own, other.port);
    response = http_client_post(&own, "/v1/trace", body);
    assert_int_equal(response.status, 413);
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
    free(body);
}

/* A trace of nothing takes memory too. */
TEST(empty_traces_count)
{
    static const char BODY[] = JSON({"model":"words","tokens":[],"layers":[],"keep":"1h"});
    struct daemon other;
    struct http_client own;
    int kept = 0;
    daemon_start_with(&other, "--models", directory, "--trace-memory-max", "48KiB", NULL);
    http_client_init(&own, other.port);
    struct http_response response = http_client_post(&own, "/v1/trace", BODY);
    for (; response.status == 200 && kept < 100; kept++) {
        http_response_free(&response);
        response = http_client_post(&own, "/v1/trace", BODY);
    }
    assert_int_equal(response.status, 503);
    assert_true(kept > 0);
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
}

static void expect_listed(struct http_client *own, const char *name, const char *says)
{
    struct http_response response =
        key_expect(own, name, &(struct http_request){ .path = "/v1/traces" }, 200);
    assert_non_null(strstr(response.body, says));
    http_response_free(&response);
}

/* A trace is for the name that made it, and for models that the key may call; an admin may look at
 * it and end it. */
TEST(maker_alone)
{
    static const struct key_line KEYS[] = { { "anna", "infer" },
                                            { "bert", "infer" },
                                            { "other", "infer:demo" },
                                            { "boss", "admin" },
                                            { NULL, NULL } };
    struct daemon other;
    struct http_client own;
    char *body = word_model_request(WORDS, ",\"keep\":\"1m\""), path[128], renewed[160];
    const struct http_request renew = { .method = "PATCH", .path = renewed };
    const struct http_request keep_it = { .method = "POST", .path = "/v1/trace", .body = body };
    const struct http_request look = { .method = "GET", .path = path };
    const struct http_request end = { .method = "DELETE", .path = path };
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--models", directory, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    struct http_response response = key_expect(&own, "anna", &keep_it, 200);
    cJSON *answer = cJSON_Parse(response.body);
    snprintf(path, sizeof path, "/v1/traces/%s", cJSON_GetObjectItem(answer, "trace")->valuestring);
    snprintf(renewed, sizeof renewed, "%s?keep=1m", path);
    cJSON_Delete(answer);
    http_response_free(&response);
    response = key_expect(&own, "anna", &look, 200);
    http_response_free(&response);
    key_expect_refused(&own, "bert", &look, 404, "not_found", "no trace");
    key_expect_refused(&own, "bert", &end, 404, "not_found", "no trace");
    key_expect_refused(&own, "bert", &renew, 404, "not_found", "no trace");
    key_expect_refused(&own, "other", &look, 404, "not_found", "no trace");
    key_expect_refused(&own, NULL, &look, 401, "key", NULL);
    expect_listed(&own, "anna", JSON("total":1));
    expect_listed(&own, "bert", JSON({"traces":[],"total":0}));
    expect_listed(&own, "boss", JSON("owner":"anna"));
    response = key_expect(&own, "boss", &look, 200);
    http_response_free(&response);
    response = key_expect(&own, "boss", &end, 204);
    http_response_free(&response);
    key_expect_refused(&own, "boss", &look, 410, "gone", "has ended");
    key_expect_refused(&own, "anna", &look, 410, "gone", "has ended");
    key_expect_refused(&own, "bert", &look, 404, "not_found", "no trace");
    http_client_free(&own);
    daemon_stop(&other);
    free(body);
}

/* A name keeps as many traces, and as many bytes of them, as it may; others go on. */
TEST(limits_of_a_name)
{
    static const struct key_line KEYS[] = { { "anna", "infer traces=2" },
                                            { "bert", "infer trace-memory=48KiB" },
                                            { "dora", "infer trace-memory=1KiB" },
                                            { "carl", "infer" },
                                            { NULL, NULL } };
    struct daemon other;
    struct http_client own;
    char *body = word_model_request(WORDS, ",\"keep\":\"1h\""), path[128];
    const struct http_request keep_it = { .method = "POST", .path = "/v1/trace", .body = body };
    const struct http_request end = { .method = "DELETE", .path = path };
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--models", directory, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    for (int i = 0; i < 2; i++) {
        struct http_response response = key_expect(&own, "anna", &keep_it, 200);
        cJSON *answer = cJSON_Parse(response.body);
        snprintf(path, sizeof path, "/v1/traces/%s",
                 cJSON_GetObjectItem(answer, "trace")->valuestring);
        cJSON_Delete(answer);
        http_response_free(&response);
    }
    key_expect_refused(&own, "anna", &keep_it, 429, "quota", "keeps 2 traces, as many as it may");
    struct http_response response = key_expect(&own, "anna", &end, 204);
    http_response_free(&response);
    response = key_expect(&own, "anna", &keep_it, 200);
    http_response_free(&response);
    key_expect_refused(&own, "anna", &keep_it, 429, "quota", "(traces)");
    response = key_expect(&own, "bert", &keep_it, 200);
    http_response_free(&response);
    key_expect_refused(&own, "bert", &keep_it, 429, "quota", "the 49152 that they may");
    key_expect_refused(&own, "dora", &keep_it, 413, "too_large", "may hold 1024 (trace-memory)");
    for (int i = 0; i < 3; i++) {
        response = key_expect(&own, "carl", &keep_it, 200);
        http_response_free(&response);
    }
    http_client_free(&own);
    daemon_stop(&other);
    free(body);
}

static int start(void **state)
{
    fixture_make_directory(state);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    return 0;
}

ALL_TESTS(start, fixture_clear);
