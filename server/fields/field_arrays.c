/* SPDX-License-Identifier: Apache-2.0 */
/* field_arrays.c - fields of arrays, which come as numbers in text or as the bytes of tensors.
 *
 * The reader of the text has made numbers floats: the array is a view of them. Bytes are viewed
 * where they lie if they are aligned there, else copied to the arena. */
#include "fields/field.h"

#include "base/dtype.h"
#include "json/json_element.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSION_MAX = INT32_MAX };

/* ---------------------------------------------------------- numbers in text -- */

static struct json_place place_of(struct field_reader *reader)
{
    return (struct json_place){ reader->pointer, reader->name, reader->fault };
}

/* Finds the first string or object in a list, depth first. */
static const struct value *find_stray(const struct message *list, struct json_element *element)
{
    const int depth = element->depth++;
    for (int64_t i = 0; i < list->count; i++) {
        const struct value *value = &list->values[i];
        element->index[depth] = i;
        if (value->kind == VALUE_STRING || value->kind == VALUE_OBJECT)
            return value;
        const struct value *stray =
            value->kind == VALUE_LIST ? find_stray(&value->inner, element) : NULL;
        if (stray)
            return stray;
    }
    element->depth--;
    return NULL;
}

static bool refuse_other(struct field_reader *reader, const struct value *value,
                         const char *expected)
{
    const struct json_place place = place_of(reader);
    struct json_element element = { .depth = 0 };
    const struct value *stray =
        value->kind == VALUE_LIST ? find_stray(&value->inner, &element) : NULL;
    if (!stray)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%.60s is %s; expected %s",
                            reader->name, value_words(value), expected);
    return json_element_fault(&place, &element, FAULT_TYPE, "is %s; %.60s takes %s",
                              value_words(stray), reader->name, expected);
}

struct json_numbers *field_find_rows(struct field_reader *reader, const struct value *value,
                                     const char *expected, bool may_be_deep)
{
    const struct json_place place = place_of(reader);
    if (value->kind != VALUE_NUMBERS) {
        refuse_other(reader, value, expected);
        return NULL;
    }
    const bool fits = (may_be_deep && value->numbers->ragged_depth == 0)
                      || json_element_expect_rows(&place, value->numbers);
    return fits ? value->numbers : NULL;
}

struct json_numbers *field_find_numbers(struct field_reader *reader, const struct value *value,
                                        const char *expected)
{
    const struct json_place place = place_of(reader);
    struct json_numbers *numbers = field_find_rows(reader, value, expected, false);
    const bool fits = numbers
                      && (reader->nonfinite_allowed
                          || json_element_expect_finite(&place, numbers, numbers->nonfinite_index,
                                                        "a 32-bit float"));
    return fits ? numbers : NULL;
}

bool field_expect_numbers(struct field_reader *reader, const struct json_numbers *numbers,
                          bool null_allowed)
{
    const struct json_place place = place_of(reader);
    return json_element_expect_numbers(&place, numbers, null_allowed);
}

static void view_numbers(struct array *array, const struct json_numbers *numbers)
{
    static const float NONE;
    *array = (struct array){ .data = numbers->count > 0 ? numbers->values : &NONE,
                             .dtype = ATTN_F32,
                             .rank = numbers->rank };
    memcpy(array->shape, numbers->shape, sizeof array->shape);
}

/* ----------------------------------------------------------------- tensors -- */

static bool wrong_dtype(struct field_reader *reader, const struct tensor *tensor,
                        const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_DTYPE, "%s is %s; expected %s",
                        reader->name, tensor->dtype, expected);
}

static bool read_shape(struct field_reader *reader, const struct tensor *tensor,
                       struct array *array)
{
    if (tensor->rank > ARRAY_RANK_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " dimensions; expected at most %d", reader->name,
                            tensor->rank, ARRAY_RANK_MAX);
    array->rank = (int)tensor->rank;
    for (int i = 0; i < array->rank; i++) {
        if (tensor->shape[i] > DIMENSION_MAX) /* only where another dimension is 0 */
            return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                                "dimension %d of %s is %" PRIu64 "; expected at most %d", i,
                                reader->name, tensor->shape[i], DIMENSION_MAX);
        array->shape[i] = (int64_t)tensor->shape[i];
    }
    return true;
}

