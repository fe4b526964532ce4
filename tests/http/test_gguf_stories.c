/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_stories.c - stories260K as one GGUF file: what it answers is what the folder of
 * safetensors answers, to the bit, and what llama.cpp computes with the same file, where its
 * libraries are there. */
#include "answer.h"
#include "fixture.h"
#include "gguf_stories.h"
#include "llama_cpp.h"
#include "request_text.h"
#include "shell.h"
#include "test.h"

enum { PATH_BYTES = 512, TOKENS_MAX = 256, WORDS = 512 };

/* Of parameters that are not F32 llama.cpp rounds what they are multiplied with too: to half
 * floats, to bfloat16, and to 8 bits where they lie in blocks. The daemon does not. */
static const struct {
    const char *type;
    double tolerance;
} TYPES[] = {
    { "F32", 1e-4 }, { "F16", 0.02 }, { "BF16", 0.15 }, { "Q8_0", 0.6 },   { "Q4_0", 0.6 },
    { "Q4_1", 0.6 }, { "Q5_0", 0.6 }, { "Q5_1", 0.6 },  { "IQ4_NL", 0.6 }, { "MXFP4", 0.6 },
};
enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

static const char *const TEXTS[] = {
    "Once upon a time, there was a little girl named Lily.",
    "One day",
    "  two spaces, and a tab\\tand\\na new line ",
    "caf\xC3\xA9, na\xC3\xAFve \xE2\x80\x94 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x90\x88!",
    "UPPER lower 12345 ?!...",
    "x",
};
enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0] };

static cJSON *trace(const char *model, const char *text, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"text\":\"%s\"%s}", model, text, fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

TEST(as_the_folder)
{
    static const char FIELDS[] = ",\"outputs\":[\"weights\",\"hidden_states\",\"predictions\"]";
    for (int i = 0; i < TEXT_COUNT; i++) {
        cJSON *one = trace("F32", TEXTS[i], FIELDS),
              *other = trace("stories260K", TEXTS[i], FIELDS);
        answer_expect_equal(one, other, "tokens");
        answer_expect_equal(one, other, "layers");
        answer_expect_equal(one, other, "final_hidden_states");
        answer_expect_equal(one, other, "predictions");
        cJSON_Delete(one);
        cJSON_Delete(other);
    }
}

/* ------------------------------------------------------------- llama.cpp -- */

/* The text of a JSON string. */
static char *plain_text(const char *json)
{
    struct request_text quoted = { .data = NULL };
    request_text_add(&quoted, "\"%s\"", json);
    cJSON *string = cJSON_Parse(quoted.data);
    assert_non_null(string);
    char *text = strdup(string->valuestring);
    cJSON_Delete(string);
    free(quoted.data);
    return text;
}

static void expect_tokens(const cJSON *answer, const int32_t *tokens, int count)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(answer, "tokens"), *token;
    int i = 0;
    assert_int_equal(cJSON_GetArraySize(list), count);
    cJSON_ArrayForEach(token, list)
        assert_int_equal(cJSON_GetObjectItemCaseSensitive(token, "id")->valueint, tokens[i++]);
}

/* The log-probs of the words behind the last token; returns the largest difference. */
static double predictions_difference(const cJSON *answer, const float *logits)
{
    const cJSON *token,
        *tokens = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "predictions"), 0),
            "tokens");
    double sum = 0, largest = 0;
    for (int i = 0; i < WORDS; i++)
        sum += exp(logits[i] - logits[0]);
    assert_int_equal(cJSON_GetArraySize(tokens), WORDS);
    cJSON_ArrayForEach(token, tokens) {
        const int id = cJSON_GetObjectItemCaseSensitive(token, "id")->valueint;
        const double got = cJSON_GetObjectItemCaseSensitive(token, "logprob")->valuedouble;
        const double want = (double)logits[id] - logits[0] - log(sum);
        largest = fmax(largest, fabs(got - want));
    }
    return largest;
}

static void expect_llama_cpp(const char *model, const char *json, double tolerance)
{
    char path[PATH_BYTES];
    int32_t tokens[TOKENS_MAX];
    char *text = plain_text(json);
    snprintf(path, sizeof path, "%s/%s.gguf", directory, model);
    const int count = llama_cpp_tokens(path, text, tokens, TOKENS_MAX);
    struct llama_cpp_rows rows = llama_cpp_logits(path, tokens, count, NULL, 0);
    cJSON *answer =
        trace(model, json, ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":512");
    expect_tokens(answer, tokens, count);
    const double largest =
        predictions_difference(answer, rows.numbers + (count - 1) * rows.columns);
    if (!(largest <= tolerance))
        fail_msg("%s, '%s': a difference of %g", model, json, largest);
    cJSON_Delete(answer);
    free(rows.numbers);
    free(text);
}

TEST(as_llama_cpp)
{
    llama_cpp_need();
    for (int type = 0; type < TYPE_COUNT; type++)
        for (int i = 0; i < TEXT_COUNT; i++)
            expect_llama_cpp(TYPES[type].type, TEXTS[i], TYPES[type].tolerance);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return 1;
    for (int i = 0; i < TYPE_COUNT; i++) {
        char name[PATH_BYTES];
        snprintf(name, sizeof name, "%s.gguf", TYPES[i].type);
        gguf_stories_write(TYPES[i].type, fixture_path(name));
    }
    char command[256];
    snprintf(command, sizeof command, "cp -r examples/models/stories260K %s", directory);
    shell(command);
    fixture_serve("--models", directory);
    return 0;
}

ALL_TESTS(start, fixture_stop);
