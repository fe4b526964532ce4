/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope.c - models with rotary embedding under every scaling, over HTTP.
 *
 * The head has 8 columns in halves, so it has four pairs; the tests use pair 1 or 2. The query is
 * the first unit vector of the pair at position 1000. The keys are the pair's first unit vector at
 * position 0 and its second one at position 1. With scale 1 the scores are then m^2 cos(1000 f) and
 * m^2 sin(999 f); f is the pair's frequency and m the attention factor. Another program computed
 * the numbers in double from the published formulas (lib/rope.h). */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

struct rope_case {
    const char *scaling;
    int pair;
    const char *scores;
};

#define TRAINED ",\"original_max_position_embeddings\":"

static const struct rope_case CASES[] = {
    { "null", 1, "[[[0.862318872,-0.589924161]]]" },
    { "{\"rope_type\":\"default\"}", 2, "[[[-0.839071529,-0.535603335]]]" },
    { "{\"rope_type\":\"linear\",\"factor\":3}", 1, "[[[-0.339711812,0.951328739]]]" },
    { "{\"rope_type\":\"linear\",\"factor\":3}", 2, "[[[-0.981674005,-0.187294664]]]" },
    { "{\"rope_type\":\"dynamic\",\"factor\":4" TRAINED "256}", 1,
      "[[[0.494110784,-0.889802819]]]" },
    { "{\"rope_type\":\"dynamic\",\"factor\":4" TRAINED "1001}", 1,
      "[[[0.862318872,-0.589924161]]]" },
    { "{\"rope_type\":\"yarn\",\"factor\":4" TRAINED "256}", 1, "[[[1.22574153,-0.498120716]]]" },
    { "{\"rope_type\":\"yarn\",\"factor\":4" TRAINED "256,\"mscale\":0.5,\"mscale_all_dim\":2}", 2,
      "[[[-0.561517905,0.420868878]]]" },
    { "{\"rope_type\":\"yarn\",\"factor\":4" TRAINED "256,\"attention_factor\":0.5,"
      "\"beta_fast\":16,\"beta_slow\":2,\"truncate\":false}",
      1, "[[[0.23037104,0.085312767]]]" },
    { "{\"rope_type\":\"llama3\",\"factor\":8" TRAINED "1024,\"low_freq_factor\":1,"
      "\"high_freq_factor\":4}",
      2, "[[[-0.99849712,0.0578860713]]]" },
    { "{\"rope_type\":\"longrope\"" TRAINED "256,\"short_factor\":[5,5,5,5],"
      "\"long_factor\":[3,3,3,3]}",
      1, "[[[-0.339711812,0.951328739]]]" },
    { "{\"rope_type\":\"longrope\"" TRAINED "4096,\"short_factor\":[3,3,3,3],"
      "\"long_factor\":[0.5,1e-3,1,1]}",
      2, "[[[-0.981674005,-0.187294664]]]" },
};

TEST(scalings)
{
    static const char *const UNITS[] = { "[0,1,0,0,0,0,0,0]", "[0,0,1,0,0,0,0,0]",
                                         "[0,0,0,0,0,1,0,0]", "[0,0,0,0,0,0,1,0]" };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct rope_case *c = &CASES[i];
        const char *first = UNITS[c->pair - 1], *second = UNITS[c->pair + 1];
        char body[512];
        snprintf(body, sizeof body,
                 "{\"config\":{\"head_dim\":8,\"scale\":1,\"rope\":{\"scaling\":%s}},"
                 "\"parameters\":{}}",
                 c->scaling);
        struct http_response response = model_put_json(&client, "turned", body);
        cJSON_Delete(answer_json(&response, i == 0 ? 201 : 200));
        http_response_free(&response);
        snprintf(body, sizeof body,
                 "{\"model\":\"turned\",\"query\":[%s],\"key\":[%s,%s],\"past_len\":1000,"
                 "\"outputs\":[\"scores\"]}",
                 first, first, second);
        cJSON *answer = answer_post(&client, "/v1/attention", body);
        answer_expect(answer, "scores", c->scores, 1e-6);
        cJSON_Delete(answer);
    }
}

