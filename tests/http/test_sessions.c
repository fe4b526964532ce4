/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions.c - sessions as they are made, named, listed and ended: by their owner, by their
 * time, by a lack of memory. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

/* ------------------------------------------------------------------------- bodies -- */

/* -------------------------------------------------------------------------- lists -- */

static void expect_listed(struct http_client *own, const char *path, int count, int total,
                          const char *first)
{
    cJSON *answer = answer_get(own, path);
    const cJSON *sessions = cJSON_GetObjectItem(answer, "sessions");
    assert_int_equal(cJSON_GetArraySize(sessions), count);
    assert_int_equal(cJSON_GetObjectItem(answer, "total")->valueint, total);
    if (count > 0)
        assert_string_equal(cJSON_GetObjectItem(sessions->child, "session")->valuestring, first);
    cJSON_Delete(answer);
}

TEST(list)
{
    char body[64], id[16];
    expect_listed(&client, "/v1/sessions", 0, 0, NULL);
    for (int i = 0; i < 5; i++) {
        snprintf(body, sizeof body, JSON({"model":"sdpa","id":"l%d"}), i);
        session_make(&client, body);
    }
    expect_listed(&client, "/v1/sessions", 5, 5, "l0");
    expect_listed(&client, "/v1/sessions?offset=2&limit=2", 2, 5, "l2");
    expect_listed(&client, "/v1/sessions?offset=9", 0, 5, NULL);
    expect_listed(&client, "/v1/sessions?limit=0", 0, 5, NULL);
    const struct http_request bad[] = { { .path = "/v1/sessions?limit=10001" },
                                        { .path = "/v1/sessions?offset=x" },
                                        { .path = "/v1/sessions?page=1" },
                                        { .path = "/v1/sessions/l0?limit=1" } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        answer_send_refused(&client, &bad[i], 400, i < 2 ? "option" : "field", NULL);
    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "l%d", i);
        session_delete(&client, id, 204);
    }
}

TEST(made)
{
    cJSON *answer = NULL;
    struct http_response response = http_client_post(
        &client, "/v1/sessions",
        "{\"model\":\"stories260K\",\"layers\":[4,1],\"dtype\":\"bf16\",\"kv_len_max\":7,"
        "\"ttl\":\"90s\",\"evictable\":true,\"id\":\"A.z_0-9\"}");
    answer = answer_json(&response, 201);
    http_response_free(&response);
    answer_expect(answer, "session", "\"A.z_0-9\"", 0);
    answer_expect(answer, "model", "\"stories260K\"", 0);
    answer_expect(answer, "layers", "[1,4]", 0);
    answer_expect(answer, "layer_kv_len", "[0,0]", 0);
    answer_expect(answer, "dtype", "\"bf16\"", 0);
    answer_expect(answer, "kv_len_max", "7", 0);
    answer_expect(answer, "ttl_ms", "90000", 0);
    answer_expect(answer, "evictable", "true", 0);
    cJSON_Delete(answer);
    session_delete(&client, "A.z_0-9", 204);
    /* Without an id, one of 32 hexadecimal digits. */
    response = http_client_post(&client, "/v1/sessions", JSON({"model":"sdpa","ttl":null}));
    answer = answer_json(&response, 201);
    http_response_free(&response);
    const char *id = cJSON_GetObjectItem(answer, "session")->valuestring;
    assert_int_equal(strlen(id), 32);
    assert_int_equal(strspn(id, "0123456789abcdef"), 32);
    answer_expect(answer, "ttl_ms", "600000", 0);
    session_delete(&client, id, 204);
    cJSON_Delete(answer);
}

