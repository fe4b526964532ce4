/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_sequences_words.c - what the parameters of a sequence of the Open Inference Protocol
 * mean: start and end, whose id it is, which model it keeps; what is refused, and changes nothing.
 */
#include "fixture.h"
#include "key_file.h"
#include "model_client.h"
#include "oip_client.h"
#include "session_client.h"
#include "test.h"

#define ROW                                                                                        \
    "\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}]"
#define QKV(shape, data)                                                                           \
    "\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"       \
    "{\"name\":\"K\",\"shape\":" shape ",\"datatype\":\"FP32\",\"data\":" data "},"                \
    "{\"name\":\"V\",\"shape\":" shape ",\"datatype\":\"FP32\",\"data\":" data "}]"

static cJSON *demo_post(const char *parameters, long status)
{
    char body[400];
    snprintf(body, sizeof body, "{\"parameters\":{%s}," ROW "}", parameters);
    struct http_response response = http_client_post(&client, "/v2/models/demo/infer", body);
    cJSON *answer = answer_json(&response, status);
    http_response_free(&response);
    return answer;
}

static void expect_demo(const char *parameters, int kv_len)
{
    cJSON *answer = demo_post(parameters, 200);
    const cJSON *weights = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "outputs"), 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(weights, "data")), kv_len);
    cJSON_Delete(answer);
}

/* start begins anew, end ends after the request; a number and a string are one id; 0 is none. */
TEST(start_and_end)
{
    expect_demo(JSON("sequence_id":5,"sequence_start":true,"sequence_end":false), 1);
    expect_demo(JSON("sequence_id":5), 2);
    expect_demo(JSON("sequence_id":"5","sequence_start":false), 3);
    expect_demo(JSON("sequence_id":6,"sequence_start":true), 1);
    expect_demo(JSON("sequence_id":5,"sequence_start":true), 1);
    expect_demo(JSON("sequence_id":5,"sequence_end":true), 2);
    cJSON *answer = demo_post(JSON("sequence_id":5), 410);
    answer_expect(answer, "pointer", "\"/parameters/sequence_id\"", 0);
    cJSON_Delete(answer);
    expect_demo(JSON("sequence_id":5,"sequence_start":true,"sequence_end":true), 1);
    session_get(&client, "demo:5", 410);
    expect_demo(JSON("sequence_id":0,"sequence_start":true,"sequence_end":false), 1);
    expect_demo(JSON("sequence_id":0), 1);
    expect_demo(JSON("sequence_id":""), 1);
    session_delete(&client, "demo:6", 204);
    session_wait_until_empty(&client);
}

TEST(refused)
{
    static const struct oip_fault FAULTS[] = {
        { "demo", "{\"parameters\":{\"sequence_id\":99}," ROW "}", 400, "option",
          "/parameters/sequence_id",
          "inference request for sequence 99 to model 'demo' must specify the START flag on the "
          "first request of the sequence" },
        { "demo", "{\"parameters\":{\"sequence_id\":-1,\"sequence_start\":true}," ROW "}", 400,
          "option", "/parameters/sequence_id", "expected a whole number" },
        { "demo", "{\"parameters\":{\"sequence_id\":\"attention\"}," ROW "}", 400, "option",
          "/parameters/sequence_id", "and not '.', '..' or 'attention'" },
        { "demo", "{\"parameters\":{\"sequence_id\":1.5,\"sequence_start\":true}," ROW "}", 400,
          "option", "/parameters/sequence_id", "expected a whole number" },
        { "demo",
          "{\"parameters\":{\"sequence_id\":9007199254740994,\"sequence_start\":true}," ROW "}",
          400, "option", "/parameters/sequence_id", "send a larger one as a string" },
        { "demo", "{\"parameters\":{\"sequence_id\":\"a/b\",\"sequence_start\":true}," ROW "}", 400,
          "option", "/parameters/sequence_id", "1 to 64 of A-Z" },
        { "demo", "{\"parameters\":{\"sequence_id\":true,\"sequence_start\":true}," ROW "}", 400,
          "type", "/parameters/sequence_id", "expected a number or a string" },
        { "demo", "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":1}," ROW "}", 400, "type",
          "/parameters/sequence_start", "expected true or false" },
        { "demo", "{\"parameters\":{\"sequence_end\":\"yes\"}," ROW "}", 400, "type",
          "/parameters/sequence_end", "expected true or false" },
        { "demo",
          "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true},\"inputs\":[{\"name\":"
          "\"query\",\"shape\":[2,1,3],\"datatype\":\"FP32\",\"data\":[1,0,0,0,1,0]}]}",
          400, "shape", "/inputs/0", "has a batch of 2" },
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true}," QKV(
              "[1,1,1,2]", "[1,2]") ",\"outputs\":[{\"name\":\"present_key\"}]}",
          400, "option", "/outputs", "stay in the daemon" },
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true},\"inputs\":[{\"name\":\"Q\","
          "\"shape\":[1,1,1,1],\"datatype\":\"FP64\",\"data\":[1]},{\"name\":\"K\",\"shape\":[1,1,"
          "1,1],\"datatype\":\"FP64\",\"data\":[1]},{\"name\":\"V\",\"shape\":[1,1,1,1],"
          "\"datatype\":\"FP64\",\"data\":[1]}]}",
          400, "dtype", "/inputs/1", "a sequence takes FP32, FP16 or BF16" },
        { "stories260K",
          "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true},\"inputs\":[{\"name\":"
          "\"input_ids\",\"shape\":[1,1],\"datatype\":\"INT64\",\"data\":[1]}]}",
          400, "option", "/parameters/sequence_id", "a whole pass keeps no keys" },
        { "demo",
          "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true},\"inputs\":[{\"name\":"
          "\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]},{\"name\":\"value\","
          "\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}]}",
          400, "field", "/inputs/1", "came without 'key'" },
        { "demo",
          "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true},\"inputs\":[{\"name\":"
          "\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]},{\"name\":\"mask\","
          "\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[0,0,0,0]}]}",
          400, "shape", "/inputs/1", "mask" },
    };
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++)
        oip_refused(&client, &FAULTS[i]);
    session_wait_until_empty(&client); /* a start that fails has begun nothing */
}

