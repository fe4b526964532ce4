/* test_openapi.c - compares the OpenAPI document with the daemon, both ways.
 *
 * Every route is in the document, and every operation of the document is a route. These tests
 * provoke every status that the document lists for an operation: by a request of the table below,
 * or by a pass over all operations (too large, too slow, too many, too late). Every answer has the
 * status, content type, headers and body that the document describes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "api/routes.h"
#include "base/version.h"
#include "endless.h"
#include "fixture.h"
#include "model_client.h"
#include "openapi_document.h"
#include "schema_check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------- the table -- */

#define A        "/v1/attention"
#define M        "/v1/models/{model}"
#define O        "/v2/models/{model}"
#define V        O "/versions/{version}"
#define R        "/v2/repository/models/{model}/"
#define N        "/v2/repository/{repository}/"
#define AS_FILE  "Accept: application/x-safetensors"
#define QUERY    "\"query\":[[1,0,0],[0,1,0]]"
#define GRADIENT QUERY ",\"context_gradient\":[[1,0,0],[0,1,0]]}"
#define PARTS    "\"parts\":[{\"context\":[[[1,2,3]]],\"lse\":[[0]]}]}"
#define INFER                                                                                      \
    "{\"inputs\":[{\"name\":\"query\",\"shape\":[2,3],\"datatype\":\"FP32\","                      \
    "\"data\":[1,0,0,0,1,0]}]"
#define TYPED "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1]]"

/* The calls run in this order. The first call of an operation is a good one if the operation has a
 * good answer. */
