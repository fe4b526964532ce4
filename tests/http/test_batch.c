/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch.c - POST /v1/attention/batch: many calls in one, each of its own length.
 *
 * An item must get the same answer as the same call alone, to the last digit. A fault in one item
 * must not change the answers of the others. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention/batch";

/* The results, which must be count many. The caller deletes *answer. */
static const cJSON *post(const char *body, int count, cJSON **answer)
{
    *answer = answer_post(&client, PATH, body);
    answer_expect_members(*answer, "results");
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(*answer, "results");
    assert_true(cJSON_IsArray(results));
    assert_int_equal(cJSON_GetArraySize(results), count);
    return results;
}

TEST(empty)
{
    cJSON *answer;
    post(JSON({"requests":[]}), 0, &answer);
    cJSON_Delete(answer);
    post(JSON({"model":"demo","causal":true,"requests":[]}), 0, &answer);
    cJSON_Delete(answer);
}

/* Each call has its own sequence length, and its item has the same answer as the call alone. */
TEST(ragged_items_equal_single_calls)
{
    static const int lengths[][2] = { { 1, 1 }, { 17, 3 }, { 4, 130 }, { 64, 64 }, { 3, 0 } };
    enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
    static const char shared[] = "\"model\":\"sdpa\",\"causal\":true,\"softcap\":3,\"q_heads\":2,"
                                 "\"kv_heads\":2,\"past_len\":1,"
                                 "\"outputs\":[\"context\",\"weights\",\"lse\"]";
    struct request_text batch = { 0 };
    cJSON *alone[COUNT];
    request_text_add(&batch, "{%s,\"requests\":[", shared);
    for (int i = 0; i < COUNT; i++) {
        struct request_text item = { 0 }, single = { 0 };
        request_text_add(&item, JSON("query":));
        request_text_random(&item, (uint64_t)i, lengths[i][0], 6);
        request_text_add(&item, ",\"key\":");
        request_text_random(&item, (uint64_t)i + 100, lengths[i][1], 6);
        request_text_add(&single, "{%s,%s}", shared, item.data);
        request_text_add(&batch, "%s{%s}", i ? "," : "", item.data);
        alone[i] = answer_post(&client, "/v1/attention", single.data);
        free(item.data);
        free(single.data);
    }
    request_text_add(&batch, "]}");
    cJSON *answer;
    const cJSON *results = post(batch.data, COUNT, &answer);
    for (int i = 0; i < COUNT; i++) {
        const cJSON *item = cJSON_GetArrayItem(results, i);
        answer_expect_equal(item, alone[i], "context");
        answer_expect_equal(item, alone[i], "weights");
        answer_expect_equal(item, alone[i], "lse");
        answer_expect_equal(item, alone[i], "model");
        answer_expect_equal(item, alone[i], "layer");
        cJSON_Delete(alone[i]);
    }
    cJSON_Delete(answer);
    free(batch.data);
}

