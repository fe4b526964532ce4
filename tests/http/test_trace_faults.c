/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_faults.c - requests that POST /v1/trace refuses, and how it ends early: by an answer
 * that would be too large, a deadline, or a client that leaves. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "traced_model.h"

static const char PATH[] = "/v1/trace";

struct refusal {
    const char *members; /* behind "model" */
    long status;
    const char *code, *pointer;
};

static const struct refusal OF_LLAMA[] = {
    { "", 400, "field", "/text" },
    { ",\"foo\":1", 400, "field", "/foo" },
    { ",\"text\":\"a\"", 400, "field", "/text" },
    { ",\"text\":7", 400, "type", "/text" },
    { ",\"tokens\":[1],\"text\":\"a\"", 400, "field", "/tokens" },
    { ",\"tokens\":[1],\"pair\":\"a\"", 400, "field", "/pair" },
    { ",\"tokens\":[1,40]", 400, "option", "/tokens/1" },
    { ",\"tokens\":[1,-1]", 400, "option", "/tokens/1" },
    { ",\"tokens\":[1,2.5]", 400, "option", "/tokens/1" },
    { ",\"tokens\":[[1]]", 400, "type", "/tokens" },
    { ",\"tokens\":[\"a\"]", 400, "type", "/tokens/0" },
    { ",\"tokens\":1", 400, "type", "/tokens" },
    { ",\"tokens\":[1],\"token_types\":[0]", 400, "field", "/token_types" },
    { ",\"tokens\":[1],\"decoder_tokens\":[1]", 400, "field", "/decoder_tokens" },
    { ",\"tokens\":[1],\"decoder_text\":\"a\"", 400, "field", "/decoder_text" },
    { ",\"pixels\":[[[1]]]", 400, "field", "/pixels" },
    { ",\"features\":[[1]]", 400, "field", "/features" },
    { ",\"embeddings\":[[1,2]]", 400, "shape", "/embeddings" },
    { ",\"embeddings\":[1]", 400, "shape", "/embeddings" },
    { ",\"embeddings\":[],\"tokens\":[1]", 400, "field", "/embeddings" },
    { ",\"tokens\":[1],\"special\":1", 400, "type", "/special" },
    { ",\"tokens\":[1],\"layers\":[0,3]", 404, "not_found", "/layers/1" },
    { ",\"tokens\":[1],\"layers\":[-1]", 400, "option", "/layers/0" },
    { ",\"tokens\":[1],\"layers\":0", 400, "type", "/layers" },
    { ",\"tokens\":[1],\"kinds\":[\"cross\"]", 400, "option", "/kinds" },
    { ",\"tokens\":[1],\"kinds\":\"self\"", 400, "type", "/kinds" },
    { ",\"tokens\":[1],\"kinds\":[1]", 400, "type", "/kinds" },
    { ",\"tokens\":[1],\"outputs\":[\"weight\"]", 400, "option", "/outputs" },
    { ",\"tokens\":[1],\"outputs\":\"weights\"", 400, "type", "/outputs" },
    { ",\"tokens\":[1],\"weight_map\":{\"rows\":[1]}", 400, "option", "/weight_map/rows" },
    { ",\"tokens\":[1],\"weight_map\":{\"heads\":[4]}", 400, "option", "/weight_map/heads" },
    { ",\"tokens\":[1],\"weight_map\":{\"cells\":1}", 400, "field", "/weight_map/cells" },
    { ",\"tokens\":[1],\"top_k_tokens\":0", 400, "option", "/top_k_tokens" },
    { ",\"tokens\":[1],\"outputs\":[\"predictions\"],\"positions\":[0,1]", 400, "option",
      "/positions/1" },
    { ",\"tokens\":[1],\"outputs\":[\"predictions\"],\"positions\":[-2]", 400, "option",
      "/positions/0" },
    { ",\"tokens\":[1],\"spans\":[[0,2]]", 400, "option", "/spans/0" },
    { ",\"tokens\":[1],\"spans\":[[1,0]]", 400, "option", "/spans/0" },
    { ",\"tokens\":[1],\"spans\":[[0,1,1]]", 400, "type", "/spans" },
    { ",\"tokens\":[1],\"spans\":[[0,1]],\"rows\":[1]", 400, "option", "/rows/0" },
    { ",\"tokens\":[1,2],\"spans\":[[0,1]],\"rows\":[1,0]", 400, "option", "/rows/1" },
    { ",\"tokens\":[1],\"spans\":[[0,1]],\"outputs\":[\"weights\"]", 400, "option", "/outputs" },
    { ",\"tokens\":[1],\"rows\":[0]", 400, "field", "/rows" },
    { ",\"tokens\":[1],\"span_texts\":[\"a\"]", 400, "field", "/span_texts" },
};

