/* SPDX-License-Identifier: Apache-2.0 */
/* test_effects.c - effects of parts of a model on one prediction, beside single traces with the
 * same edits: to the bit, of every part, by every way. That edited passes have the right numbers is
 * in test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "effects_client.h"
#include "fixture.h"
#include "hybrid_model.h"
#include "tensor_body.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

#include <math.h>

static const char PATH[] = "/v1/effects";

#define TOKENS "\"tokens\":[3,17,9,22,31,8]"
#define OTHER  "\"tokens\":[5,2,19,30,1,12]"

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    traced_families_save(directory);
    hybrid_model_make(fixture_path("lfm2"));
    return fixture_serve("--models", directory), 0;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* ---------------------------------------------------------------- to the bit -- */

TEST(parts_of_a_decoder)
{
    static const struct effects_case OF = {
        &client, "llama", TOKENS, OTHER, NULL, "", "\"token\":7"
    };
    effects_client_expect(&OF);
}

TEST(parts_at_a_row_before_the_last)
{
    static const struct effects_case OF = {
        &client, "llama", TOKENS, OTHER, NULL, "", "\"position\":3,\"token\":7,\"against\":4"
    };
    effects_client_expect(&OF);
}

/* Common edits at every place: those of a variant come behind them. */
TEST(parts_of_an_edited_pass)
{
    static const struct effects_case OF = {
        &client,
        "llama",
        TOKENS,
        OTHER,
        NULL,
        "{\"at\":\"embeddings\",\"scale\":1.5,\"rows\":[1]},{\"hide\":[[1,2]],\"layers\":[1]},"
        "{\"weights\":\"uniform\",\"heads\":[2],\"layers\":[0,2]},{\"scale\":0.5,\"heads\":[1]},"
        "{\"at\":\"attention_output\",\"mean\":true,\"rows\":[2,-1]},"
        "{\"at\":\"feed_forward\",\"scale\":2},{\"at\":\"hidden_states\",\"scale\":1.25}",
        "\"token\":7"
    };
    effects_client_expect(&OF);
}

TEST(parts_of_a_masked_model)
{
    static const struct effects_case OF = {
        &client, "bert", TOKENS, OTHER, NULL, "", "\"position\":2,\"token\":7"
    };
    effects_client_expect(&OF);
}

TEST(parts_of_an_encoder_decoder)
{
    static const char *const KINDS[] = { "encoder", "cross", "decoder" };
    for (int i = 0; i < 3; i++) {
        const struct effects_case of = { &client,
                                         "t5",
                                         TOKENS ",\"decoder_tokens\":[0,4,11]",
                                         OTHER ",\"decoder_tokens\":[0,9,2]",
                                         KINDS[i],
                                         "",
                                         "\"token\":7" };
        effects_client_expect(&of);
    }
}

TEST(hidden_spans)
{
    static const int SPANS[][2] = { { 0, 2 }, { 2, 5 }, { 1, 1 }, { 0, 6 }, { 5, 6 } };
    static const char *const SELF[] = { "self", NULL };
    static const char *const BOTH[] = { "encoder", "cross", NULL };
    static const char *const CROSS[] = { "cross", NULL };
    struct effects_case of = { &client, "llama", TOKENS, NULL, NULL, "", "\"token\":7" };
    effects_client_expect_hidden(&of, SPANS, 5, SELF);
    of = (struct effects_case){ &client,      "t5", TOKENS ",\"decoder_tokens\":[0,4,11]",
                                NULL,         NULL, "",
                                "\"token\":7" };
    effects_client_expect_hidden(&of, SPANS, 5, BOTH);
    of.kind = "cross";
    effects_client_expect_hidden(&of, SPANS, 5, CROSS);
}

