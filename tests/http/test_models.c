/* SPDX-License-Identifier: Apache-2.0 */
/* test_models.c - the models resource: list, describe, put, replace, delete.
 *
 * The uploaded models are demo with its context multiplied, so that every answer tells which
 * version of a model it came from. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

#include <sys/stat.h>

static void start_server(void)
{
    fixture_serve("--models", directory, "--model-control", "explicit");
}

static void expect_refused(struct http_response response, long status, const char *code)
{
    answer_expect_fault(&response, status, code, NULL);
    http_response_free(&response);
}

static void expect_factor(const char *model, double factor)
{
    assert_true(model_factor(&client, model) == factor);
}

/* ------------------------------------------------------------------ describing -- */

TEST(list)
{
    assert_true(model_is_listed(&client, "demo"));
    assert_true(model_is_listed(&client, "sdpa"));
    assert_false(model_is_listed(&client, "nobody"));
    struct http_response response = http_client_get(&client, "/v1/models");
    cJSON *root = answer_json(&response, 200);
    for (const cJSON *model = cJSON_GetObjectItem(root, "models")->child; model;
         model = model->next)
        answer_expect_members(
            model,
            "name,attention,state,reason,source,format,dtype,parameter_"
            "count,total_parameter_count,bytes,"
            "causal,trace,trace_reason,inputs,predictions,tokenizer,"
            "embedding,embedding_reason,classes,classes_reason,tokenizer_reason,pixels,layers");
    cJSON_Delete(root);
    http_response_free(&response);
}

TEST(one)
{
    struct http_response response = http_client_get(&client, "/v1/models/demo");
    cJSON *model = answer_json(&response, 200);
    answer_expect(model, "name", "\"demo\"", 0);
    answer_expect(model, "attention", "\"scaled_dot_product\"", 0);
    answer_expect(model, "state", "\"READY\"", 0);
    answer_expect(model, "parameter_count", "27", 0);
    answer_expect(model, "total_parameter_count", "27", 0);
    answer_expect(model, "bytes", "108", 0);
    answer_expect(model, "dtype", "\"F32\"", 0);
    answer_expect(model, "causal", "false", 0);
    answer_expect(model, "trace", "false", 0);
    answer_expect(model, "trace_reason",
                  "\"the model's config is attnd's own, which describes attention layers only\"",
                  0);
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "layers"), 0);
    answer_expect_members(layer, "index,kind,d_query,d_key,d_value,d_out,q_heads,kv_heads,head_dim,"
                                 "v_head_dim,options");
    answer_expect(layer, "options",
                  "{\"causal\":false,\"scale\":0.577350269,\"softcap\":0,\"window_left\":-1,"
                  "\"window_right\":-1,\"clip\":0,\"rope\":null,\"q_norm\":null,\"k_norm\":null,"
                  "\"alibi_slopes\":false,\"sinks\":false,\"relative_bias\":null}",
                  1e-8);
    static const char *const threes[] = { "d_query", "d_key",    "d_value",
                                          "d_out",   "head_dim", "v_head_dim" };
    for (size_t i = 0; i < sizeof(threes) / sizeof(threes[0]); i++)
        answer_expect(layer, threes[i], "3", 0);
    answer_expect(layer, "q_heads", "1", 0);
    answer_expect(layer, "kv_heads", "1", 0);
    answer_expect(layer, "index", "0", 0);
    cJSON_Delete(model);
    http_response_free(&response);

    response = http_client_get(&client, "/v1/models/de%6Do");
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    expect_refused(http_client_get(&client, "/v1/models/nobody"), 404, "not_found");
    expect_refused(http_client_get(&client, "/v1/models/%2e%2e"), 404, "not_found");
}

/* --------------------------------------------------------------------- changing -- */

