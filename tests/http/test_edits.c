/* SPDX-License-Identifier: Apache-2.0 */
/* test_edits.c - laws of edits of a pass: what changes nothing, what stays, and that everything an
 * edited pass answers, keeps or does over a session is of one and the same pass. That its numbers
 * are right is in test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "tensor_body.h"
#include "test.h"

enum { LAYERS = 5, HEADS = 8, HEAD_DIM = 8, WIDTH = 64, TOKENS = 12 };

static const int IDS[TOKENS] = { 1, 403, 407, 261, 378, 400, 296, 5, 402, 280, 263, 271 };

#define ALL_OUTPUTS                                                                                \
    ",\"top_k_tokens\":3,\"outputs\":[\"weights\",\"lse\",\"scores\",\"masked\",\"inputs\","       \
    "\"hidden_states\",\"attention_output\",\"predictions\",\"logprobs\"]"

/* Tokens [first, end), behind these members. */
static char *body_of(int first, int end, const char *members)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"tokens\":[");
    for (int i = first; i < end; i++)
        request_text_add(&body, "%s%d", i > first ? "," : "", IDS[i]);
    request_text_add(&body, "]%s", members);
    request_text_add(&body, "}");
    return body.data;
}

static cJSON *trace_of(int first, int end, const char *members)
{
    struct request_text more = { .data = NULL };
    request_text_add(&more, ",\"model\":\"stories260K\"");
    request_text_add(&more, "%s", members);
    char *body = body_of(first, end, more.data);
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    free(more.data);
    free(body);
    return answer;
}

static cJSON *trace(const char *members)
{
    return trace_of(0, TOKENS, members);
}

static const cJSON *layer_of(const cJSON *answer, int layer)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), layer);
}

static void expect_same(const cJSON *got, const cJSON *want, const char *what)
{
    if (!cJSON_Compare(got, want, true))
        fail_msg("%s: the answers differ", what);
}

/* ------------------------------------------------------------ nothing changes -- */

static const char *const NOTHING[] = {
    "[]",
    "[{\"scale\":1}]",
    "[{\"scale\":1,\"at\":\"embeddings\"},{\"scale\":1,\"at\":\"hidden_states\"},"
    "{\"scale\":1,\"at\":\"attention_output\"},{\"scale\":1,\"at\":\"feed_forward\"}]",
    "[{\"hide\":[]}]",
    "[{\"hide\":[[3,3]]}]",
    "[{\"hide\":[[0,4]],\"layers\":[]},{\"scale\":0,\"rows\":[]},{\"scale\":0,\"heads\":[]}]",
    "[{\"weights\":\"uniform\",\"layers\":[]},{\"weights\":\"uniform\",\"rows\":[]},"
    "{\"weights\":\"uniform\",\"heads\":[]},{\"hide\":[[0,4]],\"heads\":[]}]",
    "[{\"add\":[0,0,0,0,0,0,0,-0.0]},{\"add\":[1,2,3,4,5,6,7,8],\"times\":0}]",
    "[{\"set\":[],\"rows\":[]}]",
    "null",
};

TEST(nothing_changes)
{
    cJSON *plain = trace(ALL_OUTPUTS);
    for (size_t i = 0; i < sizeof NOTHING / sizeof NOTHING[0]; i++) {
        char members[700];
        snprintf(members, sizeof members, ALL_OUTPUTS ",\"edits\":%s", NOTHING[i]);
        cJSON *edited = trace(members);
        expect_same(edited, plain, NOTHING[i]);
        cJSON_Delete(edited);
    }
    cJSON_Delete(plain);
}

/* Rows of the pass itself, from a trace that was kept. */
TEST(rows_of_the_same_trace)
{
    cJSON *plain = trace(ALL_OUTPUTS), *kept = trace(",\"keep\":\"1m\",\"states\":true");
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "trace"));
    static const char *const PLACES[] = { "embeddings", "hidden_states", "head", "attention_output",
                                          "feed_forward" };
    for (int i = 0; i < 5; i++) {
        char members[700];
        snprintf(members, sizeof members,
                 ALL_OUTPUTS ",\"edits\":[{\"at\":\"%s\",\"from\":{\"trace\":\"%s\"}}]", PLACES[i],
                 id);
        cJSON *edited = trace(members);
        expect_same(edited, plain, PLACES[i]);
        cJSON_Delete(edited);
    }
    cJSON_Delete(kept);
    cJSON_Delete(plain);
}

