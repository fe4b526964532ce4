/* SPDX-License-Identifier: Apache-2.0 */
/* test_openapi.c - compares the OpenAPI document with the daemon, both ways.
 *
 * Every route is an operation. The tests provoke every status of each: by a request of
 * openapi_calls.h, or by a pass over all. Every answer has what the document describes. */
#include "answer.h"
#include "api/routes.h"
#include "base/version.h"
#include "endless.h"
#include "fixture.h"
#include "key_file.h"
#include "model_client.h"
#include "openapi_agreement.h"
#include "openapi_calls.h"
#include "openapi_session.h"
#include "openapi_waiting.h"
#include "schema_check.h"
#include "test.h"
#include "word_model.h"

#include <signal.h>
#include <unistd.h>

static void each_with(long status, void (*visit)(const struct openapi_call *call, void *context),
                      void *context)
{
    openapi_each_with(calls, CALL_COUNT, status, visit, context);
}

/* --------------------------------------------------------------- the document -- */

TEST(document)
{
    answer_expect_members(openapi_document, "openapi,info,servers,security,tags,paths,components");
    answer_expect(openapi_document, "openapi", "\"3.1.0\"", 0);
    answer_expect(cJSON_GetObjectItem(openapi_document, "info"), "version", "\"" ATTND_VERSION "\"",
                  0);
    openapi_expect_types();
}

TEST(routes)
{
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
    cJSON *ids = cJSON_CreateObject(); /* generators of clients name functions after them */
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(openapi_document, "paths")) {
        cJSON_ArrayForEach(operation, path) {
            const cJSON *name = cJSON_GetObjectItem(operation, "operationId");
            if (strcmp(operation->string, "parameters") == 0)
                continue;
            assert_true(cJSON_IsString(name));
            if (cJSON_GetObjectItemCaseSensitive(ids, name->valuestring))
                fail_msg("two operations are called %s", name->valuestring);
            cJSON_AddNullToObject(ids, name->valuestring);
            operation_count++;
        }
    }
    cJSON_Delete(ids);
    assert_int_equal(operation_count, route_count);
}

/* ------------------------------------------------------------------- requests -- */

/* Keeps a trace, whose id the paths of calls[] take. */
static void keep_trace(void)
{
    cJSON *answer = answer_post(&client, "/v1/trace",
                                "{\"model\":\"words\",\"text\":\"the cat sat\",\"keep\":\"1h\"}");
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(answer, "trace");
    assert_non_null(id);
    snprintf(openapi_trace, sizeof openapi_trace, "%s", id->valuestring);
    cJSON_Delete(answer);
}

/* Makes a session that paths of calls[] name. */
static void make_session(struct http_client *own, const char *id)
{
    char body[64];
    snprintf(body, sizeof body, JSON({"model":"demo","id":"%s"}), id);
    struct http_response response = http_client_post(own, "/v1/sessions", body);
    assert_int_equal(response.status, 201);
    http_response_free(&response);
}

/* While a call is computed. */
TEST(call_in_flight)
{
    static const struct openapi_call PROGRESS = {
        "GET", "/v1/requests/{request}", "/v1/requests/mine", 200, NULL, NULL
    };
    struct endless endless;
    endless_begin_with(&endless, &client, "X-Request-Id: mine\r\n", 1000, 1);
    openapi_expect_status(&client, &PROGRESS, NULL, 200);
    endless_leave(&endless);
}

/* A client that has the piece already is told so. */
TEST(piece_not_modified)
{
    static const struct openapi_call PIECE = { "GET", T "/weights", T_IS "/weights?layer=1&head=0",
                                               200,   NULL,         NULL };
    char tag[64], header[100];
    struct http_response response = http_client_get(&client, openapi_path(&PIECE));
    assert_non_null(http_response_header(&response, "ETag", tag, sizeof tag));
    http_response_free(&response);
    snprintf(header, sizeof header, "If-None-Match: %s", tag);
    openapi_expect_status(&client, &PIECE, header, 304);
}

