/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c - POST /v1/trace and its batch: what is asked for is answered, and nothing else.
 *
 * The numbers are compared with each other and with POST /v1/attention, to the last digit; what
 * they are is the matter of the programs of the families, test_trace_*.c. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "traced_model.h"

static const char PATH[] = "/v1/trace";
static const char *const MODELS[] = { "bert", "llama" };
static const int LENGTHS[] = { 1, 2, 5, 17, 60 };
enum { MODEL_COUNT = 2, LENGTH_COUNT = 5 };

static char tokens[8192];

/* Asks for a trace of so many tokens; more ends the object. */
static cJSON *ask(const char *model, int count, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"tokens\":%s%s}", model,
                     traced_model_tokens(tokens, sizeof tokens, 3, count), more);
    cJSON *answer = answer_post(&client, PATH, body.data);
    free(body.data);
    return answer;
}

static const cJSON *layers_of(const cJSON *answer)
{
    return cJSON_GetObjectItemCaseSensitive(answer, "layers");
}

/* The numbers of the layers, as text: "0,2,". */
static void expect_layers(cJSON *answer, const char *want)
{
    char got[64] = "";
    const cJSON *layer;
    cJSON_ArrayForEach(layer, layers_of(answer)) {
        char number[16];
        snprintf(number, sizeof number, "%d,",
                 cJSON_GetObjectItemCaseSensitive(layer, "layer")->valueint);
        strcat(got, number);
    }
    assert_string_equal(got, want);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------ choosing -- */

TEST(default_is_weights_of_all_layers)
{
    cJSON *answer = ask("llama", 5, "");
    const cJSON *layer;
    answer_expect_members(answer, "model,tokens,layers");
    answer_expect(answer, "tokens", JSON([{"id":3},{"id":10},{"id":17},{"id":24},{"id":31}]), 0);
    cJSON_ArrayForEach(layer, layers_of(answer)) {
        answer_expect_members(layer, "layer,kind,weights");
        answer_expect(layer, "kind", "\"self\"", 0);
    }
    expect_layers(answer, "0,1,2,");
}

TEST(chosen_layers)
{
    expect_layers(ask("llama", 5, ",\"layers\":[2,0,2]"), "0,2,");
    expect_layers(ask("llama", 5, ",\"layers\":[]"), "");
    expect_layers(ask("llama", 5, ",\"layers\":[1],\"kinds\":[\"self\"]"), "1,");
    expect_layers(ask("llama", 5, ",\"kinds\":[\"self\"],\"layers\":null"), "0,1,2,");
    expect_layers(ask("llama", 5, ",\"kinds\":[]"), "");
}

TEST(chosen_outputs)
{
    cJSON *answer = ask("bert", 5,
                        ",\"layers\":[1],\"outputs\":[\"weights\",\"lse\",\"scores\",\"masked\","
                        "\"inputs\",\"hidden_states\",\"attention_output\",\"predictions\"]");
    answer_expect_members(answer, "model,tokens,layers,final_hidden_states,predictions");
    answer_expect_members(cJSON_GetArrayItem(layers_of(answer), 0),
                          "layer,kind,weights,lse,scores,masked,inputs,hidden_states,"
                          "attention_output");
    cJSON_Delete(answer);
    answer = ask("bert", 5, ",\"layers\":[1],\"outputs\":[]");
    answer_expect_members(cJSON_GetArrayItem(layers_of(answer), 0), "layer,kind");
    cJSON_Delete(answer);
}

/* A layer's numbers do not depend on what else is asked for. */
TEST(choice_changes_no_number)
{
    static const char *const OUTPUTS[] = { "weights", "lse", "inputs", "hidden_states",
                                           "attention_output" };
    for (int m = 0; m < MODEL_COUNT; m++) {
        cJSON *all = ask(MODELS[m], 17,
                         ",\"outputs\":[\"weights\",\"lse\",\"inputs\",\"hidden_states\","
                         "\"attention_output\"]");
        for (int layer = 0; layer < TRACED_LAYERS; layer++)
            for (int i = 0; i < 5; i++) {
                char more[96];
                snprintf(more, sizeof more, ",\"layers\":[%d],\"outputs\":[\"%s\"]", layer,
                         OUTPUTS[i]);
                cJSON *one = ask(MODELS[m], 17, more);
                answer_expect_equal(cJSON_GetArrayItem(layers_of(one), 0),
                                    cJSON_GetArrayItem(layers_of(all), layer), OUTPUTS[i]);
                cJSON_Delete(one);
            }
        cJSON_Delete(all);
    }
}

TEST(predictions)
{
    cJSON *answer = ask("llama", 5,
                        ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":3,"
                        "\"positions\":[0,-1,-1]");
    const cJSON *predictions = cJSON_GetObjectItemCaseSensitive(answer, "predictions");
    assert_int_equal(cJSON_GetArraySize(predictions), 3);
    answer_expect(cJSON_GetArrayItem(predictions, 0), "position", "0", 0);
    answer_expect(cJSON_GetArrayItem(predictions, 2), "position", "4", 0);
    answer_expect_equal(cJSON_GetArrayItem(predictions, 1), cJSON_GetArrayItem(predictions, 2),
                        "tokens");
    const cJSON *chosen = cJSON_GetObjectItem(cJSON_GetArrayItem(predictions, 0), "tokens");
    assert_int_equal(cJSON_GetArraySize(chosen), 3);
    answer_expect_members(cJSON_GetArrayItem(chosen, 0), "id,logprob");
    cJSON *last = ask("llama", 5, ",\"layers\":[],\"outputs\":[\"predictions\"]");
    const cJSON *by_default = cJSON_GetObjectItemCaseSensitive(last, "predictions");
    assert_int_equal(cJSON_GetArraySize(by_default), 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(by_default->child, "tokens")), 5);
    cJSON_Delete(last);
    cJSON_Delete(answer);
}

