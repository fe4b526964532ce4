/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_int8.c - sessions of int8 beside a model of what they hold: rows are floats until
 * 64 of them are a group, then scale * q. Random scripts of appends, looks, retries, truncations,
 * forks and files: every answer must be, to the bit, what POST /v1/attention says of the floats
 * that the model has. What such a session takes is about a quarter. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

enum {
    Q_HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 16,
    V_HEAD_DIM = 18,
    QUERY = Q_HEADS * HEAD_DIM,
    KEY = KV_HEADS * HEAD_DIM,
    VALUE = KV_HEADS * V_HEAD_DIM,
    GROUP = 64,
    ROWS_MAX = 700,
    APPEND_MAX = 150,
    SESSIONS = 4,
    STEPS = 160,
};

/* Rows as they came, and as attention reads them; those before floats are groups. */
struct mirror {
    bool is_there;
    int number; /* of its id */
    int64_t rows, floats;
    float key[ROWS_MAX * KEY], value[ROWS_MAX * VALUE];
    float key_seen[ROWS_MAX * KEY], value_seen[ROWS_MAX * VALUE];
};

static struct mirror mirrors[SESSIONS];
static int made;
static struct fill numbers;

static int64_t draw(int64_t end)
{
    return fill_below(&numbers, end);
}

static const char *id_of(const struct mirror *mirror)
{
    static char id[32];
    snprintf(id, sizeof id, "s%d", mirror->number);
    return id;
}

/* Channels of very different sizes, as keys of models have them; some rows of values are 0. */
static void fill_rows(struct mirror *mirror, int64_t first, int64_t count)
{
    fill_floats(&numbers, mirror->key + first * KEY, count * KEY, -1, 1);
    fill_floats(&numbers, mirror->value + first * VALUE, count * VALUE, -3, 3);
    for (int64_t i = first; i < first + count; i++) {
        for (int64_t d = 0; d < KEY; d += 5)
            mirror->key[i * KEY + d] *= d % 2 ? 20.0f : 0.01f;
        mirror->key[i * KEY + 7] = 0;
        for (int64_t c = 0; c < V_HEAD_DIM && draw(30) == 0; c++)
            mirror->value[i * VALUE + c] = 0;
    }
    memcpy(mirror->key_seen + first * KEY, mirror->key + first * KEY,
           (size_t)(count * KEY) * sizeof(float));
    memcpy(mirror->value_seen + first * VALUE, mirror->value + first * VALUE,
           (size_t)(count * VALUE) * sizeof(float));
}

/* Numbers `step` apart become scale * q with one scale for all of them. */
static void quantize(const float *from, float *to, int64_t count, int64_t step)
{
    float greatest = 0;
    for (int64_t i = 0; i < count; i++)
        greatest = fmaxf(greatest, fabsf(from[i * step]));
    const float scale = greatest / 127;
    for (int64_t i = 0; i < count; i++)
        to[i * step] = scale > 0 ? scale * rintf(from[i * step] / scale) : 0;
}

/* After rows were appended. */
static void make_groups(struct mirror *mirror)
{
    for (; mirror->rows - mirror->floats >= GROUP; mirror->floats += GROUP) {
        const int64_t first = mirror->floats;
        for (int64_t d = 0; d < KEY; d++)
            quantize(mirror->key + first * KEY + d, mirror->key_seen + first * KEY + d, GROUP, KEY);
        for (int64_t i = 0; i < GROUP * KV_HEADS; i++)
            quantize(mirror->value + first * VALUE + i * V_HEAD_DIM,
                     mirror->value_seen + first * VALUE + i * V_HEAD_DIM, V_HEAD_DIM, 1);
    }
}

/* --------------------------------------------------------------------- one call -- */

struct script_call {
    float query[3 * QUERY];
    int64_t q_len;
    const char *options;
};

