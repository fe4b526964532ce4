/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_int8_file.c - files of sessions of int8: what is in them, and that those which lie
 * about groups and scales, or are damaged, are refused and leave nothing. Round trips are in
 * test_sessions_int8, test_sessions_file and test_sessions_save. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

enum { HEADS = 2, KEY = 3, VALUE = 2 };

/* Two groups, one of which was cut to 7 rows; then a whole one, and 5 rows behind it. */
enum { ROWS = 64 + 7 + 64, GROUPS = 3, REST = 5 };

static struct session_bytes file;

static void append(const char *id, uint64_t seed, int rows)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"q_heads\":2,\"kv_heads\":2,\"outputs\":[\"lse\"],\"query\":");
    request_text_random(&text, seed, 1, HEADS * KEY);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, seed + 1, rows, HEADS * KEY);
    request_text_add(&text, ",\"value\":");
    request_text_random(&text, seed + 2, rows, HEADS * VALUE);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, id, "attention", text.data, 200));
    free(text.data);
}

static void truncate_to(const char *id, const char *body)
{
    cJSON_Delete(session_post(&client, id, "truncate", body, 200));
}

/* ------------------------------------------------------------------------- layout -- */

/* Where a tensor's numbers begin; they must be of this dtype and shape. */
static const char *tensor(const cJSON *header, const char *numbers, const char *name,
                          const char *dtype, const char *shape)
{
    const cJSON *found = cJSON_GetObjectItem(header, name);
    assert_non_null(found);
    assert_string_equal(cJSON_GetObjectItem(found, "dtype")->valuestring, dtype);
    answer_expect(found, "shape", shape, 0);
    return numbers + (size_t)cJSON_GetObjectItem(found, "data_offsets")->child->valuedouble;
}

static float float_at(const char *numbers, int64_t i)
{
    float number;
    memcpy(&number, numbers + (size_t)i * sizeof number, sizeof number);
    return number;
}

/* The uniform context of a session without its rest is the mean of scale * q of its values, and a
 * key's scale is its group's: read by other means than the daemon's. */
TEST(layout)
{
    static const int64_t LENGTHS[GROUPS] = { 64, 7, 64 };
    const char *numbers;
    int64_t lengths[GROUPS];
    double sum = 0;
    cJSON *header = session_bytes_header(file, &numbers);
    answer_expect(cJSON_GetObjectItem(header, "__metadata__"), "dtype", "\"int8\"", 0);
    const char *key = tensor(header, numbers, "layers.0.key", "I8", "[2,135,3]");
    const char *value = tensor(header, numbers, "layers.0.value", "I8", "[2,135,2]");
    const char *key_scale = tensor(header, numbers, "layers.0.key_scale", "F32", "[2,3,3]");
    const char *value_scale = tensor(header, numbers, "layers.0.value_scale", "F32", "[2,135]");
    memcpy(lengths, tensor(header, numbers, "layers.0.group_rows", "I64", "[3]"), sizeof lengths);
    tensor(header, numbers, "layers.0.key_rest", "F32", "[2,5,3]");
    const char *rest = tensor(header, numbers, "layers.0.value_rest", "F32", "[2,5,2]");
    assert_memory_equal(lengths, LENGTHS, sizeof lengths);
    for (int64_t i = 0; i < ROWS; i++) /* of head 1, column 0 */
        sum += (double)float_at(value_scale, ROWS + i)
               * ((const signed char *)value)[(ROWS + i) * VALUE];
    for (int64_t i = 0; i < REST; i++)
        sum += (double)float_at(rest, (REST + i) * VALUE);
    for (int64_t d = 0; d < KEY; d++) { /* of head 1, the last group */
        int greatest = 0;
        for (int64_t i = 71; i < ROWS; i++)
            greatest = (int)fmax(greatest, abs(((const signed char *)key)[(ROWS + i) * KEY + d]));
        assert_int_equal(greatest, 127);
        assert_true(float_at(key_scale, (GROUPS + 2) * KEY + d) > 0);
    }
    cJSON *answer = session_post(&client, "first", "attention",
                                 "{\"q_heads\":2,\"kv_heads\":2,\"outputs\":[\"context\"],"
                                 "\"query\":[[0,0,0,0,0,0]]}",
                                 200);
    const cJSON *context = cJSON_GetObjectItem(answer, "context")->child;
    assert_true(fabs(cJSON_GetArrayItem(context, VALUE)->valuedouble - sum / (ROWS + REST)) < 1e-5);
    cJSON_Delete(answer);
    cJSON_Delete(header);
}

