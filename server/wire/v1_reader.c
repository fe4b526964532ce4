/* v1_reader.c - see v1_reader.h. */
#include "wire/v1_reader.h"

#include "base/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------- single values -- */

bool v1_wrong_type(struct v1_reader *reader, const cJSON *node, const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%s is %s; expected %s",
                        reader->name, json_kind(reader->document, node), expected);
}

bool v1_read_integer(struct v1_reader *reader, const cJSON *node, int64_t least,
                     enum fault_code code, int64_t *value)
{
    if (!cJSON_IsNumber(node))
        return v1_wrong_type(reader, node, "an integer");
    const double number = node->valuedouble;
    if (!(number >= (double)least && number <= V1_INTEGER_MAX) || number != floor(number))
        return fault_set_at(reader->fault, reader->pointer, code,
                            "%s is %.17g; expected an integer of %" PRId64 " or more%s",
                            reader->name, number, least,
                            number > V1_INTEGER_MAX ? ", and at most 2^53" : "");
    *value = (int64_t)number;
    return true;
}

bool v1_read_number(struct v1_reader *reader, const cJSON *node, double *value)
{
    if (!cJSON_IsNumber(node))
        return v1_wrong_type(reader, node, "a number");
    *value = node->valuedouble;
    if (!isfinite((float)*value))
        return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                            "%s is beyond the range of a 32-bit float", reader->name);
    return true;
}

bool v1_read_float(struct v1_reader *reader, const cJSON *node, float *value)
{
    double number = 0;
    if (!v1_read_number(reader, node, &number))
        return false;
    *value = (float)number;
    return true;
}

bool v1_read_string(struct v1_reader *reader, const cJSON *node, struct byte_slice *bytes)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a string");
    return json_string_read(node->valuestring, reader->arena, bytes)
           || fault_no_memory(reader->fault);
}

static bool check_objects(const struct v1_reader *reader, const cJSON *requests, const char *name)
{
    const cJSON *node;
    int64_t i = 0;
    cJSON_ArrayForEach(node, requests)
    {
        char pointer[FAULT_POINTER_MAX];
        snprintf(pointer, sizeof pointer, "%.64s/%" PRId64, reader->pointer, i);
        if (!cJSON_IsObject(node))
            return fault_set_at(reader->fault, pointer, FAULT_TYPE,
                                "%s[%" PRId64 "] is %s; expected an object", name, i,
                                json_kind(reader->document, node));
        i++;
    }
    return true;
}

bool v1_find_requests(struct v1_reader *reader, const cJSON *root, const char *name, int items_max,
                      const cJSON **requests, int *count)
{
    *requests = cJSON_GetObjectItemCaseSensitive(root, name);
    v1_point_to(reader, name);
    if (!*requests)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s is missing", name);
    *count = cJSON_IsArray(*requests) ? cJSON_GetArraySize(*requests) : 0;
    if (!cJSON_IsArray(*requests) || (*count && json_numbers_of(reader->document, *requests)))
        return v1_wrong_type(reader, *requests, "an array of requests");
    if (*count > items_max)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TOO_LARGE,
                            "%s has %d items; at most %d are taken, send several batches", name,
                            *count, items_max);
    return check_objects(reader, *requests, name);
}

bool v1_read_bool(struct v1_reader *reader, const cJSON *node, bool *value)
{
    if (!cJSON_IsBool(node))
        return v1_wrong_type(reader, node, "true or false");
    *value = cJSON_IsTrue(node);
    return true;
}

/* --------------------------------------------------------------- arrays -- */

struct json_place v1_place(const struct v1_reader *reader)
{
    return (struct json_place){ reader->document, reader->pointer, reader->name, reader->fault };
}

const struct json_numbers *v1_find_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected)
{
    const struct json_place place = v1_place(reader);
    return json_element_array(&place, node, expected, reader->takes_deep);
}

bool v1_expect_finite(struct v1_reader *reader, const struct json_numbers *numbers,
                      int64_t nonfinite_index, const char *type)
{
    const struct json_place place = v1_place(reader);
    return reader->nonfinite_allowed
           || json_element_expect_finite(&place, numbers, nonfinite_index, type);
}

