/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_keys_of.c - sessions of a model some of whose layers have the keys and values of
 * earlier ones, which the session keeps once: what it takes, what is appended, tried again, taken
 * back, forked, dropped and put into files, and what calls of attention read. That the numbers are
 * those of the whole trace is in the tests of the families (forward_session.h). */
#include "answer.h"
#include "fixture.h"
#include "gguf_models.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

/* Two heads of 16 and of 32 columns in layers 0 and 1, whose keys layers 2 and 3 have too. */
enum { LAYERS = 4, NUMBERS = 2 * 2 * (16 + 32), WORDS = 40 };

static int set_up(void **state)
{
    fixture_make_directory(state);
    gguf_model_write(gguf_model_named("gemma4"), (struct gguf_model_form){ "F32", false },
                     fixture_path("gemma4.gguf"));
    return fixture_serve("--models", directory), 0;
}

static void make(const char *id, const char *more)
{
    char body[160];
    snprintf(body, sizeof body, "{\"model\":\"gemma4\",\"id\":\"%s\"%s}", id, more);
    session_make(&client, body);
}

/* Tokens that follow from at, so many. */
static cJSON *send(const char *id, int at, int count, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"at\":%d%s,\"tokens\":[", at, more);
    for (int i = 0; i < count; i++)
        request_text_add(&body, "%s%d", i > 0 ? "," : "", ((at + i) * 7 + 3) % WORDS);
    request_text_add(&body, "]}");
    cJSON *answer = session_post(&client, id, "trace", body.data, 200);
    free(body.data);
    return answer;
}

#define OUTPUTS ",\"outputs\":[\"weights\",\"lse\",\"inputs\",\"attention_output\",\"predictions\"]"

static void append(const char *id, int at, int count)
{
    cJSON_Delete(send(id, at, count, ""));
}

/* Both sessions answer the same for the next tokens. */
static void expect_same_next(const char *id, const char *copy, int at)
{
    cJSON *one = send(id, at, 3, OUTPUTS), *two = send(copy, at, 3, OUTPUTS);
    answer_expect_equal(one, two, "layers");
    answer_expect_equal(one, two, "predictions");
    cJSON_Delete(one);
    cJSON_Delete(two);
}

/* ------------------------------------------------------------------ what is there -- */

TEST(keys_are_there_once)
{
    cJSON *model = answer_get(&client, "/v1/models/gemma4");
    for (int i = 2; i < LAYERS; i++)
        answer_expect(cJSON_GetArrayItem(cJSON_GetObjectItem(model, "layers"), i), "keys_of",
                      i == 2 ? "0" : "1", 0);
    cJSON_Delete(model);
    make("count", "");
    append("count", 0, 5);
    append("count", 5, 1);
    assert_true(session_number(&client, "count", "kv_len") == 6);
    assert_true(session_number(&client, "count", "bytes") == 6 * NUMBERS * 4);
    cJSON *session = answer_get(&client, "/v1/sessions/count");
    answer_expect(session, "layers", "[0,1,2,3]", 0);
    answer_expect(session, "layer_kv_len", "[6,6,6,6]", 0);
    cJSON_Delete(session);
    session_delete(&client, "count", 204);
}

/* A retry, a row that is dropped, a truncation and a fork leave what a new session has. */
TEST(what_is_taken_back)
{
    make("a", "");
    make("b", "");
    append("a", 0, 4);
    append("a", 4, 2);
    append("b", 0, 4);
    append("b", 4, 2);
    cJSON_Delete(send("a", 6, 2, ",\"append\":false"));
    cJSON *one = send("a", 4, 2, OUTPUTS), *two = send("b", 4, 2, OUTPUTS);
    answer_expect_equal(one, two, "layers");
    cJSON_Delete(one);
    cJSON_Delete(two);
    session_refused(&client, "a", "trace",
                    JSON({"at":4,"tokens":[1,2]}), 409, "conflict", "other keys and values");
    cJSON_Delete(session_post(&client, "a", "truncate", JSON({"kv_len":4}), 200));
    append("a", 4, 2);
    cJSON_Delete(session_post(&client, "a", "fork", JSON({"id":"c"}), 201));
    cJSON_Delete(session_post(&client, "c", "trace", JSON({"tokens":[39]}), 200));
    expect_same_next("a", "b", 6);
    assert_true(session_number(&client, "a", "bytes") == 9 * NUMBERS * 4);
    session_delete(&client, "a", 204);
    session_delete(&client, "b", 204);
    session_delete(&client, "c", 204);
    session_wait_until_empty(&client);
}

