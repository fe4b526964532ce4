/* SPDX-License-Identifier: Apache-2.0 */
/* test_edits_kept.c - kept traces as a source of rows, and kept traces of edited passes: who may
 * take them, what their states cost, and that what is read of them later is of the edited pass. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "request_text.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"
#include "word_model.h"

#include <inttypes.h>

#define PATH "/v1/trace"

enum { WORDS = 40, HEADS = 2 };

static const char *id_of(const cJSON *answer)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "trace"));
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(number))
        fail_msg("%s is no number: %s", name, cJSON_PrintUnformatted(object));
    return number->valuedouble;
}

static const cJSON *layer_of(const cJSON *answer, int layer)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), layer);
}

/* ------------------------------------------------------------------- whose rows -- */

#define KEEP "{\"model\":\"llama\",\"tokens\":[1,2,3],\"keep\":\"1m\",\"states\":true}"
#define TAKE                                                                                       \
    "{\"model\":\"llama\",\"tokens\":[4,5,6],\"edits\":[{\"scale\":1},{\"at\":\"embeddings\",%s}]" \
    "}"
#define TAKE_2 "{\"requests\":[" TAKE "," TAKE "]}"

/* Rows are for the name that kept them: to others the trace is not there, also when it has ended.
 */
TEST(rows_of_another_key)
{
    static const struct key_line KEYS[] = { { "anna", "infer" },
                                            { "bert", "infer" },
                                            { NULL, NULL } };
    struct daemon other;
    struct http_client own;
    char path[128], body[512], batch[1200], from[128];
    const struct http_request keep = { .path = PATH, .body = KEEP };
    const struct http_request take = { .path = PATH, .body = body };
    const struct http_request take_two = { .path = PATH "/batch", .body = batch };
    const struct http_request end = { .method = "DELETE", .path = path };
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--models", directory, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    struct http_response response = key_expect(&own, "anna", &keep, 200);
    cJSON *kept = answer_json(&response, 200);
    snprintf(from, sizeof from, "\"from\":{\"trace\":\"%s\"}", id_of(kept));
    snprintf(path, sizeof path, "/v1/traces/%s", id_of(kept));
    snprintf(body, sizeof body, TAKE, from);
    snprintf(batch, sizeof batch, TAKE_2, from, "\"scale\":1");
    http_response_free(&response);
    response = key_expect(&own, "anna", &take, 200);
    http_response_free(&response);
    response = key_send(&own, "bert", &take, NULL);
    answer_expect_fault(&response, 404, "not_found", "/edits/1/from/trace");
    http_response_free(&response);
    response = key_expect(&own, "bert", &take_two, 200);
    cJSON *answer = answer_json(&response, 200);
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 0), "not_found",
                             "/requests/0/edits/1/from/trace");
    assert_non_null(layer_of(cJSON_GetArrayItem(results, 1), 0));
    http_response_free(&response);
    response = key_expect(&own, "anna", &end, 204);
    http_response_free(&response);
    response = key_send(&own, "anna", &take, NULL);
    answer_expect_fault(&response, 410, "gone", "/edits/1/from/trace");
    http_response_free(&response);
    response = key_send(&own, "bert", &take, NULL);
    answer_expect_fault(&response, 404, "not_found", "/edits/1/from/trace");
    http_response_free(&response);
    cJSON_Delete(answer);
    cJSON_Delete(kept);
    http_client_free(&own);
    daemon_stop(&other);
}

/* -------------------------------------------------------------------- what they cost -- */

enum { ROWS = 16 };

static double kept_bytes(const char *more)
{
    char body[256], path[128], tokens[160];
    snprintf(body, sizeof body, "{\"model\":\"llama\",\"tokens\":%s,\"keep\":\"1m\"%s}",
             traced_model_tokens(tokens, sizeof tokens, 1, ROWS), more);
    cJSON *answer = answer_post(&client, PATH, body);
    snprintf(path, sizeof path, "/v1/traces/%s", id_of(answer));
    cJSON *kept = answer_get(&client, path);
    const double bytes = number_of(kept, "bytes");
    cJSON_Delete(kept);
    cJSON_Delete(answer);
    return bytes;
}

