/* SPDX-License-Identifier: Apache-2.0 */
/* test_rollout.c - rollouts: laws, those of kept traces, and faults. That the numbers are right is
 * in test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "fixture.h"
#include "stories_trace.h"
#include "test.h"
#include "traced_families.h"

#include <limits.h>

enum { LAYERS = 5, TOKENS = 12 };

/* Rows are shares: of a causal model of what came before. */
TEST(rows_sum_to_1)
{
    static const char *const EDITS[] = {
        "", ",\"edits\":[{\"hide\":[[0,4]],\"layers\":[1,2]}]",
        ",\"edits\":[{\"weights\":\"uniform\",\"layers\":[0]},{\"hide\":[[0,12]],\"rows\":[3]}]"
    };
    for (int e = 0; e < 3; e++) {
        char more[200];
        snprintf(more, sizeof more, ",\"outputs\":[\"rollout\"]%s", EDITS[e]);
        cJSON *answer = stories_trace(more);
        for (int l = 0; l < LAYERS; l++) {
            const int64_t shape[] = { TOKENS, TOKENS };
            double *rows = answer_numbers(stories_layer(answer, l), "rollout", 2, shape);
            for (int i = 0; i < TOKENS; i++) {
                double sum = 0;
                for (int j = 0; j < TOKENS; j++) {
                    sum += rows[i * TOKENS + j];
                    assert_true(j <= i || rows[i * TOKENS + j] == 0);
                }
                assert_true(fabs(sum - 1) < 1e-5);
            }
            free(rows);
        }
        cJSON_Delete(answer);
    }
}

/* A layer's rollout is the same whatever else is answered, and other outputs keep their bits. */
TEST(beside_others)
{
    cJSON *plain =
        stories_trace(",\"outputs\":[\"weights\",\"lse\",\"hidden_states\",\"predictions\"]");
    cJSON *both = stories_trace(
        ",\"outputs\":[\"weights\",\"lse\",\"hidden_states\",\"predictions\",\"rollout\"]");
    cJSON *alone = stories_trace(",\"outputs\":[\"rollout\"],\"layers\":[3]");
    cJSON *spans = stories_trace(",\"outputs\":[\"rollout\"],\"spans\":[[0,3]],\"rows\":[2,-1]");
    answer_expect_equal(stories_layer(both, 3), stories_layer(alone, 0), "rollout");
    for (int l = 0; l < LAYERS; l++) {
        answer_expect_equal(stories_layer(both, l), stories_layer(plain, l), "weights");
        answer_expect_equal(stories_layer(both, l), stories_layer(plain, l), "lse");
        answer_expect_equal(stories_layer(both, l), stories_layer(plain, l), "hidden_states");
        answer_expect_members(stories_layer(spans, l), "layer,kind,spans,rollout");
        const cJSON *rows = cJSON_GetObjectItemCaseSensitive(stories_layer(spans, l), "rollout");
        const cJSON *all = cJSON_GetObjectItemCaseSensitive(stories_layer(both, l), "rollout");
        assert_int_equal(cJSON_GetArraySize(rows), 2);
        assert_true(cJSON_Compare(cJSON_GetArrayItem(rows, 0), cJSON_GetArrayItem(all, 2), true));
        assert_true(cJSON_Compare(cJSON_GetArrayItem(rows, 1), cJSON_GetArrayItem(all, 11), true));
    }
    answer_expect_equal(both, plain, "predictions");
    cJSON_Delete(spans);
    cJSON_Delete(alone);
    cJSON_Delete(both);
    cJSON_Delete(plain);
}

