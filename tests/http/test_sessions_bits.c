/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_bits.c - random scripts of everything that is done to sessions. The test keeps the
 * rows that each session has to hold; every answer must be, to the bit, what POST /v1/attention
 * says of the same keys and values. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "problem_count.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

enum {
    Q_HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 8,
    V_HEAD_DIM = 5,
    QUERY = Q_HEADS * HEAD_DIM,
    KEY = KV_HEADS * HEAD_DIM,
    VALUE = KV_HEADS * V_HEAD_DIM,
    ROWS_MAX = 700,
    APPEND_MAX = 90,
    SESSIONS = 5,
    CLIENTS = 3,
    SCRIPTS = 100, /* one of many steps, the others of few */
    STEPS = 260,
    STEPS_SHORT = 5,
};

struct mirror {
    bool is_there;
    int number; /* of its id */
    int64_t rows;
    float key[ROWS_MAX * KEY], value[ROWS_MAX * VALUE];
};

static struct mirror mirrors[SESSIONS];
static int made;
static struct fill numbers;
static struct http_client clients[CLIENTS];

static int64_t draw(int64_t end)
{
    return fill_below(&numbers, end);
}

/* The sessions are those of several clients. */
static struct http_client *any_client(void)
{
    return &clients[draw(CLIENTS)];
}

static void fill(float *values, int64_t count)
{
    fill_floats(&numbers, values, count, -1, 1);
}

static const char *id_of(const struct mirror *mirror)
{
    static char id[32];
    snprintf(id, sizeof id, "s%d", mirror->number);
    return id;
}

/* --------------------------------------------------------------------- one call -- */

/* A call that sends count rows behind those of the mirror, and queries. */
struct script_call {
    float query[3 * QUERY];
    int64_t q_len, count;
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

static void write_rows(struct request_text *text, const struct mirror *mirror, int64_t first,
                       int64_t count)
{
    request_text_add(text, ",\"key\":");
    request_text_matrix(text, mirror->key + first * KEY, count, KEY);
    request_text_add(text, ",\"value\":");
    request_text_matrix(text, mirror->value + first * VALUE, count, VALUE);
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

static void draw_call(struct script_call *call)
{
    call->q_len = 1 + draw(3);
    call->count = 0;
    call->options = OPTIONS[draw(OPTION_COUNT)];
    fill(call->query, call->q_len * QUERY);
}

/* The answer must be what POST /v1/attention says of the first rows of the mirror; past is where
 * the call is. Without keys /v1/attention does not know how wide a value is. */
static void expect_same(const cJSON *answer, const struct mirror *mirror,
                        const struct script_call *call, int64_t past, int64_t rows)
{
    struct request_text text = { .data = NULL };
    if (rows == 0)
        return;
    request_text_add(&text, "{\"model\":\"sdpa\",\"past_len\":%d,", (int)past);
    write_call(&text, call);
    write_rows(&text, mirror, 0, rows);
    request_text_add(&text, "}");
    cJSON *want = answer_post(any_client(), "/v1/attention", text.data);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    free(text.data);
}

static void expect_lengths(const cJSON *answer, const struct mirror *mirror)
{
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, mirror->rows);
    assert_int_equal(cJSON_GetObjectItem(answer, "layer_kv_len")->valueint, mirror->rows);
}

/* Sends the rows of the mirror from `past` to `end`, which it has or is about to have. */
static void send_call(struct mirror *mirror, const struct script_call *call, int64_t past,
                      int64_t end, const char *more)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{");
    write_call(&text, call);
    if (end > past)
        write_rows(&text, mirror, past, end - past);
    request_text_add(&text, "%s}", more);
    cJSON *answer = session_post(any_client(), id_of(mirror), "attention", text.data, 200);
    expect_same(answer, mirror, call, past, end);
    expect_lengths(answer, mirror);
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
    const int64_t count = most > 0 ? draw((draw(2) ? most : 3) + 1) : 0;
    if (past + count > ROWS_MAX)
        return;
    fill(mirror->key + past * KEY, count * KEY);
    fill(mirror->value + past * VALUE, count * VALUE);
    const bool stays = draw(5) > 0;
    mirror->rows += stays ? count : 0;
    send_call(mirror, &call, past, past + count, stays ? "" : ",\"append\":false");
}

/* The rows of an earlier call once more: the same answer, and nothing changes. */
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

static void truncate_one(struct mirror *mirror)
{
    char body[32];
    const int64_t kv_len = draw(mirror->rows + 1);
    snprintf(body, sizeof body, JSON({"kv_len":%d}), (int)kv_len);
    cJSON *answer = session_post(any_client(), id_of(mirror), "truncate", body, 200);
    mirror->rows = kv_len;
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, kv_len);
    cJSON_Delete(answer);
}