/* Heads and keys are those of the one kind that has attention, which need not be named. */
TEST(parts_of_a_hybrid)
{
    static const int SPANS[][2] = { { 0, 2 }, { 2, 5 } };
    static const char *const SELF[] = { "self", NULL };
    static const char *const KINDS[] = { "self", "convolution" };
    struct effects_case of = { &client, "lfm2", TOKENS, OTHER, NULL, "", "\"token\":7" };
    effects_client_expect_hidden(&of, SPANS, 2, SELF);
    assert_true(effects_client_expect_one(&of, "\"heads\"", "scale") > 0);
    of.edits = "{\"at\":\"embeddings\",\"scale\":2},{\"hide\":[[1,2]]}";
    for (int i = 0; i < 2; i++) {
        of.kind = KINDS[i];
        assert_true(effects_client_expect_one(&of, "\"layers\"", "scale") > 0);
    }
}

/* --------------------------------------------------------------- leaving out -- */

static float traced_logprob(const char *members)
{
    char body[600];
    snprintf(body, sizeof body, "{\"layers\":[],\"outputs\":[\"predictions\"],%s}", members);
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    const float value = (float)cJSON_GetNumberValue(
        member(cJSON_GetArrayItem(member(answer, "targets"), 0), "logprob"));
    cJSON_Delete(answer);
    return value;
}

/* The position moves with the tokens before it; common edits are of the text that is left. */
TEST(spans_left_out)
{
    static const char *const CUT[] = { "[9,22,31,8]", "[3,17,8]", "[3,17,9,22,31,8]",
                                       "[3,17,9,22]" };
    static const int POSITIONS[] = { 1, -1, 3, 3 };
    cJSON *answer =
        answer_post(&client, PATH,
                    "{\"model\":\"llama\"," TOKENS ",\"metric\":{\"position\":3,\"token\":7},"
                    "\"each\":{\"spans\":[[0,2],[4,4],[4,6]]},\"by\":\"leave_out\","
                    "\"edits\":[{\"scale\":0.5,\"rows\":[-1,0]}]}");
    static const int OF_CUT[] = { 0, 2, 3 };
    const float base = (float)cJSON_GetNumberValue(member(member(answer, "base"), "value"));
    assert_true(cJSON_IsTrue(member(answer, "moved")));
    answer_expect(answer, "spans", "[[0,2],[4,4],[4,6]]", 0);
    answer_expect(answer, "layers", "[0,1,2]", 0);
    for (int i = 0; i < 3; i++) {
        char members[400];
        snprintf(members, sizeof members,
                 "\"model\":\"llama\",\"tokens\":%s,\"targets\":[{\"position\":%d,\"token\":7}],"
                 "\"edits\":[{\"scale\":0.5,\"rows\":[-1,0]}]",
                 CUT[OF_CUT[i]], POSITIONS[OF_CUT[i]]);
        const float want = traced_logprob(members) - base;
        const cJSON *got = cJSON_GetArrayItem(member(answer, "effects"), i);
        assert_true((float)cJSON_GetNumberValue(got) == want);
    }
    cJSON_Delete(answer);
}

TEST(spans_of_an_encoder_left_out)
{
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"t5\"," TOKENS
                                ",\"decoder_tokens\":[0,4,11],\"metric\":{\"token\":7},"
                                "\"each\":{\"spans\":[[1,4]]},\"by\":\"leave_out\"}");
    const float base = (float)cJSON_GetNumberValue(member(member(answer, "base"), "value"));
    const float want = traced_logprob("\"model\":\"t5\",\"tokens\":[3,31,8],\"decoder_tokens\":"
                                      "[0,4,11],\"targets\":[{\"token\":7}]")
                       - base;
    const cJSON *got = cJSON_GetArrayItem(member(answer, "effects"), 0);
    assert_true((float)cJSON_GetNumberValue(got) == want);
    cJSON_Delete(answer);
}

/* ---------------------------------------------------------------- divergence -- */

