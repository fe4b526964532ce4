/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_trace.c - traces that go on from a session: a story token by token, retries, what
 * cannot be traced so, files, several clients. That the numbers are those of the whole trace, for
 * every family of decoders, is in the tests of the families (forward_session.h). */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "tensor_body.h"
#include "tensor_file.h"
#include "test.h"

#include <pthread.h>

enum { STORY = 257 };

#define STORIES "\"model\":\"stories260K\""
#define NEXT    "\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":1"

static int story[STORY];

static int set_up(void **state)
{
    char *text = (char *)tensor_read_bytes("tests/conformance/stories260K/greedy.json", NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *ids = cJSON_GetObjectItem(json, "ids");
    assert_int_equal(cJSON_GetArraySize(ids), STORY);
    for (int i = 0; i < STORY; i++)
        story[i] = cJSON_GetArrayItem(ids, i)->valueint;
    cJSON_Delete(json);
    free(text);
    fixture_serve("--models", "examples/models");
    return 0;
}

static int first_prediction(const cJSON *answer)
{
    const cJSON *prediction = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "predictions"), 0);
    return cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(prediction, "tokens"), 0),
                               "id")
        ->valueint;
}

static cJSON *next_of(struct http_client *own, const char *id, int at)
{
    char body[160];
    snprintf(body, sizeof body, "{\"at\":%d,\"tokens\":[%d]," NEXT "}", at, story[at]);
    return session_post(own, id, "trace", body, 200);
}

/* ------------------------------------------------------------------------ a story -- */

static void tell(struct http_client *own, const char *id)
{
    for (int i = 0; i + 1 < STORY; i++) {
        cJSON *answer = next_of(own, id, i);
        assert_true(cJSON_GetObjectItem(answer, "kv_len")->valueint >= i + 1);
        assert_int_equal(first_prediction(answer), story[i + 1]);
        cJSON_Delete(answer);
    }
}

/* One request a token gives the story that another implementation wrote. */
TEST(story)
{
    session_make(&client, "{" STORIES ",\"id\":\"story\"}");
    tell(&client, "story");
    session_delete(&client, "story", 204);
}

static void *tell_to_itself(void *argument)
{
    struct http_client own;
    http_client_init(&own, server.port);
    tell(&own, argument);
    http_client_free(&own);
    return NULL;
}

/* Sessions side by side do not see each other; nor do two clients that send the same story to one,
 * of whom the second one's requests are retries of the first one's, or the other way round. */
TEST(side_by_side)
{
    static char *const IDS[] = { "one", "two", "two" };
    pthread_t threads[3];
    session_make(&client, "{" STORIES ",\"id\":\"one\"}");
    session_make(&client, "{" STORIES ",\"id\":\"two\"}");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tell_to_itself, IDS[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal((int)session_number(&client, "two", "kv_len"), STORY - 1);
    session_delete(&client, "one", 204);
    session_delete(&client, "two", 204);
}

/* ----------------------------------------------------------------------- the text -- */

static void expect_ids(const cJSON *answer, const int *ids, int count)
{
    const cJSON *tokens = cJSON_GetObjectItem(answer, "tokens");
    assert_int_equal(cJSON_GetArraySize(tokens), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(tokens, i), "id")->valueint,
                         ids[i]);
}

/* The first text has the first token before it, and texts that go on have not, unless one asks. */
TEST(text)
{
    static const int FIRST[] = { 1, 385, 328 }, SECOND[] = { 385, 328 };
    session_make(&client, "{" STORIES ",\"id\":\"text\"}");
    cJSON *answer = session_post(&client, "text", "trace", "{\"text\":\"One day\"," NEXT "}", 200);
    expect_ids(answer, FIRST, 3);
    assert_int_equal(first_prediction(answer), 432);
    cJSON_Delete(answer);
    answer = session_post(&client, "text", "trace", "{\"text\":\"One day\"," NEXT "}", 200);
    expect_ids(answer, SECOND, 2);
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, 5);
    cJSON_Delete(answer);
    answer = session_post(&client, "text", "trace",
                          "{\"text\":\"One day\",\"special\":true,\"append\":false," NEXT "}", 200);
    expect_ids(answer, FIRST, 3);
    cJSON_Delete(answer);
    session_delete(&client, "text", 204);
}

/* --------------------------------------------------------------------------- verbs -- */

/* What is not appended is as if it had never come. */
TEST(append_false)
{
    session_make(&client, "{" STORIES ",\"id\":\"look\"}");
    cJSON *first = next_of(&client, "look", 0);
    cJSON *look = session_post(&client, "look", "trace",
                               "{\"tokens\":[5,6,7],\"append\":false," NEXT "}", 200);
    assert_int_equal(cJSON_GetObjectItem(look, "kv_len")->valueint, 1);
    cJSON *second = next_of(&client, "look", 1);
    assert_int_equal(first_prediction(second), story[2]);
    cJSON_Delete(first);
    cJSON_Delete(look);
    cJSON_Delete(second);
    session_delete(&client, "look", 204);
}