TEST(bad_bodies)
{
    static const struct {
        const char *fields, *code, *says;
    } BAD[] = {
        { "\"dtype\":\"f33\"", "option", "expected f32, f16, bf16 or int8" },
        { "\"window\":0", "option", "window is 0" },
        { "\"first_keys\":4", "option", "without a window" },
        { "\"ttl\":\"0s\"", "option", "at most 24h" },
        { "\"ttl\":\"25h\"", "option", "at most 24h" },
        { "\"ttl\":10", "type", "a time such as" },
        { "\"layers\":[]", "option", "layers is empty" },
        { "\"layers\":[0,0]", "duplicate", "layers has 0 twice" },
        { "\"layers\":[[0]]", "option", "layer numbers" },
        { "\"layers\":[-1]", "option", "expected an integer" },
        { "\"kv_len_max\":0", "length", "1 or more" },
        { "\"evictable\":1", "type", "true or false" },
        { "\"id\":\"\"", "option", "1 to 64" },
        { "\"id\":\"a/b\"", "option", "1 to 64" },
        { "\"id\":\"..\"", "option", "1 to 64" },
        { "\"id\":\"attention\"", "option", "attention" },
        { "\"id\":\"\\u00e9\"", "option", "1 to 64" },
        { "\"id\":7", "type", "expected a string" },
        { "\"kvlenmax\":1", "field", "did you mean 'kv_len_max'" },
        { "\"select\":{}", "field", "there is no field 'select'" },
    };
    char body[200];
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        snprintf(body, sizeof body, JSON({"model":"sdpa",%s}), BAD[i].fields);
        struct http_response response = http_client_post(&client, "/v1/sessions", body);
        if (!strstr(response.body, BAD[i].says))
            fail_msg("%s: %s", body, response.body);
        answer_expect_fault(&response, 400, BAD[i].code, NULL);
        http_response_free(&response);
    }
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%065d"}), 0);
    answer_refused(&client, "/v1/sessions", body, 400, "option", "/id");
    answer_refused(&client, "/v1/sessions", JSON({"model":"none"}), 404, "not_found", "/model");
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"layers\":[1]}", 404, "not_found",
                   "/layers");
    answer_refused(&client, "/v1/sessions", "[]", 400, "type", "");
}

TEST(bad_calls)
{
    session_make(&client, JSON({"model":"sdpa","id":"bad","kv_len_max":3}));
    cJSON_Delete(session_post(&client, "bad", "attention",
                              "{\"query\":[[1,2]],\"key\":[[1,2],[3,4]]}", 200));
    static const struct {
        const char *body;
        long status;
        const char *code, *says;
    } BAD[] = {
        { "{}", 400, "field", "query is missing; expected input, query, or key" },
        { "{\"value\":[[1,2]]}", 400, "field", "query is missing" },
        { "{\"query\":[[1,2]],\"value\":[[1,2]]}", 400, "field", "key is missing" },
        { "{\"query\":[[1,2]],\"input\":[[1,2]]}", 400, "field", "input and query both came" },
        { "{\"query\":[[1,2]],\"append\":true}", 400, "option", "neither input nor key came" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]]}", 400, "field", "model is not a field here" },
        { "{\"session\":\"bad\",\"query\":[[1,2]]}", 400, "field", "no field 'session'" },
        { "{\"query\":[[1,2]],\"at\":-1}", 400, "length", "0 or more" },
        { "{\"query\":[[1,2,3]],\"key\":[[1,2,3]]}", 400, "shape", "those of session 'bad'" },
        { "{\"query\":[[1,2]],\"key\":[[1,2],[3,4]]}", 409, "conflict", "the kv_len_max 3" },
        { "{\"query\":[[1,2]],\"key\":[[1,2]],\"value\":[[1,2],[3,4]]}", 400, "shape",
          "value has 2" },
        { "{\"query\":[[1,2]],\"kv_len\":9}", 400, "length", "there are 2 keys" },
        { "{\"query\":[[1,2]],\"layer\":1}", 404, "not_found", "layer 1 is not one of" },
        { "{\"steps\":7}", 400, "type", "steps is" },
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        session_refused(&client, "bad", "attention", BAD[i].body, BAD[i].status, BAD[i].code,
                        BAD[i].says);
    answer_refused(&client, "/v1/sessions/bad/attention", "{\"key\":[[1,2],[3,4]]}", 409,
                   "conflict", "/key");
    cJSON_Delete(session_post(&client, "bad", "attention",
                              "{\"query\":[[1,2]],\"key\":[[1,2],[3,4]],\"append\":false}", 200));
    session_refused(&client, "bad", "truncate", JSON({"kv_len":3}), 409, "conflict", "has 2 keys");
    session_refused(&client, "bad", "truncate", "{}", 400, "field", "kv_len is missing");
    assert_int_equal(session_number(&client, "bad", "kv_len"), 2);
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"id\":\"bad\"}", 409, "conflict",
                   "/id");
    session_delete(&client, "bad", 204);
}

