/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_infer.c - POST /v2/models/{model}/infer with JSON: what it takes and what it answers.
 *
 * A tutorial's numbers come first. All other answers must equal, to the last digit, what the native
 * API answers to the same question. */
#include "fill.h"
#include "fixture.h"
#include "oip_client.h"
#include "test.h"

#define WORDS      "[1,0,0, 0,1,0, 1,1,0, 0,0,1]"
#define WORDS_ROWS "[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]"

static struct oip_answer ask_words(const char *shape, const char *data, const char *parameters)
{
    struct oip_request request = { .parameters = parameters };
    oip_add_json(&request, "query", "FP32", shape, data);
    struct oip_answer answer = oip_post(&client, "demo", &request);
    oip_request_free(&request);
    return answer;
}

/* ---------------------------------------------------------------- models -- */

#define TEN "[[[[[[[[[["
#define NET "]]]]]]]]]]"

TEST(four_words)
{
    static const double context[] = { 0.98522025, 1.74174051, 0.75652026, 0.90965265,
                                      1.40965265, 0.5,        0.99851226, 1.75849334,
                                      0.75998108, 0.99560386, 1.90407309, 0.90846923 };
    static const double first_weights[] = { 2.36089863e-01, 7.38987555e-03, 7.49130386e-01,
                                            7.38987555e-03 };
    static const char *const asked[][2] = {
        { "[4,3]", WORDS },
        { "[4,3]", WORDS_ROWS },
        { "[4,3]", "[[[1,0,0],[0,1,0]],[[1,1,0],[0,0,1]]]" },
        { "[4,3]", TEN "[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]" NET },
        { "[4,3]", TEN TEN TEN TEN TEN TEN "[1,0,0,0,1,0,1,1,0,0,0,1]" NET NET NET NET NET NET }
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct oip_answer answer = ask_words(asked[i][0], asked[i][1], NULL);
        answer_expect_members(answer.json, "model_name,model_version,outputs");
        assert_string_equal(cJSON_GetObjectItem(answer.json, "model_name")->valuestring, "demo");
        assert_string_equal(cJSON_GetObjectItem(answer.json, "model_version")->valuestring, "1");
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer.json, "outputs")), 2);
        oip_expect_numbers(&answer, "context", "FP32", 2, (const int64_t[]){ 4, 3 }, context, 1e-6);
        const struct oip_tensor_answer weights = oip_output_of(&answer, "weights");
        double *numbers = oip_numbers(&weights);
        for (int j = 0; j < 4; j++)
            assert_true(fabs(numbers[j] - first_weights[j]) < 1e-6);
        free(numbers);
        oip_answer_free(&answer);
    }
}

TEST(a_batch_is_its_entries)
{
    struct fill fill = { 11 };
    struct oip_request request = { .parameters = "\"causal\":true" };
    struct request_text data = { 0 };
    float values[3 * 5 * 3];
    fill_floats(&fill, values, 45, -1, 1);
    request_text_matrix(&data, values, 15, 3);
    oip_add_json(&request, "query", "FP32", "[3,5,3]", data.data);
    oip_add_json(&request, "kv_len", "INT32", "[3]", "[2,4,5]");
    for (int i = 0; i < 6; i++)
        oip_ask(&request,
                (const char *const[]){ "context", "weights", "scores", "softcapped", "masked",
                                       "lse" }[i],
                NULL);
    struct oip_answer answer = oip_post(&client, "demo", &request);
    for (int b = 0; b < 3; b++) {
        struct request_text body = { 0 };
        request_text_add(&body,
                         "{\"model\":\"demo\",\"causal\":true,\"kv_len\":%d,\"outputs\":["
                         "\"context\",\"weights\",\"scores\",\"softcapped\",\"masked\","
                         "\"lse\"],\"query\":",
                         (const int[]){ 2, 4, 5 }[b]);
        request_text_matrix(&body, values + 15 * b, 5, 3);
        request_text_add(&body, "}");
        cJSON *native = answer_post(&client, "/v1/attention", body.data);
        static const struct {
            const char *name;
            int rank;
            int64_t shape[3];
        } outputs[] = { { "context", 2, { 5, 3 } },   { "weights", 3, { 1, 5, 5 } },
                        { "scores", 3, { 1, 5, 5 } }, { "softcapped", 3, { 1, 5, 5 } },
                        { "masked", 3, { 1, 5, 5 } }, { "lse", 2, { 1, 5 } } };
        for (size_t o = 0; o < sizeof outputs / sizeof outputs[0]; o++) {
            const struct oip_tensor_answer tensor = oip_output_of(&answer, outputs[o].name);
            double *got = oip_numbers(&tensor);
            double *want =
                answer_numbers(native, outputs[o].name, outputs[o].rank, outputs[o].shape);
            assert_int_equal(tensor.rank, outputs[o].rank + 1);
            assert_int_equal(tensor.shape[0], 3);
            const int64_t each = tensor.count / 3;
            assert_memory_equal(got + b * each, want, (size_t)each * sizeof *got);
            free(got);
            free(want);
        }
        cJSON_Delete(native);
        free(body.data);
    }
    oip_answer_free(&answer);
    oip_request_free(&request);
    free(data.data);
}

