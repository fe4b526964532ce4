/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_value.c - the values of metadata and the types of tensors; see gguf.h. */
#include "formats/gguf_internal.h"

#include <assert.h>
#include <string.h>

/* ------------------------------------------------------------------ values -- */

size_t gguf_number_bytes(enum gguf_type type)
{
    static const unsigned char BYTES[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return BYTES[type];
}

uint64_t gguf_load(const char *bytes, size_t count)
{
    uint64_t number = 0;
    while (count > 0)
        number = number << 8 | (unsigned char)bytes[--count];
    return number;
}

const char *gguf_type_name(const struct gguf_value *value)
{
    static const char *const NAMES[GGUF_TYPE_COUNT][2] = {
        [GGUF_U8] = { "u8", "array of u8" },
        [GGUF_I8] = { "i8", "array of i8" },
        [GGUF_U16] = { "u16", "array of u16" },
        [GGUF_I16] = { "i16", "array of i16" },
        [GGUF_U32] = { "u32", "array of u32" },
        [GGUF_I32] = { "i32", "array of i32" },
        [GGUF_F32] = { "f32", "array of f32" },
        [GGUF_BOOL] = { "bool", "array of bool" },
        [GGUF_STRING] = { "string", "array of string" },
        [GGUF_ARRAY] = { "array", "array of arrays" },
        [GGUF_U64] = { "u64", "array of u64" },
        [GGUF_I64] = { "i64", "array of i64" },
        [GGUF_F64] = { "f64", "array of f64" },
    };
    return value->type == GGUF_ARRAY ? NAMES[value->element_type][1] : NAMES[value->type][0];
}

bool gguf_text(const struct gguf_value *value, const char **text, size_t *length)
{
    if (value->type != GGUF_STRING)
        return false;
    *text = value->bytes;
    *length = value->size;
    return true;
}

static bool type_is_signed(enum gguf_type type)
{
    return type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
}

static bool type_is_integer(enum gguf_type type)
{
    return type_is_signed(type) || type == GGUF_U8 || type == GGUF_U16 || type == GGUF_U32
           || type == GGUF_U64;
}

bool gguf_integer(const struct gguf_value *value, int64_t *integer)
{
    if (!type_is_integer(value->type))
        return false;
    const size_t size = gguf_number_bytes(value->type);
    const uint64_t bits = gguf_load(value->bytes, size);
    if (type_is_signed(value->type)) {
        const uint64_t sign = UINT64_C(1) << (8 * size - 1);
        *integer = (int64_t)((bits ^ sign) - sign);
        return true;
    }
    if (bits > INT64_MAX)
        return false;
    *integer = (int64_t)bits;
    return true;
}

bool gguf_number(const struct gguf_value *value, double *number)
{
    int64_t integer;
    const uint64_t bits = gguf_load(value->bytes, gguf_number_bytes(value->type));
    if (value->type == GGUF_F32) {
        const uint32_t half = (uint32_t)bits;
        float single;
        memcpy(&single, &half, sizeof single);
        *number = single;
        return true;
    }
    if (value->type == GGUF_F64) {
        memcpy(number, &bits, sizeof *number);
        return true;
    }
    if (value->type == GGUF_U64) {
        *number = (double)bits;
        return true;
    }
    if (!gguf_integer(value, &integer))
        return false;
    *number = (double)integer;
    return true;
}

bool gguf_flag(const struct gguf_value *value, bool *flag)
{
    if (value->type != GGUF_BOOL)
        return false;
    *flag = value->bytes[0] != 0;
    return true;
}

struct gguf_value gguf_element(const struct gguf_value *array, int64_t i)
{
    assert(array->type == GGUF_ARRAY && i >= 0 && i < array->count);
    if (array->element_type == GGUF_ARRAY)
        return array->arrays[i];
    struct gguf_value element = { .type = array->element_type, .count = 1 };
    if (element.type == GGUF_STRING) {
        element.bytes = array->bytes + array->starts[i];
        element.size = array->starts[i + 1] - array->starts[i] - GGUF_LENGTH_BYTES;
    } else {
        element.bytes = array->bytes + (size_t)i * gguf_number_bytes(element.type);
    }
    return element;
}

/* ------------------------------------------------------- types of tensors -- */

const struct gguf_tensor_type *gguf_tensor_type(uint32_t number)
{
    static const struct gguf_tensor_type TYPES[] = {
        { "F32", 1, 4 },         { "F16", 1, 2 },         { "Q4_0", 32, 18 },
        { "Q4_1", 32, 20 },      { "Q4_2", 16, 0 },       { "Q4_3", 16, 0 },
        { "Q5_0", 32, 22 },      { "Q5_1", 32, 24 },      { "Q8_0", 32, 34 },
        { "Q8_1", 32, 36 },      { "Q2_K", 256, 84 },     { "Q3_K", 256, 110 },
        { "Q4_K", 256, 144 },    { "Q5_K", 256, 176 },    { "Q6_K", 256, 210 },
        { "Q8_K", 256, 292 },    { "IQ2_XXS", 256, 66 },  { "IQ2_XS", 256, 74 },
        { "IQ3_XXS", 256, 98 },  { "IQ1_S", 256, 50 },    { "IQ4_NL", 32, 18 },
        { "IQ3_S", 256, 110 },   { "IQ2_S", 256, 82 },    { "IQ4_XS", 256, 136 },
        { "I8", 1, 1 },          { "I16", 1, 2 },         { "I32", 1, 4 },
        { "I64", 1, 8 },         { "F64", 1, 8 },         { "IQ1_M", 256, 56 },
        { "BF16", 1, 2 },        { "Q4_0_4_4", 32, 0 },   { "Q4_0_4_8", 32, 0 },
        { "Q4_0_8_8", 32, 0 },   { "TQ1_0", 256, 54 },    { "TQ2_0", 256, 66 },
        { "IQ4_NL_4_4", 32, 0 }, { "IQ4_NL_4_8", 32, 0 }, { "IQ4_NL_8_8", 32, 0 },
        { "MXFP4", 32, 17 },     { "NVFP4", 64, 36 },     { "Q1_0", 128, 18 },
        { "Q2_0", 64, 18 },
    };
    return number < sizeof TYPES / sizeof TYPES[0] ? &TYPES[number] : NULL;
}
