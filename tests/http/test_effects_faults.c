/* SPDX-License-Identifier: Apache-2.0 */
/* test_effects_faults.c - requests of effects that are refused: each fault says which field. Then
 * what a sweep takes: its memory, and its time where the client leaves. */
#include "answer.h"
#include "fixture.h"
#include "hybrid_model.h"
#include "request_text.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

static const char PATH[] = "/v1/effects";

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    traced_families_save(directory);
    hybrid_model_make(fixture_path("lfm2"));
    return fixture_serve("--models", directory), 0;
}

struct refusal {
    const char *members;
    long status;
    const char *code, *pointer;
};

static void refuse(const char *input, const struct refusal *refusal)
{
    char body[1000];
    snprintf(body, sizeof body, "{%s,%s}", input, refusal->members);
    answer_refused(&client, PATH, body, refusal->status, refusal->code, refusal->pointer);
}

#define TOKEN "\"metric\":{\"token\":7}"
#define HEADS "\"each\":\"heads\""

/* llama has 3 layers of 4 heads; the request has 3 tokens. */
static const struct refusal OF_LLAMA[] = {
    { HEADS, 400, "field", "/metric" },
    { "\"metric\":{}," HEADS, 400, "field", "/metric" },
    { "\"metric\":null," HEADS, 400, "field", "/metric" },
    { "\"metric\":7," HEADS, 400, "type", "/metric" },
    { "\"metric\":{\"token\":7,\"divergence\":\"kl\"}," HEADS, 400, "field", "/metric" },
    { "\"metric\":{\"against\":7}," HEADS, 400, "field", "/metric" },
    { "\"metric\":{\"against\":7,\"divergence\":\"kl\"}," HEADS, 400, "option", "/metric/against" },
    { "\"metric\":{\"divergence\":\"js\"}," HEADS, 400, "option", "/metric/divergence" },
    { "\"metric\":{\"token\":7,\"position\":3}," HEADS, 400, "option", "/metric/position" },
    { "\"metric\":{\"divergence\":\"kl\",\"position\":-4}," HEADS, 400, "option",
      "/metric/position" },
    { "\"metric\":{\"token\":40}," HEADS, 400, "option", "/metric/token" },
    { "\"metric\":{\"token\":7,\"against\":40}," HEADS, 400, "option", "/metric/against" },
    { "\"metric\":{\"token\":7,\"rank\":1}," HEADS, 400, "field", "/metric/rank" },
    { TOKEN, 400, "field", "/each" },
    { TOKEN ",\"each\":\"rows\"", 400, "option", "/each" },
    { TOKEN ",\"each\":7", 400, "type", "/each" },
    { TOKEN ",\"each\":{}", 400, "field", "/each" },
    { TOKEN ",\"each\":{\"rows_of_layers\":false}", 400, "field", "/each" },
    { TOKEN ",\"each\":{\"rows_of_layers\":true,\"spans\":[]}", 400, "field", "/each" },
    { TOKEN ",\"each\":{\"heads\":true}", 400, "field", "/each/heads" },
    { TOKEN ",\"each\":{\"spans\":[[0,4]]}", 400, "option", "/each/spans/0" },
    { TOKEN ",\"each\":{\"spans\":[[0,1],[2,1]]}", 400, "option", "/each/spans/1" },
    { TOKEN ",\"each\":{\"spans\":[1]}", 400, "option", "/each/spans/0" },
    { TOKEN ",\"each\":{\"spans\":\"all\"}", 400, "type", "/each/spans" },
    { TOKEN ",\"each\":{\"span_texts\":[\"a\"]}", 400, "option", "/each/span_texts/0" },
    { TOKEN "," HEADS ",\"by\":\"zero\"", 400, "option", "/by" },
    { TOKEN "," HEADS ",\"by\":\"hide\"", 400, "option", "/by" },
    { TOKEN "," HEADS ",\"by\":\"leave_out\"", 400, "option", "/by" },
    { TOKEN ",\"each\":{\"spans\":[]},\"by\":\"scale\"", 400, "option", "/by" },
    { TOKEN "," HEADS ",\"by\":\"mean\",\"scale\":0", 400, "option", "/scale" },
    { TOKEN ",\"each\":{\"spans\":[]},\"scale\":0", 400, "option", "/scale" },
    { TOKEN "," HEADS ",\"scale\":1e39", 400, "nonfinite", "/scale" },
    { TOKEN "," HEADS ",\"by\":\"from\"", 400, "field", "/other" },
    { TOKEN "," HEADS ",\"other\":{\"tokens\":[1,2,3]}", 400, "option", "/other" },
    { TOKEN "," HEADS ",\"by\":\"from\",\"other\":{\"tokens\":[1,2]}", 400, "length", "/other" },
    { TOKEN "," HEADS ",\"by\":\"from\",\"other\":{\"tokens\":[1,2,40]}", 400, "option",
      "/other/tokens/2" },
    { TOKEN "," HEADS ",\"by\":\"from\",\"other\":{}", 400, "field", "/other/text" },
    { TOKEN "," HEADS ",\"by\":\"from\",\"other\":{\"model\":\"llama\"}", 400, "field",
      "/other/model" },
    { TOKEN "," HEADS ",\"kind\":\"cross\"", 400, "option", "/kind" },
    { TOKEN "," HEADS ",\"layers\":[0,3]", 404, "not_found", "/layers/1" },
    { TOKEN "," HEADS ",\"layers\":7", 400, "type", "/layers" },
    { TOKEN "," HEADS ",\"rows\":[3]", 400, "option", "/rows/0" },
    { TOKEN ",\"each\":{\"spans\":[]},\"rows\":[0,-4]", 400, "option", "/rows/1" },
    { TOKEN ",\"each\":{\"spans\":[[0,1]]},\"by\":\"leave_out\",\"rows\":[0]", 400, "option",
      "/rows" },
    { TOKEN ",\"each\":{\"spans\":[[0,1]]},\"by\":\"leave_out\",\"layers\":[0]", 400, "option",
      "/layers" },
    { TOKEN ",\"each\":{\"spans\":[[0,1],[1,3]]},\"by\":\"leave_out\"", 400, "option",
      "/each/spans/1" },
    { TOKEN ",\"each\":{\"spans\":[[0,3]]},\"by\":\"leave_out\"", 400, "option", "/each/spans/0" },
    { TOKEN ",\"each\":{\"spans\":[[0,1]]},\"by\":\"leave_out\",\"edits\":[{\"scale\":0,"
            "\"rows\":[2]}]",
      400, "option", "/edits/0/rows/0" },
    { TOKEN "," HEADS ",\"top_k_tokens\":0", 400, "option", "/top_k_tokens" },
    { TOKEN "," HEADS ",\"edits\":[{\"scale\":0,\"layers\":[3]}]", 404, "not_found",
      "/edits/0/layers/0" },
    { TOKEN "," HEADS ",\"edits\":[{}]", 400, "field", "/edits/0" },
    { TOKEN "," HEADS ",\"outputs\":[]", 400, "field", "/outputs" },
    { TOKEN "," HEADS ",\"targets\":[]", 400, "field", "/targets" },
};

