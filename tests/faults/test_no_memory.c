/* SPDX-License-Identifier: Apache-2.0 */
/* test_no_memory.c - when the daemon gets no memory at some allocation of a request, it answers. It
 * never ends (no_memory.h). The start of the daemon is tested in the same way: the daemon serves,
 * or it ends with a message. */
#include "answer.h"
#include "daemon.h"
#include "gguf_models.h"
#include "gguf_stories.h"
#include "gguf_write.h"
#include "http_client.h"
#include "model_bytes.h"
#include "no_memory.h"
#include "test.h"
#include "traced_model.h"
#include "word_model.h"

#include <fcntl.h>
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

/* A pass makes its memory when its turn comes; the second answer is written in pieces. The last
 * two are as a file and over the protocol. */
TEST(trace)
{
    static const char *const as_file[] = { "Content-Type: application/json",
                                           "Accept: application/x-safetensors", NULL };
    char tokens[256], body[512];
    const struct http_request requests[] = {
        { .path = "/v1/trace",
          .body = "{\"model\":\"bert\",\"tokens\":[1,2,3],\"outputs\":[\"weights\",\"lse\","
                  "\"inputs\",\"hidden_states\",\"attention_output\",\"predictions\"],"
                  "\"weight_map\":{\"pool\":[2,2],\"top_k\":1}}" },
        { .path = "/v1/trace", .body = body },
        { .path = "/v1/trace",
          .body = "{\"model\":\"llama\",\"tokens\":[1,2,3],\"spans\":[[0,1]],\"rows\":[-1]}" },
        { .path = "/v1/trace/batch",
          .body = "{\"model\":\"llama\",\"requests\":[{\"tokens\":[1,2]},{\"tokens\":[1]},"
                  "{\"tokens\":[]},{\"model\":\"bert\",\"tokens\":[1]}]}" },
        { .path = "/v1/trace",
          .headers = as_file,
          .body = "{\"model\":\"bert\",\"tokens\":[1,2],\"weight_map\":{\"top_k\":1},\"outputs\":"
                  "[\"weights\",\"hidden_states\",\"predictions\"],\"positions\":[0,1]}" },
        { .path = "/v2/models/bert/infer",
          .body = "{\"inputs\":[{\"name\":\"input_ids\",\"shape\":[2,2],\"datatype\":\"INT64\","
                  "\"data\":[1,2,3,4]},{\"name\":\"attention_mask\",\"shape\":[2,2],\"datatype\":"
                  "\"INT64\",\"data\":[1,1,1,0]}],\"outputs\":[{\"name\":\"logits\"},"
                  "{\"name\":\"attentions.1\"},{\"name\":\"last_hidden_state\"}]}" },
    };
    snprintf(body, sizeof body, "{\"model\":\"llama\",\"tokens\":%s}",
             traced_model_tokens(tokens, sizeof tokens, 0, 80));
    traced_model_save(directory);
    expect_well(&(struct http_request){ .path = "/v2/repository/models/bert/load", .body = "{}" },
                200);
    expect_well(&(struct http_request){ .path = "/v2/repository/models/llama/load", .body = "{}" },
                200);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        go_through(&requests[i], 200, 1);
        go_through(&requests[i], 200, 1000000);
    }
    go_through(&(struct http_request){ .path = "/v2/models/bert" }, 200, 1);
    go_through(&(struct http_request){ .path = "/v2/models/bert/config" }, 200, 1);
}

/* A file with a tokenizer, experts that become views, and parts that are mapped one by one. */
TEST(gguf)
{
    static const struct http_request REQUESTS[] = {
        { .path = "/v2/repository/models/story/load", .body = "{}" },
        { .path = "/v2/repository/models/experts/load", .body = "{}" },
        { .path = "/v2/repository/models/parts/load", .body = "{}" },
        { .path = "/v1/trace",
          .body = JSON({"model":"story","text":"One day","layers":[0]}) },
          { .path = "/v1/trace",
            .body = JSON({"model":"experts","tokens":[1,2],"layers":[]}) },
                         { .path = "/embed",
                           .body = JSON({"model":"parts","inputs":[1,2],"pooling":"mean"}) },
                          };
    static const char *const FILES[] = { "story.gguf", "experts.gguf", "parts-00001-of-00002.gguf",
                                         "parts-00002-of-00002.gguf" };
    const struct gguf_model_form form = { "Q8_0", false };
    gguf_stories_write("Q8_0", fixture_path(FILES[0]));
    gguf_model_write(gguf_model_named("llama-experts"), form, fixture_path(FILES[1]));
    struct gguf_write *file = gguf_model_make(gguf_model_named("llama"), form);
    gguf_write_split(file, fixture_path("parts"), 2);
    gguf_write_free(file);
    for (size_t i = 0; i < sizeof REQUESTS / sizeof REQUESTS[0]; i++) {
        expect_well(&REQUESTS[i], 200);
        go_through(&REQUESTS[i], 200, 1);
        go_through(&REQUESTS[i], 200, 1000000);
    }
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        assert_int_equal(unlink(fixture_path(FILES[i])), 0);
}