/* Log-probs of all tokens at the last row, by id. */
static void all_logprobs(const char *edits, double logprobs[TRACED_TOKENS])
{
    char body[400];
    snprintf(body, sizeof body,
             "{\"model\":\"llama\"," TOKENS ",\"layers\":[],\"outputs\":[\"predictions\"],"
             "\"top_k_tokens\":%d,\"edits\":[%s]}",
             TRACED_TOKENS, edits);
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    const cJSON *tokens = member(cJSON_GetArrayItem(member(answer, "predictions"), 0), "tokens");
    assert_int_equal(cJSON_GetArraySize(tokens), TRACED_TOKENS);
    for (int i = 0; i < TRACED_TOKENS; i++) {
        const cJSON *token = cJSON_GetArrayItem(tokens, i);
        logprobs[member(token, "id")->valueint] = cJSON_GetNumberValue(member(token, "logprob"));
    }
    cJSON_Delete(answer);
}

TEST(divergences)
{
    double base[TRACED_TOKENS], edited[TRACED_TOKENS];
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"llama\"," TOKENS
                                ",\"metric\":{\"divergence\":\"kl\"},\"each\":\"heads\","
                                "\"top_k_tokens\":3}");
    answer_expect_members(member(answer, "base"), "position,value,tokens");
    answer_expect(member(answer, "base"), "value", "0", 0);
    all_logprobs("", base);
    for (int layer = 0; layer < TRACED_LAYERS; layer++)
        for (int head = 0; head < TRACED_HEADS; head++) {
            char edits[80];
            double want = 0;
            snprintf(edits, sizeof edits, "{\"layers\":[%d],\"heads\":[%d],\"scale\":0}", layer,
                     head);
            all_logprobs(edits, edited);
            for (int i = 0; i < TRACED_TOKENS; i++)
                want += exp(base[i]) * (base[i] - edited[i]);
            const cJSON *effects = cJSON_GetArrayItem(member(answer, "effects"), layer);
            const double got = cJSON_GetNumberValue(cJSON_GetArrayItem(effects, head));
            assert_true(fabs(got - want) < 2e-6);
            assert_true(got >= 0);
        }
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------ the answer -- */

TEST(members)
{
    cJSON *answer = answer_post(
        &client, PATH,
        "{\"model\":\"llama\"," TOKENS ",\"metric\":{\"token\":7,\"against\":4},"
        "\"each\":{\"rows_of_layers\":true},\"layers\":[2,0],\"rows\":[-1,[0,2]],\"scale\":0.5,"
        "\"top_k_tokens\":2,\"by\":\"scale\"}");
    answer_expect_members(answer, "model,layers,rows,base,effects,predictions");
    answer_expect(answer, "layers", "[0,2]", 0);
    answer_expect(answer, "rows", "[0,1,5]", 0);
    const cJSON *base = member(answer, "base");
    answer_expect_members(base, "position,value,target,tokens");
    answer_expect(base, "position", "5", 0);
    answer_expect_members(member(base, "target"), "id,logprob,rank,against");
    answer_expect_members(member(member(base, "target"), "against"), "id,logprob,rank");
    const cJSON *predictions = member(answer, "predictions");
    assert_int_equal(cJSON_GetArraySize(predictions), 2);
    for (int i = 0; i < 2; i++) {
        const cJSON *of_layer = cJSON_GetArrayItem(predictions, i);
        assert_int_equal(cJSON_GetArraySize(of_layer), 3);
        assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(of_layer, 0)), 2);
        answer_expect_members(cJSON_GetArrayItem(cJSON_GetArrayItem(of_layer, 0), 0), "id,logprob");
    }
    cJSON_Delete(answer);
}

static void expect_zeros(const cJSON *effects)
{
    const cJSON *effect;
    cJSON_ArrayForEach(effect, effects) {
        if (cJSON_IsArray(effect))
            expect_zeros(effect);
        else
            assert_true(cJSON_GetNumberValue(effect) == 0);
    }
}

