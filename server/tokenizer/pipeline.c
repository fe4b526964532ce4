/* pipeline.c - see pipeline.h. */
#include "tokenizer/pipeline.h"

#include "base/grow.h"
#include "tokenizer/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------- model output -- */

void model_output_add(struct model_output *output, int32_t id, uint32_t start, uint32_t end)
{
    if (output->failed)
        return;
    if (output->count == output->capacity) {
        const int64_t capacity = output->capacity > 0 ? 2 * output->capacity : 1024;
        struct model_token *tokens = arena_alloc(output->arena, (size_t)capacity * sizeof *tokens);
        if (!tokens) {
            output->failed = true;
            return;
        }
        if (output->count > 0)
            memcpy(tokens, output->tokens, (size_t)output->count * sizeof *tokens);
        output->tokens = tokens;
        output->capacity = capacity;
    }
    output->tokens[output->count++] = (struct model_token){ id, start, end };
}

void *model_output_scratch(struct model_output *output, size_t size)
{
    if (size > output->scratch_size || !output->scratch) {
        const size_t larger = size > SIZE_MAX / 2 ? size : 2 * size;
        void *scratch = arena_alloc(output->arena, larger);
        if (!scratch) {
            output->failed = true;
            return NULL;
        }
        output->scratch = scratch;
        output->scratch_size = larger;
    }
    return output->scratch;
}

/* --------------------------------------------------------------- building -- */

