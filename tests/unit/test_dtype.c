/* SPDX-License-Identifier: Apache-2.0 */
/* test_dtype.c - numbers of other dtypes, against doubles. */
#include "base/dtype.h"
#include "fill.h"
#include "test.h"

/* The value of sixteen bits by the definition of the format: exponent_bits and a fraction. */
static double value_of(uint16_t bits, int exponent_bits)
{
    const int fraction_bits = 15 - exponent_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits & 0x7FFF) >> fraction_bits;
    const double fraction = bits & ((1 << fraction_bits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias);
}

static const struct {
    enum attn_dtype dtype;
    int exponent_bits;
} HALVES[] = { { ATTN_F16, 5 }, { ATTN_BF16, 8 } };

TEST(every_half_reads_and_writes_back)
{
    for (size_t h = 0; h < 2; h++)
        for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
            const uint16_t half = (uint16_t)bits;
            const double want = value_of(half, HALVES[h].exponent_bits);
            float value;
            uint16_t back;
            dtype_read(&value, &half, HALVES[h].dtype, 1);
            dtype_write(&back, HALVES[h].dtype, &value, 1);
            if (isnan(want)) {
                assert_true(isnan(value));
                assert_true(isnan(value_of(back, HALVES[h].exponent_bits)));
            } else {
                assert_true((double)value == want && !signbit(value) == !signbit(want));
                assert_int_equal(back, half);
            }
        }
}

/* Whether half is the value nearest to value; of two equally near values the even one is right.
 * A value that lies half a unit or more above the largest number becomes infinite. */
static bool is_nearest(double value, uint16_t half, int exponent_bits)
{
    const uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits));
    const uint16_t magnitude = half & 0x7FFF, sign = half & 0x8000;
    if (!isnan(value) && (signbit(value) != 0) != (sign != 0))
        return false;
    const double size = fabs(value), got = fabs(value_of(magnitude, exponent_bits));
    const double largest = value_of((uint16_t)(infinity - 1), exponent_bits);
    const double unit = largest - value_of((uint16_t)(infinity - 2), exponent_bits);
    if (size >= largest)
        return magnitude == (size >= largest + unit / 2 ? infinity : infinity - 1);
    const double below =
        magnitude > 0 ? value_of((uint16_t)(magnitude - 1), exponent_bits) : -got - 1;
    const double above = value_of((uint16_t)(magnitude + 1), exponent_bits);
    const double error = fabs(size - got);
    const bool even = magnitude % 2 == 0;
    const double error_above = isinf(above) ? largest + unit - size : above - size;
    return (error < size - below || (even && error == size - below))
           && (error < error_above || (even && error == error_above));
}

TEST(floats_become_the_nearest_half)
{
    struct fill fill = { 7 };
    for (int i = 0; i < 400000; i++) {
        uint32_t bits = (uint32_t)(fill_bits(&fill) >> 32);
        if (i % 2 == 0) /* about the range of F16 */
            bits = (bits & 0x80000000) | (0x32000000 + (bits & 0x7FFFFFFF) % 0x16000000);
        if (i % 4 == 0)
            bits &= 0xFFFFF000; /* halfway cases of F16 */
        if (i % 4 == 1)
            bits = (bits & 0xFFFF0000) | 0x8000; /* and of BF16 */
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value))
            continue;
        for (size_t h = 0; h < 2; h++) {
            uint16_t half;
            dtype_write(&half, HALVES[h].dtype, &value, 1);
            if (!is_nearest((double)value, half, HALVES[h].exponent_bits))
                fail_msg("%a became %04x of %d exponent bits", (double)value, half,
                         HALVES[h].exponent_bits);
        }
    }
}

TEST(the_edges_of_f16)
{
    static const struct {
        float value;
        uint16_t half;
    } edges[] = {
        { 65504, 0x7BFF },        { 65519.99f, 0x7BFF }, { 65520, 0x7C00 },
        { 1e30f, 0x7C00 },        { 0x1p-24f, 0x0001 },  { 0x1p-25f, 0x0000 },
        { 0x1.8p-25f, 0x0001 },   { 0x1p-14f, 0x0400 },  { 0x1.FF8p-15f, 0x03FF },
        { 0x1.FFCp-15f, 0x0400 }, { -0.0f, 0x8000 },     { -65520, 0xFC00 },
        { 1.0f, 0x3C00 },
    };
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        uint16_t half;
        dtype_write(&half, ATTN_F16, &edges[i].value, 1);
        assert_int_equal(half, edges[i].half);
    }
}

TEST(doubles_and_booleans)
{
    unsigned char bytes[1 + 3 * sizeof(double)];
    const double doubles[] = { 1.0 / 3.0, 1e300, -0.0 };
    const unsigned char booleans[] = { 0, 1 };
    float values[3];
    memcpy(bytes + 1, doubles, sizeof doubles); /* at an odd address */
    dtype_read(values, bytes + 1, ATTN_F64, 3);
    assert_true(values[0] == 1.0f / 3.0f);
    assert_true(isinf(values[1]));
    assert_true(signbit(values[2]));
    dtype_read(values, booleans, ATTN_BOOL, 2);
    assert_true(values[0] == 0 && values[1] == 1);
    double wide;
    dtype_write(&wide, ATTN_F64, values + 1, 1);
    assert_true(wide == 1);
}

TEST(names)
{
    enum attn_dtype dtype;
    assert_true(dtype_find("BF16", &dtype) && dtype == ATTN_BF16);
    assert_true(dtype_find("BOOL", &dtype) && dtype == ATTN_BOOL);
    assert_false(dtype_find("I64", &dtype));
    assert_false(dtype_find("", &dtype));
}
