/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_faults.c - faults in an inference request. The answer has a status, a code, a pointer,
 * and a message that names the fault. This file has every fault of the protocol that a client can
 * cause. */
#include "fixture.h"
#include "oip_client.h"
#include "test.h"

#define QUERY            "{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}"
#define WITH_QUERY(more) "{\"inputs\":[" QUERY "]" more "}"
#define ONE(members)     "{\"inputs\":[{" members "}]}"
#define DEEP             "[[[[[[[[[["
#define PEED             "]]]]]]]]]]"
static const struct oip_fault CASES[] = {
    /* The JSON. */
    { "demo", "{\"inputs\":[}", 400, "json", "", "byte 11" },
    { "demo", "", 400, "json", "", "empty" },
    { "demo", "[]", 400, "type", "", "object" },
    { "demo", "{\"id\":1,\"id\":2}", 400, "duplicate", "/id", "id" },
    { "demo", "{\"id\":1}", 400, "type", "/id", "id is a number" },
    { "demo", "{}", 400, "field", "/inputs", "inputs is missing" },
    { "demo", "{\"inputs\":{}}", 400, "type", "/inputs", "inputs is an object" },
    { "demo", "{\"inputs\":[1,2]}", 400, "type", "/inputs", "inputs is an array of numbers" },
    { "demo", "{\"inputs\":[\"query\"]}", 400, "type", "/inputs/0", "inputs[0] is a string" },
    { "demo", "{\"inputs\":[]}", 400, "field", "/inputs", "missing required input(s) ['query']" },
    /* An input's members. */
    { "demo", ONE("\"shape\":[1,3]"), 400, "field", "/inputs/0/name", "name of inputs[0]" },
    { "demo", ONE("\"name\":3"), 400, "type", "/inputs/0/name", "a number" },
    { "demo", ONE("\"name\":\"query\",\"shape\":[1,3],\"data\":[1,2,3]"), 400, "field",
      "/inputs/0/datatype", "datatype of inputs[0] is missing" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"data\":[1,2,3]"), 400, "field",
      "/inputs/0/shape", "shape of input 'query' is missing" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3]"), 400, "field",
      "/inputs/0/data", "data of input 'query' is missing" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":3,\"data\":[1,2,3]"), 400,
      "type", "/inputs/0/shape", "shape of input 'query'" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[[1,3]],\"data\":[1,2,3]"),
      400, "type", "/inputs/0/shape", "shape of input 'query'" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":\"x\""), 400,
      "type", "/inputs/0/data", "data of input 'query' is a string" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,\"x\",3]"),
      400, "type", "/inputs/0/data/1", "data of input 'query'[1] is a string" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,true,3]"),
      400, "type", "/inputs/0/data/1", "[1] is true; expected a number" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,null,3]"),
      400, "type", "/inputs/0/data/1", "[1] is null; expected a number" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,1e99,3]"),
      400, "nonfinite", "/inputs/0/data/1", "[1] is beyond the range of FP32" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"parameters\":3,\"data\":[1,"
          "0,0]"),
      400, "type", "/inputs/0/parameters", "parameters of inputs[0] is a number" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,0,0],"
          "\"parameters\":{\"shared_memory_region\":\"r\"}"),
      400, "field", "/inputs/0/parameters/shared_memory_region", "query" },
    /* Two sources for the data; a binary size without the header. */
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,0,0],"
          "\"parameters\":{\"binary_data_size\":12}"),
      400, "binary", "/inputs/0/data", "only one of the fields" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],"
          "\"parameters\":{\"binary_data_size\":12}"),
      400, "binary", "/inputs/0/parameters/binary_data_size",
      "no valid Inference-Header-Content-Length" },
    /* Counts, shapes, datatypes. */
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[2,3],\"data\":[1,0,0]"), 400,
      "shape", "/inputs/0/data", "has 3 elements; its shape [2,3] has 6" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[3,3],\"data\":[[1,0,0],[1,0],[1,0,"
          "0]]"),
      400, "ragged", "/inputs/0/data/1", "[1] has 2 columns" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":" DEEP
          "[[1,0],[0]]" PEED),
      400, "ragged", "/inputs/0/data/0/0/0/0/0/0/0/0", "has 1 columns; row 0 of the first has 2" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":" DEEP
          "[1,null,0]" PEED),
      400, "type", "/inputs/0/data", "data of input 'query' holds null; expected numbers" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[-1,3],\"data\":[1,0,0]"),
      400, "shape", "/inputs/0/shape", "shape[0] of input 'query' is -1" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1.5,2],\"data\":[1,0,0]"),
      400, "shape", "/inputs/0/shape", "1.5" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[16777216,16777216,16777216],"
          "\"data\":[1,0,0]"),
      400, "shape", "/inputs/0/shape", "exceed maximum size" },
    { "demo",
      ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,1,1,1,1,1,1,1,3],\"data\":[1,0,"
          "0]"),
      400, "shape", "/inputs/0/shape", "9 dimensions" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"INT32\",\"shape\":[1,3],\"data\":[1,0,0]"),
      400, "dtype", "/inputs/0/datatype",
      "inference input 'query' data-type is 'INT32', but model 'demo' expects 'FP32'" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"BYTES\",\"shape\":[1,3],\"data\":[1,0,0]"),
      400, "dtype", "/inputs/0/datatype", "'BYTES'" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"F32\",\"shape\":[1,3],\"data\":[1,0,0]"), 400,
      "dtype", "/inputs/0/datatype", "'F32'" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[1,0]"), 400,
      "shape", "/inputs/0/shape",
      "unexpected shape for input 'query' for model 'demo'. Expected [-1,-1,3] or [-1,3], got "
      "[1,2]" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[3],\"data\":[1,0,0]"), 400,
      "shape", "/inputs/0/shape", "got [3]" },
    { "demo", ONE("\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[],\"data\":[1]"), 400,
      "shape", "/inputs/0/shape", "got []" },
    /* Names. */
    { "demo", ONE("\"name\":\"words\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,0,0]"), 400,
      "field", "/inputs/0/name",
      "unexpected inference input 'words' for model 'demo'; expected query, key, value" },
    { "demo", "{\"inputs\":[" QUERY "," QUERY "]}", 400, "duplicate", "/inputs/1/name",
      "input 'query' already exists in request" },
    { "demo", WITH_QUERY(",\"outputs\":[{\"name\":\"sum\"}]"), 400, "field", "/outputs/0/name",
      "unexpected inference output 'sum' for model 'demo'" },
    { "demo", WITH_QUERY(",\"outputs\":[{\"name\":\"lse\"},{\"name\":\"lse\"}]"), 400, "duplicate",
      "/outputs/1/name", "output 'lse' already exists" },
    { "demo", WITH_QUERY(",\"outputs\":3"), 400, "type", "/outputs", "outputs is a number" },
    { "demo", WITH_QUERY(",\"outputs\":[{}]"), 400, "field", "/outputs/0/name", "outputs[0]" },
    { "demo", WITH_QUERY(",\"outputs\":[{\"name\":\"lse\",\"parameters\":{\"binary_data\":1}}]"),
      400, "type", "/outputs/0/parameters/binary_data", "binary_data of output 'lse'" },
    { "demo",
      WITH_QUERY(",\"outputs\":[{\"name\":\"lse\",\"parameters\":{\"classification\":1e999}}]"),
      400, "option", "/outputs/0/parameters/classification", "classification of output 'lse'" },
    { "demo",
      WITH_QUERY(",\"outputs\":[{\"name\":\"lse\",\"parameters\":{\"classification\":-1}}]"), 400,
      "option", "/outputs/0/parameters/classification", "classification of output 'lse'" },
    { "demo",
      WITH_QUERY(
          ",\"outputs\":[{\"name\":\"lse\",\"parameters\":{\"shared_memory_region\":\"r\"}}]"),
      400, "field", "/outputs/0/parameters/shared_memory_region", "output 'lse'" },
    /* Parameters. */
    { "demo", WITH_QUERY(",\"parameters\":3"), 400, "type", "/parameters", "a number" },
    { "demo", WITH_QUERY(",\"parameters\":{\"binary_data_output\":1}"), 400, "type",
      "/parameters/binary_data_output", "binary_data_output" },
    { "demo", WITH_QUERY(",\"parameters\":{\"casual\":true}"), 400, "field", "/parameters/casual",
      "did you mean 'causal'" },
    { "demo", WITH_QUERY(",\"parameters\":{\"causal\":\"yes\"}"), 400, "type", "/parameters/causal",
      "causal is a string" },
    { "demo", WITH_QUERY(",\"parameters\":{\"layer\":1}"), 404, "not_found", "/parameters/layer",
      "layer is 1" },
    { "demo", WITH_QUERY(",\"parameters\":{\"softcap\":-1}"), 400, "option", "/parameters/softcap",
      "softcap is -1" },
    { "demo", WITH_QUERY(",\"parameters\":{\"q_heads\":2}"), 400, "option", "/parameters/q_heads",
      "q_heads is 2" },
    { "demo", WITH_QUERY(",\"parameters\":{\"own\":[1]}"), 400, "type", "/parameters/own", "own" },
    { "demo", WITH_QUERY(",\"parameters\":{\"timeout\":\"soon\"}"), 400, "type",
      "/parameters/timeout", "timeout" },
    { "demo", WITH_QUERY(",\"parameters\":{\"priority\":-1}"), 400, "option",
      "/parameters/priority", "priority" },
    { "demo", WITH_QUERY(",\"parameters\":{\"sinks\":\"1;2\"}"), 400, "type", "/parameters/sinks",
      "sinks" },
    { "demo", WITH_QUERY(",\"parameters\":{\"sinks\":\"1e999\"}"), 400, "type", "/parameters/sinks",
      "expected numbers of a 32-bit float, or -inf, between commas" },
    { "demo", WITH_QUERY(",\"parameters\":{\"sinks\":\"nan\"}"), 400, "type", "/parameters/sinks",
      "sinks is 'nan'" },
    { "demo", WITH_QUERY(",\"parameters\":{\"sinks\":\"0x1p3\"}"), 400, "type", "/parameters/sinks",
      "sinks is '0x1p3'" },
    { "demo", WITH_QUERY(",\"parameters\":{\"alibi_slopes\":\"-inf\"}"), 400, "type",
      "/parameters/alibi_slopes", "alibi_slopes is '-inf'" },
    { "demo", WITH_QUERY(",\"parameters\":{\"sinks\":\"1,2\"}"), 400, "shape", "/parameters/sinks",
      "sinks has 2 numbers" },
    { "demo", WITH_QUERY(",\"parameters\":{\"timeout\":1}"), 504, "deadline", "",
      "of its time there is less than a millisecond left" },
    { "nobody", WITH_QUERY(""), 404, "not_found", "",
      "\"error\":\"Request for unknown model: 'nobody' is not found; there are demo, sdpa" },
    { "demo", ONE("\"name\":\"mask\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[0,-Infinity]"),
      400, "json", "", "in a mask null is -Infinity, and tensors as bytes hold any number" },
    /* Inputs that do not fit together. */
    { "demo",
      "{\"inputs\":[{\"name\":\"query\",\"shape\":[2,1,3],\"datatype\":\"FP32\",\"data\":[1,0,0,1,"
      "0,0]},{\"name\":\"key\",\"shape\":[1,1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}]}",
      400, "shape", "/inputs/1",
      "input 'key' batch size does not match other inputs for 'demo': 1, query has 2" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"key\",\"shape\":[1,1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}]}",
      400, "shape", "/inputs/1/shape", "Expected [-1,3], got [1,1,3]" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"key\",\"shape\":[2,3],\"datatype\":\"FP32\",\"data\":[1,0,0,1,0,0]},"
      "{\"name\":\"value\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}]}",
      400, "shape", "/inputs/2", "value has 1 rows; key has 2" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"mask\",\"shape\":[2,2],\"datatype\":\"BOOL\",\"data\":[true,true,true,true]}]}",
      400, "shape", "/inputs/1", "mask" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"mask\",\"shape\":[1],\"datatype\":\"BOOL\",\"data\":[true]}]}",
      400, "shape", "/inputs/1/shape", "input 'mask'" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"mask\",\"shape\":[1,1],\"datatype\":\"BOOL\",\"data\":[0.5]}]}",
      400, "type", "/inputs/1/data", "expected true or false" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"kv_len\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[7]}]}",
      400, "length", "/inputs/1", "kv_len is 7" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"kv_len\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[-7]}]}",
      400, "length", "/inputs/1", "-7" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"kv_len\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[0.5]}]}",
      400, "type", "/inputs/1/data", "kv_len" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"kv_len\",\"shape\":[2],\"datatype\":\"INT64\",\"data\":[1,1]}]}",
      400, "shape", "/inputs/1/shape", "kv_len" },
    { "demo",
      "{\"inputs\":[" QUERY
      ",{\"name\":\"kv_len\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
      400, "dtype", "/inputs/1/datatype", "expects 'INT64'" },
    { "demo",
      "{\"parameters\":{\"sinks\":\"1\"},\"inputs\":[" QUERY
      ",{\"name\":\"sinks\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
      400, "duplicate", "/inputs/1", "input 'sinks' is among the parameters too" },
    /* Models. */
    { "nobody", WITH_QUERY(""), 404, "not_found", "", "nobody" },
    { "demo/versions/2", WITH_QUERY(""), 404, "not_found", "",
      "Request for unknown model: 'demo' version 2 is not found; it has 1" },
    { "demo/versions/v1", WITH_QUERY(""), 404, "not_found", "", "'demo' version v1 is not found" },
};

