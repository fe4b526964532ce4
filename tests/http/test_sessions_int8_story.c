/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_int8_story.c - what int8 does to a model: stories260K tells the story that another
 * implementation wrote, token by token, from a session of int8; and attention over the keys and
 * values of that story, whose channels have very different sizes, in f32 and in int8. Prints the
 * numbers that API_SESSIONS.md has. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "tensor_file.h"
#include "test.h"

enum { STORY = 257, LAYERS = 5, HEADS = 4, HEAD_DIM = 8, QUERIES = 64, ROWS = STORY - 1 };

static int story[STORY];

static int set_up(void **state)
{
    char *text = (char *)tensor_read_bytes("tests/conformance/stories260K/greedy.json", NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *ids = cJSON_GetObjectItem(json, "ids");
    assert_int_equal(cJSON_GetArraySize(ids), STORY);
    for (int i = 0; i < STORY; i++)
        story[i] = cJSON_GetArrayItem(ids, i)->valueint;
    cJSON_Delete(json);
    free(text);
    fixture_serve("--models", "examples/models");
    return 0;
}

static int first_prediction(const cJSON *answer)
{
    const cJSON *prediction = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "predictions"), 0);
    return cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(prediction, "tokens"), 0),
                               "id")
        ->valueint;
}

/* Sends the story token by token; returns how many of the next ones are predicted. */
static int tell(const char *id, const char *dtype)
{
    char body[160];
    int right = 0;
    snprintf(body, sizeof body, JSON({"model":"stories260K","dtype":"%s","id":"%s"}), dtype, id);
    session_make(&client, body);
    for (int i = 0; i + 1 < STORY; i++) {
        snprintf(body, sizeof body,
                 "{\"tokens\":[%d],\"layers\":[],\"outputs\":[\"predictions\"],"
                 "\"top_k_tokens\":1}",
                 story[i]);
        cJSON *answer = session_post(&client, id, "trace", body, 200);
        right += first_prediction(answer) == story[i + 1];
        cJSON_Delete(answer);
    }
    return right;
}

TEST(story)
{
    const int right = tell("narrow", "int8");
    printf("%d of %d tokens are those of f32\n", right, ROWS);
    assert_true(right >= ROWS * 95 / 100);
    assert_true(session_number(&client, "narrow", "bytes")
                < 0.45 * LAYERS * ROWS * HEADS * 2 * HEAD_DIM * sizeof(float));
    session_delete(&client, "narrow", 204);
}

/* -------------------------------------------------------------- one layer's attention -- */

/* The numbers of a tensor of a session's file, [HEADS][ROWS][HEAD_DIM]. */
static const float *tensor_of(const cJSON *header, const char *numbers, int layer, const char *side)
{
    static float floats[2][HEADS * ROWS * HEAD_DIM];
    float *to = floats[strcmp(side, "value") == 0];
    char name[40];
    snprintf(name, sizeof name, "layers.%d.%s", layer, side);
    const cJSON *offsets = cJSON_GetObjectItem(cJSON_GetObjectItem(header, name), "data_offsets");
    const double begin = cJSON_GetArrayItem(offsets, 0)->valuedouble;
    assert_true(cJSON_GetArrayItem(offsets, 1)->valuedouble - begin == sizeof floats[0]);
    memcpy(to, numbers + (size_t)begin, sizeof floats[0]);
    return to;
}

static void write_heads(struct request_text *text, const char *name, const float *rows,
                        int64_t first)
{
    request_text_add(text, ",\"%s\":[", name);
    for (int h = 0; h < HEADS; h++) {
        request_text_add(text, h > 0 ? "," : "");
        request_text_matrix(text, rows + (h * ROWS + first) * HEAD_DIM, ROWS - first, HEAD_DIM);
    }
    request_text_add(text, "]");
}

/* All numbers of an array of any depth. */
static void take_numbers(const cJSON *array, float *numbers, int *count)
{
    for (const cJSON *child = array->child; child; child = child->next)
        if (!cJSON_IsNumber(child))
            take_numbers(child, numbers, count);
        else if (*count < QUERIES * HEADS * HEAD_DIM)
            numbers[(*count)++] = (float)child->valuedouble;
}

/* The context of the last keys as queries over all, in a session of this dtype. */
static void attend(const char *dtype, const float *key, const float *value,
                   float context[QUERIES * HEADS * HEAD_DIM])
{
    struct request_text text = { .data = NULL };
    char body[80];
    int count = 0;
    snprintf(body, sizeof body, JSON({"model":"sdpa","dtype":"%s","id":"rows"}), dtype);
    session_make(&client, body);
    request_text_add(&text, "{\"outputs\":[\"lse\"]");
    write_heads(&text, "query", key, ROWS - 1);
    write_heads(&text, "key", key, 0);
    write_heads(&text, "value", value, 0);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, "rows", "attention", text.data, 200));
    text.used = 0;
    request_text_add(&text, "{\"outputs\":[\"context\"]");
    write_heads(&text, "query", key, ROWS - QUERIES);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, "rows", "attention", text.data, 200);
    take_numbers(cJSON_GetObjectItem(answer, "context"), context, &count);
    assert_int_equal(count, QUERIES * HEADS * HEAD_DIM);
    cJSON_Delete(answer);
    free(text.data);
    session_delete(&client, "rows", 204);
}

/* The greatest mean magnitude of a channel over the median one. */
static double outlier_of(const float *key)
{
    double sizes[HEADS * HEAD_DIM], greatest = 0;
    for (int c = 0; c < HEADS * HEAD_DIM; c++) {
        sizes[c] = 0;
        for (int i = 0; i < ROWS; i++)
            sizes[c] += fabs((double)key[(c / HEAD_DIM * ROWS + i) * HEAD_DIM + c % HEAD_DIM]);
        greatest = fmax(greatest, sizes[c]);
    }
    double median = greatest;
    for (int c = 0; c < HEADS * HEAD_DIM; c++) {
        int less = 0;
        for (int d = 0; d < HEADS * HEAD_DIM; d++)
            less += sizes[d] < sizes[c];
        median = less == HEADS * HEAD_DIM / 2 ? sizes[c] : median;
    }
    return greatest / median;
}

TEST(layers)
{
    const char *numbers;
    assert_int_equal(tell("wide", "f32"), ROWS);
    struct session_bytes file = session_bytes_get(&client, "wide");
    cJSON *header = session_bytes_header(file, &numbers);
    for (int layer = 0; layer < LAYERS; layer++) {
        static float want[QUERIES * HEADS * HEAD_DIM], got[QUERIES * HEADS * HEAD_DIM];
        const float *key = tensor_of(header, numbers, layer, "key");
        const float *value = tensor_of(header, numbers, layer, "value");
        double errors = 0, squares = 0;
        attend("f32", key, value, want);
        attend("int8", key, value, got);
        for (int i = 0; i < QUERIES * HEADS * HEAD_DIM; i++) {
            errors += pow((double)got[i] - (double)want[i], 2);
            squares += pow((double)want[i], 2);
        }
        printf("layer %d: the largest channel %.1f times the median, context %.2g of its size\n",
               layer, outlier_of(key), sqrt(errors / squares));
        assert_true(sqrt(errors / squares) < 0.08);
    }
    cJSON_Delete(header);
    session_bytes_free(&file);
    session_delete(&client, "wide", 204);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(set_up, fixture_clear);