TEST(shared_fields)
{
    cJSON *answer;
    const cJSON *results = post("{\"model\":\"sdpa\",\"key\":[[1],[1]],\"value\":[[2],[4]],"
                                "\"kv_len\":1,\"outputs\":[\"context\"],\"requests\":["
                                "{\"query\":[[1]]},"
                                "{\"query\":[[1],[1]],\"kv_len\":2},"
                                "{\"query\":[[0]],\"value\":[[7,8],[9,10]]},"
                                "{\"query\":[[0]],\"outputs\":[\"lse\"]},"
                                "{\"model\":\"demo\",\"query\":[[0,0,1]],\"key\":[[1,0,0]],"
                                "\"value\":[[1,1,1]]}]}",
                                5, &answer);
    answer_expect(cJSON_GetArrayItem(results, 0), "context", "[[2]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 1), "context", "[[3],[3]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 2), "context", "[[7,8]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 3), "lse", "[[0]]", 1e-6);
    answer_expect_members(cJSON_GetArrayItem(results, 3), "model,layer,lse");
    answer_expect(cJSON_GetArrayItem(results, 4), "context", "[[1,2,1]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 4), "model", "\"demo\"", 0);
    cJSON_Delete(answer);
}

/* A published case: ten equal keys, and values 0 to 39 in rows of four. The first 2 keys count in
 * one item, and the first 6 in the other. */
TEST(equal_keys)
{
    struct request_text text = { 0 };
    request_text_add(&text,
                     "{\"model\":\"sdpa\",\"query\":[[1,1]],\"outputs\":[\"context\"],\"key\":[");
    for (int j = 0; j < 10; j++)
        request_text_add(&text, j ? ",[1,1]" : "[1,1]");
    request_text_add(&text, "],\"value\":[");
    for (int j = 0; j < 40; j += 4)
        request_text_add(&text, "%s[%d,%d,%d,%d]", j ? "," : "", j, j + 1, j + 2, j + 3);
    request_text_add(&text, "],\"requests\":[{\"kv_len\":2},{\"kv_len\":6}]}");
    cJSON *answer;
    const cJSON *results = post(text.data, 2, &answer);
    answer_expect(cJSON_GetArrayItem(results, 0), "context", "[[2,3,4,5]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 1), "context", "[[10,11,12,13]]", 1e-6);
    cJSON_Delete(answer);
    free(text.data);
}

/* All items share a query, and each has its own keys. */
TEST(shared_query)
{
    cJSON *answer;
    const cJSON *results = post("{\"model\":\"sdpa\",\"query\":[[0]],\"requests\":[{\"key\":[[1]]},"
                                "{},{\"key\":[[1],[3]]}]}",
                                3, &answer);
    answer_expect(cJSON_GetArrayItem(results, 0), "context", "[[1]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 1), "context", "[[0]]", 1e-6);
    answer_expect(cJSON_GetArrayItem(results, 2), "context", "[[2]]", 1e-6);
    cJSON_Delete(answer);
}

struct faulty_item {
    const char *item;
    const char *code;
    const char *field; /* the pointer inside the item; NULL: any */
};

static const struct faulty_item FAULTY[] = {
    { "{\"query\":[[1,2]]}", "shape", "/query" },
    { "{\"query\":\"words\"}", "type", "/query" },
    { "{\"query\":[[1,0,0],[1,0]]}", "ragged", "/query*" },
    { "{\"query\":[[1,0,1e400]]}", "nonfinite", "/query*" },
    { "{\"query\":[[1,0,0]],\"querry\":1}", "field", "/querry" },
    { "{\"query\":[[1,0,0]],\"requests\":[]}", "field", "/requests" },
    { "{\"query\":[[1,0,0]],\"model\":\"nobody\"}", "not_found", "/model" },
    { "{\"query\":[[1,0,0]],\"layer\":1}", "not_found", "/layer" },
    { "{\"query\":[[1,0,0]],\"causal\":1}", "type", "/causal" },
    { "{\"query\":[[1,0,0]],\"kv_len\":-1}", "length|option", "/kv_len" },
    { "{\"query\":[[1,0,0]],\"outputs\":[\"wieghts\"]}", "option", "/outputs*" },
    { "{\"query\":[[1,0,0]],\"mask\":[[true,false]]}", "shape", "/mask" },
    { "{}", "field", NULL },
};

/* There are good items between the bad ones, and each good item gets its usual answer. */
TEST(faults_stay_where_they_are)
{
    enum { FAULTS = sizeof(FAULTY) / sizeof(FAULTY[0]) };
    static const char good[] = JSON({"query":[[0,0,1]],"key":[[1,0,0]],"value":[[1,1,1]]});
    struct request_text batch = { 0 };
    request_text_add(&batch, "{\"model\":\"demo\",\"requests\":[%s", good);
    for (int i = 0; i < FAULTS; i++)
        request_text_add(&batch, ",%s,%s", FAULTY[i].item, good);
    request_text_add(&batch, "]}");
    cJSON *answer;
    const cJSON *results = post(batch.data, 2 * FAULTS + 1, &answer);
    for (int i = 0; i <= FAULTS; i++)
        answer_expect(cJSON_GetArrayItem(results, 2 * i), "context", "[[1,2,1]]", 1e-6);
    for (int i = 0; i < FAULTS; i++) {
        char pointer[64];
        int index = 2 * i + 1;
        snprintf(pointer, sizeof(pointer), "/requests/%d%s", index,
                 FAULTY[i].field ? FAULTY[i].field : "");
        answer_expect_item_fault(cJSON_GetArrayItem(results, index), FAULTY[i].code,
                                 FAULTY[i].field ? pointer : NULL);
    }
    cJSON_Delete(answer);
    free(batch.data);
}

TEST(nothing_but_faults)
{
    cJSON *answer;
    const cJSON *results = post("{\"model\":\"nobody\",\"requests\":[{\"model\":\"demo\","
                                "\"query\":[[1]]},{\"query\":[[1]],\"model\":\"somebody\"}]}",
                                2, &answer);
    answer_expect_item_fault(cJSON_GetArrayItem(results, 0), "shape", "/requests/0/query");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 1), "not_found", "/requests/1/model");
    cJSON_Delete(answer);
}

/* A fault of the whole request is answered with one fault for the whole. */
TEST(faults_of_the_whole)
{
    answer_refused(&client, PATH, JSON({"model":"demo"}), 400, "field", NULL);
    answer_refused(&client, PATH, JSON({"requests":{}}), 400, "type", "/requests");
    answer_refused(&client, PATH, JSON({"requests":null}), 400, "type", "/requests");
    answer_refused(&client, PATH, JSON({"requests":"x"}), 400, "type", "/requests");
    static const char *const NO_OBJECTS[] = { "\"query\"", "null", "[]", "17", "true" };
    for (size_t i = 0; i < sizeof NO_OBJECTS / sizeof NO_OBJECTS[0]; i++) {
        char body[96];
        snprintf(body, sizeof body, "{\"model\":\"demo\",\"requests\":[{\"query\":[1,0,0]},%s]}",
                 NO_OBJECTS[i]);
        answer_refused(&client, PATH, body, 400, "type", "/requests/1");
    }
    answer_refused(&client, PATH, JSON({"requests":[],"modell":"demo"}), 400, "field", "/modell");
    answer_refused(&client, PATH, "{\"requests\":[{}],\"requests\":[]}", 400, "duplicate",
                   "/requests");
    answer_refused(&client, PATH,
                   "{\"model\":\"demo\",\"requests\":[{},{\"query\":[1],\"query\":[2]}]}", 400,
                   "duplicate", "/requests/1/query");
    answer_refused(&client, PATH, JSON({"model":"demo","requests":[{},]}), 400, "json", NULL);
    answer_refused(&client, PATH, "[]", 400, "type|field", NULL);
}

/* There are many items, and each answer tells which item it belongs to. */
TEST(order_of_many)
{
    enum { COUNT = 3000 };
    struct request_text batch = { 0 };
    request_text_add(&batch, "{\"outputs\":[\"context\"],\"model\":\"sdpa\",\"requests\":[");
    for (int i = 0; i < COUNT; i++)
        request_text_add(&batch, "%s{\"query\":[[1]],\"key\":[[1]],\"value\":[[%d,%d]]}",
                         i ? "," : "", i, -i);
    request_text_add(&batch, "]}");
    cJSON *answer;
    const cJSON *item = post(batch.data, COUNT, &answer)->child;
    for (int i = 0; i < COUNT; i++, item = item->next) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "[[%d,%d]]", i, -i);
        answer_expect(item, "context", wanted, 0);
    }
    cJSON_Delete(answer);
    free(batch.data);
}

