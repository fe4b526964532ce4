/* test_probe.c - "probe" in place of a text, and the statistics that it is for. */
#include "answer.h"
#include "fixture.h"
#include "test.h"
#include "word_model.h"

#include <limits.h>

enum { HALF = 50, LAYERS = 5, HEADS = 8 };

static const cJSON *tokens_of(const cJSON *answer)
{
    return cJSON_GetObjectItemCaseSensitive(answer, "tokens");
}

static int id_of(const cJSON *answer, int i)
{
    const cJSON *id =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(tokens_of(answer), i), "id");
    assert_true(cJSON_IsNumber(id));
    return id->valueint;
}

/* The template's token, 50 that each come once and are no pieces of characters, and the same again:
 * the same each time. */
TEST(tokens)
{
    cJSON *one = answer_post(&client, "/v1/trace", JSON({"model":"stories260K","probe":"repeat"}));
    cJSON *same =
        answer_post(&client, "/v1/trace",
                    JSON({"model":"stories260K","probe":"repeat","text":null,"tokens":null}));
    assert_true(cJSON_Compare(one, same, true));
    assert_int_equal(cJSON_GetArraySize(tokens_of(one)), 1 + 2 * HALF);
    assert_int_equal(id_of(one, 0), 1);
    for (int i = 1; i <= HALF; i++) {
        const cJSON *token = cJSON_GetArrayItem(tokens_of(one), i);
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(token, "text"));
        assert_int_equal(id_of(one, i), id_of(one, HALF + i));
        assert_non_null(text);
        assert_false(text[0] == '<');
        for (int k = 1; k < i; k++)
            assert_int_not_equal(id_of(one, i), id_of(one, k));
        answer_expect_members(token, "id,text");
    }
    cJSON_Delete(same);
    cJSON_Delete(one);
}

/* Without the template's tokens; and it is the pass of the same tokens as a list. */
TEST(as_a_list)
{
    char body[1200];
    cJSON *probe = answer_post(
        &client, "/v1/trace",
        JSON({"model":"stories260K","probe":"repeat","special":false,"outputs":["lse"]}));
    assert_int_equal(cJSON_GetArraySize(tokens_of(probe)), 2 * HALF);
    size_t used = (size_t)snprintf(body, sizeof body,
                                   "{\"model\":\"stories260K\",\"outputs\":[\"lse\"],\"tokens\":");
    for (int i = 0; i < 2 * HALF; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "%c%d", i > 0 ? ',' : '[',
                                 id_of(probe, i));
    snprintf(body + used, sizeof body - used, "]}");
    cJSON *list = answer_post(&client, "/v1/trace", body);
    answer_expect_equal(probe, list, "layers");
    cJSON_Delete(list);
    cJSON_Delete(probe);
}

/* A template has tokens on both sides, and a vocabulary of few words has them more than twice. */
TEST(both_sides)
{
    cJSON *answer =
        answer_post(&client, "/v1/trace", JSON({"model":"words","probe":"repeat","layers":[]}));
    const int count = cJSON_GetArraySize(tokens_of(answer));
    assert_int_equal(count, 2 + 2 * HALF);
    assert_int_equal(id_of(answer, 0), 1);
    assert_int_equal(id_of(answer, count - 1), 2);
    for (int i = 1; i <= HALF; i++) {
        assert_true(id_of(answer, i) != 1 && id_of(answer, i) != 2);
        assert_int_equal(id_of(answer, i), id_of(answer, HALF + i));
    }
    cJSON_Delete(answer);
}

TEST(in_a_batch)
{
    cJSON *batch =
        answer_post(&client, "/v1/trace/batch",
                    JSON({"model":"stories260K","outputs":["lse"],"requests":[{"probe":"repeat"},{"text":"Hi"}]}));
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(batch, "results"), 0);
    assert_int_equal(cJSON_GetArraySize(tokens_of(first)), 1 + 2 * HALF);
    cJSON_Delete(batch);
}

static const cJSON *head_of(const cJSON *answer, int layer, const char *name, int head)
{
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
    const cJSON *heads = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(layers, layer), name);
    assert_int_equal(cJSON_GetArraySize(heads), HEADS);
    return cJSON_GetArrayItem(heads, head);
}

/* Each is a share of weights, and where no token comes again there is none. */
TEST(statistics)
{
    static const char *const TEXTS[] = { "\"probe\":\"repeat\"", "\"tokens\":[1,403,407,261]" };
    for (int i = 0; i < 2; i++) {
        char body[200], path[160];
        snprintf(body, sizeof body, "{\"model\":\"stories260K\",%s,\"outputs\":[],\"keep\":\"1m\"}",
                 TEXTS[i]);
        cJSON *kept = answer_post(&client, "/v1/trace", body);
        snprintf(path, sizeof path, "/v1/traces/%s/statistics",
                 cJSON_GetStringValue(cJSON_GetObjectItem(kept, "trace")));
        cJSON *answer = answer_get(&client, path);
        for (int at = 0; at < LAYERS * HEADS; at++) {
            const cJSON *one = head_of(answer, at / HEADS, "duplicate", at % HEADS);
            const cJSON *next = head_of(answer, at / HEADS, "induction", at % HEADS);
            if (i == 1) {
                assert_true(cJSON_IsNull(one) && cJSON_IsNull(next));
                continue;
            }
            assert_true(one->valuedouble >= 0 && next->valuedouble >= 0);
            assert_true(one->valuedouble + next->valuedouble <= 1.000001);
        }
        cJSON_Delete(answer);
        cJSON_Delete(kept);
    }
}

static void refused(const char *body, const char *code, const char *pointer)
{
    answer_refused(&client, "/v1/trace", body, 400, code, pointer);
}

TEST(faults)
{
    refused(JSON({"model":"stories260K","probe":"twice"}), "option", "/probe");
    refused(JSON({"model":"stories260K","probe":7}), "type", "/probe");
    refused(JSON({"model":"stories260K","probe":"repeat","text":"Hi"}), "field", "/probe");
    refused(JSON({"model":"stories260K","probe":"repeat","tokens":[1]}), "field", "/probe");
    refused(JSON({"model":"stories260K","probe":"repeat","span_texts":["Hi"]}), "field",
                  "/span_texts");
    refused(JSON({"model":"stories260K","probe":"repeat","pair":"Hi"}), "field", "/pair");
    refused(JSON({"model":"stories260K","probe":"repeat","token_types":[0]}), "field",
                  "/token_types");
    refused(JSON({"model":"bare","probe":"repeat"}), "field", "/probe");
}

static int start(void **state)
{
    char command[PATH_MAX];
    fixture_make_directory(state);
    snprintf(command, sizeof command, "cp -r examples/models/stories260K %s", directory);
    assert_int_equal(system(command), 0);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    word_model_make(fixture_path("bare"), NULL);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
