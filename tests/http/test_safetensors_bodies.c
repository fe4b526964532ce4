/* test_safetensors_bodies.c - calls and answers as safetensors files.
 *
 * The tutorial's numbers first; then every answer of this form is held to the last bit
 * against the one in JSON, whose numbers the other tests hold against others'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "daemon.h"
#include "model_bytes.h"
#include "tensor_body.h"
#include "tensor_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PATH[] = "/v1/attention";

static struct daemon server;
static struct http_client client;

static const float WORDS[4][3] = { { 1, 0, 0 }, { 0, 1, 0 }, { 1, 1, 0 }, { 0, 0, 1 } };

static struct tensor_body words(void)
{
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "query", "F32", "[4,3]", WORDS, sizeof WORDS);
    return body;
}

/* The numbers of a JSON answer are those of the tensor, to the last bit. */
static void expect_equal(const cJSON *json, const char *name, const void *data, int rank,
                         const int64_t *shape)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)shape[i];
    double *numbers = answer_numbers(json, name, rank, shape);
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)data + i * sizeof value, sizeof value);
        assert_true(value == (float)numbers[i]);
    }
    free(numbers);
}

static void test_tutorial(void **state)
{
    (void)state;
    static const double CONTEXT[] = MODEL_BYTES_CONTEXT;
    static const float MATRICES[][4] = { { 0.23608993f, 0.007389876f, 0.74913037f, 0.007389876f } };
    const struct tensor_body body = words();
    for (int pad = 0; pad < 9; pad++) { /* of any alignment */
        struct http_response response =
            tensor_body_post(&client, PATH, &body, "{\"model\":\"demo\"}", pad, NULL);
        cJSON *header = tensor_body_header(&response);
        const float *context = tensor_body_find(&response, header, "context", "F32", "[4,3]");
        const float *weights = tensor_body_find(&response, header, "weights", "F32", "[1,4,4]");
        for (int i = 0; i < 3; i++)
            assert_true(fabs((double)context[i] - CONTEXT[i]) < 1e-6);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(weights[i] - MATRICES[0][i]) < 1e-6f);
        const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
        assert_string_equal(cJSON_GetObjectItem(metadata, "model")->valuestring, "demo");
        assert_string_equal(cJSON_GetObjectItem(metadata, "layer")->valuestring, "0");
        assert_int_equal(cJSON_GetArraySize(header), 3);
        cJSON_Delete(header);
        http_response_free(&response);
    }
}

/* The same call in both forms, each answered in both. */
static void same_in_both_forms(const char *path, const struct tensor_body *body,
                               const char *metadata, const char *json)
{
    struct http_response plain = http_client_post(&client, path, json);
    struct http_response file_to_json =
        tensor_body_post(&client, path, body, metadata, 3, "application/json");
    struct http_response json_to_file = tensor_body_post_json(&client, path, json);
    struct http_response file_to_file =
        tensor_body_post(&client, path, body, metadata, 5, "application/x-safetensors");
    cJSON_Delete(answer_json(&plain, 200));
    cJSON_Delete(answer_json(&file_to_json, 200));
    assert_string_equal(file_to_json.body, plain.body);
    cJSON_Delete(tensor_body_header(&json_to_file));
    cJSON_Delete(tensor_body_header(&file_to_file));
    assert_int_equal(file_to_file.body_size, json_to_file.body_size);
    assert_memory_equal(file_to_file.body, json_to_file.body, json_to_file.body_size);
    http_response_free(&plain);
    http_response_free(&file_to_json);
    http_response_free(&json_to_file);
    http_response_free(&file_to_file);
}