TEST(refusals)
{
    for (size_t i = 0; i < sizeof OF_LLAMA / sizeof OF_LLAMA[0]; i++)
        refuse("\"model\":\"llama\",\"tokens\":[3,17,9]", &OF_LLAMA[i]);
}

static const struct refusal OF_T5[] = {
    { TOKEN "," HEADS, 400, "field", "/kind" },
    { TOKEN ",\"each\":\"feed_forwards\",\"kind\":\"cross\"", 400, "option", "/each" },
    { TOKEN "," HEADS ",\"kind\":\"cross\",\"layers\":[0]", 400, "option", "/layers/0" },
    { TOKEN ",\"each\":{\"spans\":[[0,1]]},\"layers\":[0,2]", 400, "option", "/layers/1" },
    { TOKEN ",\"each\":{\"spans\":[[0,1]]},\"layers\":[0,9]", 404, "not_found", "/layers/1" },
    { TOKEN ",\"each\":{\"spans\":[[0,3]]},\"by\":\"leave_out\"", 400, "option", "/each/spans/0" },
    { TOKEN ",\"each\":{\"spans\":[[0,3]]},\"kind\":\"decoder\"", 400, "option", "/each/spans/0" },
};

TEST(refusals_of_an_encoder_decoder)
{
    for (size_t i = 0; i < sizeof OF_T5 / sizeof OF_T5[0]; i++)
        refuse("\"model\":\"t5\",\"tokens\":[3,17,9],\"decoder_tokens\":[0,4]", &OF_T5[i]);
}

