/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_order.c - several clients of one session, and calls that fail: calls are done one
 * after the other, and what fails, is late, or whose client leaves appends nothing. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

/* ------------------------------------------------------------------- many clients -- */

enum { CLIENTS = 16, ROUNDS = 20 };

/* Of a call that appended 2^i: where its row lies, and the sum of the rows up to it. */
static void read_place(const struct http_response *response, int64_t *place, double *sum)
{
    cJSON *answer = answer_json(response, 200);
    const cJSON *context = cJSON_GetObjectItem(answer, "context");
    *place = cJSON_GetObjectItem(answer, "kv_len")->valueint;
    *sum = cJSON_GetArrayItem(cJSON_GetArrayItem(context, 0), 0)->valuedouble * (double)*place;
    cJSON_Delete(answer);
}

/* A query of 0 gives all rows the same weight. So the answers say who came before whom, and there
 * has to be one order of all. */
TEST(one_order)
{
    struct http_crowd crowd;
    char bodies[CLIENTS][64];
    struct http_request requests[CLIENTS];
    struct http_response responses[CLIENTS];
    http_crowd_init(&crowd, server.port, CLIENTS);
    for (int round = 0; round < ROUNDS; round++) {
        double sums[CLIENTS + 1] = { 0 };
        int owners[CLIENTS + 1];
        memset(owners, -1, sizeof owners);
        session_make(&client, JSON({"model":"sdpa","id":"order"}));
        for (int i = 0; i < CLIENTS; i++) {
            snprintf(bodies[i], sizeof bodies[i],
                     "{\"query\":[[0]],\"key\":[[1]],\"value\":[[%d]]}", 1 << i);
            requests[i] =
                (struct http_request){ .path = "/v1/sessions/order/attention", .body = bodies[i] };
        }
        http_crowd_send(&crowd, requests, responses);
        for (int i = 0; i < CLIENTS; i++) {
            int64_t place;
            double sum;
            read_place(&responses[i], &place, &sum);
            http_response_free(&responses[i]);
            assert_in_range(place, 1, CLIENTS);
            assert_int_equal(owners[place], -1);
            owners[place] = i;
            sums[place] = sum;
        }
        for (int place = 1; place <= CLIENTS; place++)
            assert_true(fabs(sums[place] - sums[place - 1] - (1 << owners[place])) < 0.5);
        session_delete(&client, "order", 204);
    }
    http_crowd_free(&crowd);
}

/* Forks of one session append side by side, behind rows in pages that all of them share. */
TEST(forks_side_by_side)
{
    enum { BASE = 100, APPENDS = 30 };
    struct http_crowd crowd;
    struct request_text text = { .data = NULL };
    char bodies[CLIENTS][64], paths[CLIENTS][64], id[16];
    struct http_request requests[CLIENTS];
    struct http_response responses[CLIENTS];
    session_make(&client, JSON({"model":"sdpa","id":"f0"}));
    request_text_add(&text, "{\"query\":[[0]],\"key\":[");
    for (int i = 0; i < BASE; i++)
        request_text_add(&text, i > 0 ? ",[0]" : "[0]");
    request_text_add(&text, "]}");
    cJSON_Delete(session_post(&client, "f0", "attention", text.data, 200));
    free(text.data);
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(bodies[i], sizeof bodies[i], JSON({"id":"f%d"}), i);
        if (i > 0)
            cJSON_Delete(session_post(&client, "f0", "fork", bodies[i], 201));
        snprintf(paths[i], sizeof paths[i], "/v1/sessions/f%d/attention", i);
        snprintf(bodies[i], sizeof bodies[i], "{\"query\":[[0]],\"key\":[[1]],\"value\":[[%d]]}",
                 1 << i);
        requests[i] = (struct http_request){ .path = paths[i], .body = bodies[i] };
    }
    http_crowd_init(&crowd, server.port, CLIENTS);
    for (int round = 1; round <= APPENDS; round++) {
        http_crowd_send(&crowd, requests, responses);
        for (int i = 0; i < CLIENTS; i++) {
            int64_t place;
            double sum;
            read_place(&responses[i], &place, &sum);
            assert_int_equal(place, BASE + round);
            assert_true(fabs(sum - (double)round * (1 << i)) < 0.5 * (1 << i));
            http_response_free(&responses[i]);
        }
    }
    http_crowd_free(&crowd);
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(id, sizeof id, "f%d", i);
        session_delete(&client, id, 204);
    }
    session_wait_until_empty(&client);
}

/* -------------------------------------------------------------------- what fails -- */

