/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_file.c - a session as a file: what is in it, and that the session which another
 * daemon makes of it goes on to the bit. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

static struct daemon other; /* with the same models */
static struct http_client there;

enum { QUERIES = 5 };

/* rows of keys and values of 2 heads of 3 and 2 columns, or none, and a query of 4 heads. */
static char *append_text(uint64_t seed, int rows, bool appends)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"causal\":true,\"query\":[");
    for (int head = 0; head < 4; head++) {
        request_text_add(&text, head > 0 ? "," : "");
        request_text_random(&text, seed + (uint64_t)head, QUERIES, 3);
    }
    request_text_add(&text, "]");
    for (int side = 0; appends && side < 2; side++) {
        request_text_add(&text, side ? ",\"value\":[" : ",\"key\":[");
        for (int head = 0; head < 2; head++) {
            request_text_add(&text, head > 0 ? "," : "");
            request_text_random(&text, seed + 10 + 2 * (uint64_t)side + (uint64_t)head, rows,
                                side ? 2 : 3);
        }
        request_text_add(&text, "]");
    }
    request_text_add(&text, ",\"outputs\":[\"context\",\"lse\",\"weights\"]}");
    return text.data;
}

static void append(struct http_client *own, const char *id, uint64_t seed, int rows)
{
    char *text = append_text(seed, rows, true);
    cJSON_Delete(session_post(own, id, "attention", text, 200));
    free(text);
}

/* The same call must have the same answer on both, to the bit. */
static void expect_same_call(const char *id, const char *copy, const char *body)
{
    cJSON *one = session_post(&client, id, "attention", body, 200);
    cJSON *two = session_post(&there, copy, "attention", body, 200);
    session_expect_same(one, two);
    cJSON_Delete(one);
    cJSON_Delete(two);
}

static void expect_same_numbers(struct session_bytes one, struct session_bytes two)
{
    const char *numbers[2];
    cJSON_Delete(session_bytes_header(one, &numbers[0]));
    cJSON_Delete(session_bytes_header(two, &numbers[1]));
    const size_t bytes = (size_t)(one.bytes + one.size - numbers[0]);
    assert_int_equal(bytes, two.bytes + two.size - numbers[1]);
    assert_memory_equal(numbers[0], numbers[1], bytes);
}

/* --------------------------------------------------------------------- round trips -- */

/* Over pages of several sizes, some of them shared, with a part cut off. */
TEST(every_dtype)
{
    static const char *const DTYPES[] = { "f32", "f16", "bf16", "int8" };
    char body[200];
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
        snprintf(body, sizeof body,
                 "{\"model\":\"sdpa\",\"id\":\"a\",\"dtype\":\"%s\",\"kv_len_max\":9000,"
                 "\"ttl\":\"20m\",\"evictable\":true}",
                 DTYPES[i]);
        session_make(&client, body);
        append(&client, "a", 1, 50);
        append(&client, "a", 2, 100);
        cJSON_Delete(session_post(&client, "a", "fork", JSON({"id":"b"}), 201));
        append(&client, "b", 3, 30);
        append(&client, "a", 4, 2500);
        cJSON_Delete(session_post(&client, "a", "truncate", JSON({"kv_len":2477}), 200));
        for (const char *id = "a"; id; id = id[0] == 'a' ? "b" : NULL) {
            struct session_bytes file = session_bytes_get(&client, id);
            session_bytes_put(&there, "copy", file, 201);
            struct session_bytes again = session_bytes_get(&there, "copy");
            expect_same_numbers(file, again);
            for (uint64_t call = 0; call < 3; call++) {
                char *text = append_text(20 + call, 5, call != 1);
                expect_same_call(id, "copy", text);
                free(text);
            }
            session_bytes_free(&file);
            session_bytes_free(&again);
            cJSON *shown = answer_get(&there, "/v1/sessions/copy");
            answer_expect(shown, "ttl_ms", "1200000", 0);
            answer_expect(shown, "kv_len_max", "9000", 0);
            answer_expect(shown, "evictable", "true", 0);
            cJSON_Delete(shown);
            session_delete(&there, "copy", 204);
        }
        session_delete(&client, "a", 204);
        session_delete(&client, "b", 204);
    }
    session_wait_until_empty(&there);
}