static const struct refusal OF_BERT[] = {
    { ",\"tokens\":[1,2],\"token_types\":[0]", 400, "shape", "/token_types" },
    { ",\"tokens\":[1,2],\"token_types\":[0,2]", 400, "option", "/token_types/1" },
    { ",\"token_types\":[0,1],\"text\":\"a\"", 400, "field", "/token_types" },
};

static void expect_refused(const char *model, const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char body[256];
        snprintf(body, sizeof body, JSON({"model":"%s"%s}), model, refusals[i].members);
        answer_refused(&client, PATH, body, refusals[i].status, refusals[i].code,
                       refusals[i].pointer);
    }
}

TEST(refused)
{
    expect_refused("llama", OF_LLAMA, sizeof OF_LLAMA / sizeof OF_LLAMA[0]);
    expect_refused("bert", OF_BERT, sizeof OF_BERT / sizeof OF_BERT[0]);
    expect_refused("nobody", &(struct refusal){ ",\"tokens\":[1]", 404, "not_found", "/model" }, 1);
    expect_refused("demo", &(struct refusal){ ",\"tokens\":[1]", 400, "option", "/model" }, 1);
    answer_refused(&client, PATH, "{\"tokens\":[1]}", 400, "field", "/model");
    answer_refused(&client, PATH, "[]", 400, "type", "");
    answer_refused(&client, PATH, "{", 400, "json", NULL);
    answer_refused(&client, "/v1/trace/batch", "{}", 400, "field", "/requests");
    answer_refused(&client, "/v1/trace/batch", "{\"requests\":[1]}", 400, "type", "/requests");
    answer_refused(&client, "/v1/trace/batch", "{\"requests\":[\"x\"]}", 400, "type",
                   "/requests/0");
}

/* A name that is near no field, such as that of another library, is answered with all fields. */
TEST(field_of_others)
{
    struct http_response response =
        http_client_post(&client, PATH, "{\"model\":\"bert\",\"input_ids\":[1]}");
    answer_expect_fault(&response, 400, "field", "/input_ids");
    assert_non_null(strstr(response.body, "there is no field 'input_ids'; expected any of model, "
                                          "text, pair, special, tokens, token_types, "));
    assert_non_null(strstr(response.body,
                           ", top_k_tokens, positions, pooling, normalize, dimensions, keep, "
                           "compare, targets, states, edits\""));
    http_response_free(&response);
}

/* A fault of a shape says what came and what the model takes. */
TEST(other_shape)
{
    struct http_response response =
        http_client_post(&client, PATH, "{\"model\":\"bert\",\"embeddings\":[[[1,2]]]}");
    answer_expect_fault(&response, 400, "shape", "/embeddings");
    assert_non_null(strstr(response.body, "embeddings is [1][1][2]; model 'bert' takes [rows]["));
    http_response_free(&response);
}

/* bert's table of positions has an end, and tokens are never cut off there. */
TEST(too_many_tokens)
{
    char body[1024], tokens[512];
    snprintf(body, sizeof body, "{\"model\":\"bert\",\"layers\":[],\"tokens\":%s}",
             traced_model_tokens(tokens, sizeof tokens, 0, TRACED_POSITIONS));
    cJSON_Delete(answer_post(&client, PATH, body));
    snprintf(body, sizeof body, "{\"model\":\"bert\",\"layers\":[],\"tokens\":%s}",
             traced_model_tokens(tokens, sizeof tokens, 0, TRACED_POSITIONS + 1));
    answer_refused(&client, PATH, body, 400, "length", "/tokens");
}

/* The body of a trace of llama over so many tokens, which the caller frees. */
static char *long_body(int count, const char *more)
{
    const unsigned long size = (unsigned long)count * 3 + 8;
    char *tokens = malloc(size);
    struct request_text body = { .data = NULL };
    assert_non_null(tokens);
    request_text_add(&body, "{\"model\":\"llama\",\"tokens\":%s%s}",
                     traced_model_tokens(tokens, size, 0, count), more);
    free(tokens);
    return body.data;
}

/* Posts the body, which is refused with a map that would fit; frees it. */
static void take_hint(const char *path, char *body, char *map, size_t size)
{
    struct http_response response = http_client_post(&client, path, body);
    answer_expect_fault(&response, 413, "answer_too_large", NULL);
    const char *hint = strstr(response.body, "pool");
    int rows = 0, columns = 0;
    assert_non_null(hint);
    assert_int_equal(sscanf(hint, "pool\\\":[%d,%d]", &rows, &columns), 2);
    snprintf(map, size, ",\"weight_map\":{\"pool\":[%d,%d]}", rows, columns);
    http_response_free(&response);
    free(body);
}

