/* SPDX-License-Identifier: Apache-2.0 */
/* schema_check.c - see schema_check.h. */
#include "schema_check.h"
#include "test.h"

/* Where the last misfit was: the names of the members from the outermost inwards, and what was
 * wrong. */
struct misfit {
    char place[256], reason[128];
};

static bool fits(const cJSON *document, const cJSON *schema, const cJSON *value,
                 struct misfit *misfit);

static bool wrong(struct misfit *misfit, const cJSON *value, const char *reason, const char *detail)
{
    char *text = cJSON_PrintUnformatted(value);
    snprintf(misfit->reason, sizeof(misfit->reason), "%s %s: %.60s", reason, detail,
             text ? text : "");
    cJSON_free(text);
    misfit->place[0] = '\0';
    return false;
}

/* Puts a step in front of the place of a misfit that was found further down. */
static bool below(struct misfit *misfit, const char *step, bool good)
{
    char place[sizeof(misfit->place)];
    if (good)
        return true;
    snprintf(place, sizeof(place), "/%.60s%.180s", step, misfit->place);
    memcpy(misfit->place, place, sizeof(place));
    return false;
}

const cJSON *schema_follow(const cJSON *document, const cJSON *node)
{
    const cJSON *reference = cJSON_GetObjectItemCaseSensitive(node, "$ref");
    if (!reference)
        return node;
    char path[256];
    snprintf(path, sizeof(path), "%s", reference->valuestring);
    const cJSON *found = document;
    char *rest = path;
    assert_string_equal(strsep(&rest, "/"), "#");
    for (char *step; found && (step = strsep(&rest, "/"));)
        found = cJSON_GetObjectItemCaseSensitive(found, step);
    if (!found)
        fail_msg("%s leads nowhere", reference->valuestring);
    return schema_follow(document, found);
}

static bool is_of_type(const cJSON *value, const char *type)
{
    if (strcmp(type, "object") == 0)
        return cJSON_IsObject(value);
    if (strcmp(type, "array") == 0)
        return cJSON_IsArray(value);
    if (strcmp(type, "string") == 0)
        return cJSON_IsString(value);
    if (strcmp(type, "boolean") == 0)
        return cJSON_IsBool(value);
    if (strcmp(type, "null") == 0)
        return cJSON_IsNull(value);
    if (strcmp(type, "number") == 0)
        return cJSON_IsNumber(value);
    if (strcmp(type, "integer") != 0)
        fail_msg("'%s' is no type", type);
    return cJSON_IsNumber(value) && value->valuedouble == floor(value->valuedouble);
}

static bool fits_type(const cJSON *types, const cJSON *value, struct misfit *misfit)
{
    const cJSON *type;
    if (cJSON_IsString(types))
        return is_of_type(value, types->valuestring)
               || wrong(misfit, value, "not of type", types->valuestring);
    cJSON_ArrayForEach(type, types) {
        if (is_of_type(value, type->valuestring))
            return true;
    }
    return wrong(misfit, value, "of none of the types", "");
}

static bool fits_any(const cJSON *document, const cJSON *schemas, const cJSON *value,
                     struct misfit *misfit)
{
    const cJSON *schema;
    cJSON_ArrayForEach(schema, schemas) {
        if (fits(document, schema, value, misfit))
            return true;
    }
    return false;
}

static bool fits_all(const cJSON *document, const cJSON *schemas, const cJSON *value,
                     struct misfit *misfit)
{
    const cJSON *schema;
    cJSON_ArrayForEach(schema, schemas) {
        if (!fits(document, schema, value, misfit))
            return false;
    }
    return true;
}

static bool is_among(const cJSON *values, const cJSON *value, struct misfit *misfit)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, values) {
        if (cJSON_Compare(one, value, true))
            return true;
    }
    return wrong(misfit, value, "none of the values", "");
}

static bool has_members(const cJSON *names, const cJSON *value, struct misfit *misfit)
{
    const cJSON *name;
    cJSON_ArrayForEach(name, names) {
        if (cJSON_IsObject(value) && !cJSON_GetObjectItemCaseSensitive(value, name->valuestring))
            return wrong(misfit, value, "lacks", name->valuestring);
    }
    return true;
}

/* Whether the schema, or one that it takes in, has a property of that name. */
static bool knows(const cJSON *document, const cJSON *schema, const char *name)
{
    const cJSON *target = schema_follow(document, schema);
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    const cJSON *part;
    if (cJSON_GetObjectItemCaseSensitive(properties, name))
        return true;
    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(schema, "allOf")) {
        if (knows(document, part, name))
            return true;
    }
    return target != schema && knows(document, target, name);
}

