/* test_sessions_window.c - sessions with a window: each row sees the first keys and the last ones,
 * with the bits of POST /v1/attention over all keys with the mask that says so; memory does not
 * grow with the length; what has left the window is refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, ROWS_MAX = 700 };
enum { Q_COLUMNS = Q_HEADS * HEAD_DIM, KV_COLUMNS = KV_HEADS * HEAD_DIM };

#define OUTPUTS "\"outputs\":[\"context\",\"weights\",\"lse\"]"

static struct fill numbers = { 11 };
static float keys[ROWS_MAX * KV_COLUMNS], values[ROWS_MAX * KV_COLUMNS];

struct windowed {
    const char *id;
    int64_t window, sinks, length;
};

static void make(const struct windowed *s, const char *dtype)
{
    char body[200];
    snprintf(body, sizeof body,
             "{\"model\":\"sdpa\",\"id\":\"%s\",\"dtype\":\"%s\",\"window\":%d,\"sinks\":%d}",
             s->id, dtype, (int)s->window, (int)s->sinks);
    session_make(&client, body);
}

static void add_query(struct request_text *text, const float *query, int64_t rows)
{
    request_text_add(text, "{\"q_heads\":%d,\"kv_heads\":%d," OUTPUTS ",\"query\":", Q_HEADS,
                     KV_HEADS);
    request_text_matrix(text, query, rows, Q_COLUMNS);
}

static void add_rows(struct request_text *text, int64_t first, int64_t count)
{
    request_text_add(text, ",\"key\":");
    request_text_matrix(text, keys + first * KV_COLUMNS, count, KV_COLUMNS);
    request_text_add(text, ",\"value\":");
    request_text_matrix(text, values + first * KV_COLUMNS, count, KV_COLUMNS);
}

static void add_mask(struct request_text *text, const struct windowed *s, int64_t past,
                     int64_t rows, int64_t kv_len)
{
    request_text_add(text, ",\"mask\":[");
    for (int64_t i = 0; i < rows; i++) {
        request_text_add(text, i > 0 ? ",[" : "[");
        for (int64_t k = 0; k < kv_len; k++) {
            const bool sees = k < s->sinks || k > past + i - s->window;
            request_text_add(text, "%s%s", k > 0 ? "," : "", sees ? "true" : "false");
        }
        request_text_add(text, "]");
    }
    request_text_add(text, "]");
}

/* Rows [past, past + rows) come, and the answer is that of attention over all with the mask. at is
 * the field of that name, or -1. */
static void step(struct windowed *s, int64_t past, int64_t rows, int64_t at, bool is_causal)
{
    struct request_text text = { .data = NULL }, all = { .data = NULL };
    float query[ROWS_MAX * Q_COLUMNS];
    const char *causal = is_causal ? ",\"causal\":true" : "";
    fill_floats(&numbers, query, rows * Q_COLUMNS, -2, 2);
    add_query(&text, query, rows);
    add_rows(&text, past, rows);
    if (at >= 0)
        request_text_add(&text, ",\"at\":%d", (int)at);
    request_text_add(&text, "%s}", causal);
    cJSON *answer = session_post(&client, s->id, "attention", text.data, 200);
    add_query(&all, query, rows);
    add_rows(&all, 0, past + rows);
    add_mask(&all, s, past, rows, past + rows);
    request_text_add(&all, ",\"model\":\"sdpa\",\"past_len\":%d%s}", (int)past, causal);
    cJSON *want = answer_post(&client, "/v1/attention", all.data);
    session_expect_same(answer, want);
    if (at < 0)
        s->length = past + rows;
    assert_int_equal(cJSON_GetObjectItem(answer, "layer_kv_len")->valueint, s->length);
    cJSON_Delete(answer);
    cJSON_Delete(want);
    free(text.data);
    free(all.data);
}

static void fill_rows(void)
{
    fill_floats(&numbers, keys, ROWS_MAX * KV_COLUMNS, -2, 2);
    fill_floats(&numbers, values, ROWS_MAX * KV_COLUMNS, -1, 1);
}

/* ------------------------------------------------------------------------- the bits -- */

