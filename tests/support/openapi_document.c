/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_document.c - see openapi_document.h. */
#include "openapi_document.h"
#include "test.h"

#include "answer.h"
#include "schema_check.h"

cJSON *openapi_document;
cJSON *openapi_seen;

char openapi_trace[65];
char openapi_region[128];

void openapi_make_region(void)
{
    struct shared_region memory;
    shared_region_make(&memory, "openapi", 1);
    snprintf(openapi_region, sizeof openapi_region, JSON({"key":"%s","byte_size":1}), memory.key);
}

const char *openapi_path(const struct openapi_call *call)
{
    static char path[200];
    const char *written = call->path ? call->path : call->pattern;
    const char *at = strchr(written, '@');
    if (!at)
        return written;
    snprintf(path, sizeof path, "%.*s%s%s", (int)(at - written), written, openapi_trace, at + 1);
    return path;
}

const cJSON *openapi_response(const cJSON *operation, long status)
{
    char name[16];
    snprintf(name, sizeof(name), "%ld", status);
    return schema_follow(openapi_document,
                         cJSON_GetObjectItem(cJSON_GetObjectItem(operation, "responses"), name));
}

const cJSON *openapi_operation(const struct openapi_call *call)
{
    const cJSON *path =
        cJSON_GetObjectItem(cJSON_GetObjectItem(openapi_document, "paths"), call->pattern);
    return cJSON_GetObjectItem(path, call->method); /* any case */
}

const cJSON *openapi_body_schema(const cJSON *operation)
{
    const cJSON *content =
        cJSON_GetObjectItem(cJSON_GetObjectItem(operation, "requestBody"), "content");
    return cJSON_GetObjectItem(cJSON_GetObjectItem(content, "application/json"), "schema");
}

/* Notes that such an answer came. type "" stands for any type. */
static void note(const char *what, const char *type)
{
    char seen[300];
    snprintf(seen, sizeof(seen), "%s %s", what, type);
    cJSON_DeleteItemFromObjectCaseSensitive(openapi_seen, seen);
    cJSON_AddTrueToObject(openapi_seen, seen);
}

static void expect_body(const cJSON *content, const struct http_response *response,
                        const char *what)
{
    char type[100] = "";
    http_response_header(response, "Content-Type", type, sizeof(type));
    const cJSON *media = cJSON_GetObjectItem(content, type);
    if (!media)
        fail_msg("%s is '%s'", what, type);
    note(what, type);
    const cJSON *schema = cJSON_GetObjectItem(media, "schema");
    const bool is_json = strcmp(type, "application/json") == 0;
    if (!schema && !is_json)
        return;
    cJSON *body = is_json ? cJSON_Parse(response->body) : cJSON_CreateString(response->body);
    assert_non_null(body);
    schema_expect(openapi_document, schema, body, what);
    cJSON_Delete(body);
}

void openapi_expect_described(const struct openapi_call *call, struct http_response *response)
{
    char what[200], value[300];
    snprintf(what, sizeof(what), "%s %s %ld", call->method, call->pattern, response->status);
    const cJSON *described = openapi_response(openapi_operation(call), response->status);
    if (!described)
        fail_msg("%s is not in the document: %s", what, response->body);
    note(what, "");
    const cJSON *header;
    cJSON_ArrayForEach(header, cJSON_GetObjectItem(described, "headers")) {
        const cJSON *required =
            cJSON_GetObjectItem(schema_follow(openapi_document, header), "required");
        if (cJSON_IsTrue(required)
            && !http_response_header(response, header->string, value, sizeof(value)))
            fail_msg("%s has no header %s", what, header->string);
    }
    const cJSON *content = cJSON_GetObjectItem(described, "content");
    if (content)
        expect_body(content, response, what);
    else
        assert_int_equal(response->body_size, 0);
    http_response_free(response);
}

void openapi_expect_status(struct http_client *from, const struct openapi_call *call,
                           const char *header, long status)
{
    const char *const headers[] = { "Content-Type: application/json",
                                    header ? header : call->header, NULL };
    struct http_response response =
        http_client_send(from, &(struct http_request){ .method = call->method,
                                                       .path = openapi_path(call),
                                                       .body = call->body,
                                                       .headers = headers });
    if (response.status != status)
        fail_msg("%s %s: expected %ld, not %ld: %s", call->method, openapi_path(call), status,
                 response.status, response.body);
    openapi_expect_described(call, &response);
}

