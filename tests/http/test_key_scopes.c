/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_scopes.c - every operation of the OpenAPI document with each key: none, a wrong one, one
 * of each scope. The document says which scope an operation asks for; the daemon must ask for the
 * same, and must answer before the body comes. */
#include "access/access_key.h"
#include "answer.h"
#include "api/routes.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

#include <ctype.h>

/* A key of each scope, which is its name but for the colon. */
static const struct key_line KEYS[] = {
    { "infer", "infer" },       { "models", "models" },
    { "sessions", "sessions" }, { "sessions-all", "sessions:all" },
    { "regions", "regions" },   { "metrics", "metrics" },
    { "admin", "admin" },       { NULL, NULL },
};
enum { KEY_COUNT = sizeof KEYS / sizeof KEYS[0] - 1 };

static cJSON *document;

struct operation {
    char method[8];
    char path[200];      /* with names in place of braces */
    const char *pattern; /* as in the document */
    const char *scope;   /* NULL: no key is asked for; "": any key */
};

/* "/v1/models/{model}" becomes "/v1/models/demo". */
static void fill_in(char *path, size_t size, const char *pattern)
{
    size_t used = 0;
    while (*pattern && used + 8 < size) {
        if (*pattern != '{') {
            path[used++] = *pattern++;
            continue;
        }
        const char *value = strncmp(pattern, "{model}", 7) == 0     ? "demo"
                            : strncmp(pattern, "{version}", 9) == 0 ? "1"
                                                                    : "a";
        used += (size_t)sprintf(path + used, "%s", value);
        pattern = strchr(pattern, '}') + 1;
    }
    path[used] = '\0';
}

/* Both schemes of an operation must ask for the same. */
static const char *scope_of(const cJSON *operation)
{
    const cJSON *security = cJSON_GetObjectItem(operation, "security");
    assert_true(cJSON_IsArray(security));
    if (cJSON_GetArraySize(security) == 0)
        return NULL;
    assert_int_equal(cJSON_GetArraySize(security), 2);
    const cJSON *bearer = cJSON_GetObjectItem(cJSON_GetArrayItem(security, 0), "bearer");
    const cJSON *header = cJSON_GetObjectItem(cJSON_GetArrayItem(security, 1), "apiKey");
    assert_true(cJSON_Compare(bearer, header, true));
    return cJSON_GetArraySize(bearer) > 0 ? cJSON_GetArrayItem(bearer, 0)->valuestring : "";
}

static void each_operation(void (*visit)(const struct operation *operation))
{
    const cJSON *path, *node;
    int count = 0;
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(document, "paths")) {
        cJSON_ArrayForEach(node, path) {
            if (strcmp(node->string, "parameters") == 0)
                continue;
            struct operation operation = { .pattern = path->string, .scope = scope_of(node) };
            for (size_t i = 0; node->string[i] && i + 1 < sizeof operation.method; i++)
                operation.method[i] = (char)toupper((unsigned char)node->string[i]);
            fill_in(operation.path, sizeof operation.path, path->string);
            visit(&operation);
            count++;
        }
    }
    assert_true(count > 30);
}

static bool takes_body(const struct operation *operation)
{
    return strcmp(operation->method, "POST") == 0 || strcmp(operation->method, "PUT") == 0;
}

/* ---------------------------------------------------------------- the document -- */

static void compare_with_route(const struct operation *operation)
{
    int count;
    const struct route *routes = routes_table(&count);
    for (int i = 0; i < count; i++) {
        if (strcmp(routes[i].method, operation->method) != 0
            || strcmp(routes[i].pattern, operation->pattern) != 0)
            continue;
        assert_int_equal(routes[i].scope == ACCESS_OPEN, operation->scope == NULL);
        assert_string_equal(access_scope_name(routes[i].scope),
                            operation->scope ? operation->scope : "");
        return;
    }
    fail_msg("%s %s is no route", operation->method, operation->pattern);
}

TEST(document_is_table)
{
    each_operation(compare_with_route);
}

/* --------------------------------------------------------------- every key -- */

static struct http_request request_of(const struct operation *operation)
{
    return (struct http_request){ .method = operation->method,
                                  .path = operation->path,
                                  .body = takes_body(operation) ? "{}" : NULL };
}

/* admin holds every scope, and sessions:all holds sessions. */
static bool holds(const char *own, const char *wanted)
{
    return wanted[0] == '\0' || strcmp(own, "admin") == 0 || strcmp(own, wanted) == 0
           || (strcmp(own, "sessions:all") == 0 && strcmp(wanted, "sessions") == 0);
}

