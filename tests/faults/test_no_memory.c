/* SPDX-License-Identifier: Apache-2.0 */
/* test_no_memory.c - when the daemon gets no memory at some allocation of a request, it answers. It
 * never ends (no_memory.h). The start of the daemon is tested in the same way: the daemon serves,
 * or it ends with a message. */
#include "answer.h"
#include "daemon.h"
#include "http_client.h"
#include "model_bytes.h"
#include "no_memory.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

TEST(attention)
{
    const struct http_request request = {
        .path = "/v1/attention",
        .body = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]],\"kv_len\":[1,2],"
                "\"outputs\":[\"context\",\"weights\",\"lse\"]}",
    };
    go_through(&request, 200, 1);
    go_through(&request, 200, 1000000);
}

/* A body with so many equal rows: its answer is so long that it is written in pieces. */
static char *long_body(const char *name, const char *row, int rows)
{
    char *body = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&body, &size);
    assert_non_null(file);
    fprintf(file, "{\"%s\":[", name);
    for (int i = 0; i < rows; i++)
        fprintf(file, "%s%s", i > 0 ? "," : "", row);
    fprintf(file, "]%s}", strcmp(name, "query") == 0 ? ",\"model\":\"demo\"" : "");
    fclose(file);
    return body;
}

/* A body in gzip, and an answer that is packed if there is memory for that. */
TEST(packed)
{
    static const char body[] = /* gzip -9 of {"model":"demo","query":[[1,0,0],[0,1,0]]} */
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\xcd\x4f\x49\xcd\x51\xb2\x52\x4a"
        "\x49\xcd\xcd\x57\xd2\x51\x2a\x2c\x4d\x2d\xaa\x54\xb2\x8a\x8e\x36\xd4\x31\xd0\x31\x88"
        "\xd5\x89\x36\xd0\x01\xb2\x62\x63\x6b\x01\xef\x93\x02\x51\x2a\x00\x00\x00";
    static const char *const headers[] = { "Content-Encoding: gzip", "Accept-Encoding: gzip, *;q=0",
                                           NULL };
    const struct http_request request = {
        .path = "/v1/attention", .body = body, .body_size = sizeof body - 1, .headers = headers
    };
    go_through(&request, 200, 1);
    go_through(&request, 200, 1000000);
}

TEST(safetensors)
{
    static const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
    static const float query[] = { 1, 0, 0, 0, 1, 0 };
    static const char head[] =
        "{\"__metadata__\":{\"model\":\"demo\",\"kv_len\":\"[1,2,3,4]\"},"
        "\"query\":{\"dtype\":\"F16\",\"shape\":[4,3],\"data_offsets\":[0,24]}}";
    struct model_bytes file = model_bytes_of(head, query, 6);
    const struct http_request request = {
        .path = "/v1/attention", .body = file.data, .body_size = file.size, .headers = headers
    };
    go_through(&request, 200, 1);
    go_through(&request, 200, 1000000);
    free(file.data);
}

TEST(batch)
{
    const struct http_request request = {
        .path = "/v1/attention/batch",
        .body = "{\"model\":\"demo\",\"requests\":[{\"query\":[[1,0,0]]},{\"query\":[1]},"
                "{\"model\":\"sdpa\",\"query\":[[1,2],[3,4]]}]}",
    };
    go_through(&request, 200, 1);
}

TEST(weight_map)
{
    const struct http_request request = {
        .path = "/v1/attention",
        .body = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]],"
                "\"weight_map\":{\"rows\":[0,1],\"pool\":[1,2],\"top_k\":1}}",
    };
    go_through(&request, 200, 1);
}

TEST(gradients)
{
    const struct http_request request = {
        .path = "/v1/attention/gradients",
        .body = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]],\"mask\":[[0,1],[2,0]],"
                "\"alibi_slopes\":[0.5],\"sinks\":[0],"
                "\"context_gradient\":[[1,2,3],[4,5,6]]}",
    };
    go_through(&request, 200, 1);
    go_through(&request, 200, 1000000);
}

TEST(softmax)
{
    const struct http_request request = {
        .path = "/v1/softmax",
        .body = "{\"input\":[[1,2],[3,4]],\"kv_len\":[1,2]}",
    };
    go_through(&request, 200, 1);
}

TEST(long_answers)
{
    char *attention = long_body("query", "[1,0,0]", 300);
    char *softmax = long_body("input", "[1,2]", 40000);
    static const char *const packed[] = { "Content-Type: application/json", "Accept-Encoding: gzip",
                                          NULL };
    const struct http_request requests[] = {
        { .path = "/v1/attention", .body = attention },
        { .path = "/v1/attention", .body = attention, .headers = packed },
        { .path = "/v1/softmax", .body = softmax }
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        go_through(&requests[i], 200, 1);
        go_through(&requests[i], 200, 1000000);
    }
    free(attention);
    free(softmax);
}

TEST(faulty_request)
{
    const struct http_request request = { .path = "/v1/attention", .body = "{\"query\":[[1,2],}" };
    long answered;
    expect_well(&request, 400);
    for (uint64_t n = 1; n < ALLOCATIONS_MAX && round_of(&request, 400, n, 1, &answered); n++)
        expect_well(&request, 400);
}