TEST(put_replace_delete)
{
    model_put_demo(&client, "words", 2, 201);
    expect_factor("words", 2);
    assert_true(model_is_listed(&client, "words"));
    model_put_demo(&client, "words", 3, 200);
    expect_factor("words", 3);
    struct stat status;
    char path[512];
    snprintf(path, sizeof(path), "%s/words.safetensors", directory);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(daemon_directory_count(directory), 1); /* no temporary file is left */

    model_delete_well(&client, "words");
    assert_false(model_is_listed(&client, "words"));
    assert_int_equal(daemon_directory_count(directory), 0);
    answer_refused(&client, "/v1/attention", "{\"model\":\"words\",\"query\":[[1,0,0]]}", 404,
                   "not_found", "/model");
    expect_refused(model_delete(&client, "words"), 404, "not_found");
    expect_refused(http_client_get(&client, "/v1/models/words"), 404, "not_found");
}

/* Other content types: none, and the ones under which clients usually send files. The first bytes
 * tell what the body is. */
TEST(put_by_first_bytes)
{
    static const char *const types[] = { "Content-Type:", "Content-Type: application/octet-stream",
                                         "Content-Type: application/x-www-form-urlencoded" };
    for (int i = 0; i < 3; i++) {
        struct model_bytes file = model_bytes_demo((float)i + 2, "");
        const char *const headers[] = { types[i], NULL };
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .method = "PUT",
                                                              .path = "/v1/models/bytes",
                                                              .body = file.data,
                                                              .body_size = file.size,
                                                              .headers = headers });
        cJSON_Delete(answer_json(&response, i ? 200 : 201));
        http_response_free(&response);
        free(file.data);
        expect_factor("bytes", i + 2);
    }
    model_delete_well(&client, "bytes");
}

TEST(put_json)
{
    static const char body[] =
        "{\"config\":{\"attention\":\"scaled_dot_product\",\"layout\":\"in_out\"},\"parameters\":{"
        "\"q_proj.weight\":[[2,0,2],[2,0,0],[2,1,2]],"
        "\"k_proj.weight\":[[2,2,2],[0,2,1],[0,1,1]],"
        "\"v_proj.weight\":[[1,1,0],[0,1,1],[0,0,0]]}}";
    struct http_response response = model_put_json(&client, "typed", body);
    cJSON *model = answer_json(&response, 201);
    answer_expect(model, "name", "\"typed\"", 0);
    answer_expect(model, "parameter_count", "27", 0);
    cJSON_Delete(model);
    http_response_free(&response);
    expect_factor("typed", 1);
    response = model_put_json(&client, "typed", body);
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
}

/* Several heads, layers, biases and an output projection, all sent as JSON text; every number is
 * worked out by hand. */
