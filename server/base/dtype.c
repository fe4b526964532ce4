/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c - tensors may begin at any byte, so elements are read and written by memcpy(). */
#include "base/dtype.h"
#include "quantize.h"

#include <assert.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian");

static const char *const NAMES[] = {
#define X(NAME, bytes, is_number) [ATTN_##NAME] = #NAME,
    ATTN_DTYPE_MAP(X)
#undef X
#define X(NAME, numbers, bytes) [ATTN_##NAME] = #NAME,
        ATTN_BLOCK_MAP(X)
#undef X
};

const char *dtype_name(enum attn_dtype dtype)
{
    return NAMES[dtype];
}

bool dtype_find(const char *name, enum attn_dtype *dtype)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (i != ATTN_I8 && strcmp(NAMES[i], name) == 0) {
            *dtype = (enum attn_dtype)i;
            return true;
        }
    return false;
}

bool dtype_find_plain(const char *name, enum attn_dtype *dtype)
{
    enum attn_dtype found;
    if (!dtype_find(name, &found) || dtype_is_blocks(found))
        return false;
    *dtype = found;
    return true;
}

bool dtype_is_blocks(enum attn_dtype dtype)
{
    return attn_block_numbers(dtype) > 1;
}

bool dtype_integer_find(const char *name, struct dtype_integer *integer)
{
    static const char *const SIZES[] = { "8", "16", "32", "64" };
    if (name[0] != 'I' && name[0] != 'U')
        return false;
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
        if (strcmp(name + 1, SIZES[i]) == 0) {
            *integer = (struct dtype_integer){ (size_t)1 << i, name[0] == 'U' };
            return true;
        }
    return false;
}

int64_t dtype_integer_read(const void *bytes, struct dtype_integer integer)
{
    uint64_t bits = 0;
    memcpy(&bits, bytes, integer.size);
    const unsigned shift = 64 - 8 * (unsigned)integer.size;
    if (integer.is_unsigned)
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    return (int64_t)(bits << shift) >> shift;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ------------------------------------------------------------------ read -- */

/* IEEE 754 binary16. A subnormal is its fraction in units of 2^-24, which is exact. */
static float float_of_f16(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    const uint32_t sign = (uint32_t)(half >> 15) << 31;
    const uint32_t exponent = (half >> 10) & 0x1F, fraction = half & 0x3FF;
    if (exponent == 0)
        return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    const uint32_t wide = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
    return float_of_bits(sign | wide << 23 | fraction << 13);
}

static float float_of_bf16(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return float_of_bits((uint32_t)half << 16);
}

static float float_of_f64(const unsigned char *bytes)
{
    double value;
    memcpy(&value, bytes, sizeof value);
    return (float)value;
}

static float float_of_bool(const unsigned char *bytes)
{
    return *bytes ? 1.0f : 0.0f;
}

/* Each dtype has its loop, so that the compiler can vectorize it. */
void dtype_read(float *values, const void *bytes, enum attn_dtype dtype, size_t count)
{
    const unsigned char *from = bytes;
    if (dtype == ATTN_F32)
        memcpy(values, bytes, count * sizeof *values);
    else if (dtype == ATTN_F16)
        for (size_t i = 0; i < count; i++)
            values[i] = float_of_f16(from + 2 * i);
    else if (dtype == ATTN_BF16)
        for (size_t i = 0; i < count; i++)
            values[i] = float_of_bf16(from + 2 * i);
    else if (dtype == ATTN_F64)
        for (size_t i = 0; i < count; i++)
            values[i] = float_of_f64(from + 8 * i);
    else if (dtype_is_blocks(dtype))
        attn_unpack(dtype, bytes, (int64_t)count / attn_block_numbers(dtype), values);
    else
        for (size_t i = 0; i < count; i++)
            values[i] = float_of_bool(from + i);
}

/* ----------------------------------------------------------------- write -- */

static void f16_of_float(unsigned char *bytes, float value)
{
    const uint32_t bits = bits_of_float(value), magnitude = bits & 0x7FFFFFFF;
    uint32_t half;
    if (magnitude > 0x7F800000)
        half = 0x7E00; /* NaN */
    else if (magnitude >= 0x477FF000)
        half = 0x7C00; /* infinity: from 65520 on, 2^16 is nearer than 65504, the largest F16 */
    else if (magnitude < 0x38800000) /* subnormal: floats from 1/2 on have steps of 2^-24 */
        half = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3F000000;
    else
        half = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    const uint16_t signed_half = (uint16_t)(half | (bits >> 16 & 0x8000));
    memcpy(bytes, &signed_half, sizeof signed_half);
}

static void bf16_of_float(unsigned char *bytes, float value)
{
    const uint32_t bits = bits_of_float(value);
    const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    const uint16_t half =
        (uint16_t)(is_nan ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    memcpy(bytes, &half, sizeof half);
}

static void f64_of_float(unsigned char *bytes, float value)
{
    const double wide = (double)value;
    memcpy(bytes, &wide, sizeof wide);
}

void dtype_write(void *bytes, enum attn_dtype dtype, const float *values, size_t count)
{
    unsigned char *to = bytes;
    assert(dtype != ATTN_BOOL);
    if (dtype == ATTN_F32)
        memcpy(bytes, values, count * sizeof *values);
    else if (dtype == ATTN_F16)
        for (size_t i = 0; i < count; i++)
            f16_of_float(to + 2 * i, values[i]);
    else if (dtype == ATTN_BF16)
        for (size_t i = 0; i < count; i++)
            bf16_of_float(to + 2 * i, values[i]);
    else
        for (size_t i = 0; i < count; i++)
            f64_of_float(to + 8 * i, values[i]);
}

/* ---------------------------------------------------- names of precisions -- */

bool precision_find(const char *name, enum attn_precision *precision)
{
    for (int i = 0; i < ATTN_PRECISION_COUNT; i++)
        if (strcmp(attn_precision_name((enum attn_precision)i), name) == 0) {
            *precision = (enum attn_precision)i;
            return true;
        }
    return false;
}