/* Rows of the same input change nothing, nor does no row, no layer, or a scale of 1. */
TEST(nothing_changes)
{
    static const char *const NOTHING[] = {
        "\"each\":\"heads\",\"by\":\"from\",\"other\":{" TOKENS "}",
        "\"each\":\"layers\",\"by\":\"from\",\"other\":{" TOKENS "}",
        "\"each\":{\"rows_of_layers\":true},\"by\":\"from\",\"other\":{" TOKENS "}",
        "\"each\":\"feed_forwards\",\"scale\":1",
        "\"each\":\"heads\",\"rows\":[]",
        "\"each\":{\"spans\":[[0,3],[1,2]]},\"layers\":[]",
        "\"each\":{\"spans\":[[2,2]]}",
    };
    for (size_t i = 0; i < sizeof NOTHING / sizeof NOTHING[0]; i++) {
        char body[400];
        snprintf(body, sizeof body, "{\"model\":\"llama\"," TOKENS ",\"metric\":{\"token\":7},%s}",
                 NOTHING[i]);
        cJSON *answer = answer_post(&client, PATH, body);
        expect_zeros(member(answer, "effects"));
        cJSON_Delete(answer);
    }
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"llama\"," TOKENS
                                ",\"metric\":{\"token\":7},\"each\":\"heads\",\"layers\":[]}");
    answer_expect(answer, "effects", "[]", 0);
    cJSON_Delete(answer);
}

/* The same numbers in a file, of a request in a file. */
TEST(files)
{
    static const int64_t IDS[] = { 3, 17, 9, 22, 31, 8 };
    struct tensor_body body = { .used = 0 };
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"llama\"," TOKENS
                                ",\"metric\":{\"token\":7},\"each\":\"heads\",\"top_k_tokens\":2}");
    tensor_body_add(&body, "tokens", "I64", "[6]", IDS, sizeof IDS);
    struct http_response response = tensor_body_post(
        &client, PATH, &body,
        "{\"model\":\"llama\",\"metric\":\"{\\\"token\\\":7}\",\"each\":\"\\\"heads\\\"\","
        "\"top_k_tokens\":\"2\"}",
        0, "application/x-safetensors");
    cJSON *header = tensor_body_header(&response);
    const float *effects = tensor_body_find(&response, header, "effects", "F32", "[3,4]");
    const int64_t *ids = tensor_body_find(&response, header, "predictions.ids", "I64", "[3,4,2]");
    tensor_body_find(&response, header, "predictions.logprobs", "F32", "[3,4,2]");
    tensor_body_find(&response, header, "base.value", "F32", "[]");
    for (int i = 0; i < 12; i++) {
        float effect;
        int64_t id;
        memcpy(&effect, effects + i, sizeof effect);
        memcpy(&id, ids + 2 * i, sizeof id);
        const cJSON *of_layer = cJSON_GetArrayItem(member(answer, "effects"), i / 4);
        const cJSON *predicted = cJSON_GetArrayItem(member(answer, "predictions"), i / 4);
        const cJSON *token = cJSON_GetArrayItem(cJSON_GetArrayItem(predicted, i % 4), 0);
        assert_true(effect == (float)cJSON_GetNumberValue(cJSON_GetArrayItem(of_layer, i % 4)));
        assert_int_equal(id, member(token, "id")->valueint);
    }
    cJSON_Delete(header);
    http_response_free(&response);
    cJSON_Delete(answer);
}

/* Many short variants go in several waves: the same numbers as in one. */
TEST(waves)
{
    static const struct effects_case OF = { &client, "llama", "\"tokens\":[4,9]", NULL,
                                            NULL,    "",      "\"token\":7" };
    static int spans[600][2];
    static const char *const SELF[] = { "self", NULL };
    for (int i = 0; i < 600; i++)
        spans[i][0] = i % 2, spans[i][1] = 1;
    effects_client_expect_hidden(&OF, (const int(*)[2])spans, 600, SELF);
}

ALL_TESTS(start, fixture_clear);
TEST_ALSO(test_stops_cleanly);
