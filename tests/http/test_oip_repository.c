/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_repository.c - the model repository extension: the index, loading and unloading.
 *
 * The models are demo with its context multiplied, so that an answer tells which file it came from.
 */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

static void write_demo(const char *name, float factor)
{
    char file_name[200];
    struct model_bytes file = model_bytes_demo(factor, "");
    /* Writes a new file; does not write into the file that is mapped. */
    snprintf(file_name, sizeof(file_name), "%s/%s", directory, name);
    remove(file_name);
    daemon_directory_write(directory, name, file.data, file.size);
    free(file.data);
}

static struct http_response ask(const char *name, const char *what, const char *body)
{
    char path[300];
    snprintf(path, sizeof(path), "/v2/repository/models/%s/%s", name, what);
    return http_client_send(&client,
                            &(struct http_request){ .method = "POST", .path = path, .body = body });
}

static void expect_done(const char *name, const char *what, const char *body)
{
    struct http_response response = ask(name, what, body);
    cJSON *answer = answer_json(&response, 200);
    char quoted[100], members[50];
    snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    snprintf(members, sizeof(members), "name,%s", what);
    answer_expect_members(answer, members);
    answer_expect(answer, "name", quoted, 0);
    answer_expect(answer, what, "true", 0);
    cJSON_Delete(answer);
    http_response_free(&response);
}

static void expect_refused(const char *name, const char *what, const char *body, long status,
                           const char *code, const char *pointer)
{
    struct http_response response = ask(name, what, body);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
}

/* The index; the caller deletes it. */
static cJSON *read_index(const char *body)
{
    struct http_response response = http_client_send(
        &client,
        &(struct http_request){ .method = "POST", .path = "/v2/repository/index", .body = body });
    assert_int_equal(response.status, 200);
    cJSON *index = cJSON_Parse(response.body);
    assert_true(cJSON_IsArray(index));
    http_response_free(&response);
    return index;
}

/* If state is NULL, the name is not in the index. The row's reason begins with reason. */
static void expect_state(const char *body, const char *name, const char *state, const char *reason)
{
    cJSON *index = read_index(body);
    const cJSON *model;
    bool found = false;
    cJSON_ArrayForEach(model, index) {
        answer_expect_members(model, "name,version,state,reason");
        answer_expect(model, "version", "\"1\"", 0);
        if (strcmp(cJSON_GetObjectItem(model, "name")->valuestring, name) != 0)
            continue;
        found = true;
        assert_non_null(state);
        assert_string_equal(cJSON_GetObjectItem(model, "state")->valuestring, state);
        const char *given = cJSON_GetObjectItem(model, "reason")->valuestring;
        if (reason[0] ? strncmp(given, reason, strlen(reason)) != 0 : given[0] != '\0')
            fail_msg("the reason is: %s", given);
    }
    assert_true(found == (state != NULL));
    cJSON_Delete(index);
}

/* The gauges of the metrics follow every change. */
static void expect_gauges(int ready, int failed)
{
    char lines[2][100];
    struct http_response response = http_client_get(&client, "/metrics");
    snprintf(lines[0], sizeof(lines[0]), "\nattnd_models_ready %d\n", ready);
    snprintf(lines[1], sizeof(lines[1]), "\nattnd_models_failed %d\n", failed);
    for (int i = 0; i < 2; i++)
        if (!strstr(response.body, lines[i]))
            fail_msg("the metrics do not have%s", lines[i]);
    http_response_free(&response);
}

TEST(index)
{
    static const char *const bodies[] = { NULL, "{}", "{\"ready\":false}", "{\"other\":[1]}" };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        expect_state(bodies[i], "demo", "READY", "");
        expect_state(bodies[i], "first", "READY", "");
        expect_state(bodies[i], "broken", "UNAVAILABLE", "a safetensors file");
    }
    expect_state(JSON({"ready":true}), "demo", "READY", "");
    expect_state(JSON({"ready":true}), "broken", NULL, "");
    expect_gauges(3, 1);
}

