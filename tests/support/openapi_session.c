/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_session.c - see openapi_session.h. */
#include "openapi_session.h"
#include "answer.h"
#include "daemon.h"
#include "key_file.h"
#include "openapi_document.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

static void put(struct http_client *client, struct session_bytes file, long status)
{
    static const struct openapi_call PUT = {
        "PUT", "/v1/sessions/{session}", "/v1/sessions/moved", 0, NULL, NULL
    };
    struct http_response response = session_bytes_send(client, "moved", file);
    assert_int_equal(response.status, status);
    openapi_expect_described(&PUT, &response);
}

void openapi_expect_session_file(struct http_client *client, const char *id)
{
    const char *numbers;
    struct session_bytes file = session_bytes_get(client, id);
    put(client, file, 201);
    put(client, file, 200);
    put(client, (struct session_bytes){ file.bytes, 9 }, 400);
    cJSON *header = session_bytes_header(file, &numbers);
    cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    cJSON_ReplaceItemInObject(metadata, "ttl_ms", cJSON_CreateString("1000"));
    struct session_bytes changed =
        session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
    put(client, changed, 409);
    session_bytes_free(&changed);
    cJSON_ReplaceItemInObject(metadata, "model", cJSON_CreateString("nobody"));
    struct session_bytes other =
        session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), true);
    struct http_response response = http_client_send(
        client, &(struct http_request){ .method = "DELETE", .path = "/v1/sessions/moved" });
    http_response_free(&response);
    put(client, other, 404);
    session_bytes_free(&other);
    session_bytes_free(&file);
    cJSON_Delete(header);
}

void openapi_expect_session_owners(const char *keys)
{
    static const struct key_line KEYS[] = { { "anna", "infer,sessions" },
                                            { "bert", "infer,sessions" },
                                            { "all", "infer,sessions:all" },
                                            { NULL, NULL } };
    static const struct http_request MAKE = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" };
    static const struct openapi_call CALLS[] = {
        { "GET", "/v1/sessions/{session}", "/v1/sessions/s", 409, NULL, NULL },
        { "PATCH", "/v1/sessions/{session}", "/v1/sessions/s", 409, "{}", NULL },
        { "DELETE", "/v1/sessions/{session}", "/v1/sessions/s", 409, NULL, NULL },
        { "DELETE", "/v1/sessions/{session}", "/v1/sessions/s?owner=anna", 204, NULL, NULL },
    };
    struct daemon server;
    struct http_client client;
    char header[200];
    key_file_write(keys, KEYS);
    daemon_start_with(&server, "--keys", keys, NULL);
    http_client_init(&client, server.port);
    for (int i = 0; i < 2; i++) {
        struct http_response response = key_expect(&client, KEYS[i].name, &MAKE, 201);
        http_response_free(&response);
    }
    snprintf(header, sizeof header, "X-Api-Key: %s", key_secret("all"));
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++)
        openapi_expect_status(&client, &CALLS[i], header, CALLS[i].status);
    http_client_free(&client);
    daemon_stop(&server);
}

void openapi_expect_sessions_moved(void)
{
    static const char INFER[] =
        "{\"parameters\":{\"sequence_id\":7},\"inputs\":["
        "{\"name\":\"Q\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},"
        "{\"name\":\"K\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},"
        "{\"name\":\"V\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]}]}";
    static const char BEGIN[] =
        "{\"parameters\":{\"sequence_id\":7,\"sequence_start\":true},\"inputs\":["
        "{\"name\":\"Q\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},"
        "{\"name\":\"K\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},"
        "{\"name\":\"V\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]}]}";
#define PATH "/v1/sessions/{session}"
#define OIP  "/v2/models/{model}"
    static const struct openapi_call CALLS[] = {
        { "GET", PATH, "/v1/sessions/s", 307, NULL, NULL },
        { "PATCH", PATH, "/v1/sessions/s", 307, "{}", NULL },
        { "DELETE", PATH, "/v1/sessions/s", 307, NULL, NULL },
        { "POST", PATH "/attention", "/v1/sessions/s/attention", 307, "{\"query\":[[1]]}", NULL },
        { "POST", PATH "/trace", "/v1/sessions/s/trace", 307, "{\"tokens\":[1]}", NULL },
        { "POST", PATH "/fork", "/v1/sessions/s/fork", 307, "{}", NULL },
        { "POST", PATH "/truncate", "/v1/sessions/s/truncate", 307, "{\"kv_len\":0}", NULL },
        { "POST", OIP "/infer", "/v2/models/sdpa/infer", 307, INFER, NULL },
        { "POST", OIP "/versions/{version}/infer", "/v2/models/sdpa/versions/1/infer", 307, INFER,
          NULL },
    };
    struct daemon server, next;
    struct http_client client;
    char url[64];
    daemon_start(&next, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", next.port);
    daemon_start_with(&server, "--move-to", url, NULL);
    http_client_init(&client, server.port);
    session_make(&client, "{\"model\":\"sdpa\",\"id\":\"s\"}");
    cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer", BEGIN));
    cJSON_Delete(answer_post(&client, "/v1/sessions:drain", "{}"));
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++)
        openapi_expect_status(&client, &CALLS[i], NULL, CALLS[i].status);
    http_client_free(&client);
    daemon_stop(&server);
    daemon_stop(&next);
}
