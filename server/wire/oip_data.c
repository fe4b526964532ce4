/* oip_data.c - one input tensor: its datatype, shape and numbers.
 *
 * A binary tensor is a view of the body where it is aligned, else a copy in the request's arena. A
 * tensor of FP32 in JSON is a view of the numbers that json.c has read; one of another datatype is
 * a converted copy. */
#include "wire/oip_reader.h"

#include "base/dtype.h"
#include "text/json_element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- shapes -- */

bool oip_read_shape(struct oip_reader *reader, int slot, const cJSON *object)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    const char *name = reader->oip->inputs_known[slot].name;
    const cJSON *node = oip_member(object, "shape");
    const struct json_numbers *numbers =
        node ? json_numbers_of(&reader->call->base.document, node) : NULL;
    if (!node)
        return oip_refuse(reader->fault, "inputs", input->index, "shape", FAULT_FIELD,
                          "shape of input '%s' is missing", name);
    if (!numbers || numbers->rank != 1 || numbers->has_bool || numbers->has_null
        || numbers->ragged_depth > 0)
        return oip_refuse(reader->fault, "inputs", input->index, "shape", FAULT_TYPE,
                          "shape of input '%s' is not a list of integers", name);
    if (numbers->count > ARRAY_RANK_MAX)
        return oip_refuse(reader->fault, "inputs", input->index, "shape", FAULT_SHAPE,
                          "shape of input '%s' has %" PRId64 " dimensions; expected at most %d",
                          name, numbers->count, ARRAY_RANK_MAX);
    input->array.rank = (int)numbers->count;
    input->count = 1;
    for (int i = 0; i < input->array.rank; i++) {
        const float number = numbers->values[i];
        if (!(number >= 0 && number <= (float)OIP_INTEGER_MAX) || number != floorf(number))
            return oip_refuse(
                reader->fault, "inputs", input->index, "shape", FAULT_SHAPE,
                "shape[%d] of input '%s' is %.9g; expected an integer from 0 to %" PRId64, i, name,
                (double)number, OIP_INTEGER_MAX);
        input->array.shape[i] = (int64_t)number;
        if (__builtin_mul_overflow(input->count, input->array.shape[i], &input->count)
            || input->count > INT64_MAX / 8)
            return oip_refuse(
                reader->fault, "inputs", input->index, "shape", FAULT_SHAPE,
                "shape of input '%s' causes total element count to exceed maximum size", name);
    }
    return true;
}

bool oip_read_datatype(struct oip_reader *reader, int slot, const cJSON *object)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    const struct oip_tensor *known = &reader->oip->inputs_known[slot];
    const char *name = oip_string_member(reader, "inputs", input->index, object, "datatype");
    if (!name)
        return false;
    input->datatype = oip_datatype_find(name);
    if (!input->datatype)
        return oip_refuse(reader->fault, "inputs", input->index, "datatype", FAULT_DTYPE,
                          "inference input '%s' data-type is '%.20s', which there is not",
                          known->name, name);
    input->array.dtype = input->datatype->dtype;
    const enum oip_kind kind = input->datatype->kind;
    const enum oip_kind expected = oip_datatype_find(known->datatype)->kind;
    if (kind == expected || (known->is_mask && kind == OIP_BOOL))
        return true;
    return oip_refuse(reader->fault, "inputs", input->index, "datatype", FAULT_DTYPE,
                      "inference input '%s' data-type is '%s', but model '%s' expects '%s'%s",
                      known->name, name, reader->oip->model->name, known->datatype,
                      oip_datatype_others(known));
}

/* --------------------------------------------------------- data from JSON -- */

static bool take_integers(struct oip_reader *reader, int slot, const struct json_numbers *numbers)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    int64_t *integers =
        arena_calloc(&reader->call->request.arena, (size_t)numbers->count + 1, sizeof *integers);
    if (!integers)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < numbers->count; i++) {
        const float number = numbers->values[i];
        if (!(fabsf(number) <= (float)OIP_INTEGER_MAX) || number != floorf(number))
            return oip_refuse(
                reader->fault, "inputs", input->index, "data", FAULT_TYPE,
                "data[%" PRId64 "] of input '%s' is %.9g; expected an integer of at most "
                "%" PRId64 " in JSON",
                i, reader->oip->inputs_known[slot].name, (double)number, OIP_INTEGER_MAX);
        integers[i] = (int64_t)number;
    }
    input->integers = integers;
    return true;
}

static bool take_booleans(struct oip_reader *reader, int slot, const struct json_numbers *numbers)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    unsigned char *booleans = arena_alloc(&reader->call->request.arena, (size_t)numbers->count);
    if (!booleans)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < numbers->count; i++) {
        if (numbers->values[i] != 0 && numbers->values[i] != 1)
            return oip_refuse(reader->fault, "inputs", input->index, "data", FAULT_TYPE,
                              "data[%" PRId64 "] of input '%s' is %.9g; expected true or false", i,
                              reader->oip->inputs_known[slot].name, (double)numbers->values[i]);
        booleans[i] = numbers->values[i] != 0;
    }
    input->array.data = booleans;
    return true;
}

/* Writes the numbers as FP16 or BF16. Returns the index of the first one that is not finite, as a
 * float or in dtype; -1: none. */
static int64_t write_halves(uint16_t *halves, enum attn_dtype dtype,
                            const struct json_numbers *numbers)
{
    dtype_write(halves, dtype, numbers->values, (size_t)numbers->count);
    for (int64_t i = 0; i < numbers->count && numbers->nonfinite_index < 0; i++) {
        float number;
        dtype_read(&number, &halves[i], dtype, 1);
        if (isinf(number) && isfinite(numbers->values[i]))
            return i;
    }
    return numbers->nonfinite_index;
}