/* Options of the native API, and the same options as parameters and inputs. */
static const struct {
    const char *model, *native, *parameters;
    const char *inputs[4][4]; /* name, datatype, shape, data */
} SAME[] = {
    { "demo", "\"causal\":true", "\"causal\":true", { { NULL } } },
    { "demo", "\"causal\":true", "\"causal\":1", { { NULL } } },
    { "demo", "\"scale\":0.25,\"softcap\":2", "\"scale\":0.25,\"softcap\":2", { { NULL } } },
    { "demo",
      "\"window_left\":1,\"window_right\":0",
      "\"window_left\":1,\"window_right\":0",
      { { NULL } } },
    { "demo", "\"causal\":true,\"past_len\":1", "\"causal\":true,\"past_len\":1", { { NULL } } },
    { "demo", "\"causal\":true,\"kv_offset\":1", "\"causal\":true,\"kv_offset\":1", { { NULL } } },
    { "demo", "\"normalizer\":\"sparsemax\"", "\"normalizer\":\"sparsemax\"", { { NULL } } },
    { "demo", "\"dropout\":0.5,\"seed\":7", "\"dropout\":0.5,\"seed\":7", { { NULL } } },
    { "demo", "\"q_heads\":1,\"kv_heads\":1", "\"q_heads\":1,\"kv_heads\":1", { { NULL } } },
    { "demo",
      "\"alibi_slopes\":[0.5],\"sinks\":[1]",
      "\"alibi_slopes\":\"0.5\",\"sinks\":\"1\"",
      { { NULL } } },
    { "demo",
      "\"alibi_slopes\":[0.5],\"sinks\":[1]",
      NULL,
      { { "alibi_slopes", "FP32", "[1]", "[0.5]" }, { "sinks", "FP32", "[1]", "[1]" } } },
    { "demo", "\"kv_len\":2", NULL, { { "kv_len", "INT64", "[1]", "[2]" } } },
    { "demo", "\"kv_len\":2", NULL, { { "kv_len", "UINT8", "[]", "[2]" } } },
    { "demo", "\"kv_len\":[1,2,3,4]", NULL, { { "kv_len", "INT64", "[4]", "[1,2,3,4]" } } },
    { "demo",
      "\"mask\":[[0,null,1,0],[0,0,0,0],[0,1,2,3],[0,0,0,null]]",
      NULL,
      { { "mask", "FP32", "[4,4]", "[0,null,1,0,0,0,0,0,0,1,2,3,0,0,0,null]" } } },
    { "demo",
      "\"mask\":[[0,0,1,0],[0,0,0,0],[0,1,2,3],[0,0,0,0.5]]",
      NULL,
      { { "mask", "BF16", "[1,4,4]", "[0,0,1,0,0,0,0,0,0,1,2,3,0,0,0,0.5]" } } },
    { "demo",
      "\"mask\":[[true,false,true,true],[true,true,true,true],[false,false,false,false],"
      "[false,true,true,true]]",
      NULL,
      { { "mask", "BOOL", "[4,4]",
          "[true,false,true,true,true,true,true,true,false,false,false,false,0,1,1,1]" } } },
    { "demo",
      "\"key\":[[1,2,3],[3,2,1]],\"value\":[[1,0,2],[0,1,1]]",
      NULL,
      { { "key", "FP32", "[2,3]", "[1,2,3,3,2,1]" },
        { "value", "FP64", "[2,3]", "[[1,0,2],[0,1,1]]" } } },
};