static void test_both_forms(void **state)
{
    (void)state;
    struct tensor_body body = words();
    same_in_both_forms(PATH, &body, "{\"model\":\"demo\",\"format\":\"pt\"}",
                       "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS "}");
    same_in_both_forms(
        PATH, &body,
        "{\"model\":\"demo\",\"causal\":\"true\",\"scale\":\"0.25\","
        "\"outputs\":\"[\\\"lse\\\",\\\"context\\\",\\\"masked\\\"]\",\"layer\":\"0\"}",
        "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS ",\"causal\":true,"
        "\"scale\":0.25,\"outputs\":[\"lse\",\"context\",\"masked\"]}");
    same_in_both_forms(PATH, &body,
                       "{\"model\":\"demo\",\"kv_len\":\"2\",\"normalizer\":\"sparsemax\","
                       "\"weight_map\":\"{\\\"top_k\\\":2}\"}",
                       "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS ",\"kv_len\":2,"
                       "\"normalizer\":\"sparsemax\",\"weight_map\":{\"top_k\":2}}");
    static const int64_t LENGTH = 3;
    struct tensor_body one = body, scalar = body, rows = body;
    tensor_body_add(&one, "kv_len", "I64", "[1]", &LENGTH, sizeof LENGTH);
    tensor_body_add(&scalar, "kv_len", "I64", "[]", &LENGTH, sizeof LENGTH);
    tensor_body_add(&rows, "kv_len", "I32", "[4]", (int32_t[]){ 4, 0, 2, 1 }, 16);
    const char *const json = "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS ",\"kv_len\":3}";
    same_in_both_forms(PATH, &one, "{\"model\":\"demo\"}", json);
    same_in_both_forms(PATH, &scalar, "{\"model\":\"demo\"}", json);
    same_in_both_forms(PATH, &rows, "{\"model\":\"demo\"}",
                       "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS ",\"kv_len\":[4,0,2,1]}");
}

static void test_all_tensors(void **state)
{
    (void)state;
    static const float QUERY[] = { 1, 2, 3, 4, -1, 0.5f, 0.25f, 8 };
    static const float KEY[] = { 0.5f, 1, -1, 2, 3, -0.5f };
    static const float VALUE[] = { 1, 2, 3, 4, 5, 6 };
    static const float SLOPES[] = { 0.5f, 0.25f }, SINKS[] = { 0, -1.5f };
    static const float FLOATS[] = { 0, -INFINITY, 0.5f, 1, -1, -INFINITY };
    static const unsigned char BOOLS[] = { 1, 0, 1, 1, 1, 0 };
    struct tensor_body body = { .used = 0 }, booleans;
    tensor_body_add(&body, "value", "F32", "[3,2]", VALUE, sizeof VALUE);
    tensor_body_add(&body, "sinks", "F32", "[2]", SINKS, sizeof SINKS);
    tensor_body_add(&body, "query", "F32", "[2,4]", QUERY, sizeof QUERY);
    tensor_body_add(&body, "key", "F32", "[3,2]", KEY, sizeof KEY);
    tensor_body_add(&body, "alibi_slopes", "F32", "[2]", SLOPES, sizeof SLOPES);
    booleans = body;
    tensor_body_add(&body, "mask", "F32", "[2,3]", FLOATS, sizeof FLOATS);
    tensor_body_add(&booleans, "mask", "BOOL", "[2,3]", BOOLS, sizeof BOOLS);
#define ARRAYS                                                                                     \
    "{\"model\":\"sdpa\",\"q_heads\":2,\"kv_heads\":1,\"query\":[[1,2,3,4],[-1,0.5,0.25,8]],"      \
    "\"key\":[[0.5,1],[-1,2],[3,-0.5]],\"value\":[[1,2],[3,4],[5,6]],"                             \
    "\"alibi_slopes\":[0.5,0.25],\"sinks\":[0,-1.5],"
    static const char METADATA[] = "{\"model\":\"sdpa\",\"q_heads\":\"2\",\"kv_heads\":\"1\"}";
    same_in_both_forms(PATH, &body, METADATA, ARRAYS "\"mask\":[[0,null,0.5],[1,-1,null]]}");
    same_in_both_forms(PATH, &booleans, METADATA,
                       ARRAYS "\"mask\":[[true,false,true],[true,true,false]]}");
    tensor_body_add(&body, "context_gradient", "F32", "[2,4]", QUERY, sizeof QUERY);
    same_in_both_forms("/v1/attention/gradients", &body, METADATA,
                       ARRAYS "\"mask\":[[0,null,0.5],[1,-1,null]],"
                              "\"context_gradient\":[[1,2,3,4],[-1,0.5,0.25,8]]}");
#undef ARRAYS
}