TEST(put_json_with_everything)
{
    static const char body[] =
        "{\"config\":{\"attention\":\"scaled_dot_product\",\"layers\":2,\"q_heads\":2,"
        "\"kv_heads\":1,\"causal\":true,\"scale\":1},\"parameters\":{"
        "\"layers.0.q_proj.weight\":[[1,0,0],[0,1,0]],\"layers.0.k_proj.weight\":[[0,0]],"
        "\"layers.0.v_proj.weight\":[[1,0,0,0]],\"layers.0.v_proj.bias\":[10],"
        "\"layers.0.o_proj.weight\":[[1,0],[0,2],[1,1]],\"layers.0.o_proj.bias\":[0,0,100],"
        "\"layers.1.q_proj.weight\":[[1],[1]],\"layers.1.k_proj.weight\":[[1]],"
        "\"layers.1.v_proj.weight\":[[-1]],\"layers.1.o_proj.weight\":[[1,0],[0,1]],"
        "\"layers.1.q_proj.bias\":[0,1],"
        "\"layers.1.k_proj.bias\":[0.5]}}";
    struct http_response response = model_put_json(&client, "layers", body);
    cJSON *model = answer_json(&response, 201);
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "layers"), 0);
    answer_expect(layer, "d_query", "3", 0);
    answer_expect(layer, "d_key", "2", 0);
    answer_expect(layer, "d_value", "4", 0);
    answer_expect(layer, "d_out", "3", 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(model, "layers")), 2);
    cJSON_Delete(model);
    http_response_free(&response);

    /* Keys are all zero: row 0 sees value 11, row 1 the mean of 11 and 13. */
    cJSON *answer = answer_post(&client, "/v1/attention",
                                "{\"model\":\"layers\",\"query\":[[1,2,3],[4,5,6]],"
                                "\"key\":[[1,1],[1,1]],\"value\":[[1,0,0,0],[3,0,0,0]]}");
    answer_expect(answer, "context", "[[11,22,122],[12,24,124]]", 1e-6);
    answer_expect(answer, "layer", "0", 0);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/attention",
                         "{\"model\":\"layers\",\"layer\":1,\"query\":[[2]],\"key\":[[3]],"
                         "\"value\":[[5]],\"outputs\":[\"scores\",\"context\"]}");
    answer_expect(answer, "scores", "[[[7]],[[10.5]]]", 1e-6);
    answer_expect(answer, "context", "[[-5,-5]]", 1e-6);
    answer_expect(answer, "layer", "1", 0);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/attention",
                         "{\"model\":\"layers\",\"layer\":1,\"query\":[[2]],\"key\":[[3]],"
                         "\"scale\":2,\"value\":[[5]],\"outputs\":[\"scores\"]}");
    answer_expect(answer, "scores", "[[[14]],[[21]]]", 1e-6);
    cJSON_Delete(answer);
}

TEST(put_json_refused)
{
    static const char *const bodies[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"config\":{}}",
        "{\"parameters\":{}}",
        "{\"config\":{\"attention\":\"scaled_dot_product\"},\"parameters\":{}}",
        "{\"config\":[],\"parameters\":{\"q_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"nothing\"},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"additive\"},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"score.weight\":[1,2]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"score.weight\":[1]}}",
        "{\"config\":{\"atention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\",\"q_heads\":0},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1],[2]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1,2],[3]],"
        "\"k_proj.weight\":[[1],[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":\"1\","
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]},\"more\":1}",
        "{\"config\":{\"attention\":\"dot\",\"causal\":1},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1]],"
        "\"q_proj.weight\":[[1]],\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1e400]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[1]]}}",
        "{\"config\":{\"head_dim\":8,\"scale\":1e39},\"parameters\":{}}",
        "{\"config\":{\"head_dim\":1e999},\"parameters\":{}}",
        "{\"config\":{\"head_dim\":8,\"rope\":{\"theta\":1e999}},\"parameters\":{}}",
        "{\"config\":{\"head_dim\":8,\"tensors\":[1]},\"parameters\":{}}",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct http_response response = model_put_json(&client, "refused", bodies[i]);
        if (response.status != 400)
            fprintf(stderr, "request: %s\n", bodies[i]);
        expect_refused(response, 400, "json|field|duplicate|type|shape|ragged|nonfinite|option");
    }
    assert_false(model_is_listed(&client, "refused"));
}

/* A scale that no double can hold is refused. Otherwise the file would say null for it, which means
 * a scale of 1/sqrt(head_dim). */
