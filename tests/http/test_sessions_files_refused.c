/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_files_refused.c - files of many sessions, and of several steps, that are refused:
 * each fault with its place and words about it, that of one item beside the answers of the others.
 */
#include "answer.h"
#include "fixture.h"
#include "session_client.h"
#include "tensor_body.h"
#include "test.h"

static const char MANY[] = "/v1/sessions/attention", ONE[] = "/v1/sessions/a/attention",
                  STORY[] = "/v1/sessions/story/attention";

enum { WIDTH = 64 /* of stories260K */ };

#define TWO "\"requests\":\"[{\\\"session\\\":\\\"a\\\"},{\\\"session\\\":\\\"b\\\"}]\""

static struct tensor_body good_queries(void)
{
    static const float QUERY[] = { 1, 2, 3, 4 };
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "requests.0.query", "F32", "[1,4]", QUERY, sizeof QUERY);
    return body;
}

/* The second item has a tensor of this name and dtype; the first is answered all the same. */
static void item_refused(const char *name, const char *dtype, const char *metadata,
                         const char *code, const char *pointer, const char *says)
{
    static const int64_t ZEROS[4];
    struct tensor_body body = good_queries();
    tensor_body_add(&body, name, dtype, "[1,4]", ZEROS, 4 * (dtype[1] == '6' ? 8 : 4));
    struct http_response response =
        tensor_body_post(&client, MANY, &body, metadata, 0, "application/json");
    cJSON *answer = answer_json(&response, 200);
    cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_non_null(cJSON_GetObjectItem(cJSON_GetArrayItem(results, 0), "context"));
    const cJSON *fault = cJSON_GetArrayItem(results, 1);
    answer_expect_item_fault(fault, code, pointer);
    if (!strstr(cJSON_GetObjectItem(fault, "error")->valuestring, says))
        fail_msg("%s", cJSON_GetObjectItem(fault, "error")->valuestring);
    cJSON_Delete(answer);
    http_response_free(&response);
}

TEST(faults_of_an_item)
{
    item_refused("requests.1.query", "I64", "{" TWO "}", "dtype", "/requests/1/query", "I64");
    item_refused("requests.1.qery", "F32", "{" TWO "}", "field", "/requests/1/qery",
                 "did you mean 'query'");
    item_refused("requests.1.", "F32", "{" TWO "}", "field", "/requests/1/", "no tensor ''");
    item_refused("requests.1.key.0", "F32", "{" TWO "}", "field", "/requests/1/key.0", "key.0");
    item_refused("requests.1.context_gradient", "F32", "{" TWO "}", "field",
                 "/requests/1/context_gradient", "no tensor");
    item_refused("requests.1.value", "F32", "{" TWO "}", "field", "/requests/1/query", "missing");
    item_refused("requests.1.query", "F32",
                 "{\"requests\":\"[{\\\"session\\\":\\\"a\\\"},{\\\"session\\\":\\\"b\\\","
                 "\\\"query\\\":[[1,2,3,4]]}]\"}",
                 "duplicate", "/requests/1/query", "__metadata__ too");
    item_refused("requests.1.query", "F32",
                 "{\"requests\":\"[{\\\"session\\\":\\\"a\\\"},{\\\"session\\\":\\\"b\\\","
                 "\\\"scal\\\":1}]\"}",
                 "field", "/requests/1/scal", "did you mean 'scale'");
    item_refused("requests.1.query", "F32", "{\"requests\":\"[{\\\"session\\\":\\\"a\\\"},{}]\"}",
                 "field", "/requests/1/session", "missing");
}

static void refused(const char *path, const struct tensor_body *body, const char *metadata,
                    const char *code, const char *pointer, const char *says)
{
    struct http_response response = tensor_body_post(&client, path, body, metadata, 0, NULL);
    if (!strstr(response.body, says))
        fail_msg("expected %s: %s", says, response.body);
    answer_expect_fault(&response, 400, code, pointer);
    http_response_free(&response);
}

TEST(faults_of_all)
{
    static const char *const NAMES[] = { "query",           "requests",
                                         "requests.",       "requests.2.query",
                                         "requests.0",      "requests.01.query",
                                         "requests..query", "requests.-1.query",
                                         "requests.query",  "requests.99999999999999999999.query",
                                         "results.0.query", "steps.0.query",
                                         "request.0.query", "requests.1x.query" };
    static const float NUMBER = 1;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        struct tensor_body body = good_queries();
        tensor_body_add(&body, NAMES[i], "F32", "[1]", &NUMBER, sizeof NUMBER);
        refused(MANY, &body, "{" TWO "}", "field", NULL, NAMES[i]);
        refused(MANY, &body, "{" TWO "}", "field", NULL, "requests.0 to requests.1");
    }
    struct tensor_body body = good_queries();
    refused(MANY, &body, JSON({"requests":"[]"}), "field", "/requests/0/query", "has no items");
    refused(MANY, &body, "{}", "field", "/requests", "requests is missing");
    refused(MANY, &body, JSON({"requests":"{}"}), "type", "/requests", "expected an array");
    refused(MANY, &body, JSON({"requests":"[1]"}), "type", "/requests", "expected an array");
    refused(MANY, &body, "{\"requests\":\"[{\\\"session\\\":\\\"a\\\"},7]\"}", "type",
            "/requests/1", "expected an object");
    refused(MANY, &body, JSON({"requests":"two"}), "type", "/requests", "'two'");
    refused(MANY, &body, "{" TWO ",\"outpts\":\"[]\"}", "field", "/outpts", "outputs");
    refused(MANY, &body, "{" TWO ",\"model\":\"sdpa\"}", "field", "/model", "of the model");
    tensor_body_add(&body, "requests.0.query", "F32", "[1]", &NUMBER, sizeof NUMBER);
    refused(MANY, &body, "{" TWO "}", "duplicate", NULL, "requests.0.query");
}

/* A fault of one step is one of the call, and appends nothing. */
TEST(faults_of_steps)
{
    static const float ROW[WIDTH];
    static const char LISTED[] = JSON({"steps":"[{\"layer\":0},{\"layer\":1}]"});
    struct tensor_body first = { .used = 0 };
    tensor_body_add(&first, "steps.0.input", "F32", "[1,64]", ROW, sizeof ROW);
    struct tensor_body body = first;
    refused(STORY, &body, LISTED, "field", "/steps/1/query", "query is missing");
    tensor_body_add(&body, "steps.1.inptu", "F32", "[1,64]", ROW, sizeof ROW);
    refused(STORY, &body, LISTED, "field", "/steps/1/inptu", "did you mean 'input'");
    body = first;
    tensor_body_add(&body, "steps.1.input", "F32", "[1,32]", ROW, sizeof ROW / 2);
    refused(STORY, &body, LISTED, "shape", "/steps/1/*", "64");
    body = first;
    tensor_body_add(&body, "steps.2.input", "F32", "[1,64]", ROW, sizeof ROW);
    refused(STORY, &body, LISTED, "field", "/steps/2/input", "steps.0 to steps.1");
    assert_true(session_number(&client, "story", "kv_len") == 0);
    body = first;
    refused(ONE, &body, "{}", "field", "/steps", "steps is missing");
}

static int start(void **state)
{
    fixture_serve("--models", "examples/models");
    session_make(&client, JSON({"model":"sdpa","id":"a"}));
    session_make(&client, JSON({"model":"sdpa","id":"b"}));
    session_make(&client, JSON({"model":"stories260K","id":"story"}));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