/* A kept pass leaves its rows as its edits left them: a pass that takes them in is that pass. */
TEST(rows_of_an_edited_trace)
{
    static const char EDITED[] =
        ",\"edits\":[{\"at\":\"feed_forward\",\"layers\":[2],\"mean\":true,\"rows\":[3,-1]}]";
    char members[900];
    snprintf(members, sizeof members, "%s,\"keep\":\"1m\",\"states\":true", EDITED);
    cJSON *kept = trace(members);
    snprintf(members, sizeof members, "%s%s", ALL_OUTPUTS, EDITED);
    cJSON *want = trace(members);
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "trace"));
    snprintf(members, sizeof members,
             ALL_OUTPUTS ",\"edits\":[{\"at\":\"feed_forward\",\"layers\":[2],\"rows\":[-1,3],"
                         "\"from\":{\"trace\":\"%s\",\"layer\":2,\"rows\":[3,11]}}]",
             id);
    cJSON *got = trace(members);
    expect_same(got, want, "from");
    cJSON_Delete(got);
    cJSON_Delete(want);
    cJSON_Delete(kept);
}

/* --------------------------------------------------------------------- what stays -- */

TEST(layers_below_stay)
{
    cJSON *plain = trace(ALL_OUTPUTS);
    cJSON *edited = trace(ALL_OUTPUTS ",\"edits\":[{\"layers\":[2],\"heads\":[1],\"scale\":0}]");
    for (int i = 0; i < 2; i++)
        expect_same(layer_of(edited, i), layer_of(plain, i), "a layer below");
    answer_expect_equal(layer_of(edited, 2), layer_of(plain, 2), "weights");
    assert_false(cJSON_Compare(cJSON_GetObjectItem(layer_of(edited, 2), "attention_output"),
                               cJSON_GetObjectItem(layer_of(plain, 2), "attention_output"), true));
    assert_false(cJSON_Compare(layer_of(edited, 3), layer_of(plain, 3), true));
    cJSON_Delete(edited);
    cJSON_Delete(plain);
}

/* Rows of rotary positions see how far a key is, and not where: without a prefix they are the same
 * rows, but for roundings. */
TEST(hidden_prefix_is_none)
{
    enum { FIRST = 4 };
    cJSON *edited =
        trace(",\"outputs\":[\"hidden_states\"],\"edits\":[{\"hide\":[[0,4]],\"rows\":[[4,12]]}]");
    cJSON *alone = trace_of(FIRST, TOKENS, ",\"outputs\":[\"hidden_states\"]");
    const int64_t shape[] = { TOKENS, WIDTH }, alone_shape[] = { TOKENS - FIRST, WIDTH };
    double *got = answer_numbers(edited, "final_hidden_states", 2, shape);
    double *want = answer_numbers(alone, "final_hidden_states", 2, alone_shape);
    for (int64_t i = 0; i < (TOKENS - FIRST) * WIDTH; i++)
        if (!(fabs(got[FIRST * WIDTH + i] - want[i]) <= 1e-4 * (1 + fabs(want[i]))))
            fail_msg("number %d is %.9g, not %.9g", (int)i, got[FIRST * WIDTH + i], want[i]);
    free(got);
    free(want);
    cJSON_Delete(alone);
    cJSON_Delete(edited);
}

/* ---------------------------------------------------------------------- one pass -- */

#define EDITED                                                                                     \
    ",\"edits\":[{\"hide\":[[1,3]],\"rows\":[[7,12]]},{\"weights\":\"previous\",\"heads\":[2],"    \
    "\"layers\":[1,3],\"rows\":[[7,12]]},{\"at\":\"feed_forward\",\"layers\":[0],\"scale\":0,"     \
    "\"rows\":[[7,12]]}]"

TEST(batch_is_single)
{
    cJSON *single = trace(ALL_OUTPUTS EDITED), *plain = trace(ALL_OUTPUTS);
    struct request_text body = { .data = NULL };
    char *edited = body_of(0, TOKENS, EDITED), *bare = body_of(0, TOKENS, "");
    request_text_add(&body, "{\"model\":\"stories260K\"" ALL_OUTPUTS ",\"requests\":[");
    request_text_add(&body, "%s,", bare);
    request_text_add(&body, "%s,", edited);
    request_text_add(&body, "%s]}", bare);
    cJSON *batch = answer_post(&client, "/v1/trace/batch", body.data);
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(batch, "results");
    for (int i = 0; i < 3; i++)
        expect_same(cJSON_GetArrayItem(results, i), i == 1 ? single : plain, "an item");
    free(edited);
    free(bare);
    free(body.data);
    cJSON_Delete(batch);
    cJSON_Delete(plain);
    cJSON_Delete(single);
}