TEST(descriptions)
{
    go_through(&(struct http_request){ .path = "/v1/models" }, 200, 1);
    go_through(&(struct http_request){ .path = "/metrics" }, 200, 1);
}

TEST(typed_model)
{
    const struct http_request request = {
        .method = "PUT",
        .path = "/v1/models/typed",
        .body = "{\"config\":{\"attention\":\"scaled_dot_product\"},\"parameters\":"
                "{\"q_proj.weight\":[[1,2],[3,4]],\"k_proj.weight\":[[1,2],[3,4]]}}",
    };
    struct http_response response = send_once(&request);
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    go_through(&request, 200, 1);
}

TEST(model_file)
{
    static const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
    struct model_bytes file = model_bytes_demo(2, "");
    const struct http_request request = {
        .method = "PUT",
        .path = "/v1/models/file",
        .body = file.data,
        .body_size = file.size,
        .headers = headers,
    };
    struct http_response response = send_once(&request);
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    go_through(&request, 200, 1);
    free(file.data);
}

/* This test runs after test_model_file(), so the file is there. */
TEST(oip)
{
    static const char *const paths[] = { "/v2", "/v2/models", "/v2/models/demo",
                                         "/v2/models/demo/config", "/v2/models/stats" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        go_through(&(struct http_request){ .path = paths[i] }, 200, 1);
    static const struct http_request requests[] = {
        { .path = "/v2/repository/index", .body = "{\"ready\":true}" },
        { .path = "/v2/logging", .body = "{\"log_info\":true}" },
        { .path = "/v2/repository/models/file/load", .body = "{}" },
        { .path = "/v2/repository/models/file/unload", .body = "{}" },
        { .path = "/v2/repository/models/file/load", .body = "{\"parameters\":{}}" },
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        go_through(&requests[i], 200, 1);
}

/* Tensors come and go as bytes. The daemon copies some of them: a past, and bytes that are not
 * aligned. */
TEST(oip_inference)
{
    static const char json[] =
        "{\"parameters\":{\"binary_data_output\":true,\"is_causal\":1},\"inputs\":["
        "{\"name\":\"attn_mask\",\"shape\":[1],\"datatype\":\"BOOL\",\"parameters\":{"
        "\"binary_data_size\":1}},"
        "{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP16\",\"parameters\":{"
        "\"binary_data_size\":4}},"
        "{\"name\":\"K\",\"shape\":[1,1,1,2],\"datatype\":\"FP16\",\"data\":[1,2]},"
        "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP16\",\"data\":[1,2]},"
        "{\"name\":\"past_key\",\"shape\":[1,1,1,2],\"datatype\":\"FP16\",\"data\":[1,2]},"
        "{\"name\":\"past_value\",\"shape\":[1,1,1,2],\"datatype\":\"FP16\",\"data\":[1,2]}],"
        "\"outputs\":[{\"name\":\"Y\"},{\"name\":\"present_key\"},"
        "{\"name\":\"qk_matmul_output\",\"parameters\":{\"classification\":1}}]}";
    static const char words[] =
        "{\"inputs\":[{\"name\":\"query\",\"shape\":[2,1,3],\"datatype\":\"BF16\",\"data\":[1,"
        "0,0,0,1,0]}],\"parameters\":{\"sinks\":\"1\"}}";
    char body[sizeof json + 5], length[64];
    const char *const headers[] = { length, NULL };
    memcpy(body, json, sizeof json - 1);
    memcpy(body + sizeof json - 1, "\1\0\0\0\0", 5);
    snprintf(length, sizeof length, "Inference-Header-Content-Length: %zu", sizeof json - 1);
    const struct http_request binary = {
        .path = "/v2/models/sdpa/infer",
        .body = body,
        .body_size = sizeof json - 1 + 5,
        .headers = headers,
    };
    go_through(&binary, 200, 1);
    go_through(&(struct http_request){ .path = "/v2/models/demo/infer", .body = words }, 200, 1);
}

TEST(daemon_stops)
{
    fail_from(0, 0);
    daemon_stop(&server);
}

/* gcov's library does not look whether it got the memory that it asks for when a program ends. */
#ifdef WITH_GCOV
enum { GCOV_FAULT = 128 + SIGSEGV };
#else
enum { GCOV_FAULT = 0 };
#endif

/* Each allocation of the daemon's start fails once: the daemon serves, or it ends with
 * a message. */
TEST(start)
{
    const char *const arguments[] = { "--check-config", "--models", directory, NULL };
    int ended = 0;
    uint64_t n = 1;
    for (; n < ALLOCATIONS_MAX; n++) {
        fail_from(n, 1);
        struct daemon_result result = daemon_command(arguments, no_memory_environment());
        const bool failed = atomic_load(&control->failed) > 0;
        if (result.exit_code != 0 && result.exit_code != GCOV_FAULT
            && (result.exit_code != 1 || strlen(result.errors) == 0))
            fail_msg("allocation %d: the daemon ended with %d:\n%s", (int)n, result.exit_code,
                     result.errors);
        ended += result.exit_code == 1;
        daemon_result_free(&result);
        if (!failed)
            break;
    }
    fail_from(0, 0);
    print_message("    %d allocations, %d ends with a message\n", (int)n - 1, ended);
    assert_true(n > 20 && n < ALLOCATIONS_MAX && ended > 0);
}

ALL_TESTS(no_memory_start, no_memory_clear);
