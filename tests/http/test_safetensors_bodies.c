/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors_bodies.c - calls and answers as safetensors files.
 *
 * The tutorial's numbers come first. Then every answer of this form must equal the JSON answer to
 * the last bit. Other tests compare the numbers of the JSON answers with those of other
 * implementations. */
#include "answer.h"
#include "fixture.h"
#include "model_bytes.h"
#include "tensor_body.h"
#include "tensor_file.h"
#include "test.h"

static const char PATH[] = "/v1/attention";

static const float WORDS[4][3] = { { 1, 0, 0 }, { 0, 1, 0 }, { 1, 1, 0 }, { 0, 0, 1 } };

static struct tensor_body words(void)
{
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "query", "F32", "[4,3]", WORDS, sizeof WORDS);
    return body;
}

/* Checks that the numbers of a JSON answer equal those of the tensor, to the last bit. */
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

TEST(tutorial)
{
    static const double CONTEXT[] = MODEL_BYTES_CONTEXT;
    static const float MATRICES[][4] = { { 0.23608993f, 0.007389876f, 0.74913037f, 0.007389876f } };
    const struct tensor_body body = words();
    for (int pad = 0; pad < 9; pad++) { /* so that the tensors have any alignment */
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

/* The same call in both forms; each is answered in both forms. */
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

TEST(both_forms)
{
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

TEST(all_tensors)
{
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

/* Every output and every gradient equals the JSON answer bit for bit. */
TEST(bits_of_json)
{
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

/* A partial answer is F32 whatever dtype came, because a merge follows: rounding happens once, at
 * the end. */
TEST(partial_answers_of_halves)
{
    static const uint16_t QUERY[] = { 0x3c00, 0, 0x3800, 0x4000 }; /* 1, 0, 0.5, 2 */
    struct tensor_body body = { 0 };
    tensor_body_add(&body, "query", "F16", "[2,2]", QUERY, sizeof QUERY);
    struct http_response response = tensor_body_post(
        &client, PATH, &body, "{\"model\":\"sdpa\",\"partial\":\"true\"}", 0, NULL);
    cJSON *header = tensor_body_header(&response);
    cJSON *json = answer_post(&client, PATH,
                              "{\"model\":\"sdpa\",\"partial\":true,\"query\":[[1,0],[0.5,2]]}");
    expect_equal(json, "context", tensor_body_find(&response, header, "context", "F32", "[1,2,2]"),
                 3, (const int64_t[]){ 1, 2, 2 });
    expect_equal(json, "lse", tensor_body_find(&response, header, "lse", "F32", "[1,2]"), 2,
                 (const int64_t[]){ 1, 2 });
    cJSON_Delete(json);
    cJSON_Delete(header);
    http_response_free(&response);
}

/* Partial answers of two heads over one row, worked out by hand as in test_merge.c. */
TEST(merge)
{
    static const char MERGE[] = "/v1/attention/merge";
    static const float CONTEXT_A[] = { 1, -8, 2, 2 }, LSE_A[] = { 1.0986122887f, 0 };
    static const float CONTEXT_B[] = { 5, 4, 4, 0 }, LSE_B[] = { 0, 0 };
    static const float WHOLE[] = { 2, -5, 3, 1 };
    struct tensor_body body = { .used = 0 }, odd, wrong;
    tensor_body_add(&body, "parts.1.lse", "F32", "[2,1]", LSE_B, sizeof LSE_B);
    tensor_body_add(&body, "parts.0.context", "F32", "[2,1,2]", CONTEXT_A, sizeof CONTEXT_A);
    tensor_body_add(&body, "parts.1.context", "F32", "[2,1,2]", CONTEXT_B, sizeof CONTEXT_B);
    odd = body;
    tensor_body_add(&body, "parts.0.lse", "F32", "[2,1]", LSE_A, sizeof LSE_A);
    struct http_response response =
        tensor_body_post(&client, MERGE, &body, "{\"model\":\"sdpa\"}", 1, NULL);
    cJSON *header = tensor_body_header(&response);
    const float *context = tensor_body_find(&response, header, "context", "F32", "[1,4]");
    const float *lse = tensor_body_find(&response, header, "lse", "F32", "[2,1]");
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(context[i] - WHOLE[i]) < 1e-5f);
    assert_true(fabsf(lse[0] - 1.3862943611f) < 1e-6f && fabsf(lse[1] - 0.6931471806f) < 1e-6f);
    cJSON_Delete(header);
    http_response_free(&response);
    same_in_both_forms(MERGE, &body, "{\"model\":\"sdpa\",\"layer\":\"0\"}",
                       "{\"model\":\"sdpa\",\"parts\":["
                       "{\"context\":[[[1,-8]],[[2,2]]],\"lse\":[[1.0986122887],[0]]},"
                       "{\"context\":[[[5,4]],[[4,0]]],\"lse\":[[0],[0]]}]}");

    static const char *const NAMES[] = {
        "parts.2.lse", "parts.00.lse", "parts..lse",
        "parts.lse",   "parts.0.lses", "parts.-1.lse",
        "query",       "parts.1e0",    "parts.99999999999999999999999.lse"
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        wrong = odd;
        tensor_body_add(&wrong, NAMES[i], "F32", "[2,1]", LSE_A, sizeof LSE_A);
        response = tensor_body_post(&client, MERGE, &wrong, JSON({"model":"sdpa"}), 0, NULL);
        answer_expect_fault(&response, 400, "field", NULL);
        http_response_free(&response);
    }
    wrong = odd;
    tensor_body_add(&wrong, "parts.0.lse", "F32", "[2]", LSE_A, sizeof LSE_A);
    response = tensor_body_post(&client, MERGE, &wrong, JSON({"model":"sdpa"}), 0, NULL);
    answer_expect_fault(&response, 400, "shape", "/parts/0/lse");
    http_response_free(&response);
    wrong = odd;
    tensor_body_add(&wrong, "parts.0.lse", "I64", "[1,1]", LSE_A, sizeof LSE_A);
    response = tensor_body_post(&client, MERGE, &wrong, JSON({"model":"sdpa"}), 0, NULL);
    answer_expect_fault(&response, 400, "dtype", "/parts/0/lse");
    http_response_free(&response);
    response = tensor_body_post(&client, MERGE, &odd, JSON({"model":"sdpa"}), 0, NULL);
    answer_expect_fault(&response, 400, "field", "/parts/0/lse");
    http_response_free(&response);
    memset(&wrong, 0, sizeof wrong);
    response = tensor_body_post(&client, MERGE, &wrong, JSON({"model":"sdpa"}), 0, NULL);
    answer_expect_fault(&response, 400, "field", "/parts");
    http_response_free(&response);
    response =
        tensor_body_post(&client, MERGE, &body, "{\"model\":\"sdpa\",\"parts\":\"[]\"}", 0, NULL);
    answer_expect_fault(&response, 400, "duplicate", "/parts");
    http_response_free(&response);
}

TEST(top_k)
{
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

/* A map of weights that the request does not ask for takes no digit from a computation in
 * double. */
TEST(a_map_that_is_not_asked_for)
{
    static const double QUERY[] = { 0.1, 0.2, 0.3, 1.7 };
    static const char *const METADATA[] = {
        "{\"model\":\"sdpa\",\"outputs\":\"[\\\"lse\\\"]\"}",
        "{\"model\":\"sdpa\",\"outputs\":\"[\\\"lse\\\"]\",\"weight_map\":\"{}\"}",
    };
    struct tensor_body body = { 0 };
    double lse[2][2];
    tensor_body_add(&body, "query", "F64", "[2,2]", QUERY, sizeof QUERY);
    for (int i = 0; i < 2; i++) {
        struct http_response response =
            tensor_body_post(&client, PATH, &body, METADATA[i], 0, NULL);
        cJSON *header = tensor_body_header(&response);
        memcpy(lse[i], tensor_body_find(&response, header, "lse", "F64", "[1,2]"), sizeof lse[i]);
        cJSON_Delete(header);
        http_response_free(&response);
    }
    assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
}

/* Answers have the query's dtype; they are rounded from the F32 answer. */
TEST(dtypes)
{
    static const struct {
        const char *dtype;
        uint16_t one;      /* the bits of 1, if the dtype has two bytes */
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
        /* A JSON answer has the full floats, whatever dtype came. */
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

/* lse of halves is F32, in every form of the answer and in a list of them, of sdpa, which computes
 * in the query's dtype, and of models: these of 400 and 1000 would have steps of 0.25 and 8. */
TEST(lse_of_halves)
{
    static const struct {
        const char *model, *dtype, *shape, *lse_shape;
        uint16_t query[3];
        int count;
    } CASES[] = {
        { "sdpa", "F16", "[2,1]", "[1,2]", { 0x4d01, 0x4d02 }, 2 },
        { "sdpa", "BF16", "[2,1]", "[1,2]", { 0x4201, 0x4202 }, 2 },
        { "demo", "F16", "[1,3]", "[1,1]", { 0x4d01, 0x4d02, 0x4d03 }, 3 },
        { "demo", "BF16", "[1,3]", "[1,1]", { 0x4201, 0x4202, 0x4203 }, 3 },
    };
    for (size_t c = 0; c < sizeof CASES / sizeof CASES[0]; c++) {
        float floats[3], half_lse[2];
        const size_t rows = strcmp(CASES[c].model, "sdpa") == 0 ? 2 : 1;
        char metadata[96];
        snprintf(metadata, sizeof metadata, "{\"model\":\"%s\",\"outputs\":\"[\\\"lse\\\"]\"}",
                 CASES[c].model);
        for (int i = 0; i < CASES[c].count; i++) {
            const uint32_t wide = (uint32_t)CASES[c].query[i] << 16;
            memcpy(&floats[i], &wide, sizeof wide);
            if (strcmp(CASES[c].dtype, "F16") == 0)
                floats[i] = tensor_half(CASES[c].query[i]);
        }
        struct tensor_body halves = { .used = 0 }, plain = { .used = 0 };
        tensor_body_add(&halves, "query", CASES[c].dtype, CASES[c].shape, CASES[c].query,
                        2 * (size_t)CASES[c].count);
        tensor_body_add(&plain, "query", "F32", CASES[c].shape, floats,
                        sizeof(float) * (size_t)CASES[c].count);
        struct http_response one = tensor_body_post(&client, PATH, &halves, metadata, 0, NULL);
        struct http_response two = tensor_body_post(&client, PATH, &plain, metadata, 0, NULL);
        struct http_response npy =
            tensor_body_post(&client, PATH, &halves, metadata, 0, "application/x-npy");
        struct http_response text =
            tensor_body_post(&client, PATH, &halves, metadata, 0, "application/json");
        cJSON *header = tensor_body_header(&one), *float_header = tensor_body_header(&two);
        memcpy(half_lse, tensor_body_find(&one, header, "lse", "F32", CASES[c].lse_shape),
               rows * sizeof *half_lse);
        assert_memory_equal(half_lse,
                            tensor_body_find(&two, float_header, "lse", "F32", CASES[c].lse_shape),
                            rows * sizeof *half_lse);
        assert_int_equal(npy.status, 200);
        assert_memory_equal(npy.body + npy.body_size - rows * sizeof *half_lse, half_lse,
                            rows * sizeof *half_lse);
        cJSON *json = answer_json(&text, 200);
        expect_equal(json, "lse", half_lse, 2, (const int64_t[]){ 1, (int64_t)rows });
        cJSON_Delete(json);
        cJSON_Delete(header);
        cJSON_Delete(float_header);
        http_response_free(&one);
        http_response_free(&two);
        http_response_free(&npy);
        http_response_free(&text);
    }
}

/* Contexts of halves are merged by the lse of floats that comes with them, and the whole has both
 * dtypes too. */
TEST(merge_of_halves)
{
    static const uint16_t A[] = { 0x3f80, 0xc100, 0x4000, 0x4000 }; /* 1, -8, 2, 2 as BF16 */
    static const uint16_t B[] = { 0x40a0, 0x4080, 0x4080, 0 };      /* 5, 4, 4, 0 */
    static const float LSE_A[] = { 1000.0986122887f, 1000 }, LSE_B[] = { 999, 1000 };
    static const float ALL[2][4] = { { 1, -8, 2, 2 }, { 5, 4, 4, 0 } };
    struct http_response answers[2];
    cJSON *headers[2];
    for (int i = 0; i < 2; i++) {
        struct tensor_body body = { .used = 0 };
        const char *dtype = i == 0 ? "BF16" : "F32";
        const size_t size = i == 0 ? sizeof A : sizeof ALL[0];
        tensor_body_add(&body, "parts.0.context", dtype, "[2,1,2]", i == 0 ? A : (void *)ALL[0],
                        size);
        tensor_body_add(&body, "parts.1.context", dtype, "[2,1,2]", i == 0 ? B : (void *)ALL[1],
                        size);
        tensor_body_add(&body, "parts.0.lse", "F32", "[2,1]", LSE_A, sizeof LSE_A);
        tensor_body_add(&body, "parts.1.lse", "F32", "[2,1]", LSE_B, sizeof LSE_B);
        answers[i] = tensor_body_post(&client, "/v1/attention/merge", &body, "{\"model\":\"sdpa\"}",
                                      0, NULL);
        headers[i] = tensor_body_header(&answers[i]);
        tensor_body_find(&answers[i], headers[i], "context", dtype, "[1,4]");
    }
    assert_memory_equal(tensor_body_find(&answers[0], headers[0], "lse", "F32", "[2,1]"),
                        tensor_body_find(&answers[1], headers[1], "lse", "F32", "[2,1]"),
                        2 * sizeof(float));
    for (int i = 0; i < 2; i++) {
        cJSON_Delete(headers[i]);
        http_response_free(&answers[i]);
    }
}

/* sdpa computes doubles as doubles: the answer keeps what a float would lose. */
TEST(doubles)
{
    static const double ZERO[] = { 0, 0 }, VALUE[] = { 1, 1.000000002 };
    struct tensor_body body = { .used = 0 };
    double context;
    tensor_body_add(&body, "query", "F64", "[1,1]", ZERO, 8);
    tensor_body_add(&body, "key", "F64", "[2,1]", ZERO, 16);
    tensor_body_add(&body, "value", "F64", "[2,1]", VALUE, 16);
    struct http_response response =
        tensor_body_post(&client, PATH, &body, "{\"model\":\"sdpa\"}", 0, NULL);
    cJSON *header = tensor_body_header(&response);
    memcpy(&context, tensor_body_find(&response, header, "context", "F64", "[1,1]"), 8);
    assert_true(fabs(context - 1.000000001) < 1e-15);
    cJSON_Delete(header);
    http_response_free(&response);
    response =
        tensor_body_post(&client, PATH, &body, "{\"model\":\"sdpa\"}", 0, "application/json");
    cJSON *answer = answer_json(&response, 200);
    answer_expect(answer, "context", "[[1]]", 1e-7);
    cJSON_Delete(answer);
    http_response_free(&response);
}

TEST(empty)
{
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

ALL_TESTS(fixture_start, fixture_stop);