static const struct openapi_call calls[] = {
    { "GET", "/livez", NULL, 200, NULL, NULL },
    { "GET", "/readyz", NULL, 200, NULL, NULL },
    { "GET", "/v2/health/live", NULL, 200, NULL, NULL },
    { "GET", "/v2/health/ready", NULL, 200, NULL, NULL },
    { "GET", "/metrics", NULL, 200, NULL, NULL },
    { "GET", "/openapi.json", NULL, 200, NULL, NULL },
    { "POST", A, NULL, 200, "{\"model\":\"demo\"," QUERY "}", NULL },
    { "POST", A, NULL, 200,
      "{\"model\":\"demo\"," QUERY ",\"mask\":[[true,false],[false,false]],\"outputs\":"
      "[\"context\",\"weights\",\"scores\",\"softcapped\",\"masked\",\"lse\"]}",
      NULL },
    { "POST", A, NULL, 200, "{\"model\":\"demo\"," QUERY ",\"weight_map\":{\"top_k\":1}}", NULL },
    { "POST", A, NULL, 200, "{\"model\":\"sdpa\"," QUERY ",\"partial\":true}", NULL },
    { "POST", A, NULL, 200, "{\"model\":\"demo\"," QUERY "}", AS_FILE },
    { "POST", A, NULL, 400, "{\"model\":\"demo\"}", NULL },
    { "POST", A, NULL, 404, "{\"model\":\"nobody\"," QUERY "}", NULL },
    { "POST", A "/batch", NULL, 200,
      "{\"model\":\"demo\",\"requests\":[{" QUERY "},{\"query\":[[1]]},{\"model\":\"no\"}]}",
      NULL },
    { "POST", A "/batch", NULL, 400, "{\"requests\":1}", NULL },
    { "POST", A "/gradients", NULL, 200, "{\"model\":\"demo\"," GRADIENT, NULL },
    { "POST", A "/gradients", NULL, 200,
      "{\"model\":\"sdpa\",\"mask\":[[1,2],[3,4]],\"key\":[[1,0,0],[0,1,0]]," GRADIENT, NULL },
    { "POST", A "/gradients", NULL, 200, "{\"model\":\"demo\"," GRADIENT, AS_FILE },
    { "POST", A "/gradients", NULL, 400, "{\"model\":\"demo\"," QUERY "}", NULL },
    { "POST", A "/gradients", NULL, 404, "{\"model\":\"nobody\"," GRADIENT, NULL },
    { "POST", A "/merge", NULL, 200, "{\"model\":\"demo\"," PARTS, NULL },
    { "POST", A "/merge", NULL, 200, "{\"model\":\"demo\"," PARTS, AS_FILE },
    { "POST", A "/merge", NULL, 400, "{\"model\":\"demo\",\"parts\":[]}", NULL },
    { "POST", A "/merge", NULL, 404, "{\"model\":\"nobody\"," PARTS, NULL },
    { "POST", "/v1/softmax", NULL, 200, "{\"input\":[[1,null],[3,4]],\"kv_len\":[1,2]}", NULL },
    { "POST", "/v1/softmax", NULL, 400, "{\"input\":[[1],[]]}", NULL },
    { "GET", "/v1/models", NULL, 200, NULL, NULL },
    { "GET", M, "/v1/models/kept", 200, NULL, NULL },
    { "GET", M, "/v1/models/broken", 200, NULL, NULL },
    { "GET", M, "/v1/models/nobody", 404, NULL, NULL },
    { "PUT", M, "/v1/models/new", 201, TYPED ",\"k_proj.weight\":[[2]]}}", NULL },
    { "PUT", M, "/v1/models/new", 200, TYPED ",\"k_proj.weight\":[[3]]}}", NULL },
    { "PUT", M, "/v1/models/new", 400, TYPED "}", NULL },
    { "PUT", M, "/v1/models/demo", 409, TYPED "}}", NULL },
    { "DELETE", M, "/v1/models/new", 204, NULL, NULL },
    { "DELETE", M, "/v1/models/new", 400, NULL, "X-Timeout-Ms: soon" },
    { "DELETE", M, "/v1/models/new", 404, NULL, NULL },
    { "DELETE", M, "/v1/models/demo", 409, NULL, NULL },
    { "GET", "/v2", NULL, 200, NULL, NULL },
    { "GET", "/v2/", NULL, 200, NULL, NULL },
    { "GET", "/v2/models", NULL, 200, NULL, NULL },
    { "GET", "/v2/models/stats", NULL, 200, NULL, NULL },
    { "GET", O, "/v2/models/demo", 200, NULL, NULL },
    { "GET", O, "/v2/models/sdpa", 200, NULL, NULL },
    { "GET", O, "/v2/models/nobody", 404, NULL, NULL },
    { "GET", V, "/v2/models/demo/versions/1", 200, NULL, NULL },
    { "GET", V, "/v2/models/demo/versions/2", 404, NULL, NULL },
    { "GET", O "/ready", "/v2/models/demo/ready", 200, NULL, NULL },
    { "GET", O "/ready", "/v2/models/broken/ready", 503, NULL, NULL },
    { "GET", O "/ready", "/v2/models/nobody/ready", 404, NULL, NULL },
    { "GET", V "/ready", "/v2/models/demo/versions/1/ready", 200, NULL, NULL },
    { "GET", V "/ready", "/v2/models/demo/versions/2/ready", 404, NULL, NULL },
    { "GET", O "/config", "/v2/models/demo/config", 200, NULL, NULL },
    { "GET", O "/config", "/v2/models/nobody/config", 404, NULL, NULL },
    { "GET", V "/config", "/v2/models/sdpa/versions/1/config", 200, NULL, NULL },
    { "GET", V "/config", "/v2/models/sdpa/versions/2/config", 404, NULL, NULL },
    { "GET", O "/stats", "/v2/models/demo/stats", 200, NULL, NULL },
    { "GET", O "/stats", "/v2/models/nobody/stats", 404, NULL, NULL },
    { "GET", V "/stats", "/v2/models/demo/versions/1/stats", 200, NULL, NULL },
    { "GET", V "/stats", "/v2/models/demo/versions/2/stats", 404, NULL, NULL },
    { "POST", O "/infer", "/v2/models/demo/infer", 200, INFER "}", NULL },
    { "POST", O "/infer", "/v2/models/demo/infer", 200,
      INFER ",\"id\":\"i\",\"parameters\":{\"binary_data_output\":true}}", NULL },
    { "POST", O "/infer", "/v2/models/demo/infer", 400, "{\"inputs\":[]}", NULL },
    { "POST", O "/infer", "/v2/models/nobody/infer", 404, INFER "}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/1/infer", 200,
      INFER ",\"outputs\":[{\"name\":\"lse\",\"parameters\":{\"classification\":1}}]}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/1/infer", 200,
      INFER ",\"parameters\":{\"binary_data_output\":true}}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/1/infer", 400, "{}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/2/infer", 404, INFER "}", NULL },
    { "POST", "/v2/repository/index", NULL, 200, "{\"ready\":false}", NULL },
    { "POST", "/v2/repository/index", NULL, 400, "{\"ready\":0}", NULL },
    { "POST", R "load", "/v2/repository/models/kept/load", 200, "{}", NULL },
    { "POST", R "load", "/v2/repository/models/broken/load", 400, "{}", NULL },
    { "POST", R "load", "/v2/repository/models/nobody/load", 404, "{}", NULL },
    { "POST", R "load", "/v2/repository/models/demo/load", 409, "{}", NULL },
    { "POST", R "unload", "/v2/repository/models/kept/unload", 200, "{}", NULL },
    { "POST", R "unload", "/v2/repository/models/kept/unload", 400, "[]", NULL },
    { "POST", R "unload", "/v2/repository/models/nobody/unload", 404, "{}", NULL },
    { "POST", R "unload", "/v2/repository/models/demo/unload", 409, "{}", NULL },
    { "POST", N "index", "/v2/repository/a/index", 404, "{}", NULL },
    { "POST", N "models/{model}/load", "/v2/repository/a/models/b/load", 404, "{}", NULL },
    { "POST", N "models/{model}/unload", "/v2/repository/a/models/b/unload", 404, "{}", NULL },
    { "GET", "/v2/logging", NULL, 200, NULL, NULL },
    { "POST", "/v2/logging", NULL, 200, "{\"log_verbose_level\":0}", NULL },
    { "POST", "/v2/logging", NULL, 400, "{\"log_file\":\"x\"}", NULL },
};
enum { CALL_COUNT = sizeof(calls) / sizeof(calls[0]) };