/* A request that fails has appended nothing, and has not ended its sequence. */
TEST(a_failure_changes_nothing)
{
    static const struct oip_fault FAULTS[] = {
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":3,\"sequence_end\":true}," QKV("[1,1,1,3]",
                                                                           "[1,2,3]") "}",
          400, "shape", "/inputs/1/shape", "unexpected shape" },
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":3,\"sequence_end\":true},\"inputs\":[{\"name\":\"Q\","
          "\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},{\"name\":\"K\",\"shape\":[1,1,"
          "1,1],\"datatype\":\"FP32\",\"data\":[1]},{\"name\":\"V\",\"shape\":[1,1,1,1],"
          "\"datatype\":\"FP32\",\"data\":[1]}]}",
          400, "shape", "/inputs/1", "those of session 'sdpa:3' have 1 of 2 and 2" },
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":3,\"sequence_end\":true},\"inputs\":[{\"name\":\"Q\","
          "\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,1]},{\"name\":\"K\",\"shape\":[1,"
          "1,"
          "1,2],\"datatype\":\"FP32\",\"data\":[1,1]},{\"name\":\"V\",\"shape\":[1,1,1,2],"
          "\"datatype\":\"FP32\",\"data\":[1,1]},{\"name\":\"attn_mask\",\"shape\":[1,4],"
          "\"datatype\":\"BOOL\",\"data\":[true,true,true,true]}]}",
          400, "shape", "/inputs/3/shape", "broadcasts to [1,1,1,3]" },
    };
    cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer",
                             "{\"parameters\":{\"sequence_id\":3,\"sequence_start\":true}," QKV(
                                 "[1,1,2,2]", "[1,2,3,4]") "}"));
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        oip_refused(&client, &FAULTS[i]);
        assert_int_equal(session_number(&client, "sdpa:3", "kv_len"), 2);
    }
    session_delete(&client, "sdpa:3", 204);
    session_wait_until_empty(&client);
}

/* Neither has one that would begin it anew, whether its tensors are wrong or its computing fails.
 */