TEST(refused)
{
    struct http_response response =
        model_put_json(&client, "refused",
                       "{\"config\":{\"head_dim\":8,\"rope\":{\"scaling\":"
                       "{\"rope_type\":\"linear\",\"factr\":2}}},\"parameters\":{}}");
    answer_expect_fault(&response, 400, "field", "/config/rope/scaling/factr");
    assert_non_null(strstr(response.body, "did you mean 'factor'"));
    http_response_free(&response);
}

/* The keys come in two parts, each with its offset; the merged answers equal one call with all
 * keys. */
TEST(parts)
{
    static const char *const KEYS[] = { "[1,2,3,4,5,6,7,8],[8,7,6,5,4,3,2,1]",
                                        "[1,-1,1,-1,1,-1,1,-1]" };
    char body[768], part[512];
    struct http_response response =
        model_put_json(&client, "turned",
                       "{\"config\":{\"head_dim\":8,\"causal\":true,\"rope\":{\"scaling\":"
                       "{\"rope_type\":\"yarn\",\"factor\":4" TRAINED "256}}},"
                       "\"parameters\":{}}");
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    cJSON *parts = cJSON_CreateArray();
    for (int i = 0; i < 2; i++) {
        snprintf(part, sizeof part,
                 "{\"model\":\"turned\",\"query\":[[1,2,1,0,1,0,1,1]],\"key\":[%s],"
                 "\"past_len\":1002,\"kv_offset\":%d,\"partial\":true}",
                 KEYS[i], i == 0 ? 1000 : 1002);
        cJSON_AddItemToArray(parts, answer_post(&client, "/v1/attention", part));
    }
    char *texts[2][2];
    for (int i = 0; i < 2; i++) {
        const cJSON *answer = cJSON_GetArrayItem(parts, i);
        texts[i][0] = cJSON_PrintUnformatted(cJSON_GetObjectItem(answer, "context"));
        texts[i][1] = cJSON_PrintUnformatted(cJSON_GetObjectItem(answer, "lse"));
    }
    snprintf(body, sizeof body,
             "{\"model\":\"turned\",\"parts\":[{\"context\":%s,\"lse\":%s},"
             "{\"context\":%s,\"lse\":%s}]}",
             texts[0][0], texts[0][1], texts[1][0], texts[1][1]);
    for (int i = 0; i < 4; i++)
        cJSON_free(texts[i / 2][i % 2]);
    cJSON *merged = answer_post(&client, "/v1/attention/merge", body);
    snprintf(body, sizeof body,
             "{\"model\":\"turned\",\"query\":[[1,2,1,0,1,0,1,1]],\"key\":[%s,%s],"
             "\"past_len\":1002,\"kv_offset\":1000}",
             KEYS[0], KEYS[1]);
    cJSON *whole = answer_post(&client, "/v1/attention", body);
    char *want = cJSON_PrintUnformatted(cJSON_GetObjectItem(whole, "context"));
    answer_expect(merged, "context", want, 1e-6);
    cJSON_free(want);
    cJSON_Delete(whole);
    cJSON_Delete(merged);
    cJSON_Delete(parts);
}

/* The model that was put is the same when it is read from its directory again. */
TEST(after_a_restart)
{
    static const char REQUEST[] = "{\"model\":\"turned\",\"query\":[[1,2,3,4,5,6,7,8]],"
                                  "\"key\":[[2,3,4,5,6,7,8,9]],\"past_len\":1000,"
                                  "\"outputs\":[\"scores\"]}";
    cJSON *before = answer_post(&client, "/v1/attention", REQUEST);
    http_client_free(&client);
    daemon_stop(&server);
    fixture_serve("--models", directory, "--model-control", "explicit");
    cJSON *after = answer_post(&client, "/v1/attention", REQUEST);
    answer_expect_equal(before, after, "scores");
    cJSON_Delete(before);
    cJSON_Delete(after);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_directory, fixture_clear);
