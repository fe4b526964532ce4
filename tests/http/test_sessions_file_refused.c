/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_file_refused.c - files of sessions that lie, or that come from somebody who may
 * not: each is refused, and leaves nothing. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "key_file.h"
#include "model_client.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

/* Keys of 8 columns. */
static void append(struct http_client *own, const char *id, int rows)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"outputs\":[\"lse\"],\"query\":");
    request_text_digits(&text, 1, 8);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, 1, rows, 8);
    request_text_add(&text, "}");
    cJSON_Delete(session_post(own, id, "attention", text.data, 200));
    free(text.data);
}

static struct session_bytes file; /* of a session with 70 keys in layer 0 of sdpa */

/* ------------------------------------------------------------------------------ lies -- */

/* A member of the metadata, or of a tensor: KEY is "__metadata__" or the tensor's name. */
struct lie {
    const char *key, *member;
    const char *value; /* JSON; NULL: the member is taken away */
    const char *code, *says;
    bool seals; /* the checksums are made anew, so that only the lie is wrong */
};

#define META  "__metadata__"
#define KEY   "layers.0.key"
#define VALUE "layers.0.value"

static const struct lie LIES[] = {
    { META, "attnd_session", NULL, "field", "expected the file of a session", true },
    { META, "attnd_session", "\"2\"", "option", "has version '2'; this build reads", true },
    { META, "more", "\"1\"", "field", "'more' in __metadata__ of the session's file", true },
    { META, "model", NULL, "field", "model is missing", true },
    { META, "model", "\"demo\"", "conflict", "belongs to another model 'demo'", true },
    { META, "model", "\"nobody\"", "not_found", "nobody", true },
    { META, "model_sha256", "\"00\"", "conflict", "belongs to another model 'sdpa'", true },
    { META, "model_sha256", NULL, "field", "model_sha256 is missing", true },
    { META, "dtype", NULL, "field", "dtype is missing", true },
    { META, "dtype", "\"f16\"", "dtype", "layers.0.key is F32", true },
    { META, "dtype", "\"f8\"", "option", "dtype is 'f8'", true },
    { META, "ttl_ms", "\"0\"", "option", "ttl_ms is '0'", true },
    { META, "ttl_ms", "\"86400001\"", "option", "from 1 to 86400000", true },
    { META, "ttl_ms", "\"-1\"", "option", "ttl_ms is '-1'", true },
    { META, "ttl_ms", "\"1e3\"", "option", "ttl_ms is '1e3'", true },
    { META, "ttl_ms", "\"99999999999999999999\"", "option", "ttl_ms is '9999", true },
    { META, "ttl_ms", "\"700000\"", "binary", "the file is damaged", false },
    { META, "ttl_ms", NULL, "field", "ttl_ms is missing", true },
    { META, "kv_len_max", "\"69\"", "length", "has 70 keys in the session's file", true },
    { META, "kv_len_max", "\"0\"", "option", "kv_len_max is '0'", true },
    { META, "evictable", "\"yes\"", "option", "expected true or false", true },
    { META, "age_us", "\"9223372036854775807\"", "option", "age_us is", true },
    { META, "idle_us", NULL, "field", "idle_us is missing", true },
    { META, "session", NULL, "field", "session is missing", true },
    { META, "sha256", "\"0\"", "binary", "the file is damaged", false },
    { META, "sha256." KEY, NULL, "field", "sha256.layers.0.key is missing", false },
    { META, "sha256." KEY, "\"0\"", "binary", "the file is damaged", false },
    { META, "ttl_ms", "600000", "json", "string", false },
    { KEY, "shape", "[1,70]", "binary", "", true },
    { KEY, "shape", "[70,8]", "shape", "has 2 dimensions", true },
    { KEY, "shape", "[1,1,70,8]", "shape", "has 4 dimensions", true },
    { KEY, "shape", "[1,8,70]", "shape", "1 and 1 heads, 8 and 70 rows", true },
    { KEY, "shape", "[2,35,8]", "shape", "2 and 1 heads, 35 and 70 rows", true },
    { KEY, "shape", "[1,70,9]", "binary", "", true },
    { KEY, "dtype", "\"I32\"", "dtype", "layers.0.key is I32", true },
    { KEY, "dtype", "\"F64\"", "binary", "", true },
    { VALUE, "shape", "[1,35,16]", "shape", "70 and 35 rows", true },
    { VALUE, "data_offsets", "[0,2240]", "binary", "", false },
    { VALUE, "data_offsets", "[2240,4481]", "binary", "", false },
    { VALUE, "data_offsets", "[4480,2240]", "binary", "", false },
    { VALUE, "data_offsets", "[2240,1e30]", "json", "", false },
};

