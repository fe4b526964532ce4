/* SPDX-License-Identifier: Apache-2.0 */
/* reference_types.c - the page of types: each with where it stands, and a table of its fields. */
#include "cli/reference/reference.h"

#include <stdio.h>
#include <string.h>

static void print_fields(const cJSON *schema, const char *prefix);

static bool is_required(const cJSON *schema, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(schema, "required")) {
        if (strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

/* The fields of objects within a field: "region.rows", "requests[].session". */
static void print_inner_fields(const cJSON *schema, const char *name)
{
    char prefix[256];
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items"), *alternative,
                *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    snprintf(prefix, sizeof prefix, "%s%s", name, *name ? "." : "");
    print_fields(schema, prefix);
    cJSON_ArrayForEach(alternative, cJSON_GetObjectItemCaseSensitive(schema, "anyOf")) {
        print_inner_fields(alternative, name);
    }
    snprintf(prefix, sizeof prefix, "%s[]", name);
    if (items)
        print_inner_fields(items, prefix);
    snprintf(prefix, sizeof prefix, "%s.NAME", name);
    if (cJSON_IsObject(others))
        print_inner_fields(others, prefix);
}

static void print_row(const char *name, const cJSON *type, bool is_needed, const char *description)
{
    fprintf(reference_out(), "| `%s` | ", name);
    reference_print_type(type, "");
    fprintf(reference_out(), " | %s | ", is_needed ? "yes" : "");
    reference_print_cell(description);
    fputs(" |\n", reference_out());
}

static void print_fields(const cJSON *schema, const char *prefix)
{
    const cJSON *field, *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"),
                        *shared = cJSON_GetObjectItemCaseSensitive(schema, "allOf");
    char name[256];
    /* Fields of a shared type that have to be there in this one. */
    cJSON_ArrayForEach(field, cJSON_GetObjectItemCaseSensitive(schema, "required")) {
        if (shared && !cJSON_GetObjectItemCaseSensitive(properties, field->valuestring)) {
            snprintf(name, sizeof name, "%s%s", prefix, field->valuestring);
            print_row(name, shared->child, true, "A field of that type.");
        }
    }
    cJSON_ArrayForEach(field, properties) {
        snprintf(name, sizeof name, "%s%s", prefix, field->string);
        print_row(name, field, is_required(schema, field->string),
                  reference_string(field, "description"));
        print_inner_fields(field, name);
    }
}

/* -------------------------------------------------------------------------- where it stands -- */

static bool has_schema(const cJSON *owner, const char *name)
{
    const cJSON *media;
    cJSON_ArrayForEach(media, cJSON_GetObjectItemCaseSensitive(owner, "content")) {
        const char *used = reference_name(reference_member(media, "schema"));
        if (used && strcmp(used, name) == 0)
            return true;
    }
    return false;
}

static bool is_answer(const cJSON *operation, const char *name)
{
    const cJSON *response;
    cJSON_ArrayForEach(response, reference_member(operation, "responses")) {
        if (has_schema(response, name))
            return true;
    }
    return false;
}

static void print_uses(const cJSON *document, const char *name)
{
    const cJSON *path, *operation;
    int count = 0;
    reference_paragraph_begin();
    for (int answers = 0; answers < 2; answers++) {
        bool is_first = true;
        cJSON_ArrayForEach(path, reference_member(document, "paths")) {
            cJSON_ArrayForEach(operation, path) {
                if (!reference_is_operation(operation)
                    || !(answers
                             ? is_answer(operation, name)
                             : has_schema(
                                 cJSON_GetObjectItemCaseSensitive(operation, "requestBody"), name)))
                    continue;
                fputs(!is_first ? ", "
                      : answers ? (count ? "; answer of " : "Answer of ")
                                : "Body of ",
                      reference_out());
                reference_print_call(REFERENCE_CALLS_PAGE, operation->string, path->string);
                is_first = false;
                count++;
            }
        }
    }
    cJSON_ArrayForEach(path,
                       reference_member(reference_member(document, "components"), "responses")) {
        if (count == 0 && has_schema(path, name)) {
            fputs("Answer of what is [refused](" REFERENCE_CALLS_PAGE "#faults)", reference_out());
            count++;
        }
    }
    fputs(count ? "." : "Part of other types.", reference_out());
    reference_paragraph_end();
}

/* --------------------------------------------------------------------------------- the page -- */

static void print_example(const cJSON *schema)
{
    const cJSON *examples = cJSON_GetObjectItemCaseSensitive(schema, "examples");
    char *text = examples ? cJSON_PrintUnformatted(examples->child) : NULL;
    if (text)
        printf("```json\n%s\n```\n\n", text);
    cJSON_free(text);
}

static void print_type(const cJSON *document, const cJSON *schema)
{
    const char *description = reference_string(schema, "description");
    printf("## %s\n\n", schema->string);
    print_uses(document, schema->string);
    reference_paragraph_begin();
    fputs("Type: ", reference_out());
    reference_print_type(schema, "");
    fputs(*description ? ". " : ".", reference_out());
    reference_print_cell(description);
    reference_paragraph_end();
    reference_rows_begin();
    print_inner_fields(schema, "");
    reference_rows_end("| field | type | needed | |\n|---|---|---|---|");
    print_example(schema);
}

void reference_types(const cJSON *document)
{
    const cJSON *schema;
    puts("# Reference: what bodies hold\n");
    reference_paragraph_begin();
    fputs("Made from [openapi.json](/openapi.json); "
          "[" REFERENCE_CALLS_PAGE "](" REFERENCE_CALLS_PAGE ") has the operations, and the pages "
          "`API*.md` in the sources, in `server/`, explain both. `a.b` is the field b of the "
          "object a, `a[]` stands for each element of the array a, and `a.NAME` for whatever the "
          "client names. A field that is null is one that is not there.",
          reference_out());
    reference_paragraph_end();
    cJSON_ArrayForEach(schema,
                       reference_member(reference_member(document, "components"), "schemas")) {
        print_type(document, schema);
    }
}
