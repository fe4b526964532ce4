/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_select.c - calls on sessions that leave keys which cannot matter: nothing is left
 * with epsilon 0, mass_left is true of what was answered, the bounds of keys follow appends,
 * truncations and forks, and what does not go with a selection is refused in words. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "tensor_body.h"
#include "test.h"

enum { HEADS = 2, HEAD_DIM = 16, COLUMNS = HEADS * HEAD_DIM, ROWS_MAX = 1500, GROUP = 64 };

static struct fill numbers = { 7 };
static float keys[ROWS_MAX * COLUMNS], values[ROWS_MAX * COLUMNS];

/* Keys of 64 positions lie together, so that most groups cannot matter for a query. */
static void make_keys(int64_t count)
{
    float center[COLUMNS] = { 0 };
    for (int64_t i = 0; i < count; i++)
        for (int64_t d = 0; d < COLUMNS; d++) {
            if (i % GROUP == 0)
                center[d] = fill_float(&numbers, -8, 8);
            keys[i * COLUMNS + d] = center[d] + fill_float(&numbers, -0.2F, 0.2F);
            values[i * COLUMNS + d] = fill_float(&numbers, -1, 1);
        }
}

static void append(const char *id, int64_t count)
{
    struct request_text text = { .data = NULL };
    make_keys(count);
    request_text_add(&text, "{\"q_heads\":%d,\"kv_heads\":%d,\"outputs\":[],\"query\":", HEADS,
                     HEADS);
    request_text_matrix(&text, keys, 1, COLUMNS);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, keys, count, COLUMNS);
    request_text_add(&text, ",\"value\":");
    request_text_matrix(&text, values, count, COLUMNS);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, id, "attention", text.data, 200));
    free(text.data);
}

/* A query that looks back, with these members besides. */
static cJSON *look(const char *id, const float *query, const char *more, long status)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"q_heads\":%d,\"kv_heads\":%d%s,\"query\":", HEADS, HEADS, more);
    request_text_matrix(&text, query, 2, COLUMNS);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, id, "attention", text.data, status);
    free(text.data);
    return answer;
}

static double number(const cJSON *answer, const char *name)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(answer, name);
    assert_true(cJSON_IsNumber(node));
    return node->valuedouble;
}

static double at(const cJSON *answer, const char *name, int head, int row)
{
    const cJSON *rows = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, name), head);
    return cJSON_GetArrayItem(rows, row)->valuedouble;
}

/* What lse has lost is the share that is left. */
static double check_look(const char *id)
{
    float query[2 * COLUMNS];
    fill_floats(&numbers, query, 2 * COLUMNS, -2, 2);
    cJSON *all = look(id, query, ",\"outputs\":[\"context\",\"lse\"]", 200);
    cJSON *none =
        look(id, query, ",\"outputs\":[\"context\",\"lse\"],\"select\":{\"epsilon\":0}", 200);
    cJSON *some =
        look(id, query, ",\"outputs\":[\"context\",\"lse\"],\"select\":{\"epsilon\":1e-3}", 200);
    session_expect_same(none, all);
    assert_true(number(none, "keys_read") == number(none, "keys_seen"));
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < 2; i++) {
            const double left = at(some, "mass_left", h, i);
            const double lost = -expm1(at(some, "lse", h, i) - at(all, "lse", h, i));
            assert_true(at(none, "mass_left", h, i) == 0);
            assert_true(left >= 0 && left <= 1e-3);
            assert_true(lost <= left + 1e-5);
        }
    const double share = number(some, "keys_read") / number(some, "keys_seen");
    assert_true(number(some, "keys_seen") == number(some, "layer_kv_len") * HEADS * 2);
    cJSON_Delete(all);
    cJSON_Delete(none);
    cJSON_Delete(some);
    return share;
}

static void make_session(const char *id, const char *dtype)
{
    char body[128];
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%s","dtype":"%s"}), id, dtype);
    session_make(&client, body);
}

TEST(leaves_what_cannot_matter)
{
    static const char *const DTYPES[] = { "f32", "f16", "bf16", "int8" };
    for (int i = 0; i < 4; i++) {
        make_session("some", DTYPES[i]);
        append("some", 1500);
        const double empty = session_number(&client, "some", "bytes");
        assert_true(check_look("some") < 0.6);
        assert_true(session_number(&client, "some", "bytes") == empty);
        append("some", 3);
        append("some", 130);
        assert_true(check_look("some") < 0.6);
        session_delete(&client, "some", 204);
        session_wait_until_empty(&client);
    }
}

