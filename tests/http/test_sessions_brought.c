/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_brought.c - keys and values that come from elsewhere: appended without a query, and
 * as a file that holds only what the page asks for. Attention over them has the bits of one call.
 */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "tensor_body.h"
#include "test.h"

enum { HEADS = 2, ROWS = 70, COLUMNS = 8, SIDE = HEADS * ROWS * COLUMNS };

static float sides[2][SIDE]; /* [HEADS][ROWS][COLUMNS] */

/* ,"key":[[[...]]],"value":...: of rows [first, end). */
static void add_rows(struct request_text *text, int64_t first, int64_t end)
{
    for (int side = 0; side < 2; side++) {
        request_text_add(text, side == 0 ? ",\"key\":[" : ",\"value\":[");
        for (int64_t h = 0; h < HEADS; h++) {
            request_text_add(text, h > 0 ? "," : "");
            request_text_matrix(text, sides[side] + (h * ROWS + first) * COLUMNS, end - first,
                                COLUMNS);
        }
        request_text_add(text, "]");
    }
}

/* What the session answers is what one call over all rows does. */
static void expect_whole(const char *id)
{
    struct request_text look = { .data = NULL }, whole = { .data = NULL };
    request_text_add(&look, "{\"q_heads\":4,\"outputs\":[\"context\",\"lse\"],\"query\":");
    request_text_random(&look, 3, 2, 4 * COLUMNS);
    request_text_add(&whole, "%s,\"model\":\"sdpa\",\"kv_heads\":%d", look.data, HEADS);
    request_text_add(&look, ",\"kv_heads\":%d}", HEADS);
    add_rows(&whole, 0, ROWS);
    request_text_add(&whole, "}");
    cJSON *got = session_post(&client, id, "attention", look.data, 200);
    cJSON *expected = answer_post(&client, "/v1/attention", whole.data);
    session_expect_same(got, expected);
    cJSON_Delete(got);
    cJSON_Delete(expected);
    free(look.data);
    free(whole.data);
}

static void append(const char *id, const char *more, int64_t first, int64_t end, int kv_len)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"layer\":0%s", more);
    add_rows(&text, first, end);
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, id, "attention", text.data, 200);
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, kv_len);
    assert_null(cJSON_GetObjectItem(answer, "context"));
    assert_null(cJSON_GetObjectItem(answer, "weights"));
    cJSON_Delete(answer);
    free(text.data);
}

TEST(no_query)
{
    session_make(&client, JSON({"model":"sdpa","id":"n"}));
    append("n", "", 0, 30, 30);
    append("n", ",\"at\":30", 30, ROWS, ROWS);
    append("n", ",\"at\":30", 30, ROWS, ROWS); /* sent again */
    append("n", ",\"append\":false", 0, 1, ROWS);
    expect_whole("n");
    session_refused(&client, "n", "attention", "{\"value\":[[1]]}", 400, "field",
                    "query is missing");
    session_delete(&client, "n", 204);
}

/* In many sessions at once, one with a window. */
TEST(no_query_of_lists)
{
    struct request_text text = { .data = NULL };
    session_make(&client, JSON({"model":"sdpa","id":"n"}));
    session_make(&client, JSON({"model":"sdpa","id":"w","window":5}));
    request_text_add(&text, "{\"requests\":[{\"session\":\"n\"");
    add_rows(&text, 0, ROWS);
    request_text_add(&text, "},{\"session\":\"w\"");
    add_rows(&text, 0, ROWS);
    request_text_add(&text, "}]}");
    cJSON *answer = answer_post(&client, "/v1/sessions/attention", text.data);
    answer_expect(
        answer, "results",
        "[{\"session\":\"n\",\"kv_len\":70,\"model\":\"sdpa\",\"layer\":0,\"layer_kv_len\":70},"
        "{\"session\":\"w\",\"kv_len\":70,\"model\":\"sdpa\",\"layer\":0,\"layer_kv_len\":70}]",
        0);
    cJSON_Delete(answer);
    free(text.data);
    expect_whole("n");
    session_delete(&client, "n", 204);
    session_delete(&client, "w", 204);
}

