/* SPDX-License-Identifier: Apache-2.0 */
/* test_schema_check.c - the checker that compares answers with the OpenAPI document finds
 * errors. */
#include "schema_check.h"
#include "test.h"
#include "json/json.h"

static cJSON *document;

static int read_document(void **state)
{
    FILE *file = fopen("server/openapi.json", "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const size_t size = (size_t)ftell(file);
    char *text = malloc(size);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, size, file), size);
    fclose(file);
    struct json_document strict;
    struct fault fault;
    const struct json_options options = { .nonfinite_allowed = false };
    if (!json_read(&strict, text, size, &options, &fault)) /* no key twice, for one */
        fail_msg("%s %s", fault.pointer, fault.message);
    json_free(&strict);
    document = cJSON_ParseWithLength(text, size);
    free(text);
    assert_non_null(document);
    return 0;
}

static int free_document(void **state)
{
    cJSON_Delete(document);
    return 0;
}

TEST(what_does_not_fit)
{
    static const struct {
        const char *schema, *value;
        bool good;
    } cases[] = {
        { "Fault", "{\"error\":\"e\",\"code\":\"json\",\"request_id\":\"r\"}", true },
        { "Fault", "{\"error\":\"e\",\"code\":\"json\"}", false },
        { "Fault", "{\"error\":1,\"code\":\"json\",\"request_id\":\"r\"}", false },
        { "Fault", "{\"error\":\"e\",\"code\":\"js\",\"request_id\":\"r\"}", false },
        { "Fault", "{\"error\":\"e\",\"code\":\"json\",\"request_id\":\"r\",\"x\":1}", false },
        { "Matrix", "[[1,null],[]]", true },
        { "Matrix", "[1]", false },
        { "Matrix", "[[true]]", false },
        { "Live", "{\"live\":false}", false },
        { "AttentionRequest", "{\"query\":[1],\"causal\":null}", true },
        { "AttentionRequest", "{\"causal\":true}", false },
        { "AttentionRequest", "{\"query\":[1],\"casual\":true}", false },
        { "AttentionRequest", "{\"query\":[1],\"layer\":-1}", false },
        { "AttentionRequest", "{\"query\":[1],\"layer\":0.5}", false },
        { "BatchRequest", "{\"scale\":1,\"requests\":[{\"query\":[1]}]}", true },
        { "BatchRequest", "{\"scale\":1,\"requests\":[{\"quer\":[1]}]}", false },
        { "MergeRequest", "{\"parts\":[]}", false },
    };
    const cJSON *schemas =
        cJSON_GetObjectItem(cJSON_GetObjectItem(document, "components"), "schemas");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cJSON *value = cJSON_Parse(cases[i].value);
        if (schema_fits(document, cJSON_GetObjectItem(schemas, cases[i].schema), value)
            != cases[i].good)
            fail_msg("%s: %s", cases[i].schema, cases[i].value);
        cJSON_Delete(value);
    }
}

ALL_TESTS(read_document, free_document);