static void tell(const struct lie *lie)
{
    const char *numbers;
    cJSON *header = session_bytes_header(file, &numbers);
    cJSON *object = cJSON_GetObjectItem(header, lie->key);
    const size_t bytes = (size_t)(file.bytes + file.size - numbers);
    cJSON_DeleteItemFromObjectCaseSensitive(object, lie->member);
    if (lie->value)
        cJSON_AddItemToObject(object, lie->member, cJSON_Parse(lie->value));
    struct session_bytes lying = session_bytes_make(header, numbers, bytes, lie->seals);
    struct http_response response = session_bytes_send(&client, "lie", lying);
    if (!strstr(response.body, lie->says))
        fail_msg("%s %s: %s does not say '%s'", lie->member, lie->value, response.body, lie->says);
    answer_expect_fault(&response, response.status, lie->code, NULL);
    assert_in_range(response.status, 400, 499);
    http_response_free(&response);
    session_bytes_free(&lying);
    cJSON_Delete(header);
}

TEST(lies)
{
    for (size_t i = 0; i < sizeof LIES / sizeof LIES[0]; i++)
        tell(&LIES[i]);
    session_get(&client, "lie", 404);
}

/* Names of tensors; the numbers of both stay. */
TEST(names)
{
    static const struct {
        const char *name, *code, *says;
    } NAMES[] = {
        { "layers.1.value", "field", "there is no tensor layers.0.value" },
        { "layers.1000.value", "field", "expected layers.0.key" },
        { "layers.00.value", "field", "expected layers.0.key" },
        { "layers.-0.value", "field", "expected layers.0.key" },
        { "layers..value", "field", "expected layers.0.key" },
        { "layers.0.values", "field", "expected layers.0.key" },
        { "layers.0", "field", "expected layers.0.key" },
        { "value", "field", "expected layers.0.key" },
        { "layers.0.key", "duplicate", "" },
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const char *numbers;
        cJSON *header = session_bytes_header(file, &numbers);
        cJSON *tensor = cJSON_DetachItemFromObject(header, VALUE);
        cJSON_AddItemToObject(header, NAMES[i].name, tensor);
        struct session_bytes lying =
            session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
        session_bytes_refused(&client, "lie", lying, 400, NAMES[i].code, NAMES[i].says);
        session_bytes_free(&lying);
        cJSON_Delete(header);
    }
}

/* Layers that the model does not have, and heads that are not its own. */
TEST(other_layers)
{
    const char *numbers;
    cJSON *header = session_bytes_header(file, &numbers);
    for (int side = 0; side < 2; side++)
        cJSON_AddItemToObject(header, side ? "layers.7.value" : "layers.7.key",
                              cJSON_DetachItemFromObject(header, side ? VALUE : KEY));
    struct session_bytes lying =
        session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
    session_bytes_refused(&client, "lie", lying, 404, "not_found", "has layer 7; model 'sdpa' has");
    session_bytes_free(&lying);
    cJSON_Delete(header);
    session_make(&client, JSON({"model":"stories260K","id":"s","layers":[2]}));
    struct session_bytes other = session_bytes_get(&client, "s");
    cJSON *wanted = session_bytes_header(other, &numbers);
    const cJSON *identity = cJSON_GetObjectItem(cJSON_GetObjectItem(wanted, META), "model_sha256");
    header = session_bytes_header(file, &numbers);
    cJSON *metadata = cJSON_GetObjectItem(header, META);
    cJSON_ReplaceItemInObjectCaseSensitive(metadata, "model_sha256",
                                           cJSON_CreateString(identity->valuestring));
    cJSON_ReplaceItemInObjectCaseSensitive(metadata, "model", cJSON_CreateString("stories260K"));
    lying = session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
    session_bytes_refused(&client, "lie", lying, 400, "shape",
                          "layer 0 of the session's file has 1");
    session_bytes_free(&lying);
    session_bytes_free(&other);
    cJSON_Delete(wanted);
    cJSON_Delete(header);
    session_delete(&client, "s", 204);
}