/* Rows in random pieces, with windows smaller and larger than a page. */
static void test_bits(void **state)
{
    static const int64_t WINDOWS[][2] = { { 1, 0 }, { 5, 0 }, { 5, 4 }, { 64, 4 }, { 100, 70 } };
    (void)state;
    fill_rows();
    for (size_t i = 0; i < sizeof WINDOWS / sizeof WINDOWS[0]; i++) {
        struct windowed s = { "bits", WINDOWS[i][0], WINDOWS[i][1], 0 };
        make(&s, "f32");
        while (s.length < 450) {
            const int64_t most = fill_below(&numbers, 3) == 0 ? 120 : 4;
            step(&s, s.length, 1 + fill_below(&numbers, most), -1, fill_below(&numbers, 2) == 0);
        }
        step(&s, s.length - 2, 2, s.length - 2, true);
        session_delete(&client, "bits", 204);
    }
    session_wait_until_empty(&client);
}

static void test_forks(void **state)
{
    (void)state;
    fill_rows();
    struct windowed s = { "base", 40, 4, 0 };
    make(&s, "f32");
    while (s.length < 300)
        step(&s, s.length, 1 + fill_below(&numbers, 30), -1, true);
    cJSON_Delete(session_post(&client, "base", "fork", "{\"id\":\"fork\"}", 201));
    struct windowed fork = s;
    fork.id = "fork";
    for (int i = 0; i < 12; i++) {
        step(&s, s.length, 1 + fill_below(&numbers, 20), -1, true);
        step(&fork, fork.length, 1 + fill_below(&numbers, 20), -1, true);
    }
    session_delete(&client, "base", 204);
    step(&fork, fork.length, 3, -1, true);
    session_delete(&client, "fork", 204);
    session_wait_until_empty(&client);
}

/* The last append may be tried again, at whatever page it ended. */
static void test_tries_again(void **state)
{
    struct windowed s = { "again", 64, 0, 0 };
    (void)state;
    fill_rows();
    make(&s, "f32");
    while (s.length < 400) {
        const int64_t at = s.length;
        step(&s, at, 1, -1, true);
        step(&s, at, 1, at, true);
    }
    session_delete(&client, "again", 204);
    session_wait_until_empty(&client);
}

/* -------------------------------------------------------------------------- memory -- */

static void append_from(const char *id, int64_t first, int64_t rows)
{
    struct request_text text = { .data = NULL };
    float query[Q_COLUMNS] = { 0 };
    request_text_add(&text,
                     "{\"q_heads\":%d,\"kv_heads\":%d,\"outputs\":[\"lse\"],\"query\":", Q_HEADS,
                     KV_HEADS);
    request_text_matrix(&text, query, 1, Q_COLUMNS);
    add_rows(&text, first, rows);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, id, "attention", text.data, 200));
    free(text.data);
}

static void append(const char *id, int64_t rows)
{
    append_from(id, 0, rows);
}

static cJSON *look(const char *id)
{
    struct request_text text = { .data = NULL };
    float query[Q_COLUMNS];
    for (int i = 0; i < Q_COLUMNS; i++)
        query[i] = (float)(i % 7) - 3;
    add_query(&text, query, 1);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, id, "attention", text.data, 200);
    free(text.data);
    return answer;
}

/* Rows in F32 that a fork shares are still there when they become a group of int8. */
static void test_int8_forks(void **state)
{
    static const int64_t PIECES[] = { 64, 32, 14, 16, 2 };
    const struct windowed alone = { "alone", 2, 0, 0 }, base = { "base", 2, 0, 0 };
    int64_t first = 0;
    (void)state;
    fill_rows();
    make(&alone, "int8");
    make(&base, "int8");
    for (int i = 0; i < 5; first += PIECES[i++]) {
        if (i == 2) {
            cJSON_Delete(session_post(&client, "base", "fork", "{\"id\":\"fork\"}", 201));
            append_from("base", first, 1);
        }
        append_from("alone", first, PIECES[i]);
        append_from(i < 2 ? "base" : "fork", first, PIECES[i]);
    }
    cJSON *one = look("alone"), *other = look("fork");
    session_expect_same(other, one);
    cJSON_Delete(one);
    cJSON_Delete(other);
    session_delete(&client, "alone", 204);
    session_delete(&client, "base", 204);
    session_delete(&client, "fork", 204);
    session_wait_until_empty(&client);
}

