/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - see number.h. */
#include "number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A format of 16 bits: 1 sign, then the exponent, then digits of the mantissa. */
struct format {
    int digits;
    int exponent_min; /* of the least normal number */
};

static struct format format_of(enum attn_dtype dtype)
{
    return dtype == ATTN_F16 ? (struct format){ 10, -14 } : (struct format){ 7, -126 };
}

/* 2^exponent, of a normal double: ldexp() and ilogb() take most of the time of whole laws. */
static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The exponent of a finite number; less than that of any normal double if the number is less. */
static int exponent_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (int)(bits >> 52 & 0x7ff) - 1023;
}

static double from_bits(struct format format, unsigned bits)
{
    const unsigned field = (bits & 0x7fffu) >> format.digits;
    const unsigned mantissa = bits & ((1u << format.digits) - 1);
    const unsigned infinite = 0x7fffu >> format.digits;
    const int last_place = format.exponent_min - format.digits;
    double magnitude;
    if (field == infinite)
        magnitude = mantissa == 0 ? INFINITY : (double)NAN;
    else if (field == 0)
        magnitude = mantissa * power_of_two(last_place);
    else
        magnitude = ((1u << format.digits) + mantissa) * power_of_two((int)field - 1 + last_place);
    return bits & 0x8000u ? -magnitude : magnitude;
}

static unsigned to_bits(struct format format, double number)
{
    const unsigned sign = signbit(number) ? 0x8000u : 0;
    const unsigned infinite = 0x7fffu >> format.digits << format.digits;
    if (isnan(number))
        return sign | infinite | 1u << (format.digits - 1);
    if (isinf(number))
        return sign | infinite;
    const int own = exponent_of(number);
    const int exponent = own > format.exponent_min ? own : format.exponent_min;
    const double scaled = rint(fabs(number) * power_of_two(format.digits - exponent));
    /* The leading digit of a normal number adds one to the exponent's field, as it should. */
    const double bits = scaled + (double)(exponent - format.exponent_min) * (1 << format.digits);
    return sign | (bits > infinite ? infinite : (unsigned)bits);
}

double number_get(const void *data, enum attn_dtype dtype, int64_t index)
{
    switch (dtype) {
    case ATTN_F32:
        return (double)((const float *)data)[index];
    case ATTN_F64:
        return ((const double *)data)[index];
    case ATTN_F16:
    case ATTN_BF16:
        return from_bits(format_of(dtype), ((const uint16_t *)data)[index]);
    case ATTN_BOOL:
        return ((const unsigned char *)data)[index] != 0;
    case ATTN_I8: /* without its scale */
        return ((const int8_t *)data)[index];
    default: /* blocks have no numbers of their own */
        return (double)NAN;
    }
}

void number_set(void *data, enum attn_dtype dtype, int64_t index, double number)
{
    switch (dtype) {
    case ATTN_F32:
        ((float *)data)[index] = (float)number;
        break;
    case ATTN_F64:
        ((double *)data)[index] = number;
        break;
    case ATTN_F16:
    case ATTN_BF16:
        ((uint16_t *)data)[index] = (uint16_t)to_bits(format_of(dtype), number);
        break;
    case ATTN_BOOL:
        ((unsigned char *)data)[index] = number != 0;
        break;
    case ATTN_I8:
        ((int8_t *)data)[index] = (int8_t)number;
        break;
    default:
        break;
    }
}

static int64_t index_of(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l,
                        int64_t d)
{
    return b * tensor->stride[0] + h * tensor->stride[1] + l * tensor->stride[2]
           + d * tensor->stride[3];
}

double number_at(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d)
{
    return number_get(tensor->data, tensor->dtype, index_of(tensor, b, h, l, d));
}

void number_put(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d,
                double number)
{
    number_set(tensor->data, tensor->dtype, index_of(tensor, b, h, l, d), number);
}
