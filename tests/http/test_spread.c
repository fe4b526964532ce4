/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread.c - sessions that are spread over peers: answers of one daemon within the law of the
 * merge, whatever the calls; where the keys lie; what is refused; how the parts end. */
#include "answer.h"
#include "fill.h"
#include "key_file.h"
#include "problem_count.h"
#include "request_text.h"
#include "session_client.h"
#include "spread_daemons.h"
#include "test.h"

#include "json/text.h"

/* ------------------------------------------------------------------ equal answers -- */

/* The shape of the rows of one script, and how long its session is. */
struct script {
    struct fill fill;
    int64_t q_heads, kv_heads, head_dim, v_head_dim, length;
};

static void add_rows(struct text *text, struct fill *fill, const char *name, int64_t rows,
                     int64_t columns)
{
    text_format(text, ",\"%s\":[", name);
    for (int64_t i = 0; i < rows; i++) {
        text_raw(text, i > 0 ? ",[" : "[");
        for (int64_t k = 0; k < columns; k++)
            text_format(text, "%s%.4f", k > 0 ? "," : "", (double)fill_float(fill, -2.0f, 2.0f));
        text_raw(text, "]");
    }
    text_raw(text, "]");
}

static void add_mask(struct text *text, struct script *script)
{
    struct fill *fill = &script->fill;
    const int64_t kind = fill_below(fill, 5);
    if (kind == 1 || kind == 3)
        text_raw(text, ",\"causal\":true");
    if (kind == 2 || kind == 3)
        text_format(text, ",\"window_left\":%d", (int)fill_below(fill, 9));
    if (kind == 2)
        text_format(text, ",\"window_right\":%d", (int)fill_below(fill, 4));
    if (kind == 3)
        text_format(text, ",\"past_len\":%d", (int)fill_below(fill, script->length + 1));
    if (kind == 4)
        text_raw(text, ",\"scale\":0.3,\"softcap\":5");
}

/* A call that appends, asks, or both. */
static char *new_call(struct script *script)
{
    struct fill *fill = &script->fill;
    struct text text;
    const int64_t rows = fill_below(fill, 3) * fill_below(fill, 9);
    const int64_t queries = rows > 0 ? fill_below(fill, 4) : 1 + fill_below(fill, 3);
    text_init(&text, SIZE_MAX);
    text_format(&text, "{\"q_heads\":%d,\"kv_heads\":%d,\"at\":%d", (int)script->q_heads,
                (int)script->kv_heads, (int)script->length);
    if (rows > 0) {
        add_rows(&text, fill, "key", rows, script->kv_heads * script->head_dim);
        add_rows(&text, fill, "value", rows, script->kv_heads * script->v_head_dim);
    }
    if (queries > 0) {
        text_raw(&text, ",\"outputs\":[\"context\",\"lse\"]");
        add_rows(&text, fill, "query", queries, script->q_heads * script->head_dim);
        add_mask(&text, script);
    }
    text_raw(&text, "}");
    text_bytes(&text, "", 1);
    script->length += rows;
    return text.data;
}

static void expect_near(const cJSON *one, const cJSON *other, const char *call)
{
    if (cJSON_IsArray(one) && cJSON_IsArray(other)
        && cJSON_GetArraySize(one) == cJSON_GetArraySize(other)) {
        const cJSON *b = other->child;
        for (const cJSON *a = one->child; a; a = a->next, b = b->next)
            expect_near(a, b, call);
        return;
    }
    if (cJSON_IsNull(one) && cJSON_IsNull(other))
        return;
    if (!cJSON_IsNumber(one) || !cJSON_IsNumber(other)
        || !(fabs(one->valuedouble - other->valuedouble) < 2e-5))
        fail_msg("%s and %s, of %s", cJSON_PrintUnformatted(one), cJSON_PrintUnformatted(other),
                 call);
}

/* Both sessions get the call; spread answers what the other one does. */
static cJSON *expect_same(const char *call)
{
    static const char *const NAMES[] = { "kv_len", "layer_kv_len", "model", "layer" };
    cJSON *spread = session_post(&client, "spread", "attention", call, 200);
    cJSON *whole = session_post(&client, "whole", "attention", call, 200);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        answer_expect_equal(spread, whole, NAMES[i]);
    if (cJSON_HasObjectItem(whole, "context")) {
        expect_near(cJSON_GetObjectItem(spread, "context"), cJSON_GetObjectItem(whole, "context"),
                    call);
        expect_near(cJSON_GetObjectItem(spread, "lse"), cJSON_GetObjectItem(whole, "lse"), call);
    }
    cJSON_Delete(whole);
    return spread;
}