/* Rows [first, end) of a whole trace, of a session's trace. */
static void expect_close(const cJSON *got, const cJSON *whole, const char *name, int first)
{
    const int64_t shape[] = { TOKENS - first, WIDTH }, whole_shape[] = { TOKENS, WIDTH };
    double *numbers = answer_numbers(got, name, 2, shape);
    double *want = answer_numbers(whole, name, 2, whole_shape);
    for (int64_t i = 0; i < (TOKENS - first) * WIDTH; i++)
        if (!(fabs(numbers[i] - want[first * WIDTH + i])
              <= 2e-5 * (1 + fabs(want[first * WIDTH + i]))))
            fail_msg("%s: number %d is %.9g, not %.9g", name, (int)i, numbers[i],
                     want[first * WIDTH + i]);
    free(numbers);
    free(want);
}

/* Rows of the request, keys from the first token on; the caches are the edited pass's. */
TEST(session_is_whole)
{
    enum { FIRST = 7, NEXT = 10 };
    cJSON *whole = trace(ALL_OUTPUTS EDITED);
    session_make(&client, "{\"model\":\"stories260K\",\"id\":\"edits\"}");
    char *body = body_of(0, FIRST, "");
    cJSON_Delete(session_post(&client, "edits", "trace", body, 200));
    free(body);
    for (int first = FIRST; first < TOKENS; first = NEXT + (first == NEXT) * TOKENS) {
        body = body_of(first, first == FIRST ? NEXT : TOKENS,
                       ",\"edits\":[{\"hide\":[[1,3]]},{\"weights\":\"previous\",\"heads\":[2],"
                       "\"layers\":[1,3]},{\"at\":\"feed_forward\",\"layers\":[0],\"scale\":0}]"
                       ",\"outputs\":[\"hidden_states\"]");
        cJSON *piece = session_post(&client, "edits", "trace", body, 200);
        free(body);
        if (first == NEXT) {
            for (int i = 0; i < LAYERS; i++)
                expect_close(layer_of(piece, i), layer_of(whole, i), "hidden_states", NEXT);
            expect_close(piece, whole, "final_hidden_states", NEXT);
        }
        cJSON_Delete(piece);
    }
    session_refused(&client, "edits", "trace", "{\"tokens\":[1],\"compare\":true}", 400,
                    "field|option", "compare");
    session_delete(&client, "edits", 204);
    cJSON_Delete(whole);
}

/* ----------------------------------------------------------------- reduced and kept -- */

TEST(reduced_maps_are_of_edited_weights)
{
    const int64_t shape[] = { HEADS, TOKENS, TOKENS }, span_shape[] = { HEADS, TOKENS, 2 };
    cJSON *whole = trace(EDITED), *means = trace(EDITED ",\"spans\":[[0,3],[3,8]]");
    cJSON *top = trace(EDITED ",\"weight_map\":{\"top_k\":1}");
    for (int layer = 0; layer < LAYERS; layer++) {
        double *weights = answer_numbers(layer_of(whole, layer), "weights", 3, shape);
        double *spans = answer_numbers(layer_of(means, layer), "spans", 3, span_shape);
        const cJSON *map = layer_of(top, layer);
        assert_non_null(map);
        for (int64_t row = 0; row < HEADS * TOKENS; row++) {
            double sums[2] = { 0 };
            for (int key = 0; key < 8; key++)
                sums[key >= 3] += weights[row * TOKENS + key];
            for (int s = 0; s < 2; s++)
                if (!(fabs(spans[row * 2 + s] - sums[s]) <= 1e-6))
                    fail_msg("layer %d, row %d: %.9g, not %.9g", layer, (int)row,
                             spans[row * 2 + s], sums[s]);
        }
        free(weights);
        free(spans);
    }
    cJSON_Delete(top);
    cJSON_Delete(means);
    cJSON_Delete(whole);
}

TEST(kept_maps_are_of_edited_weights)
{
    const int64_t shape[] = { HEADS, TOKENS, TOKENS };
    cJSON *whole = trace(EDITED), *kept = trace(EDITED ",\"keep\":\"1m\"");
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "trace"));
    for (int layer = 0; layer < LAYERS; layer++) {
        double *weights = answer_numbers(layer_of(whole, layer), "weights", 3, shape);
        for (int head = 0; head < HEADS; head++) {
            char path[160];
            snprintf(path, sizeof path, "/v1/traces/%s/weights?layer=%d&head=%d", id, layer, head);
            struct http_response piece = http_client_get(&client, path);
            const float *got = (const float *)(const void *)piece.body;
            assert_int_equal(piece.status, 200);
            assert_int_equal(piece.body_size, TOKENS * TOKENS * sizeof *got);
            for (int64_t i = 0; i < TOKENS * TOKENS; i++)
                if (!(fabs((double)got[i] - weights[head * TOKENS * TOKENS + i]) <= 1e-6))
                    fail_msg("layer %d, head %d: number %d is %.9g, not %.9g", layer, head, (int)i,
                             (double)got[i], weights[head * TOKENS * TOKENS + i]);
            http_response_free(&piece);
        }
        free(weights);
    }
    cJSON_Delete(kept);
    cJSON_Delete(whole);
}

