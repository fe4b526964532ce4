/* SPDX-License-Identifier: Apache-2.0 */
/* test_contributions.c - what parts add to logits: laws and faults. That the numbers are right is
 * in test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "fixture.h"
#include "stories_trace.h"
#include "test.h"
#include "traced_families.h"

#include <limits.h>

enum { LAYERS = 5, HEADS = 8 };

#define TARGETS                                                                                    \
    ",\"targets\":[{\"token\":280},{\"position\":3,\"token\":5,\"against\":\"▁c\"},{\"token\":"  \
    "280}]"

static const cJSON *contribution_of(const cJSON *answer, int i)
{
    const cJSON *one =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "contributions"), i);
    assert_non_null(one);
    return one;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(number));
    return number->valuedouble;
}

/* Adds a number to the sum, and its size to the other. */
static void add(double sums[2], double number)
{
    sums[0] += number;
    sums[1] += fabs(number);
}

static void expect_sum(const cJSON *contribution)
{
    double sums[2] = { 0, 0 };
    const cJSON *layer, *head;
    add(sums, number_of(contribution, "embedding"));
    add(sums, number_of(contribution, "bias"));
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(contribution, "layers")) {
        cJSON_ArrayForEach(head, cJSON_GetObjectItem(layer, "heads"))
            add(sums, head->valuedouble);
        add(sums, number_of(layer, "attention_bias"));
        add(sums, number_of(layer, "edits"));
        if (cJSON_GetObjectItem(layer, "feed_forward"))
            add(sums, number_of(layer, "feed_forward"));
    }
    assert_true(fabs(sums[0] - number_of(contribution, "logit")) <= 1e-5 * sums[1]);
}

TEST(members)
{
    cJSON *answer = stories_trace(",\"outputs\":[\"contributions\"],\"layers\":[2]" TARGETS);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "contributions")), 3);
    const cJSON *one = contribution_of(answer, 0), *two = contribution_of(answer, 1);
    answer_expect_members(one, "position,id,text,logit,embedding,bias,layers");
    answer_expect_members(two, "position,id,text,against,logit,embedding,bias,layers");
    answer_expect_members(cJSON_GetObjectItem(two, "against"), "id,text");
    answer_expect(two, "position", "3", 0);
    answer_expect(one, "position", "11", 0);
    answer_expect(one, "text", "\"▁c\"", 0);
    assert_true(cJSON_Compare(one, contribution_of(answer, 2), true));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(one, "layers")), LAYERS);
    for (int l = 0; l < LAYERS; l++) {
        const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(one, "layers"), l);
        assert_int_equal((int)number_of(layer, "layer"), l);
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(layer, "heads")), HEADS);
        assert_true(number_of(layer, "edits") == 0);
    }
    cJSON_Delete(answer);
}

/* The sum is the logit; a difference of logits is one of log-probs; edits are a part of it. */
TEST(sums)
{
    static const char *const EDITS[] = {
        "", ",\"edits\":[{\"at\":\"hidden_states\",\"layers\":[0,2],\"scale\":2}]",
        ",\"edits\":[{\"at\":\"attention_output\",\"layers\":[3],\"mean\":true},{\"at\":"
        "\"feed_forward\",\"scale\":0.5},{\"scale\":0,\"heads\":[1]},{\"at\":\"embeddings\","
        "\"scale\":2}]",
        ",\"edits\":[{\"hide\":[[1,4]]}],\"compare\":true"
    };
    for (int e = 0; e < 4; e++) {
        char more[600];
        snprintf(more, sizeof more, ",\"outputs\":[\"contributions\"]" TARGETS "%s", EDITS[e]);
        cJSON *answer = stories_trace(more);
        for (int i = 0; i < 3; i++)
            expect_sum(contribution_of(answer, i));
        const cJSON *target = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "targets"), 1);
        assert_true(fabs(number_of(contribution_of(answer, 1), "logit")
                         - number_of(target, "logit_difference"))
                    < 1e-4);
        const cJSON *layers = cJSON_GetObjectItem(contribution_of(answer, 0), "layers");
        for (int l = 0; l < LAYERS; l++) {
            const bool is_edited = (e == 1 && l == 2) || (e == 2 && l == 3);
            assert_int_equal(number_of(cJSON_GetArrayItem(layers, l), "edits") != 0, is_edited);
        }
        cJSON_Delete(answer);
    }
}

