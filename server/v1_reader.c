/* v1_reader.c - see v1_reader.h. */
#include "v1_reader.h"

#include "nearest.h"

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

bool v1_read_bool(struct v1_reader *reader, const cJSON *node, bool *value)
{
    if (!cJSON_IsBool(node))
        return v1_wrong_type(reader, node, "true or false");
    *value = cJSON_IsTrue(node);
    return true;
}

/* --------------------------------------------------------------- arrays -- */

static bool ragged(struct v1_reader *reader, const struct json_numbers *numbers)
{
    char pointer[FAULT_POINTER_MAX];
    char row[FAULT_POINTER_MAX];
    size_t pointer_used = (size_t)snprintf(pointer, sizeof pointer, "%s", reader->pointer);
    size_t row_used = 0;
    row[0] = '\0';
    for (int i = 0; i < numbers->ragged_depth; i++) {
        const int64_t index = numbers->ragged_index[i];
        if (pointer_used < sizeof pointer)
            pointer_used += (size_t)snprintf(pointer + pointer_used, sizeof pointer - pointer_used,
                                             "/%" PRId64, index);
        if (row_used < sizeof row)
            row_used +=
                (size_t)snprintf(row + row_used, sizeof row - row_used, "[%" PRId64 "]", index);
    }
    return fault_set_at(reader->fault, pointer, FAULT_RAGGED, "%s%s %s", reader->name, row,
                        numbers->ragged_message);
}

const struct json_numbers *v1_find_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected)
{
    const struct json_numbers *numbers = json_numbers_of(reader->document, node);
    if (!numbers) {
        v1_wrong_type(reader, node, expected);
        return NULL;
    }
    if (numbers->ragged_depth > 0) {
        ragged(reader, numbers);
        return NULL;
    }
    return numbers;
}

bool v1_expect_finite(struct v1_reader *reader, int64_t nonfinite_index, const char *type)
{
    if (nonfinite_index < 0 || reader->request->nonfinite_allowed)
        return true;
    return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                        "%s holds a number beyond the range of %s, at element %" PRId64,
                        reader->name, type, nonfinite_index);
}

const struct json_numbers *v1_read_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected)
{
    const struct json_numbers *numbers = v1_find_numbers(reader, node, expected);
    if (numbers && !v1_expect_finite(reader, numbers->nonfinite_index, "a 32-bit float"))
        return NULL;
    return numbers;
}

void v1_take_array(struct infer_array *array, const struct json_numbers *numbers)
{
    static const float none;
    array->data = numbers->count > 0 ? numbers->values : &none;
    array->dtype = ATTN_F32;
    array->rank = numbers->rank;
    memcpy(array->shape, numbers->shape, sizeof array->shape);
}

bool v1_read_array(struct v1_reader *reader, const cJSON *node, bool null_allowed,
                   struct infer_array *array)
{
    const struct json_numbers *numbers = v1_read_numbers(reader, node, "an array of numbers");
    if (!numbers)
        return false;
    if (numbers->has_bool || (numbers->has_null && !null_allowed))
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s holds %s; expected numbers", reader->name,
                            numbers->has_bool ? "a boolean" : "null");
    v1_take_array(array, numbers);
    return true;
}

bool v1_integers_of(struct v1_reader *reader, const struct json_numbers *numbers,
                    enum fault_code code, int64_t **values)
{
    const float exact_max = 16777216.0f; /* the integers that a float32 holds exactly */
    *values = arena_calloc(&reader->request->arena, (size_t)numbers->count, sizeof **values);
    if (!*values)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < numbers->count; i++) {
        const float number = numbers->values[i];
        if (!(number >= 0 && number <= exact_max) || number != floorf(number))
            return fault_set_at(reader->fault, reader->pointer, code,
                                "%s[%" PRId64 "] is %.9g; expected an integer from 0 to %.0f",
                                reader->name, i, (double)number, (double)exact_max);
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

/* The pointer is "/name", its / and ~ escaped as RFC 6901 says. */
void v1_turn_to(struct v1_reader *reader, const char *name)
{
    size_t used = 0;
    reader->name = name;
    reader->pointer[used++] = '/';
    for (; *name && used + 3 < sizeof reader->pointer; name++) {
        if (*name == '~' || *name == '/') {
            reader->pointer[used++] = '~';
            reader->pointer[used++] = *name == '~' ? '0' : '1';
        } else {
            reader->pointer[used++] = *name;
        }
    }
    reader->pointer[used] = '\0';
}