static const char *const OPTIONS[] = {
    "",
    ",\"causal\":true",
    ",\"window_left\":20,\"causal\":true",
    ",\"softcap\":3,\"scale\":0.7",
    ",\"sinks\":[0.5,null,-1,2],\"alibi_slopes\":[1,0.5,0.25,0.125]",
    ",\"weight_map\":{\"top_k\":3}",
    ",\"normalizer\":\"sparsemax\"",
    ",\"dropout\":0.25,\"seed\":7",
};

enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static void draw_call(struct script_call *call)
{
    call->q_len = 1 + draw(3);
    call->options = OPTIONS[draw(OPTION_COUNT)];
    fill_floats(&numbers, call->query, call->q_len * QUERY, -1, 1);
}

static void write_call(struct request_text *text, const struct script_call *call)
{
    request_text_add(
        text,
        "\"q_heads\":%d,\"kv_heads\":%d,\"outputs\":[\"context\",\"weights\",\"lse\"]%s,"
        "\"query\":",
        Q_HEADS, KV_HEADS, call->options);
    request_text_matrix(text, call->query, call->q_len, QUERY);
}

static void write_rows(struct request_text *text, const float *key, const float *value,
                       int64_t count)
{
    request_text_add(text, ",\"key\":");
    request_text_matrix(text, key, count, KEY);
    request_text_add(text, ",\"value\":");
    request_text_matrix(text, value, count, VALUE);
}

/* The rows before `past` as they are seen, those of the call as they came. */
static void expect_same(const cJSON *answer, const struct mirror *mirror,
                        const struct script_call *call, int64_t past, int64_t end)
{
    static float key[ROWS_MAX * KEY], value[ROWS_MAX * VALUE];
    struct request_text text = { .data = NULL };
    if (end == 0)
        return;
    memcpy(key, mirror->key, sizeof key);
    memcpy(value, mirror->value, sizeof value);
    memcpy(key, mirror->key_seen, (size_t)(past * KEY) * sizeof *key);
    memcpy(value, mirror->value_seen, (size_t)(past * VALUE) * sizeof *value);
    request_text_add(&text, "{\"model\":\"sdpa\",\"past_len\":%d,", (int)past);
    write_call(&text, call);
    write_rows(&text, key, value, end);
    request_text_add(&text, "}");
    cJSON *want = answer_post(&client, "/v1/attention", text.data);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    free(text.data);
}

static void send_call(struct mirror *mirror, const struct script_call *call, int64_t past,
                      int64_t end, const char *more)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{");
    write_call(&text, call);
    if (end > past)
        write_rows(&text, mirror->key + past * KEY, mirror->value + past * VALUE, end - past);
    request_text_add(&text, "%s}", more);
    cJSON *answer = session_post(&client, id_of(mirror), "attention", text.data, 200);
    expect_same(answer, mirror, call, past, end);
    assert_int_equal(cJSON_GetObjectItem(answer, "layer_kv_len")->valueint, mirror->rows);
    cJSON_Delete(answer);
    free(text.data);
}

/* -------------------------------------------------------------------------- verbs -- */

static void append(struct mirror *mirror)
{
    struct script_call call;
    const int64_t past = mirror->rows;
    const int64_t most = ROWS_MAX - past < APPEND_MAX ? ROWS_MAX - past : APPEND_MAX;
    draw_call(&call);
    const int64_t count = most > 3 ? draw((draw(3) > 0 ? most : 3) + 1) : 0;
    fill_rows(mirror, past, count);
    const bool stays = draw(5) > 0;
    mirror->rows += stays ? count : 0;
    send_call(mirror, &call, past, past + count, stays ? "" : ",\"append\":false");
    make_groups(mirror);
}

