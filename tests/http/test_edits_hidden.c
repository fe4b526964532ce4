/* SPDX-License-Identifier: Apache-2.0 */
/* test_edits_hidden.c - what edits hide: by texts, of pairs and of both streams of an encoder with
 * a decoder; and rows that see no key, in JSON, in files of safetensors and in kept maps. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "tensor_body.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"
#include "word_model.h"

#define PATH "/v1/trace"

#define ALL_OUTPUTS                                                                                \
    "\"outputs\":[\"weights\",\"lse\",\"scores\",\"masked\",\"hidden_states\",\"attention_"        \
    "output\"]"

static cJSON *trace(const char *input, const char *edits)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{%s," ALL_OUTPUTS, input);
    request_text_add(&body, ",\"edits\":%s}", edits);
    cJSON *answer = answer_post(&client, PATH, body.data);
    free(body.data);
    return answer;
}

static const cJSON *layer_of(const cJSON *answer, int layer)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), layer);
}

static void expect_equal(const char *input, const char *one, const char *other)
{
    cJSON *first = trace(input, one), *second = trace(input, other), *plain = trace(input, "[]");
    if (!cJSON_Compare(first, second, true))
        fail_msg("%s and %s differ", one, other);
    if (cJSON_Compare(first, plain, true))
        fail_msg("%s changes nothing", one);
    cJSON_Delete(first);
    cJSON_Delete(second);
    cJSON_Delete(plain);
}

/* ------------------------------------------------------------------------- texts -- */

/* [CLS] the cat ##s sat . [SEP] on the mat [SEP] */
#define PAIR "\"model\":\"words\",\"text\":\"the cats sat.\",\"pair\":\"on the mat\""

TEST(texts_of_a_pair)
{
    expect_equal(PAIR, "[{\"hide_texts\":[\"cats\"]}]", "[{\"hide\":[[2,4]]}]");
    expect_equal(PAIR, "[{\"hide_texts\":[\"at\",\"sat.\"],\"rows\":[-1]}]",
                 "[{\"hide\":[[2,3],[4,6]],\"rows\":[10]}]");
    expect_equal(PAIR, "[{\"hide_texts\":[\"the mat\"]}]", "[{\"hide\":[[8,10]]}]");
    answer_refused(&client, PATH, "{" PAIR ",\"edits\":[{\"hide_texts\":[\"cats\",\"sat. on\"]}]}",
                   400, "option", "/edits/0/hide_texts/1");
}

/* The encoder has [CLS] the cats sat [SEP], the decoder its start, then on the mat. */
#define BOTH "\"model\":\"t5\",\"text\":\"the cats sat\",\"decoder_text\":\"on the mat\""

TEST(texts_of_both_streams)
{
    cJSON *plain = trace(BOTH, "[]");
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(plain, "decoder_tokens"), *token;
    char decoder[64] = "", cross[96];
    int place = 0;
    cJSON_ArrayForEach(token, tokens) {
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(token, "text");
        if (text && strcmp(text->valuestring, "mat") == 0)
            snprintf(decoder, sizeof decoder, "[{\"kind\":\"decoder\",\"hide\":[[%d,%d]]}]", place,
                     place + 1);
        place++;
    }
    assert_true(decoder[0] != '\0');
    snprintf(cross, sizeof cross, "[{\"kind\":\"cross\",\"hide\":[[2,4]]}]");
    expect_equal(BOTH, "[{\"kind\":\"decoder\",\"hide_texts\":[\"mat\"]}]", decoder);
    expect_equal(BOTH, "[{\"kind\":\"cross\",\"hide_texts\":[\"cats\"]}]", cross);
    expect_equal(BOTH, "[{\"kind\":\"encoder\",\"hide_texts\":[\"the\",\"sat\"]}]",
                 "[{\"kind\":\"encoder\",\"hide\":[[1,2],[4,5]]}]");
    answer_refused(&client, PATH,
                   "{" BOTH ",\"edits\":[{\"kind\":\"decoder\",\"hide_texts\":[\"cats\"]}]}", 400,
                   "option", "/edits/0/hide_texts/0");
    answer_refused(&client, PATH,
                   "{" BOTH ",\"edits\":[{\"kind\":\"cross\",\"hide_texts\":[\"mat\"]}]}", 400,
                   "option", "/edits/0/hide_texts/0");
    cJSON_Delete(plain);
}

/* --------------------------------------------------------------- rows without keys -- */

enum { ROWS = 4, HEADS = TRACED_HEADS, WIDTH = TRACED_WIDTH, HIDDEN = 2, LAYER = 1 };

#define LLAMA "\"model\":\"llama\",\"tokens\":[1,2,3,4]"
#define NONE  "[{\"layers\":[1],\"rows\":[2],\"hide\":[[0,2],[2,4]]}"