/* The cut in the answer: ranges one behind the other, each at a peer. */
static void expect_cut(const cJSON *of, int64_t length)
{
    int64_t end = 0;
    const cJSON *range;
    cJSON_ArrayForEach(range, cJSON_GetObjectItem(of, "ranges")) {
        assert_int_equal(cJSON_GetObjectItem(range, "first")->valueint, end);
        end += cJSON_GetObjectItem(range, "kv_len")->valueint;
        const char *peer = cJSON_GetObjectItem(range, "peer")->valuestring;
        assert_true(strcmp(peer, "a") == 0 || strcmp(peer, "b") == 0);
    }
    assert_int_equal(end, length);
}

static void make_both(const char *dtype, int rows)
{
    char body[160];
    snprintf(body, sizeof body,
             "{\"model\":\"sdpa\",\"id\":\"spread\",\"dtype\":\"%s\",\"spread\":true,"
             "\"spread_rows\":%d}",
             dtype, rows);
    session_make(&client, body);
    snprintf(body, sizeof body, "{\"model\":\"sdpa\",\"id\":\"whole\",\"dtype\":\"%s\"}", dtype);
    session_make(&client, body);
}

static void delete_both(void)
{
    session_delete(&client, "spread", 204);
    session_delete(&client, "whole", 204);
}

static void run_script(uint64_t seed)
{
    static const int64_t HEADS[][2] = { { 1, 1 }, { 2, 2 }, { 4, 2 }, { 6, 1 } };
    static const char *const DTYPES[] = { "f32", "f32", "f16", "bf16" };
    struct script script = { .fill = { seed } };
    const int64_t heads = fill_below(&script.fill, 4);
    script.q_heads = HEADS[heads][0];
    script.kv_heads = HEADS[heads][1];
    script.head_dim = 1 + fill_below(&script.fill, 9);
    script.v_head_dim = 1 + fill_below(&script.fill, 9);
    make_both(DTYPES[fill_below(&script.fill, 4)], 1 + (int)fill_below(&script.fill, 7));
    for (int i = 0; i < 25; i++) {
        char *call = new_call(&script);
        cJSON_Delete(expect_same(call));
        if (fill_below(&script.fill, 3) == 0) /* a retry, where the masks' lengths are those of
                                                 before */
            cJSON_Delete(expect_same(call));
        free(call);
    }
    cJSON *shown = answer_get(&client, "/v1/sessions/spread");
    assert_int_equal(cJSON_GetObjectItem(shown, "kv_len")->valueint, script.length);
    expect_cut(shown, script.length);
    cJSON_Delete(shown);
    delete_both();
}

TEST(equals_one_daemon)
{
    const int count = problem_count(12);
    for (int i = 0; i < count; i++)
        run_script(1000 + (uint64_t)i);
    spread_wait_until_empty();
}

TEST(the_answer_has_the_cut)
{
    make_both("f32", 2);
    cJSON *answer = expect_same(
        JSON({"key":[[1],[2],[3],[4],[5]],"value":[[1],[2],[3],[4],[5]],
                                      "query":[[1]],"outputs":["context","lse"]}));
    expect_cut(answer, 5);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "ranges")), 3);
    cJSON_Delete(answer);
    assert_true(spread_count(0) > 0 && spread_count(1) > 0);
    /* Only the ranges that a window leaves are asked. */
    answer = expect_same(JSON({"query":[[1]],"window_left":1,"outputs":["context","lse"]}));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "ranges")), 1);
    cJSON_Delete(answer);
    delete_both();
}

/* ------------------------------------------------------------------------ refusals -- */

TEST(what_is_not_offered)
{
    static const char *const CALLS[][2] = {
        { JSON({"input":[[1]]}), "/input" },
          { JSON({"query":[[1]],"mask":[[0]]}), "/mask" },
                 { JSON({"query":[[1]],"kv_len":1}), "/kv_len" },
                   { JSON({"query":[[1]],"kv_offset":1}), "/kv_offset" },
                     { JSON({"query":[[1]],"partial":true}), "/partial" },
                       { JSON({"query":[[1]],"sinks":[1]}), "/sinks" },
                         { JSON({"query":[[1]],"dropout":0.5}), "/dropout" },
                           { JSON({"query":[[1]],"normalizer":"sparsemax"}), "/normalizer" },
                             { JSON({"query":[[1]],"precision":"high"}), "/precision" },
                               { JSON({"query":[[1]],"select":{"epsilon":0.1}}), "/select" },
                                 { JSON({"query":[[1]],"weight_map":{"heads":"mean"}}),
                                         "/weight_map" },
                                   { JSON({"query":[[1]],"outputs":["weights"]}), "/outputs" },
                                     { JSON({"query":[[1]],"key":[[1]],"value":[[1]],"append":false}),
                                                                  "/append" },
                                             { JSON({"steps":[{"query":[[1]]}]}), "/steps" },
                                      };
    static const char *const VERBS[][2] = {
        { "fork", "{}" },
        { "truncate", "{\"kv_len\":0}" },
        { "trace", "{\"tokens\":[1]}" },
    };
    session_make(&client, JSON({"model":"sdpa","id":"spread","spread":true}));
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++)
        answer_refused(&client, "/v1/sessions/spread/attention", CALLS[i][0], 400, "option",
                       CALLS[i][1]);
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        session_refused(&client, "spread", VERBS[i][0], VERBS[i][1], 400, "option", "spread");
    answer_send_refused(&client,
                        &(struct http_request){ .path = "/v1/sessions/spread?format=safetensors" },
                        400, "option", "");
    cJSON *answer = answer_post(&client, "/v1/sessions/attention",
                                JSON({"requests":[{"session":"spread","query":[[1]]}]}));
    answer_expect_item_fault(cJSON_GetObjectItem(answer, "results")->child, "option",
                             "/requests/0");
    cJSON_Delete(answer);
    session_delete(&client, "spread", 204);
}

