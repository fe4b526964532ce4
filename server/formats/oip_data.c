/* SPDX-License-Identifier: Apache-2.0 */
/* oip_data.c - one tensor of an inference request: its datatype, its shape, and its numbers from
 * one of the four places where they may be: JSON, the bytes behind it, shared memory, or the whole
 * body.
 *
 * Bytes are viewed in the body where they are aligned, else copied. Numbers of FP32 in JSON are
 * used where json.c has put them, because each array of a document is read once; others are
 * converted. */
#include "access/access_key.h"
#include "base/dtype.h"
#include "formats/oip_internal.h"
#include "json/json_element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OFFSET "shared_memory_offset"

/* ------------------------------------------------------------- datatypes -- */

static const struct oip_datatype DATATYPES[] = {
    { "FP32", "F32", OIP_FLOAT, 4 },     { "FP16", "F16", OIP_FLOAT, 2 },
    { "BF16", "BF16", OIP_FLOAT, 2 },    { "FP64", "F64", OIP_FLOAT, 8 },
    { "BOOL", "BOOL", OIP_BOOL, 1 },     { "INT8", "I8", OIP_INTEGER, 1 },
    { "INT16", "I16", OIP_INTEGER, 2 },  { "INT32", "I32", OIP_INTEGER, 4 },
    { "INT64", "I64", OIP_INTEGER, 8 },  { "UINT8", "U8", OIP_INTEGER, 1 },
    { "UINT16", "U16", OIP_INTEGER, 2 }, { "UINT32", "U32", OIP_INTEGER, 4 },
    { "UINT64", "U64", OIP_INTEGER, 8 }, { "BYTES", NULL, OIP_BYTES, 0 },
};

enum { DATATYPE_COUNT = sizeof DATATYPES / sizeof DATATYPES[0] };

const struct oip_datatype *oip_datatype_find(const char *name)
{
    for (int i = 0; i < DATATYPE_COUNT; i++)
        if (strcmp(DATATYPES[i].name, name) == 0)
            return &DATATYPES[i];
    return NULL;
}

const struct oip_datatype *oip_datatype_of(enum attn_dtype dtype)
{
    int i = 0;
    while (strcmp(DATATYPES[i].dtype, dtype_name(dtype)) != 0)
        i++;
    return &DATATYPES[i];
}

/* The other datatypes that an input takes, for a message. */
static const char *others_of(const struct oip_tensor *known, enum oip_kind kind)
{
    return kind == OIP_INTEGER ? " or another integer"
           : known->is_mask    ? ", FP16, BF16, FP64 or BOOL"
                               : ", FP16, BF16 or FP64";
}

static const struct oip_datatype *read_datatype(const struct oip_reader *reader,
                                                const struct oip_tensor *known)
{
    const char *name = oip_string_member(reader, "datatype");
    const struct oip_datatype *datatype = name ? oip_datatype_find(name) : NULL;
    const enum oip_kind expected = oip_datatype_find(known->datatype)->kind;
    if (!name)
        return NULL;
    if (datatype && (datatype->kind == expected || (known->is_mask && datatype->kind == OIP_BOOL)))
        return datatype;
    if (!datatype)
        oip_refuse(reader, "datatype", FAULT_DTYPE,
                   "inference input '%s' data-type is '%.20s', which there is not", known->name,
                   name);
    else
        oip_refuse(reader, "datatype", FAULT_DTYPE,
                   "inference input '%s' data-type is '%s', but model '%s' expects '%s'%s",
                   known->name, name, reader->oip->signature->model, known->datatype,
                   others_of(known, expected));
    return NULL;
}

/* ---------------------------------------------------------------- shapes -- */

