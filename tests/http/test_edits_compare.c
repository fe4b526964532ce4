/* SPDX-License-Identifier: Apache-2.0 */
/* test_edits_compare.c - an edited pass beside the pass without its edits, by each of what has
 * log-probs; and batches whose items have edits of their own: each answers as it does alone. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"
#include "word_model.h"

#define PATH "/v1/trace"

enum { TOKENS = 6 };

#define EDITED                                                                                     \
    ",\"edits\":[{\"hide\":[[0,1]],\"rows\":[[1,6]]},{\"at\":\"feed_forward\",\"layers\":[1],"     \
    "\"scale\":0.5},{\"weights\":\"previous\",\"heads\":[0]}]"

static cJSON *trace(const char *more)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"model\":\"llama\",\"tokens\":[1,22,3,14,35,6],\"layers\":[]%s}",
             more);
    return answer_post(&client, PATH, body);
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!found)
        fail_msg("no %s: %s", name, cJSON_PrintUnformatted(object));
    return found;
}

static float logprob_of(const cJSON *token)
{
    return (float)member(token, "logprob")->valuedouble;
}

/* The difference of a token is that of two traces' floats; nothing else of it changes. */
static void expect_difference(const cJSON *both, const cJSON *edited, const cJSON *plain)
{
    const float difference = (float)member(both, "difference")->valuedouble;
    if (difference != logprob_of(edited) - logprob_of(plain))
        fail_msg("%s: the difference is not %.9g", cJSON_PrintUnformatted(both),
                 (double)(logprob_of(edited) - logprob_of(plain)));
    answer_expect_equal(both, edited, "logprob");
    answer_expect_equal(both, edited, "rank");
    assert_null(cJSON_GetObjectItemCaseSensitive(edited, "difference"));
}

/* ------------------------------------------------------------------------ compare -- */

static void expect_no(const cJSON *answer, const char *name)
{
    if (cJSON_GetObjectItemCaseSensitive(answer, name))
        fail_msg("there is %s", name);
}

TEST(of_logprobs_alone)
{
    static const char ASKED[] = ",\"outputs\":[\"logprobs\"]";
    cJSON *plain = trace(ASKED), *edited = trace(",\"outputs\":[\"logprobs\"]" EDITED);
    cJSON *both = trace(",\"outputs\":[\"logprobs\"],\"compare\":true" EDITED);
    expect_no(both, "predictions");
    expect_no(both, "base_predictions");
    expect_no(both, "targets");
    for (int i = 1; i < TOKENS; i++)
        expect_difference(cJSON_GetArrayItem(member(both, "logprobs"), i),
                          cJSON_GetArrayItem(member(edited, "logprobs"), i),
                          cJSON_GetArrayItem(member(plain, "logprobs"), i));
    const cJSON *first = cJSON_GetArrayItem(member(both, "logprobs"), 0);
    assert_true(cJSON_IsNull(member(first, "logprob")));
    answer_expect_equal(both, edited, "logprob_sum");
    cJSON_Delete(both);
    cJSON_Delete(edited);
    cJSON_Delete(plain);
}

/* The tokens beside log-probs are compared as well. */
TEST(of_tokens_beside_logprobs)
{
    static const char ALL[] = ",\"outputs\":[\"logprobs\"],\"top_k_tokens\":40";
    cJSON *plain = trace(ALL);
    cJSON *both = trace(",\"outputs\":[\"logprobs\"],\"top_k_tokens\":3,\"compare\":true" EDITED);
    for (int i = 1; i < TOKENS; i++) {
        const cJSON *token, *other;
        const cJSON *was = cJSON_GetArrayItem(member(plain, "logprobs"), i);
        cJSON_ArrayForEach(token,
                           member(cJSON_GetArrayItem(member(both, "logprobs"), i), "tokens")) {
            const float difference = (float)member(token, "difference")->valuedouble;
            cJSON_ArrayForEach(other, member(was, "tokens"))
                if (member(other, "id")->valueint == member(token, "id")->valueint)
                    assert_true(difference == logprob_of(token) - logprob_of(other));
        }
    }
    cJSON_Delete(both);
    cJSON_Delete(plain);
}

