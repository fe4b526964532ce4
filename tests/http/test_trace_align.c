/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_align.c - what the tokens of a decoder go along: of speech the path through the maps
 * that the same trace answers, of texts the token that they weigh most. */
#include "answer.h"
#include "fixture.h"
#include "operations/pass/align.h"
#include "request_text.h"
#include "test.h"
#include "traced_families.h"
#include "whisper_model.h"

#include <math.h>

enum { TOKENS = 7 };

#define DECODER "\"decoder_tokens\":[2,5,9,3,30,11,4]"

static cJSON *trace(const char *model, const char *fields)
{
    struct request_text body = { 0 };
    request_text_add(&body, "{\"model\":\"%s\"," DECODER ",%s}", model, fields);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    cJSON *answer = answer_json(&response, 200);
    http_response_free(&response);
    free(body.data);
    return answer;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItem(object, name);
    if (!found)
        fail_msg("the answer has no %s", name);
    return found;
}

static double number_at(const cJSON *list, int i)
{
    return cJSON_GetArrayItem(list, i)->valuedouble;
}

/* The weights of [layer, head] in the answer, a list of rows. */
static const cJSON *map_of(const cJSON *answer, const cJSON *head)
{
    const cJSON *layer;
    cJSON_ArrayForEach(layer, member(answer, "layers"))
        if (member(layer, "layer")->valueint == (int)number_at(head, 0))
            return cJSON_GetArrayItem(member(layer, "weights"), (int)number_at(head, 1));
    fail_msg("layer %d is not answered", (int)number_at(head, 0));
    return NULL;
}

/* The maps of the heads that the answer names, [heads][TOKENS][keys]. */
static float *maps_of(const cJSON *answer, int keys, int *head_count)
{
    const cJSON *heads = member(member(answer, "align"), "heads"), *head;
    float *maps = malloc((size_t)(cJSON_GetArraySize(heads) * TOKENS * keys) * sizeof *maps);
    float *at = maps;
    assert_non_null(maps);
    cJSON_ArrayForEach(head, heads) {
        const cJSON *map = map_of(answer, head), *row;
        assert_int_equal(cJSON_GetArraySize(map), TOKENS);
        cJSON_ArrayForEach(row, map)
            for (int key = 0; key < keys; key++)
                *at++ = (float)number_at(row, key);
    }
    *head_count = cJSON_GetArraySize(heads);
    return maps;
}

static char *sound_field(int samples)
{
    struct request_text text = { 0 };
    request_text_add(&text, "\"sound\":[");
    for (int i = 0; i < samples; i++)
        request_text_add(&text, "%s%.4f", i > 0 ? "," : "", 0.4 * sin(i * (0.02 + i * 1e-5)));
    request_text_add(&text, "],\"outputs\":[\"weights\",\"align\"]");
    return text.data;
}

/* Token i + 1 begins at the first key of row i, 320 samples a key. */
static void expect_path(const cJSON *answer, int keys)
{
    const cJSON *tokens = member(member(answer, "align"), "tokens");
    int64_t first[TOKENS];
    int heads;
    float *maps = maps_of(answer, keys, &heads), copy[WHISPER_ROWS];
    void *workspace = malloc(align_workspace_bytes(TOKENS, keys));
    for (int head = 0; head < heads; head++)
        align_smooth(maps + head * TOKENS * keys, TOKENS, keys, ALIGN_MEDIAN, copy);
    align_average(maps, heads, TOKENS, keys);
    align_path(maps, TOKENS, keys, first, workspace);
    assert_int_equal(cJSON_GetArraySize(tokens), TOKENS - 1);
    for (int i = 0; i < TOKENS - 1; i++) {
        const cJSON *token = cJSON_GetArrayItem(tokens, i);
        assert_int_equal(member(token, "position")->valueint, i + 1);
        assert_true(fabs(member(token, "start")->valuedouble - 0.02 * (double)first[i]) < 1e-6);
        assert_true(fabs(member(token, "end")->valuedouble - 0.02 * (double)first[i + 1]) < 1e-6);
    }
    free(workspace);
    free(maps);
}

