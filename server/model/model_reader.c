/* model_reader.c - see model_reader.h. */
#include "model/model_reader.h"

#include "base/names.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ----------------------------------------------------------- single values -- */

bool model_reader_wrong_type(struct model_reader *reader, const cJSON *node, const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%s is %s; expected %s",
                        reader->name, json_kind(NULL, node), expected);
}

bool model_reader_integer(struct model_reader *reader, const cJSON *node, int64_t least,
                          int64_t most, int64_t *value)
{
    if (!cJSON_IsNumber(node))
        return model_reader_wrong_type(reader, node, "an integer");
    const double number = node->valuedouble;
    if (!(number >= (double)least && number <= (double)most) || number != floor(number))
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %.17g; expected an integer from %" PRId64 " to %" PRId64,
                            reader->name, number, least, most);
    *value = (int64_t)number;
    return true;
}

bool model_reader_number(struct model_reader *reader, const cJSON *node, double *value)
{
    if (!cJSON_IsNumber(node))
        return model_reader_wrong_type(reader, node, "a number");
    *value = node->valuedouble;
    if (!isfinite(*value))
        return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                            "%s is beyond the range of a 64-bit float", reader->name);
    return true;
}

bool model_reader_float(struct model_reader *reader, const cJSON *node, float *value)
{
    if (!cJSON_IsNumber(node))
        return model_reader_wrong_type(reader, node, "a number");
    *value = (float)node->valuedouble;
    if (!isfinite(*value))
        return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                            "%s is beyond the range of a 32-bit float", reader->name);
    return true;
}

bool model_reader_bool(struct model_reader *reader, const cJSON *node, bool *value)
{
    if (!cJSON_IsBool(node))
        return model_reader_wrong_type(reader, node, "true or false");
    *value = cJSON_IsTrue(node);
    return true;
}

/* --------------------------------------------------------------- objects -- */

void model_reader_point_to(struct model_reader *reader, const char *name)
{
    reader->name = name;
    fault_pointer_append(reader->pointer, strlen(reader->pointer), name);
}

bool model_reader_unknown(struct model_reader *reader, const char *what, const char *nearest)
{
    if (nearest)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "%s has no field '%.60s'; did you mean '%s'?", what, reader->name,
                            nearest);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s has no field '%.60s'",
                        what, reader->name);
}

bool model_reader_object(struct model_reader *reader, const cJSON *object, const char *what,
                         const struct model_reader_field *fields, int field_count)
{
    const size_t pointer_length = strlen(reader->pointer);
    const char *names[MODEL_READER_FIELDS_MAX];
    assert(field_count <= MODEL_READER_FIELDS_MAX);
    for (int i = 0; i < field_count; i++)
        names[i] = fields[i].name;
    for (const cJSON *node = object->child; node; node = node->next) {
        int i = 0;
        while (i < field_count && strcmp(node->string, names[i]) != 0)
            i++;
        model_reader_point_to(reader, node->string);
        if (i == field_count)
            return model_reader_unknown(reader, what,
                                        nearest_name(node->string, names, field_count));
        if (!fields[i].read(reader, node))
            return false;
        reader->pointer[pointer_length] = '\0';
    }
    return true;
}
