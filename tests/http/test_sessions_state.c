/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_state.c - sessions of a model some of whose layers keep a state in place of keys:
 * what is appended, tried again, taken back, forked and dropped; files of such sessions; what a
 * state cannot do. That the numbers are those of the whole trace is in the tests of the families
 * (forward_session.h). */
#include "answer.h"
#include "fixture.h"
#include "hybrid_model.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

static struct daemon other; /* with the same model */
static struct http_client there;

#define OUTPUTS "\"outputs\":[\"hidden_states\",\"attention_output\",\"predictions\"]"

static int set_up(void **state)
{
    fixture_make_directory(state);
    hybrid_model_make(fixture_path("lfm2"));
    fixture_serve("--models", directory);
    daemon_start_with(&other, "--models", directory, NULL);
    http_client_init(&there, other.port);
    return 0;
}

static int clean_up(void **state)
{
    http_client_free(&there);
    daemon_kill(&other);
    return fixture_clear(state);
}

static void make(const char *id, const char *more)
{
    char body[160];
    snprintf(body, sizeof body, "{\"model\":\"lfm2\",\"id\":\"%s\"%s}", id, more);
    session_make(&client, body);
}

/* Tokens that follow from at, so many. */
static cJSON *send_to(struct http_client *own, const char *id, int at, int count)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"at\":%d," OUTPUTS ",\"tokens\":[", at);
    for (int i = 0; i < count; i++)
        request_text_add(&body, "%s%d", i > 0 ? "," : "", ((at + i) * 7 + 3) % 40);
    request_text_add(&body, "]}");
    cJSON *answer = session_post(own, id, "trace", body.data, 200);
    free(body.data);
    return answer;
}

static void append(const char *id, int at, int count)
{
    cJSON_Delete(send_to(&client, id, at, count));
}

static void expect_same(const cJSON *one, const cJSON *two)
{
    answer_expect_equal(one, two, "layers");
    answer_expect_equal(one, two, "final_hidden_states");
    answer_expect_equal(one, two, "predictions");
}

/* Both sessions answer the same for the next tokens. */
static void expect_same_next(struct http_client *own, const char *id, const char *copy, int at)
{
    cJSON *one = send_to(&client, id, at, 3), *two = send_to(own, copy, at, 3);
    expect_same(one, two);
    cJSON_Delete(one);
    cJSON_Delete(two);
}

/* ------------------------------------------------------------------ what is there -- */

TEST(a_state_counts_in_the_session)
{
    const double one = LFM2_STATE * 4, keys = 2.0 * 8 * 4; /* bytes; of a key with its value */
    make("count", "");
    assert_true(session_number(&client, "count", "bytes") == 0);
    append("count", 0, 5);
    assert_true(session_number(&client, "count", "kv_len") == 5);
    assert_true(session_number(&client, "count", "bytes") == 3 * one + 2 * 5 * keys);
    append("count", 5, 1);
    assert_true(session_number(&client, "count", "kv_len") == 6);
    assert_true(session_number(&client, "count", "bytes") == 2 * 3 * one + 2 * 6 * keys);
    append("count", 6, 1); /* the oldest state goes */
    assert_true(session_number(&client, "count", "bytes") == 2 * 3 * one + 2 * 7 * keys);
    session_delete(&client, "count", 204);
}

/* An append that was answered already is answered again; what came before it is gone. */
TEST(the_last_append_is_tried_again)
{
    make("again", "");
    append("again", 0, 4);
    append("again", 4, 2);
    cJSON *one = send_to(&client, "again", 6, 3), *two = send_to(&client, "again", 6, 3);
    expect_same(one, two);
    assert_true(session_number(&client, "again", "kv_len") == 9);
    cJSON_Delete(one);
    cJSON_Delete(two);
    session_refused(&client, "again", "trace",
                    JSON({"at":4,"tokens":[31]}), 409, "conflict",
                          "kind 'convolution' and keeps a state");
    session_refused(&client, "again", "trace",
                    JSON({"at":6,"tokens":[1,2,3]}), 409, "conflict", "other keys and values");
    assert_true(session_number(&client, "again", "kv_len") == 9);
    session_delete(&client, "again", 204);
}