/* Of the hidden row its numbers, else those of the plain pass: of a map [HEADS][ROWS][columns]. */
static void expect_map(const cJSON *layer, const cJSON *plain, const char *name, int columns,
                       double none)
{
    const int64_t shape[] = { HEADS, ROWS, columns };
    const int rank = columns > 1 ? 3 : 2;
    double *got = answer_numbers(layer, name, rank, shape);
    double *want = answer_numbers(plain, name, rank, shape);
    for (int i = 0; i < HEADS * ROWS * columns; i++)
        if (got[i] != (i / columns % ROWS == HIDDEN ? none : want[i]))
            fail_msg("%s: number %d is %.9g", name, i, got[i]);
    free(got);
    free(want);
}

TEST(row_without_keys)
{
    static const char *const EDITS[] = {
        NONE "]",
        NONE ",{\"layers\":[1],\"rows\":[2],\"weights\":\"uniform\"}]",
        NONE ",{\"layers\":[1],\"rows\":[2],\"weights\":\"first\"}]",
        NONE ",{\"layers\":[1],\"rows\":[2],\"weights\":\"self\"}]",
        NONE ",{\"layers\":[1],\"rows\":[2],\"weights\":[[1,2,3,4]]}]",
        /* All of what is hidden counts, also what comes behind the weights. */
        "[{\"layers\":[1],\"rows\":[2],\"weights\":\"previous\"},"
        "{\"layers\":[1],\"rows\":[2],\"hide\":[[0,4]]}]",
    };
    const int64_t shape[] = { ROWS, WIDTH };
    cJSON *plain = trace(LLAMA, "[]");
    for (size_t i = 0; i < sizeof EDITS / sizeof EDITS[0]; i++) {
        cJSON *edited = trace(LLAMA, EDITS[i]);
        const cJSON *layer = layer_of(edited, LAYER), *unedited = layer_of(plain, LAYER);
        fprintf(stderr, "%s\n", EDITS[i]);
        expect_map(layer, unedited, "weights", ROWS, 0);
        expect_map(layer, unedited, "masked", ROWS, -INFINITY);
        expect_map(layer, unedited, "lse", 1, -INFINITY);
        answer_expect_equal(layer, unedited, "scores");
        double *output = answer_numbers(layer, "attention_output", 2, shape);
        for (int c = 0; c < WIDTH; c++)
            assert_true(output[HIDDEN * WIDTH + c] == 0); /* the projection has no bias */
        free(output);
        cJSON_Delete(edited);
    }
    cJSON_Delete(plain);
}

/* A logarithm of nothing is null in JSON and -infinity in a file. */
TEST(row_without_keys_in_a_file)
{
    struct http_response response =
        tensor_body_post_json(&client, PATH, "{" LLAMA "," ALL_OUTPUTS ",\"edits\":" NONE "]}");
    cJSON *header = tensor_body_header(&response);
    const float *lse = tensor_body_find(&response, header, "layers.1.lse", "F32", "[4,4]");
    const float *map = tensor_body_find(&response, header, "layers.1.weights", "F32", "[4,4,4]");
    for (int i = 0; i < HEADS * ROWS; i++)
        assert_true(i % ROWS == HIDDEN ? lse[i] == -INFINITY : isfinite(lse[i]));
    for (int i = 0; i < HEADS * ROWS * ROWS; i++)
        assert_true(i / ROWS % ROWS == HIDDEN ? map[i] == 0 : isfinite(map[i]));
    cJSON_Delete(header);
    http_response_free(&response);
}

/* Read later, such a row has weights 0 as well, and adds no entropy. */
TEST(row_without_keys_kept)
{
    cJSON *answer = answer_post(&client, PATH,
                                "{" LLAMA ",\"keep\":\"1m\",\"outputs\":[\"weights\"],"
                                "\"edits\":[{\"layers\":[1],\"hide\":[[0,4]]}]}");
    char path[160];
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "trace"));
    snprintf(path, sizeof path, "/v1/traces/%s/statistics", id);
    cJSON *statistics = answer_get(&client, path);
    answer_expect(layer_of(statistics, LAYER), "entropy", "[0,0,0,0]", 0);
    answer_expect(layer_of(statistics, LAYER), "distance", "[0,0,0,0]", 0);
    answer_expect(layer_of(statistics, LAYER), "first", "[0,0,0,0]", 0);
    snprintf(path, sizeof path, "/v1/traces/%s/weights?layer=1&head=3", id);
    struct http_response piece = http_client_get(&client, path);
    assert_int_equal(piece.body_size, ROWS * ROWS * (int)sizeof(float));
    for (int i = 0; i < ROWS * ROWS; i++)
        assert_true(((const float *)(const void *)piece.body)[i] == 0);
    http_response_free(&piece);
    snprintf(path, sizeof path, "/v1/traces/%s/pair?layer=1&head=3&row=2&key=1", id);
    cJSON *pair = answer_get(&client, path);
    answer_expect(pair, "weight", "0", 0);
    answer_expect(pair, "lse", "null", 0);
    answer_expect(pair, "masked", "null", 0);
    cJSON_Delete(pair);
    cJSON_Delete(statistics);
    cJSON_Delete(answer);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    traced_model_save(directory);
    traced_families_save(directory);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    daemon_directory_write(directory, "t5/tokenizer.json", word_model_tokenizer,
                           strlen(word_model_tokenizer));
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