/* A batch of texts of different lengths goes through its layers together. */
TEST(batch)
{
    cJSON *answer =
        answer_post(&client, "/v1/trace/batch",
                    STORIES_PROMPT ",\"outputs\":[\"rollout\"],\"requests\":[{},{\"tokens\":[1,"
                                   "403]},{\"outputs\":[\"lse\"]},{\"layers\":[1]}]}");
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    cJSON *alone = stories_trace(",\"outputs\":[\"rollout\"]");
    assert_true(cJSON_Compare(cJSON_GetArrayItem(results, 0), alone, true));
    answer_expect_equal(stories_layer(cJSON_GetArrayItem(results, 3), 0), stories_layer(alone, 1),
                        "rollout");
    cJSON_Delete(alone);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------ kept traces -- */

static void keep(const char *body, char path[160])
{
    cJSON *kept = answer_post(&client, "/v1/trace", body);
    snprintf(path, 160, "/v1/traces/%s/rollout?layer=",
             cJSON_GetStringValue(cJSON_GetObjectItem(kept, "trace")));
    cJSON_Delete(kept);
}

TEST(kept)
{
    char path[160], whole[220];
    keep(STORIES_PROMPT ",\"outputs\":[],\"keep\":\"1m\"}", path);
    cJSON *traced = stories_trace(",\"outputs\":[\"rollout\"]");
    for (int l = 0; l < LAYERS; l++) {
        snprintf(whole, sizeof whole, "%s%d", path, l);
        cJSON *all = answer_get(&client, whole);
        answer_expect_members(all, "layer,rows,rollout");
        answer_expect(all, "rows", "[0,12]", 0);
        char *text = cJSON_PrintUnformatted(
            cJSON_GetObjectItemCaseSensitive(stories_layer(traced, l), "rollout"));
        answer_expect(all, "rollout", text, 2e-6);
        free(text);
        snprintf(whole, sizeof whole, "%s%d&rows=1:3", path, l);
        cJSON *some = answer_get(&client, whole);
        answer_expect(some, "rows", "[1,3]", 0);
        for (int i = 0; i < 2; i++)
            assert_true(cJSON_Compare(
                cJSON_GetArrayItem(cJSON_GetObjectItem(some, "rollout"), i),
                cJSON_GetArrayItem(cJSON_GetObjectItem(all, "rollout"), 1 + i), true));
        cJSON_Delete(some);
        cJSON_Delete(all);
    }
    cJSON_Delete(traced);
}

static void refused(const char *path, const char *query, long status, const char *code)
{
    char whole[240];
    snprintf(whole, sizeof whole, "%s%s", path, query);
    struct http_response response = http_client_get(&client, whole);
    answer_expect_fault(&response, status, code, NULL);
    http_response_free(&response);
}

TEST(faults)
{
    char path[160];
    keep(STORIES_PROMPT ",\"outputs\":[],\"keep\":\"1m\",\"layers\":[0,1,3]}", path);
    refused(path, "3", 404, "not_found"); /* layer 2 is not kept */
    refused(path, "2", 404, "not_found");
    refused(path, "1&rows=3:2", 400, "option");
    refused(path, "1&rows=0:13", 400, "option");
    refused(path, "1&head=1", 400, "field");
    refused(path, "", 400, "option|field");
    refused("/v1/traces/none/rollout?layer=1", "", 404, "not_found");
    keep(JSON({"model":"t5","tokens":[3,4,5],"outputs":[],"keep":"1m"}), path);
    refused(path, "5", 400, "option"); /* of cross attention */
    answer_refused(&client, "/v1/trace", STORIES_PROMPT ",\"rows\":[1]}", 400, "field", "/rows");
    answer_refused(&client, "/v1/trace", STORIES_PROMPT ",\"outputs\":[\"rollout\"],\"rows\":[12]}",
                   400, "option", "/rows/0");
}

/* Cross attention has none, and needs none to be kept. */
TEST(cross)
{
    cJSON *answer = answer_post(
        &client, "/v1/trace",
        JSON({"model":"t5","tokens":[3,4,5],"decoder_tokens":[0,7],"outputs":["rollout"]}));
    const cJSON *layer;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(answer, "layers")) {
        const bool is_cross =
            strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(layer, "kind")), "cross") == 0;
        answer_expect_members(layer, is_cross ? "layer,kind" : "layer,kind,rollout");
    }
    cJSON_Delete(answer);
}

/* What precedes the rows of a session is not there. */
TEST(session)
{
    struct http_response made = http_client_post(
        &client, "/v1/sessions", JSON({"model":"stories260K","id":"s","kv_len_max":64}));
    assert_int_equal(made.status, 201);
    http_response_free(&made);
    answer_refused(&client, "/v1/sessions/s/trace",
                   JSON({"tokens":[1],"outputs":["rollout"]}), 400, "option", "/outputs");
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