/* A boolean is a byte that is 0 or 1. */
static bool check_booleans(struct field_reader *reader, const struct tensor *tensor)
{
    const unsigned char *bytes = tensor->bytes;
    for (size_t i = 0; i < tensor->size; i++)
        if (bytes[i] > 1)
            return fault_set_at(reader->fault, reader->pointer, FAULT_BINARY,
                                "element %zu of %s is the byte %u; expected 0 or 1", i,
                                reader->name, bytes[i]);
    return true;
}

static bool came_twice(struct field_reader *reader)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_DUPLICATE,
                        "%s is a tensor and stands in __metadata__ too", reader->name);
}

static bool view_tensor(struct field_reader *reader, const struct tensor *tensor,
                        struct array *array)
{
    if (array->data)
        return came_twice(reader);
    const bool may_be_bool = reader->field->kind == FIELD_MASK;
    enum attn_dtype dtype;
    if (!dtype_find_plain(tensor->dtype, &dtype) || (dtype == ATTN_BOOL && !may_be_bool))
        return wrong_dtype(reader, tensor, may_be_bool ? DTYPE_ALL : DTYPE_NUMBERS);
    if (!read_shape(reader, tensor, array)
        || (dtype == ATTN_BOOL && !check_booleans(reader, tensor)))
        return false;
    array->dtype = dtype;
    array->data = tensor->bytes;
    if ((uintptr_t)tensor->bytes % attn_dtype_size(dtype) == 0)
        return true;
    void *copy = arena_alloc(reader->arena, tensor->size);
    if (!copy)
        return fault_no_memory(reader->fault);
    array->data = memcpy(copy, tensor->bytes, tensor->size);
    return true;
}

/* ------------------------------------------------------------------- masks -- */

/* The index of the first number or null. */
static int64_t first_added(const struct json_numbers *numbers)
{
    if (!numbers->has_number)
        return numbers->first_null;
    return numbers->has_null && numbers->first_null < numbers->first_number ? numbers->first_null
                                                                            : numbers->first_number;
}

/* Whether all numbers are 0 or 1 and one is 1: what tokenizers call an attention mask. */
static bool is_tokenizer_mask(const struct json_numbers *numbers)
{
    bool has_one = false;
    for (int64_t i = 0; i < numbers->count; i++) {
        if (numbers->values[i] != 0.0f && numbers->values[i] != 1.0f)
            return false;
        has_one = has_one || numbers->values[i] == 1.0f;
    }
    return has_one;
}

/* A mask is of booleans or of numbers. A tokenizer's mask is refused: added to the scores, 0 and 1
 * would hide nothing, and its client most likely means to hide keys. */
static bool expect_one_kind(struct field_reader *reader, const struct json_numbers *numbers)
{
    if (numbers->has_bool && (numbers->has_number || numbers->has_null)) {
        const int64_t added = first_added(numbers);
        const bool is_bool = numbers->first_bool > added;
        const struct json_place place = place_of(reader);
        const struct json_element element =
            json_element_at(numbers, is_bool ? numbers->first_bool : added);
        return json_element_fault(&place, &element, FAULT_TYPE,
                                  "is %s after %s; expected one or the other", element.kind,
                                  is_bool ? "numbers" : "booleans");
    }
    if (!numbers->has_bool && is_tokenizer_mask(numbers))
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s is nothing but the numbers 0 and 1; expected true and false where "
                            "it says which keys may be attended to. To add 0 and 1 to the scores, "
                            "send it as an F32 tensor (safetensors, or FP32 under /v2)",
                            reader->name);
    return true;
}

/* Booleans become numbers to add to the scores: 0 for true, -INFINITY for false, in place. */
static bool read_mask(struct field_reader *reader, const struct value *value, struct array *array,
                      bool *is_bool)
{
    struct json_numbers *numbers =
        field_find_numbers(reader, value, "an array of booleans or of numbers");
    if (!numbers || !expect_one_kind(reader, numbers))
        return false;
    for (int64_t i = 0; numbers->has_bool && i < numbers->count; i++)
        numbers->values[i] = numbers->values[i] != 0.0f ? 0.0f : -INFINITY;
    view_numbers(array, numbers);
    *is_bool = numbers->has_bool;
    return true;
}

/* -------------------------------------------------------- numbers between commas -- */

/* Whether strtof() read a decimal number that a float holds. -inf, where may_be_none, is a head
 * without a sink. */
static bool is_number(const char *text, const char *end, bool may_be_none, float value)
{
    const bool is_decimal = text + strspn(text, " +-.0123456789eE") == end;
    return is_decimal ? isfinite(value) : may_be_none && value == -INFINITY;
}

