/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_owners.c - whose a session is: who may see it, call it and end it, and how many and
 * how large ones a name may have. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "metrics_page.h"
#include "request_text.h"
#include "test.h"

static const struct key_line KEYS[] = {
    { "anna", "infer,sessions sessions=2" },
    { "bert", "infer,sessions" },
    { "other", "infer:demo,sessions" },
    { "all", "infer,sessions:all" },
    { "none", "sessions" },
    { "metrics", "metrics" },
    { NULL, NULL },
};

#define EXPECT(name, request, status) key_done(key_expect(&own, name, request, status))

static void key_done(struct http_response response)
{
    http_response_free(&response);
}

TEST(owners)
{
    static const struct http_request MAKE = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" };
    static const struct http_request DEMO = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"demo\",\"id\":\"d\"}" };
    static const struct http_request THIRD = { .path = "/v1/sessions",
                                               .body = "{\"model\":\"sdpa\"}" };
    static const struct http_request LOOK = { .path = "/v1/sessions/s" };
    static const struct http_request CALL = { .path = "/v1/sessions/s/attention",
                                              .body = "{\"query\":[[1]],\"key\":[[1]]}" };
    static const struct http_request FORK = { .path = "/v1/sessions/s/fork", .body = "" };
    static const struct http_request CUT = { .path = "/v1/sessions/s/truncate",
                                             .body = "{\"kv_len\":0}" };
    static const struct http_request END = { .method = "DELETE", .path = "/v1/sessions/s" };
    static const struct http_request END_OF_BERT = { .method = "DELETE",
                                                     .path = "/v1/sessions/s?owner=bert" };
    static const struct http_request SOON = { .method = "PATCH",
                                              .path = "/v1/sessions/s?owner=bert",
                                              .body = "{\"ttl\":\"1h\"}" };
    static const struct http_request LIST = { .path = "/v1/sessions" };
    const struct http_request *const VERBS[] = { &LOOK, &CALL, &FORK, &CUT, &END };
    struct daemon other;
    struct http_client own;
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    EXPECT("anna", &MAKE, 201);
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        key_expect_refused(&own, "bert", VERBS[i], 404, "not_found", "there is no session 's'");
    key_expect_refused(&own, "metrics", &LIST, 403, "scope", "no scope 'sessions'");
    key_expect_refused(&own, "other", &MAKE, 403, "scope", "infer:sdpa");
    key_expect_refused(&own, "none", &DEMO, 403, "scope", "infer");
    EXPECT("bert", &MAKE, 201); /* a name of its own */
    EXPECT("anna", &CALL, 200);
    key_expect_refused(&own, "all", &LOOK, 409, "conflict", "say whose by owner");
    struct http_response response = key_expect(&own, "all", &LIST, 200);
    assert_non_null(strstr(response.body, JSON("total":2)));
    assert_non_null(strstr(response.body, JSON("owner":"anna")));
    assert_non_null(strstr(response.body, JSON("owner":"bert")));
    http_response_free(&response);
    response = key_expect(&own, "bert", &LIST, 200);
    assert_null(strstr(response.body, "anna"));
    assert_non_null(strstr(response.body, JSON("total":1)));
    http_response_free(&response);
    EXPECT("anna", &DEMO, 201);
    key_expect_refused(&own, "anna", &THIRD, 429, "quota", "'anna' has 2 sessions, as many as");
    key_expect_refused(&own, "anna", &FORK, 429, "quota", "as many as it may");
    EXPECT("anna", &END, 204);
    key_expect_refused(&own, "anna", &LOOK, 410, "gone", "was deleted");
    EXPECT("anna", &THIRD, 201);
    EXPECT("bert", &LOOK, 200); /* its own is there still */
    key_expect_refused(&own, "all", &END, 409, "conflict",
                       "'bert', 'anna' each have a session 's'");
    EXPECT("all", &SOON, 200);
    EXPECT("all", &END_OF_BERT, 204);
    key_expect_refused(&own, "bert", &LOOK, 410, "gone", "was deleted");
    http_client_free(&own);
    free(daemon_log_with(&other, "audit who=anna what=\"POST /v1/sessions\" session=s outcome="));
    free(daemon_log_with(&other, "audit who=all what=\"PATCH /v1/sessions/{session}\" session=s"));
    free(daemon_log_with(&other, "audit who=all what=\"DELETE /v1/sessions/{session}\" session=s"));
    daemon_stop(&other);
}

static void expect_owner(struct http_client *own, const char *name,
                         const struct http_request *request, const char *owner)
{
    struct http_response response = key_expect(own, name, request, 200);
    cJSON *answer = answer_json(&response, 200);
    answer_expect(answer, "owner", owner, 0);
    cJSON_Delete(answer);
    http_response_free(&response);
}

/* A key that may see all sessions says whose it means; one that is sent again ends nobody else's.
 */