TEST(options_are_those_of_the_native_api)
{
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        struct oip_request request = { .parameters = SAME[i].parameters };
        struct request_text body = { 0 };
        oip_add_json(&request, "query", "FP32", "[4,3]", WORDS);
        for (int j = 0; j < 4 && SAME[i].inputs[j][0]; j++)
            oip_add_json(&request, SAME[i].inputs[j][0], SAME[i].inputs[j][1], SAME[i].inputs[j][2],
                         SAME[i].inputs[j][3]);
        request_text_add(&body, "{\"model\":\"%s\",\"query\":" WORDS_ROWS ",%s}", SAME[i].model,
                         SAME[i].native);
        cJSON *native = answer_post(&client, "/v1/attention", body.data);
        struct oip_answer answer = oip_post(&client, SAME[i].model, &request);
        static const char *const names[] = { "context", "weights" };
        for (int o = 0; o < 2; o++) {
            const struct oip_tensor_answer tensor = oip_output_of(&answer, names[o]);
            double *got = oip_numbers(&tensor);
            double *want = answer_numbers(native, names[o], tensor.rank, tensor.shape);
            if (memcmp(got, want, (size_t)tensor.count * sizeof *got) != 0)
                fail_msg("%s differs with %s", names[o], SAME[i].native);
            free(got);
            free(want);
        }
        cJSON_Delete(native);
        oip_answer_free(&answer);
        oip_request_free(&request);
        free(body.data);
    }
}

TEST(masks_of_a_batch)
{
    static const struct {
        const char *shape, *data;
    } masks[] = {
        { "[2,2]", "[true,false,true,true]" },
        { "[2,2,2]", "[true,false,true,true,true,false,true,true]" },
        { "[2,1,2,2]", "[true,false,true,true,true,false,true,true]" },
    };
    struct oip_answer want = ask_words("[2,2,3]", WORDS, JSON("causal":true));
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        struct oip_request request = { 0 };
        oip_add_json(&request, "query", "FP32", "[2,2,3]", WORDS);
        oip_add_json(&request, "mask", "BOOL", masks[i].shape, masks[i].data);
        struct oip_answer answer = oip_post(&client, "demo", &request);
        answer_expect_equal(answer.json, want.json, "outputs");
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
    oip_answer_free(&want);
    struct oip_request request = { 0 };
    oip_add_json(&request, "query", "FP32", "[2,2,3]", WORDS);
    oip_add_json(&request, "kv_len", "INT64", "[2,2]", "[1,2,1,2]"); /* the same as causal */
    struct oip_answer answer = oip_post(&client, "demo", &request);
    want = ask_words("[2,2,3]", WORDS, JSON("causal":true));
    answer_expect_equal(answer.json, want.json, "outputs");
    oip_answer_free(&answer);
    oip_answer_free(&want);
    oip_request_free(&request);
}