static void fork_one(struct mirror *mirror)
{
    char body[32];
    struct mirror *other = &mirrors[draw(SESSIONS)];
    if (other == mirror)
        return;
    if (other->is_there)
        session_delete(any_client(), id_of(other), 204);
    const int number = made++;
    snprintf(body, sizeof body, JSON({"id":"s%d"}), number);
    cJSON_Delete(session_post(any_client(), id_of(mirror), "fork", body, 201));
    *other = *mirror;
    other->number = number;
}

static void make_one(struct mirror *mirror)
{
    char body[64];
    if (mirror->is_there)
        session_delete(any_client(), id_of(mirror), 204);
    mirror->is_there = true;
    mirror->number = made++;
    mirror->rows = 0;
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%s"}), id_of(mirror));
    session_make(any_client(), body);
}

/* All sessions in one request, each with rows of its own. */
static void batch(void)
{
    struct script_call calls[SESSIONS];
    struct request_text text = { .data = NULL };
    int64_t past[SESSIONS];
    int count = 0;
    request_text_add(&text, "{\"requests\":[");
    for (int i = 0; i < SESSIONS; i++) {
        struct mirror *mirror = &mirrors[i];
        past[i] = mirror->rows;
        if (!mirror->is_there || mirror->rows + 3 > ROWS_MAX)
            continue;
        draw_call(&calls[i]);
        calls[i].count = draw(3);
        fill(mirror->key + past[i] * KEY, calls[i].count * KEY);
        fill(mirror->value + past[i] * VALUE, calls[i].count * VALUE);
        mirror->rows += calls[i].count;
        request_text_add(&text, "%s{\"session\":\"%s\",", count++ > 0 ? "," : "", id_of(mirror));
        write_call(&text, &calls[i]);
        if (calls[i].count > 0)
            write_rows(&text, mirror, past[i], calls[i].count);
        request_text_add(&text, "}");
    }
    request_text_add(&text, "]}");
    cJSON *answer = answer_post(any_client(), "/v1/sessions/attention", text.data);
    const cJSON *result = cJSON_GetObjectItem(answer, "results")->child;
    for (int i = 0; i < SESSIONS; i++) {
        if (!mirrors[i].is_there || past[i] + 3 > ROWS_MAX)
            continue;
        expect_same(result, &mirrors[i], &calls[i], past[i], mirrors[i].rows);
        expect_lengths(result, &mirrors[i]);
        result = result->next;
    }
    cJSON_Delete(answer);
    free(text.data);
}

static void run_script(uint64_t seed, int steps)
{
    numbers.state = seed;
    for (int i = 0; i < SESSIONS; i++)
        mirrors[i].is_there = false;
    make_one(&mirrors[0]);
    for (int step = 0; step < steps; step++) {
        struct mirror *mirror = &mirrors[draw(SESSIONS)];
        const int64_t verb = draw(20);
        if (verb == 0 || !mirror->is_there)
            make_one(mirror);
        else if (verb < 3)
            fork_one(mirror);
        else if (verb < 5)
            truncate_one(mirror);
        else if (verb < 8)
            retry(mirror);
        else if (verb < 10)
            batch();
        else
            append(mirror);
    }
    for (int i = 0; i < SESSIONS; i++)
        if (mirrors[i].is_there)
            session_delete(any_client(), id_of(&mirrors[i]), 204);
}

TEST(scripts)
{
    const uint64_t count = problem_count(SCRIPTS);
    for (int i = 0; i < CLIENTS; i++)
        http_client_init(&clients[i], server.port);
    run_script(1, STEPS);
    for (uint64_t seed = 2; seed <= count; seed++)
        run_script(seed, STEPS_SHORT);
    session_wait_until_empty(&client);
    for (int i = 0; i < CLIENTS; i++)
        http_client_free(&clients[i]);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
