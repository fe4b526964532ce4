/* SPDX-License-Identifier: Apache-2.0 */
/* test_lens.c - the lens of layers: laws and faults. That the numbers are right is in
 * test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "stories_trace.h"
#include "tensor_body.h"
#include "test.h"
#include "traced_families.h"

#include <limits.h>

enum { LAYERS = 5, TOKENS = 12 };

static const cJSON *lens_of(const cJSON *answer, int layer)
{
    return cJSON_GetObjectItemCaseSensitive(stories_layer(answer, layer), "lens");
}

/* The last layer's is the prediction, to the bit, also of edited passes. */
TEST(last_layer)
{
    static const char *const EDITS[] = {
        "", ",\"edits\":[{\"at\":\"feed_forward\",\"scale\":0,\"layers\":[4]}]",
        ",\"edits\":[{\"hide\":[[1,5]]},{\"at\":\"hidden_states\",\"layers\":[3],\"mean\":true}]",
        ",\"edits\":[{\"scale\":0,\"heads\":[3]}],\"compare\":true"
    };
    for (int e = 0; e < 4; e++) {
        char more[500];
        snprintf(
            more, sizeof more,
            ",\"outputs\":[\"lens\",\"predictions\"],\"positions\":[3,-1,3],\"top_k_tokens\":7,"
            "\"targets\":[{\"token\":280},{\"position\":3,\"token\":5},{\"position\":4,"
            "\"token\":5},{\"position\":3,\"token\":9,\"against\":5}]%s",
            EDITS[e]);
        cJSON *answer = stories_trace(more);
        const cJSON *lens = lens_of(answer, LAYERS - 1);
        const cJSON *targets = cJSON_GetObjectItemCaseSensitive(answer, "targets");
        static const int TARGETS_AT[3][2] = { { 1, 3 }, { 0, -1 }, { 1, 3 } };
        assert_int_equal(cJSON_GetArraySize(lens), 3);
        for (int p = 0; p < 3; p++) {
            const cJSON *at = cJSON_GetArrayItem(lens, p);
            const cJSON *own = cJSON_GetObjectItemCaseSensitive(at, "targets");
            const cJSON *predicted =
                cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "predictions"), p);
            const cJSON *token, *other = cJSON_GetObjectItem(predicted, "tokens")->child;
            answer_expect_members(at, "position,tokens,targets");
            answer_expect_equal(at, predicted, "position");
            cJSON_ArrayForEach(token, cJSON_GetObjectItem(at, "tokens")) {
                answer_expect_equal(token, other, "id");
                answer_expect_equal(token, other, "logprob");
                other = other->next;
            }
            assert_null(other);
            assert_int_equal(cJSON_GetArraySize(own), TARGETS_AT[p][1] < 0 ? 1 : 2);
            for (int t = 0; t < cJSON_GetArraySize(own); t++) {
                const cJSON *score = cJSON_GetArrayItem(own, t);
                answer_expect_members(score, "id,text,logprob,rank");
                answer_expect_equal(score, cJSON_GetArrayItem(targets, TARGETS_AT[p][t]), "id");
                answer_expect_equal(score, cJSON_GetArrayItem(targets, TARGETS_AT[p][t]),
                                    "logprob");
                answer_expect_equal(score, cJSON_GetArrayItem(targets, TARGETS_AT[p][t]), "rank");
            }
        }
        cJSON_Delete(answer);
    }
}

/* Defaults are those of predictions; a layer's lens is the same whatever else is asked for, and
 * other outputs keep their bits. */