/* Keys behind the end of the sound are not looked at. */
TEST(speech)
{
    static const int LENGTHS[] = { WHISPER_SAMPLES, 3201, 320, 1 };
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        char *fields = sound_field(LENGTHS[i]);
        cJSON *answer = trace("whisper", fields);
        expect_path(answer, (LENGTHS[i] + 319) / 320);
        cJSON_Delete(answer);
        free(fields);
    }
}

/* Heads by the request, by generation_config.json, and without both those of the last half of the
 * blocks. Layers 4 and 5 of the model are the cross attention of its two decoder blocks. */
TEST(heads)
{
    static const struct {
        const char *model, *fields, *heads;
    } CASES[] = {
        { "whisper", "", "[[5,0],[5,1]]" },
        { "listed", "", "[[4,1],[5,0]]" },
        { "listed", ",\"align_heads\":[[4,0]]", "[[4,0]]" },
        { "twice", "", "[[5,0],[5,1]]" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct request_text fields = { 0 };
        request_text_add(&fields, "\"sound\":[0,0.5,0],\"layers\":[],\"outputs\":[\"align\"]%s",
                         CASES[i].fields);
        cJSON *answer = trace(CASES[i].model, fields.data);
        answer_expect(member(answer, "align"), "heads", CASES[i].heads, 0);
        cJSON_Delete(answer);
        free(fields.data);
    }
}

/* Words begin with a blank; their times are those of their first and last token. What is special is
 * no word, and no token before it is in the answer. */
TEST(words)
{
    static const char *const WORDS[] = { "once", "upon", "a", "time!" };
    static const int FIRST[] = { 2, 3, 5, 6, 8 };
    char *fields = sound_field(WHISPER_SAMPLES);
    struct request_text body = { 0 };
    request_text_add(&body, "{\"model\":\"spoken\",\"decoder_tokens\":[2,1,5,9,3,30,11,4],%s}",
                     fields);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    cJSON *answer = answer_json(&response, 200);
    const cJSON *tokens = member(member(answer, "align"), "tokens");
    const cJSON *words = member(member(answer, "align"), "words");
    assert_int_equal(cJSON_GetArraySize(tokens), 6);
    assert_int_equal(cJSON_GetArraySize(words), 4);
    for (int i = 0; i < 4; i++) {
        const cJSON *word = cJSON_GetArrayItem(words, i);
        const cJSON *first = cJSON_GetArrayItem(tokens, FIRST[i] - 2);
        const cJSON *last = cJSON_GetArrayItem(tokens, FIRST[i + 1] - 3);
        assert_string_equal(member(word, "text")->valuestring, WORDS[i]);
        assert_true(number_at(member(word, "positions"), 0) == FIRST[i]
                    && number_at(member(word, "positions"), 1) == FIRST[i + 1]);
        assert_true(member(word, "start")->valuedouble == member(first, "start")->valuedouble);
        assert_true(member(word, "end")->valuedouble == member(last, "end")->valuedouble);
    }
    cJSON_Delete(answer);
    http_response_free(&response);
    free(body.data);
    free(fields);
}

/* The source token of the largest mean weight in the row before. */
TEST(texts)
{
    enum { SOURCES = 5 };
    int heads;
    cJSON *answer = trace("t5", "\"tokens\":[3,8,13,21,1],\"outputs\":[\"weights\",\"align\"]");
    float *maps = maps_of(answer, SOURCES, &heads);
    align_average(maps, heads, TOKENS, SOURCES);
    for (int i = 0; i < TOKENS - 1; i++) {
        const cJSON *token = cJSON_GetArrayItem(member(member(answer, "align"), "tokens"), i);
        const int source = member(member(token, "source"), "position")->valueint;
        assert_true(fabs(member(token, "weight")->valuedouble - (double)maps[i * SOURCES + source])
                    < 1e-6);
        for (int key = 0; key < SOURCES; key++)
            assert_true((double)maps[i * SOURCES + key]
                        < member(token, "weight")->valuedouble + 1e-6);
    }
    free(maps);
    cJSON_Delete(answer);
}

TEST(refused)
{
    static const struct {
        const char *body, *code, *pointer, *words;
    } CASES[] = {
        { "{\"model\":\"vit\",\"outputs\":[\"align\"]}", "field", "", "pixels is missing" },
        { "{\"model\":\"whisper\",\"sound\":[0],\"align_heads\":[[5,0]]}", "field", "/align_heads",
          "align_heads came without the output align" },
        { "{\"model\":\"whisper\",\"sound\":[0],\"outputs\":[\"align\"],\"align_heads\":[]}",
          "option", "/align_heads", "expected one or more" },
        { "{\"model\":\"whisper\",\"sound\":[0],\"outputs\":[\"align\"],"
          "\"align_heads\":[[5,0],[5,1],[5,0]]}",
          "option", "/align_heads/2", "is that of 0 once more; expected each head once" },
        { "{\"model\":\"whisper\",\"sound\":[0],\"outputs\":[\"align\"],\"align_heads\":[[0,0]]}",
          "option", "/align_heads/0", "expected a layer of cross attention" },
        { "{\"model\":\"whisper\",\"sound\":[0],\"outputs\":[\"align\"],"
          "\"align_heads\":[[5,1],[5,2]]}",
          "option", "/align_heads/1", "and one of its heads" },
        { "{\"model\":\"whisper\",\"sound\":[0],\"outputs\":[\"align\"],\"align_heads\":[5,1]}",
          "type", "/align_heads", "a list of [layer, head]" },
        { "{\"model\":\"clip\",\"tokens\":[3,4],\"outputs\":[\"align\"]}", "option", "/outputs",
          "align is of cross attention" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct http_response response = http_client_post(&client, "/v1/trace", CASES[i].body);
        if (!strstr(response.body, CASES[i].words))
            fail_msg("%s: %s", CASES[i].body, response.body);
        answer_expect_fault(&response, 400, CASES[i].code, CASES[i].pointer);
        http_response_free(&response);
    }
}

static int start(void **state)
{
    (void)state;
    static const char HEADS[] = "{\"alignment_heads\":[[0,1],[1,0]]}";
    static const char TWICE[] = "{\"alignment_heads\":[[0,1],[0,1]]}"; /* is as none */
    static const char TOKENIZER[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<en>\",\"special\":true,\"single_word\":false,"
        "\"lstrip\":false,\"rstrip\":false,\"normalized\":false},{\"id\":2,"
        "\"content\":\"<s>\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":"
        "false,\"normalized\":false}],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":true,\"trim_offsets\":false},\"decoder\":{"
        "\"type\":\"ByteLevel\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"on\","
        "\"vocab\":{\"<en>\":1,\"<s>\":2,\"on\":3,\"!\":4,\"\\u0120once\":5,\"\\u0120up\":9,"
        "\"\\u0120time\":11,\"\\u0120a\":30}}}";
    char command[1500];
    directory = daemon_directory_create();
    whisper_model_save(directory);
    traced_families_save(directory);
    snprintf(command, sizeof command,
             "cd '%s' && cp -r whisper listed && cp -r whisper twice && cp -r whisper spoken",
             directory);
    assert_int_equal(system(command), 0);
    daemon_directory_write(directory, "listed/generation_config.json", HEADS, sizeof HEADS - 1);
    daemon_directory_write(directory, "twice/generation_config.json", TWICE, sizeof TWICE - 1);
    daemon_directory_write(directory, "spoken/tokenizer.json", TOKENIZER, sizeof TOKENIZER - 1);
    fixture_serve("--models", directory);
    return 0;
}

static int stop(void **state)
{
    fixture_stop(state);
    return fixture_clear(state);
}

ALL_TESTS(start, stop);