TEST(json)
{
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        oip_refused(&client, &CASES[i]);
}

/* ---------------------------------------------------------------- binary -- */

#define HEAD(size)                                                                                 \
    "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{"      \
    "\"binary_data_size\":" size "}}]}"

static const char BYTES[24];

struct binary_case {
    const char *length; /* the header's length; NULL: the length of the JSON */
    const char *json;
    size_t tail;
    const char *code, *pointer, *says;
};

static const struct binary_case BINARY[] = {
    { NULL, HEAD("12"), 8, "binary", "/inputs/0/parameters/binary_data_size",
      "unexpected size for input 'query', expecting 4 additional bytes for model 'demo'" },
    { NULL, HEAD("12"), 0, "binary", "/inputs/0/parameters/binary_data_size",
      "expecting 12 additional bytes" },
    { NULL, HEAD("12"), 13, "binary", "", "unexpected additional input data for model 'demo'" },
    { NULL, HEAD("16"), 16, "binary", "/inputs/0/parameters/binary_data_size",
      "input byte size mismatch for input 'query' for model 'demo'. Expected 12, got 16" },
    { NULL, HEAD("-12"), 12, "type", "/inputs/0/parameters/binary_data_size", "binary_data_size" },
    { NULL, HEAD("\"12\""), 12, "type", "/inputs/0/parameters/binary_data_size",
      "binary_data_size" },
    { NULL, HEAD("12.5"), 12, "type", "/inputs/0/parameters/binary_data_size", "binary_data_size" },
    { NULL, WITH_QUERY(""), 1, "binary", "", "unexpected additional input data" },
    { "x", HEAD("12"), 12, "binary", "", "Inference-Header-Content-Length is 'x'" },
    { "-5", HEAD("12"), 12, "binary", "", "'-5'" },
    { "12abc", HEAD("12"), 12, "binary", "", "'12abc'" },
    { "99999999999999999999999", HEAD("12"), 12, "binary", "", "expected a number" },
    { "100000", HEAD("12"), 12, "binary", "", "inference header size should be in range (0, " },
    { "10", HEAD("12"), 12, "json", "", "byte 10" },
    { "0", "", 11, "binary", "", "Expected a multiple of 12, got 11" },
    { "0", "", 0, "binary", "", "got 0" },
    { NULL,
      "{\"inputs\":[" QUERY ",{\"name\":\"mask\",\"shape\":[1,1],\"datatype\":\"BOOL\","
      "\"parameters\":{\"binary_data_size\":1}}]}",
      1, "", "", "" },
};