/* More candidates than there are tokens are all tokens, whose probabilities are 1 together. */
TEST(all_candidates)
{
    cJSON *answer =
        ask("llama", 5, ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":1000");
    const cJSON *chosen = cJSON_GetObjectItem(
        cJSON_GetObjectItemCaseSensitive(answer, "predictions")->child, "tokens");
    assert_int_equal(cJSON_GetArraySize(chosen), TRACED_TOKENS);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------ against /v1/attention -- */

static const char *const MAPS[] = {
    "",
    ",\"weight_map\":{\"pool\":[4,3]}",
    ",\"weight_map\":{\"top_k\":2}",
    ",\"weight_map\":{\"pool\":[3,3],\"top_k\":2}",
    ",\"weight_map\":{\"heads\":\"mean\"}",
    ",\"weight_map\":{\"heads\":[1,3],\"rows\":[0]}",
};

/* What /v1/attention answers for a layer with these inputs. */
static cJSON *attend(const char *model, const cJSON *layer, const char *more)
{
    struct request_text body = { .data = NULL };
    char *inputs = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(layer, "inputs"));
    request_text_add(&body,
                     "{\"model\":\"%s\",\"layer\":%d,\"query\":%s,"
                     "\"outputs\":[\"context\",\"weights\",\"lse\",\"scores\",\"masked\"]%s}",
                     model, cJSON_GetObjectItemCaseSensitive(layer, "layer")->valueint, inputs,
                     more);
    cJSON *answer = answer_post(&client, "/v1/attention", body.data);
    cJSON_AddItemToObject(answer, "attention_output",
                          cJSON_DetachItemFromObject(answer, "context"));
    free(inputs);
    free(body.data);
    return answer;
}

static void expect_attention(const char *model, int count, const char *map)
{
    static const char *const NAMES[] = { "weights", "lse", "scores", "masked", "attention_output" };
    struct request_text more = { .data = NULL };
    request_text_add(&more,
                     ",\"outputs\":[\"inputs\",\"weights\",\"lse\",\"scores\",\"masked\","
                     "\"attention_output\"]%s",
                     map);
    cJSON *answer = ask(model, count, more.data);
    const cJSON *layer;
    cJSON_ArrayForEach(layer, layers_of(answer)) {
        cJSON *attention = attend(model, layer, map);
        for (int i = 0; i < 5; i++)
            answer_expect_equal(layer, attention, NAMES[i]);
        cJSON_Delete(attention);
    }
    cJSON_Delete(answer);
    free(more.data);
}

