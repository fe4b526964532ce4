/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_window_file.c - sessions with a window as files, and over a restart: what has gone
 * is not in the file and takes no room, and what comes back goes on with equal bits; files that lie
 * about what has gone are refused. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"
#include "windowed.h"

enum { ROW_BYTES = 2 * 2 * 8 * 4 }; /* key and value of 2 heads of 8 floats */

static void serve(const char *memory_max)
{
    fixture_serve("--models", "examples/models", "--session-save", directory,
                  "--session-memory-max", memory_max);
}

static int start(void **state)
{
    const int failed = fixture_make_directory(state);
    serve("1MiB");
    return failed;
}

/* ----------------------------------------------------------------------- there and back -- */

/* In pieces of at most so many rows, then there and back, and on: the last append is tried again
 * first. */
static void check_file(const struct windowed *kind, int64_t length, int64_t most)
{
    struct windowed s = *kind;
    int64_t at = 0;
    windowed_make(&client, &s);
    while (s.length < length) {
        at = s.length;
        windowed_append(&client, &s, 1 + windowed_below(most));
    }
    const double held = session_number(&client, s.id, "bytes_reserved");
    const double bytes = session_number(&client, s.id, "bytes");
    struct session_bytes file = session_bytes_get(&client, s.id);
    assert_true((double)file.size <= bytes + 4096);
    session_delete(&client, s.id, 204);
    s.id = "there";
    session_bytes_put(&client, s.id, file, 201);
    assert_true(session_number(&client, s.id, "bytes_reserved") <= held + 4 * 64 * ROW_BYTES);
    assert_true(session_number(&client, s.id, "bytes") == bytes);
    assert_int_equal((int)session_number(&client, s.id, "window"), s.window);
    assert_int_equal((int)session_number(&client, s.id, "first_keys"), s.first_keys);
    if (!s.beside)
        windowed_step(&client, &s, at, s.length - at, at, true);
    for (int i = 0; i < 8; i++)
        windowed_step(&client, &s, s.length, 1 + windowed_below(40), -1, windowed_below(2));
    session_bytes_free(&file);
    session_delete(&client, "there", 204);
    if (s.beside)
        session_delete(&client, s.beside, 204);
    session_wait_until_empty(&client);
}

TEST(goes_on)
{
    static const int64_t WINDOWS[][2] = {
        { 50, 4 }, { 50, 0 }, { 1, 1 }, { 64, 64 }, { 300, 130 }
    };
    for (int i = 0; i < 5; i++) {
        struct windowed s = { .id = "here", .window = WINDOWS[i][0], .first_keys = WINDOWS[i][1] };
        windowed_fill();
        check_file(&s, 700, 30);
        check_file(&s, 1500, 600);
        s.dtype = "int8";
        s.beside = "beside";
        check_file(&s, 700, 30);
        check_file(&s, 1500, 600);
    }
}

/* Nothing has gone yet, or nothing is there. */
TEST(short)
{
    struct windowed s = { .id = "here", .window = 50, .first_keys = 4 };
    windowed_fill();
    check_file(&s, 20, 5);
    windowed_make(&client, &s);
    struct session_bytes file = session_bytes_get(&client, "here");
    session_bytes_put(&client, "there", file, 201);
    session_bytes_free(&file);
    session_delete(&client, "here", 204);
    s.id = "there";
    windowed_step(&client, &s, 0, 70, -1, true);
    session_delete(&client, "there", 204);
}

/* --------------------------------------------------------------- layers of one model -- */

static cJSON *enter(const char *id, int layer, int seed, int rows)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"layer\":%d,\"outputs\":[\"context\",\"lse\"],\"input\":", layer);
    request_text_random(&text, (uint64_t)seed, rows, 64);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, id, "attention", text.data, 200);
    free(text.data);
    return answer;
}

/* Layers of unequal length have each lost their own keys. */
TEST(layers)
{
    session_make(&client, JSON({"model":"stories260K","id":"here","layers":[0,1],"window":100}));
    for (int i = 0; i < 10; i++)
        cJSON_Delete(enter("here", 0, i, 50));
    for (int i = 0; i < 3; i++)
        cJSON_Delete(enter("here", 1, i, 40));
    struct session_bytes file = session_bytes_get(&client, "here");
    session_bytes_put(&client, "there", file, 201);
    for (int layer = 0; layer < 2; layer++)
        for (int i = 0; i < 4; i++) {
            cJSON *one = enter("here", layer, 20 + i, 1 + 30 * i);
            cJSON *other = enter("there", layer, 20 + i, 1 + 30 * i);
            session_expect_same(other, one);
            cJSON_Delete(one);
            cJSON_Delete(other);
        }
    session_bytes_free(&file);
    session_delete(&client, "here", 204);
    session_delete(&client, "there", 204);
}

/* ------------------------------------------------------------------------ a restart -- */

/* A session that is far longer than the budget comes back, and twice. */
TEST(restart)
{
    struct windowed s = { .id = "long", .window = 100, .first_keys = 4 };
    windowed_fill();
    fixture_stop(NULL);
    serve("64KiB");
    windowed_make(&client, &s);
    while (s.length < 3500)
        windowed_append(&client, &s, 50);
    for (int i = 0; i < 2; i++) {
        fixture_stop(NULL);
        serve("64KiB");
        windowed_step(&client, &s, s.length - 20, 20, s.length - 20, true);
        windowed_step(&client, &s, s.length, 20, -1, true);
    }
    session_delete(&client, "long", 204);
    session_wait_until_empty(&client);
}

