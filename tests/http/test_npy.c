/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy.c - calls and answers as .npy files: equal to the JSON answer to the last bit, or
 * refused in words. Other tests compare the numbers of the JSON answers with those of other
 * implementations. */
#include "answer.h"
#include "fixture.h"
#include "npy_bytes.h"
#include "tensor_body.h"
#include "test.h"

#define NPY   "application/x-npy"
#define CALL  "/v1/attention?model=demo"
#define WORDS "[[1,0,0],[0,1,0]]"

enum { HEAD_BYTES = 128 };

static const char FLOATS[] = NPY_HEAD("<f4", "(2, 3)") "\0\0\x80?\0\0\0\0\0\0\0\0"
                                                       "\0\0\0\0\0\0\x80?\0\0\0\0";
static const char HALVES[] = NPY_HEAD("<f2", "(2, 3)") "\0<\0\0\0\0\0\0\0<\0\0";
static const char DOUBLES[] = NPY_HEAD("<f8", "(2, 3)") "\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\0\0"
                                                        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                                        "\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\0\0";

static struct http_response post(const char *path, const char *body, size_t size, const char *type,
                                 const char *accept)
{
    char type_line[64], accept_line[96];
    snprintf(type_line, sizeof type_line, "Content-Type: %s", type);
    snprintf(accept_line, sizeof accept_line, "Accept: %s", accept);
    const char *const headers[] = { type_line, accept_line, NULL };
    return http_client_send(
        &client, &(struct http_request){
                     .path = path, .body = body, .body_size = size, .headers = headers });
}

/* Checks that the answer is a file with this head, and that its floats are those of the member of
 * the JSON answer. */
static void expect_floats(const struct http_response *response, const char *head, const cJSON *json,
                          const char *name, int rank, const int64_t *shape)
{
    double *numbers = answer_numbers(json, name, rank, shape);
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)shape[i];
    assert_int_equal(response->status, 200);
    assert_int_equal(response->body_size, HEAD_BYTES + count * sizeof(float));
    assert_memory_equal(response->body, head, HEAD_BYTES);
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, response->body + HEAD_BYTES + i * sizeof value, sizeof value);
        assert_true(value == (float)numbers[i]);
    }
    free(numbers);
}

/* Which form the answer has: by the quality values of Accept, then by the form of the request. */
TEST(accept)
{
    static const char JSON[] = "application/json", FILES[] = "application/x-safetensors";
    static const char BODY[] = "{\"model\":\"demo\",\"query\":" WORDS ",\"outputs\":[\"lse\"]}";
    static const struct {
        const char *path, *type, *accept, *want;
    } CASES[] = {
        { "/v1/attention", JSON, "application/x-safetensors;q=0, */*", JSON },
        { "/v1/attention", JSON, "application/x-safetensors;q=0.2, application/json", JSON },
        { "/v1/attention", JSON, "application/x-safetensors, application/json;q=0.2", FILES },
        { "/v1/attention", JSON, "application/x-npy;q=0, application/x-safetensors;q=0", JSON },
        { "/v1/attention", JSON, NPY ";q=0.3, application/x-safetensors;q=0.2", NPY },
        { "/v1/attention", JSON, NPY ";q=0.2, application/x-safetensors;q=0.3", FILES },
        { CALL "&outputs=lse", NPY, NPY ";q=0, */*", JSON },
        { CALL "&outputs=lse", NPY, "text/html, */*;q=0.1", NPY },
        { CALL "&outputs=lse", NPY, "application/json;q=0.1", JSON },
        { "/v1/softmax", JSON, NPY ";q=0, */*", JSON },
        { "/v1/softmax", JSON, NPY ";q=0.5, application/json;q=0.4", NPY },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const bool is_file = CASES[i].type != JSON;
        const char *json = strstr(CASES[i].path, "softmax") ? "{\"input\":[[1,2]]}" : BODY;
        struct http_response response =
            post(CASES[i].path, is_file ? FLOATS : json, is_file ? sizeof FLOATS - 1 : strlen(json),
                 CASES[i].type, CASES[i].accept);
        const char *got = "";
        if (response.body_size > 0)
            got = response.body[0] == '{'                      ? JSON
                  : memcmp(response.body, "\x93NUMPY", 6) == 0 ? NPY
                                                               : FILES;
        if (response.status != 200 || strcmp(got, CASES[i].want) != 0)
            fail_msg("%s %s, Accept: %s: %d %s; expected %s", CASES[i].path, CASES[i].type,
                     CASES[i].accept, (int)response.status, got, CASES[i].want);
        http_response_free(&response);
    }
}