/* Reads the shape; *count becomes the number of elements. */
static bool read_shape(const struct oip_reader *reader, struct tensor *tensor, int64_t *count)
{
    const struct value *value = message_member(reader->entry, "shape");
    const struct json_numbers *numbers =
        value && value->kind == VALUE_NUMBERS ? value->numbers : NULL;
    if (!value)
        return oip_refuse(reader, "shape", FAULT_FIELD, "shape of input '%s' is missing",
                          reader->name);
    if (!numbers || numbers->rank != 1 || numbers->has_bool || numbers->has_null
        || numbers->ragged_depth > 0)
        return oip_refuse(reader, "shape", FAULT_TYPE,
                          "shape of input '%s' is not a list of integers", reader->name);
    if (numbers->count > ARRAY_RANK_MAX)
        return oip_refuse(reader, "shape", FAULT_SHAPE,
                          "shape of input '%s' has %" PRId64 " dimensions; expected at most %d",
                          reader->name, numbers->count, ARRAY_RANK_MAX);
    tensor->rank = numbers->count;
    *count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const float number = numbers->values[i];
        if (!(number >= 0 && number <= (float)OIP_INTEGER_MAX) || number != floorf(number))
            return oip_refuse(reader, "shape", FAULT_SHAPE,
                              "shape[%d] of input '%s' is %.9g; expected an integer from 0 to "
                              "%" PRId64,
                              i, reader->name, (double)number, OIP_INTEGER_MAX);
        tensor->shape[i] = (uint64_t)number;
        if (__builtin_mul_overflow(*count, (int64_t)number, count) || *count > INT64_MAX / 8)
            return oip_refuse(
                reader, "shape", FAULT_SHAPE,
                "shape of input '%s' causes total element count to exceed maximum size",
                reader->name);
    }
    return true;
}

/* --------------------------------------------------------- data from JSON -- */

static bool take_integers(const struct oip_reader *reader, const struct json_numbers *numbers,
                          int64_t *integers)
{
    for (int64_t i = 0; i < numbers->count; i++) {
        const float number = numbers->values[i];
        if (!(fabsf(number) <= (float)OIP_INTEGER_MAX) || number != floorf(number))
            return oip_refuse(reader, "data", FAULT_TYPE,
                              "data[%" PRId64 "] of input '%s' is %.9g; expected an integer of at "
                              "most %" PRId64 " in JSON",
                              i, reader->name, (double)number, OIP_INTEGER_MAX);
        integers[i] = (int64_t)number;
    }
    return true;
}