/* What is empty again may have another shape. */
TEST(shape_anew)
{
    session_make(&client, JSON({"model":"sdpa","id":"anew"}));
    cJSON_Delete(session_post(&client, "anew", "attention",
                              "{\"query\":[[1,2]],\"key\":[[1,2],[3,4]]}", 200));
    cJSON_Delete(session_post(&client, "anew", "truncate", JSON({"kv_len":0}), 200));
    cJSON_Delete(
        session_post(&client, "anew", "attention", "{\"query\":[[1,2,3]],\"key\":[[1,2,3]]}", 200));
    cJSON_Delete(session_post(&client, "anew", "attention", JSON({"query":[[1,2,3]]}), 200));
    session_delete(&client, "anew", 204);
}

/* ---------------------------------------------------------------------------- time -- */

TEST(expires)
{
    char body[96];
    const double ttl = 0.4 * daemon_slowness();
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"soon","ttl":"%.0fms"}), ttl * 1000);
    session_make(&client, body);
    for (int i = 0; i < 4; i++) { /* used, it stays */
        daemon_pause(ttl / 2);
        cJSON_Delete(
            session_post(&client, "soon", "attention", "{\"query\":[[1]],\"key\":[[1]]}", 200));
    }
    session_wait_until_empty(&client);
    session_refused(&client, "soon", "attention", "{\"query\":[[1]]}", 410, "gone",
                    "has expired: nobody used it for its ttl");
    session_get(&client, "soon", 410);
    session_delete(&client, "soon", 410);
    session_make(&client, JSON({"model":"sdpa","id":"soon"}));
    session_get(&client, "soon", 200);
    session_delete(&client, "soon", 204);
    session_refused(&client, "soon", "attention", "{\"query\":[[1]]}", 410, "gone", "was deleted");
    session_get(&client, "soon", 410);
    session_get(&client, "never", 404);
}

/* --------------------------------------------------------------------------- memory -- */

/* option, if it is not "", ends with a comma. */
static void append_with(struct http_client *own, const char *id, const char *option, int rows,
                        long status)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{");
    request_text_add(&text, option);
    request_text_add(&text, JSON("outputs":["context"],"query":));
    request_text_digits(&text, 1, 64);
    request_text_add(&text, ",\"key\":");
    request_text_digits(&text, rows, 64);
    request_text_add(&text, "}");
    if (status == 503)
        session_refused(own, id, "attention", text.data, 503, "memory", "--session-memory-max");
    else if (status == 413)
        session_refused(own, id, "attention", text.data, 413, "too_large", "never have room");
    else
        cJSON_Delete(session_post(own, id, "attention", text.data, status));
    free(text.data);
}

static void append_rows(struct http_client *own, const char *id, int rows, long status)
{
    append_with(own, id, "", rows, status);
}

/* Room for 256 rows of 512 bytes, beside the sessions themselves: what does not fit is refused, and
 * nobody is evicted in vain. */
TEST(budget)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--session-memory-max", "132KiB", NULL);
    http_client_init(&own, other.port);
    session_make(&own, JSON({"model":"sdpa","id":"old","evictable":true}));
    session_make(&own, JSON({"model":"sdpa","id":"new","evictable":true}));
    session_make(&own, JSON({"model":"sdpa","id":"firm"}));
    const double empty = answer_metric(&own, "attnd_session_bytes");
    assert_in_range((int)empty, 3 * 256, 3 * 1024);
    append_rows(&own, "new", 64, 200);
    append_rows(&own, "old", 64, 200);
    append_rows(&own, "firm", 128, 200);
    assert_true(answer_metric(&own, "attnd_session_bytes") == empty + 131072);
    append_rows(&own, "new", 65, 503); /* old would not make room enough */
    append_rows(&own, "new", 256, 503);
    append_rows(&own, "new", 265, 413); /* nor would all others */
    session_get(&own, "old", 200);
    http_client_free(&own);
    daemon_stop(&other);
}