TEST(binary)
{
    for (size_t i = 0; i < sizeof BINARY / sizeof BINARY[0]; i++) {
        const struct binary_case *c = &BINARY[i];
        const size_t json_size = strlen(c->json);
        char body[512], length[96];
        const char *const headers[] = { length, "Content-Type: application/octet-stream", NULL };
        memcpy(body, c->json, json_size);
        memset(body + json_size, 0, c->tail);
        if (c->length)
            snprintf(length, sizeof length, "Inference-Header-Content-Length: %s", c->length);
        else
            snprintf(length, sizeof length, "Inference-Header-Content-Length: %zu", json_size);
        const struct http_request request = {
            .path = "/v2/models/demo/infer",
            .method = "POST",
            .body = json_size + c->tail ? body : NULL,
            .body_size = json_size + c->tail,
            .headers = headers,
        };
        struct http_response response = http_client_send(&client, &request);
        if (!c->code[0]) {
            assert_int_equal(response.status, 200); /* false is a boolean too */
        } else {
            const struct oip_fault fault = {
                .status = 400, .code = c->code, .pointer = c->pointer, .says = c->says
            };
            if (response.status != 400)
                fail_msg("%s, %s: %ld %s", length, c->json, response.status, response.body);
            oip_expect_fault(&response, &fault);
        }
        http_response_free(&response);
    }
}