TEST(of_targets_alone)
{
#define TARGETS                                                                                    \
    ",\"outputs\":[],\"targets\":[{\"token\":5,\"against\":7},{\"token\":30,\"position\":2}]"
    cJSON *plain = trace(TARGETS), *edited = trace(TARGETS EDITED);
    cJSON *both = trace(TARGETS ",\"compare\":true" EDITED);
    expect_no(both, "base_predictions");
    expect_no(both, "logprobs");
    for (int i = 0; i < 2; i++)
        expect_difference(cJSON_GetArrayItem(member(both, "targets"), i),
                          cJSON_GetArrayItem(member(edited, "targets"), i),
                          cJSON_GetArrayItem(member(plain, "targets"), i));
    expect_difference(member(cJSON_GetArrayItem(member(both, "targets"), 0), "against"),
                      member(cJSON_GetArrayItem(member(edited, "targets"), 0), "against"),
                      member(cJSON_GetArrayItem(member(plain, "targets"), 0), "against"));
    cJSON_Delete(both);
    cJSON_Delete(edited);
    cJSON_Delete(plain);
}

TEST(of_predictions_alone)
{
#define PREDICTED ",\"outputs\":[\"predictions\"],\"positions\":[0,-1],\"top_k_tokens\":"
    cJSON *plain = trace(PREDICTED "40"), *edited = trace(PREDICTED "40" EDITED);
    cJSON *both = trace(PREDICTED "3,\"compare\":true" EDITED);
    static const char *const LISTS[] = { "predictions", "base_predictions" };
    expect_no(both, "targets");
    expect_no(both, "logprobs");
    for (int list = 0; list < 2; list++)
        for (int p = 0; p < 2; p++) {
            const cJSON *position = cJSON_GetArrayItem(member(both, LISTS[list]), p), *token;
            const cJSON *const all[] = {
                cJSON_GetArrayItem(member(edited, "predictions"), p),
                cJSON_GetArrayItem(member(plain, "predictions"), p),
            };
            assert_int_equal(member(position, "position")->valueint,
                             member(all[0], "position")->valueint);
            assert_int_equal(cJSON_GetArraySize(member(position, "tokens")), 3);
            int k = 0;
            cJSON_ArrayForEach(token, member(position, "tokens")) {
                float of[2] = { NAN, NAN };
                const cJSON *own = cJSON_GetArrayItem(member(all[list], "tokens"), k++), *other;
                answer_expect_equal(token, own, "id");
                answer_expect_equal(token, own, "logprob");
                for (int i = 0; i < 2; i++)
                    cJSON_ArrayForEach(other, member(all[i], "tokens"))
                        if (member(other, "id")->valueint == member(token, "id")->valueint)
                            of[i] = logprob_of(other);
                assert_true((float)member(token, "difference")->valuedouble == of[0] - of[1]);
            }
        }
    cJSON_Delete(both);
    cJSON_Delete(edited);
    cJSON_Delete(plain);
}

/* What is beside is not touched by a comparison; without edits all differences are 0. */
TEST(of_the_same_pass)
{
    static const char ASKED[] =
        ",\"outputs\":[\"logprobs\",\"predictions\"],\"top_k_tokens\":2,\"compare\":true";
    cJSON *both = trace(ASKED);
    answer_expect_equal(both, both, "predictions");
    const cJSON *predictions = member(both, "predictions");
    assert_true(cJSON_Compare(predictions, member(both, "base_predictions"), true));
    for (int i = 1; i < TOKENS; i++)
        answer_expect(cJSON_GetArrayItem(member(both, "logprobs"), i), "difference", "0", 0);
    cJSON_Delete(both);
    answer_refused(&client, PATH,
                   "{\"model\":\"llama\",\"tokens\":[1,2],\"compare\":true,\"outputs\":[\"weights\""
                   "]}",
                   400, "option", "/compare");
}

/* ------------------------------------------------------------------------- batches -- */