/* Of a layer 4 * rows * (heads * head_dim + 3 * width) bytes, and the embeddings beside. */
TEST(bytes_of_states)
{
    enum {
        HEAD_DIM = 16,
        EMBEDDINGS = 4 * ROWS * TRACED_WIDTH,
        LAYER = 4 * ROWS * (TRACED_HEADS * HEAD_DIM + 3 * TRACED_WIDTH)
    };
    const double all = kept_bytes(",\"states\":true") - kept_bytes("");
    const double one =
        kept_bytes(",\"states\":true,\"layers\":[1]") - kept_bytes(",\"layers\":[1]");
    assert_int_equal((int)all, EMBEDDINGS + TRACED_LAYERS * LAYER);
    assert_int_equal((int)one, EMBEDDINGS + LAYER);
    assert_int_equal((int)kept_bytes(",\"states\":false"), (int)kept_bytes(""));
}

/* What would fit without its states is refused with them, before anything is computed. */
TEST(budget_of_states)
{
    char most[32], body[256], tokens[160];
    const double plain = kept_bytes(""), whole = kept_bytes(",\"states\":true");
    struct daemon other;
    struct http_client own;
    snprintf(body, sizeof body,
             "{\"model\":\"llama\",\"tokens\":%s,\"keep\":\"1h\",\"states\":true}",
             traced_model_tokens(tokens, sizeof tokens, 1, ROWS));
    for (int i = 0; i < 2; i++) {
        snprintf(most, sizeof most, "%.0f", i == 0 ? whole - 1 : whole + plain);
        daemon_start_with(&other, "--models", directory, "--trace-memory-max", most, NULL);
        http_client_init(&own, other.port);
        if (i == 0) {
            answer_refused(&own, PATH, body, 413, "too_large", "/keep");
        } else {
            cJSON_Delete(answer_post(&own, PATH, body));
            answer_refused(&own, PATH, body, 503, "memory", "/keep");
        }
        *strstr(body, ",\"states\"") = '}';
        body[strlen(body) - strlen("\"states\":true}")] = '\0';
        cJSON_Delete(answer_post(&own, PATH, body));
        body[strlen(body) - 1] = '\0';
        strcat(body, ",\"states\":true}");
        http_client_free(&own);
        daemon_stop(&other);
    }
}

/* ------------------------------------------------------------------- read later -- */

#define EDITED                                                                                     \
    ",\"edits\":[{\"hide\":[[1,3]],\"rows\":[[7,12]]},{\"weights\":\"previous\",\"heads\":[1],"    \
    "\"layers\":[1],\"rows\":[[7,12]]},{\"weights\":\"uniform\",\"heads\":[0],\"rows\":[4]},"      \
    "{\"at\":\"feed_forward\",\"layers\":[0],\"scale\":0,\"rows\":[[7,12]]},"                      \
    "{\"hide\":[[0,9]],\"rows\":[6],\"layers\":[0],\"heads\":[1]}]"

static void expect_near(const cJSON *layer, const char *name, int head, double want)
{
    const cJSON *got = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(layer, name), head);
    assert_true(cJSON_IsNumber(got));
    if (!(fabs(got->valuedouble - want) <= 1e-5 * (1 + fabs(want))))
        fail_msg("%s of head %d is %.9g, not %.9g", name, head, got->valuedouble, want);
}

/* As server/API_TRACE.md defines them, of the weights that the trace answered. */
static void expect_statistics(const cJSON *layer, int head, const double *weights, int64_t length)
{
    double entropy = 0, distance = 0, first = 0, previous = 0, self = 0;
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < length; j++) {
            const double weight = weights[(head * length + i) * length + j];
            entropy -= weight > 0 ? weight * log(weight) / (double)length : 0;
            distance += weight * fabs((double)(i - j)) / (double)length;
            first += j == 0 ? weight / (double)length : 0;
            previous += j == i - 1 ? weight / (double)length : 0;
            self += j == i ? weight / (double)length : 0;
        }
    expect_near(layer, "entropy", head, entropy);
    expect_near(layer, "distance", head, distance);
    expect_near(layer, "first", head, first);
    expect_near(layer, "previous", head, previous);
    expect_near(layer, "self", head, self);
}