/* A trained model of several layers and heads. */
TEST(layers_and_heads)
{
    struct fill fill = { 5 };
    float values[2 * 64];
    struct request_text rows = { 0 }, body = { 0 };
    struct oip_request request = { .parameters = "\"layer\":3" };
    fill_floats(&fill, values, 128, -1, 1);
    request_text_matrix(&rows, values, 2, 64);
    request_text_add(&body, JSON({"model":"stories260K","layer":3,"query":%s}), rows.data);
    oip_add_json(&request, "query", "FP32", "[1,2,64]", rows.data);
    cJSON *native = answer_post(&client, "/v1/attention", body.data);
    struct oip_answer answer = oip_post(&client, "stories%32%360K", &request);
    static const int64_t context[] = { 1, 2, 64 }, weights[] = { 1, 8, 2, 2 };
    double *want = answer_numbers(native, "context", 2, context + 1);
    oip_expect_numbers(&answer, "context", "FP32", 3, context, want, 0);
    free(want);
    want = answer_numbers(native, "weights", 3, weights + 1);
    oip_expect_numbers(&answer, "weights", "FP32", 4, weights, want, 0);
    free(want);
    cJSON_Delete(native);
    oip_answer_free(&answer);
    oip_request_free(&request);
    free(rows.data);
    free(body.data);
}

/* -------------------------------------------------------------- protocol -- */

TEST(the_envelope)
{
    struct oip_request request = {
        .id = "a \\\"quoted\\\" id",
        .parameters = "\"priority\":1,\"timeout\":20000000,\"sequence_id\":7,"
                      "\"sequence_start\":true,\"sequence_end\":false,\"headers\":\"x\","
                      "\"triton_final_response\":true,\"content_type\":\"np\",\"softcap\":null",
    };
    oip_add_json(&request, "query", "FP32", "[4,3]", WORDS);
    oip_ask(&request, "lse", JSON("binary_data":false));
    oip_ask(&request, "context", JSON("classification":0));
    struct oip_answer answer = oip_post(&client, "demo", &request);
    answer_expect_members(answer.json, "model_name,model_version,id,outputs");
    assert_string_equal(cJSON_GetObjectItem(answer.json, "id")->valuestring, "a \"quoted\" id");
    const cJSON *outputs = cJSON_GetObjectItem(answer.json, "outputs");
    assert_int_equal(cJSON_GetArraySize(outputs), 2);
    answer_expect_members(cJSON_GetArrayItem(outputs, 0), "name,datatype,shape,data");
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(outputs, 0), "name")->valuestring,
                        "lse");
    char timing[160];
    assert_non_null(http_response_header(&answer.response, "Server-Timing", timing, sizeof timing));
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* With and without a version, with several Content-Types and none, with unknown keys, and with
 * outputs that set no options. */
TEST(ways_of_asking)
{
    static const char *const none[] = { "Content-Type:", NULL };
    static const char *const form[] = { "Content-Type: application/x-www-form-urlencoded", NULL };
    static const char *const json[] = { "Content-Type: application/json; charset=utf-8", NULL };
    static const struct http_request requests[] = {
        { .path = "/v2/models/demo/infer", .headers = none },
        { .path = "/v2/models/demo/infer", .headers = form },
        { .path = "/v2/models/demo/infer", .headers = json },
        { .path = "/v2/models/d%65mo/infer" },
        { .path = "/v2/models/demo/versions/1/infer" },
        { .path = "/v2/models/demo/infer", .chunked = true },
    };
    static const char *const bodies[] = {
        "{\"inputs\":[{\"name\":\"query\",\"shape\":[4,3],\"datatype\":\"FP32\",\"data\":" WORDS
        "}]}",
        "{\"model_name\":\"other\",\"extra\":{},\"outputs\":[],\"parameters\":null,\"inputs\":[{"
        "\"name\":\"query\",\"shape\":[4,3],\"datatype\":\"FP32\",\"parameters\":{\"x\":1},"
        "\"extra\":1,\"data\":" WORDS "}]}",
    };
    struct oip_answer want = ask_words("[4,3]", WORDS, NULL);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        for (size_t j = 0; j < sizeof bodies / sizeof bodies[0]; j++) {
            struct http_request request = requests[i];
            request.body = bodies[j];
            struct oip_answer answer = oip_answer_of(http_client_send(&client, &request));
            answer_expect_equal(answer.json, want.json, "outputs");
            oip_answer_free(&answer);
        }
    oip_answer_free(&want);
}