/* rest: the schema of members that properties does not name. */
static bool fits_members(const cJSON *document, const cJSON *schema, const cJSON *rest,
                         const cJSON *value, struct misfit *misfit)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    const cJSON *member;
    if (!cJSON_IsObject(value))
        return true;
    cJSON_ArrayForEach(member, value) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(properties, member->string);
        if (own && !below(misfit, member->string, fits(document, own, member, misfit)))
            return false;
        if (own || !rest || knows(document, schema, member->string))
            continue;
        if (cJSON_IsFalse(rest))
            return wrong(misfit, value, "has an unknown", member->string);
        if (!below(misfit, member->string, fits(document, rest, member, misfit)))
            return false;
    }
    return true;
}

static bool fits_items(const cJSON *document, const cJSON *items, const cJSON *value,
                       struct misfit *misfit)
{
    const cJSON *item;
    int index = 0;
    if (!cJSON_IsArray(value))
        return true;
    cJSON_ArrayForEach(item, value) {
        char step[16];
        snprintf(step, sizeof(step), "%d", index++);
        if (!below(misfit, step, fits(document, items, item, misfit)))
            return false;
    }
    return true;
}

static bool fits_bound(const cJSON *bound, const cJSON *value, struct misfit *misfit)
{
    static const char *const names[] = { "minimum",          "maximum",  "exclusiveMinimum",
                                         "exclusiveMaximum", "minItems", "maxItems" };
    const bool counts = strstr(bound->string, "Items") != NULL;
    int i = 0;
    while (i < 6 && strcmp(names[i], bound->string) != 0)
        i++;
    if (i == 6)
        fail_msg("the checker does not know '%s'", bound->string);
    if (counts ? !cJSON_IsArray(value) : !cJSON_IsNumber(value))
        return true;
    const double number = counts ? cJSON_GetArraySize(value) : value->valuedouble;
    const double limit = bound->valuedouble;
    const bool good = i == 0 || i == 4   ? number >= limit
                      : i == 1 || i == 5 ? number <= limit
                      : i == 2           ? number > limit
                                         : number < limit;
    return good || wrong(misfit, value, "beyond its", bound->string);
}

static bool is_note(const char *keyword)
{
    static const char *const notes[] = { "description", "examples", "$ref", "properties",
                                         "format" };
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        if (strcmp(keyword, notes[i]) == 0)
            return true;
    return false;
}

static bool fits_keyword(const cJSON *document, const cJSON *schema, const cJSON *keyword,
                         const cJSON *value, struct misfit *misfit)
{
    const char *name = keyword->string;
    if (strcmp(name, "type") == 0)
        return fits_type(keyword, value, misfit);
    if (strcmp(name, "anyOf") == 0)
        return fits_any(document, keyword, value, misfit);
    if (strcmp(name, "allOf") == 0)
        return fits_all(document, keyword, value, misfit);
    if (strcmp(name, "enum") == 0)
        return is_among(keyword, value, misfit);
    if (strcmp(name, "const") == 0)
        return cJSON_Compare(keyword, value, true) || wrong(misfit, value, "not the constant", "");
    if (strcmp(name, "required") == 0)
        return has_members(keyword, value, misfit);
    if (strcmp(name, "items") == 0)
        return fits_items(document, keyword, value, misfit);
    if (strcmp(name, "additionalProperties") == 0 || strcmp(name, "unevaluatedProperties") == 0)
        return fits_members(document, schema, keyword, value, misfit);
    return is_note(name) || fits_bound(keyword, value, misfit);
}

static bool fits(const cJSON *document, const cJSON *schema, const cJSON *value,
                 struct misfit *misfit)
{
    const cJSON *target = schema_follow(document, schema);
    const cJSON *keyword;
    if (target != schema && !fits(document, target, value, misfit))
        return false;
    cJSON_ArrayForEach(keyword, schema) {
        if (!fits_keyword(document, schema, keyword, value, misfit))
            return false;
    }
    return fits_members(document, schema, NULL, value, misfit);
}

bool schema_fits(const cJSON *document, const cJSON *schema, const cJSON *value)
{
    struct misfit misfit;
    return fits(document, schema, value, &misfit);
}

void schema_expect(const cJSON *document, const cJSON *schema, const cJSON *value, const char *what)
{
    struct misfit misfit = { "", "" };
    assert_non_null(schema);
    if (!fits(document, schema, value, &misfit))
        fail_msg("%s does not fit its schema at '%s': %s", what, misfit.place, misfit.reason);
}