/* Every output and every gradient, bit for bit what JSON says. */
static void test_bits_of_json(void **state)
{
    (void)state;
    static const char *const NAMES[] = { "weights", "scores", "softcapped", "masked" };
    const char *const json =
        "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS ",\"softcap\":5,\"outputs\":"
        "[\"context\",\"weights\",\"scores\",\"softcapped\",\"masked\",\"lse\"]}";
    struct http_response response = tensor_body_post_json(&client, PATH, json);
    cJSON *header = tensor_body_header(&response), *answer = answer_post(&client, PATH, json);
    for (int i = 0; i < 4; i++)
        expect_equal(answer, NAMES[i],
                     tensor_body_find(&response, header, NAMES[i], "F32", "[1,4,4]"), 3,
                     (int64_t[]){ 1, 4, 4 });
    expect_equal(answer, "context", tensor_body_find(&response, header, "context", "F32", "[4,3]"),
                 2, (int64_t[]){ 4, 3 });
    expect_equal(answer, "lse", tensor_body_find(&response, header, "lse", "F32", "[1,4]"), 2,
                 (int64_t[]){ 1, 4 });
    cJSON_Delete(header);
    cJSON_Delete(answer);
    http_response_free(&response);

    const char *const gradients = "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS
                                  ",\"context_gradient\":[[1,2,3],[4,5,6],[-1,-2,-3],[0,0.5,0]]}";
    response = tensor_body_post_json(&client, "/v1/attention/gradients", gradients);
    header = tensor_body_header(&response);
    answer = answer_post(&client, "/v1/attention/gradients", gradients);
    expect_equal(answer, "query", tensor_body_find(&response, header, "query", "F32", "[4,3]"), 2,
                 (int64_t[]){ 4, 3 });
    expect_equal(answer, "input", tensor_body_find(&response, header, "input", "F32", "[4,3]"), 2,
                 (int64_t[]){ 4, 3 });
    expect_equal(cJSON_GetObjectItem(answer, "parameters"), "k_proj.weight",
                 tensor_body_find(&response, header, "k_proj.weight", "F32", "[3,3]"), 2,
                 (int64_t[]){ 3, 3 });
    assert_int_equal(cJSON_GetArraySize(header), 1 + 4 + 3);
    cJSON_Delete(header);
    cJSON_Delete(answer);
    http_response_free(&response);
}

static void test_top_k(void **state)
{
    (void)state;
    struct tensor_body body = words();
    struct http_response response =
        tensor_body_post(&client, PATH, &body,
                         "{\"model\":\"demo\",\"outputs\":\"[\\\"weights\\\"]\",\"weight_map\":\"{"
                         "\\\"top_k\\\":2}\"}",
                         0, NULL);
    cJSON *header = tensor_body_header(&response);
    int64_t indices[2];
    float values[2];
    memcpy(indices, tensor_body_find(&response, header, "weights.indices", "I64", "[1,4,2]"),
           sizeof indices);
    memcpy(values, tensor_body_find(&response, header, "weights.values", "F32", "[1,4,2]"),
           sizeof values);
    assert_int_equal(indices[0], 2); /* 0.749 */
    assert_int_equal(indices[1], 0); /* 0.236 */
    assert_true(fabsf(values[0] - 0.74913037f) < 1e-6f && fabsf(values[1] - 0.23608993f) < 1e-6f);
    assert_int_equal(cJSON_GetArraySize(header), 3);
    cJSON_Delete(header);
    http_response_free(&response);
}