/* ------------------------------------------------------------------- safetensors -- */

/* Numbers of edits may be tensors, also beside those of the trace itself. */
TEST(tensors_beside_the_list)
{
    static float row[WIDTH], vector[HEAD_DIM], weights[4], embeddings[4 * WIDTH];
    static const char LIST[] = "[{\"at\":\"hidden_states\",\"layers\":[1],\"rows\":[1]},"
                               "{\"rows\":[2]},{\"rows\":[3]}]";
    struct tensor_body body = { .used = 0 };
    struct request_text json = { .data = NULL };
    char metadata[512];
    for (int i = 0; i < 4 * WIDTH; i++)
        embeddings[i] = (float)(i % 9 - 4) / 8;
    for (int i = 0; i < WIDTH; i++)
        row[i] = (float)(i % 5) / 4;
    for (int i = 0; i < HEAD_DIM; i++)
        vector[i] = 1;
    for (int i = 0; i < 4; i++)
        weights[i] = 0.25f;
    request_text_add(&json, "{\"model\":\"stories260K\",\"outputs\":[\"weights\"],\"embeddings\":");
    request_text_matrix(&json, embeddings, 4, WIDTH);
    request_text_add(&json,
                     ",\"edits\":[{\"at\":\"hidden_states\",\"layers\":[1],\"rows\":[1],\"set\":");
    request_text_matrix(&json, row, 1, WIDTH);
    request_text_add(&json, "},{\"rows\":[2],\"add\":[1,1,1,1,1,1,1,1]},{\"rows\":[3],"
                            "\"weights\":[[0.25,0.25,0.25,0.25]]}]}");
    cJSON *want = answer_post(&client, "/v1/trace", json.data);
    tensor_body_add(&body, "embeddings", "F32", "[4,64]", embeddings, sizeof embeddings);
    tensor_body_add(&body, "edits.0.set", "F32", "[1,64]", row, sizeof row);
    tensor_body_add(&body, "edits.1.add", "F32", "[8]", vector, sizeof vector);
    tensor_body_add(&body, "edits.2.weights", "F32", "[1,4]", weights, sizeof weights);
    cJSON *texts = cJSON_CreateObject();
    cJSON_AddStringToObject(texts, "model", "stories260K");
    cJSON_AddStringToObject(texts, "outputs", "[\"weights\"]");
    cJSON_AddStringToObject(texts, "edits", LIST);
    assert_true(cJSON_PrintPreallocated(texts, metadata, sizeof metadata, false));
    struct http_response response =
        tensor_body_post(&client, "/v1/trace", &body, metadata, 0, "application/json");
    cJSON *got = answer_json(&response, 200);
    expect_same(got, want, "tensors");
    http_response_free(&response);
    tensor_body_add(&body, "edits.3.add", "F32", "[8]", vector, sizeof vector);
    response = tensor_body_post(&client, "/v1/trace", &body, metadata, 0, "application/json");
    answer_expect_fault(&response, 400, "field", "/edits/3/add");
    http_response_free(&response);
    cJSON_DeleteItemFromObject(texts, "edits");
    assert_true(cJSON_PrintPreallocated(texts, metadata, sizeof metadata, false));
    response = tensor_body_post(&client, "/v1/trace", &body, metadata, 0, "application/json");
    answer_expect_fault(&response, 400, "field", "/edits");
    http_response_free(&response);
    cJSON_Delete(texts);
    cJSON_Delete(got);
    cJSON_Delete(want);
    free(json.data);
}

/* -------------------------------------------------------------------- log-probs -- */

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(number))
        fail_msg("%s is no number: %s", name, cJSON_PrintUnformatted(object));
    return number->valuedouble;
}

/* All tokens of the vocabulary at one position, the most probable first. */
static const cJSON *find_token(const cJSON *position, int id, int *rank)
{
    const cJSON *token;
    *rank = 0;
    cJSON_ArrayForEach(token, cJSON_GetObjectItemCaseSensitive(position, "tokens")) {
        ++*rank;
        if ((int)number_of(token, "id") == id)
            return token;
    }
    fail_msg("no token %d", id);
    return NULL;
}