/* A session without rows, without groups, and without a rest. */
TEST(parts_that_are_not_there)
{
    static const int LENGTHS[] = { 0, 9, 128 };
    for (int i = 0; i < 3; i++) {
        session_make(&client, JSON({"model":"sdpa","dtype":"int8","id":"one"}));
        if (LENGTHS[i] > 0)
            append("one", 5, LENGTHS[i]);
        struct session_bytes own = session_bytes_get(&client, "one");
        session_bytes_put(&client, "two", own, 201);
        append("one", 6, 100);
        append("two", 6, 100);
        struct session_bytes one = session_bytes_get(&client, "one");
        struct session_bytes two = session_bytes_get(&client, "two");
        const char *numbers[2];
        cJSON_Delete(session_bytes_header(one, &numbers[0]));
        cJSON_Delete(session_bytes_header(two, &numbers[1]));
        assert_int_equal(one.bytes + one.size - numbers[0], two.bytes + two.size - numbers[1]);
        assert_memory_equal(numbers[0], numbers[1], (size_t)(one.bytes + one.size - numbers[0]));
        session_bytes_free(&own);
        session_bytes_free(&one);
        session_bytes_free(&two);
        session_delete(&client, "one", 204);
        session_delete(&client, "two", 204);
    }
}

/* --------------------------------------------------------------------------- lies -- */

/* A number of a tensor is another one; the checksums are made anew. */
TEST(numbers_that_lie)
{
    static const float NEGATIVE = -1, INFINITE = INFINITY, NOT_ONE = NAN, LARGE = 3e36f;
    static const int64_t SIX = 6, NONE = 0, MINUS = -1, LONG = 65, HUGE_ROWS = INT64_MAX;
    static const signed char LEAST = -128;
    static const struct {
        const char *name;
        size_t at, size;
        const void *number;
        const char *code, *says;
    } LIES[] = {
        { "layers.0.key_scale", 4, 4, &NEGATIVE, "nonfinite", "number 1 of layers.0.key_scale" },
        { "layers.0.key_scale", 8, 4, &INFINITE, "nonfinite", "number 2 of layers.0.key_scale" },
        { "layers.0.key_scale", 0, 4, &LARGE, "nonfinite", "also 127 times it" },
        { "layers.0.value_scale", 40, 4, &NOT_ONE, "nonfinite", "number 10 of layers.0.value_" },
        { "layers.0.value_scale", 0, 4, &NEGATIVE, "nonfinite", "expected a finite scale" },
        { "layers.0.key_rest", 12, 4, &INFINITE, "nonfinite", "expected a finite number" },
        { "layers.0.value_rest", 0, 4, &NOT_ONE, "nonfinite", "number 0 of layers.0.value_rest" },
        { "layers.0.group_rows", 8, 8, &SIX, "shape", "have 134 rows; the keys of its layer" },
        { "layers.0.group_rows", 0, 8, &NONE, "option", "group 0 of layers.0.group_rows has 0" },
        { "layers.0.group_rows", 0, 8, &MINUS, "option", "has -1 rows; expected 1 to 64" },
        { "layers.0.group_rows", 16, 8, &LONG, "option", "has 65 rows; expected 1 to 64" },
        { "layers.0.group_rows", 8, 8, &HUGE_ROWS, "option", "group 1 of layers.0.group_rows" },
        { "layers.0.key", 5, 1, &LEAST, "option", "number 5 of layers.0.key is -128" },
        { "layers.0.value", 0, 1, &LEAST, "option", "number 0 of layers.0.value is -128" },
    };
    for (size_t i = 0; i < sizeof LIES / sizeof LIES[0]; i++) {
        const char *numbers;
        cJSON *header = session_bytes_header(file, &numbers);
        const size_t bytes = (size_t)(file.bytes + file.size - numbers);
        char *copy = malloc(bytes);
        assert_non_null(copy);
        memcpy(copy, numbers, bytes);
        const cJSON *offsets =
            cJSON_GetObjectItem(cJSON_GetObjectItem(header, LIES[i].name), "data_offsets");
        memcpy(copy + (size_t)offsets->child->valuedouble + LIES[i].at, LIES[i].number,
               LIES[i].size);
        struct session_bytes lying = session_bytes_make(header, copy, bytes, true);
        session_bytes_refused(&client, "lie", lying, 400, LIES[i].code, LIES[i].says);
        session_bytes_free(&lying);
        cJSON_Delete(header);
        free(copy);
    }
    session_get(&client, "lie", 404);
}