TEST(calls)
{
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

TEST(session_file)
{
    openapi_expect_session_file(&client, "s");
    openapi_expect_session_owners(fixture_path("keys"));
    openapi_expect_sessions_moved();
}

/* The examples of the document are good requests, and answered in each form that it lists. */
static void post_examples(const struct openapi_call *call, void *context)
{
    const cJSON *operation = openapi_operation(call), *schema = openapi_body_schema(operation);
    const cJSON *types = cJSON_GetObjectItem(openapi_response(operation, 200), "content");
    const cJSON *example, *type;
    (void)context;
    cJSON_ArrayForEach(example,
                       cJSON_GetObjectItem(schema_follow(openapi_document, schema), "examples")) {
        char *body = cJSON_PrintUnformatted(example);
        struct openapi_call copy = *call;
        copy.body = body;
        schema_expect(openapi_document, schema, example, body);
        cJSON_ArrayForEach(type, types) {
            char header[100];
            snprintf(header, sizeof header, "Accept: %s", type->string);
            openapi_expect_status(&client, &copy, header, 200);
        }
        cJSON_free(body);
    }
}

TEST(examples)
{
    openapi_expect_status(&client,
                          &(struct openapi_call){ "PUT", M, "/v1/models/new", 201,
                                                  TYPED ",\"k_proj.weight\":[[2]]}}", NULL },
                          NULL, 201);
    each_with(200, post_examples, NULL);
}

/* Of the tensors of the Open Inference Protocol a member says the type, which the document cannot.
 */
static void post_changed_examples(const struct openapi_call *call, void *context)
{
    const cJSON *schema = openapi_body_schema(openapi_operation(call));
    const cJSON *example;
    (void)context;
    cJSON_ArrayForEach(example,
                       cJSON_GetObjectItem(schema_follow(openapi_document, schema), "examples")) {
        cJSON *body = cJSON_Duplicate(example, true);
        if (strncmp(call->pattern, "/v2/", 4) != 0)
            openapi_change_parts(&client, call, body);
        cJSON_Delete(body);
    }
}

TEST(fields)
{
    openapi_expect_fields(&client, "AttentionFields", "AttentionRequest", A, 20);
    openapi_expect_fields(&client, "AttentionFields", "GradientRequest", A "/gradients", 20);
    openapi_expect_fields(&client, "TraceFields", "TraceRequest", "/v1/trace", 20);
    openapi_expect_fields(&client, "SessionRequest", "SessionRequest", "/v1/sessions", 6);
}

TEST(other_types)
{
    each_with(200, post_changed_examples, NULL);
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

TEST(refused_by_headers)
{
    keep_trace(); /* the calls have ended the one before, and this session */
    make_session(&client, "e");
    char long_header[15000]; /* short enough that the daemon itself refuses it */
    snprintf(long_header, sizeof long_header, "X-Long: %0*d", 14900, 0);
    struct refusal refusals[] = { { 415, "Content-Encoding: rot13" },
                                  { 400, "Transfer-Encoding: rot13" },
                                  { 504, "X-Timeout-Ms: 0.000001" },
                                  { 431, long_header } };
    for (int i = 0; i < 4; i++)
        each_with(refusals[i].status, send_with, &refusals[i]);
    struct refusal bad_time = { 400, "X-Timeout-Ms: soon" };
    each_with(504, send_with, &bad_time);
}

/* ---------------------------------------------------------------- bare sockets -- */

static void send_half(const struct openapi_call *call, void *context)
{
    openapi_waiting_send(openapi_waiting_open(context, call, server.port), call, 100, "{", 0);
}

static void send_huge(const struct openapi_call *call, void *context)
{
    openapi_waiting_send(openapi_waiting_open(context, call, server.port), call, (size_t)1 << 40,
                         "", 0);
}

TEST(slow_and_huge)
{
    struct openapi_waiting slow = { .count = 0 }, huge = { .count = 0 };
    each_with(408, send_half, &slow);
    openapi_waiting_receive(&slow, 408);
    each_with(413, send_huge, &huge);
    openapi_waiting_receive(&huge, 413);
}

/* ------------------------------------------------------------ daemons of their own -- */

/* Whether the operation answers 429 for the limits of a key alone, whatever is in the queue. */
static bool is_quota_alone(const struct openapi_call *call)
{
    const cJSON *components = cJSON_GetObjectItem(openapi_document, "components");
    const cJSON *responses = cJSON_GetObjectItem(components, "responses");
    return openapi_response(openapi_operation(call), 429)
           == cJSON_GetObjectItem(responses, "Quota");
}

static void send_one_too_many(const struct openapi_call *call, void *context)
{
    if (!is_quota_alone(call))
        openapi_expect_status(context, call, NULL, 429);
}

TEST(overloaded)
{
    struct daemon other;
    struct http_client own;
    struct endless slow;
    daemon_start_with(&other, "--models", directory, "--model-control", "explicit", "--queue-max",
                      "1", "--workers", "1", DAEMON_PATIENT, "--explorer", "off", "--move-to",
                      "http://127.0.0.1:1", NULL);
    http_client_init(&own, other.port);
    make_session(&own, "s");
    make_session(&own, "e");
    make_session(&own, "w");
    endless_begin_any(&slow, &own);
    each_with(429, send_one_too_many, &own);
    openapi_expect_status(&own, &explorer_off, NULL, 404);
    endless_end(&slow);
    http_client_free(&own);
    daemon_stop(&other);
}

static void send_to_nowhere(const struct openapi_call *call, void *context)
{
    openapi_expect_status(context, call, NULL, 507);
}

/* A file takes the place of the models' directory. */
TEST(storage)
{
    struct daemon other;
    struct http_client own;
    char *path = daemon_directory_create(), moved[512];
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

static void send_without_key(const struct openapi_call *call, void *context)
{
    openapi_expect_status(context, call, NULL, 401);
}

/* A daemon with keys, and requests without one. */
TEST(unauthorized)
{
    static const struct key_line KEYS[] = { { "admin", "admin" }, { NULL, NULL } };
    struct daemon other;
    struct http_client own;
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    each_with(401, send_without_key, &own);
    http_client_free(&own);
    daemon_stop(&other);
}

static void send_beside_another(const struct openapi_call *call, void *context)
{
    char header[200];
    snprintf(header, sizeof header, "X-Api-Key: %s", key_secret("single"));
    openapi_expect_status(context, call, header, 429);
}

/* A key that may have one request in flight, and has one whose body does not come. */
TEST(quota)
{
    static const struct key_line KEYS[] = { { "single", "admin in-flight=1" },
                                            { "watcher", "metrics" },
                                            { NULL, NULL } };
    static const struct http_request METRICS = { .path = "/metrics" };
    struct daemon other;
    struct http_client own;
    struct http_raw held;
    char head[300];
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    http_raw_connect(&held, other.port);
    snprintf(head, sizeof head,
             "POST " A " HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 9\r\n\r\n",
             key_secret("single"));
    assert_true(http_raw_send_text(&held, head));
    const double until = daemon_now() + 10 * daemon_slowness();
    for (bool is_held = false; !is_held; daemon_pause(0.005)) {
        assert_true(daemon_now() < until);
        struct http_response page = key_expect(&own, "watcher", &METRICS, 200);
        is_held = strstr(page.body, "attnd_key_requests_active{key=\"single\"} 1") != NULL;
        http_response_free(&page);
    }
    each_with(429, send_beside_another, &own);
    http_raw_close(&held);
    http_client_free(&own);
    daemon_stop(&other);
}

static void send_forbidden(const struct openapi_call *call, void *context)
{
    openapi_expect_status(context, call, "Origin: https://elsewhere.example", 403);
}

/* Opens a connection that the daemon takes before it stops. */
static void open_kept(const struct openapi_call *call, void *context)
{
    static const struct openapi_call live = { "GET", "/livez", NULL, 200, NULL, NULL };
    struct openapi_waiting *waiting = context;
    struct http_raw *raw = openapi_waiting_open(waiting, call, waiting->port);
    openapi_waiting_send(raw, &live, 0, "", 0);
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    openapi_expect_described(&live, &response);
}

/* First come requests as a page of another site sends them. Then the daemon stops while requests
 * are on their way: those that are complete only after --drain-max are refused. The daemon sees
 * that a request has begun only if its bytes come some ticks of the kernel's clock after the answer
 * before; hence the pause. */
TEST(forbidden_and_stopping)
{
    struct daemon other;
    struct http_client own;
    struct openapi_waiting kept = { .count = 0 };
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
        openapi_waiting_send(&kept.sockets[i], kept.calls[i], strlen(text), text, 1);
    }
    openapi_waiting_receive(&kept, 503);
    assert_int_equal(daemon_wait(&other, 20 * daemon_slowness()), 0);
}

/* This test runs last: everything that the document lists has been answered. */
TEST(nothing_is_left)
{
    openapi_expect_all_seen();
}

static int start(void **state)
{
    char timeout[32];
    struct model_bytes file = model_bytes_demo(2, "");
    directory = daemon_directory_create();
    daemon_directory_write(directory, "kept.safetensors", file.data, file.size);
    daemon_directory_write(directory, "broken.safetensors", "x", 1);
    free(file.data);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    word_model_make_judge(fixture_path("judge"));
    snprintf(timeout, sizeof(timeout), "%.0fms", 500 * daemon_slowness());
    fixture_serve("--models", directory, "--model-control", "explicit", "--body-timeout", timeout,
                  "--shared-memory-prefix", SHARED_PREFIX, "--move-to", "http://127.0.0.1:1");
    openapi_make_region();
    keep_trace();
    make_session(&client, "s");
    openapi_document = answer_get(&client, "/openapi.json");
    openapi_seen = cJSON_CreateObject();
    return 0;
}

static int clear(void **state)
{
    daemon_kill(&server);
    daemon_directory_remove(directory);
    cJSON_Delete(openapi_document);
    cJSON_Delete(openapi_seen);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