TEST(bytes_that_are_no_booleans)
{
    struct oip_request request = { 0 };
    oip_add_binary(&request, "query", "FP32", 2, (const int64_t[]){ 1, 3 }, BYTES, 12);
    oip_add_binary(&request, "mask", "BOOL", 2, (const int64_t[]){ 1, 1 }, "\x02", 1);
    struct http_response response = oip_send(&client, "demo", &request);
    const struct oip_fault fault = {
        .status = 400,
        .code = "binary",
        .pointer = "/inputs/1",
        .says = "element 0 of input 'mask' is byte 2",
    };
    oip_expect_fault(&response, &fault);
    http_response_free(&response);
    oip_request_free(&request);
}

TEST(raw_request_to_a_model_of_many_inputs)
{
    static const char *const headers[] = { "Inference-Header-Content-Length: 0", NULL };
    const struct http_request request = {
        .path = "/v2/models/sdpa/infer", .body = BYTES, .body_size = 24, .headers = headers
    };
    struct http_response response = http_client_send(&client, &request);
    const struct oip_fault fault = {
        .status = 400, .code = "binary", .pointer = "", .says = "sdpa"
    };
    oip_expect_fault(&response, &fault);
    http_response_free(&response);
}

/* --------------------------------------------------------------- headers -- */