TEST(same_bits_as_attention)
{
    for (int m = 0; m < MODEL_COUNT; m++)
        for (int l = 0; l < LENGTH_COUNT; l++)
            for (int i = 0; i < (int)(sizeof MAPS / sizeof MAPS[0]); i++)
                expect_attention(MODELS[m], LENGTHS[l], MAPS[i]);
}

/* --kernels is for a trace's attention too. */
TEST(same_bits_with_other_kernels)
{
    struct daemon other;
    const struct http_client of_server = client;
    daemon_start_with(&other, "--models", directory, "--kernels", "generic", NULL);
    http_client_init(&client, other.port);
    for (int m = 0; m < MODEL_COUNT; m++)
        for (int l = 0; l < LENGTH_COUNT; l++)
            expect_attention(MODELS[m], LENGTHS[l], "");
    http_client_free(&client);
    client = of_server;
    daemon_stop(&other);
}

/* --------------------------------------------------------------------- spans -- */

static double number_at(const cJSON *array, int a, int b, int c)
{
    return cJSON_GetArrayItem(cJSON_GetArrayItem(cJSON_GetArrayItem(array, a), b), c)->valuedouble;
}

TEST(spans_are_sums_of_weights)
{
    static const int SPANS[][2] = { { 0, 5 }, { 5, 17 }, { 3, 3 }, { 2, 9 } };
    static const int ROWS[] = { 0, 8, 16 };
    cJSON *whole = ask("llama", 17, "");
    cJSON *sums = ask("llama", 17, ",\"spans\":[[0,5],[5,17],[3,3],[2,9]],\"rows\":[0,8,-1]");
    answer_expect_members(sums, "model,spans,layers");
    answer_expect(sums, "spans", "[[0,5],[5,17],[3,3],[2,9]]", 0);
    for (int layer = 0; layer < TRACED_LAYERS; layer++) {
        const cJSON *one = cJSON_GetArrayItem(layers_of(sums), layer);
        const cJSON *weights =
            cJSON_GetObjectItem(cJSON_GetArrayItem(layers_of(whole), layer), "weights");
        answer_expect_members(one, "layer,kind,spans");
        for (int h = 0; h < TRACED_HEADS; h++)
            for (int r = 0; r < 3; r++)
                for (int s = 0; s < 4; s++) {
                    double want = 0;
                    for (int k = SPANS[s][0]; k < SPANS[s][1]; k++)
                        want += number_at(weights, h, ROWS[r], k);
                    assert_float_equal(number_at(cJSON_GetObjectItem(one, "spans"), h, r, s), want,
                                       1e-6);
                }
    }
    cJSON_Delete(sums);
    cJSON_Delete(whole);
}

/* ---------------------------------------------------------- embeddings, rows -- */

/* The rows that enter the first block are the embedding's output. */
TEST(embeddings_take_its_place)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        cJSON *by_tokens = ask(MODELS[m], 17, ",\"outputs\":[\"weights\",\"hidden_states\"]");
        char *rows = cJSON_PrintUnformatted(
            cJSON_GetObjectItem(layers_of(by_tokens)->child, "hidden_states"));
        struct request_text body = { .data = NULL };
        request_text_add(&body,
                         "{\"model\":\"%s\",\"embeddings\":%s,"
                         "\"outputs\":[\"weights\",\"hidden_states\"]}",
                         MODELS[m], rows);
        cJSON *by_rows = answer_post(&client, PATH, body.data);
        answer_expect_members(by_rows, "model,layers,final_hidden_states");
        answer_expect_equal(by_rows, by_tokens, "layers");
        answer_expect_equal(by_rows, by_tokens, "final_hidden_states");
        cJSON_Delete(by_rows);
        cJSON_Delete(by_tokens);
        free(body.data);
        free(rows);
    }
}