TEST(a_state_cannot_be_cut)
{
    make("cut", "");
    append("cut", 0, 4);
    append("cut", 4, 2);
    cJSON *one = send_to(&client, "cut", 6, 3);
    session_refused(&client, "cut", "truncate",
                    JSON({"kv_len":7}), 409, "conflict",
                         "which cannot be cut to 7; those behind 0, 6 and 9 are there");
    session_refused(&client, "cut", "truncate", JSON({"kv_len":4}), 409, "conflict", "cut to 4");
    cJSON_Delete(session_post(&client, "cut", "truncate", JSON({"kv_len":9}), 200));
    cJSON_Delete(session_post(&client, "cut", "truncate", JSON({"kv_len":6}), 200));
    assert_true(session_number(&client, "cut", "kv_len") == 6);
    cJSON *two = send_to(&client, "cut", 6, 3);
    expect_same(one, two);
    cJSON_Delete(session_post(&client, "cut", "truncate", JSON({"kv_len":0}), 200));
    assert_true(session_number(&client, "cut", "bytes") == 0);
    cJSON *first = send_to(&client, "cut", 0, 4);
    make("new", "");
    cJSON *other_first = send_to(&client, "new", 0, 4);
    expect_same(first, other_first);
    cJSON_Delete(one);
    cJSON_Delete(two);
    cJSON_Delete(first);
    cJSON_Delete(other_first);
    session_delete(&client, "cut", 204);
    session_delete(&client, "new", 204);
}

TEST(a_fork_goes_on_alone)
{
    make("trunk", "");
    append("trunk", 0, 5);
    cJSON_Delete(session_post(&client, "trunk", "fork", JSON({"id":"branch"}), 201));
    cJSON_Delete(session_post(&client, "trunk", "fork", JSON({"id":"twig"}), 201));
    cJSON_Delete(session_post(&client, "twig", "trace", JSON({"tokens":[39,38,37]}), 200));
    expect_same_next(&client, "trunk", "branch", 5);
    expect_same_next(&client, "trunk", "branch", 8);
    session_delete(&client, "trunk", 204);
    expect_same_next(&client, "branch", "branch", 11); /* the second is a retry */
    session_delete(&client, "branch", 204);
    session_delete(&client, "twig", 204);
    session_wait_until_empty(&client);
}

TEST(rows_that_are_dropped_leave_no_state)
{
    make("a", "");
    make("b", "");
    append("a", 0, 4);
    append("b", 0, 4);
    cJSON_Delete(session_post(&client, "a", "trace", JSON({"tokens":[1,2],"append":false}), 200));
    assert_true(session_number(&client, "a", "kv_len") == 4);
    expect_same_next(&client, "a", "b", 4);
    session_delete(&client, "a", 204);
    session_delete(&client, "b", 204);
}

/* Layers may be chosen, but attention is of those that have it. */
TEST(attention_is_of_layers_that_have_it)
{
    make("part", ",\"layers\":[0,1]");
    session_refused(&client, "part", "attention",
                    JSON({"layer":0,"input":[[1]]}), 400, "option",
                          "kind 'convolution' and has no attention");
    session_refused(&client, "part", "trace", JSON({"tokens":[1]}), 400, "option", "2 of the 5");
    session_delete(&client, "part", 204);
}

/* ------------------------------------------------------------------------- files -- */

static int64_t shape_at(const cJSON *header, const char *name, int i)
{
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(header, name);
    assert_non_null(tensor);
    return cJSON_GetArrayItem(cJSON_GetObjectItem(tensor, "shape"), i)->valueint;
}

TEST(a_file_has_the_states)
{
    static const char *const DTYPES[] = { "f32", "f16", "int8" };
    char more[40];
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
        snprintf(more, sizeof more, ",\"dtype\":\"%s\"", DTYPES[i]);
        make("s", more);
        append("s", 0, 70);
        append("s", 70, 5);
        struct session_bytes file = session_bytes_get(&client, "s");
        const char *numbers;
        cJSON *header = session_bytes_header(file, &numbers);
        assert_int_equal(shape_at(header, "layers.2.state", 0), 2);
        assert_int_equal(shape_at(header, "layers.2.state", 1), LFM2_STATE);
        assert_int_equal(shape_at(header, "layers.2.state_at", 0), 2);
        assert_null(cJSON_GetObjectItem(header, "layers.2.key"));
        session_bytes_put(&there, "copy", file, 201);
        expect_same_next(&there, "s", "copy", 70 + 5);
        cJSON_Delete(header);
        session_bytes_free(&file);
        session_delete(&client, "s", 204);
        session_delete(&there, "copy", 204);
    }
    make("s", ""); /* without rows */
    struct session_bytes file = session_bytes_get(&client, "s");
    session_bytes_put(&there, "copy", file, 201);
    expect_same_next(&there, "s", "copy", 0);
    session_bytes_free(&file);
    session_delete(&client, "s", 204);
    session_delete(&there, "copy", 204);
    session_wait_until_empty(&there);
}

