/* SPDX-License-Identifier: Apache-2.0 */
/* test_no_memory_passes.c - as test_no_memory.c, for passes: traces, GGUF files, vectors and
 * classes of texts. */
#include "answer.h"
#include "gguf_models.h"
#include "gguf_stories.h"
#include "gguf_write.h"
#include "http_client.h"
#include "no_memory.h"
#include "test.h"
#include "traced_model.h"
#include "word_model.h"

#include <unistd.h>

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

ALL_TESTS(no_memory_start, no_memory_clear);