/* ------------------------------------------------------------------------- damage -- */

/* One bit at a time, at random, and each bit of the first bytes. */
TEST(flipped_bits)
{
    struct fill fill = { 20261123 };
    for (int i = 0; i < 1500; i++) {
        const int64_t at = i < 200 ? i / 8 : fill_below(&fill, (int64_t)file.size);
        const char bit = (char)(1 << (i < 200 ? i % 8 : fill_below(&fill, 8)));
        file.bytes[at] ^= bit;
        struct http_response response = session_bytes_send(&client, "bit", file);
        if (response.status < 400 || response.status > 499)
            fail_msg("byte %lld, bit %d: %ld %s", (long long)at, bit, response.status,
                     response.body);
        http_response_free(&response);
        file.bytes[at] ^= bit;
    }
    session_get(&client, "bit", 404);
}

TEST(cut)
{
    struct fill fill = { 7 };
    for (int i = 0; i < 300; i++) {
        const size_t size = i < 12 ? (size_t)i : (size_t)fill_below(&fill, (int64_t)file.size);
        struct http_response response =
            session_bytes_send(&client, "cut", (struct session_bytes){ file.bytes, size });
        if (response.status != 400)
            fail_msg("%zu bytes: %ld %s", size, response.status, response.body);
        http_response_free(&response);
    }
    session_get(&client, "cut", 404);
}

TEST(names_and_types)
{
    static const char *const JSON[] = { "Content-Type: application/json", NULL };
    const struct http_request typed = { .method = "PUT",
                                        .path = "/v1/sessions/t",
                                        .body = file.bytes,
                                        .body_size = file.size,
                                        .headers = JSON };
    char id[100];
    answer_send_refused(&client, &typed, 415, "content_type", NULL);
    session_bytes_refused(&client, "attention", file, 400, "option",
                          "not '.', '..' or 'attention'");
    session_bytes_refused(&client, "%C3%A9", file, 400, "option", "expected 1 to 64");
    snprintf(id, sizeof id, "%065d", 0);
    session_bytes_refused(&client, id, file, 400, "option", "expected 1 to 64");
}

/* ------------------------------------------------------------------ who, and how much -- */

static const struct key_line KEYS[] = {
    { "anna", "infer,sessions sessions=2" },
    { "bert", "infer,sessions" },
    { "other", "infer:demo,sessions" },
    { "all", "infer,sessions:all" },
    { "blind", "sessions:all" },
    { NULL, NULL },
};

TEST(owners)
{
    static const char *const TYPE[] = { "Content-Type: application/x-safetensors", NULL };
    struct daemon own;
    struct http_client to;
    session_make(&client, JSON({"model":"sdpa","id":"x"}));
    append(&client, "x", 2);
    struct session_bytes own_file = session_bytes_get(&client, "x");
    const struct http_request put = { .method = "PUT",
                                      .path = "/v1/sessions/x",
                                      .body = own_file.bytes,
                                      .body_size = own_file.size,
                                      .headers = TYPE };
    struct http_request second = put, third = put;
    second.path = "/v1/sessions/y";
    third.path = "/v1/sessions/z";
    static const struct http_request GET = { .path = "/v1/sessions/x?format=safetensors" };
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&own, "--keys", fixture_path("keys"), NULL);
    http_client_init(&to, own.port);
    struct http_response response = key_expect(&to, "anna", &put, 201);
    assert_non_null(strstr(response.body, JSON("owner":"anna")));
    http_response_free(&response);
    response = key_expect(&to, "anna", &put, 200); /* it is there, made of this very file */
    http_response_free(&response);
    key_expect_refused(&to, "other", &put, 403, "scope", "infer:sdpa");
    key_expect_refused(&to, "bert", &GET, 404, "not_found", "no session 'x'");
    key_expect_refused(&to, "blind", &GET, 403, "scope", "infer");
    response = key_expect(&to, "all", &GET, 200);
    assert_non_null(memmem(response.body, response.body_size, JSON("owner":"anna"), 14));
    http_response_free(&response);
    response = key_expect(&to, "bert", &put, 201); /* a name of its own, whoever had it before */
    assert_non_null(strstr(response.body, JSON("owner":"bert")));
    http_response_free(&response);
    response = key_expect(&to, "anna", &second, 201);
    http_response_free(&response);
    key_expect_refused(&to, "anna", &third, 429, "quota", "'anna' has 2 sessions");
    free(daemon_log_with(&own, "audit who=anna what=\"PUT /v1/sessions/{session}\" session=x"));
    http_client_free(&to);
    daemon_stop(&own);
    session_bytes_free(&own_file);
    session_delete(&client, "x", 204);
}