/* A tensor has another shape or dtype, another name, or is not there; its numbers stay. */
TEST(shapes_that_lie)
{
    static const struct {
        const char *name, *member, *value, *code, *says;
    } LIES[] = {
        { "layers.0.key_scale", "shape", "[3,2,3]", "shape", "layers.0.key_scale has dimension 0" },
        { "layers.0.key_scale", "shape", "[2,9]", "shape",
          "expected [kv_heads, groups, head_dim]" },
        { "layers.0.value_scale", "shape", "[135,2]", "shape", "has dimension 0 of 135" },
        { "layers.0.value_scale", "shape", "[2,135,1]", "shape", "has 3 dimensions; expected" },
        { "layers.0.value_scale", "shape", "[270]", "shape", "has 1 dimensions; expected" },
        { "layers.0.group_rows", "shape", "[3,1]", "shape", "expected [groups]" },
        { "layers.0.group_rows", "shape", "[4]", "binary", "" },
        { "layers.0.group_rows", "dtype", "\"F64\"", "dtype", "whose dtype makes it I64" },
        { "layers.0.key_rest", "shape", "[2,3,5]", "shape", "layers.0.key_rest has dimension 2" },
        { "layers.0.value_rest", "shape", "[5,2,2]", "shape", "layers.0.value_rest has dimen" },
        { "layers.0.key", "dtype", "\"U8\"", "dtype", "layers.0.key is U8" },
        { "layers.0.key", "shape", "[2,3,135]", "shape", "2 and 2 heads, 3 and 135 rows" },
        { "layers.0.key_rest", NULL, "layers.0.rest", "field",
          "there is a tensor 'layers.0.rest'" },
        { "layers.0.group_rows", NULL, "layers.1.group_rows", "field", "there is no tensor" },
        { "__metadata__", "dtype", "\"f32\"", "dtype", "is I8" },
        { "__metadata__", "kv_len_max", "\"139\"", "length", "has 140 keys" },
    };
    for (size_t i = 0; i < sizeof LIES / sizeof LIES[0]; i++) {
        const char *numbers;
        cJSON *header = session_bytes_header(file, &numbers);
        if (LIES[i].member) {
            cJSON *object = cJSON_GetObjectItem(header, LIES[i].name);
            cJSON_DeleteItemFromObjectCaseSensitive(object, LIES[i].member);
            cJSON_AddItemToObject(object, LIES[i].member, cJSON_Parse(LIES[i].value));
        } else {
            cJSON_AddItemToObject(header, LIES[i].value,
                                  cJSON_DetachItemFromObject(header, LIES[i].name));
        }
        struct session_bytes lying =
            session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
        session_bytes_refused(&client, "lie", lying, 400, LIES[i].code, LIES[i].says);
        session_bytes_free(&lying);
        cJSON_Delete(header);
    }
    session_get(&client, "lie", 404);
}

/* One bit at a time, of the header and of each tensor. */
TEST(flipped_bits)
{
    struct fill fill = { 20261123 };
    for (int i = 0; i < 800; i++) {
        const int64_t at = fill_below(&fill, (int64_t)file.size);
        const char bit = (char)(1 << fill_below(&fill, 8));
        file.bytes[at] ^= bit;
        struct http_response response = session_bytes_send(&client, "bit", file);
        if (response.status < 400 || response.status > 499)
            fail_msg("byte %lld, bit %d: %ld %s", (long long)at, bit, response.status,
                     response.body);
        http_response_free(&response);
        file.bytes[at] ^= bit;
    }
    session_get(&client, "bit", 404);
}

/* Groups of one row each take the pages of whole ones, which the budget counts beforehand. */
TEST(budget)
{
    struct daemon own;
    struct http_client to;
    session_make(&client, JSON({"model":"sdpa","dtype":"int8","id":"many"}));
    for (int i = 1; i <= 40; i++) {
        char body[32];
        append("many", (uint64_t)i, 64);
        snprintf(body, sizeof body, JSON({"kv_len":%d}), i);
        truncate_to("many", body);
    }
    struct session_bytes many = session_bytes_get(&client, "many");
    daemon_start_with(&own, "--session-memory-max", "24KiB", NULL);
    http_client_init(&to, own.port);
    session_bytes_refused(&to, "many", many, 413, "too_large", "--session-memory-max");
    session_get(&to, "many", 404);
    session_wait_until_empty(&to);
    http_client_free(&to);
    daemon_stop(&own);
    session_bytes_put(&client, "again", many, 201);
    assert_true(session_number(&client, "again", "kv_len") == 40);
    session_bytes_free(&many);
    session_delete(&client, "many", 204);
    session_delete(&client, "again", 204);
}

static int start(void **state)
{
    fixture_serve(NULL);
    session_make(&client, JSON({"model":"sdpa","dtype":"int8","id":"first"}));
    append("first", 1, 130);
    truncate_to("first", JSON({"kv_len":71}));
    append("first", 2, 64 + REST);
    file = session_bytes_get(&client, "first");
    return 0;
}

TEST(nothing_is_left)
{
    session_delete(&client, "first", 204);
    session_wait_until_empty(&client);
    session_bytes_free(&file);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
