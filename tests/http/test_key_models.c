/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_models.c - a key with patterns sees and calls only the models that they match, on every
 * endpoint that lists or names models, and learns of no other. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "model_bytes.h"
#include "test.h"

/* The models are demo, sdpa, mine, team-a, team-b and secret. */
static const struct key_line KEYS[] = {
    { "all", "infer" },      { "team", "infer:team-*" },
    { "one", "infer:mine" }, { "two", "infer:mine,demo,metrics" },
    { "admin", "admin" },    { "owner", "models" },
    { NULL, NULL },
};

#define WORDS "\"query\":[[1,0,0],[0,1,0]]"

static struct http_response get(const char *key, const char *path, long status)
{
    return key_expect(&client, key, &(struct http_request){ .path = path }, status);
}

static struct http_response post(const char *key, const char *path, const char *body, long status)
{
    return key_expect(&client, key, &(struct http_request){ .path = path, .body = body }, status);
}

/* ------------------------------------------------------------------------ lists -- */

/* "mine,demo,": the member name of each object of a list, or each string. */
static void names_of(const cJSON *list, char *names, size_t size)
{
    const cJSON *row;
    assert_true(cJSON_IsArray(list));
    names[0] = '\0';
    cJSON_ArrayForEach(row, list) {
        const cJSON *name = cJSON_IsString(row) ? row : cJSON_GetObjectItem(row, "name");
        const size_t used = strlen(names);
        snprintf(names + used, size - used, "%s,", name->valuestring);
    }
}

static void expect_names(struct http_response response, const char *member, const char *wanted)
{
    char names[200];
    cJSON *json = cJSON_Parse(response.body);
    names_of(member ? cJSON_GetObjectItem(json, member) : json, names, sizeof names);
    assert_string_equal(names, wanted);
    cJSON_Delete(json);
    http_response_free(&response);
}

TEST(lists)
{
    static const struct {
        const char *key, *names;
    } CASES[] = {
        { "all", "demo,mine,sdpa,secret,team-a,team-b," },
        { "admin", "demo,mine,sdpa,secret,team-a,team-b," },
        { "team", "team-a,team-b," },
        { "one", "mine," },
        { "two", "demo,mine," },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        expect_names(get(CASES[i].key, "/v1/models", 200), "models", CASES[i].names);
        expect_names(get(CASES[i].key, "/v2/models", 200), "models", CASES[i].names);
        expect_names(post(CASES[i].key, "/v2/repository/index", "{}", 200), NULL, CASES[i].names);
    }
    struct http_response response = get("two", "/v2/models/stats", 200);
    assert_non_null(strstr(response.body, "\"secret\""));
    http_response_free(&response);
    response = get("two", "/v2/models/secret/stats", 200);
    http_response_free(&response);
}

/* ------------------------------------------------------------------- the path -- */

/* Refused in the same words whether there is such a model or not. */
static void expect_hidden(const char *key, const char *format, const char *body)
{
    static const char *const NAMES[] = { "secret", "nobody" };
    char path[128], says[64];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, format, NAMES[i]);
        snprintf(says, sizeof says, "no scope 'infer:%s'", NAMES[i]);
        key_expect_refused(&client, key, &(struct http_request){ .path = path, .body = body }, 403,
                           "scope", says);
    }
}

static const char OIP[] = "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
                          "\"data\":[1,0,0]}]}";

TEST(paths)
{
    static const char *const GETS[] = {
        "/v1/models/%s",
        "/v2/models/%s",
        "/v2/models/%s/ready",
        "/v2/models/%s/config",
        "/v2/models/%s/versions/1",
        "/v2/models/%s/versions/1/ready",
        "/v2/models/%s/versions/1/config",
    };
    char path[128];
    for (size_t i = 0; i < sizeof GETS / sizeof GETS[0]; i++) {
        struct http_response response;
        expect_hidden("team", GETS[i], NULL);
        snprintf(path, sizeof path, GETS[i], "team-b");
        response = get("team", path, 200);
        http_response_free(&response);
    }
    expect_hidden("one", "/v2/models/%s/infer", OIP);
    expect_hidden("one", "/v2/models/%s/versions/1/infer", OIP);
    struct http_response response = post("one", "/v2/models/mine/infer", OIP, 200);
    http_response_free(&response);
    response = post("one", "/v2/models/mine/versions/1/infer", OIP, 200);
    http_response_free(&response);
}

/* A fault lists the names that there are: only those of the key. */
TEST(messages)
{
    const struct http_request missing = { .path = "/v1/models/team-z" };
    const struct http_request oip = { .path = "/v2/models/team-z" };
    const struct http_request call = { .path = "/v1/attention",
                                       .body = "{\"model\":\"team-z\"," WORDS "}" };
    const struct http_request nameless = { .path = "/v1/attention", .body = "{" WORDS "}" };
    key_expect_refused(&client, "team", &missing, 404, "not_found", "there are team-a, team-b");
    key_expect_refused(&client, "team", &oip, 404, "not_found", "there are team-a, team-b");
    key_expect_refused(&client, "team", &call, 404, "not_found", "there are team-a, team-b");
    key_expect_refused(&client, "team", &nameless, 400, "field", "there are team-a, team-b");
}

/* -------------------------------------------------------------------- the body -- */