/* A good call of an operation that needs nothing but the first example of its body, or NULL. */
static const struct openapi_call *example_of(const cJSON *path, const cJSON *operation)
{
    static struct openapi_call made[24];
    static int count;
    for (int i = 0; i < count; i++)
        if (made[i].pattern == path->string)
            return &made[i];
    const cJSON *schema = schema_follow(openapi_document, openapi_body_schema(operation));
    const cJSON *examples = cJSON_GetObjectItem(schema, "examples");
    if (strcmp(operation->string, "post") != 0 || strchr(path->string, '{') || !examples)
        return NULL;
    assert_true(count < (int)(sizeof made / sizeof made[0]));
    made[count] = (struct openapi_call){ .method = "POST",
                                         .pattern = path->string,
                                         .status = 200,
                                         .body = cJSON_PrintUnformatted(examples->child) };
    return &made[count++];
}

/* The operation is given by its names in the document. */
static const struct openapi_call *call_of(const struct openapi_call *prefetch, int call_count,
                                          const cJSON *path, const cJSON *operation)
{
    const struct openapi_call *made = example_of(path, operation);
    for (int i = 0; i < call_count && !made; i++)
        if (strcmp(prefetch[i].pattern, path->string) == 0
            && strcasecmp(prefetch[i].method, operation->string) == 0)
            made = &prefetch[i];
    if (!made)
        fail_msg("%s %s has no call in the table, and no example in the document",
                 operation->string, path->string);
    return made;
}

void openapi_each_with(const struct openapi_call *prefetch, int call_count, long status,
                       void (*visit)(const struct openapi_call *call, void *context), void *context)
{
    const cJSON *path, *operation;
    int count = 0;
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(openapi_document, "paths")) {
        cJSON_ArrayForEach(operation, path) {
            if (strcmp(operation->string, "parameters") == 0
                || !openapi_response(operation, status))
                continue;
            visit(call_of(prefetch, call_count, path, operation), context);
            count++;
        }
    }
    assert_true(count > 0);
}

static void expect_seen(const char *method, const char *path, const cJSON *response,
                        const char *type)
{
    char what[300];
    snprintf(what, sizeof(what), "%s %s %s %s", method, path, response->string, type);
    if (!cJSON_GetObjectItem(openapi_seen, what)) /* any case */
        fail_msg("nobody was answered %s", what);
}

void openapi_expect_all_seen(void)
{
    const cJSON *path, *operation, *response, *media;
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(openapi_document, "paths")) {
        cJSON_ArrayForEach(operation, path) {
            cJSON_ArrayForEach(response, cJSON_GetObjectItem(operation, "responses")) {
                const cJSON *described = schema_follow(openapi_document, response);
                expect_seen(operation->string, path->string, response, "");
                cJSON_ArrayForEach(media, cJSON_GetObjectItem(described, "content"))
                    expect_seen(operation->string, path->string, response, media->string);
            }
        }
    }
}

/* If a type of body has no schema, a generator of clients makes a type of it that may be
 * anything. Every answer that may have this body then gets the same type. */
static void expect_schemas(const char *what, const cJSON *content)
{
    static const char *const KINDS[] = { "type", "anyOf", "allOf", "oneOf" };
    const cJSON *media;
    cJSON_ArrayForEach(media, content) {
        const cJSON *schema = schema_follow(openapi_document, cJSON_GetObjectItem(media, "schema"));
        bool has_kind = false;
        for (int i = 0; i < 4; i++)
            has_kind = has_kind || cJSON_GetObjectItem(schema, KINDS[i]);
        if (!has_kind)
            fail_msg("%s: %s has no type", what, media->string);
    }
}

void openapi_expect_types(void)
{
    const cJSON *path, *operation, *response;
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(openapi_document, "paths")) {
        cJSON_ArrayForEach(operation, path) {
            const cJSON *body = cJSON_GetObjectItem(operation, "requestBody");
            expect_schemas(path->string, cJSON_GetObjectItem(body, "content"));
            cJSON_ArrayForEach(response, cJSON_GetObjectItem(operation, "responses")) {
                const cJSON *described = schema_follow(openapi_document, response);
                expect_schemas(path->string, cJSON_GetObjectItem(described, "content"));
                if (!cJSON_GetObjectItem(described, "content")
                    && strcmp(response->string, "204") != 0 && strcmp(response->string, "304") != 0)
                    fail_msg("%s: %s has no body", path->string, response->string);
            }
        }
    }
}