static char *layers_text(uint64_t seed, int rows)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"outputs\":[\"context\",\"lse\",\"weights\"],\"steps\":[");
    for (int layer = 0; layer < 5; layer++) {
        if (layer == 3)
            continue; /* it has fewer keys than the others */
        request_text_add(&text, "%s{\"layer\":%d,\"input\":", layer > 0 ? "," : "", layer);
        request_text_random(&text, seed + (uint64_t)layer, rows, 64);
        request_text_add(&text, "}");
    }
    request_text_add(&text, "]}");
    return text.data;
}

TEST(model_with_projections)
{
    static const char *const DTYPES[] = { "f32", "f16", "bf16", "int8" };
    char body[100];
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
        snprintf(body, sizeof body, JSON({"model":"stories260K","id":"s","dtype":"%s"}), DTYPES[i]);
        session_make(&client, body);
        char *text = layers_text(7, 90);
        cJSON_Delete(session_post(&client, "s", "attention", text, 200));
        free(text);
        struct session_bytes file = session_bytes_get(&client, "s");
        session_bytes_put(&there, "s", file, 201);
        session_bytes_free(&file);
        for (uint64_t seed = 100; seed < 130; seed += 10) {
            text = layers_text(seed, seed == 110 ? 4 : 1);
            cJSON *one = session_post(&client, "s", "attention", text, 200);
            cJSON *two = session_post(&there, "s", "attention", text, 200);
            const cJSON *first = cJSON_GetObjectItem(one, "steps");
            assert_true(cJSON_Compare(first, cJSON_GetObjectItem(two, "steps"), true));
            cJSON_Delete(one);
            cJSON_Delete(two);
            free(text);
        }
        session_delete(&client, "s", 204);
        session_delete(&there, "s", 204);
    }
}

/* A session without rows has tensors without rows, and takes any shape afterwards. */
TEST(empty)
{
    session_make(&client, JSON({"model":"sdpa","id":"empty"}));
    struct session_bytes file = session_bytes_get(&client, "empty");
    session_bytes_put(&there, "empty", file, 201);
    append(&there, "empty", 1, 3);
    append(&client, "empty", 1, 3);
    cJSON_Delete(session_post(&client, "empty", "truncate", JSON({"kv_len":0}), 200));
    session_bytes_free(&file);
    file = session_bytes_get(&client, "empty");
    session_delete(&there, "empty", 204);
    session_bytes_put(&there, "empty", file, 201);
    cJSON_Delete(
        session_post(&there, "empty", "attention", "{\"query\":[[1]],\"key\":[[1]]}", 200));
    session_bytes_free(&file);
    session_delete(&client, "empty", 204);
    session_delete(&there, "empty", 204);
}

/* ----------------------------------------------------------------------- the layout -- */

/* Head by head; by other means than the daemon's. */
TEST(layout)
{
    static const float WANT[] = { 1, 2, 5, 6, 3, 4, 7, 8, 10, 30, 20, 40 };
    const char *numbers;
    session_make(&client, JSON({"model":"sdpa","id":"l"}));
    cJSON_Delete(session_post(&client, "l", "attention",
                              "{\"query\":[[[1,1]],[[1,1]]],\"key\":[[[1,2]],[[3,4]]],"
                              "\"value\":[[[10]],[[20]]]}",
                              200));
    cJSON_Delete(session_post(&client, "l", "attention",
                              "{\"query\":[[[1,1]],[[1,1]]],\"key\":[[[5,6]],[[7,8]]],"
                              "\"value\":[[[30]],[[40]]]}",
                              200));
    struct http_response response = http_client_get(&client, "/v1/sessions/l?format=safetensors");
    assert_int_equal(response.status, 200);
    const struct session_bytes file = { response.body, response.body_size };
    cJSON *header = session_bytes_header(file, &numbers);
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    answer_expect(metadata, "attnd_session", "\"1\"", 0);
    answer_expect(metadata, "model", "\"sdpa\"", 0);
    answer_expect(metadata, "session", "\"l\"", 0);
    answer_expect(metadata, "dtype", "\"f32\"", 0);
    answer_expect(metadata, "ttl_ms", "\"600000\"", 0);
    answer_expect(header, "layers.0.key",
                  "{\"dtype\":\"F32\",\"shape\":[2,2,2],\"data_offsets\":[0,32]}", 0);
    answer_expect(header, "layers.0.value",
                  "{\"dtype\":\"F32\",\"shape\":[2,2,1],\"data_offsets\":[32,48]}", 0);
    assert_int_equal(file.bytes + file.size - numbers, sizeof WANT);
    assert_memory_equal(numbers, WANT, sizeof WANT);
    /* The checksums are those of the page: made anew, the file has the same ones. */
    cJSON *sealed = cJSON_Duplicate(header, true);
    struct session_bytes same = session_bytes_make(sealed, numbers, sizeof WANT, true);
    assert_true(cJSON_Compare(header, sealed, true));
    session_bytes_free(&same);
    cJSON_Delete(sealed);
    cJSON_Delete(header);
    http_response_free(&response);
    answer_send_refused(&client, &(struct http_request){ .path = "/v1/sessions/l?format=pickle" },
                        400, "option", NULL);
    session_delete(&client, "l", 204);
}

