/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - GET /v1/requests/{id}: how far a call in flight has come, by its X-Request-Id,
 * for the key that made it. The tests look at the order of events and at no durations. */
#include "answer.h"
#include "base/clock.h"
#include "endless.h"
#include "fixture.h"
#include "key_file.h"
#include "request_text.h"
#include "test.h"

enum { ITEMS = 300 };                     /* of a batch of traces */
enum { ROWS = 32, ITEMS_ENDLESS = 2000 }; /* of a call without layers: minutes in short tasks */

static const struct key_line KEYS[] = {
    { "ann", "infer" }, { "bob", "infer" }, { "root", "infer admin" }, { NULL, NULL }
};

static int start(void **state)
{
    (void)state;
    directory = daemon_directory_create();
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--models", "examples/models", "--workers", "1", DAEMON_PATIENT);
    return 0;
}

static void restart_with_keys(void)
{
    fixture_stop(NULL);
    fixture_serve("--models", "examples/models", "--workers", "1", DAEMON_PATIENT, "--keys",
                  fixture_path("keys"));
}

/* What the daemon says of a request; NULL: 404. */
static cJSON *ask(const char *who, const char *id)
{
    char path[200];
    snprintf(path, sizeof path, "/v1/requests/%s", id);
    struct http_response response =
        key_send(&client, who, &(struct http_request){ .method = "GET", .path = path }, NULL);
    cJSON *answer = NULL;
    if (response.status == 404)
        answer_expect_fault(&response, 404, "not_found", "");
    else
        answer = answer_json(&response, 200);
    http_response_free(&response);
    return answer;
}

static void expect_none(const char *who, const char *id)
{
    assert_null(ask(who, id));
}

/* The same once the daemon has ended a call whose client left: it leaves the queue first. */
static void expect_forgotten(const char *id)
{
    const int64_t end_ns = clock_now_ns() + (int64_t)(30e9 * daemon_slowness());
    for (cJSON *answer; (answer = ask(NULL, id)); cJSON_Delete(answer))
        assert_true(clock_now_ns() < end_ns);
}

/* The same as ask() once the daemon has the request. */
static cJSON *wait_for(const char *who, const char *id)
{
    const int64_t end_ns = clock_now_ns() + (int64_t)(30e9 * daemon_slowness());
    cJSON *answer;
    while (!(answer = ask(who, id)))
        assert_true(clock_now_ns() < end_ns);
    return answer;
}

static void begin(struct http_raw *raw, const char *path, const char *headers, const char *body)
{
    char head[400];
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n"
             "Content-Type: application/json\r\n\r\n",
             path, headers, strlen(body));
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send(raw, body, strlen(body)));
}

/* A call that has no layers; nothing where a call has not come or has ended. */
TEST(without_layers)
{
    struct endless endless;
    expect_none(NULL, "first");
    endless_begin_with(&endless, &client, "X-Request-Id: first\r\n", ROWS, ITEMS_ENDLESS);
    cJSON *answer = ask(NULL, "first");
    answer_expect_members(answer, "request,queued,layers,of");
    answer_expect(answer, "request", JSON("first"), 0);
    answer_expect(answer, "queued", "false", 0);
    answer_expect(answer, "layers", "0", 0);
    answer_expect(answer, "of", "0", 0);
    cJSON_Delete(answer);
    endless_end(&endless);
    expect_forgotten("first");
}

/* A batch of traces of many tokens, whose client leaves when it has seen enough. */
static char *long_batch(void)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"requests\":[");
    for (int i = 0; i < ITEMS; i++) {
        request_text_add(&text,
                         "%s{\"model\":\"stories260K\",\"outputs\":[\"predictions\"],"
                         "\"tokens\":[1",
                         i > 0 ? "," : "");
        for (int token = 1; token < 400; token++)
            request_text_add(&text, ",%d", 3 + (i + token) % 500);
        request_text_add(&text, "]}");
    }
    request_text_add(&text, "]}");
    return text.data;
}

static int64_t number(const cJSON *answer, const char *name)
{
    const cJSON *member = cJSON_GetObjectItem(answer, name);
    assert_true(cJSON_IsNumber(member));
    return (int64_t)member->valuedouble;
}

/* Layers of all passes, one after the other. */
TEST(layers)
{
    struct http_raw raw;
    char *body = long_batch();
    int64_t last = 0, of = 0;
    begin(&raw, "/v1/trace/batch", "X-Request-Id: long\r\n", body);
    for (int grown = 0; grown < 4;) {
        cJSON *answer = wait_for(NULL, "long");
        const int64_t layers = number(answer, "layers");
        if (number(answer, "of") > 0) {
            assert_true(of == 0 || of == number(answer, "of"));
            of = number(answer, "of");
            assert_int_equal(of % 5, 0);
            answer_expect(answer, "queued", "false", 0);
        }
        assert_true(layers >= last && layers <= of);
        grown += layers > last;
        last = layers;
        cJSON_Delete(answer);
    }
    http_raw_close(&raw);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    expect_forgotten("long");
    free(body);
}

/* Of two calls of one id one is seen as long as either is there. */
TEST(same_id)
{
    struct endless first, second;
    endless_begin_with(&first, &client, "X-Request-Id: same\r\n", ROWS, ITEMS_ENDLESS);
    endless_begin_with(&second, &client, "X-Request-Id: same\r\n", ROWS, ITEMS_ENDLESS);
    cJSON_Delete(wait_for(NULL, "same"));
    endless_leave(&second);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 1, 1);
    cJSON_Delete(wait_for(NULL, "same"));
    endless_end(&first);
    expect_forgotten("same");
}

/* Another key sees nothing, as of an id that nobody gave; a key with the scope admin sees all. */
TEST(keys)
{
    struct http_raw raw;
    char headers[200], *body = long_batch();
    restart_with_keys();
    snprintf(headers, sizeof headers, "X-Request-Id: anns\r\nAuthorization: Bearer %s\r\n",
             key_secret("ann"));
    begin(&raw, "/v1/trace/batch", headers, body);
    cJSON_Delete(wait_for("ann", "anns"));
    expect_none("bob", "anns");
    cJSON_Delete(ask("root", "anns"));
    key_expect_refused(&client, NULL,
                       &(struct http_request){ .method = "GET", .path = "/v1/requests/anns" }, 401,
                       "key", NULL);
    cJSON_Delete(wait_for("ann", "anns")); /* it is there all the while */
    http_raw_close(&raw);
    free(body);
}

ALL_TESTS(start, fixture_clear);
