/* SPDX-License-Identifier: Apache-2.0 */
/* reference_schema.c - a JSON schema as a few words, such as "array of integer ≥ 0, or null". It
 * knows the keywords that openapi.json has. */
#include "cli/reference/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void print(const char *text)
{
    fputs(text, reference_out());
}

static void print_list(const cJSON *schema, const cJSON *list, const char *page);

static const cJSON *keyword(const cJSON *schema, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(schema, name);
}

static void print_bounds(const cJSON *schema)
{
    static const struct {
        const char *name, *sign;
    } kinds[] = { { "minimum", "≥" },
                  { "exclusiveMinimum", ">" },
                  { "maximum", "≤" },
                  { "exclusiveMaximum", "<" } };
    bool is_first = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const cJSON *bound = keyword(schema, kinds[i].name);
        if (!bound)
            continue;
        fprintf(reference_out(), "%s %s %.15g", is_first ? "" : " and", kinds[i].sign,
                bound->valuedouble);
        is_first = false;
    }
}

static void print_value(const cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    if (!text)
        reference_give_up("no memory");
    fprintf(reference_out(), "`%s`", cJSON_IsString(value) ? value->valuestring : text);
    cJSON_free(text);
}

/* How many elements an array may have. */
static void print_length(const cJSON *schema)
{
    const cJSON *least = keyword(schema, "minItems"), *most = keyword(schema, "maxItems");
    if (least && most && least->valueint == most->valueint)
        fprintf(reference_out(), " (%d)", most->valueint);
    else if (least || most)
        fprintf(reference_out(), " (%s %d)", least ? "at least" : "at most",
                least ? least->valueint : most->valueint);
}

static bool is_list_of_several(const cJSON *items)
{
    return keyword(items, "anyOf") || cJSON_GetArraySize(keyword(items, "type")) > 1;
}

static void print_array(const cJSON *schema, const char *page)
{
    const cJSON *items = keyword(schema, "items");
    print("array");
    print_length(schema);
    if (!items)
        return;
    print(is_list_of_several(items) ? " of (" : " of ");
    reference_print_type(items, page);
    print(is_list_of_several(items) ? ")" : "");
}

static void print_object(const cJSON *schema, const char *page)
{
    const cJSON *all = keyword(schema, "allOf"), *others = keyword(schema, "additionalProperties");
    print("object");
    if (all) {
        print(" with the fields of ");
        print_list(schema, all, page);
    } else if (cJSON_IsObject(others) && !keyword(schema, "properties")) {
        print(" of ");
        reference_print_type(others, page);
    }
}

static void print_string(const cJSON *schema)
{
    const char *format = reference_string(schema, "format");
    const cJSON *most = keyword(schema, "maxLength");
    print(strcmp(format, "binary") == 0 ? "bytes" : *format ? format : "string");
    if (most)
        fprintf(reference_out(), " of at most %d characters", most->valueint);
}

/* One name of "type". */
static void print_named(const cJSON *schema, const char *name, const char *page)
{
    if (strcmp(name, "array") == 0) {
        print_array(schema, page);
    } else if (strcmp(name, "object") == 0) {
        print_object(schema, page);
    } else if (strcmp(name, "string") == 0) {
        print_string(schema);
    } else {
        print(name);
        if (strcmp(name, "integer") == 0 || strcmp(name, "number") == 0)
            print_bounds(schema);
    }
}

/* null is an element of an enum, a name of a type, or a type. */
static bool is_null(const cJSON *item)
{
    const char *name = cJSON_IsObject(item)   ? reference_string(item, "type")
                       : cJSON_IsString(item) ? item->valuestring
                                              : "";
    return cJSON_IsNull(item) || strcmp(name, "null") == 0;
}

/* All elements of a list but null, with " or " or commas between them, and then null. */
static void print_list(const cJSON *schema, const cJSON *list, const char *page)
{
    const cJSON *item;
    bool is_first = true, has_null = false;
    cJSON_ArrayForEach(item, list) {
        if (is_null(item)) {
            has_null = true;
            continue;
        }
        print(is_first ? "" : list == keyword(schema, "enum") ? ", " : " or ");
        is_first = false;
        if (list == keyword(schema, "enum"))
            print_value(item);
        else if (list == keyword(schema, "type"))
            print_named(schema, item->valuestring, page);
        else
            reference_print_type(item, page);
    }
    print(has_null ? ", or null" : "");
}

void reference_print_type(const cJSON *schema, const char *page)
{
    static const char *const lists[] = { "enum", "anyOf" };
    const cJSON *type = keyword(schema, "type");
    const char *name = reference_name(schema);
    if (name) {
        fprintf(reference_out(), "[%s](%s#", name, page);
        for (const char *c = name; *c; c++)
            fputc(tolower((unsigned char)*c), reference_out());
        print(")");
        return;
    }
    if (keyword(schema, "const")) {
        print_value(keyword(schema, "const"));
        return;
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (keyword(schema, lists[i])) {
            print_list(schema, keyword(schema, lists[i]), page);
            return;
        }
    if (cJSON_IsArray(type))
        print_list(schema, type, page);
    else
        print_named(schema, type ? type->valuestring : "anything", page);
}