/* Where the budget is full a file is refused, and what could make room is not ended in vain. */
TEST(budget)
{
    struct daemon own;
    struct http_client to;
    session_make(&client, JSON({"model":"sdpa","id":"big"}));
    append(&client, "big", 1500);
    struct session_bytes own_file = session_bytes_get(&client, "big");
    daemon_start_with(&own, "--session-memory-max", "128KiB", NULL);
    http_client_init(&to, own.port);
    session_make(&to, JSON({"model":"sdpa","id":"old","evictable":true}));
    append(&to, "old", 600);
    append(&client, "big", 3000);
    struct session_bytes larger = session_bytes_get(&client, "big");
    session_bytes_refused(&to, "more", larger, 413, "too_large", "288000 more bytes");
    session_bytes_free(&larger);
    session_get(&to, "old", 200);
    session_bytes_put(&to, "big", own_file, 201);
    session_get(&to, "old", 410);
    session_bytes_refused(&to, "more", own_file, 503, "memory", "--session-memory-max");
    session_get(&to, "more", 404);
    assert_int_equal(session_number(&to, "big", "kv_len"), 1500);
    session_delete(&to, "big", 204);
    session_wait_until_empty(&to);
    http_client_free(&to);
    daemon_stop(&own);
    session_bytes_free(&own_file);
    session_delete(&client, "big", 204);
}

/* A model of the same name with other parameters, or none of that name. */
TEST(other_model)
{
    struct daemon own;
    struct http_client to;
    daemon_start_with(&own, "--models", directory, "--model-control", "explicit", NULL);
    http_client_init(&to, own.port);
    model_put_demo(&to, "mine", 1, 201);
    session_make(&to, JSON({"model":"mine","id":"m"}));
    cJSON_Delete(session_post(&to, "m", "attention", JSON({"input":[[1,0,0]]}), 200));
    struct session_bytes own_file = session_bytes_get(&to, "m");
    model_put_demo(&to, "mine", 2, 200);
    session_bytes_refused(&to, "n", own_file, 409, "conflict", "belongs to another model 'mine'");
    model_put_demo(&to, "mine", 1, 200); /* the same again */
    session_bytes_put(&to, "n", own_file, 201);
    session_bytes_refused(&client, "n", own_file, 404, "not_found", "mine");
    http_client_free(&to);
    daemon_stop(&own);
    session_bytes_free(&own_file);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    fixture_serve("--models", "examples/models");
    session_make(&client, JSON({"model":"sdpa","id":"first","kv_len_max":70}));
    append(&client, "first", 70);
    file = session_bytes_get(&client, "first");
    session_bytes_put(&client, "second", file, 201);
    session_bytes_put(&client, "second", file, 200); /* it was made of this very file */
    struct session_bytes older = session_bytes_get(&client, "first");
    session_bytes_put(&client, "second", older, 200); /* which differs in its ages */
    session_bytes_free(&older);
    session_make(&client, JSON({"model":"sdpa","id":"third"}));
    session_bytes_refused(&client, "third", file, 409, "conflict", "a session 'third' already");
    session_delete(&client, "third", 204);
    session_delete(&client, "second", 204);
    return 0;
}

TEST(nothing_is_left)
{
    session_delete(&client, "first", 204);
    session_wait_until_empty(&client);
    session_bytes_free(&file);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