static void each_with(long status, void (*visit)(const struct openapi_call *call, void *context),
                      void *context)
{
    openapi_each_with(calls, CALL_COUNT, status, visit, context);
}

/* --------------------------------------------------------------- the document -- */

static void test_document(void **state)
{
    (void)state;
    answer_expect_members(openapi_document, "openapi,info,servers,security,tags,paths,components");
    answer_expect(openapi_document, "openapi", "\"3.1.0\"", 0);
    answer_expect(cJSON_GetObjectItem(openapi_document, "info"), "version", "\"" ATTND_VERSION "\"",
                  0);
    openapi_expect_types();
}

static void test_routes(void **state)
{
    (void)state;
    int route_count, operation_count = 0;
    const struct route *routes = routes_table(&route_count);
    for (int i = 0; i < route_count; i++) {
        const struct openapi_call call = {
            routes[i].method, routes[i].pattern, NULL, 0, NULL, NULL
        };
        if (!openapi_operation(&call))
            fail_msg("%s %s is not in the document", call.method, call.pattern);
    }
    const cJSON *path, *operation;
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(openapi_document, "paths"))
    {
        cJSON_ArrayForEach(operation, path) operation_count +=
            strcmp(operation->string, "parameters") != 0;
    }
    assert_int_equal(operation_count, route_count);
}

/* ------------------------------------------------------------------- requests -- */

static void test_calls(void **state)
{
    (void)state;
    for (int i = 0; i < CALL_COUNT; i++) {
        const cJSON *schema = openapi_body_schema(openapi_operation(&calls[i]));
        if (schema && calls[i].status < 300) {
            cJSON *body = cJSON_Parse(calls[i].body);
            schema_expect(openapi_document, schema, body, calls[i].body);
            cJSON_Delete(body);
        }
        openapi_expect_status(&client, &calls[i], NULL, calls[i].status);
    }
}

/* The examples of the document are good requests. */
static void post_examples(const struct openapi_call *call, void *context)
{
    const cJSON *schema = openapi_body_schema(openapi_operation(call));
    const cJSON *example;
    (void)context;
    cJSON_ArrayForEach(example,
                       cJSON_GetObjectItem(schema_follow(openapi_document, schema), "examples"))
    {
        char *body = cJSON_PrintUnformatted(example);
        struct openapi_call copy = *call;
        copy.body = body;
        schema_expect(openapi_document, schema, example, body);
        openapi_expect_status(&client, &copy, NULL, 200);
        cJSON_free(body);
    }
}

static void test_examples(void **state)
{
    (void)state;
    openapi_expect_status(&client,
                          &(struct openapi_call){ "PUT", M, "/v1/models/new", 201,
                                                  TYPED ",\"k_proj.weight\":[[2]]}}", NULL },
                          NULL, 201);
    each_with(200, post_examples, NULL);
}

/* Each property of a request in the document is a field that the daemon knows. The test gives it a
 * value that suits no field; the daemon must not say that the field is unknown. */