TEST(index_refused)
{
    static const char PATH[] = "/v2/repository/index";
    answer_refused(&client, PATH, JSON({"ready":1}), 400, "type", "/ready");
    answer_refused(&client, PATH, JSON({"ready":null}), 400, "type", "/ready");
    answer_refused(&client, PATH, "[true]", 400, "type", "");
    answer_refused(&client, PATH, "{\"ready\":true", 400, "json", NULL);
    answer_refused(&client, PATH, JSON({"ready":true,"ready":true}), 400, "duplicate", NULL);
    char *large = malloc(70002);
    assert_non_null(large);
    memset(large, ' ', 70000);
    strcpy(large + 70000, "{");
    answer_refused(&client, PATH, large, 413, "too_large", "");
    free(large);
    const char *const headers[] = { "Content-Type: text/plain", NULL };
    answer_send_refused(&client,
                        &(struct http_request){ .path = PATH, .body = "{}", .headers = headers },
                        415, "content_type", "");
}

/* aiohttp calls all bytes octet-stream, and so tritonclient.http.aio sends each of these under this
 * type. */
TEST(said_to_be_bytes)
{
    static const char *const headers[] = { "Content-Type: application/octet-stream", NULL };
    static const char *const asked[][2] = {
        { "/v2/repository/index", "" },
        { "/v2/repository/index", "{\"ready\":true}" },
        { "/v2/repository/models/first/load", "{}" },
        { "/v2/repository/models/first/unload", "{\"parameters\":{\"unload_dependents\":false}}" },
        { "/v2/repository/models/first/load", "{}" },
        { "/v2/logging", "{}" },
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct http_response response = http_client_send(
            &client,
            &(struct http_request){
                .method = "POST", .path = asked[i][0], .body = asked[i][1], .headers = headers });
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    expect_state("{}", "first", "READY", "");
}

/* The old model answers until the new one does. */
TEST(load)
{
    assert_true(model_factor(&client, "first") == 2);
    write_demo("first.safetensors", 3);
    assert_true(model_factor(&client, "first") == 2);
    expect_done("first", "load", NULL);
    assert_true(model_factor(&client, "first") == 3);

    write_demo("late.safetensors", 4);
    assert_false(model_is_listed(&client, "late"));
    expect_done("late", "load", "{}");
    assert_true(model_factor(&client, "late") == 4);
    expect_state(NULL, "late", "READY", "");
}

TEST(a_failed_load)
{
    expect_refused("broken", "load", NULL, 400, "binary", "");
    expect_state(NULL, "broken", "UNAVAILABLE", "a safetensors file begins with");
    expect_refused("broken", "load", NULL, 400, "binary", "");
    expect_state(NULL, "broken", "UNAVAILABLE", "a safetensors file begins with");
    write_demo("broken.safetensors", 5);
    expect_done("broken", "load", NULL);
    assert_true(model_factor(&client, "broken") == 5);
    char path[200];
    snprintf(path, sizeof(path), "%s/broken.safetensors", directory);
    remove(path);
    daemon_directory_write(directory, "broken.safetensors", "xyz", 3);
    expect_refused("broken", "load", NULL, 400, "binary", "");
    assert_true(model_factor(&client, "broken") == 5);
    expect_state(NULL, "broken", "READY", "model 'broken' was not loaded");
    expect_refused("nobody", "load", NULL, 404, "not_found", "");
    struct http_response response =
        http_client_post(&client, "/v2/repository/models/nobody/load", "{}");
    assert_non_null(strstr(response.body, "\"error\":\"failed to load 'nobody': "));
    http_response_free(&response);
    expect_refused("%2e%2e%2fx", "load", NULL, 404, "not_found", "");
    expect_state(NULL, "nobody", NULL, "");
}

TEST(load_with_a_config)
{
    write_demo("first.safetensors", 3);
    expect_done("first", "load",
                "{\"parameters\":{\"config\":\"{\\\"attention\\\":\\\"scaled_dot_product\\\","
                "\\\"layout\\\":\\\"in_out\\\",\\\"causal\\\":true}\"}}");
    cJSON *model = answer_get(&client, "/v1/models/first");
    answer_expect(model, "causal", "true", 0);
    cJSON_Delete(model);
    expect_done("first", "load", JSON({"parameters":{}}));
    model = answer_get(&client, "/v1/models/first");
    answer_expect(model, "causal", "false", 0);
    cJSON_Delete(model);
}

TEST(load_refused)
{
    static const struct {
        const char *what, *body, *code, *pointer;
    } cases[] = {
        { "load", "{", "json", NULL },
        { "load", "[]", "type", "" },
        { "load", "{\"parameters\":[]}", "type", "/parameters" },
        { "load", "{\"parameters\":{\"config\":{}}}", "type", "/parameters/config" },
        { "load", "{\"parameters\":{\"config\":\"\"}}", "json", NULL },
        { "load", "{\"parameters\":{\"config\":\"{\\\"causa\\\":true}\"}}", "field", NULL },
        { "load", "{\"parameters\":{\"file:1/model.safetensors\":\"eA==\"}}", "option",
          "/parameters" },
        { "load", "{\"parameters\":{\"unload_dependents\":true}}", "field", "/parameters" },
        { "unload", "{\"parameters\":{\"config\":\"{}\"}}", "field", "/parameters" },
        { "unload", "{\"parameters\":{\"unload_dependents\":1}}", "type",
          "/parameters/unload_dependents" },
        { "unload", "nonsense", "json", NULL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_refused("first", cases[i].what, cases[i].body, 400, cases[i].code, cases[i].pointer);
    assert_true(model_factor(&client, "first") == 3);
}

TEST(unload)
{
    static const char REQUEST[] = JSON({"model":"first","query":[[1,0,0]]});
    expect_done("first", "unload", NULL);
    expect_state(NULL, "first", "UNAVAILABLE", "unloaded");
    expect_state(JSON({"ready":true}), "first", NULL, "");
    expect_gauges(4, 0);
    answer_refused(&client, "/v1/attention", REQUEST, 503, "loading", NULL);
    struct http_response response = http_client_get(&client, "/v2/models/first/ready");
    cJSON_Delete(answer_json(&response, 503));
    http_response_free(&response);
    cJSON *model = answer_get(&client, "/v1/models/first");
    answer_expect(model, "state", "\"UNAVAILABLE\"", 0);
    answer_expect(model, "reason", "\"unloaded\"", 0);
    cJSON_Delete(model);
    expect_done("first", "unload", JSON({"parameters":{"unload_dependents":true}}));
    expect_done("first", "load", NULL);
    assert_true(model_factor(&client, "first") == 3);
    expect_gauges(5, 0);
    expect_refused("nobody", "unload", NULL, 404, "not_found", "");
}

TEST(built_in)
{
    static const char *const whats[] = { "load", "unload" };
    for (int i = 0; i < 2; i++) {
        expect_refused("demo", whats[i], NULL, 409, "conflict", "");
        expect_refused("sdpa", whats[i], "{}", 409, "conflict", "");
    }
    assert_true(model_factor(&client, "demo") == 1);
}

/* There is only one repository, and it has no name. */
TEST(named_repository)
{
    static const char *const paths[] = { "/v2/repository/other/index",
                                         "/v2/repository/other/models/first/load",
                                         "/v2/repository/other/models/first/unload" };
    for (int i = 0; i < 3; i++)
        answer_refused(&client, paths[i], "{}", 404, "not_found", "");
    assert_true(model_factor(&client, "first") == 3);
}

/* Without --model-control=explicit a client can only read the index. */
TEST(not_permitted)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--models", "examples/models", NULL);
    http_client_init(&own, other.port);
    static const char *const paths[] = { "/v2/repository/models/stories260K/load",
                                         "/v2/repository/models/stories260K/unload",
                                         "/v2/repository/models/nobody/load" };
    for (int i = 0; i < 3; i++)
        answer_refused(&own, paths[i], "{}", 403, "forbidden", "");
    struct http_response response = http_client_post(&own, paths[0], "{}");
    assert_non_null(strstr(response.body, "SIGHUP reads the models' directory again"));
    http_response_free(&response);
    response = http_client_post(&own, "/v2/repository/index", "{}");
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    write_demo("first.safetensors", 2);
    daemon_directory_write(directory, "broken.safetensors", "x", 1);
    fixture_serve("--models", directory, "--model-control", "explicit");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
