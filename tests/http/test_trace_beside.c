/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_beside.c - a model whose blocks have attention and a recurrence beside it: its
 * sessions, which keep keys and a state for each block, their forks and files; effects of either
 * layer; kept traces. That the numbers are right is in test_trace_hybrids.c. */
#include "answer.h"
#include "effects_client.h"
#include "fixture.h"
#include "hybrid_model.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"
#include "trace_client.h"

static struct daemon other; /* with the same model */
static struct http_client there;

#define TOKENS "\"tokens\":[3,9,0,22,7]"
#define OTHER  "\"tokens\":[5,30,11,2,8]"

/* Models whose passes are not computed, by their configs. */
static const struct {
    const char *name, *fields, *words;
} REFUSED[] = {
    { "zero", ",\"ssm_in_multiplier\":0", "ssm_in_multiplier is 0; expected a number above 0" },
    { "less", ",\"mlp_multipliers\":[1]", "expected a list of 2 numbers above 0" },
    { "below", ",\"ssm_multipliers\":[1,1,1,1,-1]", "expected a list of 5 numbers above 0" },
    { "word", ",\"ssm_multipliers\":\"all\"", "ssm_multipliers is a string" },
    { "norm", ",\"mamba_rms_norm\":true", "no tensor 'model.layers.0.mamba.norm.weight'" },
    { "bias", ",\"projectors_bias\":true", "no tensor 'model.layers.0.mamba.out_proj.bias'" },
    { "state", ",\"time_step_limit\":[2,1]", "time_step_limit is no list of two numbers" },
};
enum { REFUSED_COUNT = sizeof REFUSED / sizeof REFUSED[0] };

static void make_refused(void)
{
    for (int i = 0; i < REFUSED_COUNT; i++) {
        char config[1024];
        snprintf(config, sizeof config, LLAMA_CONFIG("falcon_h1", "2", FALCON_FIELDS "%s"),
                 REFUSED[i].fields);
        published_open(config, FALCON_TENSORS(FALCON_NONE, ""), FALCON_BLOCKS, "F32");
        published_save(fixture_path(REFUSED[i].name), config);
        published_close();
    }
    published_open(FALCON_CONFIG, FALCON_TENSORS(FALCON_NONE, LLAMA_BLOCK "mamba.norm.weight 32, "),
                   FALCON_BLOCKS, "F32");
    published_save(fixture_path("normed"), FALCON_CONFIG);
    published_close();
}

static int set_up(void **state)
{
    fixture_make_directory(state);
    hybrid_model_make_falcon(fixture_path("falcon"));
    make_refused();
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

TEST(a_block_is_two_layers)
{
    static const char *const KINDS[FALCON_LAYERS] = { "self", "self", "mamba", "mamba" };
    cJSON *answer = answer_get(&client, "/v1/models/falcon");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), FALCON_LAYERS);
    for (int i = 0; i < FALCON_LAYERS; i++) {
        const cJSON *layer = cJSON_GetArrayItem(layers, i);
        const cJSON *numbers = cJSON_GetObjectItemCaseSensitive(layer, "state");
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(layer, "kind")), KINDS[i]);
        if (i < FALCON_BLOCKS)
            assert_null(numbers);
        else
            assert_int_equal((int)cJSON_GetNumberValue(numbers), FALCON_STATE);
    }
    cJSON_Delete(answer);
}

TEST(what_is_not_computed_is_said)
{
    for (int i = 0; i < REFUSED_COUNT; i++)
        trace_client_expect_none(&client, REFUSED[i].name, TOKENS, REFUSED[i].words);
    trace_client_expect_none(&client, "normed", TOKENS, "by config.json (mamba_rms_norm)");
}

/* ------------------------------------------------------------------------ sessions -- */

static cJSON *append_to(struct http_client *own, const char *id, int at, int count)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body,
                     "{\"at\":%d,\"outputs\":[\"hidden_states\",\"attention_output\","
                     "\"predictions\"],\"tokens\":[",
                     at);
    for (int i = 0; i < count; i++)
        request_text_add(&body, "%s%d", i > 0 ? "," : "", ((at + i) * 7 + 3) % 40);
    request_text_add(&body, "]}");
    cJSON *answer = session_post(own, id, "trace", body.data, 200);
    free(body.data);
    return answer;
}

static void expect_same_next(struct http_client *own, const char *id, const char *copy, int at)
{
    cJSON *one = append_to(&client, id, at, 3), *two = append_to(own, copy, at, 3);
    answer_expect_equal(one, two, "layers");
    answer_expect_equal(one, two, "final_hidden_states");
    answer_expect_equal(one, two, "predictions");
    cJSON_Delete(one);
    cJSON_Delete(two);
}

static void make(const char *id, int length)
{
    char body[80];
    snprintf(body, sizeof body, JSON({"model":"falcon","id":"%s"}), id);
    session_make(&client, body);
    cJSON_Delete(append_to(&client, id, 0, length));
}

