/* SPDX-License-Identifier: Apache-2.0 */
/* field_values.c - fields of a single value: flags, numbers, strings and names of a list. */
#include "fields/field.h"

#include "json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool value_is_list(const struct value *value, const struct message **list)
{
    static const struct message NONE;
    const bool is_empty =
        value->kind == VALUE_NUMBERS && value->numbers->rank == 1 && value->numbers->count == 0;
    *list = value->kind == VALUE_LIST ? &value->inner : &NONE;
    return is_empty || value->kind == VALUE_LIST;
}

const struct value *message_find(const struct message *message, const char *name)
{
    for (int64_t i = 0; name && i < message->count; i++)
        if (strcmp(message->values[i].name, name) == 0)
            return &message->values[i];
    return NULL;
}

const struct value *message_member(const struct message *message, const char *name)
{
    const struct value *value = message_find(message, name);
    return value && value->kind != VALUE_NULL ? value : NULL;
}

const char *value_words(const struct value *value)
{
    static const char *const WORDS[] = {
        [VALUE_NULL] = "null",
        [VALUE_BOOL] = "a boolean",
        [VALUE_NUMBER] = "a number",
        [VALUE_STRING] = "a string",
        [VALUE_NUMBERS] = "an array of numbers",
        [VALUE_LIST] = "an array",
        [VALUE_OBJECT] = "an object",
        [VALUE_TENSOR] = "a tensor",
    };
    return WORDS[value->kind];
}

bool field_wrong_type(struct field_reader *reader, const struct value *value, const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%s is %s; expected %s",
                        reader->name, value_words(value), expected);
}

static bool read_bool(struct field_reader *reader, const struct value *value, bool *into)
{
    if (reader->is_flat && value->kind == VALUE_NUMBER
        && (value->number == 0 || value->number == 1)) {
        *into = value->number != 0;
        return true;
    }
    if (value->kind != VALUE_BOOL)
        return field_wrong_type(reader, value, "true or false");
    *into = value->flag;
    return true;
}

static bool read_integer(struct field_reader *reader, const struct value *value, int64_t *into)
{
    const struct field *field = reader->field;
    const double number = value->number;
    if (value->kind != VALUE_NUMBER)
        return field_wrong_type(reader, value, "an integer");
    if ((field->flags & FIELD_SATURATES) && number > FIELD_INTEGER_MAX) {
        *into = INT64_MAX;
        return true;
    }
    if (!(number >= (double)field->least && number <= FIELD_INTEGER_MAX) || number != floor(number))
        return fault_set_at(reader->fault, reader->pointer, field->code,
                            "%s is %.17g; expected an integer of %" PRId64 " or more%s",
                            reader->name, number, field->least,
                            number > FIELD_INTEGER_MAX ? ", and at most 2^53" : "");
    if (field->most && number > (double)field->most)
        return fault_set_at(reader->fault, reader->pointer, field->code,
                            "%s is %" PRId64 "; expected at most %" PRId64, reader->name,
                            (int64_t)number, field->most);
    *into = (int64_t)number;
    return true;
}

static bool read_number(struct field_reader *reader, const struct value *value, double *into)
{
    if (value->kind != VALUE_NUMBER)
        return field_wrong_type(reader, value, "a number");
    *into = value->number;
    return isfinite((float)*into)
           || fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                           "%s is beyond the range of a 32-bit float", reader->name);
}

static bool read_float(struct field_reader *reader, const struct value *value, float *into)
{
    double number = 0;
    if (!read_number(reader, value, &number))
        return false;
    *into = (float)number;
    return true;
}

bool field_read_bytes(struct field_reader *reader, const struct value *value,
                      struct byte_slice *into)
{
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value, "a string");
    return json_string_read(value->string, reader->arena, into) || fault_no_memory(reader->fault);
}

static bool read_string(struct field_reader *reader, const struct value *value, const char **into)
{
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value,
                                reader->field->expected ? reader->field->expected : "a string");
    *into = value->string;
    return true;
}

bool field_read_strings(struct field_reader *reader, const struct value *value,
                        const char *const **list, int64_t *count)
{
    const struct message *strings;
    if (!value_is_list(value, &strings))
        return field_wrong_type(reader, value, "an array of strings");
    const char **names = arena_calloc(reader->arena, (size_t)strings->count, sizeof *names);
    if (!names)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < strings->count; i++) {
        if (strings->values[i].kind != VALUE_STRING)
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "%s holds %s; expected strings", reader->name,
                                value_words(&strings->values[i]));
        names[i] = strings->values[i].string;
    }
    *list = names;
    *count = strings->count;
    return true;
}

/* ------------------------------------------------------------------ names -- */

/* The index of a name; -1: there is none. */
static int name_index(const struct field *field, const char *name)
{
    int i = field->name_count - 1;
    while (i >= 0 && strcmp(field->names[i], name) != 0)
        i--;
    return i;
}

/* "a, b or c", with what stands before the last one. */
static const char *list_names(const struct field *field, const char *last, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < field->name_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0                      ? ""
                                 : i < field->name_count - 1 ? ", "
                                                             : last,
                                 field->names[i]);
    return text;
}

static bool read_enum(struct field_reader *reader, const struct value *value, int *into)
{
    const struct field *field = reader->field;
    char names[FAULT_MESSAGE_MAX / 2];
    const int index = value->kind == VALUE_STRING ? name_index(field, value->string) : -1;
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value,
                                field->expected ? field->expected
                                                : list_names(field, " or ", names, sizeof names));
    if (index < 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "there is no %s '%.60s'; expected %s", field->name, value->string,
                            list_names(field, " or ", names, sizeof names));
    *into = index;
    return true;
}

static bool read_enum_set(struct field_reader *reader, const struct value *value, bool *into)
{
    const struct field *field = reader->field;
    const struct message *list;
    char names[FAULT_MESSAGE_MAX / 2];
    memset(into, 0, (size_t)field->name_count * sizeof *into);
    if (!value_is_list(value, &list))
        return field_wrong_type(reader, value, "an array of names");
    for (int64_t i = 0; i < list->count; i++) {
        const struct value *name = &list->values[i];
        if (name->kind != VALUE_STRING)
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "%s holds %s; expected names", reader->name, value_words(name));
        const int index = name_index(field, name->string);
        if (index < 0)
            return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                                "there is no output '%.60s'; expected any of %s", name->string,
                                list_names(field, ", ", names, sizeof names));
        into[index] = true;
    }
    return true;
}

bool field_read_single(struct field_reader *reader, const struct value *value, void *place)
{
    switch (reader->field->kind) {
    case FIELD_BOOL:
        return read_bool(reader, value, place);
    case FIELD_INTEGER:
        return read_integer(reader, value, place);
    case FIELD_NUMBER:
        return read_number(reader, value, place);
    case FIELD_FLOAT:
        return read_float(reader, value, place);
    case FIELD_STRING:
        return read_string(reader, value, place);
    case FIELD_BYTES:
        return field_read_bytes(reader, value, place);
    case FIELD_ENUM:
        return read_enum(reader, value, place);
    default:
        return read_enum_set(reader, value, place);
    }
}