TEST(put_json_beyond_doubles)
{
    static const struct {
        const char *config, *pointer;
    } cases[] = {
        { "\"scale\":1e999", "/config/scale" },
        { "\"scale\":-1e999", "/config/scale" },
        { "\"softcap\":1e999", "/config/softcap" },
        { "\"rope\":{\"theta\":1e999}", "/config/rope/theta" },
        { "\"rope\":{\"scaling\":{\"rope_type\":\"linear\",\"factor\":1e999}}",
          "/config/rope/scaling/factor" },
        { "\"rope\":{\"scaling\":{\"rope_type\":\"longrope\",\"short_factor\":[1,1,1,1e40],"
          "\"long_factor\":[1,1,1,1],\"original_max_position_embeddings\":4}}",
          "/config/rope/scaling/short_factor" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[512];
        snprintf(body, sizeof(body), "{\"config\":{\"head_dim\":8,%s},\"parameters\":{}}",
                 cases[i].config);
        struct http_response response = model_put_json(&client, "refused", body);
        answer_expect_fault(&response, 400, "nonfinite", cases[i].pointer);
        http_response_free(&response);
    }
    assert_false(model_is_listed(&client, "refused"));
}

TEST(names)
{
    static const char *const bad[] = { ".hidden", "-x",         "_x",    "a%20", "%C3%A9", "a%2Fb",
                                       "..",      "%2e%2e%2fx", "a%5Cb", "x%0a", "a:b" };
    char longest[130] = "";
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct http_response response = model_put(&client, bad[i], model_bytes_demo(1, ""));
        if (response.status != 400 && response.status != 404)
            fail_msg("PUT /v1/models/%s was answered with %ld", bad[i], response.status);
        expect_refused(response, response.status, "option|field|not_found");
    }
    memset(longest, 'n', 128);
    model_put_demo(&client, longest, 1, 201);
    expect_factor(longest, 1);
    longest[128] = 'n';
    struct http_response response = model_put(&client, longest, model_bytes_demo(1, ""));
    assert_true(response.status == 400 || response.status == 404);
    http_response_free(&response);
    model_put_demo(&client, "0.a-B_9", 4, 201);
    expect_factor("0.a-B_9", 4);
}

TEST(conflicts)
{
    expect_refused(model_put(&client, "demo", model_bytes_demo(1, "")), 409, "conflict");
    expect_refused(model_put(&client, "sdpa", model_bytes_demo(1, "")), 409, "conflict");
    expect_refused(model_delete(&client, "demo"), 409, "conflict");
    expect_refused(model_delete(&client, "sdpa"), 409, "conflict");
    /* A directory has this name; the daemon leaves it alone, whatever is in it. */
    daemon_directory_write(directory, "folder/notes.txt", "kept", 4);
    expect_refused(model_put(&client, "folder", model_bytes_demo(1, "")), 409, "conflict");
    struct http_response response = model_delete(&client, "folder");
    assert_true(response.status == 409 || response.status == 404);
    http_response_free(&response);
    char path[512];
    struct stat status;
    snprintf(path, sizeof(path), "%s/folder/notes.txt", directory);
    assert_int_equal(stat(path, &status), 0);
}

/* A model that was put is there again after a restart, and answers the same. */
TEST(restart)
{
    model_put_demo(&client, "kept", 5, 201);
    model_put_demo(&client, "gone", 6, 201);
    model_delete_well(&client, "gone");
    http_client_free(&client);
    daemon_stop(&server);
    start_server();
    expect_factor("kept", 5);
    expect_factor("0.a-B_9", 4);
    expect_factor("typed", 1);
    assert_false(model_is_listed(&client, "gone"));
}

/* ----------------------------------------------------------------- not permitted -- */

TEST(no_model_control)
{
    struct daemon other;
    daemon_start_with(&other, "--models", directory, NULL);
    struct http_client own;
    http_client_init(&own, other.port);
    assert_true(model_factor(&own, "kept") == 5);
    expect_refused(model_put_json(&own, "x", "{}"), 403, "forbidden");
    expect_refused(model_put(&own, "kept", model_bytes_demo(1, "")), 403, "forbidden");
    expect_refused(model_delete(&own, "kept"), 403, "forbidden");
    assert_true(model_factor(&own, "kept") == 5);
    http_client_free(&own);
    daemon_stop(&other);
}

TEST(no_directory)
{
    struct daemon other;
    daemon_start_with(&other, "--model-control", "explicit", NULL);
    struct http_client own;
    http_client_init(&own, other.port);
    expect_refused(model_put(&own, "x", model_bytes_demo(1, "")), 409, "conflict");
    http_client_free(&own);
    daemon_stop(&other);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    start_server();
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