/* However long it gets, it holds the pages of its window, of its first keys, and one of zeros. */
static void check_memory(const char *dtype)
{
    const struct windowed s = { "long", 256, 4, 0 };
    double most = 0;
    fill_rows();
    make(&s, dtype);
    for (int i = 0; i < 100; i++) {
        append("long", 100);
        const double held = session_number(&client, "long", "bytes_reserved");
        const double bytes = session_number(&client, "long", "bytes");
        assert_true(bytes <= held);
        if (i == 20)
            most = held;
        assert_true(i <= 20 || held <= 1.3 * most);
    }
    assert_int_equal((int)session_number(&client, "long", "kv_len"), 10000);
    session_delete(&client, "long", 204);
    session_wait_until_empty(&client);
}

static void test_memory(void **state)
{
    (void)state;
    check_memory("f32");
    check_memory("bf16");
    check_memory("int8");
}

/* ------------------------------------------------------------------- what is refused -- */

static void test_faults(void **state)
{
    struct windowed s = { "s", 70, 4, 0 };
    (void)state;
    fill_rows();
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"sinks\":4}", 400, "option",
                   "/sinks");
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"window\":0}", 400, "option",
                   "/window");
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"window\":\"a\"}", 400, "type",
                   "/window");
    make(&s, "f32");
    while (s.length < 400)
        step(&s, s.length, 10, -1, true);
    assert_int_equal((int)session_number(&client, "s", "window"), 70);
    assert_int_equal((int)session_number(&client, "s", "sinks"), 4);
    session_refused(&client, "s", "truncate", "{\"kv_len\":100}", 409, "conflict",
                    "left its window");
    session_refused(
        &client, "s", "attention",
        "{\"at\":100,\"q_heads\":4,\"kv_heads\":2,\"query\":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
        "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]}",
        409, "conflict", "left its window");
    session_refused(
        &client, "s", "attention",
        "{\"mask\":[[true]],\"q_heads\":4,\"kv_heads\":2,\"query\":[[0,0,0,0,0,0,0,0,0,0,"
        "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]}",
        400, "option", "has a window");
    session_refused(
        &client, "s", "attention",
        "{\"past_len\":0,\"q_heads\":4,\"kv_heads\":2,\"query\":[[0,0,0,0,0,0,0,0,0,0,0,"
        "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]}",
        409, "conflict", "left its window");
    cJSON_Delete(session_post(&client, "s", "truncate", "{\"kv_len\":390}", 200));
    s.length = 390;
    step(&s, s.length, 7, -1, true);
    cJSON_Delete(session_post(&client, "s", "truncate", "{\"kv_len\":3}", 200));
    s.length = 3;
    while (s.length < 250)
        step(&s, s.length, 31, -1, true);
    cJSON_Delete(session_post(&client, "s", "truncate", "{\"kv_len\":0}", 200));
    session_delete(&client, "s", 204);
    session_wait_until_empty(&client);
}

/* --------------------------------------------------------------- files, and a model -- */

/* A session that goes as a file and comes back goes on with the same bits. */
static void test_file(void **state)
{
    struct windowed s = { "here", 50, 4, 0 };
    (void)state;
    fill_rows();
    make(&s, "f32");
    while (s.length < 333)
        step(&s, s.length, 1 + fill_below(&numbers, 9), -1, true);
    struct http_response file = http_client_get(&client, "/v1/sessions/here?format=safetensors");
    assert_int_equal(file.status, 200);
    static const char *const AS_FILE[] = { "Content-Type: application/x-safetensors", NULL };
    const struct http_request put = { .method = "PUT",
                                      .path = "/v1/sessions/there",
                                      .headers = AS_FILE,
                                      .body = file.body,
                                      .body_size = file.body_size };
    struct http_response made = http_client_send(&client, &put);
    assert_int_equal(made.status, 201);
    session_delete(&client, "here", 204);
    s.id = "there";
    assert_int_equal((int)session_number(&client, "there", "window"), 50);
    session_refused(&client, "there", "truncate", "{\"kv_len\":100}", 409, "conflict",
                    "left its window");
    for (int i = 0; i < 5; i++)
        step(&s, s.length, 1 + fill_below(&numbers, 40), -1, true);
    http_response_free(&file);
    http_response_free(&made);
    session_delete(&client, "there", 204);
    session_wait_until_empty(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),        cmocka_unit_test(test_forks),
        cmocka_unit_test(test_tries_again), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_int8_forks),  cmocka_unit_test(test_faults),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_clear);
}