TEST(refusals_of_a_hybrid)
{
    static const struct refusal OF_LFM2[] = {
        { TOKEN ",\"each\":\"layers\"", 400, "field", "/kind" },
        { TOKEN ",\"each\":\"feed_forwards\"", 400, "field", "/kind" },
        { TOKEN "," HEADS ",\"kind\":\"convolution\"", 400, "option", "/each" },
        { TOKEN "," HEADS ",\"edits\":[{\"at\":\"hidden_states\",\"scale\":0}]", 400, "field",
          "/edits/0" },
    };
    for (size_t i = 0; i < sizeof OF_LFM2 / sizeof OF_LFM2[0]; i++)
        refuse("\"model\":\"lfm2\",\"tokens\":[3,17,9]", &OF_LFM2[i]);
}

TEST(kinds_to_choose_from)
{
    struct http_response response = http_client_post(
        &client, PATH, "{\"model\":\"lfm2\",\"tokens\":[3,17,9],\"each\":\"layers\"," TOKEN "}");
    assert_non_null(strstr(response.body, "layers of the kinds convolution, self"));
    http_response_free(&response);
}

TEST(refusals_of_other_models)
{
    static const struct refusal NO_HEAD = { TOKEN "," HEADS, 400, "option", "/metric" };
    static const struct refusal NO_MODEL = { TOKEN "," HEADS, 404, "not_found", "/model" };
    refuse("\"model\":\"clip\",\"tokens\":[3,17,9]", &NO_HEAD);
    refuse("\"model\":\"none\",\"tokens\":[3,17,9]", &NO_MODEL);
}

/* A request over so many tokens. The caller frees it. */
static char *long_body(int tokens, const char *members)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"llama\"," TOKEN ",%s,\"tokens\":[1", members);
    for (int i = 1; i < tokens; i++)
        request_text_add(&body, ",1");
    request_text_add(&body, "]}");
    return body.data;
}

#define ROWS_OF_LAYERS "\"each\":{\"rows_of_layers\":true}"

/* 22 000 rows of each of 3 layers. */
TEST(too_many_variants)
{
    char *body = long_body(22000, ROWS_OF_LAYERS);
    answer_refused(&client, PATH, body, 400, "option", "/each");
    free(body);
}

TEST(answers_that_are_too_large)
{
    char *body = long_body(20000, ROWS_OF_LAYERS ",\"top_k_tokens\":40");
    answer_refused(&client, PATH, body, 413, "answer_too_large", NULL);
    free(body);
}

/* What one request may take is asked for before anything is computed. */
TEST(memory)
{
    assert_int_equal(fixture_stop(NULL), 0);
    fixture_serve("--models", directory, "--memory-max", "4MiB");
    char *small = long_body(20, "\"each\":\"heads\""),
         *large = long_body(9000, "\"each\":\"heads\"");
    cJSON_Delete(answer_post(&client, PATH, small));
    answer_refused(&client, PATH, large, 413, "too_large", NULL);
    assert_true(answer_metric(&client, "attnd_memory_in_flight_bytes") == 0);
    cJSON_Delete(answer_post(&client, PATH, small));
    free(small);
    free(large);
}

/* {"hide":[[0,1],...]} of so many ranges, and so many equal spans that are left out. */
static char *cut_body(int spans, int ranges)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"llama\",\"tokens\":[3,17,9]," TOKEN
                            ",\"by\":\"leave_out\",\"edits\":[{\"hide\":[[0,1]");
    for (int i = 1; i < ranges; i++)
        request_text_add(&body, ",[0,1]");
    request_text_add(&body, "]}],\"each\":{\"spans\":[[0,1]");
    for (int i = 1; i < spans; i++)
        request_text_add(&body, ",[0,1]");
    request_text_add(&body, "]}}");
    return body.data;
}