/* Vectors, rows, classes and ranks of texts: many in one call, whose tokens are made on the way. */
TEST(texts)
{
    static const struct http_request REQUESTS[] = {
        { .path = "/v2/repository/models/words/load", .body = "{}" },
        { .path = "/v2/repository/models/judge/load", .body = "{}" },
        { .path = "/v1/embeddings",
          .body = "{\"model\":\"words\",\"input\":[\"the cat\",\"mat\"],\"pooling\":\"mean\","
                  "\"encoding_format\":\"base64\"}" },
        { .path = "/embed",
          .body = "{\"model\":\"words\",\"inputs\":[\"the cat\",\"mat\"],\"pooling\":\"mean\","
                  "\"dimensions\":4}" },
        { .path = "/embed_all",
          .body = "{\"model\":\"words\",\"inputs\":[\"the cat sat\",\"mat\"]}" },
        { .path = "/similarity",
          .body = "{\"model\":\"words\",\"pooling\":\"mean\",\"inputs\":{\"source_sentence\":"
                  "\"the cat\",\"sentences\":[\"the mat\",\"the cat\"]},"
                  "\"parameters\":{\"truncate\":true}}" },
        { .path = "/predict",
          .body = "{\"model\":\"judge\",\"inputs\":[[\"the cat\",\"mat\"],[\"cats\"]]}" },
        { .path = "/rerank",
          .body = "{\"model\":\"judge\",\"query\":\"the cat\",\"texts\":[\"mat\",\"cats\"],"
                  "\"return_text\":true}" },
    };
    word_model_make(fixture_path("words"), word_model_tokenizer);
    word_model_make_judge(fixture_path("judge"));
    for (size_t i = 0; i < sizeof REQUESTS / sizeof REQUESTS[0]; i++) {
        expect_well(&REQUESTS[i], 200);
        go_through(&REQUESTS[i], 200, 1);
        go_through(&REQUESTS[i], 200, 1000000);
    }
}

/* A trace that is not kept in the end gives back what it reserved of --trace-memory-max. llama is
 * loaded. */
TEST(kept_trace)
{
    static const char *const PIECES[] = { "/weights?layer=1&head=1&cells=2x2&dtype=u8",
                                          "/statistics", "/pair?layer=1&head=0&row=2&key=1",
                                          "/pairs?layer=1&head=0&row=2&keys=1,2", "" };
    static const char BODY[] = JSON({"model":"llama","tokens":[1,2,3],"keep":"%s"});
    char body[128], path[160];
    struct http_client own;
    snprintf(body, sizeof body, BODY, "1h");
    const struct http_request keep = { .path = "/v1/trace", .body = body };
    struct http_response response = send_once(&keep);
    cJSON *answer = answer_json(&response, 200);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "/v1/traces/%s%s",
                 cJSON_GetObjectItem(answer, "trace")->valuestring, PIECES[i]);
        go_through(&(struct http_request){ .path = path }, 200, 1);
        go_through(&(struct http_request){ .path = path }, 200, 1000000);
    }
    expect_well(&(struct http_request){ .method = "DELETE", .path = path }, 204);
    snprintf(body, sizeof body, BODY, "1ms");
    go_through(&keep, 200, 1);
    go_through(&keep, 200, 1000000);
    http_client_init(&own, server.port);
    answer_wait_for_metric(&own, "attnd_traces_kept", 0, 0);
    answer_wait_for_metric(&own, "attnd_trace_bytes", 0, 0);
    http_client_free(&own);
    cJSON_Delete(answer);
    http_response_free(&response);
}

TEST(daemon_stops)
{
    fail_from(0, 0);
    daemon_stop(&server);
}

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
        if (result.exit_code != 0 && (result.exit_code != 1 || strlen(result.errors) == 0))
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
