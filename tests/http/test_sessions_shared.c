/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_shared.c - many sessions in one request, of which some share the beginnings of
 * their keys: random trees of forks, of each dtype, with 1 to 4 workers. Each answer has to be, to
 * the bit, that of the same call alone. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

/* With so many columns a part of the keys, which is what sessions share, is 1024 of them. */
enum {
    Q_HEADS = 2,
    KV_HEADS = 1,
    HEAD_DIM = 128,
    QUERY = Q_HEADS * HEAD_DIM,
    KEY = KV_HEADS * HEAD_DIM,
    ROOT_ROWS = 1500,
    APPEND_MAX = 40,
    SESSIONS = 6,
    STEPS = 18,
    WORKERS_MAX = 4
};

/* Without weights, rows of several sessions meet the keys together. */
#define LSE ",\"outputs\":[\"context\",\"lse\"]"

static struct fill numbers;
static float rows[ROOT_ROWS * KEY];
static int64_t appends_end; /* calls that are compared append fewer rows than this */

static int64_t draw(int64_t end)
{
    return fill_below(&numbers, end);
}

static const char *id_of(int number)
{
    static char id[16];
    snprintf(id, sizeof id, "s%d", number);
    return id;
}

static void add_matrix(struct request_text *text, const char *name, int64_t count, int64_t columns)
{
    fill_floats(&numbers, rows, count * columns, -1, 1);
    request_text_add(text, ",\"%s\":", name);
    request_text_matrix(text, rows, count, columns);
}

/* The members of a call that appends count rows, perhaps none. */
static char *call_of(int64_t count)
{
    static const char *const OPTIONS[] = { LSE,
                                           LSE ",\"causal\":true",
                                           LSE ",\"causal\":true,\"window_left\":1100",
                                           LSE ",\"softcap\":3",
                                           LSE ",\"alibi_slopes\":[0.01,0.002]",
                                           LSE ",\"dropout\":0.5,\"seed\":3",
                                           ",\"outputs\":[\"context\",\"weights\"]",
                                           ",\"weight_map\":{\"top_k\":3}" };
    const int64_t option = draw(2) * draw(sizeof OPTIONS / sizeof OPTIONS[0]);
    struct request_text text = { .data = NULL };
    request_text_add(&text, JSON("q_heads":%d,"kv_heads":%d%s), Q_HEADS, KV_HEADS, OPTIONS[option]);
    add_matrix(&text, "query", 1 + draw(2) * draw(3), QUERY);
    if (count > 0) {
        add_matrix(&text, "key", count, KEY);
        add_matrix(&text, "value", count, KEY);
    }
    return text.data;
}

static cJSON *call_alone(int number, const char *members, const char *more)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{%s%s}", members, more);
    cJSON *answer = session_post(&client, id_of(number), "attention", text.data, 200);
    free(text.data);
    return answer;
}

static void append(int number, int64_t count)
{
    char *members = call_of(count);
    cJSON_Delete(call_alone(number, members, ""));
    free(members);
}

/* All sessions in one request, in any order; then each call again, alone, at the same place. */
static void compare(int count)
{
    struct request_text text = { .data = NULL };
    char *members[SESSIONS];
    double at[SESSIONS];
    const int first = (int)draw(count);
    request_text_add(&text, "{\"requests\":[");
    for (int i = 0; i < count; i++) {
        const int number = (first + i) % count;
        at[i] = session_number(&client, id_of(number), "kv_len");
        members[i] = call_of(draw(appends_end));
        request_text_add(&text, "%s{\"session\":\"%s\",%s}", i > 0 ? "," : "", id_of(number),
                         members[i]);
    }
    request_text_add(&text, "]}");
    cJSON *together = answer_post(&client, "/v1/sessions/attention", text.data);
    const cJSON *result = cJSON_GetObjectItem(together, "results")->child;
    for (int i = 0; i < count; i++, result = result->next) {
        char more[32];
        snprintf(more, sizeof more, ",\"at\":%.0f", at[i]);
        cJSON *alone = call_alone((first + i) % count, members[i], more);
        session_expect_same(result, alone);
        cJSON_Delete(alone);
        free(members[i]);
    }
    cJSON_Delete(together);
    free(text.data);
}

static void fork_one(int from, int to)
{
    char body[32];
    snprintf(body, sizeof body, JSON({"id":"%s"}), id_of(to));
    cJSON_Delete(session_post(&client, id_of(from), "fork", body, 201));
}

static void truncate_one(int number)
{
    char body[32];
    const int64_t length = (int64_t)session_number(&client, id_of(number), "kv_len");
    snprintf(body, sizeof body, JSON({"kv_len":%d}), (int)(length - draw(length / 2)));
    cJSON_Delete(session_post(&client, id_of(number), "truncate", body, 200));
}

/* The sessions are one tree of forks, and its last one is apart from them. */
static void run_script(const char *dtype, uint64_t seed)
{
    char body[64];
    int count = 2;
    numbers.state = seed;
    /* A call on int8 that fills a group reads it before it is rounded, and its retry afterwards. */
    appends_end = strcmp(dtype, "int8") == 0 ? 1 : 3;
    for (int i = 0; i < count; i++) {
        snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%s","dtype":"%s"}), id_of(i), dtype);
        session_make(&client, body);
        append(i, i == 0 ? ROOT_ROWS : 300);
    }
    for (int step = 0; step < STEPS; step++) {
        const int64_t verb = draw(6);
        if (verb < 2 && count < SESSIONS) {
            fork_one((int)draw(count), count);
            count++;
        } else if (verb < 4) {
            append((int)draw(count), 1 + draw(APPEND_MAX));
        } else if (verb == 4) {
            truncate_one((int)draw(count));
        } else {
            compare(count);
        }
    }
    compare(count);
    for (int i = 0; i < count; i++)
        session_delete(&client, id_of(i), 204);
}

TEST(trees)
{
    static const char *const DTYPES[] = { "f32", "bf16", "f16", "int8" };
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        char count[8];
        snprintf(count, sizeof count, "%d", workers);
        fixture_serve("--workers", count);
        for (uint64_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++)
            run_script(DTYPES[i], 10 * (uint64_t)workers + i);
        session_wait_until_empty(&client);
        fixture_stop(state);
    }
}