/* The rows of an earlier call once more are those that are there; one other number is not. */
static void retry(struct mirror *mirror)
{
    struct script_call call;
    char more[32];
    if (mirror->rows == 0)
        return;
    const int64_t at = draw(mirror->rows);
    const int64_t most = mirror->rows - at < APPEND_MAX ? mirror->rows - at : APPEND_MAX;
    draw_call(&call);
    snprintf(more, sizeof more, ",\"at\":%d", (int)at);
    send_call(mirror, &call, at, at + draw(most + 1), more);
}

static void retry_wrong(const struct mirror *mirror)
{
    struct request_text text = { .data = NULL };
    struct script_call call;
    float key[KEY], value[VALUE];
    if (mirror->rows == 0)
        return;
    const int64_t at = draw(mirror->rows);
    draw_call(&call);
    memcpy(key, mirror->key + at * KEY, sizeof key);
    memcpy(value, mirror->value + at * VALUE, sizeof value);
    if (draw(2))
        value[draw(VALUE)] += 9;
    else
        key[draw(KEY)] += 30;
    request_text_add(&text, "{");
    write_call(&text, &call);
    write_rows(&text, key, value, 1);
    request_text_add(&text, ",\"at\":%d}", (int)at);
    session_refused(&client, id_of(mirror), "attention", text.data, 409, "conflict", "other keys");
    free(text.data);
}

static void truncate_one(struct mirror *mirror)
{
    char body[32];
    const int64_t kv_len = mirror->rows - draw(mirror->rows < 90 ? mirror->rows + 1 : 90);
    snprintf(body, sizeof body, JSON({"kv_len":%d}), (int)kv_len);
    cJSON_Delete(session_post(&client, id_of(mirror), "truncate", body, 200));
    mirror->rows = kv_len;
    if (mirror->floats > kv_len)
        mirror->floats = kv_len;
}

static void fork_one(const struct mirror *mirror)
{
    char body[32];
    struct mirror *other = &mirrors[draw(SESSIONS)];
    if (other == mirror)
        return;
    if (other->is_there)
        session_delete(&client, id_of(other), 204);
    const int number = made++;
    snprintf(body, sizeof body, JSON({"id":"s%d"}), number);
    cJSON_Delete(session_post(&client, id_of(mirror), "fork", body, 201));
    *other = *mirror;
    other->number = number;
}

/* Goes on in the session that its file makes. */
static void move_one(struct mirror *mirror)
{
    struct session_bytes file = session_bytes_get(&client, id_of(mirror));
    session_delete(&client, id_of(mirror), 204);
    mirror->number = made++;
    session_bytes_put(&client, id_of(mirror), file, 201);
    session_bytes_free(&file);
}

static void make_one(struct mirror *mirror)
{
    char body[80];
    if (mirror->is_there)
        session_delete(&client, id_of(mirror), 204);
    mirror->is_there = true;
    mirror->number = made++;
    mirror->rows = mirror->floats = 0;
    snprintf(body, sizeof body, JSON({"model":"sdpa","dtype":"int8","id":"%s"}), id_of(mirror));
    session_make(&client, body);
}

static void run_script(uint64_t seed)
{
    numbers.state = seed;
    for (int i = 0; i < SESSIONS; i++)
        mirrors[i].is_there = false;
    make_one(&mirrors[0]);
    for (int step = 0; step < STEPS; step++) {
        struct mirror *mirror = &mirrors[draw(SESSIONS)];
        const int64_t verb = draw(22);
        if (verb == 0 || !mirror->is_there)
            make_one(mirror);
        else if (verb < 4)
            fork_one(mirror);
        else if (verb < 7)
            truncate_one(mirror);
        else if (verb < 9)
            retry(mirror);
        else if (verb < 11)
            retry_wrong(mirror);
        else if (verb < 13)
            move_one(mirror);
        else
            append(mirror);
    }
    for (int i = 0; i < SESSIONS; i++)
        if (mirrors[i].is_there)
            session_delete(&client, id_of(&mirrors[i]), 204);
}

TEST(scripts)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_script(seed);
    session_wait_until_empty(&client);
}

