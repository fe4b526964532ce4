/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_agreement.c - see openapi_agreement.h. */
#include "openapi_agreement.h"
#include "test.h"

#include "answer.h"
#include "schema_check.h"

/* Of an item of a batch the fault is in the answer. */
static bool is_refused(const struct http_response *response)
{
    return response->status >= 400 || strstr(response->body, "\"pointer\":\"/requests/0/");
}

/* Where the document refuses a body, so does the daemon; where it takes one, the daemon finds no
 * wrong type in it. */
static void expect_agreement(struct http_client *client, const struct openapi_call *call,
                             const cJSON *schema, const cJSON *body)
{
    char *text = cJSON_PrintUnformatted(body);
    const struct http_request request = { .path = openapi_path(call),
                                          .method = call->method,
                                          .body = text };
    struct http_response response = http_client_send(client, &request);
    const bool fits = schema_fits(openapi_document, schema, body);
    if (fits ? strstr(response.body, "\"code\":\"type\"") != NULL : !is_refused(&response))
        fail_msg("%s %s: the document %s it; %s", request.path, text, fits ? "takes" : "refuses",
                 response.body);
    http_response_free(&response);
    cJSON_free(text);
}

static void change_parts(struct http_client *client, const struct openapi_call *call,
                         const cJSON *schema, const cJSON *body, cJSON *parent)
{
    static const char *const OTHERS[] = { "null", "\"x\"", "{\"?\":0}", "true",
                                          "1.5",  "[]",    "[null]" };
    const int count = cJSON_IsArray(parent) && parent->child ? 1 : cJSON_GetArraySize(parent);
    for (int place = 0; place < count; place++) {
        cJSON *part = cJSON_GetArrayItem(parent, place);
        change_parts(client, call, schema, body, part);
        for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
            cJSON *other = cJSON_Parse(OTHERS[i]), *copy = cJSON_Duplicate(part, true);
            assert_non_null(other);
            assert_non_null(copy);
            if (part->string)
                other->string = strdup(part->string);
            assert_true(cJSON_ReplaceItemViaPointer(parent, part, other));
            expect_agreement(client, call, schema, body);
            assert_true(cJSON_ReplaceItemViaPointer(parent, other, copy));
            part = copy;
        }
    }
}

void openapi_change_parts(struct http_client *client, const struct openapi_call *call, cJSON *body)
{
    change_parts(client, call, openapi_body_schema(openapi_operation(call)), body, body);
}

static const cJSON *properties_of(const char *schema)
{
    const cJSON *components = cJSON_GetObjectItem(openapi_document, "components");
    const cJSON *schemas = cJSON_GetObjectItem(components, "schemas");
    return cJSON_GetObjectItem(cJSON_GetObjectItem(schemas, schema), "properties");
}

void openapi_expect_fields(struct http_client *client, const char *schema, const char *own,
                           const char *path, int least)
{
    const cJSON *fields = properties_of(schema), *owned = properties_of(own), *field;
    assert_true(cJSON_GetArraySize(fields) > least);
    cJSON_ArrayForEach(field, fields) {
        char body[200], pointer[100];
        const cJSON *type = cJSON_GetObjectItem(cJSON_GetObjectItem(owned, field->string), "type");
        const bool is_none = cJSON_IsString(type) && strcmp(type->valuestring, "null") == 0;
        snprintf(body, sizeof(body), JSON({"%s":{"?":0}}), field->string);
        snprintf(pointer, sizeof(pointer), "/%s", field->string);
        struct http_response response = http_client_post(client, path, body);
        cJSON *fault = answer_json(&response, 400);
        const cJSON *at = cJSON_GetObjectItem(fault, "pointer");
        const char *code = cJSON_GetObjectItem(fault, "code")->valuestring;
        if (!is_none
            && (!at || strncmp(at->valuestring, pointer, strlen(pointer)) != 0
                || (strcmp(at->valuestring, pointer) == 0 && strcmp(code, "field") == 0)))
            fail_msg("%s %s: %s", path, body, response.body);
        cJSON_Delete(fault);
        http_response_free(&response);
    }
}