/* The message says which pooled map would fit, and that map does, in place of any that was asked
 * for. */
TEST(answer_too_large)
{
    static const char *const MAPS[] = { "", ",\"weight_map\":{\"heads\":\"mean\"}",
                                        ",\"weight_map\":{\"heads\":[1]}",
                                        ",\"weight_map\":{\"top_k\":1500}" };
    for (int i = 0; i < 4; i++) {
        char map[64];
        take_hint(PATH, long_body(2000, MAPS[i]), map, sizeof map);
        char *body = long_body(2000, map);
        cJSON_Delete(answer_post(&client, PATH, body));
        free(body);
    }
}

/* Of a batch, it fits where all requests take it. */
TEST(batch_too_large)
{
    static const char REQUESTS[] = ",\"requests\":[{},{},{},{},{}]";
    char map[64], more[128];
    take_hint("/v1/trace/batch", long_body(750, REQUESTS), map, sizeof map);
    snprintf(more, sizeof more, "%s%s", map, REQUESTS);
    char *body = long_body(750, more);
    cJSON_Delete(answer_post(&client, "/v1/trace/batch", body));
    free(body);
}

/* So many tokens that their trace takes seconds. */
static int long_tokens(void)
{
    return (int)(20000 / sqrt(daemon_slowness()));
}

TEST(deadline)
{
    char *body = long_body(long_tokens(), ",\"outputs\":[\"lse\"]");
    const char *const headers[] = { "Content-Type: application/json", "X-Timeout-Ms: 300", NULL };
    const struct http_request request = { .path = PATH, .body = body, .headers = headers };
    answer_send_refused(&client, &request, 504, "deadline", NULL);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    free(body);
}

/* A long trace is stopped when its client leaves, and short requests pass it before. */
TEST(leaving)
{
    char *body = long_body(long_tokens(), ",\"outputs\":[\"lse\"]");
    char head[160];
    struct http_raw raw;
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
             "Content-Type: application/json\r\n\r\n",
             PATH, strlen(body));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    assert_true(http_raw_send_text(&raw, body));
    answer_wait_for_metric(&client, "attnd_queue_jobs", 1, 1);
    cJSON_Delete(answer_post(&client, PATH, JSON({"model":"bert","tokens":[1,2,3]})));
    answer_wait_for_metric(&client, "attnd_queue_jobs", 1, 1);
    http_raw_close(&raw);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    free(body);
}

TEST(counted)
{
    cJSON *answer = answer_post(&client, PATH, JSON({"model":"bert","tokens":[1,2,3]}));
    cJSON_Delete(answer);
    answer = answer_get(&client, "/v2/models/bert/stats");
    const cJSON *stats = cJSON_GetObjectItem(answer, "model_stats")->child;
    assert_true(cJSON_GetObjectItem(stats, "inference_count")->valuedouble >= 1);
    assert_true(cJSON_GetObjectItem(stats, "execution_count")->valuedouble >= 1);
    cJSON_Delete(answer);
}

/* A pass that does not fit alone never will, where planning it finds that as where its memory is
 * reserved. In a batch it is the fault of its item. */
TEST(passes_that_never_fit)
{
    static const char MORE[] = ",\"layers\":[],\"outputs\":[\"predictions\"]";
    static const int COUNTS[] = { 4000, 12000, 20000, 24000 };
    assert_int_equal(fixture_stop(NULL), 0);
    fixture_serve("--models", directory, "--memory-max", "4MiB");
    for (int i = 0; i < 4; i++) {
        char *body = long_body(COUNTS[i], MORE);
        answer_refused(&client, PATH, body, 413, "too_large", NULL);
        free(body);
    }
    char *item = long_body(20000, MORE), *body = NULL;
    assert_true(asprintf(&body, "{\"requests\":[{\"model\":\"llama\",\"tokens\":[3]},%s]}", item)
                > 0);
    cJSON *answer = answer_post(&client, "/v1/trace/batch", body);
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_null(cJSON_GetObjectItem(cJSON_GetArrayItem(results, 0), "error"));
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(results, 1), "code")),
        "too_large");
    cJSON_Delete(answer);
    free(body);
    free(item);
}

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    fixture_serve("--models", directory, "--workers", "1", "--answer-max", "8MiB", DAEMON_PATIENT);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