#define GRADIENT WORDS ",\"context_gradient\":[[1,0,0],[0,1,0]]}"
#define PARTS    "\"parts\":[{\"context\":[[[1,2,3]]],\"lse\":[[0]]}]}"

TEST(bodies)
{
    static const struct {
        const char *path, *rest;
    } CALLS[] = {
        { "/v1/attention", WORDS "}" },
        { "/v1/attention/gradients", GRADIENT },
        { "/v1/attention/merge", PARTS },
    };
    static const char *const HIDDEN[] = { "secret", "nobody", "sdpa" };
    char body[300], says[64];
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        for (int j = 0; j < 3; j++) {
            snprintf(body, sizeof body, "{\"model\":\"%s\",%s", HIDDEN[j], CALLS[i].rest);
            snprintf(says, sizeof says, "no scope 'infer:%s'", HIDDEN[j]);
            const struct http_request request = { .path = CALLS[i].path, .body = body };
            key_expect_refused(&client, "one", &request, 403, "scope", says);
        }
        snprintf(body, sizeof body, "{\"model\":\"mine\",%s", CALLS[i].rest);
        struct http_response response = post("one", CALLS[i].path, body, 200);
        http_response_free(&response);
    }
    struct http_response response = post("one", "/v1/softmax", JSON({"input":[1,2]}), 200);
    http_response_free(&response);
}

/* Where the model is left out, the only one is the only one that the key sees. */
TEST(no_model)
{
    struct http_response response = post("one", "/v1/attention", "{" WORDS "}", 200);
    assert_non_null(strstr(response.body, JSON("model":"mine")));
    http_response_free(&response);
    response = post("two", "/v1/attention", "{" WORDS "}", 200);
    assert_non_null(strstr(response.body, JSON("model":"mine")));
    http_response_free(&response);
    const struct http_request request = { .path = "/v1/attention", .body = "{" WORDS "}" };
    key_expect_refused(&client, "all", &request, 400, "field", "secret");
}

/* A model that the key may not use fails its item alone. */
TEST(batch)
{
    struct http_response response =
        post("one", "/v1/attention/batch",
             "{\"requests\":[{\"model\":\"mine\"," WORDS "},{\"model\":\"secret\"," WORDS
             "},{\"model\":\"nobody\"," WORDS "},{" WORDS "}]}",
             200);
    cJSON *json = cJSON_Parse(response.body);
    const cJSON *items = cJSON_GetObjectItem(json, "results");
    if (!items)
        fail_msg("%s", response.body);
    assert_int_equal(cJSON_GetArraySize(items), 4);
    assert_non_null(cJSON_GetObjectItem(cJSON_GetArrayItem(items, 0), "context"));
    answer_expect_item_fault(cJSON_GetArrayItem(items, 1), "scope", "/requests/1/model");
    answer_expect_item_fault(cJSON_GetArrayItem(items, 2), "scope", "/requests/2/model");
    assert_non_null(cJSON_GetObjectItem(cJSON_GetArrayItem(items, 3), "context"));
    cJSON_Delete(json);
    http_response_free(&response);
}

TEST(safetensors)
{
    static const float query[3] = { 1, 0, 0 };
    static const struct {
        const char *metadata;
        long status;
    } CASES[] = {
        { "{\"model\":\"mine\"}", 200 },
        { "{\"model\":\"secret\"}", 403 },
        { "{\"model\":\"nobody\"}", 403 },
    };
    char head[160];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        unsigned char file[600];
        const int size =
            snprintf(head, sizeof head,
                     "{\"__metadata__\":%s,\"query\":{\"dtype\":\"F32\",\"shape\":[1,3],"
                     "\"data_offsets\":[0,12]}}",
                     CASES[i].metadata);
        memset(file, 0, 8);
        file[0] = (unsigned char)size;
        memcpy(file + 8, head, (size_t)size);
        memcpy(file + 8 + size, query, sizeof query);
        const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
        const struct http_request request = { .path = "/v1/attention",
                                              .body = (const char *)file,
                                              .body_size = 8 + (size_t)size + sizeof query,
                                              .headers = headers };
        struct http_response response = key_expect(&client, "one", &request, CASES[i].status);
        assert_true(CASES[i].status == 200 || strstr(response.body, "'infer:"));
        http_response_free(&response);
    }
}

/* ------------------------------------------------------------------ the owner -- */

/* The scope models has no patterns, and brings no right to see or call. */
TEST(owner)
{
    const struct http_request list = { .path = "/v1/models" };
    const struct http_request drop = { .method = "DELETE", .path = "/v1/models/secret" };
    key_expect_refused(&client, "owner", &list, 403, "scope", "'infer'");
    key_expect_refused(&client, "one", &drop, 403, "scope", "'models'");
    struct http_response response = post("owner", "/v2/repository/models/secret/load", "{}", 200);
    http_response_free(&response);
}

/* ------------------------------------------------------------------- start, end -- */

static int start(void **state)
{
    static const char *const NAMES[] = { "mine", "team-a", "team-b", "secret" };
    char file[64];
    directory = daemon_directory_create();
    for (int i = 0; i < 4; i++) {
        struct model_bytes bytes = model_bytes_demo(2, "");
        snprintf(file, sizeof file, "%s.safetensors", NAMES[i]);
        daemon_directory_write(directory, file, bytes.data, bytes.size);
        free(bytes.data);
    }
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--models", directory, "--model-control", "explicit", "--keys",
                  fixture_path("keys"));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
