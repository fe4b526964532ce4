/* openapi_session.c - see openapi_session.h. */
#include "openapi_session.h"
#include "daemon.h"
#include "key_file.h"
#include "openapi_document.h"
#include "session_bytes.h"
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
    put(client, file, 409);
    put(client, (struct session_bytes){ file.bytes, 9 }, 400);
    cJSON *header = session_bytes_header(file, &numbers);
    cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
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
