/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c - reads the nodes of steps by the rows of their kind. */
#include "models/tokenizer/pipeline.h"

#include "base/grow.h"
#include "models/tokenizer/unicode.h"

#include <math.h>
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

/* ----------------------------------------------------------------- fields -- */

static bool wrong_type(struct pipeline_build *build, const cJSON *value, const char *where,
                       const char *key, const char *expected)
{
    return pipeline_fail(build, where, "%s is %s; expected %s", key,
                         json_kind(build->document, value), expected);
}

/* Joins names, the first members of count elements of size bytes, to "a, b or c". */
static void join_names(char out[FAULT_MESSAGE_MAX], const void *elements, size_t size, size_t count,
                       const char *last)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < FAULT_MESSAGE_MAX; i++) {
        const char *const *name = (const void *)((const char *)elements + i * size);
        used += (size_t)snprintf(out + used, FAULT_MESSAGE_MAX - used, "%s%s",
                                 i == 0           ? ""
                                 : i + 1 == count ? last
                                                  : ", ",
                                 *name);
    }
}

static bool read_integer(struct pipeline_build *build, const cJSON *value, const char *where,
                         const struct step_field *field, int64_t *integer)
{
    if (!cJSON_IsNumber(value))
        return wrong_type(build, value, where, field->name, "a whole number");
    const double number = value->valuedouble;
    if (!(number >= (double)field->least && number <= (double)field->most)
        || number != (double)(int64_t)number)
        return pipeline_fail(build, where, "%s is %g; expected a whole number from %lld to %lld",
                             field->name, number, (long long)field->least, (long long)field->most);
    *integer = (int64_t)number;
    return true;
}

/* A string of the document, which has no U+0000; NULL: the fault is set. */
static const char *string_of(struct pipeline_build *build, const cJSON *value, const char *where,
                             const char *key)
{
    if (!cJSON_IsString(value))
        wrong_type(build, value, where, key, "a string");
    else if (strstr(value->valuestring, JSON_STRING_NUL))
        pipeline_fail(build, where, "%s has U+0000, which only tokens may have", key);
    else
        return value->valuestring;
    return NULL;
}

static bool copy_string(struct pipeline_build *build, const char *text, struct byte_slice *slice)
{
    char *copy = arena_strdup(build->arena, text);
    *slice = (struct byte_slice){ copy, strlen(text) };
    return copy || fault_no_memory(build->fault);
}

static bool read_string(struct pipeline_build *build, const cJSON *value, const char *where,
                        const struct step_field *field, struct byte_slice *slice)
{
    uint32_t code;
    const char *text = string_of(build, value, where, field->name);
    if (text && field->kind == STEP_CHARACTER && !(*text && text[unicode_decode(text, &code)] == 0))
        return pipeline_fail(build, where, "%s is '%.40s'; expected one character", field->name,
                             text);
    return text && copy_string(build, text, slice);
}

static bool read_choice(struct pipeline_build *build, const cJSON *value, const char *where,
                        const struct step_field *field, int *choice)
{
    const char *name = string_of(build, value, where, field->name);
    size_t count = 0;
    for (; name && field->names[count]; count++)
        if (strcmp(field->names[count], name) == 0) {
            *choice = (int)count;
            return true;
        }
    char known[FAULT_MESSAGE_MAX];
    join_names(known, field->names, sizeof *field->names, count, " or ");
    return name
           && pipeline_fail(build, where, "%s is '%.40s'; expected %s", field->name, name, known);
}