TEST(settings_that_do_not_go_with_it)
{
    static const char *const BODIES[][2] = {
        { JSON({"model":"demo","spread":true}), "/model" },
          { JSON({"model":"sdpa","spread":true,"window":4}), "/window" },
            { JSON({"model":"sdpa","spread":true,"evictable":true}), "/evictable" },
              { JSON({"model":"sdpa","spread":true,"dtype":"int8"}), "/dtype" },
                { JSON({"model":"sdpa","spread_rows":4}), "/spread_rows" },
                  { JSON({"model":"sdpa","spread":true,"spread_rows":0}), "/spread_rows" },
                };
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++)
        answer_refused(&client, "/v1/sessions", BODIES[i][0], 400, "option", BODIES[i][1]);
    answer_refused(&peer_clients[0], "/v1/sessions",
                   JSON({"model":"sdpa","spread":true}), 400, "option", "/spread");
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true}));
    struct http_response response =
        http_client_send(&client, &(struct http_request){ .method = "PATCH",
                                                          .path = "/v1/sessions/x",
                                                          .body = JSON({"evictable":true}) });
    answer_expect_fault(&response, 400, "option", "/evictable");
    http_response_free(&response);
}

TEST(faults_of_a_call_are_those_of_one_daemon)
{
    static const struct {
        const char *body, *code, *pointer;
        long status;
    } CALLS[] = {
        { JSON({"causal":true}), "field", "/query", 400 },
          { JSON({"key":[[1,2]],"query":[[1,2]]}), "field", "/value", 400 },
                 { JSON({"key":[[1,2],[1,2]],"value":[[1,2]]}), "shape", "/value", 400 },
                         { JSON({"key":[[1,2,3]],"value":[[1,2]]}), "shape", "/key", 400 },
                                { JSON({"query":[[1,2,3]]}), "shape", "/*", 400 },
                                  { JSON({"query":[[1,2]],"at":3}), "conflict", "/at", 409 },
                                    { JSON({"key":[[9,9]],"value":[[9,9]],"at":1}), "conflict",
                                                   "/at", 409 },
                                           { JSON({"key":[[1,2],[1,2]],"value":[[1,2],[1,2]],"at":1}),
                                                           "conflict", "/at", 409 },
                                                   { JSON({"query":[[1,2]],"layer":1}), "not_found",
                                                           "/layer", 404 },
                                            };
    make_both("f32", 1);
    cJSON_Delete(expect_same(JSON({"key":[[1,2],[3,4]],"value":[[1,2],[3,4]]})));
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        answer_refused(&client, "/v1/sessions/spread/attention", CALLS[i].body, CALLS[i].status,
                       CALLS[i].code, CALLS[i].pointer);
        cJSON_Delete(expect_same(JSON({"query":[[1,2]],"outputs":["context","lse"]})));
    }
    /* What has failed has appended nothing, and the next rows go where they belong. */
    cJSON_Delete(expect_same(
        JSON({"key":[[5,6]],"value":[[7,8]],"query":[[1,2]],"at":2,
                                   "outputs":["context","lse"]})));
    delete_both();
}

/* ------------------------------------------------------------------- ids and names -- */

TEST(peers_have_the_ids_of_the_request)
{
    static const char *const HEADERS[] = {
        "Content-Type: application/json", "X-Request-Id: of-the-front",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", NULL
    };
    session_make(&client, JSON({"model":"sdpa","id":"spread","spread":true}));
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = "/v1/sessions/spread/attention",
                                         .body = JSON({"key":[[1]],"value":[[1]],"query":[[1]]}),
                                                              .headers = HEADERS });
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    char *log =
        daemon_log_with(&peers[spread_count(0) > 0 ? 0 : 1], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_non_null(strstr(log, "of-the-front"));
    free(log);
    session_delete(&client, "spread", 204);
}

ALL_TESTS(spread_start, spread_stop);