/* Items of several models with edits of their own; some are compared, kept or faulty. */
static const char *const ITEMS[] = {
    "{\"model\":\"llama\",\"tokens\":[1,22,3,14,35,6]" EDITED "}",
    "{\"model\":\"llama\",\"tokens\":[1,22,3,14,35,6]}",
    "{\"model\":\"llama\",\"tokens\":[9,8],\"edits\":[{\"weights\":\"uniform\"},{\"scale\":0,"
    "\"heads\":[2]}],\"compare\":true,\"outputs\":[\"weights\",\"predictions\",\"logprobs\"]}",
    "{\"model\":\"llama\",\"tokens\":[1,22,3,14,35,6],\"edits\":[{\"hide\":[[0,3]],\"heads\":[1],"
    "\"layers\":[2]},{\"at\":\"embeddings\",\"mean\":true}],\"outputs\":[\"hidden_states\",\"lse\"]"
    "}",
    "{\"model\":\"t5\",\"tokens\":[1,2,3],\"decoder_tokens\":[0,4,5],\"edits\":[{\"kind\":"
    "\"cross\","
    "\"hide\":[[0,2]]},{\"kind\":\"encoder\",\"weights\":\"self\",\"layers\":[1]}]}",
    "{\"model\":\"t5\",\"tokens\":[1,2,3],\"decoder_tokens\":[0,4,5]}",
    "{\"model\":\"bert\",\"tokens\":[3,2,1],\"edits\":[{\"at\":\"attention_output\",\"scale\":0}],"
    "\"targets\":[{\"token\":3,\"position\":1}],\"compare\":true}",
    "{\"model\":\"words\",\"text\":\"the cat sat on mat\",\"edits\":[{\"hide_texts\":[\"cat\"]}],"
    "\"spans\":[[0,2],[2,4]]}",
    "{\"model\":\"words\",\"text\":\"the cat sat on mat\",\"edits\":[{\"weights\":\"first\"}],"
    "\"weight_map\":{\"top_k\":2}}",
};
enum { ITEM_COUNT = sizeof ITEMS / sizeof ITEMS[0] };

TEST(items_are_as_alone)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"requests\":[");
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < ITEM_COUNT; i++) {
            request_text_add(&body, "%s", turn + i > 0 ? "," : "");
            request_text_add(&body, "%s", ITEMS[turn == 0 ? i : ITEM_COUNT - 1 - i]);
        }
    request_text_add(&body, "]}");
    cJSON *batch = answer_post(&client, PATH "/batch", body.data);
    const cJSON *results = member(batch, "results");
    for (int i = 0; i < ITEM_COUNT; i++) {
        cJSON *alone = answer_post(&client, PATH, ITEMS[i]);
        for (int turn = 0; turn < 2; turn++) {
            const cJSON *got = cJSON_GetArrayItem(results, turn == 0 ? i : 2 * ITEM_COUNT - 1 - i);
            if (!cJSON_Compare(got, alone, true))
                fail_msg("%s is another answer in a batch", ITEMS[i]);
        }
        cJSON_Delete(alone);
    }
    cJSON_Delete(batch);
    free(body.data);
}

/* Edits of the batch are those of each item that has none of its own; [] is a list of its own. */
TEST(edits_of_all_items)
{
    static const char *const OWN[] = { "", ",\"edits\":[]", ",\"edits\":[{\"scale\":0}]" };
    static const char *const ALONE[] = { ",\"edits\":[{\"weights\":\"self\"}]", "",
                                         ",\"edits\":[{\"scale\":0}]" };
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"llama\",\"edits\":[{\"weights\":\"self\"}],"
                            "\"requests\":[");
    for (int i = 0; i < 3; i++)
        request_text_add(&body, i > 0 ? ",{\"tokens\":[1,2,3]%s}" : "{\"tokens\":[1,2,3]%s}",
                         OWN[i]);
    request_text_add(&body, "]}");
    cJSON *batch = answer_post(&client, PATH "/batch", body.data);
    for (int i = 0; i < 3; i++) {
        char own[200];
        snprintf(own, sizeof own, "{\"model\":\"llama\",\"tokens\":[1,2,3]%s}", ALONE[i]);
        cJSON *alone = answer_post(&client, PATH, own);
        if (!cJSON_Compare(cJSON_GetArrayItem(member(batch, "results"), i), alone, true))
            fail_msg("item %d is not %s", i, own);
        cJSON_Delete(alone);
    }
    cJSON_Delete(batch);
    free(body.data);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    traced_model_save(directory);
    traced_families_save(directory);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