/* ------------------------------------------------------------------- a million of keys -- */

/* ----------------------------------------------------------------------------- lies -- */

struct lie {
    const char *dtype, *member;
    const char *value; /* JSON; NULL: the member is taken away */
    const char *code, *says;
};

static const struct lie LIES[] = {
    { "f32", "window", NULL, "option", "first_keys and no window" },
    { "f32", "window", "\"0\"", "option", "window is '0'" },
    { "f32", "window", "\"200\"", "length", "needs more of them" },
    { "f32", "first_keys", NULL, "field", "first_keys is missing" },
    { "f32", "first_keys", "\"100000\"", "length", "needs more of them" },
    { "f32", "sinks", "\"4\"", "duplicate", "first_keys and sinks, which mean the same" },
    { "f32", "gone.0", "\"0\"", "option", "gone.0 is '0'" },
    { "f32", "gone.0", "\"-4\"", "option", "gone.0 is '-4'" },
    { "f32", "gone.0", "\"9223372036854775807\"", "option", "gone.0 is '922" },
    { "f32", "gone.0", "\"2147483648\"", "length", "expected at most 2147483648" },
    { "f32", "gone.1", "\"7\"", "field", "no such layer" },
    { "f32", "gone.00", "\"7\"", "field", "no such layer" },
    { "f32", "gone.", "\"7\"", "field", "no such layer" },
    { "f32", "dropped.0", "\"7\"", "field", "'dropped.0' in __metadata__" },
    { "f32", "kv_len_max", "\"500\"", "length", "more than its kv_len_max 500" },
    { "int8", "first_keys", "\"5\"", "option", "no group of layers.0.group_rows ends at 5" },
    { "int8", "first_keys", "\"20\"", "option", "no group of layers.0.group_rows ends at 20" },
};

static void tell(const struct session_bytes *file, const struct lie *lie)
{
    const char *numbers;
    cJSON *header = session_bytes_header(*file, &numbers);
    cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    cJSON_DeleteItemFromObjectCaseSensitive(metadata, lie->member);
    if (lie->value)
        cJSON_AddItemToObject(metadata, lie->member, cJSON_Parse(lie->value));
    struct session_bytes lying =
        session_bytes_make(header, numbers, (size_t)(file->bytes + file->size - numbers), true);
    session_bytes_refused(&client, "lie", lying, 400, lie->code, lie->says);
    session_bytes_free(&lying);
    cJSON_Delete(header);
}

TEST(lies)
{
    static const char *const DTYPES[] = { "f32", "int8" };
    for (int d = 0; d < 2; d++) {
        struct windowed s = { .id = "s", .window = 70, .first_keys = 4, .dtype = DTYPES[d] };
        windowed_make(&client, &s);
        while (s.length < 1000)
            windowed_append(&client, &s, 20);
        struct session_bytes file = session_bytes_get(&client, "s");
        for (size_t i = 0; i < sizeof LIES / sizeof LIES[0]; i++)
            if (strcmp(LIES[i].dtype, DTYPES[d]) == 0)
                tell(&file, &LIES[i]);
        session_bytes_free(&file);
        session_delete(&client, "s", 204);
    }
    session_get(&client, "lie", 404);
    session_wait_until_empty(&client);
}

/* Keys that are gone take no memory of a call either: not even a byte for each row that does not
 * see them. */
TEST(long)
{
    struct windowed s = { .id = "s", .window = 70, .first_keys = 4 };
    const char *numbers;
    fixture_stop(NULL);
    serve("1MiB");
    windowed_make(&client, &s);
    windowed_append(&client, &s, 500);
    windowed_append(&client, &s, 1);
    struct session_bytes file = session_bytes_get(&client, "s");
    cJSON *header = session_bytes_header(file, &numbers);
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItem(header, "__metadata__"), "gone.0",
                                           cJSON_CreateString("1000000"));
    struct session_bytes other =
        session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
    session_bytes_put(&client, "other", other, 201);
    assert_true(session_number(&client, "other", "kv_len") > 1e6);
    s.id = "other";
    windowed_append(&client, &s, 1);
    const size_t before = daemon_memory_peak_bytes(&server);
    windowed_append(&client, &s, 500);
    assert_true(daemon_memory_peak_bytes(&server) - before < 200000000);
    session_delete(&client, "s", 204);
    session_delete(&client, "other", 204);
    session_bytes_free(&file);
    session_bytes_free(&other);
    cJSON_Delete(header);
}

/* Files of earlier builds call them sinks. */
TEST(older_name)
{
    struct windowed s = { .id = "s", .window = 70, .first_keys = 4 };
    const char *numbers;
    windowed_make(&client, &s);
    while (s.length < 200)
        windowed_append(&client, &s, 20);
    struct session_bytes file = session_bytes_get(&client, "s");
    cJSON *header = session_bytes_header(file, &numbers);
    cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    cJSON *first_keys = cJSON_DetachItemFromObjectCaseSensitive(metadata, "first_keys");
    assert_string_equal(first_keys->valuestring, "4");
    cJSON_AddItemToObject(metadata, "sinks", first_keys);
    struct session_bytes older =
        session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
    session_bytes_put(&client, "older", older, 201);
    s.id = "older";
    assert_int_equal((int)session_number(&client, s.id, "first_keys"), 4);
    windowed_append(&client, &s, 20);
    session_delete(&client, "s", 204);
    session_delete(&client, "older", 204);
    session_bytes_free(&older);
    session_bytes_free(&file);
    cJSON_Delete(header);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
