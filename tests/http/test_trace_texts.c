/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_texts.c - texts that a batch shares, and what long ones cost. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "word_model.h"

static const char PATH[] = "/v1/trace", BATCH[] = "/v1/trace/batch";

/* Each request of the batch has the tokens that it has alone, whatever of the text it shares. */
TEST(shared_texts)
{
    static const char *const OWN[] = { "",
                                       "\"text\":\"on mats\"",
                                       "\"special\":false",
                                       "",
                                       "\"pair\":\"the mat\"",
                                       "\"pair\":\"cats\"",
                                       "\"pair\":\"cats\",\"special\":false",
                                       "\"pair\":\"the mat\",\"text\":\"on mats\"",
                                       "\"tokens\":[3],\"text\":null",
                                       "\"span_texts\":[\"cat\",\"mats.\"]" };
    enum { COUNT = sizeof OWN / sizeof OWN[0] };
    static const char SHARED[] = JSON("model":"words","text":"the cats sat on mats.");
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{%s,\"requests\":[", SHARED);
    for (int i = 0; i < COUNT; i++)
        request_text_add(&body, "%s{%s}", i > 0 ? "," : "", OWN[i]);
    request_text_add(&body, "]}");
    cJSON *answer = answer_post(&client, BATCH, body.data);
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), COUNT);
    free(body.data);
    for (int i = 0; i < COUNT; i++) {
        const bool has_text = strstr(OWN[i], "\"text\"") != NULL;
        body = (struct request_text){ .data = NULL };
        request_text_add(&body, "{%s%s%s}", has_text ? "\"model\":\"words\"" : SHARED,
                         OWN[i][0] ? "," : "", OWN[i]);
        if (strstr(OWN[i], "\"tokens\"")) {
            answer_expect_item_fault(cJSON_GetArrayItem(results, i), "field", "/requests/8/tokens");
        } else {
            cJSON *alone = answer_post(&client, PATH, body.data);
            assert_true(cJSON_Compare(cJSON_GetArrayItem(results, i), alone, 1));
            cJSON_Delete(alone);
        }
        free(body.data);
    }
    cJSON_Delete(answer);
}

/* CPU time of a batch of so many requests that share a long text. */
static double seconds_of_batch(int requests)
{
    char *more = malloc((size_t)requests * 3 + 128);
    assert_non_null(more);
    strcpy(more, ",\"layers\":[],\"spans\":[[0,1]],\"requests\":[{}");
    const size_t begun = strlen(more);
    for (int i = 1; i < requests; i++)
        memcpy(more + begun + (size_t)(i - 1) * 3, ",{}", 4);
    strcat(more, "]");
    char *body = word_model_request(20000, more);
    const double before = daemon_cpu_seconds(&server);
    cJSON_Delete(answer_post(&client, BATCH, body));
    free(body);
    free(more);
    return daemon_cpu_seconds(&server) - before;
}

/* The time follows from the bytes of the batch, not from how many requests have the text. */
TEST(shared_text_is_read_once)
{
    const double of_one = seconds_of_batch(1), of_many = seconds_of_batch(200);
    if (of_many > 40 * of_one + 0.5)
        fail_msg("%.3f s for one request, %.3f s for 200", of_one, of_many);
}

/* Texts are priced by what it costs to make tokens of them: bodies of numbers, whose bytes are read
 * much faster, do not look slow after them. */
TEST(long_texts_leave_other_bodies_alone)
{
    static const char RATE[] = "attnd_cost_rate_seconds{term=\"read_text\"}";
    char *body = word_model_request(20000, ",\"layers\":[],\"spans\":[[0,1]]");
    const double before = answer_metric(&client, RATE);
    for (int i = 0; i < 32; i++)
        cJSON_Delete(answer_post(&client, PATH, body));
    const double after = answer_metric(&client, RATE);
    if (after > 1.5 * before)
        fail_msg("a byte of JSON was predicted to take %.3g s, and takes %.3g s", before, after);
    free(body);
}

/* Parts of a text are not looked for longer than about a second. */
TEST(many_span_texts)
{
    enum { PARTS = 20000 };
    char *more = malloc(PARTS * 6 + 64);
    assert_non_null(more);
    strcpy(more, ",\"layers\":[],\"span_texts\":[\"cat\"");
    const size_t begun = strlen(more);
    for (int i = 1; i < PARTS; i++)
        memcpy(more + begun + (size_t)(i - 1) * 6, ",\"cat\"", 7);
    strcat(more, "]");
    char *body = word_model_request(20000, more);
    answer_refused(&client, PATH, body, 413, "too_large", "/span_texts");
    free(body);
    body = word_model_request(20, more);
    cJSON_Delete(answer_post(&client, PATH, body));
    free(body);
    free(more);
}

/* Texts may have U+0000. A name or a time that has it is another one than up to there. */
TEST(names_with_nul)
{
    answer_refused(&client, PATH, "{\"model\":\"words\\u0000\",\"text\":\"cat\"}", 404, "not_found",
                   "/model");
    answer_refused(&client, PATH,
                   "{\"model\":\"words\",\"text\":\"cat\",\"outputs\":[\"weights\\u0000\"]}", 400,
                   "option", "/outputs");
    answer_refused(&client, PATH, "{\"model\":\"words\",\"text\":\"cat\",\"keep\":\"1m\\u0000\"}",
                   400, "option", "/keep");
    answer_refused(&client, "/v1/tokenize", "{\"model\":\"words\\u0000\",\"text\":\"cat\"}", 404,
                   "not_found", "/model");
    cJSON *tokens =
        answer_post(&client, "/v1/tokenize", "{\"model\":\"words\",\"text\":\"cat\\u0000\"}");
    cJSON *trace = answer_post(&client, PATH, JSON({"model":"words","text":"cat\u0000"}));
    answer_expect_equal(trace, tokens, "tokens");
    cJSON_Delete(trace);
    cJSON_Delete(tokens);
}

static int start(void **state)
{
    fixture_make_directory(state);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