static void test_fields(void **state)
{
    (void)state;
    const cJSON *schemas =
        cJSON_GetObjectItem(cJSON_GetObjectItem(openapi_document, "components"), "schemas");
    const cJSON *fields =
        cJSON_GetObjectItem(cJSON_GetObjectItem(schemas, "AttentionFields"), "properties");
    const cJSON *field;
    assert_true(cJSON_GetArraySize(fields) > 20);
    cJSON_ArrayForEach(field, fields)
    {
        char body[200], pointer[100];
        snprintf(body, sizeof(body), "{\"%s\":{\"?\":0}}", field->string);
        snprintf(pointer, sizeof(pointer), "/%s", field->string);
        struct http_response response = http_client_post(&client, A, body);
        cJSON *fault = answer_json(&response, 400);
        const cJSON *at = cJSON_GetObjectItem(fault, "pointer");
        if (!at || strncmp(at->valuestring, pointer, strlen(pointer)) != 0
            || (strcmp(at->valuestring, pointer) == 0
                && strcmp(cJSON_GetObjectItem(fault, "code")->valuestring, "field") == 0))
            fail_msg("%s: %s", body, response.body);
        cJSON_Delete(fault);
        http_response_free(&response);
    }
}

struct refusal {
    long status;
    const char *header; /* the header that causes the refusal */
};

static void send_with(const struct openapi_call *call, void *context)
{
    const struct refusal *refusal = context;
    openapi_expect_status(&client, call, refusal->header, refusal->status);
}

static void test_refused_by_headers(void **state)
{
    (void)state;
    char long_header[15000]; /* short enough that the daemon itself refuses it */
    snprintf(long_header, sizeof long_header, "X-Long: %0*d", 14900, 0);
    struct refusal refusals[] = { { 415, "Content-Encoding: rot13" },
                                  { 400, "Transfer-Encoding: rot13" },
                                  { 504, "X-Timeout-Ms: 0.000001" },
                                  { 431, long_header } };
    for (int i = 0; i < 4; i++)
        each_with(refusals[i].status, send_with, &refusals[i]);
}

/* ---------------------------------------------------------------- bare sockets -- */

enum { SOCKETS_MAX = 64 };

struct waiting {
    struct http_raw sockets[SOCKETS_MAX];
    const struct openapi_call *calls[SOCKETS_MAX];
    int count, port;
};

/* Receives the waiting answers, which must all have this status. */
static void receive_all(struct waiting *waiting, long status)
{
    for (int i = 0; i < waiting->count; i++) {
        struct http_response response =
            http_raw_receive(&waiting->sockets[i], 10 * daemon_slowness());
        if (response.status != status)
            fail_msg("%s %s: expected %ld, not %ld: %s", waiting->calls[i]->method,
                     openapi_path(waiting->calls[i]), status, response.status, response.body);
        openapi_expect_described(waiting->calls[i], &response);
        http_raw_close(&waiting->sockets[i]);
    }
}