/* The same tokens again at the same place are answered as the first time; others are refused. */
TEST(retry)
{
    session_make(&client, "{" STORIES ",\"id\":\"again\"}");
    for (int i = 0; i < 4; i++)
        cJSON_Delete(next_of(&client, "again", i));
    cJSON *last = next_of(&client, "again", 4), *again = next_of(&client, "again", 4);
    assert_true(cJSON_Compare(last, again, true));
    cJSON_Delete(last);
    cJSON_Delete(again);
    cJSON_Delete(next_of(&client, "again", 2));
    assert_int_equal((int)session_number(&client, "again", "kv_len"), 5);
    session_refused(&client, "again", "trace", "{\"at\":3,\"tokens\":[9]," NEXT "}", 409,
                    "conflict", "has 5 keys");
    session_refused(&client, "again", "trace", "{\"at\":4,\"tokens\":[9,9]," NEXT "}", 409,
                    "conflict", "has 5 keys");
    session_refused(&client, "again", "trace", "{\"at\":6,\"tokens\":[9]," NEXT "}", 409,
                    "conflict", "has 5 keys");
    session_delete(&client, "again", 204);
}

/* A guess of several tokens is checked in one pass, and what was wrong is cut off. */
TEST(truncate_and_fork)
{
    char body[256];
    session_make(&client, "{" STORIES ",\"id\":\"guess\"}");
    for (int i = 0; i < 4; i++)
        cJSON_Delete(next_of(&client, "guess", i));
    snprintf(body, sizeof body,
             "{\"tokens\":[%d,%d,9],\"positions\":[0,1,2],\"layers\":[],\"outputs\":"
             "[\"predictions\"],\"top_k_tokens\":1}",
             story[4], story[5]);
    cJSON *answer = session_post(&client, "guess", "trace", body, 200);
    const cJSON *predictions = cJSON_GetObjectItem(answer, "predictions");
    for (int i = 0; i < 2; i++) {
        const cJSON *tokens = cJSON_GetObjectItem(cJSON_GetArrayItem(predictions, i), "tokens");
        assert_int_equal(cJSON_GetObjectItem(tokens->child, "id")->valueint, story[5 + i]);
    }
    cJSON_Delete(answer);
    cJSON_Delete(session_post(&client, "guess", "truncate", JSON({"kv_len":6}), 200));
    cJSON_Delete(session_post(&client, "guess", "fork", JSON({"id":"other"}), 201));
    cJSON_Delete(session_post(&client, "guess", "trace", "{\"tokens\":[9]," NEXT "}", 200));
    answer = next_of(&client, "other", 6);
    assert_int_equal(first_prediction(answer), story[7]);
    cJSON_Delete(answer);
    session_delete(&client, "guess", 204);
    session_delete(&client, "other", 204);
}

/* With a window the layers of a trace see what attention over such a session sees. */
TEST(window)
{
    static const char *const NAMES[] = { "weights", "lse" };
    session_make(&client, "{" STORIES ",\"id\":\"tokens\",\"window\":6,\"first_keys\":2}");
    session_make(&client, "{" STORIES ",\"id\":\"layers\",\"window\":6,\"first_keys\":2}");
    for (int at = 0; at < 90; at += 3) {
        struct request_text body = { .data = NULL };
        request_text_add(&body,
                         "{\"tokens\":[%d,%d,%d],\"outputs\":[\"weights\",\"lse\",\"inputs\"]}",
                         story[at], story[at + 1], story[at + 2]);
        cJSON *answer = session_post(&client, "tokens", "trace", body.data, 200);
        const cJSON *layer = NULL;
        cJSON_ArrayForEach(layer, cJSON_GetObjectItem(answer, "layers")) {
            struct request_text step = { .data = NULL };
            char *inputs = cJSON_PrintUnformatted(cJSON_GetObjectItem(layer, "inputs"));
            request_text_add(&step, "{\"layer\":%d,\"outputs\":[\"weights\",\"lse\"],\"input\":%s}",
                             cJSON_GetObjectItem(layer, "layer")->valueint, inputs);
            cJSON *same = session_post(&client, "layers", "attention", step.data, 200);
            for (int i = 0; i < 2; i++)
                assert_true(cJSON_Compare(cJSON_GetObjectItem(same, NAMES[i]),
                                          cJSON_GetObjectItem(layer, NAMES[i]), true));
            const cJSON *head = cJSON_GetObjectItem(same, "weights")->child;
            for (int k = 2; k <= at - 6; k++)
                assert_true(cJSON_GetArrayItem(head->child, k)->valuedouble == 0);
            cJSON_Delete(same);
            free(inputs);
            free(step.data);
        }
        cJSON_Delete(answer);
        free(body.data);
    }
    session_delete(&client, "tokens", 204);
    session_delete(&client, "layers", 204);
}

/* -------------------------------------------------------------------------- faults -- */