/* Whatever the handler says, it was asked. */
static void expect_let_in(const struct operation *operation, const char *name)
{
    const struct http_request request = request_of(operation);
    struct http_response response = key_send(&client, name, &request, NULL);
    if (response.status == 401 || response.status == 0
        || (response.status == 403 && strstr(response.body, "\"scope\"")))
        fail_msg("%s %s with the key %s: %ld %s", operation->method, operation->path,
                 name ? name : "(none)", response.status, response.body);
    http_response_free(&response);
}

static void try_keys(const struct operation *operation)
{
    const struct http_request request = request_of(operation);
    char wanted[96];
    if (!operation->scope) {
        expect_let_in(operation, NULL);
        expect_let_in(operation, "nobody");
    } else {
        key_expect_refused(&client, NULL, &request, 401, "key", "Authorization: Bearer");
        key_expect_refused(&client, "nobody", &request, 401, "key", "not known");
    }
    for (int i = 0; i < KEY_COUNT; i++) {
        if (!operation->scope || holds(KEYS[i].scopes, operation->scope)) {
            expect_let_in(operation, KEYS[i].name);
            continue;
        }
        snprintf(wanted, sizeof wanted, "no scope '%s'; send a key that has it%s", operation->scope,
                 strcmp(operation->scope, "admin") == 0 ? "\"" : ", or that has 'admin'\"");
        key_expect_refused(&client, KEYS[i].name, &request, 403, "scope", wanted);
    }
}

TEST(every_key)
{
    each_operation(try_keys);
}

/* HEAD is as GET. Paths and methods that are not there are told to keys alone. */
TEST(beside_the_document)
{
    const struct http_request unknown = { .path = "/v1/nothing" };
    const struct http_request method = { .method = "DELETE", .path = "/v1/models" };
    const struct http_request open_method = { .method = "DELETE", .path = "/livez" };
    key_expect_refused(&client, NULL, &unknown, 401, "key", NULL);
    key_expect_refused(&client, "infer", &unknown, 404, "not_found", NULL);
    key_expect_refused(&client, NULL, &method, 401, "key", NULL);
    key_expect_refused(&client, "metrics", &method, 405, "method", NULL);
    key_expect_refused(&client, NULL, &open_method, 401, "key", NULL);
    const struct http_request head = { .method = "HEAD", .path = "/v1/models" };
    const struct http_request open_head = { .method = "HEAD", .path = "/livez" };
    struct http_response response = key_expect(&client, NULL, &head, 401);
    http_response_free(&response);
    response = key_expect(&client, "models", &head, 403);
    http_response_free(&response);
    response = key_expect(&client, "infer", &head, 200);
    http_response_free(&response);
    response = key_expect(&client, NULL, &open_head, 200);
    http_response_free(&response);
}

/* ---------------------------------------------------------- before the body -- */

/* Sends the head alone. The answer must come all the same, and be the only one. */
static void expect_before_body(const struct operation *operation, const char *name,
                               const char *more, long status)
{
    char head[600], key[200] = "";
    struct http_raw raw;
    if (name)
        snprintf(key, sizeof key, "X-Api-Key: %s\r\n", key_secret(name));
    snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: x\r\n%s%s\r\n", operation->method,
             operation->path, key, more);
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    if (response.status != status)
        fail_msg("%s: %ld %s", head, response.status, response.body ? response.body : "");
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    http_raw_close(&raw);
}

static void try_heads(const struct operation *operation)
{
    static const char *const BODIES[] = {
        "Content-Length: 1000000\r\n",
        "Content-Length: 2\r\nExpect: 100-continue\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 1000000000000\r\n",
    };
    if (!takes_body(operation) || !operation->scope)
        return;
    const char *lacks = strcmp(operation->scope, "infer") == 0 ? "models" : "infer";
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++) {
        expect_before_body(operation, NULL, BODIES[i], 401);
        expect_before_body(operation, "nobody", BODIES[i], 401);
        expect_before_body(operation, lacks, BODIES[i], 403);
    }
}

TEST(before_body)
{
    each_operation(try_heads);
}

/* A short body that is there is read, so that the connection stays open. */
TEST(connection_stays)
{
    const struct http_request post = { .path = "/v1/attention",
                                       .body = "{\"model\":\"demo\",\"query\":[[1,0,0]]}" };
    struct http_response response = key_expect(&client, NULL, &post, 401);
    http_response_free(&response);
    response = key_expect(&client, "infer", &post, 200);
    assert_false(response.on_new_connection);
    http_response_free(&response);
}

/* ------------------------------------------------------------------- start, end -- */

static int start(void **state)
{
    directory = daemon_directory_create();
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--keys", fixture_path("keys"));
    const struct http_request get = { .path = "/openapi.json" };
    struct http_response response = key_expect(&client, "sessions", &get, 200);
    document = cJSON_Parse(response.body);
    http_response_free(&response);
    return document ? 0 : -1;
}

static int clear(void **state)
{
    cJSON_Delete(document);
    return fixture_clear(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
