/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_models.c - sessions of a model with projections, layer by layer, with the rows that
 * enter them in a trace; keys and values in f16 and bf16, as files; models that are replaced. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "model_client.h"
#include "request_text.h"
#include "session_client.h"
#include "tensor_body.h"
#include "tensor_file.h"
#include "test.h"

/* ------------------------------------------------------------------ projections -- */

enum { LAYERS = 5, WIDTH = 64, TOKENS_MAX = 64 };

static float inputs[LAYERS][TOKENS_MAX][WIDTH];
static int64_t token_count;

static void read_inputs(void)
{
    cJSON *answer = answer_post(&client, "/v1/trace",
                                "{\"model\":\"stories260K\",\"text\":\"Once upon a time, there was "
                                "a little girl named Lily.\",\"outputs\":[\"inputs\"]}");
    const cJSON *layer, *row, *number;
    int64_t l = 0;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(answer, "layers")) {
        token_count = 0;
        cJSON_ArrayForEach(row, cJSON_GetObjectItem(layer, "inputs")) {
            int64_t d = 0;
            cJSON_ArrayForEach(number, row)
                inputs[l][token_count][d++] = (float)number->valuedouble;
            assert_int_equal(d, WIDTH);
            assert_true(++token_count < TOKENS_MAX);
        }
        l++;
    }
    assert_int_equal(l, LAYERS);
    cJSON_Delete(answer);
}

#define OUTPUTS "\"outputs\":[\"context\",\"weights\",\"lse\",\"scores\"]"

/* Rows [past, end) enter the layer, whose answer is `answer`. */
static void expect_layer(const cJSON *answer, int64_t layer, int64_t past, int64_t end)
{
    struct request_text text = { .data = NULL };
    request_text_add(
        &text, "{\"model\":\"stories260K\",\"layer\":%d,\"past_len\":%d," OUTPUTS ",\"query\":",
        (int)layer, (int)past);
    request_text_matrix(&text, inputs[layer][past], end - past, WIDTH);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, inputs[layer][0], end, WIDTH);
    request_text_add(&text, "}");
    cJSON *want = answer_post(&client, "/v1/attention", text.data);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    free(text.data);
}

/* One request with a step for each layer. */
static void send_layers(const char *id, int64_t past, int64_t end)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"at\":%d," OUTPUTS ",\"steps\":[", (int)past);
    for (int layer = 0; layer < LAYERS; layer++) {
        request_text_add(&text, "%s{\"layer\":%d,\"input\":", layer > 0 ? "," : "", layer);
        request_text_matrix(&text, inputs[layer][past], end - past, WIDTH);
        request_text_add(&text, "}");
    }
    request_text_add(&text, "]}");
    cJSON *answer = session_post(&client, id, "attention", text.data, 200);
    const cJSON *step = cJSON_GetObjectItem(answer, "steps")->child;
    for (int layer = 0; layer < LAYERS; layer++, step = step->next) {
        assert_int_equal(cJSON_GetObjectItem(step, "layer")->valueint, layer);
        assert_int_equal(cJSON_GetObjectItem(step, "layer_kv_len")->valueint, end);
        expect_layer(step, layer, past, end);
    }
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, end);
    cJSON_Delete(answer);
    free(text.data);
}

/* A prompt, and then token by token. */
TEST(layer_by_layer)
{
    const int64_t prompt = 5;
    read_inputs();
    session_make(&client, JSON({"model":"stories260K","id":"story"}));
    send_layers("story", 0, prompt);
    for (int64_t past = prompt; past < token_count; past++)
        send_layers("story", past, past + 1);
    cJSON_Delete(session_post(&client, "story", "truncate", JSON({"kv_len":3}), 200));
    send_layers("story", 3, token_count);
    session_delete(&client, "story", 204);
}