static bool take_booleans(const struct oip_reader *reader, const struct json_numbers *numbers,
                          unsigned char *booleans)
{
    for (int64_t i = 0; i < numbers->count; i++) {
        if (numbers->values[i] != 0 && numbers->values[i] != 1)
            return oip_refuse(reader, "data", FAULT_TYPE,
                              "data[%" PRId64 "] of input '%s' is %.9g; expected true or false", i,
                              reader->name, (double)numbers->values[i]);
        booleans[i] = numbers->values[i] != 0;
    }
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

/* FP64 is read from the text again, which gives all digits of a double. */
static bool take_floats(const struct oip_reader *reader, const struct json_place *place,
                        const struct oip_datatype *datatype, bool may_be_null,
                        const struct json_numbers *numbers, void *bytes)
{
    enum attn_dtype dtype = ATTN_F32;
    int64_t nonfinite_index = numbers->nonfinite_index;
    if (!json_element_expect_numbers(place, numbers, may_be_null))
        return false;
    dtype_find(datatype->dtype, &dtype);
    if (dtype == ATTN_F64)
        nonfinite_index = json_read_doubles(reader->body->bytes.data, numbers, bytes);
    else if (dtype != ATTN_F32)
        nonfinite_index = write_halves(bytes, dtype, numbers);
    return json_element_expect_finite(place, numbers, nonfinite_index, datatype->name);
}

static bool read_json(const struct oip_reader *reader, const struct value *value,
                      const struct oip_datatype *datatype, const struct oip_tensor *known,
                      int64_t count, struct tensor *tensor)
{
    struct field_reader field = { .fault = reader->fault };
    char name[96], shape_text[96];
    int64_t shape[ARRAY_RANK_MAX];
    snprintf(name, sizeof name, "data of input '%s'", reader->name);
    snprintf(field.pointer, sizeof field.pointer, "/inputs/%d/data", reader->index);
    field.name = name;
    /* Of any depth, because the shape is a member of its own. */
    const struct json_numbers *numbers =
        field_find_rows(&field, value, "an array of numbers", true);
    if (!numbers)
        return false;
    if (numbers->count != count) {
        memcpy(shape, tensor->shape, sizeof shape);
        oip_shape_text(shape_text, sizeof shape_text, shape, (int)tensor->rank);
        return oip_refuse(reader, "data", FAULT_SHAPE,
                          "%s has %" PRId64 " elements; its shape %s has %" PRId64, name,
                          numbers->count, shape_text, count);
    }
    const struct json_place place = { field.pointer, name, reader->fault };
    const bool is_view = count > 0 && strcmp(datatype->dtype, "F32") == 0;
    const size_t element = datatype->kind == OIP_INTEGER ? sizeof(int64_t) : datatype->size;
    void *bytes =
        is_view ? numbers->values : arena_calloc(reader->body->arena, (size_t)count + 1, element);
    tensor->bytes = bytes;
    if (!bytes)
        return fault_no_memory(reader->fault);
    if (datatype->kind == OIP_INTEGER) {
        tensor->dtype = "I64";
        tensor->size = (size_t)count * element;
        return take_integers(reader, numbers, bytes);
    }
    return datatype->kind == OIP_BOOL
               ? take_booleans(reader, numbers, bytes)
               : take_floats(reader, &place, datatype, known->is_mask, numbers, bytes);
}

/* ------------------------------------------------------------ data as bytes -- */

bool oip_take_bytes(const struct oip_reader *reader, const struct oip_datatype *datatype,
                    const void *bytes, struct tensor *tensor)
{
    const unsigned char *byte = bytes;
    tensor->dtype = datatype->dtype;
    tensor->bytes = bytes;
    const bool is_odd = (uintptr_t)bytes % datatype->size != 0;
    if (datatype->kind != OIP_INTEGER && (tensor->size == 0 || is_odd)) {
        void *copy = arena_alloc(reader->body->arena, tensor->size);
        if (!copy)
            return fault_no_memory(reader->fault);
        tensor->bytes = tensor->size > 0 ? memcpy(copy, bytes, tensor->size) : copy;
    }
    for (size_t i = 0; datatype->kind == OIP_BOOL && i < tensor->size; i++)
        if (byte[i] > 1)
            return oip_refuse(reader, "", FAULT_BINARY,
                              "element %zu of input '%s' is byte %d; expected 0 or 1", i,
                              reader->name, byte[i]);
    return true;
}

static bool read_binary(struct oip_reader *reader, const struct value *value,
                        const struct oip_datatype *datatype, struct tensor *tensor)
{
    static const char MEMBER[] = "parameters/binary_data_size";
    const char *model = reader->oip->signature->model;
    const size_t left = reader->tail_size - reader->tail_used;
    if (!reader->oip->has_header_length)
        return oip_refuse(reader, MEMBER, FAULT_BINARY,
                          "input '%s' has a binary_data_size, but the request has no valid "
                          "Inference-Header-Content-Length",
                          reader->name);
    if (value->kind != VALUE_NUMBER || !(value->number >= 0)
        || value->number != floor(value->number))
        return oip_refuse(reader, MEMBER, FAULT_TYPE,
                          "binary_data_size of input '%s' is not an integer of 0 or more",
                          reader->name);
    if (value->number != (double)tensor->size)
        return oip_refuse(
            reader, MEMBER, FAULT_BINARY,
            "input byte size mismatch for input '%s' for model '%s'. Expected %zu, got %.17g",
            reader->name, model, tensor->size, value->number);
    if (tensor->size > left)
        return oip_refuse(reader, MEMBER, FAULT_BINARY,
                          "unexpected size for input '%s', expecting %zu additional bytes for "
                          "model '%s'",
                          reader->name, tensor->size - left, model);
    const char *bytes = reader->tail + reader->tail_used;
    reader->tail_used += tensor->size;
    return oip_take_bytes(reader, datatype, bytes, tensor);
}

/* --------------------------------------------------------- shared memory -- */

static bool at(const struct oip_reader *reader, const char *name)
{
    return oip_at_parameter(reader->fault, reader->list, reader->index, name);
}

/* One that is absent leaves *number. */
static bool read_bytes(const struct oip_reader *reader, const char *name, uint64_t *number,
                       bool *is_there)
{
    const struct value *value = message_member(reader->parameters, name);
    const double whole = value && value->kind == VALUE_NUMBER ? value->number : -1;
    *is_there = value != NULL;
    if (!value)
        return true;
    if (whole >= 0 && whole < FIELD_INTEGER_MAX && whole == floor(whole)) {
        *number = (uint64_t)whole;
        return true;
    }
    fault_set(reader->fault, FAULT_TYPE,
              "Unable to parse '%s'; expected an integer from 0 and below 2^53", name);
    return at(reader, name);
}

/* Finds the region for the key of the request. */
static struct region *find_region(const struct oip_reader *reader, const char *region)
{
    const struct oip_request *oip = reader->oip;
    if (oip->regions)
        return access_check_scope(oip->key, ACCESS_REGIONS, reader->fault)
                   ? regions_held_find(oip->held, oip->regions, oip->key, region, reader->fault)
                   : NULL;
    fault_set(reader->fault, FAULT_FIELD,
              "%.*s '%s' is in shared memory, which is not offered; the operator allows it "
              "with --shared-memory-prefix",
              (int)strlen(reader->list) - 1, reader->list, reader->name);
    return NULL;
}

bool oip_find_region(const struct oip_reader *reader, struct oip_output *place)
{
    const struct value *region = message_member(reader->parameters, OIP_REGION);
    bool has_size, has_offset;
    if (!read_bytes(reader, OIP_REGION_SIZE, &place->size, &has_size)
        || !read_bytes(reader, OFFSET, &place->offset, &has_offset))
        return false;
    if (!region && !has_size && !has_offset)
        return true;
    if (!region || region->kind != VALUE_STRING) {
        fault_set(reader->fault, region ? FAULT_TYPE : FAULT_FIELD,
                  "Unable to parse '" OIP_REGION "' of '%s'; expected the name of a region",
                  reader->name);
        return at(reader, OIP_REGION);
    }
    place->region = find_region(reader, region->string);
    if (!place->region)
        return at(reader, OIP_REGION);
    if (!has_size) {
        fault_set(reader->fault, FAULT_FIELD, "'%s' has a " OIP_REGION " and no " OIP_REGION_SIZE,
                  reader->name);
        return at(reader, OIP_REGION_SIZE);
    }
    return region_check(place->region, place->offset, place->size, reader->fault)
           || at(reader, place->offset > place->region->size ? OFFSET : OIP_REGION_SIZE);
}

/* A copy in the request's arena. */
static bool read_region(const struct oip_reader *reader, const struct oip_output *place,
                        const struct oip_datatype *datatype, struct tensor *tensor)
{
    const size_t size = tensor->size;
    if (place->size != size)
        return oip_refuse(
            reader, "parameters/" OIP_REGION_SIZE, FAULT_BINARY,
            "input byte size mismatch for input '%s' for model '%s'. Expected %zu, got %" PRIu64,
            reader->name, reader->oip->signature->model, size, place->size);
    if (size > reader->oip->bytes_max)
        return oip_refuse(reader, "shape", FAULT_TOO_LARGE,
                          "input '%s' takes %zu bytes; a request may take %zu", reader->name, size,
                          reader->oip->bytes_max);
    void *bytes = arena_alloc(reader->body->arena, size);
    if (!bytes)
        return fault_no_memory(reader->fault);
    return (region_read(place->region, place->offset, bytes, size, reader->fault)
            || at(reader, OIP_REGION))
           && oip_take_bytes(reader, datatype, bytes, tensor);
}

/* ----------------------------------------------------------------- whole -- */

bool oip_read_tensor(struct oip_reader *reader, const struct oip_tensor *known,
                     struct tensor *tensor)
{
    struct oip_output place = { .region = NULL };
    int64_t count = 0;
    const struct oip_datatype *datatype = read_datatype(reader, known);
    if (!datatype || !read_shape(reader, tensor, &count) || !oip_read_entry(reader)
        || !oip_find_region(reader, &place))
        return false;
    const struct value *size = message_member(reader->parameters, "binary_data_size");
    const struct value *data = message_member(reader->entry, "data");
    tensor->dtype = datatype->dtype;
    tensor->size = (size_t)count * datatype->size;
    if ((data != NULL) + (size != NULL) + (place.region != NULL) > 1)
        return oip_refuse(
            reader, data ? "data" : "parameters/binary_data_size", FAULT_BINARY,
            "input '%s' must set only one of the fields 'data', 'binary_data_size' in "
            "'parameters' and 'shared_memory_region' in 'parameters', but sets several",
            reader->name);
    if (place.region)
        return read_region(reader, &place, datatype, tensor);
    if (size)
        return read_binary(reader, size, datatype, tensor);
    if (data)
        return read_json(reader, data, datatype, known, count, tensor);
    return oip_refuse(reader, "data", FAULT_FIELD, "data of input '%s' is missing", reader->name);
}