static void expect_pair(const char *id, int layer, int head, int row, int key, double want)
{
    char path[200];
    snprintf(path, sizeof path, "/v1/traces/%s/pair?layer=%d&head=%d&row=%d&key=%d", id, layer,
             head, row, key);
    cJSON *pair = answer_get(&client, path);
    if (!(fabs(number_of(pair, "weight") - want) <= 1e-6))
        fail_msg("%s: %.9g, not %.9g", path, number_of(pair, "weight"), want);
    cJSON_Delete(pair);
}

TEST(statistics_are_of_edited_weights)
{
    char *body = word_model_request(WORDS, EDITED ",\"keep\":\"1m\",\"outputs\":[\"weights\"]");
    cJSON *whole = answer_post(&client, PATH, body);
    char path[128];
    snprintf(path, sizeof path, "/v1/traces/%s/statistics", id_of(whole));
    cJSON *statistics = answer_get(&client, path);
    const int64_t length = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(whole, "tokens"));
    const int64_t shape[] = { HEADS, length, length };
    for (int layer = 0; layer < WORD_MODEL_LAYERS; layer++) {
        double *weights = answer_numbers(layer_of(whole, layer), "weights", 3, shape);
        for (int head = 0; head < HEADS; head++) {
            expect_statistics(layer_of(statistics, layer), head, weights, length);
            for (int row = 4; row < 9; row++)
                for (int key = 0; key < 9; key++)
                    expect_pair(id_of(whole), layer, head, row, key,
                                weights[(head * length + row) * length + key]);
        }
        free(weights);
    }
    cJSON_Delete(statistics);
    cJSON_Delete(whole);
    free(body);
}

/* -------------------------------------------------------------------- large maps -- */

static float piece_of(const char *id, int layer, int head, const int64_t rows[2],
                      const int64_t keys[2], int cells, int cell)
{
    char path[256];
    snprintf(path, sizeof path,
             "/v1/traces/%s/weights?layer=%d&head=%d&rows=%" PRId64 ":%" PRId64 "&keys=%" PRId64
             ":%" PRId64 "&cells=%dx%d",
             id, layer, head, rows[0], rows[1], keys[0], keys[1], cells, cells);
    struct http_response response = http_client_get(&client, path);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_size, cells * cells * (int)sizeof(float));
    const float value = ((const float *)(const void *)response.body)[cell];
    http_response_free(&response);
    return value;
}

/* A map of more pairs than are computed again for one piece keeps the largest weights of its
 * blocks: those of the edited pass, as pieces of it are. */
TEST(levels_are_of_edited_weights)
{
    enum { CELLS = 2, LAYER = 1 };
    char *body = word_model_request(
        2200, ",\"keep\":\"1m\",\"outputs\":[],\"layers\":[1],\"edits\":[{\"weights\":\"uniform\","
              "\"heads\":[0],\"rows\":[[5,2000]]},{\"hide\":[[0,1],[1100,1101]],\"heads\":[1]},"
              "{\"hide\":[[0,1]],\"heads\":[1],\"rows\":[[1,9]]}]");
    cJSON *whole = answer_post(&client, PATH, body);
    const int64_t length = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(whole, "tokens"));
    assert_true(length * length > 4194304);
    for (int head = 0; head < HEADS; head++)
        for (int cell = 0; cell < CELLS * CELLS; cell++) {
            const int64_t all[2] = { 0, length }, half = (length + 1) / CELLS;
            const int64_t rows[2] = { cell / CELLS * half, cell / CELLS ? length : half };
            const int64_t keys[2] = { cell % CELLS * half, cell % CELLS ? length : half };
            const float got = piece_of(id_of(whole), LAYER, head, all, all, CELLS, cell);
            const float want = piece_of(id_of(whole), LAYER, head, rows, keys, 1, 0);
            if (!(fabs((double)(got - want)) <= 1e-6))
                fail_msg("head %d, cell %d: %.9g, not %.9g", head, cell, (double)got, (double)want);
        }
    cJSON_Delete(whole);
    free(body);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    traced_model_save(directory);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