/* aiohttp calls all bytes octet-stream, and so tritonclient.http.aio sends JSON under this type. */
TEST(json_said_to_be_bytes)
{
    static const char *const headers[] = { "Content-Type: application/octet-stream", NULL };
    static const char BODY[] = "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\","
                               "\"shape\":[4,3],\"data\":" WORDS "}]}";
    struct oip_answer want = ask_words("[4,3]", WORDS, NULL);
    struct oip_answer answer = oip_answer_of(http_client_send(
        &client, &(struct http_request){
                     .path = "/v2/models/demo/infer", .body = BODY, .headers = headers }));
    answer_expect_equal(answer.json, want.json, "outputs");
    oip_answer_free(&answer);
    oip_answer_free(&want);
}

TEST(classification)
{
    struct oip_request request = { 0 };
    oip_add_json(&request, "query", "FP32", "[4,3]", WORDS);
    oip_ask(&request, "weights", JSON("classification":2));
    oip_ask(&request, "context", JSON("classification":1000000000000));
    struct oip_answer answer = oip_post(&client, "demo", &request);
    const struct oip_tensor_answer weights = oip_output_of(&answer, "weights");
    const struct oip_tensor_answer context = oip_output_of(&answer, "context");
    assert_string_equal(weights.datatype, "BYTES");
    assert_int_equal(weights.rank, 3);
    assert_int_equal(weights.shape[2], 2);
    assert_int_equal(cJSON_GetArraySize(weights.data), 8);
    oip_expect_class(cJSON_GetArrayItem(weights.data, 0)->valuestring, 0.74913037, 2);
    oip_expect_class(cJSON_GetArrayItem(weights.data, 1)->valuestring, 0.23608993, 0);
    oip_expect_class(cJSON_GetArrayItem(weights.data, 2)->valuestring, 0.4548263, 0);
    oip_expect_class(cJSON_GetArrayItem(weights.data, 3)->valuestring, 0.4548263, 2);
    assert_int_equal(context.shape[1], 3); /* a row has no more numbers */
    oip_answer_free(&answer);
    oip_request_free(&request);
}

TEST(an_answer_has_the_datatype_of_its_query)
{
    static const struct {
        const char *datatype;
        double tolerance;
    } kinds[] = { { "FP16", 1e-3 }, { "BF16", 8e-3 }, { "FP64", 1e-6 }, { "FP32", 0 } };
    struct oip_answer exact = ask_words("[4,3]", WORDS, NULL);
    const struct oip_tensor_answer wanted = oip_output_of(&exact, "context");
    double *want = oip_numbers(&wanted);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct oip_request request = { 0 };
        oip_add_json(&request, "query", kinds[i].datatype, "[4,3]", WORDS);
        struct oip_answer answer = oip_post(&client, "demo", &request);
        oip_expect_numbers(&answer, "context", kinds[i].datatype, 2, (const int64_t[]){ 4, 3 },
                           want, kinds[i].tolerance);
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
    free(want);
    oip_answer_free(&exact);
}

TEST(nothing_is_something_too)
{
    static const struct {
        const char *shape;
        int rank;
        int64_t context[3], weights[4];
    } empty[] = {
        { "[0,3]", 2, { 0, 3 }, { 1, 0, 0 } },
        { "[2,0,3]", 3, { 2, 0, 3 }, { 2, 1, 0, 0 } },
        { "[0,5,3]", 3, { 0, 5, 3 }, { 0, 1, 5, 5 } },
    };
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        struct oip_answer answer = ask_words(empty[i].shape, "[]", NULL);
        oip_expect_numbers(&answer, "context", "FP32", empty[i].rank, empty[i].context, NULL, 0);
        oip_expect_numbers(&answer, "weights", "FP32", empty[i].rank + 1, empty[i].weights, NULL,
                           0);
        oip_answer_free(&answer);
    }
}

ALL_TESTS(fixture_start_with_examples, fixture_stop);