bool v1_expect_numbers(struct v1_reader *reader, const struct json_numbers *numbers,
                       bool null_allowed)
{
    const struct json_place place = v1_place(reader);
    return json_element_expect_numbers(&place, numbers, null_allowed);
}

const struct json_numbers *v1_read_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected)
{
    const struct json_numbers *numbers = v1_find_numbers(reader, node, expected);
    if (numbers && !v1_expect_finite(reader, numbers, numbers->nonfinite_index, "a 32-bit float"))
        return NULL;
    return numbers;
}

void v1_take_array(struct array *array, const struct json_numbers *numbers)
{
    static const float none;
    array->data = numbers->count > 0 ? numbers->values : &none;
    array->dtype = ATTN_F32;
    array->rank = numbers->rank;
    memcpy(array->shape, numbers->shape, sizeof array->shape);
}

bool v1_read_array(struct v1_reader *reader, const cJSON *node, bool null_allowed,
                   struct array *array)
{
    const struct json_numbers *numbers = v1_read_numbers(reader, node, "an array of numbers");
    if (!numbers || !v1_expect_numbers(reader, numbers, null_allowed))
        return false;
    v1_take_array(array, numbers);
    return true;
}

bool v1_integers_of(struct v1_reader *reader, const struct json_numbers *numbers,
                    enum fault_code code, int64_t **values)
{
    return v1_integers_from(reader, numbers, false, code, values);
}

bool v1_integers_from(struct v1_reader *reader, const struct json_numbers *numbers,
                      bool negative_allowed, enum fault_code code, int64_t **values)
{
    const float exact_max = 16777216.0f; /* the integers that a float32 holds exactly */
    const float least = negative_allowed ? -exact_max : 0;
    *values = arena_calloc(reader->arena, (size_t)numbers->count, sizeof **values);
    if (!*values)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < numbers->count; i++) {
        const float number = numbers->values[i];
        if (!(number >= least && number <= exact_max) || number != floorf(number)) {
            const struct json_place place = v1_place(reader);
            const struct json_element element = json_element_at(numbers, i);
            return json_element_fault(&place, &element, code,
                                      "is %.9g; expected an integer from %.0f to %.0f",
                                      (double)number, (double)least, (double)exact_max);
        }
        (*values)[i] = (int64_t)number;
    }
    return true;
}

/* ---------------------------------------------------------- names -- */

bool v1_unknown_field(struct v1_reader *reader, const char *name, const char *const *known,
                      int known_count)
{
    const char *nearest = nearest_name(name, known, known_count);
    if (nearest)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "there is no field '%.60s'; did you mean '%s'?", name, nearest);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "there is no field '%.60s'",
                        name);
}

bool v1_model_of_session(const struct v1_reader *reader)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                        "model is not a field here; a session is of the model that it was made "
                        "for");
}

bool v1_unknown_field_of(struct v1_reader *reader, const char *name, const char *const *known,
                         int known_count)
{
    char list[FAULT_MESSAGE_MAX] = "";
    size_t used = 0;
    if (nearest_name(name, known, known_count))
        return v1_unknown_field(reader, name, known, known_count);
    for (int i = 0; i < known_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", known[i]);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                        "there is no field '%.60s'; expected any of %s", name, list);
}

const struct v1_field *v1_find_field(const struct v1_field *fields, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

bool v1_read_fields(struct v1_reader *reader, const cJSON *object, const struct v1_field *fields,
                    int count)
{
    const char *known[V1_MORE_MAX];
    const cJSON *node;
    for (int i = 0; i < count; i++)
        known[i] = fields[i].name;
    cJSON_ArrayForEach(node, object)
    {
        const struct v1_field *field = v1_find_field(fields, count, node->string);
        v1_point_to(reader, node->string);
        if (!field)
            return v1_unknown_field_of(reader, node->string, known, count);
        if (!cJSON_IsNull(node) && !field->read(reader, node))
            return false;
    }
    return true;
}

void v1_point_to(struct v1_reader *reader, const char *name)
{
    reader->name = name;
    fault_pointer_append(reader->pointer, 0, name);
}
