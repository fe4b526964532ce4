/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors_refused.c - safetensors files that are no valid calls: the daemon refuses their
 * tensors, metadata or bytes, each with its status and a pointer to the field. */
#include "answer.h"
#include "fixture.h"
#include "tensor_body.h"
#include "test.h"

static const char PATH[] = "/v1/attention";

static const float WORDS[4][3] = { { 1, 0, 0 }, { 0, 1, 0 }, { 1, 1, 0 }, { 0, 0, 1 } };

static struct tensor_body words(void)
{
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "query", "F32", "[4,3]", WORDS, sizeof WORDS);
    return body;
}

static void refused(const struct tensor_body *body, const char *metadata, long status,
                    const char *code, const char *pointer)
{
    struct http_response response = tensor_body_post(&client, PATH, body, metadata, 0, NULL);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
}

TEST(refused_tensors)
{
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
        refused(&body, JSON({"model":"demo"}), 400, CASES[i].code, CASES[i].pointer);
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

/* A shape of no bytes may have any number of heads, of which each is a list in a JSON answer. */
TEST(heads_without_rows)
{
    static const char HEADS[] = "[50000000,0,4]", SOME[] = "[3,0,4]";
    static const char *const PATHS[] = { "/v1/attention", "/v1/attention/gradients" };
    for (int i = 0; i < 2; i++) {
        struct tensor_body body = { .used = 0 }, small = { .used = 0 };
        tensor_body_add(&body, "query", "F32", HEADS, NULL, 0);
        tensor_body_add(&small, "query", "F32", SOME, NULL, 0);
        if (i == 1) {
            tensor_body_add(&body, "context_gradient", "F32", "[0,200000000]", NULL, 0);
            tensor_body_add(&small, "context_gradient", "F32", "[0,12]", NULL, 0);
        }
        struct http_response response = tensor_body_post(
            &client, PATHS[i], &body, "{\"model\":\"sdpa\"}", 0, "application/json");
        answer_expect_fault(&response, 413, "answer_too_large", NULL);
        http_response_free(&response);
        response = tensor_body_post(&client, PATHS[i], &small, "{\"model\":\"sdpa\"}", 0,
                                    "application/json");
        cJSON_Delete(answer_json(&response, 200));
        http_response_free(&response);
    }
}

TEST(refused_metadata)
{
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

TEST(refused_bodies)
{
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
    /* A batch in this form is refused: there are no names for the tensors of its items. */
    const struct tensor_body body = words();
    struct http_response response =
        tensor_body_post(&client, "/v1/attention/batch", &body, "{\"model\":\"demo\"}", 0, NULL);
    answer_expect_fault(&response, 415, "content_type", NULL);
    http_response_free(&response);
}

ALL_TESTS(fixture_start, fixture_stop);