bool pipeline_fail(struct pipeline_build *build, const char *where, const char *format, ...)
{
    char message[FAULT_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fault_set(build->fault, FAULT_OPTION, "%s: %s: %s", build->file, where, message);
}

const struct regex *pipeline_regex(struct pipeline_build *build, const char *pattern, size_t size)
{
    struct regex **regexes = array_with_room(build->regexes, build->regex_count,
                                             &build->regex_capacity, sizeof(struct regex *));
    if (!regexes) {
        fault_no_memory(build->fault);
        return NULL;
    }
    build->regexes = regexes;
    struct regex *regex = NULL;
    if (!regex_create(&regex, pattern, size, build->fault))
        return NULL;
    build->regexes[build->regex_count++] = regex;
    return regex;
}

void *pipeline_alloc(struct pipeline_build *build, size_t count, size_t size)
{
    void *memory = arena_calloc(build->arena, count, size);
    if (!memory)
        fault_no_memory(build->fault);
    return memory;
}

char *pipeline_strdup(struct pipeline_build *build, const char *text)
{
    char *copy = arena_strdup(build->arena, text);
    if (!copy)
        fault_no_memory(build->fault);
    return copy;
}

/* ----------------------------------------------------------------- fields -- */

/* Finds a field. False where it is required and missing; *field is NULL where it is absent or
 * null. */
static bool find(struct pipeline_build *build, const cJSON *node, const char *where,
                 const char *key, bool required, const cJSON **field)
{
    *field = cJSON_GetObjectItemCaseSensitive(node, key);
    if (cJSON_IsNull(*field))
        *field = NULL;
    return *field || !required || pipeline_fail(build, where, "%s is missing", key);
}

static bool wrong_type(struct pipeline_build *build, const cJSON *field, const char *where,
                       const char *key, const char *expected)
{
    return pipeline_fail(build, where, "%s is %s; expected %s", key,
                         json_kind(build->document, field), expected);
}

bool pipeline_bool(struct pipeline_build *build, const cJSON *node, const char *where,
                   const char *key, bool required, bool *value)
{
    const cJSON *field;
    if (!find(build, node, where, key, required, &field))
        return false;
    if (!field)
        return true;
    if (!cJSON_IsBool(field))
        return wrong_type(build, field, where, key, "true or false");
    *value = cJSON_IsTrue(field);
    return true;
}

bool pipeline_string(struct pipeline_build *build, const cJSON *node, const char *where,
                     const char *key, bool required, const char **value)
{
    const cJSON *field;
    if (!find(build, node, where, key, required, &field))
        return false;
    if (!field)
        return true;
    if (!cJSON_IsString(field))
        return wrong_type(build, field, where, key, "a string");
    if (strstr(field->valuestring, JSON_STRING_NUL))
        return pipeline_fail(build, where, "%s has U+0000, which only tokens may have", key);
    *value = field->valuestring;
    return true;
}

bool pipeline_character(struct pipeline_build *build, const cJSON *node, const char *where,
                        const char *key, uint32_t *code)
{
    const char *text = "";
    if (!pipeline_string(build, node, where, key, true, &text))
        return false;
    if (*text && text[unicode_decode(text, code)] == 0)
        return true;
    return pipeline_fail(build, where, "%s is '%.40s'; expected one character", key, text);
}

bool pipeline_integer(struct pipeline_build *build, const cJSON *node, const char *where,
                      const char *key, bool required, int64_t min, int64_t max, int64_t *value)
{
    const cJSON *field;
    if (!find(build, node, where, key, required, &field))
        return false;
    if (!field)
        return true;
    if (!cJSON_IsNumber(field))
        return wrong_type(build, field, where, key, "a whole number");
    const double number = field->valuedouble;
    if (!(number >= (double)min && number <= (double)max) || number != (double)(int64_t)number)
        return pipeline_fail(build, where, "%s is %g; expected a whole number from %lld to %lld",
                             key, number, (long long)min, (long long)max);
    *value = (int64_t)number;
    return true;
}

const cJSON *pipeline_array(struct pipeline_build *build, const cJSON *node, const char *where,
                            const char *key)
{
    const cJSON *field;
    if (!find(build, node, where, key, true, &field))
        return NULL;
    if (cJSON_IsArray(field) && !json_numbers_of(build->document, field))
        return field;
    const struct json_numbers *numbers = json_numbers_of(build->document, field);
    if (!numbers || numbers->count > 0) {
        wrong_type(build, field, where, key, "an array of objects");
        return NULL;
    }
    static const cJSON EMPTY = { .type = cJSON_Array };
    return &EMPTY;
}

bool pipeline_pattern(struct pipeline_build *build, const cJSON *node, const char *where,
                      const char *key, const char **literal, const struct regex **regex)
{
    *literal = NULL;
    *regex = NULL;
    const cJSON *field;
    if (!find(build, node, where, key, true, &field))
        return false;
    const char *text = NULL, *pattern = NULL;
    if (!cJSON_IsObject(field))
        return wrong_type(build, field, where, key, "{\"String\": ...} or {\"Regex\": ...}");
    if (!pipeline_string(build, field, where, "String", false, &text)
        || !pipeline_string(build, field, where, "Regex", false, &pattern))
        return false;
    if (!text == !pattern)
        return pipeline_fail(build, where, "%s has not one of String and Regex", key);
    if (text)
        return (*literal = pipeline_strdup(build, text)) != NULL;
    *regex = pipeline_regex(build, pattern, strlen(pattern));
    return *regex != NULL;
}

/* ------------------------------------------------------------------ types -- */

static void name_types(char *out, size_t size, const struct pipeline_type *types, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", types[i].name);
}

bool pipeline_read(struct pipeline_build *build, const cJSON *node, const char *kind,
                   const char *name, const struct pipeline_type *types, size_t type_count,
                   void *step)
{
    if (!cJSON_IsObject(node))
        return pipeline_fail(build, kind, "is %s; expected an object",
                             json_kind(build->document, node));
    const char *type = name ? name : "";
    if (!pipeline_string(build, node, kind, "type", name == NULL, &type))
        return false;
    for (size_t i = 0; i < type_count; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].read(build, node, step);
    char known[FAULT_MESSAGE_MAX];
    name_types(known, sizeof known, types, type_count);
    return fault_set(build->fault, FAULT_OPTION, "%s: %s type '%.60s' is not known here; known: %s",
                     build->file, kind, type, known);
}
