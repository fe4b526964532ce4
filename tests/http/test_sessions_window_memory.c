/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_window_memory.c - what sessions with a window hold: the memory of the window,
 * however long they get and whatever came at once; the bits stay those of attention over all keys.
 */
#include "fixture.h"
#include "session_client.h"
#include "test.h"
#include "windowed.h"

enum { ROW_BYTES = 2 * 2 * 8 * 4 }; /* key and value of 2 heads of 8 floats */

static double held(const char *id)
{
    return session_number(&client, id, "bytes_reserved");
}

static void remove_all(const char *const *ids)
{
    for (; *ids; ids++)
        session_delete(&client, *ids, 204);
    session_wait_until_empty(&client);
}

/* However long it gets, it holds the pages of its window and of its first keys. */
static void check_length(const char *dtype)
{
    struct windowed s = { .id = "long", .window = 256, .first_keys = 4, .dtype = dtype };
    double most = 0;
    windowed_fill();
    windowed_make(&client, &s);
    for (int i = 0; i < 100; i++) {
        windowed_append(&client, &s, 100);
        assert_true(session_number(&client, "long", "bytes") <= held("long"));
        if (i == 20)
            most = held("long");
        assert_true(i <= 20 || held("long") <= 1.3 * most);
    }
    assert_int_equal((int)session_number(&client, "long", "kv_len"), 10000);
    remove_all((const char *const[]){ "long", NULL });
}

TEST(length)
{
    check_length("f32");
    check_length("bf16");
    check_length("int8");
}

/* Many rows that came at once go when the next ones come, but for those that are still seen. */
static void check_many_at_once(const struct windowed *kind)
{
    const double most = (double)(3 * 64 + 2 * kind->window + kind->first_keys) * ROW_BYTES;
    struct windowed s = *kind;
    windowed_fill();
    windowed_make(&client, &s);
    windowed_append(&client, &s, 3000);
    for (int i = 0; i < 4; i++) {
        windowed_step(&client, &s, s.length, 1, -1, true);
        assert_true(held(s.id) <= most);
    }
    windowed_step(&client, &s, s.length - 1, 1, s.length - 1, true);
    while (s.length < 3200)
        windowed_step(&client, &s, s.length, 1 + windowed_below(30), -1, windowed_below(2));
    assert_true(held(s.id) <= most);
    cJSON_Delete(session_post(&client, s.id, "truncate", JSON({"kv_len":0}), 200));
    remove_all((const char *const[]){ s.id, s.beside, NULL });
}

TEST(many_at_once)
{
    check_many_at_once(&(struct windowed){ .id = "once", .window = 64, .first_keys = 4 });
    check_many_at_once(&(struct windowed){ .id = "once", .window = 64, .first_keys = 0 });
    check_many_at_once(&(struct windowed){ .id = "once", .window = 1, .first_keys = 70 });
    check_many_at_once(&(struct windowed){ .id = "once", .window = 300, .first_keys = 130 });
    check_many_at_once(&(struct windowed){
        .id = "once", .window = 100, .first_keys = 4, .dtype = "int8", .beside = "it" });
    check_many_at_once(&(struct windowed){
        .id = "once", .window = 70, .first_keys = 64, .dtype = "int8", .beside = "it" });
}

/* A fork has what it shares, whatever the other one copies and gives back. */
TEST(forks)
{
    struct windowed s = { .id = "base", .window = 64, .first_keys = 4 };
    windowed_fill();
    windowed_make(&client, &s);
    windowed_append(&client, &s, 1000);
    cJSON_Delete(session_post(&client, "base", "fork", JSON({"id":"fork"}), 201));
    struct windowed fork = s;
    fork.id = "fork";
    for (int i = 0; i < 5; i++)
        windowed_step(&client, &s, s.length, 1 + windowed_below(20), -1, true);
    assert_true(held("base") <= 4 * 64 * ROW_BYTES);
    windowed_step(&client, &fork, 998, 2, 998, true);
    for (int i = 0; i < 5; i++)
        windowed_step(&client, &fork, fork.length, 1 + windowed_below(20), -1, true);
    assert_true(held("fork") <= 4 * 64 * ROW_BYTES);
    windowed_step(&client, &s, s.length, 3, -1, true);
    remove_all((const char *const[]){ "base", "fork", NULL });
}

/* Rows in F32 that a fork shares are still there when they become a group of int8. */
TEST(int8_forks)
{
    static const int64_t PIECES[] = { 64, 32, 14, 16, 2 };
    struct windowed alone = { .id = "alone", .window = 2, .dtype = "int8" };
    struct windowed base = { .id = "base", .window = 2, .dtype = "int8" }, fork = base;
    windowed_fill();
    windowed_make(&client, &alone);
    windowed_make(&client, &base);
    for (int i = 0; i < 5; i++) {
        if (i == 2) {
            cJSON_Delete(session_post(&client, "base", "fork", JSON({"id":"fork"}), 201));
            fork = base;
            fork.id = "fork";
            windowed_append(&client, &base, 1);
        }
        windowed_append(&client, &alone, PIECES[i]);
        windowed_append(&client, i < 2 ? &base : &fork, PIECES[i]);
    }
    cJSON *one = windowed_look(&client, "alone"), *other = windowed_look(&client, "fork");
    session_expect_same(other, one);
    cJSON_Delete(one);
    cJSON_Delete(other);
    remove_all((const char *const[]){ "alone", "base", "fork", NULL });
}

/* In a budget that is full a session goes on: what it gives back needs no room. */
TEST(full)
{
    struct windowed s = { .id = "full", .window = 100, .first_keys = 4 };
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--session-memory-max", "40KiB", NULL);
    http_client_init(&own, other.port);
    windowed_fill();
    windowed_make(&own, &s);
    windowed_append(&own, &s, 150);
    for (int i = 0; i < 50; i++)
        windowed_append(&own, &s, 8);
    session_delete(&own, "full", 204);
    session_wait_until_empty(&own);
    http_client_free(&own);
    daemon_stop(&other);
}

ALL_TESTS(fixture_start, fixture_clear);