/* Makes sessions without rows until one is refused; returns how many there are. */
static int make_until_refused(struct http_client *own, const char *reason)
{
    int count = 0;
    for (; count < 1000; count++) {
        const struct http_request request = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"ttl\":\"24h\"}" };
        struct http_response response = http_client_send(own, &request);
        const bool is_made = response.status == 201;
        if (!is_made) {
            answer_expect_fault(&response, 503, "memory", "");
            assert_non_null(strstr(response.body, reason));
        }
        http_response_free(&response);
        if (!is_made)
            break;
    }
    return count;
}

static void change(struct http_client *own, const char *path, const char *body, long status,
                   const char *member, const char *expected)
{
    const struct http_request request = { .method = "PATCH", .path = path, .body = body };
    struct http_response response = http_client_send(own, &request);
    cJSON *answer = answer_json(&response, status);
    http_response_free(&response);
    answer_expect(answer, member, expected, 0);
    cJSON_Delete(answer);
}

/* Only what was made evictable makes room, the least recently used first. */
TEST(eviction)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--session-memory-max", "132KiB", NULL);
    http_client_init(&own, other.port);
    session_make(&own, JSON({"model":"sdpa","id":"firm"}));
    session_make(&own, JSON({"model":"sdpa","id":"a","evictable":true}));
    session_make(&own, JSON({"model":"sdpa","id":"b","evictable":true}));
    append_rows(&own, "firm", 64, 200);
    append_rows(&own, "b", 64, 200);
    append_rows(&own, "a", 128, 200);
    cJSON_Delete(session_post(&own, "b", "attention", JSON({"q_heads":64,"query":1}), 400));
    session_make(&own, JSON({"model":"sdpa","id":"c"}));
    append_rows(&own, "c", 64, 200); /* a was used before b */
    session_refused(&own, "a", "attention", JSON({"query":[[1]]}), 410, "gone", "was evicted");
    session_get(&own, "b", 200);
    session_get(&own, "firm", 200);
    append_rows(&own, "c", 200, 503);
    append_rows(&own, "firm", 200, 503);
    append_rows(&own, "c", 300, 413);
    session_get(&own, "b", 200);
    assert_int_equal(session_number(&own, "c", "kv_len"), 64);
    assert_int_equal(session_number(&own, "firm", "kv_len"), 64);
    session_delete(&own, "b", 204);
    session_delete(&own, "c", 204);
    session_delete(&own, "firm", 204);
    session_wait_until_empty(&own);
    http_client_free(&own);
    daemon_stop(&other);
}

/* What appends nothing ends no session: a retry, rows that are dropped, a look. */
TEST(no_eviction)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--session-memory-max", "68KiB", NULL);
    http_client_init(&own, other.port);
    session_make(&own, JSON({"model":"sdpa","id":"firm"}));
    session_make(&own, JSON({"model":"sdpa","id":"old","evictable":true}));
    session_make(&own, JSON({"model":"sdpa","id":"empty"}));
    append_rows(&own, "firm", 64, 200);
    append_rows(&own, "old", 64, 200);
    append_with(&own, "firm", JSON("append":false,), 1, 503);
    append_with(&own, "firm", JSON("at":63,), 1, 503);
    append_rows(&own, "empty", 0, 503);
    assert_int_equal(session_number(&own, "old", "kv_len"), 64);
    http_client_free(&own);
    daemon_stop(&other);
}