/* A causal model's row does not change when tokens are put behind it. */
TEST(prefix_keeps_its_rows)
{
    cJSON *whole = ask("llama", 60, ",\"outputs\":[\"hidden_states\"]");
    const cJSON *want = cJSON_GetObjectItemCaseSensitive(whole, "final_hidden_states");
    for (int l = 0; l < LENGTH_COUNT; l++) {
        cJSON *part = ask("llama", LENGTHS[l], ",\"outputs\":[\"hidden_states\"]");
        const cJSON *got = cJSON_GetObjectItemCaseSensitive(part, "final_hidden_states");
        assert_int_equal(cJSON_GetArraySize(got), LENGTHS[l]);
        for (int i = 0; i < LENGTHS[l]; i++)
            assert_true(cJSON_Compare(cJSON_GetArrayItem(got, i), cJSON_GetArrayItem(want, i), 1));
        cJSON_Delete(part);
    }
    cJSON_Delete(whole);
}

TEST(no_tokens)
{
    cJSON *answer =
        ask("llama", 0, ",\"outputs\":[\"weights\",\"lse\",\"hidden_states\",\"predictions\"]");
    answer_expect(answer, "tokens", "[]", 0);
    answer_expect(answer, "predictions", "[]", 0);
    answer_expect(answer, "final_hidden_states", "[]", 0);
    answer_expect(layers_of(answer)->child, "weights", "[[],[],[],[]]", 0);
    expect_layers(answer, "0,1,2,");
}

/* --------------------------------------------------------------------- batch -- */

TEST(batch_changes_no_bit)
{
    static const char OUTPUTS[] = "\"outputs\":[\"weights\",\"lse\",\"hidden_states\","
                                  "\"inputs\",\"predictions\"]";
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{%s,\"requests\":[", OUTPUTS);
    for (int i = 0; i < 2 * LENGTH_COUNT; i++)
        request_text_add(&body, "%s{\"model\":\"%s\",\"tokens\":%s}", i > 0 ? "," : "",
                         MODELS[i / LENGTH_COUNT],
                         traced_model_tokens(tokens, sizeof tokens, 3, LENGTHS[i % LENGTH_COUNT]));
    request_text_add(&body, "]}");
    cJSON *answer = answer_post(&client, "/v1/trace/batch", body.data);
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), 2 * LENGTH_COUNT);
    for (int i = 0; i < 2 * LENGTH_COUNT; i++) {
        char more[128];
        snprintf(more, sizeof more, ",%s", OUTPUTS);
        cJSON *alone = ask(MODELS[i / LENGTH_COUNT], LENGTHS[i % LENGTH_COUNT], more);
        assert_true(cJSON_Compare(cJSON_GetArrayItem(results, i), alone, 1));
        cJSON_Delete(alone);
    }
    cJSON_Delete(answer);
    free(body.data);
}

TEST(batch_faults_are_of_items)
{
    cJSON *answer = answer_post(
        &client, "/v1/trace/batch",
        "{\"model\":\"llama\",\"layers\":[0],\"requests\":[{\"tokens\":[1,99]},{\"tokens\":[1]},"
        "{},{\"tokens\":[1],\"model\":\"nobody\"},{\"tokens\":[1],\"layers\":[3]}]}");
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), 5);
    answer_expect_item_fault(cJSON_GetArrayItem(results, 0), "option", "/requests/0/tokens/1");
    answer_expect_members(cJSON_GetArrayItem(results, 1), "model,tokens,layers");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 2), "field", "/requests/2/text");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 3), "not_found", "/requests/3/model");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 4), "not_found", "/requests/4/layers/0");
    cJSON_Delete(answer);
    answer_refused(&client, "/v1/trace/batch", "{\"requests\":[{\"tokens\":[1]},7]}", 400, "type",
                   "/requests/1");
    answer = answer_post(&client, "/v1/trace/batch", JSON({"requests":[]}));
    answer_expect(answer, "results", "[]", 0);
    cJSON_Delete(answer);
}

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