static bool read_pattern(struct pipeline_build *build, const cJSON *value, const char *where,
                         const struct step_field *field, struct step_pattern *pattern)
{
    static const struct step_field FIELDS[] = {
        { STEP_VALUE("String", STEP_STRING), .is_optional = true },
        { .name = "Regex",
          .kind = STEP_STRING,
          .offset = sizeof(struct byte_slice),
          .is_optional = true },
    };
    struct byte_slice texts[2] = { { NULL, 0 } };
    if (!cJSON_IsObject(value))
        return wrong_type(build, value, where, field->name,
                          "{\"String\": ...} or {\"Regex\": ...}");
    if (!pipeline_fields(build, value, where, FIELDS, 2, texts))
        return false;
    if (!texts[0].data == !texts[1].data)
        return pipeline_fail(build, where, "%s has not one of String and Regex", field->name);
    if (texts[0].data && (texts[0].size > 0 || field->kind == STEP_PATTERN)) {
        pattern->literal = texts[0];
        return true;
    }
    const struct byte_slice expression = texts[0].data ? texts[0] : texts[1];
    pattern->regex = pipeline_regex(build, expression.data, expression.size);
    return pattern->regex != NULL;
}

static bool read_token(struct pipeline_build *build, const cJSON *pair, const char *where,
                       const char *key, int32_t *id)
{
    const cJSON *text = cJSON_IsArray(pair) ? pair->child : NULL;
    const cJSON *number = text ? text->next : NULL;
    if (!number || number->next || !cJSON_IsString(text) || !cJSON_IsNumber(number)
        || number->valuedouble < 0 || number->valuedouble > VOCABULARY_ID_MAX
        || number->valuedouble != (double)(int32_t)number->valuedouble)
        return pipeline_fail(build, where, "%s is not a token and its id", key);
    *id = (int32_t)number->valuedouble;
    return true;
}

static bool read_bool(struct pipeline_build *build, const cJSON *value, const char *where,
                      const char *key, bool *flag)
{
    *flag = cJSON_IsTrue(value);
    return cJSON_IsBool(value) || wrong_type(build, value, where, key, "true or false");
}

static bool read_field(struct pipeline_build *build, const cJSON *node, const char *where,
                       const struct step_field *field, void *place)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(node, field->name);
    if (field->kind == STEP_TOKEN)
        return read_token(build, value, where, field->name, place);
    if (!value || cJSON_IsNull(value))
        return field->is_optional || pipeline_fail(build, where, "%s is missing", field->name);
    if (field->kind == STEP_BOOL)
        return read_bool(build, value, where, field->name, place);
    if (field->kind == STEP_INTEGER)
        return read_integer(build, value, where, field, place);
    if (field->kind == STEP_CHOICE)
        return read_choice(build, value, where, field, place);
    if (field->kind == STEP_PATTERN || field->kind == STEP_MATCHER)
        return read_pattern(build, value, where, field, place);
    return read_string(build, value, where, field, place);
}

bool pipeline_fields(struct pipeline_build *build, const cJSON *node, const char *where,
                     const struct step_field *fields, size_t count, void *state)
{
    for (size_t i = 0; i < count; i++)
        if (!read_field(build, node, where, &fields[i], (char *)state + fields[i].offset))
            return false;
    return true;
}

const cJSON *pipeline_array(struct pipeline_build *build, const cJSON *node, const char *where,
                            const char *key)
{
    static const cJSON EMPTY = { .type = cJSON_Array };
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(node, key);
    const struct json_numbers *numbers = json_numbers_of(build->document, value);
    if (!value || cJSON_IsNull(value))
        pipeline_fail(build, where, "%s is missing", key);
    else if (cJSON_IsArray(value) && !numbers)
        return value;
    else if (numbers && numbers->count == 0)
        return &EMPTY;
    else
        wrong_type(build, value, where, key, "an array of objects");
    return NULL;
}

/* ------------------------------------------------------------------ types -- */

static bool read_steps(struct pipeline_build *build, const cJSON *node, const char *where,
                       const char *key, const struct step_kind *kind, struct step_list *list)
{
    const cJSON *nodes = pipeline_array(build, node, where, key), *child;
    if (!nodes)
        return false;
    list->steps = pipeline_alloc(build, (size_t)cJSON_GetArraySize(nodes), sizeof *list->steps);
    if (!list->steps)
        return false;
    cJSON_ArrayForEach(child, nodes) {
        if (!pipeline_step(build, child, kind, NULL, &list->steps[list->count++]))
            return false;
    }
    return true;
}