/* Answers come in the query's dtype, rounded from what F32 gives. */
static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        uint16_t one;      /* 1 in it, of those with two bytes */
        double resolution; /* relative */
    } CASES[] = { { "F16", 0x3C00, 1.0 / 2048 },
                  { "BF16", 0x3F80, 1.0 / 256 },
                  { "F64", 0, 1e-6 } };
    struct tensor_body plain = words();
    struct http_response floats =
        tensor_body_post(&client, PATH, &plain, "{\"model\":\"demo\"}", 0, NULL);
    cJSON *float_header = tensor_body_header(&floats);
    const float *expected = tensor_body_find(&floats, float_header, "context", "F32", "[4,3]");
    for (int c = 0; c < 3; c++) {
        uint16_t halves[12];
        double doubles[12];
        struct tensor_body body = { .used = 0 };
        for (int i = 0; i < 12; i++) {
            doubles[i] = (double)WORDS[i / 3][i % 3];
            halves[i] = doubles[i] != 0 ? CASES[c].one : 0;
        }
        if (CASES[c].one)
            tensor_body_add(&body, "query", CASES[c].dtype, "[4,3]", halves, sizeof halves);
        else
            tensor_body_add(&body, "query", CASES[c].dtype, "[4,3]", doubles, sizeof doubles);
        struct http_response response =
            tensor_body_post(&client, PATH, &body, "{\"model\":\"demo\"}", c, NULL);
        cJSON *header = tensor_body_header(&response);
        const char *context =
            tensor_body_find(&response, header, "context", CASES[c].dtype, "[4,3]");
        tensor_body_find(&response, header, "weights", CASES[c].dtype, "[1,4,4]");
        for (int i = 0; i < 12; i++) {
            double value;
            uint16_t half;
            memcpy(&half, context + 2 * i, sizeof half);
            if (c == 0) {
                value = (double)tensor_half(half);
            } else if (c == 1) {
                const uint32_t bits = (uint32_t)half << 16;
                float wide;
                memcpy(&wide, &bits, sizeof wide);
                value = (double)wide;
            } else {
                memcpy(&value, context + 8 * i, sizeof value);
            }
            assert_true(fabs(value - (double)expected[i])
                        <= CASES[c].resolution * fabs((double)expected[i]));
        }
        /* And in JSON the whole floats, whatever came. */
        struct http_response text =
            tensor_body_post(&client, PATH, &body, "{\"model\":\"demo\"}", c, "application/json");
        cJSON *answer = answer_json(&text, 200);
        answer_expect(answer, "context",
                      "[[0.98522025,1.7417405,0.7565202],"
                      "[0.9096526,1.4096526,0.5],"
                      "[0.9985122,1.7584933,0.7599811],"
                      "[0.9956039,1.9040734,0.9084693]]",
                      1e-6);
        cJSON_Delete(answer);
        http_response_free(&text);
        cJSON_Delete(header);
        http_response_free(&response);
    }
    cJSON_Delete(float_header);
    http_response_free(&floats);
}

static void test_empty(void **state)
{
    (void)state;
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "query", "F32", "[0,3]", "", 0);
    struct http_response response =
        tensor_body_post(&client, PATH, &body, "{\"model\":\"demo\"}", 0, NULL);
    cJSON *header = tensor_body_header(&response);
    tensor_body_find(&response, header, "context", "F32", "[0,3]");
    tensor_body_find(&response, header, "weights", "F32", "[1,0,0]");
    cJSON_Delete(header);
    http_response_free(&response);
}

static void refused(const struct tensor_body *body, const char *metadata, long status,
                    const char *code, const char *pointer)
{
    struct http_response response = tensor_body_post(&client, PATH, body, metadata, 0, NULL);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
}

static void test_refused_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name, *dtype, *shape;
        size_t size;
        const char *code, *pointer;
    } CASES[] = {
        { "key", "I64", "[1,3]", 24, "dtype", "/key" },
        { "key", "BOOL", "[1,3]", 3, "dtype", "/key" },
        { "key", "F8_E4M3", "[1,3]", 3, "dtype", "/key" },
        { "key", "F32", "[1,2]", 8, "shape", "/key" },
        { "key", "F32", "[]", 4, "shape", "/key" },
        { "key", "F32", "[1,1,1,1,1,1,1,1,3]", 12, "shape", "/key" },
        { "key", "F32", "[0,9223372036854775807]", 0, "shape", "/key" },
        { "keys", "F32", "[1,3]", 12, "field", "/keys" },
        { "ke/y~", "F32", "[1,3]", 12, "field", "/ke~1y~0" },
        { "context_gradient", "F32", "[4,3]", 48, "field", "/context_gradient" },
        { "mask", "I32", "[4,4]", 64, "dtype", "/mask" },
        { "mask", "F32", "[4]", 16, "shape", "/mask" },
        { "kv_len", "F32", "[1]", 4, "dtype", "/kv_len" },
        { "kv_len", "BOOL", "[1]", 1, "dtype", "/kv_len" },
        { "kv_len", "I64", "[1,1]", 8, "shape", "/kv_len" },
        { "kv_len", "I64", "[3]", 24, "shape|length", "/kv_len" },
        { "kv_len", "I64", "[0]", 0, "shape|length", "/kv_len" },
        { "sinks", "F32", "[1,1]", 4, "shape", "/sinks" },
    };
    static const char ZEROS[128];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct tensor_body body = words();
        tensor_body_add(&body, CASES[i].name, CASES[i].dtype, CASES[i].shape, ZEROS, CASES[i].size);
        refused(&body, "{\"model\":\"demo\"}", 400, CASES[i].code, CASES[i].pointer);
    }
    struct tensor_body body = words();
    tensor_body_add(&body, "kv_len", "I32", "[1]", (int32_t[]){ -1 }, 4);
    refused(&body, "{\"model\":\"demo\"}", 400, "length", "/kv_len");
    body = words();
    tensor_body_add(&body, "mask", "BOOL", "[4,4]", "\1\1\1\1\1\1\1\2\1\1\1\1\1\1\1\1", 16);
    refused(&body, "{\"model\":\"demo\"}", 400, "binary", "/mask");
    memset(&body, 0, sizeof body);
    refused(&body, "{\"model\":\"demo\"}", 400, "field", "/query");
}