/* The file with another name, shape or number of a tensor. */
static void expect_lie(struct session_bytes file, const char *name, const char *new_name,
                       const char *shape, int64_t number, const char *code, const char *says)
{
    const char *numbers;
    cJSON *header = session_bytes_header(file, &numbers);
    cJSON *tensor = cJSON_DetachItemFromObjectCaseSensitive(header, name);
    const size_t bytes = (size_t)(file.bytes + file.size - numbers);
    char *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, numbers, bytes);
    const int at = cJSON_GetArrayItem(cJSON_GetObjectItem(tensor, "data_offsets"), 0)->valueint;
    if (number != 0)
        memcpy(copy + at, &number, sizeof number);
    if (shape)
        cJSON_ReplaceItemInObject(tensor, "shape", cJSON_Parse(shape));
    cJSON_AddItemToObject(header, new_name ? new_name : name, tensor);
    struct session_bytes lie = session_bytes_make(header, copy, bytes, true);
    session_bytes_refused(&there, "lie", lie, 400, code, says);
    session_bytes_free(&lie);
    free(copy);
}

TEST(a_file_that_lies_is_refused)
{
    make("s", "");
    append("s", 0, 4);
    append("s", 4, 2);
    struct session_bytes file = session_bytes_get(&client, "s");
    expect_lie(file, "layers.0.state_at", NULL, NULL, -4, "length", "expected more than 0");
    expect_lie(file, "layers.0.state_at", NULL, NULL, 6, "length", "expected more than 6");
    expect_lie(file, "layers.0.state", NULL, "[1,64]", 0, "shape", "1 states of 64 numbers");
    expect_lie(file, "layers.0.state", NULL, "[64]", 0, "shape", "expected [states, numbers]");
    expect_lie(file, "layers.2.state", "layers.1.state", NULL, 0, "field", "beside states");
    expect_lie(file, "layers.0.state", "layers.0.key", NULL, 0, "field", "beside states");
    session_bytes_free(&file);
    session_delete(&client, "s", 204);
}

/* --------------------------------------------------------------------- completions -- */

/* A text token by token is that of the most probable tokens of whole traces. */
TEST(a_completion_goes_on_from_states)
{
    int ids[12] = { 3, 4, 5, 8 };
    cJSON *answer = answer_post(
        &client, "/v1/completions",
        JSON({"model":"lfm2","prompt":[3,4,5,8],"max_tokens":8,
                                     "temperature":0,"logprobs":1}));
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "choices"), 0);
    const cJSON *logprobs =
        cJSON_GetObjectItem(cJSON_GetObjectItem(choice, "logprobs"), "token_logprobs");
    const int made = cJSON_GetArraySize(logprobs);
    assert_true(made >= 1);
    for (int i = 0; i < made; i++) {
        struct request_text body = { .data = NULL };
        request_text_add(&body, "{\"model\":\"lfm2\",\"layers\":[],\"outputs\":"
                                "[\"predictions\"],\"top_k_tokens\":1,\"tokens\":[");
        for (int k = 0; k < 4 + i; k++)
            request_text_add(&body, "%s%d", k > 0 ? "," : "", ids[k]);
        request_text_add(&body, "]}");
        cJSON *traced = answer_post(&client, "/v1/trace", body.data);
        const cJSON *token = cJSON_GetArrayItem(
            cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(traced, "predictions"), 0),
                                "tokens"),
            0);
        ids[4 + i] = cJSON_GetObjectItem(token, "id")->valueint;
        assert_true(fabs(cJSON_GetObjectItem(token, "logprob")->valuedouble
                         - cJSON_GetArrayItem(logprobs, i)->valuedouble)
                    < 1e-4);
        cJSON_Delete(traced);
        free(body.data);
    }
    cJSON_Delete(answer);
    session_wait_until_empty(&client);
}

/* Keys and values of 1000 rows take 64 KiB in each of two layers: more than all sessions may hold,
 * though no layer alone takes that. */
TEST(an_append_that_never_fits)
{
    struct daemon small;
    struct http_client own;
    daemon_start_with(&small, "--models", directory, "--session-memory-max", "100KiB", NULL);
    http_client_init(&own, small.port);
    session_make(&own, JSON({"model":"lfm2","id":"small"}));
    cJSON_Delete(send_to(&own, "small", 0, 100));
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"layers\":[],\"outputs\":[],\"tokens\":[1");
    for (int i = 1; i < 1000; i++)
        request_text_add(&body, ",2");
    request_text_add(&body, "]}");
    session_refused(&own, "small", "trace", body.data, 413, "too_large", "never have room");
    assert_true(session_number(&own, "small", "kv_len") == 100);
    free(body.data);
    http_client_free(&own);
    daemon_kill(&small);
}

ALL_TESTS(set_up, clean_up);