/* A query alone looks at what is there; its position is behind it. */
TEST(looks)
{
    struct request_text text = { .data = NULL };
    session_make(&client, JSON({"model":"stories260K","id":"one","layers":[3]}));
    request_text_add(&text, "{\"input\":");
    request_text_matrix(&text, inputs[3][0], 4, WIDTH);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, "one", "attention", text.data, 200));
    text.used = 0;
    request_text_add(&text, "{" OUTPUTS ",\"query\":");
    request_text_matrix(&text, inputs[3][4], 1, WIDTH);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, "one", "attention", text.data, 200);
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, 4);
    text.used = 0;
    request_text_add(&text, "{\"model\":\"stories260K\",\"layer\":3,\"past_len\":4," OUTPUTS
                            ",\"query\":");
    request_text_matrix(&text, inputs[3][4], 1, WIDTH);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, inputs[3][0], 4, WIDTH);
    request_text_add(&text, "}");
    cJSON *want = answer_post(&client, "/v1/attention", text.data);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    cJSON_Delete(answer);
    free(text.data);
    session_refused(&client, "one", "attention", "{\"input\":[[1,2]]}", 400, "shape",
                    "input has 2 columns; model 'stories260K' takes 64");
    session_refused(&client, "one", "attention", "{\"layer\":0,\"input\":[[1,2]]}", 404,
                    "not_found", "layer 0 is not one of session 'one'");
    session_delete(&client, "one", 204);
}

/* ------------------------------------------------------------------------- dtypes -- */

enum { ROWS = 40, HEADS = 2, DIM = 8, COLUMNS = HEADS * DIM, HALF = 2 };

static uint16_t queries[ROWS * COLUMNS], keys[ROWS * COLUMNS], values[ROWS * COLUMNS];

/* Numbers of some sizes around 1. */
static void fill_halves(struct fill *fill, uint16_t *numbers, bool is_bf16)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const unsigned exponent =
            is_bf16 ? 124 + (unsigned)fill_below(fill, 4) : 12 + (unsigned)fill_below(fill, 4);
        const unsigned rest = (unsigned)fill_below(fill, is_bf16 ? 128 : 1024);
        numbers[i] =
            (uint16_t)((unsigned)fill_below(fill, 2) << 15 | exponent << (is_bf16 ? 7 : 10) | rest);
    }
}

static struct http_response post_rows(const char *path, const char *dtype, const char *metadata,
                                      int64_t query, int64_t first, int64_t end)
{
    struct tensor_body body = { .used = 0 };
    char shape[32];
    snprintf(shape, sizeof shape, "[1,%d]", COLUMNS);
    tensor_body_add(&body, "query", dtype, shape, queries + query * COLUMNS, HALF * COLUMNS);
    if (end > first) {
        const size_t size = HALF * COLUMNS * (size_t)(end - first);
        snprintf(shape, sizeof shape, "[%d,%d]", (int)(end - first), COLUMNS);
        tensor_body_add(&body, "key", dtype, shape, keys + first * COLUMNS, size);
        tensor_body_add(&body, "value", dtype, shape, values + first * COLUMNS, size);
    }
    return tensor_body_post(&client, path, &body, metadata, 0, NULL);
}

static void expect_same_files(const struct http_response *one, const struct http_response *other,
                              const char *dtype, int64_t kv_len)
{
    char shape[32];
    cJSON *a = tensor_body_header(one), *b = tensor_body_header(other);
    snprintf(shape, sizeof shape, "[1,%d]", COLUMNS);
    assert_memory_equal(tensor_body_find(one, a, "context", dtype, shape),
                        tensor_body_find(other, b, "context", dtype, shape), HALF * COLUMNS);
    snprintf(shape, sizeof shape, "[%d,1,%d]", HEADS, (int)kv_len);
    assert_memory_equal(tensor_body_find(one, a, "weights", dtype, shape),
                        tensor_body_find(other, b, "weights", dtype, shape),
                        HALF * HEADS * (size_t)kv_len);
    cJSON_Delete(a);
    cJSON_Delete(b);
}