static void test_refused_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *metadata;
        long status;
        const char *code, *pointer;
    } CASES[] = {
        { "{\"model\":\"none\"}", 404, "not_found", NULL },
        { "{\"model\":\"demo\",\"caussal\":\"true\"}", 400, "field", "/caussal" },
        { "{\"model\":\"demo\",\"causal\":\"yes\"}", 400, "type", "/causal" },
        { "{\"model\":\"demo\",\"causal\":\"1\"}", 400, "type", "/causal" },
        { "{\"model\":\"demo\",\"causal\":\"\"}", 400, "type", "/causal" },
        { "{\"model\":\"demo\",\"causal\":\"true,\\\"scale\\\":2\"}", 400, "type", "/causal" },
        { "{\"model\":\"demo\",\"scale\":\"NaN\"}", 400, "type", "/scale" },
        { "{\"model\":\"demo\",\"layer\":\"7\"}", 404, "not_found", NULL },
        { "{\"model\":\"demo\",\"outputs\":\"context\"}", 400, "type", "/outputs" },
        { "{\"model\":\"demo\",\"query\":\"[[1,2,3]]\"}", 400, "duplicate", "/query" },
        { "{\"model\":\"demo\",\"model\":\"demo\"}", 400, "duplicate", NULL },
        { "{\"model\":\"demo\",\"causal\":true}", 400, "json", NULL },
        { "{\"model\":\"de\\u0000mo\"}", 400, "field", "/model" },
        { "[]", 400, "json", NULL },
    };
    const struct tensor_body body = words();
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        refused(&body, CASES[i].metadata, CASES[i].status, CASES[i].code, CASES[i].pointer);
}

static void test_refused_bodies(void **state)
{
    (void)state;
    static const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
    static const struct {
        const char *bytes;
        size_t size;
    } BODIES[] = { { "", 0 },
                   { "\x02\0\0\0\0\0\0", 7 },
                   { "{\"query\":[[1]]}", 15 },
                   { "\x03\0\0\0\0\0\0\0{}", 10 },
                   { "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10 } };
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++)
        answer_send_refused(&client,
                            &(struct http_request){ .method = "POST",
                                                    .path = PATH,
                                                    .body = BODIES[i].bytes,
                                                    .body_size = BODIES[i].size,
                                                    .headers = headers },
                            400, "binary|json", NULL);
    /* A batch has no names for the tensors of its items. */
    const struct tensor_body body = words();
    struct http_response response =
        tensor_body_post(&client, "/v1/attention/batch", &body, "{\"model\":\"demo\"}", 0, NULL);
    answer_expect_fault(&response, 415, "content_type", NULL);
    http_response_free(&response);
}

static int start(void **state)
{
    (void)state;
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    http_client_free(&client);
    daemon_stop(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tutorial),
        cmocka_unit_test(test_both_forms),
        cmocka_unit_test(test_all_tensors),
        cmocka_unit_test(test_bits_of_json),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refused_tensors),
        cmocka_unit_test(test_refused_metadata),
        cmocka_unit_test(test_refused_bodies),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