/* Of each dtype and with a window a file goes on as the session that it is of. */
TEST(files)
{
    static const char *const SETTINGS[] = { "", ",\"dtype\":\"bf16\"", ",\"dtype\":\"int8\"",
                                            ",\"window\":64,\"first_keys\":2" };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++) {
        make("s", SETTINGS[i]);
        append("s", 0, 70);
        for (int at = 70; at < 75; at++)
            append("s", at, 1);
        struct session_bytes file = session_bytes_get(&client, "s");
        session_bytes_put(&client, "copy", file, 201);
        expect_same_next("s", "copy", 75);
        session_bytes_free(&file);
        session_delete(&client, "s", 204);
        session_delete(&client, "copy", 204);
    }
    session_wait_until_empty(&client);
}

/* ------------------------------------------------------------------------ attention -- */

/* The rows of a trace, asked of the layer again: they find the keys of the other layer. */
static void expect_attention(const char *settings)
{
    make("s", settings);
    append("s", 0, 20);
    cJSON *trace = send("s", 20, 3, OUTPUTS);
    for (int i = 2; i < LAYERS; i++) {
        const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(trace, "layers"), i);
        char *inputs = cJSON_PrintUnformatted(cJSON_GetObjectItem(layer, "inputs"));
        struct request_text body = { .data = NULL };
        request_text_add(&body, "{\"layer\":%d,\"past_len\":20,\"outputs\":[\"weights\",\"lse\"],",
                         i);
        request_text_add(&body, "\"query\":%s}", inputs);
        cJSON *answer = session_post(&client, "s", "attention", body.data, 200);
        answer_expect_equal(answer, layer, "weights");
        answer_expect_equal(answer, layer, "lse");
        answer_expect(answer, "layer_kv_len", "23", 0);
        cJSON_Delete(answer);
        free(body.data);
        free(inputs);
    }
    cJSON_Delete(trace);
    session_delete(&client, "s", 204);
}

TEST(queries_alone)
{
    expect_attention("");
    expect_attention(",\"dtype\":\"bf16\"");
    expect_attention(",\"dtype\":\"int8\"");
    expect_attention(",\"window\":8");
}

/* A list of 64 numbers. */
static char *row(const char *begin, const char *end)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "%s", begin);
    for (int i = 0; i < 64; i++)
        request_text_add(&text, "%s0.5", i > 0 ? "," : "");
    request_text_add(&text, "%s", end);
    return text.data;
}

/* The layer takes keys of its own only in a session without the layer that it shares them with. */
TEST(keys_of_its_own)
{
    static const char *const POINTERS[] = { "/input", "/key" };
    char *bodies[] = { row("{\"layer\":2,\"input\":[[", "]]}"),
                       row("{\"layer\":2,\"key\":[[", "]]}") };
    make("whole", "");
    make("part", ",\"layers\":[2]");
    for (int i = 0; i < 2; i++) {
        answer_refused(&client, "/v1/sessions/whole/attention", bodies[i], 400, "option",
                       POINTERS[i]);
        session_refused(&client, "whole", "attention", bodies[i], 400, "option",
                        "the keys and values of layer 0");
        cJSON *answer = session_post(&client, "part", "attention", bodies[i], 200);
        assert_int_equal(cJSON_GetObjectItem(answer, "layer_kv_len")->valueint, i + 1);
        cJSON_Delete(answer);
        free(bodies[i]);
    }
    session_delete(&client, "whole", 204);
    session_delete(&client, "part", 204);
    session_wait_until_empty(&client);
}

/* --------------------------------------------------------------------- completions -- */

/* A completion keeps its keys in the same way: its tokens are those of a session. */
TEST(completions)
{
    cJSON *answer =
        answer_post(&client, "/v1/completions",
                    JSON({"model":"gemma4","prompt":[3,10,17],"max_tokens":6,
                                     "logprobs":1}));
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "choices"), 0);
    const cJSON *logprob =
        cJSON_GetObjectItem(cJSON_GetObjectItem(choice, "logprobs"), "token_logprobs")->child;
    make("s", "");
    cJSON *trace = send("s", 0, 3, OUTPUTS);
    int count = 0;
    for (; logprob; logprob = logprob->next, count++) {
        char body[200];
        const cJSON *best = cJSON_GetObjectItem(
            cJSON_GetArrayItem(cJSON_GetObjectItem(trace, "predictions"), 0), "tokens");
        best = cJSON_GetArrayItem(best, 0);
        assert_true(cJSON_GetObjectItem(best, "logprob")->valuedouble == logprob->valuedouble);
        snprintf(body, sizeof body, "{\"tokens\":[%d]" OUTPUTS "}",
                 cJSON_GetObjectItem(best, "id")->valueint);
        cJSON_Delete(trace);
        trace = session_post(&client, "s", "trace", body, 200);
    }
    assert_true(count >= 1);
    cJSON_Delete(trace);
    cJSON_Delete(answer);
    session_delete(&client, "s", 204);
    session_wait_until_empty(&client);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(set_up, fixture_clear);