TEST(faults)
{
    static const struct {
        const char *body, *code, *says;
    } CASES[] = {
        { "{\"tokens\":[1],\"keep\":\"5m\"}", "field", "keep is no field" },
        { "{\"text\":\"a\",\"pair\":\"b\"}", "field", "pair is no field" },
        { "{\"tokens\":[1],\"token_types\":[0]}", "field", "token_types is no field" },
        { "{\"tokens\":[1],\"spans\":[[0,1]]}", "field", "spans is no field" },
        { "{\"text\":\"a\",\"span_texts\":[\"a\"]}", "field", "span_texts is no field" },
        { "{\"tokens\":[1]," STORIES "}", "field", "model is not a field here" },
        { "{\"tokens\":[512]}", "option", "has the id 512" },
        { "{\"tokens\":[1],\"at\":-1}", "length", "at is" },
        { "{\"tokens\":[1],\"append\":1}", "type", "append is" },
        { "{\"tokens\":[1],\"requests\":[]}", "field", "requests" },
        { "{\"layers\":[0]}", "field", "text or tokens is missing" },
    };
    session_make(&client, "{" STORIES ",\"id\":\"bad\"}");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        session_refused(&client, "bad", "trace", CASES[i].body, 400, CASES[i].code, CASES[i].says);
    assert_int_equal((int)session_number(&client, "bad", "kv_len"), 0);
    session_delete(&client, "bad", 204);
    answer_refused(&client, "/v1/trace", "{" STORIES ",\"tokens\":[1],\"at\":0}", 400, "field",
                   "/at");
}

/* Sessions that no trace can go on from. */
TEST(sessions_refused)
{
    session_make(&client, JSON({"model":"demo","id":"demo"}));
    session_refused(&client, "demo", "trace", JSON({"tokens":[1]}), 400, "option", "cannot go on");
    session_delete(&client, "demo", 204);
    session_make(&client, "{" STORIES ",\"id\":\"part\",\"layers\":[0,1]}");
    session_refused(&client, "part", "trace", "{\"tokens\":[1]}", 400, "option",
                    "2 of the 5 layers");
    session_delete(&client, "part", 204);
    session_make(&client, "{" STORIES ",\"id\":\"uneven\"}");
    cJSON *trace =
        answer_post(&client, "/v1/trace",
                    "{" STORIES ",\"tokens\":[1],\"layers\":[1],\"outputs\":[\"inputs\"]}");
    char *inputs = cJSON_PrintUnformatted(
        cJSON_GetObjectItem(cJSON_GetObjectItem(trace, "layers")->child, "inputs"));
    struct request_text body = { .data = NULL };
    request_text_add(&body, JSON({"layer":1,"input":%s}), inputs);
    cJSON_Delete(session_post(&client, "uneven", "attention", body.data, 200));
    session_refused(&client, "uneven", "trace", "{\"tokens\":[1]}", 409, "conflict",
                    "layer 1 has 1");
    session_delete(&client, "uneven", 204);
    free(inputs);
    free(body.data);
    cJSON_Delete(trace);
    session_make(&client, "{" STORIES ",\"id\":\"short\",\"kv_len_max\":2}");
    session_refused(&client, "short", "trace", "{\"tokens\":[1,2,3]}", 409, "conflict",
                    "kv_len_max");
    cJSON_Delete(session_post(&client, "short", "trace", JSON({"tokens":[1,2]}), 200));
    session_delete(&client, "short", 204);
}

/* ---------------------------------------------------------------------------- files -- */

/* A file in and a file out, with the lengths in its metadata, have the numbers of JSON. */
TEST(safetensors)
{
    static const int64_t TOKENS[] = { 385, 328 };
    struct tensor_body body = { .used = 0 };
    session_make(&client, "{" STORIES ",\"id\":\"file\"}");
    session_make(&client, "{" STORIES ",\"id\":\"json\"}");
    tensor_body_add(&body, "tokens", "I64", "[2]", TOKENS, sizeof TOKENS);
    struct http_response file =
        tensor_body_post(&client, "/v1/sessions/file/trace", &body,
                         "{\"at\":\"0\",\"outputs\":\"[\\\"lse\\\"]\"}", 0, NULL);
    cJSON *json =
        session_post(&client, "json", "trace", "{\"tokens\":[385,328],\"outputs\":[\"lse\"]}", 200);
    cJSON *header = tensor_body_header(&file);
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    answer_expect(metadata, "session", "\"file\"", 0);
    answer_expect(metadata, "kv_len", "\"2\"", 0);
    for (int layer = 0; layer < 5; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d.lse", layer);
        const float *lse = tensor_body_find(&file, header, name, "F32", "[8,2]");
        const cJSON *head = NULL, *number = NULL;
        cJSON_ArrayForEach(
            head, cJSON_GetObjectItem(
                      cJSON_GetArrayItem(cJSON_GetObjectItem(json, "layers"), layer), "lse"))
            cJSON_ArrayForEach(number, head)
                assert_true(*lse++ == (float)number->valuedouble);
    }
    cJSON_Delete(header);
    cJSON_Delete(json);
    http_response_free(&file);
    session_delete(&client, "file", 204);
    session_delete(&client, "json", 204);
}

ALL_TESTS(set_up, fixture_stop);