TEST(beside_others)
{
    cJSON *plain = stories_trace(",\"outputs\":[\"hidden_states\",\"predictions\"]");
    cJSON *both = stories_trace(",\"outputs\":[\"hidden_states\",\"predictions\",\"lens\"]");
    cJSON *one = stories_trace(",\"outputs\":[\"lens\"],\"layers\":[2]");
    assert_true(cJSON_Compare(lens_of(one, 0), lens_of(both, 2), true));
    answer_expect_equal(plain, both, "predictions");
    answer_expect_equal(plain, both, "final_hidden_states");
    for (int l = 0; l < LAYERS; l++) {
        answer_expect_equal(stories_layer(plain, l), stories_layer(both, l), "hidden_states");
        answer_expect_members(cJSON_GetArrayItem(lens_of(both, l), 0), "position,tokens");
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(
                             cJSON_GetArrayItem(lens_of(both, l), 0), "tokens")),
                         5);
    }
    cJSON_Delete(one);
    cJSON_Delete(both);
    cJSON_Delete(plain);
    one = stories_trace(",\"outputs\":[\"lens\"],\"layers\":[]");
    answer_expect(one, "layers", "[]", 0);
    cJSON_Delete(one);
    one = stories_trace(",\"outputs\":[\"lens\"],\"layers\":[1],\"positions\":[]");
    answer_expect(stories_layer(one, 0), "lens", "[]", 0);
    cJSON_Delete(one);
}

TEST(batch)
{
    cJSON *alone = stories_trace(",\"outputs\":[\"lens\"]");
    cJSON *answer =
        answer_post(&client, "/v1/trace/batch",
                    STORIES_PROMPT ",\"outputs\":[\"lens\"],\"requests\":[{\"tokens\":[1,9]},{},"
                                   "{\"outputs\":[\"predictions\"],\"edits\":[{\"scale\":0}],"
                                   "\"compare\":true},{}]}");
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_true(cJSON_Compare(cJSON_GetArrayItem(results, 1), alone, true));
    assert_true(cJSON_Compare(cJSON_GetArrayItem(results, 3), alone, true));
    cJSON_Delete(answer);
    cJSON_Delete(alone);
}

/* The rows of a session's request are those of the whole text. */
TEST(session)
{
    struct http_response made = http_client_post(
        &client, "/v1/sessions", JSON({"model":"stories260K","id":"s","kv_len_max":64}));
    assert_int_equal(made.status, 201);
    http_response_free(&made);
    cJSON_Delete(answer_post(&client, "/v1/sessions/s/trace",
                             JSON({"tokens":[1,403,407,261,378],"outputs":["lse"]})));
    cJSON *answer = answer_post(
        &client, "/v1/sessions/s/trace",
        JSON({"tokens":[400,296,5,402,280,263,271],"outputs":["lens"],"positions":[2]}));
    cJSON *whole = stories_trace(",\"outputs\":[\"lens\"],\"positions\":[7]");
    for (int l = 0; l < LAYERS; l++) {
        char *tokens = cJSON_PrintUnformatted(
            cJSON_GetObjectItem(cJSON_GetArrayItem(lens_of(whole, l), 0), "tokens"));
        answer_expect(cJSON_GetArrayItem(lens_of(answer, l), 0), "tokens", tokens, 1e-5);
        free(tokens);
    }
    cJSON_Delete(whole);
    cJSON_Delete(answer);
}

TEST(faults)
{
    answer_refused(&client, "/v1/trace",
                   JSON({"model":"vit","pixels":[],"outputs":["lens"]}), 400, "shape", "/pixels");
    answer_refused(&client, "/v1/trace",
                   STORIES_PROMPT ",\"outputs\":[\"lens\"],\"positions\":[12]}", 400, "option",
                   "/positions/0");
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"clip\",\"tokens\":[3,4],\"outputs\":[\"lens\"]}");
    answer_refused(&client, "/v1/trace", body.data, 400, "option", "/outputs");
    free(body.data);
}

static int start(void **state)
{
    char command[PATH_MAX];
    fixture_make_directory(state);
    snprintf(command, sizeof command, "cp -r examples/models/stories260K %s", directory);
    assert_int_equal(system(command), 0);
    traced_families_save(directory);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