static bool make_step(struct pipeline_build *build, const cJSON *node, const struct step_kind *kind,
                      struct step *step)
{
    const struct step_type *type = step->type;
    char where[64];
    snprintf(where, sizeof where, "%s %s", kind->name, type->name);
    char *state = type->state_size > 0 ? pipeline_alloc(build, 1, type->state_size) : NULL;
    if (type->state_size > 0 && !state)
        return false;
    if (state && type->defaults)
        memcpy(state, type->defaults, type->state_size);
    step->state = state;
    if (state && type->field_count == 1 && type->fields->kind == STEP_STEPS)
        return read_steps(build, node, where, type->fields->name, kind, (void *)state);
    return pipeline_fields(build, node, where, type->fields, type->field_count, state)
           && (!type->finish || type->finish(build, node, where, state));
}

bool pipeline_step(struct pipeline_build *build, const cJSON *node, const struct step_kind *kind,
                   const char *type, struct step *step)
{
    if (!cJSON_IsObject(node))
        return pipeline_fail(build, kind->name, "is %s; expected an object",
                             json_kind(build->document, node));
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(node, "type");
    if (value && !cJSON_IsNull(value))
        type = string_of(build, value, kind->name, "type");
    else if (!type)
        pipeline_fail(build, kind->name, "type is missing");
    if (!type)
        return false;
    for (size_t i = 0; i < kind->type_count; i++) {
        const struct step_type *row = &kind->types[i];
        if (strcmp(row->name, type) != 0)
            continue;
        step->type = row;
        return row->read ? row->read(build, node, step) : make_step(build, node, kind, step);
    }
    char known[FAULT_MESSAGE_MAX];
    join_names(known, kind->types, sizeof *kind->types, kind->type_count, ", ");
    return fault_set(build->fault, FAULT_OPTION, "%s: %s type '%.60s' is not known here; known: %s",
                     build->file, kind->name, type, known);
}

bool pipeline_run(const struct step *step, struct pieces *pieces, struct fault *fault)
{
    const struct step_type *type = step->type;
    if (type->rewrite)
        return pieces_rewrite(pieces, type->changes, type->rewrite, step->state, fault);
    return type->split ? pieces_split(pieces, type->changes, type->split, step->state, fault)
                       : type->pieces(step->state, pieces, fault);
}

/* ------------------------------------------------------------- vocabulary -- */

bool pipeline_add_token(struct pipeline_build *build, const char *where, struct byte_slice text,
                        int64_t id)
{
    struct fault fault;
    if (vocabulary_add(build->vocabulary, text.data, text.size, id, &fault))
        return true;
    if (fault.code == FAULT_MEMORY)
        return fault_no_memory(build->fault);
    return pipeline_fail(build, where, "%s", fault.message);
}

bool pipeline_vocabulary(struct pipeline_build *build, const cJSON *node, const char *where)
{
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(node, "vocab");
    if (build->lists) {
        *build->vocabulary = *build->lists->vocabulary;
        *build->lists->vocabulary = (struct vocabulary){ 0 };
        return true;
    }
    if (!cJSON_IsObject(tokens))
        return pipeline_fail(build, where, "vocab is %s; expected an object of tokens and ids",
                             json_kind(build->document, tokens));
    const cJSON *token;
    cJSON_ArrayForEach(token, tokens) {
        struct byte_slice text;
        if (!json_string_read(token->string, build->arena, &text))
            return fault_no_memory(build->fault);
        const double id = token->valuedouble;
        if (!cJSON_IsNumber(token) || !(fabs(id) < 0x1p53) || id != (double)(int64_t)id)
            return pipeline_fail(build, where, "vocab.%s is %s; expected an id", token->string,
                                 json_kind(build->document, token));
        if (!pipeline_add_token(build, where, text, (int64_t)id))
            return false;
    }
    return true;
}

void pipeline_byte_tokens(const struct pipeline_build *build, int32_t ids[256])
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        const int size = snprintf(text, sizeof text, "<0x%02X>", byte);
        ids[byte] = vocabulary_find(build->vocabulary, text, (size_t)size);
    }
}