/* A batch of which one session finds no room: that one is refused, the others go on. */
TEST(budget_of_one)
{
    struct daemon other;
    struct http_client own;
    struct request_text text = { .data = NULL };
    daemon_start_with(&other, "--session-memory-max", "132KiB", NULL);
    http_client_init(&own, other.port);
    session_make(&own, JSON({"model":"sdpa","id":"small"}));
    session_make(&own, JSON({"model":"sdpa","id":"large"}));
    session_make(&own, JSON({"model":"sdpa","id":"other"}));
    append_rows(&own, "other", 64, 200);
    request_text_add(&text,
                     "{\"outputs\":[\"lse\"],\"requests\":[{\"session\":\"large\",\"query\":");
    request_text_digits(&text, 1, 64);
    request_text_add(&text, ",\"key\":");
    request_text_digits(&text, 250, 64);
    request_text_add(&text, "},{\"session\":\"small\",\"query\":[[1]],\"key\":[[1]]}]}");
    cJSON *answer = answer_post(&own, "/v1/sessions/attention", text.data);
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    answer_expect(results->child, "code", "\"memory\"", 0);
    answer_expect(results->child, "pointer", "\"/requests/0\"", 0);
    answer_expect(results->child->next, "kv_len", "1", 0);
    cJSON_Delete(answer);
    free(text.data);
    assert_int_equal(session_number(&own, "large", "kv_len"), 0);
    assert_int_equal(session_number(&own, "small", "kv_len"), 1);
    http_client_free(&own);
    daemon_stop(&other);
}

/* How long a session stays is changed as it is; what is not named stays. */
TEST(change)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--session-memory-max", "68KiB", NULL);
    http_client_init(&own, other.port);
    session_make(&own, JSON({"model":"sdpa","id":"kept","ttl":"90s"}));
    append_rows(&own, "kept", 128, 200);
    change(&own, "/v1/sessions/kept", JSON({"ttl":"2h"}), 200, "ttl_ms", "7200000");
    change(&own, "/v1/sessions/kept", "{}", 200, "evictable", "false");
    change(&own, "/v1/sessions/kept", JSON({"ttl":"25h"}), 400, "pointer", "\"/ttl\"");
    change(&own, "/v1/sessions/kept", JSON({"id":"x"}), 400, "code", "\"field\"");
    session_make(&own, JSON({"model":"sdpa","id":"new"}));
    append_rows(&own, "new", 1, 503);
    change(&own, "/v1/sessions/kept", JSON({"evictable":true}), 200, "evictable", "true");
    change(&own, "/v1/sessions/kept", "{}", 200, "ttl_ms", "7200000");
    append_rows(&own, "new", 1, 200);
    change(&own, "/v1/sessions/kept", "{}", 410, "code", "\"gone\"");
    change(&own, "/v1/sessions/new", JSON({"ttl":"1ms"}), 200, "ttl_ms", "1");
    daemon_pause(0.01);
    session_get(&own, "new", 410);
    http_client_free(&own);
    daemon_stop(&other);
}

/* All may be left out where there is one model that is not built in. */
TEST(empty_body)
{
    struct http_response response = http_client_post(&client, "/v1/sessions", "");
    cJSON *answer = answer_json(&response, 201);
    http_response_free(&response);
    answer_expect(answer, "model", "\"stories260K\"", 0);
    session_delete(&client, cJSON_GetObjectItem(answer, "session")->valuestring, 204);
    cJSON_Delete(answer);
}

/* Sessions without rows take memory of the budget, and there may be so many of them. */
TEST(many_empty)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--session-memory-max", "64KiB", NULL);
    http_client_init(&own, other.port);
    const int count = make_until_refused(&own, "--session-memory-max");
    assert_in_range(count, 64, 256);
    assert_in_range((int)answer_metric(&own, "attnd_session_bytes"), 64512, 65536);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_start_with(&other, "--sessions-max", "5", NULL);
    http_client_init(&own, other.port);
    assert_int_equal(make_until_refused(&own, "as many as there may be (--sessions-max)"), 5);
    http_client_free(&own);
    daemon_stop(&other);
}

static int start(void **state)
{
    fixture_serve("--models", "examples/models");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