TEST(headers)
{
    static const char *const xml[] = { "Content-Type: text/xml", NULL };
    static const char *const bytes[] = { "Content-Type: application/octet-stream", NULL };
    static const char *const coding[] = { "Content-Encoding: brotli", NULL };
    const struct http_request requests[] = {
        { .path = "/v2/models/demo/infer", .body = WITH_QUERY(""), .headers = xml },
        { .path = "/v2/models/demo/infer", .body = WITH_QUERY("") "tail", .headers = bytes },
        { .path = "/v2/models/demo/infer", .body = WITH_QUERY(""), .headers = coding },
        { .path = "/v2/models/demo/infer", .method = "GET" },
        { .path = "/v2/models/demo/versions/1/infer", .method = "PUT", .body = "{}" },
    };
    static const struct oip_fault faults[] = {
        { .status = 415, .code = "content_type", .pointer = "", .says = "text/xml" },
        { .status = 400, .code = "binary", .pointer = "", .says = "Inference-Header" },
        { .status = 415, .code = "encoding", .pointer = "", .says = "brotli" },
        { .status = 405, .code = "method", .pointer = "", .says = "POST" },
        { .status = 405, .code = "method", .pointer = "", .says = "POST" },
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char value[64];
        struct http_response response = http_client_send(&client, &requests[i]);
        oip_expect_fault(&response, &faults[i]);
        if (faults[i].status == 405)
            assert_string_equal(http_response_header(&response, "Allow", value, sizeof value),
                                "POST");
        if (strcmp(faults[i].code, "encoding") == 0)
            assert_string_equal(
                http_response_header(&response, "Accept-Encoding", value, sizeof value),
                "gzip, deflate, identity");
        http_response_free(&response);
    }
}