TEST(attention)
{
    cJSON *json = answer_post(&client, "/v1/attention", "{\"model\":\"demo\",\"query\":" WORDS "}");
    cJSON *causal = answer_post(
        &client, "/v1/attention",
        "{\"model\":\"demo\",\"causal\":true,\"outputs\":[\"weights\"],\"query\":" WORDS "}");
    struct http_response context = post(CALL, FLOATS, sizeof FLOATS - 1, NPY, "*/*");
    expect_floats(&context, NPY_HEAD("<f4", "(2, 3)"), json, "context", 2, (int64_t[]){ 2, 3 });
    struct http_response weights =
        post(CALL "&causal=true&outputs=weights", FLOATS, sizeof FLOATS - 1, NPY, NPY);
    static const char head[] =
        "\x93NUMPY\x01\0v\0" NPY_DICT("<f4", "(1, 2, 2)") NPY_BLANKS_50 "     \n";
    expect_floats(&weights, head, causal, "weights", 3, (int64_t[]){ 1, 2, 2 });
    /* JSON comes and a file goes, without a field "outputs" too. */
    static const char body[] = "{\"model\":\"demo\",\"query\":" WORDS "}";
    struct http_response from_json =
        post("/v1/attention", body, sizeof body - 1, "application/json", NPY);
    assert_int_equal(from_json.body_size, context.body_size);
    assert_memory_equal(from_json.body, context.body, context.body_size);
    http_response_free(&context);
    http_response_free(&weights);
    http_response_free(&from_json);
    cJSON_Delete(json);
    cJSON_Delete(causal);
}

/* A file comes and another form goes: of all outputs that are asked for. */
TEST(other_answers)
{
    struct http_response json =
        post(CALL "&outputs=context,lse", FLOATS, sizeof FLOATS - 1, NPY, "application/json");
    struct http_response plain = http_client_post(
        &client, "/v1/attention",
        "{\"model\":\"demo\",\"outputs\":[\"context\",\"lse\"],\"query\":" WORDS "}");
    assert_int_equal(json.status, 200);
    assert_string_equal(json.body, plain.body);
    struct http_response file = post(CALL "&outputs=context,lse", FLOATS, sizeof FLOATS - 1, NPY,
                                     "application/x-safetensors");
    cJSON *header = tensor_body_header(&file);
    tensor_body_find(&file, header, "context", "F32", "[2,3]");
    tensor_body_find(&file, header, "lse", "F32", "[1,2]");
    cJSON_Delete(header);
    http_response_free(&json);
    http_response_free(&plain);
    http_response_free(&file);
}

/* sdpa answers in the dtype of the query. */
TEST(dtypes)
{
    struct http_response half =
        post("/v1/attention?model=sdpa", HALVES, sizeof HALVES - 1, NPY, NPY);
    struct http_response twice =
        post("/v1/attention?model=sdpa", DOUBLES, sizeof DOUBLES - 1, NPY, NPY);
    assert_int_equal(half.status, 200);
    assert_int_equal(half.body_size, HEAD_BYTES + 12);
    assert_memory_equal(half.body, NPY_HEAD("<f2", "(2, 3)"), HEAD_BYTES);
    assert_int_equal(twice.body_size, HEAD_BYTES + 48);
    assert_memory_equal(twice.body, NPY_HEAD("<f8", "(2, 3)"), HEAD_BYTES);
    http_response_free(&half);
    http_response_free(&twice);
}