static bool read_flat(struct field_reader *reader, const struct value *value, struct array *array)
{
    const bool may_be_none = (reader->field->flags & FIELD_NULLS) != 0;
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value, "a string of numbers between commas");
    const char *p = value->string;
    int64_t count = 1;
    for (const char *c = p; *c; c++)
        count += *c == ',';
    float *values = arena_calloc(reader->arena, (size_t)count, sizeof *values);
    if (!values)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < count; i++) {
        char *end;
        values[i] = strtof(p, &end);
        if (end == p || (*end != ',' && *end != '\0') || !is_number(p, end, may_be_none, values[i]))
            return fault_set_at(
                reader->fault, reader->pointer, FAULT_TYPE,
                "%s is '%.60s'; expected %s between commas", reader->name, value->string,
                may_be_none ? "numbers of a 32-bit float, or -inf," : "numbers of a 32-bit float");
        p = end + (*end == ',');
    }
    *array = (struct array){ values, ATTN_F32, 1, { count } };
    return true;
}

bool field_read_array(struct field_reader *reader, const struct value *value, void *into)
{
    const struct field *field = reader->field;
    struct array *array = (struct array *)((char *)into + field->offset);
    bool *has = (bool *)((char *)into + field->has);
    if (value->kind == VALUE_TENSOR) {
        if (!view_tensor(reader, value->tensor, array))
            return false;
        if (field->kind == FIELD_MASK)
            *has = array->dtype == ATTN_BOOL;
        return true;
    }
    if (reader->is_flat)
        return read_flat(reader, value, array);
    if (field->kind == FIELD_MASK)
        return read_mask(reader, value, array, has);
    const struct json_numbers *numbers = field_find_numbers(reader, value, "an array of numbers");
    if (!numbers || !field_expect_numbers(reader, numbers, (field->flags & FIELD_NULLS) != 0))
        return false;
    view_numbers(array, numbers);
    return true;
}

/* ---------------------------------------------------------------- integers -- */

/* Copies numbers in text as integers. */
static bool copy_integers(struct field_reader *reader, const struct json_numbers *numbers,
                          enum fault_code code, int64_t **values)
{
    const float exact_max = 16777216.0f; /* the integers that a float32 holds exactly */
    const float least = (reader->field->flags & FIELD_NEGATIVE) ? -exact_max : 0;
    *values = arena_calloc(reader->arena, (size_t)numbers->count, sizeof **values);
    if (!*values)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < numbers->count; i++) {
        const float number = numbers->values[i];
        if (!(number >= least && number <= exact_max) || number != floorf(number)) {
            const struct json_place place = place_of(reader);
            const struct json_element element = json_element_at(numbers, i);
            return json_element_fault(&place, &element, code,
                                      "is %.9g; expected an integer from %.0f to %.0f",
                                      (double)number, (double)least, (double)exact_max);
        }
        (*values)[i] = (int64_t)number;
    }
    return true;
}

/* Copies a tensor of any integers, with its shape. */
static bool copy_tensor_integers(struct field_reader *reader, const struct tensor *tensor,
                                 struct array *shape, int64_t **values)
{
    struct dtype_integer integer;
    if (!dtype_integer_find(tensor->dtype, &integer))
        return wrong_dtype(reader, tensor, "I64, I32 or another integer");
    if (!read_shape(reader, tensor, shape))
        return false;
    const size_t count = tensor->size / integer.size;
    *values = arena_calloc(reader->arena, count, sizeof **values);
    if (!*values)
        return fault_no_memory(reader->fault);
    for (size_t i = 0; i < count; i++)
        (*values)[i] = dtype_integer_read((const char *)tensor->bytes + i * integer.size, integer);
    return true;
}

static bool expect_no_negative(struct field_reader *reader, const int64_t *values, int64_t count,
                               enum fault_code code)
{
    for (int64_t i = 0; i < count; i++)
        if (values[i] < 0)
            return fault_set_at(reader->fault, reader->pointer, code,
                                "%s is %" PRId64 " at element %" PRId64 "; expected 0 or more",
                                reader->name, values[i], i);
    return true;
}

/* One length for all rows, or a list with one for each. */
static bool read_tensor_lengths(struct field_reader *reader, const struct tensor *tensor,
                                struct integers *into)
{
    struct array shape = { .data = NULL };
    if (into->count > 0)
        return came_twice(reader);
    if (!copy_tensor_integers(reader, tensor, &shape, &into->values))
        return false;
    if (shape.rank > 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "%s has %d dimensions; expected none or one", reader->name, shape.rank);
    into->count = shape.rank == 0 ? 1 : shape.shape[0];
    into->is_list = shape.rank == 1 && into->count != 1;
    return expect_no_negative(reader, into->values, into->count, reader->field->code);
}