TEST(a_model_that_could_not_be_loaded)
{
    struct daemon other;
    struct http_client own;
    char *models = daemon_directory_create();
    daemon_directory_write(models, "broken.safetensors", "x", 1);
    daemon_start_with(&other, "--models", models, NULL);
    http_client_init(&own, other.port);
    static const struct oip_fault fault = {
        .status = 503, .code = "loading", .pointer = "", .says = "broken"
    };
    char value[16];
    struct http_response response =
        http_client_post(&own, "/v2/models/broken/infer", WITH_QUERY(""));
    oip_expect_fault(&response, &fault);
    assert_non_null(http_response_header(&response, "Retry-After", value, sizeof value));
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_directory_remove(models);
}

TEST(limits)
{
    struct daemon small;
    struct http_client other;
    daemon_start_with(&small, "--body-max", "2KiB", "--answer-max", "1KiB", NULL);
    http_client_init(&other, small.port);
    static float zeros[600];
    struct oip_request request = { .parameters = "\"binary_data_output\":true" };
    /* At 4 bytes a number the answer fits if it is bytes; as text it does not. */
    oip_add_binary(&request, "query", "FP32", 2, (const int64_t[]){ 10, 3 }, zeros, 120);
    oip_ask(&request, "weights", NULL);
    struct http_response response = oip_send(&other, "demo", &request);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    request.parameters = NULL;
    response = oip_send(&other, "demo", &request);
    answer_expect_fault(&response, 413, "answer_too_large", "");
    http_response_free(&response);
    oip_request_free(&request);
    oip_add_binary(&request, "query", "FP32", 2, (const int64_t[]){ 200, 3 }, zeros, 2400);
    response = oip_send(&other, "demo", &request);
    answer_expect_fault(&response, 413, "too_large", "");
    http_response_free(&response);
    oip_request_free(&request);
    oip_add_binary(&request, "query", "FP32", 3, (const int64_t[]){ 40, 1, 3 }, zeros, 480);
    response = oip_send(&other, "demo", &request);
    answer_expect_fault(&response, 413, "too_large", "/inputs/0");
    http_response_free(&response);
    oip_request_free(&request);
    /* The parameter does not change the limit. */
    request.parameters = "\"qk_matmul_output_mode\":3";
    for (int i = 0; i < 3; i++)
        oip_add_binary(&request, (const char *[]){ "Q", "K", "V" }[i], "FP32", 4,
                       (const int64_t[]){ 1, 1, 20, 3 }, zeros, 240);
    oip_ask(&request, "qk_matmul_output", NULL);
    response = oip_send(&other, "sdpa", &request);
    answer_expect_fault(&response, 413, "answer_too_large", "");
    http_response_free(&response);
    oip_request_free(&request);
    http_client_free(&other);
    daemon_stop(&small);
}

ALL_TESTS(fixture_start, fixture_stop);