/* Common edits are planned for every text without a span: waves have room for that too. */
TEST(memory_of_edits_where_spans_are_left_out)
{
    assert_int_equal(fixture_stop(NULL), 0);
    fixture_serve("--models", directory, "--memory-max", "16MiB");
    char *body = cut_body(200, 10000);
    cJSON *answer = answer_post(&client, PATH, body);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "effects")), 200);
    assert_true(answer_metric(&client, "attnd_memory_in_flight_bytes") == 0);
    cJSON_Delete(answer);
    free(body);
}

TEST(lists_that_are_too_long_for_every_span)
{
    char *body = cut_body(8192, 8193);
    answer_refused(&client, PATH, body, 413, "too_large", "/edits");
    free(body);
}

/* 400 spans that are left out, beside an edit that takes a row of the kept trace. */
static char *sweep_body(const char *trace)
{
    struct request_text members = { .data = NULL };
    request_text_add(&members,
                     "\"by\":\"leave_out\",\"edits\":[{\"at\":\"hidden_states\",\"layers\":[1],"
                     "\"rows\":[-1],\"from\":{\"trace\":\"%s\",\"rows\":[0]}}],"
                     "\"each\":{\"spans\":[[0,1]",
                     trace);
    for (int i = 1; i < 400; i++)
        request_text_add(&members, ",[0,1]");
    request_text_add(&members, "]}");
    char *body = long_body(300, members.data);
    free(members.data);
    return body;
}

/* A sweep holds the kept rows that it has found: more than a mebibyte is reserved for waves only
 * when it is planned. Under a sanitizer it takes longer than a request may by itself. */
TEST(a_trace_that_ends_in_a_sweep)
{
    static const char KEEP[] = "{\"model\":\"llama\",\"tokens\":[3],\"outputs\":[],"
                               "\"keep\":\"5m\",\"states\":true}";
    assert_int_equal(fixture_stop(NULL), 0);
    fixture_serve("--models", directory, DAEMON_PATIENT);
    cJSON *kept = answer_post(&client, "/v1/trace", KEEP);
    const char *trace = cJSON_GetStringValue(cJSON_GetObjectItem(kept, "trace"));
    char path[128], *body = sweep_body(trace);
    const struct http_request sweep = { .path = PATH, .body = body };
    const struct http_request end = { .method = "DELETE", .path = path };
    struct http_background background;
    snprintf(path, sizeof path, "/v1/traces/%s", trace);
    http_background_start(&background, server.port, &sweep);
    answer_wait_for_metric(&client, "attnd_memory_in_flight_bytes", 1 << 20, 1e12);
    struct http_response response = http_client_send(&client, &end);
    assert_int_equal(response.status, 204);
    http_response_free(&response);
    response = http_background_join(&background);
    cJSON *answer = answer_json(&response, 200);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "effects")), 400);
    http_response_free(&response);
    cJSON_Delete(answer);
    cJSON_Delete(kept);
    free(body);
}

/* A sweep of 6000 passes over 2000 tokens takes far longer than any test: it ends only because
 * its client is gone. */
TEST(a_client_that_leaves)
{
    char head[256], *body = long_body(2000, ROWS_OF_LAYERS);
    struct http_raw raw;
    assert_int_equal(fixture_stop(NULL), 0);
    fixture_serve("--models", directory, DAEMON_PATIENT);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
             "Content-Type: application/json\r\nX-Timeout-Ms: 100000000\r\n\r\n",
             PATH, strlen(body));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    assert_true(http_raw_send_text(&raw, body));
    answer_wait_for_metric(&client, "attnd_queue_jobs", 1, 1);
    http_raw_close(&raw);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    answer_wait_for_metric(&client, "attnd_cancelled_total{reason=\"left_waiting\"}", 1, 1);
    free(body);
}

ALL_TESTS(start, fixture_clear);
TEST_ALSO(test_stops_cleanly);