/* As tensors, in halves: the metadata of the answer has the lengths. */
TEST(no_query_of_file)
{
    static const uint16_t NUMBERS[2 * 3 * 4] = { 0x3c00, 0, 0x3800, 0x4000 };
    struct tensor_body body = { .used = 0 };
    session_make(&client, JSON({"model":"sdpa","id":"h","dtype":"f16"}));
    tensor_body_add(&body, "key", "F16", "[2,3,4]", NUMBERS, sizeof NUMBERS);
    tensor_body_add(&body, "value", "F16", "[2,3,4]", NUMBERS, sizeof NUMBERS);
    struct http_response response = tensor_body_post(&client, "/v1/sessions/h/attention", &body,
                                                     "{}", 0, "application/x-safetensors");
    cJSON *header = tensor_body_header(&response);
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    answer_expect(metadata, "kv_len", "\"3\"", 0);
    cJSON_Delete(header);
    http_response_free(&response);
    assert_int_equal(session_number(&client, "h", "bytes"), 2 * sizeof NUMBERS);
    session_delete(&client, "h", 204);
}

/* ------------------------------------------------------------------------- a file -- */

static struct session_bytes make_file(const char *metadata)
{
    char text[1000];
    snprintf(text, sizeof text,
             "{\"__metadata__\":%s,\"layers.0.key\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],"
             "\"data_offsets\":[0,%zu]},\"layers.0.value\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],"
             "\"data_offsets\":[%zu,%zu]}}",
             metadata, HEADS, ROWS, COLUMNS, sizeof sides[0], HEADS, ROWS, COLUMNS, sizeof sides[0],
             sizeof sides);
    cJSON *header = cJSON_Parse(text);
    assert_non_null(header);
    struct session_bytes file =
        session_bytes_make(header, (const char *)sides, sizeof sides, false);
    cJSON_Delete(header);
    return file;
}

TEST(own_file)
{
    struct session_bytes file = make_file(JSON({"attnd_session":"1","model":"sdpa","dtype":"f32"}));
    session_bytes_put(&client, "own", file, 201);
    session_bytes_free(&file);
    expect_whole("own");
    assert_true(session_number(&client, "own", "ttl_ms") == 600000);
    file = session_bytes_get(&client, "own"); /* whole, with all checksums */
    session_delete(&client, "own", 204);
    session_bytes_put(&client, "own", file, 201);
    expect_whole("own");
    session_bytes_free(&file);
    session_delete(&client, "own", 204);
}

/* A window without first_keys has none, as where a session is made. */
TEST(own_window)
{
    struct session_bytes file = make_file(
        "{\"attnd_session\":\"1\",\"model\":\"sdpa\",\"dtype\":\"f32\",\"window\":\"5\"}");
    session_bytes_put(&client, "own", file, 201);
    session_bytes_free(&file);
    assert_int_equal(session_number(&client, "own", "window"), 5);
    assert_int_equal(session_number(&client, "own", "first_keys"), 0);
    session_delete(&client, "own", 204);
}

/* What is said is held to. */
TEST(own_file_refused)
{
#define MUST "\"attnd_session\":\"1\",\"model\":\"sdpa\",\"dtype\":\"f32\""
    static const struct {
        const char *metadata;
        long status;
        const char *code, *says;
    } BAD[] = {
        { "{\"model\":\"sdpa\",\"dtype\":\"f32\"}", 400, "field", "attnd_session is missing" },
        { "{\"attnd_session\":\"1\",\"dtype\":\"f32\"}", 400, "field", "model is missing" },
        { "{\"attnd_session\":\"1\",\"model\":\"sdpa\"}", 400, "field", "dtype is missing" },
        { "{" MUST ",\"ttl_ms\":\"x\"}", 400, "option", "ttl_ms is 'x'" },
        { "{" MUST ",\"model_sha256\":\"0\"}", 409, "conflict", "another model" },
        { "{" MUST ",\"sha256.layers.0.key\":\"0\"}", 400, "binary", "checksum" },
        { "{" MUST ",\"window\":\"0\"}", 400, "option", "window is '0'" },
        { "{" MUST ",\"first_keys\":\"1\"}", 400, "option", "first_keys and no window" },
        { "{" MUST ",\"sha256\":\"0\"}", 400, "field", "is missing" },
        { "{" MUST ",\"author\":\"me\"}", 400, "field", "this build does not know" },
        { "{\"attnd_session\":\"1\",\"model\":\"stories260K\",\"dtype\":\"f32\"}", 400, "shape",
          "layer 0" },
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct session_bytes file = make_file(BAD[i].metadata);
        session_bytes_refused(&client, "own", file, BAD[i].status, BAD[i].code, BAD[i].says);
        session_bytes_free(&file);
    }
#undef MUST
}

static int start(void **state)
{
    struct fill fill = { 20261123 };
    fill_floats(&fill, sides[0], 2 * SIDE, -1, 1);
    fixture_serve("--models", "examples/models");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