TEST(softmax)
{
    cJSON *json =
        answer_post(&client, "/v1/softmax", "{\"input\":" WORDS ",\"axis\":1,\"kv_len\":2}");
    static const struct {
        const char *bytes;
        size_t size;
    } BODIES[] = { { FLOATS, sizeof FLOATS - 1 },
                   { HALVES, sizeof HALVES - 1 },
                   { DOUBLES, sizeof DOUBLES - 1 } };
    for (size_t i = 0; i < 3; i++) {
        struct http_response response =
            post("/v1/softmax?axis=1&kv_len=2", BODIES[i].bytes, BODIES[i].size, NPY, "*/*");
        expect_floats(&response, NPY_HEAD("<f4", "(2, 3)"), json, "output", 2, (int64_t[]){ 2, 3 });
        http_response_free(&response);
    }
    static const char none[] = NPY_HEAD("<f4", "(0, 3)");
    struct http_response empty = post("/v1/softmax", none, sizeof none - 1, NPY, "*/*");
    assert_int_equal(empty.body_size, HEAD_BYTES);
    assert_memory_equal(empty.body, none, HEAD_BYTES);
    http_response_free(&empty);
    cJSON_Delete(json);
}

static void refused(const char *path, const char *body, size_t size, const char *type, long status,
                    const char *code, const char *pointer)
{
    struct http_response response = post(path, body, size, type, NPY);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
}

TEST(refused)
{
    static const struct {
        const char *path;
        long status;
        const char *code, *pointer;
    } PATHS[] = {
        { CALL "&outputs=context,lse", 400, "option", "/outputs" },
        { CALL "&outputs=", 400, "option", "/outputs" },
        { CALL "&causal=yes", 400, "type", "/causal" },
        { CALL "&layer=7", 404, "not_found", "/layer" },
        { CALL "&query=1", 400, "field", NULL },
        { CALL "&model=demo", 400, "duplicate", NULL },
        { "/v1/attention?model=none", 404, "not_found", "/model" },
        { "/v1/softmax?axis=2", 400, "option", "/axis" },
        { "/v1/softmax?input=1", 400, "field", NULL },
        { "/v1/attention/gradients", 415, "content_type", NULL },
        { "/v1/attention/batch", 415, "content_type", NULL },
    };
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++)
        refused(PATHS[i].path, FLOATS, sizeof FLOATS - 1, NPY, PATHS[i].status, PATHS[i].code,
                PATHS[i].pointer);
    struct http_response typed = post("/v1/attention", "{}", 2, "text/plain", NPY);
    assert_non_null(strstr(typed.body, "expected application/json, application/x-safetensors "
                                       "or application/x-npy"));
    answer_expect_fault(&typed, 415, "content_type", NULL);
    http_response_free(&typed);
    refused(CALL, FLOATS, sizeof FLOATS - 2, NPY, 400, "binary", NULL);
    static const char integers[] = NPY_HEAD("<i8", "(2, 3)");
    refused(CALL, integers, sizeof integers - 1, NPY, 400, "dtype", NULL);
    static const char rows[] = NPY_HEAD_PADDED("<f4", "(9, 0)", "");
    refused("/v1/softmax", rows, sizeof rows - 1, NPY, 400, "shape", NULL);
    static const char number[] = NPY_HEAD_PADDED("<f4", "()", "    ") "\0\0\0@";
    refused("/v1/softmax", number, sizeof number - 1, NPY, 400, "shape", NULL);
    /* Answers that are several tensors. */
    static const char partial[] = "{\"model\":\"demo\",\"partial\":true,\"query\":" WORDS "}";
    refused("/v1/attention", partial, sizeof partial - 1, "application/json", 400, "option",
            "/outputs");
    static const char top_k[] = "{\"model\":\"demo\",\"outputs\":[\"weights\"],"
                                "\"weight_map\":{\"top_k\":1},\"query\":" WORDS "}";
    refused("/v1/attention", top_k, sizeof top_k - 1, "application/json", 400, "option",
            "/outputs");
    /* No dtype of .npy files is BF16. */
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "query", "BF16", "[1,3]", "\x80?\0\0\0\0", 6);
    struct http_response response =
        tensor_body_post(&client, "/v1/attention", &body, "{\"model\":\"demo\"}", 0, NPY);
    answer_expect_fault(&response, 400, "dtype", "/query");
    http_response_free(&response);
}

ALL_TESTS(fixture_start, fixture_stop);