/* A step that cannot be done, beside steps that can: nothing is appended. */
TEST(steps_all_or_nothing)
{
    static const char *const BAD[] = {
        "{\"layer\":9,\"query\":[[1]]}", "{\"layer\":2,\"input\":[[1,2]]}",
        "{\"layer\":2,\"query\":1}",     "{\"layer\":2,\"input\":[[1]],\"nothing\":1}",
        "{\"layer\":0,\"query\":[[1]]}",
    };
    struct request_text text = { .data = NULL };
    session_make(&client, JSON({"model":"stories260K","id":"steps"}));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        text.used = 0;
        request_text_add(&text, "{\"steps\":[{\"layer\":0,\"input\":");
        request_text_random(&text, 1, 3, 64);
        request_text_add(&text, "},{\"layer\":1,\"input\":");
        request_text_random(&text, 2, 3, 64);
        request_text_add(&text, "},%s]}", BAD[i]);
        struct http_response response =
            http_client_post(&client, "/v1/sessions/steps/attention", text.data);
        assert_true(response.status == 400 || response.status == 404);
        if (!strstr(response.body, "\"pointer\":\"/steps/2"))
            fail_msg("%s: %s", BAD[i], response.body);
        http_response_free(&response);
        assert_int_equal(session_number(&client, "steps", "bytes"), 0);
        assert_int_equal(session_number(&client, "steps", "bytes_reserved"), 0);
    }
    free(text.data);
    session_delete(&client, "steps", 204);
}

TEST(retries)
{
    session_make(&client, JSON({"model":"sdpa","id":"again"}));
    static const char FIRST[] =
        "{\"at\":0,\"query\":[[1,0]],\"key\":[[1,2],[3,4]],\"value\":[[1,1],"
        "[2,2]]}";
    cJSON *first = session_post(&client, "again", "attention", FIRST, 200);
    cJSON *again = session_post(&client, "again", "attention", FIRST, 200);
    assert_true(cJSON_Compare(first, again, true));
    cJSON_Delete(again);
    cJSON_Delete(session_post(&client, "again", "attention",
                              "{\"at\":2,\"query\":[[1,0]],\"key\":[[5,6]],\"value\":[[3,3]]}",
                              200));
    again = session_post(&client, "again", "attention", FIRST, 200);
    answer_expect_equal(first, again, "context");
    cJSON_Delete(again);
    cJSON_Delete(first);
    session_refused(&client, "again", "attention",
                    "{\"at\":2,\"query\":[[1,0]],\"key\":[[5,7]],\"value\":[[3,3]]}", 409,
                    "conflict", "other keys and values are at 2 of layer 0");
    session_refused(&client, "again", "attention",
                    "{\"at\":2,\"query\":[[1,0]],\"key\":[[5,6]],\"value\":[[3,-3]]}", 409,
                    "conflict", "which has 3 keys");
    session_refused(&client, "again", "attention",
                    "{\"at\":2,\"query\":[[1,0]],\"key\":[[5,6],[7,8]],\"value\":[[3,3],[4,4]]}",
                    409, "conflict", "at is 2; layer 0 of session 'again' has 3 keys");
    session_refused(&client, "again", "attention", "{\"at\":4,\"query\":[[1,0]]}", 409, "conflict",
                    "has 3 keys");
    assert_int_equal(session_number(&client, "again", "kv_len"), 3);
    session_delete(&client, "again", 204);
}

/* In a batch a fault is its item's own. */
TEST(items_fail_alone)
{
    session_make(&client, JSON({"model":"sdpa","id":"a","kv_len_max":2}));
    session_make(&client, JSON({"model":"sdpa","id":"b"}));
    cJSON *answer = answer_post(&client, "/v1/sessions/attention",
                                "{\"key\":[[1],[2],[3]],\"query\":[[1]],\"requests\":[{\"session\":"
                                "\"a\"},{\"session\":\"b\"},"
                                "{\"session\":\"b\"},{\"session\":\"none\"},{}]}");
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 0), "conflict", NULL);
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(results, 1), "kv_len")->valueint, 3);
    answer_expect_item_fault(cJSON_GetArrayItem(results, 2), "duplicate", "/requests/2/layer");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 3), "not_found", "/requests/3/session");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 4), "field", "/requests/4/session");
    cJSON_Delete(answer);
    answer_refused(&client, "/v1/sessions/attention",
                   "{\"key\":[[1]],\"requests\":[{\"session\":\"a\"},7]}", 400, "type",
                   "/requests/1");
    assert_int_equal(session_number(&client, "a", "kv_len"), 0);
    assert_int_equal(session_number(&client, "b", "kv_len"), 3);
    session_delete(&client, "a", 204);
    session_delete(&client, "b", 204);
}

