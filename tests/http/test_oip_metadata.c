/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_metadata.c - the Open Inference Protocol v2 without inference: health, what the server
 * and its models say about themselves, versions, and paths that do not exist. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

static void expect_answer(const char *path, const char *members)
{
    cJSON *answer = answer_get(&client, path);
    answer_expect_members(answer, members);
    cJSON_Delete(answer);
}

static void expect_refused(const char *method, const char *path, long status, const char *code)
{
    answer_send_refused(&client, &(struct http_request){ .method = method, .path = path }, status,
                        code, "");
}

/* ----------------------------------------------------------------- the server -- */

TEST(health)
{
    expect_answer("/v2/health/live", "live");
    expect_answer("/v2/health/ready", "ready");
    cJSON *ready = answer_get(&client, "/v2/health/ready");
    answer_expect(ready, "ready", "true", 0);
    cJSON_Delete(ready);
}

/* The specification spells the path both with and without the slash. */
TEST(server_metadata)
{
    static const char *const paths[] = { "/v2", "/v2/" };
    for (int i = 0; i < 2; i++) {
        cJSON *server_metadata = answer_get(&client, paths[i]);
        answer_expect_members(server_metadata, "name,version,extensions");
        answer_expect(server_metadata, "name", "\"attnd\"", 0);
        const cJSON *version = cJSON_GetObjectItem(server_metadata, "version");
        assert_true(cJSON_IsString(version) && version->valuestring[0]);
        answer_expect(server_metadata, "extensions",
                      "[\"model_repository\",\"model_repository(unload_dependents)\","
                      "\"model_configuration\",\"statistics\",\"logging\","
                      "\"binary_tensor_data\",\"parameters\",\"classification\","
                      "\"schedule_policy\"]",
                      0);
        cJSON_Delete(server_metadata);
    }
}

TEST(names)
{
    cJSON *models = answer_get(&client, "/v2/models");
    answer_expect_members(models, "models");
    answer_expect(models, "models", JSON(["demo","sdpa","stories260K"]), 0);
    cJSON_Delete(models);
}

/* ----------------------------------------------------------------- the models -- */

/* The tensor of that name, or NULL. */
static const cJSON *find_tensor(const cJSON *tensors, const char *name)
{
    const cJSON *tensor;
    cJSON_ArrayForEach(tensor, tensors) {
        const cJSON *given = cJSON_GetObjectItem(tensor, "name");
        if (cJSON_IsString(given) && strcmp(given->valuestring, name) == 0)
            return tensor;
    }
    return NULL;
}

static void expect_tensor(const cJSON *model, const char *list, const char *name,
                          const char *datatype, const char *shape)
{
    const cJSON *tensor = find_tensor(cJSON_GetObjectItem(model, list), name);
    if (!tensor)
        fail_msg("no %s in %s", name, list);
    answer_expect_members(tensor, "name,datatype,shape");
    answer_expect(tensor, "datatype", datatype, 0);
    answer_expect(tensor, "shape", shape, 0);
}

TEST(metadata)
{
    static const char *const paths[] = { "/v2/models/demo", "/v2/models/demo/versions/1",
                                         "/v2/models/d%65mo", "/v2/models/demo/versions/%31" };
    for (int i = 0; i < 4; i++) {
        cJSON *model = answer_get(&client, paths[i]);
        answer_expect_members(model, "name,versions,platform,inputs,outputs");
        answer_expect(model, "name", "\"demo\"", 0);
        answer_expect(model, "versions", JSON(["1"]), 0);
        answer_expect(model, "platform", "\"attnd_scaled_dot_product\"", 0);
        expect_tensor(model, "inputs", "query", "\"FP32\"", "[-1,-1,3]");
        expect_tensor(model, "inputs", "key", "\"FP32\"", "[-1,-1,3]");
        expect_tensor(model, "inputs", "value", "\"FP32\"", "[-1,-1,3]");
        expect_tensor(model, "outputs", "context", "\"FP32\"", "[-1,-1,3]");
        expect_tensor(model, "outputs", "weights", "\"FP32\"", "[-1,1,-1,-1]");
        cJSON_Delete(model);
    }
    cJSON *sdpa = answer_get(&client, "/v2/models/sdpa");
    static const char *const inputs[] = { "Q", "K", "V", "attn_mask", "past_key", "past_value" };
    static const char *const outputs[] = { "Y", "present_key", "present_value",
                                           "qk_matmul_output" };
    for (int i = 0; i < 6; i++)
        expect_tensor(sdpa, "inputs", inputs[i], "\"FP32\"", "[-1,-1,-1,-1]");
    for (int i = 0; i < 4; i++)
        expect_tensor(sdpa, "outputs", outputs[i], "\"FP32\"", "[-1,-1,-1,-1]");
    expect_tensor(sdpa, "inputs", "nonpad_kv_seqlen", "\"INT64\"", "[-1]");
    cJSON_Delete(sdpa);
}