TEST(owner_said)
{
    static const struct http_request MAKE = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" };
    static const struct http_request LOOK = { .path = "/v1/sessions/s" };
    static const struct http_request END = { .method = "DELETE", .path = "/v1/sessions/s" };
    static const struct http_request OF_ANNA = { .path = "/v1/sessions/s?owner=anna" };
    static const struct http_request OF_NOBODY = { .path = "/v1/sessions/s?owner=nobody" };
    static const struct http_request END_OF_ANNA = { .method = "DELETE",
                                                     .path = "/v1/sessions/s?owner=anna" };
    static const struct http_request TYPO = { .method = "DELETE",
                                              .path = "/v1/sessions/s?ownr=anna" };
    static const struct http_request NEW = { .path = "/v1/sessions?owner=bert",
                                             .body = "{\"model\":\"sdpa\"}" };
    static const struct http_request PUT[] = {
        { .method = "PUT", .path = "/v1/sessions/new?owner=bert", .body = "" },
        { .method = "PUT", .path = "/v1/sessions/new?owner=nobody", .body = "" },
    };
    static const struct http_request CALL = { .path = "/v1/sessions/s/attention?owner=bert",
                                              .body = "{\"query\":[[1]],\"key\":[[1]]}" };
    static const struct http_request MANY = {
        .path = "/v1/sessions/attention",
        .body =
            "{\"query\":[[1]],\"outputs\":[],\"requests\":[{\"session\":\"s\",\"owner\":\"bert\"},"
            "{\"session\":\"s\",\"owner\":\"anna\"},{\"session\":\"s\"}]}"
    };
    struct daemon other;
    struct http_client own;
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    EXPECT("anna", &MAKE, 201);
    expect_owner(&own, "all", &LOOK, "\"anna\""); /* it is clear whose */
    expect_owner(&own, "anna", &OF_ANNA, "\"anna\"");
    key_expect_refused(&own, "bert", &OF_ANNA, 404, "not_found", "no session 's' of 'anna'");
    key_expect_refused(&own, "all", &OF_NOBODY, 404, "not_found", "no session 's' of 'nobody'");
    EXPECT("bert", &MAKE, 201);
    key_expect_refused(&own, "all", &END, 409, "conflict",
                       "'anna', 'bert' each have a session 's'");
    expect_owner(&own, "bert", &LOOK, "\"bert\"");
    EXPECT("all", &CALL, 200);
    struct http_response response = key_expect(&own, "all", &MANY, 200);
    assert_non_null(strstr(response.body, "[{\"session\":\"s\",\"kv_len\":1,"));
    assert_non_null(strstr(response.body, "},{\"session\":\"s\",\"kv_len\":0,"));
    assert_non_null(strstr(response.body, JSON("code":"conflict","pointer":"/requests/2/session")));
    http_response_free(&response);
    key_expect_refused(&own, "all", &TYPO, 400, "field", "unknown parameter 'ownr'");
    key_expect_refused(&own, "all", &NEW, 400, "field",
                       "owner is 'bert'; a new session is for the key that makes it");
    key_expect_refused(&own, "anna", &PUT[0], 403, "scope", "sessions:all");
    key_expect_refused(&own, "all", &PUT[1], 404, "not_found", "no key has this name here");
    EXPECT("all", &END_OF_ANNA, 204);
    key_expect_refused(&own, "all", &END_OF_ANNA, 410, "gone", "was deleted");
    key_expect_refused(&own, "all", &END, 409, "conflict", "'bert', 'anna'");
    expect_owner(&own, "bert", &LOOK, "\"bert\"");
    EXPECT("all", &MAKE, 201); /* its own is meant from here on */
    EXPECT("all", &END, 204);
    key_expect_refused(&own, "all", &END, 410, "gone", "was deleted");
    expect_owner(&own, "bert", &LOOK, "\"bert\"");
    http_client_free(&own);
    daemon_stop(&other);
}

static double bytes_of(struct http_client *own, const char *name, const char *id)
{
    char path[64];
    snprintf(path, sizeof path, "/v1/sessions/%s", id);
    struct http_response response =
        key_expect(own, name, &(struct http_request){ .path = path }, 200);
    cJSON *session = answer_json(&response, 200);
    const double bytes = cJSON_GetObjectItem(session, "bytes_reserved")->valuedouble;
    cJSON_Delete(session);
    http_response_free(&response);
    return bytes;
}

/* A name may hold so many bytes, here of two sessions and three pages without a few; a page that is
 * shared counts once. */
