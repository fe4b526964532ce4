/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_window.c - sessions with a window: each row sees the first keys and the last ones,
 * with the bits of POST /v1/attention over all keys with the mask that says so; what has left
 * the window is refused in words. */
#include "answer.h"
#include "fixture.h"
#include "session_client.h"
#include "test.h"
#include "windowed.h"

/* All keys of the session come one after the other. */
static void step(struct windowed *s, int64_t past, int64_t rows, int64_t at, bool is_causal)
{
    windowed_step(&client, s, past, rows, at, is_causal);
}

/* ------------------------------------------------------------------------- the bits -- */

/* Rows in random pieces, with windows smaller and larger than a page. */
TEST(bits)
{
    static const int64_t WINDOWS[][2] = { { 1, 0 }, { 5, 0 }, { 5, 4 }, { 64, 4 }, { 100, 70 } };
    windowed_fill();
    for (size_t i = 0; i < sizeof WINDOWS / sizeof WINDOWS[0]; i++) {
        struct windowed s = { .id = "bits", .window = WINDOWS[i][0], .first_keys = WINDOWS[i][1] };
        windowed_make(&client, &s);
        while (s.length < 450) {
            const int64_t most = windowed_below(3) == 0 ? 120 : 4;
            step(&s, s.length, 1 + windowed_below(most), -1, windowed_below(2) == 0);
        }
        step(&s, s.length - 2, 2, s.length - 2, true);
        session_delete(&client, "bits", 204);
    }
    session_wait_until_empty(&client);
}

TEST(forks)
{
    windowed_fill();
    struct windowed s = { .id = "base", .window = 40, .first_keys = 4 };
    windowed_make(&client, &s);
    while (s.length < 300)
        step(&s, s.length, 1 + windowed_below(30), -1, true);
    cJSON_Delete(session_post(&client, "base", "fork", JSON({"id":"fork"}), 201));
    struct windowed fork = s;
    fork.id = "fork";
    for (int i = 0; i < 12; i++) {
        step(&s, s.length, 1 + windowed_below(20), -1, true);
        step(&fork, fork.length, 1 + windowed_below(20), -1, true);
    }
    session_delete(&client, "base", 204);
    step(&fork, fork.length, 3, -1, true);
    session_delete(&client, "fork", 204);
    session_wait_until_empty(&client);
}

/* The last append may be tried again, at whatever page it ended. */
TEST(tries_again)
{
    struct windowed s = { .id = "again", .window = 64, .first_keys = 0 };
    windowed_fill();
    windowed_make(&client, &s);
    while (s.length < 400) {
        const int64_t at = s.length;
        step(&s, at, 1, -1, true);
        step(&s, at, 1, at, true);
    }
    session_delete(&client, "again", 204);
    session_wait_until_empty(&client);
}

/* ------------------------------------------------------------------- what is refused -- */

/* Keys that are gone cannot be compared with those of a retry. */
static void try_again(const char *id, int64_t at, int64_t rows)
{
    char *text = windowed_rows(at, rows);
    session_refused(&client, id, "attention", text, 409, "conflict", "are gone");
    free(text);
}

TEST(faults)
{
    struct windowed s = { .id = "s", .window = 70, .first_keys = 4 };
    windowed_fill();
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"first_keys\":4}", 400, "option",
                   "/first_keys");
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"window\":0}", 400, "option",
                   "/window");
    answer_refused(&client, "/v1/sessions", "{\"model\":\"sdpa\",\"window\":\"a\"}", 400, "type",
                   "/window");
    windowed_make(&client, &s);
    while (s.length < 400)
        step(&s, s.length, 10, -1, true);
    assert_int_equal((int)session_number(&client, "s", "window"), 70);
    assert_int_equal((int)session_number(&client, "s", "first_keys"), 4);
    session_refused(&client, "s", "truncate", "{\"kv_len\":100}", 409, "conflict",
                    "left its window");
    session_refused(
        &client, "s", "attention",
        "{\"at\":100,\"q_heads\":4,\"kv_heads\":2,\"query\":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
        "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]}",
        409, "conflict", "left its window");
    try_again("s", 0, 30);
    try_again("s", 2, 398);
    try_again("s", 100, 300);
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
    cJSON_Delete(session_post(&client, "s", "truncate", JSON({"kv_len":390}), 200));
    s.length = 390;
    step(&s, s.length, 7, -1, true);
    cJSON_Delete(session_post(&client, "s", "truncate", JSON({"kv_len":3}), 200));
    s.length = 3;
    while (s.length < 250)
        step(&s, s.length, 31, -1, true);
    cJSON_Delete(session_post(&client, "s", "truncate", JSON({"kv_len":0}), 200));
    session_delete(&client, "s", 204);
    session_wait_until_empty(&client);
}

ALL_TESTS(fixture_start, fixture_clear);