static void expect_metadata(const struct http_response *response, const char *name,
                            const char *value)
{
    cJSON *header = tensor_body_header(response);
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    assert_string_equal(cJSON_GetObjectItem(metadata, name)->valuestring, value);
    cJSON_Delete(header);
}

static void run_dtype(const char *name, const char *dtype, bool is_bf16)
{
    struct fill fill = { .state = 5 };
    char body[64];
    int64_t past = 0;
    fill_halves(&fill, queries, is_bf16);
    fill_halves(&fill, keys, is_bf16);
    fill_halves(&fill, values, is_bf16);
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"half","dtype":"%s"}), name);
    session_make(&client, body);
    for (int step = 0; past < ROWS; step++) {
        const int64_t left = ROWS - past, end = past + (left < 1 + step ? left : 1 + step);
        char length[24];
        struct http_response one =
            post_rows("/v1/sessions/half/attention", dtype,
                      "{\"q_heads\":\"2\",\"causal\":\"true\"}", past, past, end);
        char metadata[96];
        snprintf(metadata, sizeof metadata,
                 "{\"model\":\"sdpa\",\"q_heads\":\"2\",\"causal\":\"true\",\"past_len\":\"%d\"}",
                 (int)past);
        struct http_response other = post_rows("/v1/attention", dtype, metadata, past, 0, end);
        expect_same_files(&one, &other, dtype, end);
        snprintf(length, sizeof length, "%d", (int)end);
        expect_metadata(&one, "kv_len", length);
        expect_metadata(&one, "session", "half");
        http_response_free(&one);
        http_response_free(&other);
        past = end;
    }
    assert_int_equal(session_number(&client, "half", "bytes"), ROWS * COLUMNS * HALF * 2);
    session_delete(&client, "half", 204);
}

TEST(dtypes)
{
    run_dtype("f16", "F16", false);
    run_dtype("bf16", "BF16", true);
}

/* Rows of floats are rounded once; the answer is that of the rounded ones. */
TEST(rounds_once)
{
    struct fill fill = { .state = 6 };
    struct request_text text = { .data = NULL };
    float query[COLUMNS], key[ROWS * COLUMNS], value[ROWS * COLUMNS];
    fill_halves(&fill, keys, false);
    fill_halves(&fill, values, false);
    fill_floats(&fill, query, COLUMNS, -1, 1);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        key[i] = tensor_half(keys[i]) * (1 + 0x1p-13f);
        value[i] = tensor_half(values[i]) * (1 - 0x1p-13f);
    }
    session_make(&client, JSON({"model":"sdpa","id":"rounded","dtype":"f16"}));
    request_text_add(&text, "{\"q_heads\":2,\"query\":");
    request_text_matrix(&text, query, 1, COLUMNS);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, key, ROWS, COLUMNS);
    request_text_add(&text, ",\"value\":");
    request_text_matrix(&text, value, ROWS, COLUMNS);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, "rounded", "attention", text.data, 200);
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "query", "F32", "[1,16]", query, sizeof query);
    tensor_body_add(&body, "key", "F16", "[40,16]", keys, sizeof keys);
    tensor_body_add(&body, "value", "F16", "[40,16]", values, sizeof values);
    struct http_response response =
        tensor_body_post(&client, "/v1/attention", &body, "{\"model\":\"sdpa\",\"q_heads\":\"2\"}",
                         0, "application/json");
    cJSON *want = answer_json(&response, 200);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    cJSON_Delete(answer);
    http_response_free(&response);
    free(text.data);
    session_delete(&client, "rounded", 204);
}