TEST(config)
{
    cJSON *config = answer_get(&client, "/v2/models/stories260K/config");
    answer_expect_members(config, "name,platform,backend,max_batch_size,version_policy,input,"
                                  "output,instance_group,parameters");
    answer_expect(config, "max_batch_size", "0", 0);
    const cJSON *query = find_tensor(cJSON_GetObjectItem(config, "input"), "query");
    answer_expect_members(query, "name,data_type,dims,optional");
    answer_expect(query, "data_type", "\"TYPE_FP32\"", 0);
    answer_expect(query, "dims", "[-1,-1,64]", 0);
    answer_expect(query, "optional", "false", 0);
    const cJSON *key = find_tensor(cJSON_GetObjectItem(config, "input"), "key");
    answer_expect(key, "optional", "true", 0);
    const cJSON *context = find_tensor(cJSON_GetObjectItem(config, "output"), "context");
    answer_expect_members(context, "name,data_type,dims");
    answer_expect(cJSON_GetObjectItem(config, "parameters"), "attention",
                  "{\"string_value\":\"scaled_dot_product\"}", 0);
    cJSON_Delete(config);
    expect_answer("/v2/models/demo/versions/1/config",
                  "name,platform,backend,max_batch_size,version_policy,input,output,"
                  "instance_group,parameters");
}

TEST(model_ready)
{
    static const char *const paths[] = { "/v2/models/demo/ready",
                                         "/v2/models/demo/versions/1/ready",
                                         "/v2/models/%64%65%6d%6F/ready" };
    for (int i = 0; i < 3; i++) {
        cJSON *ready = answer_get(&client, paths[i]);
        answer_expect_members(ready, "name,ready");
        answer_expect(ready, "name", "\"demo\"", 0);
        answer_expect(ready, "ready", "true", 0);
        cJSON_Delete(ready);
    }
}

/* A model that failed to load, at the start or later, exists but is not ready. */
TEST(unavailable)
{
    struct daemon other;
    struct http_client own;
    char *broken = daemon_directory_create();
    daemon_directory_write(broken, "broken.safetensors", "x", 1);
    daemon_start_with(&other, "--models", broken, NULL);
    http_client_init(&own, other.port);
    struct http_response response = http_client_get(&own, "/v2/models/broken/ready");
    cJSON *ready = answer_json(&response, 503);
    answer_expect_members(ready, "name,ready,reason");
    answer_expect(ready, "ready", "false", 0);
    cJSON_Delete(ready);
    http_response_free(&response);
    static const char *const paths[] = { "/v2/models/broken", "/v2/models/broken/config",
                                         "/v2/models/broken/stats" };
    for (int i = 0; i < 3; i++)
        answer_send_refused(&own, &(struct http_request){ .path = paths[i] }, 503, "loading", "");
    cJSON *models = answer_get(&own, "/v2/models");
    answer_expect(models, "models", "[\"demo\",\"sdpa\"]", 0);
    cJSON_Delete(models);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_directory_remove(broken);
}

/* -------------------------------------------------------------- what is not there -- */

TEST(unknown)
{
    static const char *const ends[] = { "", "/ready", "/config", "/stats" };
    static const char *const models[] = { "nobody",
                                          "nobody/versions/1",
                                          "demo/versions/2",
                                          "demo/versions/01",
                                          "demo/versions/v1",
                                          "sdpa/versions/-1",
                                          "demo/versions/18446744073709551617",
                                          "%2e%2e",
                                          "a%2fb",
                                          "%E2%98%83" };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        for (size_t j = 0; j < sizeof(ends) / sizeof(ends[0]); j++) {
            char path[200];
            snprintf(path, sizeof(path), "/v2/models/%s%s", models[i], ends[j]);
            expect_refused(NULL, path, 404, "not_found");
        }
    static const char *const nowhere[] = { "/v2//",
                                           "/v2/health",
                                           "/v2/health/",
                                           "/v2/models/",
                                           "/v2/models/demo/",
                                           "/v2/models/demo/versions/",
                                           "/v2/models/demo/versions",
                                           "/v2/models/demo/nothing",
                                           "/v2/trace/setting",
                                           "/v2/systemsharedmemory",
                                           "/v2/systemsharedmemory/region/a" };
    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
        expect_refused(NULL, nowhere[i], 404, "not_found");
}

TEST(wrong_method)
{
    static const struct {
        const char *method, *path, *allow;
    } cases[] = {
        { "POST", "/v2", "GET, HEAD" },
        { "DELETE", "/v2/", "GET, HEAD" },
        { "POST", "/v2/health/live", "GET, HEAD" },
        { "PUT", "/v2/models/demo", "GET, HEAD" },
        { "POST", "/v2/models/stats", "GET, HEAD" },
        { "POST", "/v2/models/demo/config", "GET, HEAD" },
        { "GET", "/v2/repository/index", "POST" },
        { "GET", "/v2/repository/models/demo/load", "POST" },
        { "DELETE", "/v2/logging", "GET, HEAD, POST" },
        { "GET", "/v2/systemsharedmemory/unregister", "POST" },
        { "POST", "/v2/systemsharedmemory/region/a/status", "GET, HEAD" },
        { "PUT", "/v2/cudasharedmemory/region/a/register", "POST" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char allow[64] = "";
        struct http_response response = http_client_send(
            &client, &(struct http_request){ .method = cases[i].method, .path = cases[i].path });
        answer_expect_fault(&response, 405, "method", "");
        http_response_header(&response, "Allow", allow, sizeof(allow));
        assert_string_equal(allow, cases[i].allow);
        http_response_free(&response);
    }
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