bool field_read_lengths(struct field_reader *reader, const struct value *value, void *place)
{
    struct integers *lengths = place;
    if (value->kind == VALUE_TENSOR)
        return read_tensor_lengths(reader, value->tensor, lengths);
    *lengths =
        (struct integers){ .is_list = value->kind == VALUE_NUMBERS || value->kind == VALUE_LIST };
    if (lengths->is_list) {
        const struct json_numbers *numbers =
            field_find_numbers(reader, value, "a number, or an array of them");
        if (!numbers || !field_expect_numbers(reader, numbers, false))
            return false;
        if (numbers->rank != 1)
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "%s is not a list of numbers; expected one for each query row",
                                reader->name);
        lengths->count = numbers->count;
        return copy_integers(reader, numbers, reader->field->code, &lengths->values);
    }
    lengths->count = 1;
    lengths->values = arena_calloc(reader->arena, 1, sizeof *lengths->values);
    if (!lengths->values)
        return fault_no_memory(reader->fault);
    const struct field single = { .kind = FIELD_INTEGER, .code = reader->field->code };
    struct field_reader inner = *reader;
    inner.field = &single;
    return field_read_single(&inner, value, lengths->values);
}

static bool expect_ascending(struct field_reader *reader, const int64_t *values, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        if (values[i] <= values[i - 1])
            return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                                "%s[%" PRId64 "] is %" PRId64 " after %" PRId64
                                "; expected each once, in ascending order",
                                reader->name, i, values[i], values[i - 1]);
    return true;
}

static bool read_tensor_list(struct field_reader *reader, const struct tensor *tensor,
                             const int64_t **list, int64_t *count)
{
    struct array shape = { .data = NULL };
    int64_t *values;
    if (*list)
        return came_twice(reader);
    if (!copy_tensor_integers(reader, tensor, &shape, &values))
        return false;
    if (shape.rank != 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "%s has %d dimensions; expected one", reader->name, shape.rank);
    *list = values;
    *count = shape.shape[0];
    return (reader->field->flags & FIELD_NEGATIVE)
           || expect_no_negative(reader, values, *count, FAULT_OPTION);
}

const struct json_numbers *field_read_numbers(struct field_reader *reader,
                                              const struct value *value, const char *expected)
{
    const struct json_numbers *numbers = field_find_numbers(reader, value, expected);
    return numbers && field_expect_numbers(reader, numbers, false) ? numbers : NULL;
}

bool field_copy_integers(struct field_reader *reader, const struct json_numbers *numbers,
                         const int64_t **list, int64_t *count)
{
    const enum fault_code code = reader->field->code;
    int64_t *values = NULL;
    if (!copy_integers(reader, numbers, code != FAULT_NONE ? code : FAULT_OPTION, &values))
        return false;
    *list = values;
    *count = numbers->count;
    return true;
}

bool field_read_integers(struct field_reader *reader, const struct value *value,
                         const char *expected, const int64_t **list, int64_t *count)
{
    if (value->kind == VALUE_TENSOR)
        return read_tensor_list(reader, value->tensor, list, count);
    const struct json_numbers *numbers = field_read_numbers(reader, value, expected);
    if (!numbers)
        return false;
    if (numbers->rank != 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s has %d levels; expected %s", reader->name, numbers->rank, expected);
    return field_copy_integers(reader, numbers, list, count)
           && (reader->field->kind == FIELD_INTEGERS || expect_ascending(reader, *list, *count));
}

bool field_read_pair(struct field_reader *reader, const struct value *value, int64_t pair_at[2])
{
    const struct field *field = reader->field;
    int64_t *pair = NULL;
    const struct json_numbers *numbers = field_read_numbers(reader, value, field->expected);
    if (!numbers)
        return false;
    if (numbers->rank != 1 || numbers->count != 2)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s is not two numbers; expected %s", reader->name, field->expected);
    if (!copy_integers(reader, numbers, FAULT_OPTION, &pair))
        return false;
    const bool is_range = (field->flags & FIELD_RANGE) != 0;
    if (is_range ? pair[1] <= pair[0] : pair[0] < field->least || pair[1] < field->least)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is [%" PRId64 ", %" PRId64 "]; expected %s", reader->name, pair[0],
                            pair[1], is_range ? "an end above its begin" : "1 or more of each");
    memcpy(pair_at, pair, 2 * sizeof *pair);
    return true;
}