TEST(doubles_refused)
{
    static const double ONE[] = { 1 };
    static const float FLOAT[] = { 1 };
    struct tensor_body body = { .used = 0 };
    session_make(&client, JSON({"model":"sdpa","id":"floats"}));
    tensor_body_add(&body, "query", "F64", "[1,1]", ONE, sizeof ONE);
    tensor_body_add(&body, "key", "F32", "[1,1]", FLOAT, sizeof FLOAT);
    tensor_body_add(&body, "value", "F64", "[1,1]", ONE, sizeof ONE);
    struct http_response response =
        tensor_body_post(&client, "/v1/sessions/floats/attention", &body, "{}", 0, NULL);
    assert_non_null(strstr(response.body, "value is F64; a session takes F32, F16 or BF16"));
    answer_expect_fault(&response, 400, "dtype", "/value");
    http_response_free(&response);
    session_delete(&client, "floats", 204);
}

/* ------------------------------------------------------------------- a model's end -- */

/* A session goes on with the model that it was made for. */
TEST(model_is_replaced)
{
    static const char WORDS[] = "{\"input\":" MODEL_BYTES_WORDS ",\"causal\":false,\"at\":0}";
    char *models = daemon_directory_create();
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--models", models, "--model-control", "explicit", NULL);
    http_client_init(&own, other.port);
    model_put_demo(&own, "mine", 2, 201);
    session_make(&own, JSON({"model":"mine","id":"before"}));
    cJSON *first = session_post(&own, "before", "attention", WORDS, 200);
    model_put_demo(&own, "mine", 3, 200);
    cJSON *again = session_post(&own, "before", "attention", WORDS, 200);
    session_expect_same(again, first);
    session_make(&own, JSON({"model":"mine","id":"after"}));
    cJSON *other_model = session_post(&own, "after", "attention", WORDS, 200);
    assert_false(cJSON_Compare(cJSON_GetObjectItem(first, "context"),
                               cJSON_GetObjectItem(other_model, "context"), true));
    model_delete_well(&own, "mine");
    cJSON *last = session_post(&own, "before", "attention", WORDS, 200);
    session_expect_same(last, first);
    cJSON_Delete(first);
    cJSON_Delete(again);
    cJSON_Delete(other_model);
    cJSON_Delete(last);
    session_delete(&own, "before", 204);
    session_delete(&own, "after", 204);
    session_wait_until_empty(&own);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_directory_remove(models);
}

/* Sessions of models that were replaced hold their files, which have a bound. */
TEST(replaced_models_have_a_bound)
{
    enum { SIDE = 40 }; /* two matrices of 6400 bytes */
    char *models = daemon_directory_create();
    struct request_text text = { 0 }, row = { 0 };
    struct daemon other;
    struct http_client own;
    for (int i = 0; i < SIDE; i++)
        request_text_add(&row, "%s%d", i ? "," : "[", i);
    request_text_add(&text, "{\"config\":{\"attention\":\"dot\"},\"parameters\":{");
    for (int i = 0; i < 2; i++) {
        request_text_add(&text, "%s", i ? "],\"k_proj.weight\":[" : "\"q_proj.weight\":[");
        for (int k = 0; k < SIDE; k++)
            request_text_add(&text, "%s%s]", k ? "," : "", row.data);
    }
    request_text_add(&text, "]}}");
    daemon_start_with(&other, "--models", models, "--model-control", "explicit",
                      "--session-memory-max", "10000", NULL);
    http_client_init(&own, other.port);
    static const long STATUSES[] = { 201, 200, 503, 200, 200 };
    for (int i = 0; i < 5; i++) {
        struct http_response response = model_put_json(&own, "mine", text.data);
        if (STATUSES[i] == 503)
            answer_expect_fault(&response, 503, "memory", NULL);
        assert_int_equal(response.status, STATUSES[i]);
        http_response_free(&response);
        if (i == 0)
            session_make(&own, "{\"model\":\"mine\",\"id\":\"before\"}");
        if (STATUSES[i] == 503) {
            session_delete(&own, "before", 204);
            session_wait_until_empty(&own);
        }
    }
    free(row.data);
    free(text.data);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_directory_remove(models);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