/* Nothing else changes by a bit, and a batch answers what each request answers alone. */
TEST(beside_others)
{
    cJSON *plain =
        stories_trace(",\"outputs\":[\"lse\",\"hidden_states\",\"predictions\"]" TARGETS);
    cJSON *both = stories_trace(
        ",\"outputs\":[\"lse\",\"hidden_states\",\"predictions\",\"contributions\"]" TARGETS);
    answer_expect_equal(plain, both, "layers");
    answer_expect_equal(plain, both, "predictions");
    answer_expect_equal(plain, both, "targets");
    answer_expect_equal(plain, both, "final_hidden_states");
    cJSON *answer = answer_post(
        &client, "/v1/trace/batch",
        STORIES_PROMPT TARGETS
        ",\"outputs\":[\"contributions\"],\"layers\":[],\"requests\":[{\"tokens\":[1,9,"
        "5,4]},{},{\"outputs\":[\"lse\"]},{\"edits\":[{\"scale\":0}],\"compare\":true}]}");
    answer_expect_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "results"), 1), both,
                        "contributions");
    cJSON_Delete(answer);
    cJSON_Delete(both);
    cJSON_Delete(plain);
}

TEST(cross)
{
    cJSON *answer = answer_post(
        &client, "/v1/trace",
        JSON({"model":"t5","tokens":[3,4,5],"decoder_tokens":[0,7],"layers":[],"outputs":["contributions"],"targets":[{"token":9}]}));
    const cJSON *layer;
    int count = 0;
    expect_sum(contribution_of(answer, 0));
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(contribution_of(answer, 0), "layers")) {
        const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(layer, "kind"));
        assert_string_not_equal(kind, "encoder");
        assert_int_equal(cJSON_GetObjectItem(layer, "feed_forward") == NULL,
                         strcmp(kind, "cross") == 0);
        count++;
    }
    assert_int_equal(count, 4);
    cJSON_Delete(answer);
}

TEST(session)
{
    struct http_response made = http_client_post(
        &client, "/v1/sessions", JSON({"model":"stories260K","id":"s","kv_len_max":64}));
    assert_int_equal(made.status, 201);
    http_response_free(&made);
    cJSON_Delete(answer_post(&client, "/v1/sessions/s/trace",
                             JSON({"tokens":[1,403,407,261,378],"outputs":["lse"]})));
    cJSON *answer =
        answer_post(&client, "/v1/sessions/s/trace",
                    JSON({"tokens":[400,296,5,402,280,263,271],"outputs":["contributions"],"targets":[{"token":280}]}));
    cJSON *whole = stories_trace(",\"outputs\":[\"contributions\"],\"targets\":[{\"token\":280}]");
    char *layers = cJSON_PrintUnformatted(cJSON_GetObjectItem(contribution_of(whole, 0), "layers"));
    answer_expect(contribution_of(answer, 0), "layers", layers, 1e-4);
    expect_sum(contribution_of(answer, 0));
    free(layers);
    cJSON_Delete(whole);
    cJSON_Delete(answer);
}

TEST(faults)
{
    answer_refused(&client, "/v1/trace", STORIES_PROMPT ",\"outputs\":[\"contributions\"]}", 400,
                   "field", "/targets");
    answer_refused(&client, "/v1/trace",
                   STORIES_PROMPT ",\"outputs\":[\"contributions\"],\"targets\":[]}", 400, "field",
                   "/targets");
    answer_refused(&client, "/v1/trace",
                   STORIES_PROMPT
                   ",\"outputs\":[\"contributions\"],\"targets\":[{\"token\":\"▁cake\"}]}",
                   400, "option", "/targets/0/token");
    answer_refused(&client, "/v1/trace",
                   JSON({"model":"clip","tokens":[3,4],"outputs":["contributions"]}), 400, "option",
                         "/outputs");
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
