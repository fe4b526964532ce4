/* SPDX-License-Identifier: Apache-2.0 */
/* test_openapi_tables.c - the tables of fields and the types of openapi.json say the same: names,
 * kinds, bounds and names of choices. */
#include "test.h"

#include "fields/field.h"
#include "manifest.h"
#include "operations/attention_fields.h"
#include "operations/sessions.h"
#include "operations/trace.h"

#include <cjson/cJSON.h>

static cJSON *document;

/* -------------------------------------------------------------------- schemas -- */

static const cJSON *schema_of(const char *name)
{
    const cJSON *schemas = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(document, "components"), "schemas");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(schemas, name);
    if (!schema)
        fail_msg("there is no type %s", name);
    return schema;
}

/* The schema that a reference leads to, or the schema itself. */
static const cJSON *followed(const cJSON *schema)
{
    const cJSON *reference = cJSON_GetObjectItemCaseSensitive(schema, "$ref");
    return reference ? followed(schema_of(strrchr(reference->valuestring, '/') + 1)) : schema;
}

/* The schema of a property, also of one of allOf; NULL: there is none. */
static const cJSON *property_of(const cJSON *schema, const char *name)
{
    const cJSON *part, *found = cJSON_GetObjectItemCaseSensitive(
                           cJSON_GetObjectItemCaseSensitive(followed(schema), "properties"), name);
    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(followed(schema), "allOf"))
        found = found ? found : property_of(part, name);
    return found;
}

/* The first alternative of anyOf with this type, or the schema itself; NULL: it has no such type.
 */
static const cJSON *with_type(const cJSON *schema, const char *type)
{
    const cJSON *own = followed(schema), *part;
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(own, "type");
    if (cJSON_IsString(types) && strcmp(types->valuestring, type) == 0)
        return own;
    cJSON_ArrayForEach(part, types)
        if (strcmp(part->valuestring, type) == 0)
            return own;
    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(own, "anyOf"))
        if (with_type(part, type))
            return with_type(part, type);
    return NULL;
}

/* --------------------------------------------------------------------- fields -- */

static void expect_type(const char *where, const cJSON *schema, const char *type)
{
    if (!with_type(schema, type))
        fail_msg("%s is no %s in openapi.json", where, type);
}

static void expect_bound(const char *where, const cJSON *schema, const char *name, double want)
{
    const cJSON *bound = cJSON_GetObjectItemCaseSensitive(schema, name);
    if (!cJSON_IsNumber(bound) || bound->valuedouble != want)
        fail_msg("%s: %s is not %g in openapi.json", where, name, want);
}

static void expect_integer(const char *where, const cJSON *schema, const struct field *field)
{
    expect_type(where, schema, "integer");
    expect_bound(where, with_type(schema, "integer"), "minimum", (double)field->least);
    if (field->most)
        expect_bound(where, with_type(schema, "integer"), "maximum", (double)field->most);
}

/* The enum of the schema has the names of the field, and perhaps null. */
static void expect_names(const char *where, const cJSON *schema, const struct field *field)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(followed(schema), "enum"), *name;
    int count = 0;
    cJSON_ArrayForEach(name, names) {
        bool is_known = cJSON_IsNull(name);
        for (int i = 0; i < field->name_count && !is_known; i++)
            is_known = strcmp(field->names[i], name->valuestring) == 0;
        if (!is_known)
            fail_msg("%s: openapi.json has the name %s", where, name->valuestring);
        count += !cJSON_IsNull(name);
    }
    if (count != field->name_count)
        fail_msg("%s: openapi.json has %d names of %d", where, count, field->name_count);
}

static void expect_table(const char *type, const cJSON *schema, const struct field_table *table);

static void expect_inner(const char *where, const cJSON *schema, const struct field *field)
{
    const bool is_list = field->kind == FIELD_LIST;
    expect_type(where, schema, is_list ? "array" : "object");
    const cJSON *of = is_list
                          ? cJSON_GetObjectItemCaseSensitive(with_type(schema, "array"), "items")
                          : with_type(schema, "object");
    expect_table(where, of, field->inner);
}

static void expect_field(const char *where, const cJSON *schema, const struct field *field)
{
    switch (field->kind) {
    case FIELD_BOOL:
        expect_type(where, schema, "boolean");
        break;
    case FIELD_INTEGER:
        expect_integer(where, schema, field);
        break;
    case FIELD_NUMBER:
    case FIELD_FLOAT:
        expect_type(where, schema, "number");
        break;
    case FIELD_STRING:
    case FIELD_BYTES:
        expect_type(where, schema, "string");
        break;
    case FIELD_ENUM:
        expect_names(where, schema, field);
        break;
    case FIELD_ENUM_SET:
        expect_type(where, schema, "array");
        expect_names(where, cJSON_GetObjectItemCaseSensitive(with_type(schema, "array"), "items"),
                     field);
        break;
    case FIELD_OBJECT:
    case FIELD_LIST:
        expect_inner(where, schema, field);
        break;
    case FIELD_OWN:
    case FIELD_REFUSED:
    case FIELD_ELSEWHERE:
        break;
    default:
        expect_type(where, schema, "array");
    }
}

/* Every row that a client may send is a property, of its kind. */
static void expect_rows(const char *type, const cJSON *schema, const struct field_table *table)
{
    for (int i = 0; i < table->count; i++) {
        const struct field *field = &table->rows[i];
        char where[160];
        if (!field->name || field->kind == FIELD_REFUSED || field->kind == FIELD_ELSEWHERE)
            continue;
        snprintf(where, sizeof where, "%.80s.%.60s", type, field->name);
        if (!property_of(schema, field->name))
            fail_msg("%s is not in openapi.json", where);
        expect_field(where, property_of(schema, field->name), field);
    }
}

/* Every property has a row, or is the list whose items the rows are of. */
static void expect_properties(const char *type, const cJSON *schema,
                              const struct field_table *table)
{
    const cJSON *property, *part;
    cJSON_ArrayForEach(property, cJSON_GetObjectItemCaseSensitive(followed(schema), "properties"))
        if (!field_find(table, NAMED_AS_FIELDS, property->string)
            && !(table->list && strcmp(table->list, property->string) == 0))
            fail_msg("%s: openapi.json has %s, and no row of the table", type, property->string);
    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(followed(schema), "allOf"))
        expect_properties(type, part, table);
}

static void expect_table(const char *type, const cJSON *schema, const struct field_table *table)
{
    expect_rows(type, schema, table);
    expect_properties(type, schema, table);
}

TEST(tables_and_types_agree)
{
    static const struct {
        const char *type;
        const struct field_table *table;
    } CASES[] = {
        { "AttentionFields", &attention_fields },
        { "WeightMap", &weight_map_fields },
        { "MergeRequest", &merge_fields },
        { "TraceFields", &trace_fields },
        { "SessionRequest", &session_create_fields },
        { "SessionChangeRequest", &session_change_fields },
        { "SessionForkRequest", &session_fork_fields },
        { "SessionTruncateRequest", &session_truncate_fields },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_table(CASES[i].type, schema_of(CASES[i].type), CASES[i].table);
}

static int read_document(void **state)
{
    (void)state;
    char *text = manifest_file_text("server/openapi.json");
    document = cJSON_Parse(text);
    free(text);
    return document ? 0 : -1;
}

static int drop_document(void **state)
{
    (void)state;
    cJSON_Delete(document);
    return 0;
}

ALL_TESTS(read_document, drop_document);