TEST(bounds_follow_what_is_written_anew)
{
    make_session("long", "f32");
    append("long", 1000);
    int64_t kv_len = 1000;
    for (int round = 0; round < 12; round++) {
        char body[64];
        check_look("long");
        const int64_t more = 1 + fill_below(&numbers, 700);
        kv_len -= 1 + fill_below(&numbers, kv_len / 2);
        snprintf(body, sizeof body, JSON({"kv_len":%d}), (int)kv_len);
        cJSON_Delete(session_post(&client, "long", "fork", JSON({"id":"fork"}), 201));
        cJSON_Delete(session_post(&client, "long", "truncate", body, 200));
        check_look("fork");
        append("long", more);
        kv_len += more;
        append("fork", 1 + fill_below(&numbers, 200));
        check_look("fork");
        check_look("long");
        session_delete(&client, "fork", 204);
    }
    session_delete(&client, "long", 204);
    session_wait_until_empty(&client);
}

/* An answer as a file says in its metadata how much was read. */
TEST(answers_files)
{
    float query[2 * COLUMNS];
    struct request_text text = { .data = NULL };
    make_session("file", "f32");
    append("file", 1000);
    fill_floats(&numbers, query, 2 * COLUMNS, -2, 2);
    cJSON *json = look("file", query, ",\"select\":{\"epsilon\":1e-2}", 200);
    request_text_add(
        &text, "{\"q_heads\":%d,\"kv_heads\":%d,\"select\":{\"epsilon\":1e-2},\"query\":", HEADS,
        HEADS);
    request_text_matrix(&text, query, 2, COLUMNS);
    request_text_add(&text, "}");
    struct http_response file =
        tensor_body_post_json(&client, "/v1/sessions/file/attention", text.data);
    cJSON *header = tensor_body_header(&file);
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    static const char *const NAMES[] = { "keys_read", "keys_seen" };
    for (int i = 0; i < 2; i++) {
        const cJSON *said = cJSON_GetObjectItemCaseSensitive(metadata, NAMES[i]);
        assert_non_null(said);
        assert_true(strtod(said->valuestring, NULL) == number(json, NAMES[i]));
    }
    const float *left = tensor_body_find(&file, header, "mass_left", "F32", "[2,2]");
    for (int i = 0; i < 4; i++)
        assert_true(left[i] == (float)at(json, "mass_left", i / 2, i % 2));
    cJSON_Delete(header);
    cJSON_Delete(json);
    http_response_free(&file);
    free(text.data);
    session_delete(&client, "file", 204);
}

TEST(refuses_what_it_cannot_bound)
{
    static const struct {
        const char *more, *says;
    } CASES[] = {
        { ",\"select\":{\"epsilon\":1}", "epsilon is 1" },
        { ",\"select\":{\"epsilon\":-0.1}", "epsilon is -0.1" },
        { ",\"select\":{\"epsilon\":0.1,\"top\":3}", "such as {\"epsilon\": 1e-3}" },
        { ",\"select\":1e-3", "such as {\"epsilon\": 1e-3}" },
        { ",\"select\":{}", "such as {\"epsilon\": 1e-3}" },
        { ",\"select\":{\"epsilon\":0.1},\"outputs\":[\"weights\"]", "weights" },
        { ",\"select\":{\"epsilon\":0.1},\"window_left\":4", "window_left" },
        { ",\"select\":{\"epsilon\":0.1},\"dropout\":0.5", "dropout" },
        { ",\"select\":{\"epsilon\":0.1},\"normalizer\":\"sparsemax\"", "sparsemax" },
        { ",\"select\":{\"epsilon\":0.1},\"alibi_slopes\":[1,1]", "ALiBi" },
        { ",\"select\":{\"epsilon\":0.1},\"mask\":[[0,2,1],[0,0,1]]", "a mask" },
    };
    float query[2 * COLUMNS] = { 0 };
    make_session("short", "f32");
    append("short", 3);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        cJSON *answer = look("short", query, CASES[i].more, 400);
        const char *error = cJSON_GetObjectItemCaseSensitive(answer, "error")->valuestring;
        if (!strstr(error, CASES[i].says))
            fail_msg("%s: %s", CASES[i].more, error);
        cJSON_Delete(answer);
    }
    session_delete(&client, "short", 204);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