TEST(session_memory)
{
    static const struct key_line BOUND[] = { { "anna", "infer,sessions session-memory=6656" },
                                             { "bert", "infer,sessions" },
                                             { NULL, NULL } };
    static const struct http_request MAKE = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" };
    static const struct http_request FORK = { .path = "/v1/sessions/s/fork",
                                              .body = "{\"id\":\"f\"}" };
    static const struct http_request END = { .method = "DELETE", .path = "/v1/sessions/s" };
    static const struct http_request END_FORK = { .method = "DELETE", .path = "/v1/sessions/f" };
    struct http_request call = { .path = "/v1/sessions/s/attention" };
    struct http_request of_fork = { .path = "/v1/sessions/f/attention" };
    struct http_request long_call = { .path = "/v1/sessions/s/attention" };
    struct daemon other;
    struct http_client own;
    struct request_text text = { .data = NULL }, long_text = { .data = NULL };
    request_text_add(&text, "{\"query\":[[1,2,3,4]],\"outputs\":[\"lse\"],\"key\":[[1,2,3,4]");
    for (int i = 1; i < 64; i++)
        request_text_add(&text, ",[1,2,3,4]");
    request_text_add(&text, "]}"); /* 64 rows of 16 bytes of keys and of values: a page of 2 KiB */
    call.body = of_fork.body = text.data;
    request_text_add(&long_text, "{\"query\":[[1,2,3,4]],\"outputs\":[\"lse\"],\"key\":[[1,2,3,4]");
    for (int i = 1; i < 256; i++)
        request_text_add(&long_text, ",[1,2,3,4]");
    request_text_add(&long_text, "]}"); /* 8 KiB alone */
    long_call.body = long_text.data;
    key_file_write(fixture_path("keys"), BOUND);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    EXPECT("anna", &MAKE, 201);
    EXPECT("anna", &call, 200);
    assert_true(bytes_of(&own, "anna", "s") == 2048);
    EXPECT("anna", &FORK, 201);
    EXPECT("anna", &of_fork, 200); /* its own page beside the shared one */
    key_expect_refused(&own, "anna", &call, 429, "quota",
                       "of the 6656 that they may (session-memory)");
    key_expect_refused(&own, "anna", &of_fork, 429, "quota", "session-memory");
    key_expect_refused(&own, "anna", &long_call, 413, "too_large", "may hold 6656");
    EXPECT("bert", &MAKE, 201); /* nobody else is bounded */
    for (int i = 0; i < 4; i++)
        EXPECT("bert", &call, 200);
    EXPECT("anna", &END, 204); /* its page is the fork's too, and counts still */
    key_expect_refused(&own, "anna", &of_fork, 429, "quota", "of the 6656 that they may");
    EXPECT("anna", &END_FORK, 204);
    EXPECT("anna", &MAKE, 201);
    EXPECT("anna", &call, 200);
    free(long_text.data);
    free(text.data);
    http_client_free(&own);
    daemon_stop(&other);
}

static double metric_of(struct http_client *own, const char *name)
{
    struct http_response response =
        key_expect(own, "metrics", &(struct http_request){ .path = "/metrics" }, 200);
    struct metrics_page page = { 0 };
    metrics_page_read(&page, response.body);
    const double value = metrics_page_value(&page, name);
    metrics_page_free(&page);
    http_response_free(&response);
    return value;
}

/* What each name has: its sessions themselves, their pages, bounds of keys for select. */
TEST(metrics)
{
    static const struct http_request MAKE = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" };
    static const struct http_request SELECT = {
        .path = "/v1/sessions/s/attention",
        .body = "{\"query\":[[1,2,3,4]],\"outputs\":[\"lse\"],\"select\":{\"epsilon\":0.1}}"
    };
    struct http_request call = { .path = "/v1/sessions/s/attention" };
    struct daemon other;
    struct http_client own;
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"query\":[[1,2,3,4]],\"outputs\":[\"lse\"],\"key\":");
    request_text_digits(&text, 512, 4);
    request_text_add(&text, "}");
    call.body = text.data;
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    EXPECT("anna", &MAKE, 201);
    const double own_bytes = metric_of(&own, "attnd_key_session_bytes{key=\"anna\"}");
    assert_true(own_bytes > 0);
    EXPECT("anna", &call, 200);
    EXPECT("bert", &MAKE, 201);
    assert_true(metric_of(&own, "attnd_key_sessions{key=\"anna\"}") == 1);
    assert_true(metric_of(&own, "attnd_key_session_bytes{key=\"anna\"}") == own_bytes + 512 * 32);
    EXPECT("anna", &SELECT, 200);
    const double bytes = metric_of(&own, "attnd_key_session_bytes{key=\"anna\"}");
    assert_true(bytes > own_bytes + 512 * 32);
    assert_true(bytes + own_bytes == metric_of(&own, "attnd_session_bytes"));
    assert_true(metric_of(&own, "attnd_key_sessions{key=\"bert\"}") == 1);
    assert_true(metric_of(&own, "attnd_key_session_bytes{key=\"bert\"}") == own_bytes);
    free(text.data);
    http_client_free(&own);
    daemon_stop(&other);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