/* Sends the request without its first bytes, which were sent before. */
static void send_rest(struct http_raw *raw, const struct openapi_call *call, size_t length,
                      const char *body, int sent_bytes)
{
    char text[2000];
    snprintf(text, sizeof(text),
             "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             call->method, openapi_path(call), length, body);
    assert_true(http_raw_send_text(raw, text + sent_bytes));
}

static void send_head(struct http_raw *raw, const struct openapi_call *call, size_t length,
                      const char *body)
{
    send_rest(raw, call, length, body, 0);
}

static struct http_raw *open_one(struct waiting *waiting, const struct openapi_call *call, int port)
{
    assert_true(waiting->count < SOCKETS_MAX);
    waiting->calls[waiting->count] = call;
    http_raw_connect(&waiting->sockets[waiting->count], port);
    return &waiting->sockets[waiting->count++];
}

static void send_half(const struct openapi_call *call, void *context)
{
    send_head(open_one(context, call, server.port), call, 100, "{");
}

static void send_huge(const struct openapi_call *call, void *context)
{
    send_head(open_one(context, call, server.port), call, (size_t)1 << 40, "");
}

static void test_slow_and_huge(void **state)
{
    struct waiting slow = { .count = 0 }, huge = { .count = 0 };
    (void)state;
    each_with(408, send_half, &slow);
    receive_all(&slow, 408);
    each_with(413, send_huge, &huge);
    receive_all(&huge, 413);
}

/* ------------------------------------------------------------ daemons of their own -- */

static void send_one_too_many(const struct openapi_call *call, void *context)
{
    openapi_expect_status(context, call, NULL, 429);
}

static void test_overloaded(void **state)
{
    struct daemon other;
    struct http_client own;
    struct endless slow;
    (void)state;
    daemon_start_with(&other, "--models", directory, "--model-control", "explicit", "--queue-max",
                      "1", "--workers", "1", "--timeout", "3600s", NULL);
    http_client_init(&own, other.port);
    endless_begin_any(&slow, &own);
    each_with(429, send_one_too_many, &own);
    endless_end(&slow);
    http_client_free(&own);
    daemon_stop(&other);
}

static void send_to_nowhere(const struct openapi_call *call, void *context)
{
    openapi_expect_status(context, call, NULL, 507);
}

/* A file takes the place of the models' directory. */
static void test_storage(void **state)
{
    struct daemon other;
    struct http_client own;
    char *path = daemon_directory_create(), moved[512];
    (void)state;
    daemon_start_with(&other, "--models", path, "--model-control", "explicit", NULL);
    http_client_init(&own, other.port);
    model_put_demo(&own, "new", 1, 201);
    snprintf(moved, sizeof(moved), "%s-moved", path);
    assert_int_equal(rename(path, moved), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    each_with(507, send_to_nowhere, &own);
    http_client_free(&own);
    daemon_stop(&other);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(moved, path), 0);
    daemon_directory_remove(path);
}

static void send_forbidden(const struct openapi_call *call, void *context)
{
    openapi_expect_status(context, call, "Origin: https://elsewhere.example", 403);
}

/* Opens a connection that the daemon takes before it stops. */
static void open_kept(const struct openapi_call *call, void *context)
{
    static const struct openapi_call live = { "GET", "/livez", NULL, 200, NULL, NULL };
    struct waiting *waiting = context;
    struct http_raw *raw = open_one(waiting, call, waiting->port);
    send_head(raw, &live, 0, "");
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    openapi_expect_described(&live, &response);
}

/* First come requests as a page of another site sends them. Then the daemon stops while requests
 * are on their way: those that are complete only after --drain-max are refused. The daemon sees
 * that a request has begun only if its bytes come some ticks of the kernel's clock after the answer
 * before; hence the pause. */
static void test_forbidden_and_stopping(void **state)
{
    struct daemon other;
    struct http_client own;
    struct waiting kept = { .count = 0 };
    (void)state;
    daemon_start_with(&other, "--models", directory, "--drain-max", "100ms", NULL);
    http_client_init(&own, other.port);
    each_with(403, send_forbidden, &own);
    http_client_free(&own);
    kept.port = other.port;
    each_with(503, open_kept, &kept);
    daemon_pause(0.05);
    for (int i = 0; i < kept.count; i++)
        assert_true(http_raw_send(&kept.sockets[i], kept.calls[i]->method, 1));
    kill(other.pid, SIGTERM);
    free(daemon_log_with(&other, "drain cut short"));
    for (int i = 0; i < kept.count; i++) {
        const char *text = kept.calls[i]->body ? kept.calls[i]->body : "";
        send_rest(&kept.sockets[i], kept.calls[i], strlen(text), text, 1);
    }
    receive_all(&kept, 503);
    assert_int_equal(daemon_wait(&other, 20 * daemon_slowness()), 0);
}

/* This test runs last: everything that the document lists has been answered. */
static void test_nothing_is_left(void **state)
{
    (void)state;
    openapi_expect_all_seen();
}

static int start(void **state)
{
    char timeout[32];
    struct model_bytes file = model_bytes_demo(2, "");
    (void)state;
    directory = daemon_directory_create();
    daemon_directory_write(directory, "kept.safetensors", file.data, file.size);
    daemon_directory_write(directory, "broken.safetensors", "x", 1);
    free(file.data);
    snprintf(timeout, sizeof(timeout), "%.0fms", 500 * daemon_slowness());
    fixture_serve("--models", directory, "--model-control", "explicit", "--body-timeout", timeout);
    openapi_document = answer_get(&client, "/openapi.json");
    openapi_seen = cJSON_CreateObject();
    return 0;
}

static int clear(void **state)
{
    (void)state;
    daemon_kill(&server);
    daemon_directory_remove(directory);
    cJSON_Delete(openapi_document);
    cJSON_Delete(openapi_seen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document),        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_calls),           cmocka_unit_test(test_examples),
        cmocka_unit_test(test_fields),          cmocka_unit_test(test_refused_by_headers),
        cmocka_unit_test(test_slow_and_huge),   cmocka_unit_test(test_overloaded),
        cmocka_unit_test(test_storage),         cmocka_unit_test(test_forbidden_and_stopping),
        cmocka_unit_test(test_nothing_is_left), cmocka_unit_test(test_stops_cleanly),
    };
    return cmocka_run_group_tests(tests, start, clear);
}