/* ------------------------------------------------------------- clients that leave -- */

/* An append that is computed until its client leaves. */
static void begin_endless(struct http_raw *raw, struct http_client *own, const char *id)
{
    struct request_text text = { .data = NULL };
    char head[256];
    request_text_add(&text, "{\"q_heads\":64,\"kv_heads\":1,\"outputs\":[\"lse\"],\"query\":");
    request_text_digits(&text, 16384, 64);
    request_text_add(&text, ",\"key\":");
    request_text_digits(&text, 131072, 1);
    request_text_add(&text, "}");
    snprintf(head, sizeof head,
             "POST /v1/sessions/%s/attention HTTP/1.1\r\nHost: x\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             id, text.used);
    http_raw_connect(raw, own->port);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send(raw, text.data, text.used));
    free(text.data);
    answer_wait_for_metric(own, "attnd_session_bytes", 1 << 20, INFINITY);
}

static void start_patient(struct daemon *other, struct http_client *own)
{
    daemon_start_with(other, DAEMON_PATIENT, "--workers", "2", NULL);
    http_client_init(own, other->port);
}

/* What comes behind an append that runs waits for it; what is too late then has appended nothing.
 * When the client of the append leaves, nothing of it stays and the others are done in order. */
TEST(waiting)
{
    static const char *const LATE[] = { "Content-Type: application/json", "X-Timeout-Ms: 100",
                                        NULL };
    static const char ONE[] = JSON({"query":[[1]],"key":[[1]],"at":0});
    const struct http_request late = { .path = "/v1/sessions/s/attention",
                                       .body = ONE,
                                       .headers = LATE };
    const struct http_request append = { .path = "/v1/sessions/s/attention", .body = ONE };
    const struct http_request fork = { .path = "/v1/sessions/s/fork", .body = "{\"id\":\"f\"}" };
    const struct http_request cut = { .path = "/v1/sessions/s/truncate", .body = "{\"kv_len\":0}" };
    const struct http_request *const ORDER[] = { &append, &fork, &cut };
    struct http_background waiting[3];
    struct daemon other;
    struct http_client own;
    struct http_raw endless;
    start_patient(&other, &own);
    session_make(&own, JSON({"model":"sdpa","id":"s"}));
    begin_endless(&endless, &own, "s");
    struct http_response response = http_client_send(&own, &late);
    answer_expect_fault(&response, 504, "deadline", NULL);
    http_response_free(&response);
    for (int i = 0; i < 3; i++) {
        http_background_start(&waiting[i], own.port, ORDER[i]);
        answer_wait_for_metric(&own, "attnd_queue_jobs", 2 + i, 2 + i);
    }
    assert_int_equal(session_number(&own, "s", "kv_len"), 0);
    http_raw_close(&endless);
    for (int i = 0; i < 3; i++) {
        response = http_background_join(&waiting[i]);
        assert_int_equal(response.status, i == 1 ? 201 : 200);
        assert_non_null(strstr(response.body, i == 2 ? JSON("kv_len":0,) : JSON("kv_len":1,)));
        http_response_free(&response);
    }
    assert_int_equal(session_number(&own, "f", "kv_len"), 1);
    session_delete(&own, "f", 204);
    session_delete(&own, "s", 204);
    session_wait_until_empty(&own);
    http_client_free(&own);
    daemon_stop(&other);
}

/* A session that ends while calls wait for it: those that came before the end are done, those
 * behind it find it gone. */
TEST(deleted_while_waiting)
{
    static const char ONE[] = JSON({"query":[[1]],"key":[[1]]});
    const struct http_request append = { .path = "/v1/sessions/s/attention", .body = ONE };
    const struct http_request end = { .method = "DELETE", .path = "/v1/sessions/s" };
    const struct http_request *const ORDER[] = { &append, &end, &append };
    static const long STATUS[] = { 200, 204, 410 };
    struct http_background waiting[3];
    struct daemon other;
    struct http_client own;
    struct http_raw endless;
    start_patient(&other, &own);
    session_make(&own, JSON({"model":"sdpa","id":"s"}));
    begin_endless(&endless, &own, "s");
    for (int i = 0; i < 3; i++) {
        http_background_start(&waiting[i], own.port, ORDER[i]);
        answer_wait_for_metric(&own, "attnd_queue_jobs", 2 + i, 2 + i);
    }
    http_raw_close(&endless);
    for (int i = 0; i < 3; i++) {
        struct http_response response = http_background_join(&waiting[i]);
        assert_int_equal(response.status, STATUS[i]);
        http_response_free(&response);
    }
    session_wait_until_empty(&own);
    http_client_free(&own);
    daemon_stop(&other);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
