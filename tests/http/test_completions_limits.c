/* SPDX-License-Identifier: Apache-2.0 */
/* test_completions_limits.c - completions within what a key may do, and within a daemon's memory
 * and a request's time: what is refused or ends early leaves nothing behind. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

#define PATH "/v1/completions"

#define STORY(tokens)                                                                              \
    "{\"model\":\"stories260K\",\"prompt\":\"Once upon a time\",\"max_tokens\":" #tokens "}"

static const struct key_line KEYS[] = {
    { "all", "infer,metrics" },    { "other", "infer:demo" },
    { "owner", "models" },         { "small", "infer session-memory=64KiB" },
    { "slow", "infer cpu=0.001" }, { NULL, NULL }
};

static double metric(const char *series)
{
    struct metrics_page page = { 0 };
    struct http_response response =
        key_expect(&client, "all", &(struct http_request){ .path = "/metrics" }, 200);
    metrics_page_read(&page, response.body);
    const double value = metrics_page_value(&page, series);
    metrics_page_free(&page);
    http_response_free(&response);
    return value;
}

/* No session, page or request is left of what was refused. */
static void expect_nothing_left(void)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    while (metric("attnd_session_bytes") > 0 && daemon_now() < until)
        daemon_pause(0.005);
    assert_true(metric("attnd_session_bytes") == 0);
}

/* ------------------------------------------------------------------------- a key -- */

static void expect_listed(const char *key, int count)
{
    struct http_response response =
        key_expect(&client, key, &(struct http_request){ .path = "/v1/models" }, 200);
    cJSON *models = answer_json(&response, 200);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(models, "data");
    assert_true(cJSON_IsArray(data));
    assert_int_equal(cJSON_GetArraySize(data), count);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(models, "object")),
                        "list");
    cJSON_Delete(models);
    http_response_free(&response);
}

TEST(models_of_a_key)
{
    const struct http_request request = { .path = PATH, .body = STORY(2) };
    struct http_response response = key_expect(&client, "all", &request, 200);
    http_response_free(&response);
    key_expect_refused(&client, NULL, &request, 401, "key", NULL);
    key_expect_refused(&client, "other", &request, 403, "scope", "infer:stories260K");
    key_expect_refused(&client, "owner", &request, 403, "scope", "infer");
    expect_listed("all", 1);
    expect_listed("other", 0);
}

/* Its caches are the key's: what one that may hold little asks for is refused on its way. */
TEST(memory_of_a_key)
{
    const struct http_request large = { .path = PATH, .body = STORY(400) };
    struct http_response response = key_expect(&client, "all", &large, 200);
    http_response_free(&response);
    key_expect_refused(&client, "small", &large, 429, "quota", "session-memory");
    expect_nothing_left();
    key_expect_refused(&client, "small", &large, 429, "quota", "session-memory");
}

/* CPU time is what the tokens took; a key that has used its own has to wait. */
TEST(cpu_of_a_key)
{
    const struct http_request large = { .path = PATH, .body = STORY(300) };
    struct http_response response = key_send(&client, "slow", &large, NULL);
    for (int i = 0; i < 20 && response.status == 200; i++) {
        http_response_free(&response);
        response = key_send(&client, "slow", &large, NULL);
    }
    answer_expect_fault(&response, 429, "quota", NULL);
    http_response_free(&response);
    expect_nothing_left();
}

/* ------------------------------------------------------------------- time and memory -- */

/* A request that may take a millisecond is refused at once, or ends on its way. */
TEST(deadline)
{
    const struct http_request request = { .path = PATH, .body = STORY(1500) };
    struct http_response response = key_send(&client, "all", &request, "X-Timeout-Ms: 1");
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    expect_nothing_left();
    response =
        key_expect(&client, "all", &(struct http_request){ .path = PATH, .body = STORY(1) }, 200);
    http_response_free(&response);
}

TEST(budget_of_the_daemon)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--models", "examples/models", "--session-memory-max", "64KiB", NULL);
    http_client_init(&own, other.port);
    for (int i = 0; i < 2; i++) {
        answer_refused(&own, PATH, STORY(400), 413, "too_large", NULL); /* alone it is too large */
        answer_wait_for_metric(&own, "attnd_session_bytes", 0, 0);
        cJSON_Delete(answer_post(&own, PATH, STORY(0)));
    }
    http_client_free(&own);
    daemon_stop(&other);
}

/* What would fit without a session of somebody else's. */
TEST(budget_beside_a_session)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--models", "examples/models", "--session-memory-max", "640KiB",
                      NULL);
    http_client_init(&own, other.port);
    struct http_response response =
        http_client_post(&own, "/v1/sessions", JSON({"id":"held","model":"stories260K"}));
    http_response_free(&response);
    cJSON_Delete(answer_post(&own, "/v1/sessions/held/trace",
                             JSON({"text":"Once upon a time there was a girl","layers":[]})));
    answer_refused(&own, PATH, STORY(400), 503, "memory", NULL);
    response = http_client_send(
        &own, &(struct http_request){ .method = "DELETE", .path = "/v1/sessions/held" });
    http_response_free(&response);
    answer_wait_for_metric(&own, "attnd_session_bytes", 0, 0);
    cJSON_Delete(answer_post(&own, PATH, STORY(400)));
    http_client_free(&own);
    daemon_stop(&other);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--models", "examples/models", "--keys", fixture_path("keys"));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