TEST(a_failing_start)
{
    static const struct oip_fault FAULTS[] = {
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":3,\"sequence_start\":true},\"inputs\":[{\"name\":\"Q\","
          "\"shape\":[1,1,1,1],\"datatype\":\"FP64\",\"data\":[1]},{\"name\":\"K\",\"shape\":[1,1,"
          "1,1],\"datatype\":\"FP64\",\"data\":[1]},{\"name\":\"V\",\"shape\":[1,1,1,1],"
          "\"datatype\":\"FP64\",\"data\":[1]}]}",
          400, "dtype", "/inputs/1", "a sequence takes FP32, FP16 or BF16" },
        { "sdpa",
          "{\"parameters\":{\"sequence_id\":3,\"sequence_start\":true},\"inputs\":[{\"name\":\"Q\","
          "\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,1]},{\"name\":\"K\",\"shape\":[1,"
          "1,1,2],\"datatype\":\"FP32\",\"data\":[1,1]},{\"name\":\"V\",\"shape\":[1,1,1,2],"
          "\"datatype\":\"FP32\",\"data\":[1,1]},{\"name\":\"attn_mask\",\"shape\":[1,4],"
          "\"datatype\":\"BOOL\",\"data\":[true,true,true,true]}]}",
          400, "shape", "/inputs/3/shape", "broadcasts to [1,1,1,1]" },
    };
    cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer",
                             "{\"parameters\":{\"sequence_id\":3,\"sequence_start\":true}," QKV(
                                 "[1,1,2,2]", "[1,2,3,4]") "}"));
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        oip_refused(&client, &FAULTS[i]);
        assert_int_equal(session_number(&client, "sdpa:3", "kv_len"), 2);
    }
    cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer",
                             "{\"parameters\":{\"sequence_id\":3,\"sequence_start\":true}," QKV(
                                 "[1,1,1,2]", "[1,2]") "}"));
    assert_int_equal(session_number(&client, "sdpa:3", "kv_len"), 1);
    session_delete(&client, "sdpa:3", 204);
    session_wait_until_empty(&client);
    assert_true(answer_metric(&client, "attnd_session_bytes") == 0);
}

/* ---------------------------------------------------------------------- keys, models -- */

/* An id belongs to the name of a key, also where another key may see all sessions. */
TEST(owners)
{
    static const struct key_line KEYS[] = { { "anna", "infer,sessions sessions=1" },
                                            { "all", "infer,sessions:all" },
                                            { NULL, NULL } };
    static const struct http_request START = {
        .path = "/v2/models/demo/infer",
        .body = "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true}," ROW "}"
    };
    static const struct http_request GO_ON = { .path = "/v2/models/demo/infer",
                                               .body =
                                                   "{\"parameters\":{\"sequence_id\":1}," ROW "}" };
    static const struct http_request SECOND = {
        .path = "/v2/models/demo/infer",
        .body = "{\"parameters\":{\"sequence_id\":2,\"sequence_start\":true}," ROW "}"
    };
    struct daemon other;
    struct http_client own;
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    struct http_response response = key_expect(&own, "anna", &START, 200);
    http_response_free(&response);
    key_expect_refused(&own, "all", &GO_ON, 400, "option", "must specify the START flag");
    response = key_expect(&own, "all", &START, 200); /* one of its own */
    http_response_free(&response);
    response = key_expect(&own, "anna", &GO_ON, 200);
    assert_non_null(strstr(response.body, JSON("shape":[1,1,2])));
    http_response_free(&response);
    response =
        key_expect(&own, "anna", &START, 200); /* in place of the first, so it is no second */
    http_response_free(&response);
    key_expect_refused(&own, "anna", &SECOND, 429, "quota", "'anna' has 1 sessions");
    http_client_free(&own);
    daemon_stop(&other);
}

/* A sequence goes on with the model that it began with. */
TEST(model_is_replaced)
{
    static const char START[] =
        "{\"parameters\":{\"sequence_id\":1,\"sequence_start\":true}," ROW "}";
    static const char AGAIN[] = "{\"parameters\":{\"sequence_id\":1}," ROW "}";
    struct daemon other;
    struct http_client own;
    char *models = daemon_directory_create();
    daemon_start_with(&other, "--models", models, "--model-control", "explicit", NULL);
    http_client_init(&own, other.port);
    model_put_demo(&own, "mine", 2, 201);
    cJSON *first = answer_post(&own, "/v2/models/mine/infer", START);
    model_put_demo(&own, "mine", 3, 200);
    cJSON *second = answer_post(&own, "/v2/models/mine/infer", AGAIN);
    cJSON *anew = answer_post(&own, "/v2/models/mine/infer", START);
    const cJSON *of_first =
        cJSON_GetObjectItem(cJSON_GetObjectItem(first, "outputs")->child, "data");
    const cJSON *of_second =
        cJSON_GetObjectItem(cJSON_GetObjectItem(second, "outputs")->child, "data");
    const cJSON *of_new = cJSON_GetObjectItem(cJSON_GetObjectItem(anew, "outputs")->child, "data");
    assert_true(cJSON_Compare(of_first, of_second, true)); /* equal rows: their mean is the same */
    assert_false(cJSON_Compare(of_first, of_new, true));
    cJSON_Delete(first);
    cJSON_Delete(second);
    cJSON_Delete(anew);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_directory_remove(models);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    fixture_serve("--models", "examples/models");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