#define WHOLE_VOCABULARY                                                                           \
    ",\"top_k_tokens\":512,\"outputs\":[\"predictions\"],\"layers\":[],"                           \
    "\"positions\":[0,1,2,3,4,5,6,7,8,9,10,11]"

/* Each has the log-prob and the place that it has among all tokens of the predictions; sums are of
 * these. */
TEST(logprobs_are_of_predictions)
{
    cJSON *all = trace(WHOLE_VOCABULARY);
    cJSON *some = trace(",\"outputs\":[\"logprobs\"],\"spans\":[[0,3],[3,12]],\"layers\":[]");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(some, "logprobs");
    const cJSON *positions = cJSON_GetObjectItemCaseSensitive(all, "predictions");
    double sums[3] = { 0 };
    assert_int_equal(cJSON_GetArraySize(list), TOKENS);
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "logprob")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "rank")));
    assert_null(cJSON_GetObjectItem(first, "tokens"));
    for (int i = 1; i < TOKENS; i++) {
        const cJSON *one = cJSON_GetArrayItem(list, i);
        int rank;
        const cJSON *token = find_token(cJSON_GetArrayItem(positions, i - 1), IDS[i], &rank);
        assert_int_equal((int)number_of(one, "id"), IDS[i]);
        assert_int_equal((int)number_of(one, "rank"), rank);
        assert_true(number_of(one, "logprob") == number_of(token, "logprob"));
        assert_null(cJSON_GetObjectItem(one, "tokens"));
        sums[0] += (double)(float)number_of(one, "logprob");
        sums[i < 3 ? 1 : 2] += (double)(float)number_of(one, "logprob");
    }
    const int64_t shape[] = { 2 };
    double *spans = answer_numbers(some, "logprob_spans", 1, shape);
    assert_true(fabs(number_of(some, "logprob_sum") - sums[0]) <= 1e-12 * fabs(sums[0]));
    for (int i = 0; i < 2; i++)
        assert_true(fabs(spans[i] - sums[1 + i]) <= 1e-12 * fabs(sums[1 + i]));
    free(spans);
    cJSON_Delete(some);
    cJSON_Delete(all);
}

/* Targets of an edited pass beside those of the unedited one. */
TEST(comparison_is_of_two_traces)
{
#define TARGETS ",\"targets\":[{\"token\":432,\"against\":\"a\"},{\"token\":3,\"position\":4}]"
    cJSON *plain =
        trace(TARGETS ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":512");
    cJSON *edited =
        trace(TARGETS EDITED ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":512");
    cJSON *both = trace(TARGETS EDITED ",\"layers\":[],\"outputs\":[\"predictions\"],"
                                       "\"top_k_tokens\":512,\"compare\":true");
    for (int i = 0; i < 2; i++) {
        const cJSON *of[3], *answers[] = { plain, edited, both };
        for (int k = 0; k < 3; k++)
            of[k] = cJSON_GetArrayItem(cJSON_GetObjectItem(answers[k], "targets"), i);
        assert_int_equal((int)number_of(of[2], "position"), i == 0 ? TOKENS - 1 : 4);
        assert_true(number_of(of[2], "logprob") == number_of(of[1], "logprob"));
        assert_true((float)number_of(of[2], "difference")
                    == (float)number_of(of[1], "logprob") - (float)number_of(of[0], "logprob"));
        assert_null(cJSON_GetObjectItem(of[1], "difference"));
    }
    const cJSON *target = cJSON_GetArrayItem(cJSON_GetObjectItem(both, "targets"), 0);
    const cJSON *against = cJSON_GetObjectItem(target, "against");
    assert_true((float)number_of(target, "logit_difference")
                == (float)number_of(target, "logprob") - (float)number_of(against, "logprob"));
    number_of(against, "difference");
    const cJSON *edited_tokens = cJSON_GetArrayItem(cJSON_GetObjectItem(both, "predictions"), 0);
    const cJSON *base = cJSON_GetArrayItem(cJSON_GetObjectItem(both, "base_predictions"), 0);
    const cJSON *old = cJSON_GetArrayItem(cJSON_GetObjectItem(plain, "predictions"), 0), *token;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(base, "tokens")) {
        const int id = (int)number_of(token, "id");
        int rank;
        assert_true(number_of(token, "logprob")
                    == number_of(find_token(old, id, &rank), "logprob"));
        assert_true(number_of(token, "difference")
                    == number_of(find_token(edited_tokens, id, &rank), "difference"));
    }
    cJSON_Delete(both);
    cJSON_Delete(edited);
    cJSON_Delete(plain);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