/* A batch of so many bad items. A batch may have 16384 items, and not one more. */
static char *bad_items(int count)
{
    struct request_text batch = { 0 };
    request_text_add(&batch, "{\"requests\":[{\"a\":1}");
    for (int i = 1; i < count; i++)
        request_text_add(&batch, ",{\"a\":1}");
    request_text_add(&batch, "]}");
    return batch.data;
}

TEST(number_of_items)
{
    enum { MOST = 16384 };
    char *body = bad_items(MOST);
    cJSON *answer;
    const cJSON *results = post(body, MOST, &answer);
    answer_expect_item_fault(results->child, "field", "/requests/0/a");
    answer_expect_item_fault(cJSON_GetArrayItem(results, MOST - 1), "field", "/requests/16383/a");
    cJSON_Delete(answer);
    free(body);
    body = bad_items(MOST + 1);
    answer_refused(&client, PATH, body, 413, "too_large", "/requests");
    free(body);
}

/* The bad items take less memory than ten times the body. */
TEST(memory_of_bad_items)
{
    enum { COUNT = 320000 };
    struct daemon other;
    struct http_client own;
    char *body = bad_items(COUNT);
    daemon_start_with(&other, "--queue-max", "1000000", NULL);
    http_client_init(&own, other.port);
    const size_t before = daemon_memory_bytes(&other);
    answer_refused(&own, PATH, body, 413, "too_large", NULL);
    const size_t more = daemon_memory_peak_bytes(&other) - before;
    print_message("    %zu bytes of items, %zu more resident\n", strlen(body), more);
    if (daemon_slowness() == 1) /* a sanitizer keeps what is freed */
        assert_true(more < 10 * strlen(body));
    http_client_free(&own);
    daemon_stop(&other);
    free(body);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