TEST(a_session_keeps_keys_and_states)
{
    const double one = FALCON_STATE * 4.0, keys = 2.0 * 8 * 4; /* bytes; of a key and its value */
    make("s", 6);
    assert_true(session_number(&client, "s", "kv_len") == 6);
    assert_true(session_number(&client, "s", "bytes") == FALCON_BLOCKS * (one + 6 * keys));
    session_refused(&client, "s", "truncate", JSON({"kv_len":4}), 409, "conflict", "kind 'mamba'");
    cJSON_Delete(session_post(&client, "s", "truncate", JSON({"kv_len":0}), 200));
    make("new", 6);
    cJSON_Delete(append_to(&client, "s", 0, 6));
    expect_same_next(&client, "s", "new", 6);
    session_delete(&client, "s", 204);
    session_delete(&client, "new", 204);
}

TEST(a_fork_goes_on_alone)
{
    make("trunk", 5);
    cJSON_Delete(session_post(&client, "trunk", "fork", JSON({"id":"branch"}), 201));
    cJSON_Delete(session_post(&client, "trunk", "fork", JSON({"id":"twig"}), 201));
    cJSON_Delete(session_post(&client, "twig", "trace", JSON({"tokens":[39,38,37]}), 200));
    expect_same_next(&client, "trunk", "branch", 5);
    session_delete(&client, "trunk", 204);
    session_delete(&client, "branch", 204);
    session_delete(&client, "twig", 204);
    session_wait_until_empty(&client);
}

TEST(a_file_has_both)
{
    const char *numbers;
    make("s", 70);
    struct session_bytes file = session_bytes_get(&client, "s");
    cJSON *header = session_bytes_header(file, &numbers);
    for (int i = 0; i < FALCON_LAYERS; i++) {
        char key[32], kept[32];
        snprintf(key, sizeof key, "layers.%d.key", i);
        snprintf(kept, sizeof kept, "layers.%d.state", i);
        assert_true((cJSON_GetObjectItem(header, key) != NULL) == (i < FALCON_BLOCKS));
        assert_true((cJSON_GetObjectItem(header, kept) != NULL) == (i >= FALCON_BLOCKS));
    }
    session_bytes_put(&there, "copy", file, 201);
    expect_same_next(&there, "s", "copy", 70);
    cJSON_Delete(header);
    session_bytes_free(&file);
    session_delete(&client, "s", 204);
    session_delete(&there, "copy", 204);
    session_wait_until_empty(&there);
}

/* ------------------------------------------------------------------------- effects -- */

TEST(effects_are_of_either_layer)
{
    static const int SPANS[][2] = { { 0, 2 }, { 1, 4 } };
    static const char *const SELF[] = { "self", NULL };
    struct effects_case of = { &client, "falcon", TOKENS, OTHER, "self", "", "\"token\":7" };
    effects_client_expect(&of);
    effects_client_expect_hidden(&of, SPANS, 2, SELF);
    of.kind = "mamba";
    effects_client_expect_beside(&of);
}

/* Only what both layers have, which is what they add, needs a kind. */
TEST(a_kind_is_needed_where_both_have_the_place)
{
    static const char *const PLACES[] = { "embeddings", "hidden_states", "feed_forward", "head" };
    char edits[80];
    struct effects_case of = { &client, "falcon", TOKENS, NULL, "self", edits, "\"token\":7" };
    for (int i = 0; i < 4; i++) {
        snprintf(edits, sizeof edits, "{\"at\":\"%s\",\"scale\":2}", PLACES[i]);
        assert_true(effects_client_expect_one(&of, "\"layers\"", "scale") > 0);
    }
    of.kind = NULL;
    assert_true(effects_client_expect_one(&of, "\"heads\"", "scale") > 0);
    assert_true(effects_client_expect_one(&of, "\"feed_forwards\"", "scale") > 0);
    struct http_response response = http_client_post(
        &client, "/v1/effects",
        JSON({"model":"falcon","tokens":[3,9],"each":"layers","metric":{"token":7}}));
    answer_expect_fault(&response, 400, "field", "/kind");
    http_response_free(&response);
    response = http_client_post(
        &client, "/v1/trace",
        JSON({"model":"falcon","tokens":[3,9],"edits":[{"at":"attention_output","scale":0}]}));
    answer_expect_fault(&response, 400, "field", "/edits/0");
    http_response_free(&response);
}

/* --------------------------------------------------------------------- kept traces -- */

/* A rollout would leave out what goes through the states. */
TEST(rollouts_of_kept_traces_are_refused)
{
    cJSON *kept = answer_post(&client, "/v1/trace",
                              JSON({"model":"falcon","tokens":[3,9,0],"outputs":[],"keep":"1m"}));
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(kept, "trace"));
    assert_non_null(id);
    for (int i = 0; i < FALCON_LAYERS; i++) {
        char path[160];
        snprintf(path, sizeof path, "/v1/traces/%s/rollout?layer=%d", id, i);
        struct http_response response = http_client_get(&client, path);
        answer_expect_fault(&response, 400, "option", "");
        assert_non_null(strstr(response.body, "is of the kind 'mamba' and has no attention"));
        http_response_free(&response);
    }
    cJSON_Delete(kept);
}

ALL_TESTS(set_up, clean_up);