/* FP32 is used in place, because each array of a document is read once. FP64 is read from the text
 * again, which gives all digits of a double. */
static bool take_floats(struct oip_reader *reader, int slot, const struct json_place *place,
                        const struct json_numbers *numbers)
{
    static const float none;
    struct oip_input *input = &reader->oip->inputs[slot];
    const bool may_be_null = reader->oip->inputs_known[slot].is_mask; /* null forbids a key */
    int64_t nonfinite_index = numbers->nonfinite_index;
    if (!json_element_expect_numbers(place, numbers, may_be_null))
        return false;
    input->array.data = numbers->count > 0 ? numbers->values : &none;
    if (input->array.dtype != ATTN_F32) {
        void *bytes = arena_calloc(&reader->call->request.arena, (size_t)numbers->count + 1,
                                   input->datatype->size);
        if (!bytes)
            return fault_no_memory(reader->fault);
        if (input->array.dtype == ATTN_F64)
            nonfinite_index = json_read_doubles(reader->call->base.body.data, numbers, bytes);
        else
            nonfinite_index = write_halves(bytes, input->array.dtype, numbers);
        input->array.data = bytes;
    }
    return json_element_expect_finite(place, numbers, nonfinite_index, input->datatype->name);
}

bool oip_read_data(struct oip_reader *reader, int slot, const cJSON *node)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    char name[96], pointer[FAULT_POINTER_MAX], shape[96];
    const struct json_place place = { &reader->call->base.document, pointer, name, reader->fault };
    snprintf(name, sizeof name, "data of input '%s'", reader->oip->inputs_known[slot].name);
    snprintf(pointer, sizeof pointer, "/inputs/%d/data", input->index);
    /* Of any depth, because the shape is a member of its own. */
    const struct json_numbers *numbers =
        json_element_array(&place, node, "an array of numbers", true);
    if (!numbers)
        return false;
    if (numbers->count != input->count) {
        oip_shape_text(shape, sizeof shape, input->array.shape, input->array.rank);
        return fault_set_at(reader->fault, pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " elements; its shape %s has %" PRId64, name,
                            numbers->count, shape, input->count);
    }
    return input->datatype->kind == OIP_INTEGER ? take_integers(reader, slot, numbers)
           : input->datatype->kind == OIP_BOOL  ? take_booleans(reader, slot, numbers)
                                                : take_floats(reader, slot, &place, numbers);
}

/* ------------------------------------------------------------ data as bytes -- */

static bool check_booleans(struct oip_reader *reader, int slot, const unsigned char *bytes)
{
    const struct oip_input *input = &reader->oip->inputs[slot];
    for (int64_t i = 0; i < input->count; i++)
        if (bytes[i] > 1)
            return oip_refuse(reader->fault, "inputs", input->index, "", FAULT_BINARY,
                              "element %" PRId64 " of input '%s' is byte %d; expected 0 or 1", i,
                              reader->oip->inputs_known[slot].name, bytes[i]);
    return true;
}

bool oip_take_bytes(struct oip_reader *reader, int slot, const void *bytes)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    const size_t element = input->datatype->size, size = (size_t)input->count * element;
    if (input->datatype->kind == OIP_INTEGER) {
        int64_t *integers =
            arena_calloc(&reader->call->request.arena, (size_t)input->count + 1, sizeof *integers);
        if (!integers)
            return fault_no_memory(reader->fault);
        for (int64_t i = 0; i < input->count; i++)
            integers[i] =
                oip_datatype_integer(input->datatype, (const char *)bytes + (size_t)i * element);
        input->integers = integers;
        return true;
    }
    input->array.data = bytes;
    if (size == 0 || (uintptr_t)bytes % element != 0) {
        void *copy = arena_alloc(&reader->call->request.arena, size);
        if (!copy)
            return fault_no_memory(reader->fault);
        if (size > 0)
            memcpy(copy, bytes, size);
        input->array.data = copy;
    }
    return input->datatype->kind != OIP_BOOL || check_booleans(reader, slot, bytes);
}

bool oip_read_binary(struct oip_reader *reader, int slot, const cJSON *node)
{
    struct oip_input *input = &reader->oip->inputs[slot];
    const char *name = reader->oip->inputs_known[slot].name;
    const char *member = "parameters/binary_data_size";
    const size_t size = (size_t)input->count * input->datatype->size;
    if (!reader->oip->has_header_length)
        return oip_refuse(reader->fault, "inputs", input->index, member, FAULT_BINARY,
                          "input '%s' has a binary_data_size, but the request has no valid "
                          "Inference-Header-Content-Length",
                          name);
    if (!cJSON_IsNumber(node) || !(node->valuedouble >= 0)
        || node->valuedouble != floor(node->valuedouble))
        return oip_refuse(reader->fault, "inputs", input->index, member, FAULT_TYPE,
                          "binary_data_size of input '%s' is not an integer of 0 or more", name);
    if (node->valuedouble != (double)size)
        return oip_refuse(
            reader->fault, "inputs", input->index, member, FAULT_BINARY,
            "input byte size mismatch for input '%s' for model '%s'. Expected %zu, got "
            "%.17g",
            name, reader->oip->model->name, size, node->valuedouble);
    if (size > reader->tail_size - reader->tail_used)
        return oip_refuse(
            reader->fault, "inputs", input->index, member, FAULT_BINARY,
            "unexpected size for input '%s', expecting %zu additional bytes for model "
            "'%s'",
            name, size - (reader->tail_size - reader->tail_used), reader->oip->model->name);
    const char *bytes = reader->tail + reader->tail_used;
    reader->tail_used += size;
    return oip_take_bytes(reader, slot, bytes);
}