/* ------------------------------------------------------------------------- others -- */

static void append_random(const char *id, int64_t rows, uint64_t seed)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"q_heads\":2,\"kv_heads\":2,\"outputs\":[\"lse\"],\"query\":");
    request_text_random(&text, seed, 1, 128);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, seed + 1, rows, 128);
    request_text_add(&text, ",\"value\":");
    request_text_random(&text, seed + 2, rows, 128);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, id, "attention", text.data, 200));
    free(text.data);
}

/* Beside a session of f32 with the same rows: scales and the rows without a group count too. */
TEST(memory)
{
    session_make(&client, JSON({"model":"sdpa","id":"wide"}));
    session_make(&client, JSON({"model":"sdpa","dtype":"int8","id":"narrow"}));
    for (uint64_t i = 0; i < 9; i++) {
        append_random("wide", 230, 10 * i);
        append_random("narrow", 230, 10 * i);
    }
    const double rows = 9 * 230, floats = 2070 % GROUP, groups = rows - floats;
    const double bytes = floats * 256 * 4 + groups * (256 + 2 * 4 + 2 * 64 * 4.0 / GROUP);
    assert_true(session_number(&client, "narrow", "bytes") == bytes);
    assert_true(bytes < 0.29 * session_number(&client, "wide", "bytes"));
    assert_true(session_number(&client, "narrow", "bytes_reserved")
                < 0.35 * session_number(&client, "wide", "bytes_reserved"));
    session_delete(&client, "wide", 204);
    session_delete(&client, "narrow", 204);
    session_wait_until_empty(&client);
}

/* A number that is not finite has no scale: the call is refused, and the session is as before. */
TEST(nonfinite)
{
    session_make(&client, JSON({"model":"sdpa","dtype":"int8","id":"finite"}));
    session_refused(&client, "finite", "attention",
                    "{\"query\":[[1,0]],\"key\":[[1,0],[NaN,1]],\"value\":[[1,0],[0,1]]}", 400,
                    "nonfinite", "the key of row 1");
    session_refused(&client, "finite", "attention",
                    "{\"query\":[[1,0]],\"key\":[[1,0]],\"value\":[[-Infinity,0]]}", 400,
                    "nonfinite", "the value of row 0");
    assert_true(session_number(&client, "finite", "kv_len") == 0);
    session_delete(&client, "finite", 204);
}

/* The greatest and the least floats become groups without infinities. */
TEST(extremes)
{
    struct request_text text = { .data = NULL };
    session_make(&client, JSON({"model":"sdpa","dtype":"int8","id":"far"}));
    request_text_add(&text, "{\"query\":[[0,0]],\"outputs\":[\"context\"],\"key\":[[1,0]");
    for (int i = 1; i < GROUP; i++)
        request_text_add(&text, ",[%s]", i % 2 ? "3.4028234e38,1e-45" : "-1,1e-40");
    request_text_add(&text, "],\"value\":[[1,1]");
    for (int i = 1; i < GROUP; i++)
        request_text_add(&text, ",[0,%s]", i == 9 ? "3.4028234e38" : "1e-45");
    request_text_add(&text, "]}");
    cJSON_Delete(session_post(&client, "far", "attention", text.data, 200));
    cJSON *answer = session_post(&client, "far", "attention",
                                 "{\"query\":[[0,0]],\"outputs\":[\"context\"]}", 200);
    const cJSON *context = cJSON_GetObjectItem(answer, "context")->child;
    assert_true(fabs(context->child->valuedouble - 1.0 / GROUP) < 1e-6);
    assert_true(fabs(context->child->next->valuedouble / (3.4028234e38 / GROUP) - 1) < 1e-6);
    cJSON_Delete(answer);
    free(text.data);
    session_delete(&client, "far", 204);
}

static int start(void **state)
{
    fixture_serve("--json-nonfinite=allow");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