/* A session is shown as JSON where Accept refuses the file, or prefers JSON. */
TEST(accept)
{
    static const struct {
        const char *accept;
        bool is_file;
    } CASES[] = {
        { "Accept: application/x-safetensors;q=0, */*", false },
        { "Accept: application/x-safetensors;q=0.5, application/json", false },
        { "Accept: application/x-safetensors;q=0.5, */*;q=0.1", true },
    };
    session_make(&client, JSON({"model":"sdpa","id":"accept"}));
    append(&client, "accept", 3, 2);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const char *const headers[] = { CASES[i].accept, NULL };
        struct http_response response = http_client_send(
            &client, &(struct http_request){ .path = "/v1/sessions/accept", .headers = headers });
        assert_int_equal(response.status, 200);
        assert_int_equal(response.body[0] != '{', CASES[i].is_file);
        http_response_free(&response);
    }
    session_delete(&client, "accept", 204);
}

/* ------------------------------------------------------------------------- in order -- */

/* Files that are got while rows are appended have a length that there was, in all layers, and the
 * rows of that length. */
TEST(while_appending)
{
    enum { STEPS = 40, ROWS = 7 };
    char *bodies[STEPS];
    session_make(&client, JSON({"model":"stories260K","id":"w","layers":[0,1,2,4]}));
    for (int i = 0; i < STEPS; i++)
        bodies[i] = layers_text(1, ROWS);
    for (int i = 0; i < STEPS; i += 4) {
        static const char *const HEADERS[] = { "Accept: application/x-safetensors", NULL };
        struct http_background get, post[4];
        const char *numbers;
        http_background_start(
            &post[0], server.port,
            &(struct http_request){ .path = "/v1/sessions/w/attention", .body = bodies[i] });
        http_background_start(
            &get, server.port,
            &(struct http_request){ .path = "/v1/sessions/w", .headers = HEADERS });
        for (int k = 1; k < 4; k++)
            http_background_start(&post[k], server.port,
                                  &(struct http_request){ .path = "/v1/sessions/w/attention",
                                                          .body = bodies[i + k] });
        for (int k = 0; k < 4; k++) {
            struct http_response response = http_background_join(&post[k]);
            assert_int_equal(response.status, 200);
            http_response_free(&response);
        }
        struct http_response response = http_background_join(&get);
        assert_int_equal(response.status, 200);
        const struct session_bytes file = { response.body, response.body_size };
        cJSON *header = session_bytes_header(file, &numbers);
        const cJSON *shape =
            cJSON_GetObjectItem(cJSON_GetObjectItem(header, "layers.4.value"), "shape");
        const int length = cJSON_GetArrayItem(shape, 1)->valueint;
        assert_int_equal(length % ROWS, 0);
        shape = cJSON_GetObjectItem(cJSON_GetObjectItem(header, "layers.0.key"), "shape");
        assert_int_equal(cJSON_GetArrayItem(shape, 1)->valueint, length);
        session_bytes_put(&there, "w", file, 201);
        session_delete(&there, "w", 204);
        cJSON_Delete(header);
        http_response_free(&response);
    }
    for (int i = 0; i < STEPS; i++)
        free(bodies[i]);
    session_delete(&client, "w", 204);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    fixture_serve("--models", "examples/models");
    daemon_start_with(&other, "--models", "examples/models", NULL);
    http_client_init(&there, other.port);
    return 0;
}

TEST(other_stops_cleanly)
{
    session_wait_until_empty(&client);
    session_wait_until_empty(&there);
    http_client_free(&there);
    daemon_stop(&other);
}

static int clear(void **state)
{
    daemon_kill(&other);
    return fixture_clear(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
