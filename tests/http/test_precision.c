/* SPDX-License-Identifier: Apache-2.0 */
/* test_precision.c - the precision of products on tiles, through every wire: what may be asked,
 * what an answer says of itself, and where the daemon's own stands. A matrix unit takes no call as
 * small as these, so that all of them have the highest, on every CPU. */
#include "answer.h"
#include "fixture.h"
#include "oip_client.h"
#include "test.h"

#define WORDS "[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]"

static const char PATH[] = "/v1/attention";
static const char *const NAMES[] = { "highest", "high", "medium" };

static cJSON *ask(const char *path, const char *format, const char *name)
{
    char body[512];
    snprintf(body, sizeof body, format, name);
    return answer_post(&client, path, body);
}

/* The answer says what it has, and its numbers are those of a call that does not ask. */
TEST(calls)
{
    cJSON *plain = answer_post(&client, PATH, "{\"model\":\"demo\",\"query\":" WORDS "}");
    answer_expect_members(plain, "model,layer,context,weights");
    for (int i = 0; i < 3; i++) {
        cJSON *answer =
            ask(PATH, "{\"model\":\"demo\",\"precision\":\"%s\",\"query\":" WORDS "}", NAMES[i]);
        answer_expect_members(answer, "model,layer,precision,context,weights");
        answer_expect(answer, "precision", "\"highest\"", 0);
        answer_expect_equal(answer, plain, "context");
        answer_expect_equal(answer, plain, "weights");
        cJSON_Delete(answer);
    }
    cJSON_Delete(plain);
}

TEST(null)
{
    cJSON *answer =
        answer_post(&client, PATH, "{\"model\":\"demo\",\"precision\":null,\"query\":" WORDS "}");
    answer_expect_members(answer, "model,layer,context,weights");
    cJSON_Delete(answer);
}

/* An item's own stands before that of all. */
TEST(batch)
{
    cJSON *answer =
        answer_post(&client, "/v1/attention/batch",
                    "{\"model\":\"demo\",\"precision\":\"high\",\"requests\":[{\"query\":"
                    "[[1,0,0]]},{\"query\":[[1,0,0]],\"precision\":\"low\"}]}");
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    answer_expect(cJSON_GetArrayItem(results, 0), "precision", "\"highest\"", 0);
    answer_expect_item_fault(cJSON_GetArrayItem(results, 1), "option", NULL);
    cJSON_Delete(answer);
}

/* Gradients take it, and are those of the formulas whatever it is. */
TEST(gradients)
{
    static const char FORMAT[] = "{\"model\":\"demo\",\"query\":" WORDS
                                 ",\"context_gradient\":" WORDS ",\"precision\":\"%s\"}";
    cJSON *one = ask("/v1/attention/gradients", FORMAT, "highest");
    cJSON *other = ask("/v1/attention/gradients", FORMAT, "medium");
    assert_true(cJSON_Compare(one, other, true));
    assert_null(cJSON_GetObjectItem(one, "precision"));
    cJSON_Delete(one);
    cJSON_Delete(other);
}

static struct oip_answer ask_protocol(const char *parameters)
{
    struct oip_request request = { .parameters = parameters };
    oip_add_json(&request, "query", "FP32", "[4,3]", WORDS);
    struct oip_answer answer = oip_post(&client, "demo", &request);
    oip_request_free(&request);
    return answer;
}

TEST(protocol)
{
    struct oip_answer answer = ask_protocol(JSON("precision":"medium"));
    answer_expect_members(answer.json, "model_name,model_version,parameters,outputs");
    answer_expect(answer.json, "parameters", JSON({"precision":"highest"}), 0);
    oip_answer_free(&answer);
    answer = ask_protocol(JSON("causal":true));
    answer_expect_members(answer.json, "model_name,model_version,outputs");
    oip_answer_free(&answer);
    answer_refused(&client, "/v2/models/demo/infer",
                   "{\"parameters\":{\"precision\":\"lowest\"},\"inputs\":[{\"name\":\"query\","
                   "\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}]}",
                   400, "option", "/parameters/precision");
}

/* A model's own config names one for its calls, and only such a model describes it. */
#define CONFIG(precision)                                                                          \
    "{\"config\":{\"attention\":\"scaled_dot_product\",\"precision\":\"" precision                 \
    "\"},\"parameters\":{\"q_proj.weight\":[[1,0],[0,1]],\"k_proj.weight\":[[1,0],[0,1]],"         \
    "\"v_proj.weight\":[[2,0],[0,2]]}}"

static struct http_response put(const char *path, const char *body)
{
    return http_client_send(&client,
                            &(struct http_request){ .method = "PUT", .path = path, .body = body });
}

TEST(models)
{
    struct http_response response = put("/v1/models/coarse", CONFIG("medium"));
    if (response.status != 200 && response.status != 201)
        fail_msg("%s", response.body);
    http_response_free(&response);
    response = http_client_get(&client, "/v1/models/coarse");
    assert_non_null(strstr(response.body, JSON("precision":"medium")));
    http_response_free(&response);
    response = http_client_get(&client, "/v1/models/demo");
    assert_null(strstr(response.body, "precision"));
    http_response_free(&response);
    response = put("/v1/models/bad", CONFIG("float"));
    answer_expect_fault(&response, 400, "option", "/config/precision");
    http_response_free(&response);
}

/* The daemon's own is a label of what runs. */
TEST(flag)
{
    struct http_response response = http_client_get(&client, "/metrics");
    assert_non_null(strstr(response.body, "precision=\"high\""));
    http_response_free(&response);
}

static int start(void **state)
{
    fixture_make_directory(state);
    fixture_serve("--models", directory, "--model-control", "explicit", "--precision", "high");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
