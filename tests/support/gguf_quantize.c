/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_quantize.c - see gguf_quantize.h. */
#include "gguf_quantize.h"
#include "number.h"
#include "quantize.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { BLOCK = 32, SUPER = 256 };

/* Writes a number as a half, and returns the number that it became. */
static double put_half(unsigned char *to, double number)
{
    number_set(to, ATTN_F16, 0, number);
    return number_get(to, ATTN_F16, 0);
}

/* The nearest integer to number / scale, from low to high. */
static int level(double number, double scale, int low, int high)
{
    const double nearest = scale != 0 ? rint(number / scale) : 0;
    return nearest < low ? low : nearest > high ? high : (int)nearest;
}

/* The number of the largest magnitude. */
static double extreme(const float *values, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        if (fabs(values[i]) > fabs(most))
            most = values[i];
    return most;
}

static void range(const float *values, int count, double *low, double *high)
{
    *low = *high = values[0];
    for (int i = 1; i < count; i++) {
        *low = fmin(*low, values[i]);
        *high = fmax(*high, values[i]);
    }
}

/* --------------------------------------------------------- blocks of 32 -- */

/* Two levels of four bits in a byte: element i and element i + 16. */
static void put_nibbles(unsigned char *to, const int *levels)
{
    for (int i = 0; i < BLOCK / 2; i++)
        to[i] = (unsigned char)((levels[i] & 15) | (levels[i + BLOCK / 2] & 15) << 4);
}

static void put_fifth_bits(unsigned char *to, const int *levels)
{
    memset(to, 0, BLOCK / 8);
    for (int i = 0; i < BLOCK; i++)
        to[i / 8] |= (unsigned char)((levels[i] >> 4 & 1) << i % 8);
}

/* Q4_0 and Q5_0: a scale, and levels around the middle. */
static void centred(const float *values, unsigned char *block, int bits)
{
    const int half = 1 << (bits - 1);
    const double scale = put_half(block, extreme(values, BLOCK) / -half);
    int levels[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        levels[i] = level(values[i], scale, -half, half - 1) + half;
    if (bits == 5)
        put_fifth_bits(block + 2, levels);
    put_nibbles(block + (bits == 5 ? 6 : 2), levels);
}

/* Q4_1 and Q5_1: a scale, and levels from the least number on. */
static void shifted(const float *values, unsigned char *block, int bits)
{
    const int most = (1 << bits) - 1;
    double low, high;
    range(values, BLOCK, &low, &high);
    const double scale = put_half(block, (high - low) / most), least = put_half(block + 2, low);
    int levels[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        levels[i] = level(values[i] - least, scale, 0, most);
    if (bits == 5)
        put_fifth_bits(block + 4, levels);
    put_nibbles(block + (bits == 5 ? 8 : 4), levels);
}

static void eight_bits(const float *values, unsigned char *block)
{
    const double scale = put_half(block, fabs(extreme(values, BLOCK)) / 127);
    for (int i = 0; i < BLOCK; i++)
        block[2 + i] = (unsigned char)level(values[i], scale, -127, 127);
}

/* The place of the nearest of 16 numbers. */
static int nearest(const signed char *table, double number)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        if (fabs(number - table[i]) < fabs(number - table[best]))
            best = i;
    return best;
}

static const signed char NON_LINEAR[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113 };
static const signed char DOUBLED_FP4[16] = {
    0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
};

static void table_levels(const float *values, double scale, const signed char *table, int *levels)
{
    for (int i = 0; i < BLOCK; i++)
        levels[i] = nearest(table, scale != 0 ? values[i] / scale : 0);
}

static void non_linear(const float *values, unsigned char *block)
{
    const double scale = put_half(block, extreme(values, BLOCK) / -127);
    int levels[BLOCK];
    table_levels(values, scale, NON_LINEAR, levels);
    put_nibbles(block + 2, levels);
}

/* The scale is a power of two, and half of it counts levels of the doubled table. */
static void microscaled(const float *values, unsigned char *block)
{
    const double most = fabs(extreme(values, BLOCK));
    const int exponent = most > 0 ? ilogb(most) - 2 : -127;
    int levels[BLOCK];
    block[0] = (unsigned char)(exponent + 127);
    table_levels(values, ldexp(1, exponent - 1), DOUBLED_FP4, levels);
    put_nibbles(block + 1, levels);
}

/* -------------------------------------------------------- blocks of 256 -- */

/* Levels of two bits: 4 elements in a byte, 32 apart, in each half of the block. */
static void put_pairs_of_bits(unsigned char *to, const int *levels)
{
    for (int i = 0; i < SUPER / 4; i++) {
        const int *first = levels + i / 32 * 128 + i % 32;
        to[i] = (unsigned char)((first[0] & 3) | (first[32] & 3) << 2 | (first[64] & 3) << 4
                                | (first[96] & 3) << 6);
    }
}

/* Q2_K: 16 runs with a scale and a minimum of four bits each. */
static void two_bits(const float *values, unsigned char *block)
{
    double scales[16], minima[16], scale_max = 0, minimum_max = 0;
    int levels[SUPER];
    for (int i = 0; i < 16; i++) {
        double low, high;
        range(values + 16 * i, 16, &low, &high);
        minima[i] = fmax(-low, 0);
        scales[i] = fmax(high + minima[i], 0) / 3;
        scale_max = fmax(scale_max, scales[i]);
        minimum_max = fmax(minimum_max, minima[i]);
    }
    const double scale = put_half(block + 80, scale_max / 15);
    const double minimum = put_half(block + 82, minimum_max / 15);
    for (int i = 0; i < 16; i++) {
        const int s = level(scales[i], scale, 0, 15), m = level(minima[i], minimum, 0, 15);
        block[i] = (unsigned char)(s | m << 4);
        for (int j = 16 * i; j < 16 * i + 16; j++)
            levels[j] = level(values[j] + minimum * m, scale * s, 0, 3);
    }
    put_pairs_of_bits(block + 16, levels);
}

/* The levels of runs with a signed scale, low to high; returns the scale of the scales. */
static double signed_runs(const float *values, int run, int most, int scale_half, int *scales,
                          unsigned char *place)
{
    double wanted[16], largest = 0;
    for (int i = 0; i < SUPER / run; i++) {
        wanted[i] = extreme(values + run * i, run) / -most;
        if (fabs(wanted[i]) > fabs(largest))
            largest = wanted[i];
    }
    const double scale = put_half(place, largest / -scale_half);
    for (int i = 0; i < SUPER / run; i++)
        scales[i] = level(wanted[i], scale, -scale_half, scale_half - 1);
    return scale;
}

/* Q3_K: 16 runs with a scale of six bits; levels of three bits, the third inverted and apart. */
static void three_bits(const float *values, unsigned char *block)
{
    int scales[16], levels[SUPER];
    const double scale = signed_runs(values, 16, 4, 32, scales, block + 108);
    memset(block, 0, 32);
    memset(block + 96, 0, 12);
    for (int i = 0; i < 16; i++) {
        const int s = scales[i] + 32;
        block[96 + i % 8] |= (unsigned char)((s & 15) << (i < 8 ? 0 : 4));
        block[104 + i % 4] |= (unsigned char)(s >> 4 << 2 * (i / 4));
        for (int j = 16 * i; j < 16 * i + 16; j++) {
            levels[j] = level(values[j], scale * scales[i], -4, 3) + 4;
            block[j % 32] |= (unsigned char)(levels[j] >> 2 << j / 32);
        }
    }
    put_pairs_of_bits(block + 32, levels);
}

/* Eight scales and eight minima of six bits in twelve bytes. */
static void put_six_bits(unsigned char *to, const int *scales, const int *minima)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (unsigned char)(scales[i] | scales[i + 4] >> 4 << 6);
        to[i + 4] = (unsigned char)(minima[i] | minima[i + 4] >> 4 << 6);
        to[i + 8] = (unsigned char)((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
    }
}

/* Q4_K and Q5_K: 8 runs with a scale and a minimum of six bits each. */
static void four_bits(const float *values, unsigned char *block, int bits)
{
    const int most = (1 << bits) - 1;
    double wanted[8], lowest[8], scale_max = 0, minimum_max = 0;
    int scales[8], minima[8];
    unsigned char *const low_bits = block + (bits == 5 ? 48 : 16);
    for (int i = 0; i < 8; i++) {
        double low, high;
        range(values + 32 * i, 32, &low, &high);
        lowest[i] = fmax(-low, 0);
        wanted[i] = fmax(high + lowest[i], 0) / most;
        scale_max = fmax(scale_max, wanted[i]);
        minimum_max = fmax(minimum_max, lowest[i]);
    }
    const double scale = put_half(block, scale_max / 63);
    const double minimum = put_half(block + 2, minimum_max / 63);
    memset(block + 16, 0, bits == 5 ? 160 : 128);
    for (int i = 0; i < 8; i++) {
        scales[i] = level(wanted[i], scale, 0, 63);
        minima[i] = level(lowest[i], minimum, 0, 63);
        for (int j = 0; j < 32; j++) {
            const int l =
                level(values[32 * i + j] + minimum * minima[i], scale * scales[i], 0, most);
            low_bits[i / 2 * 32 + j] |= (unsigned char)((l & 15) << 4 * (i % 2));
            if (bits == 5)
                block[16 + j] |= (unsigned char)(l >> 4 << i);
        }
    }
    put_six_bits(block + 4, scales, minima);
}

/* Q6_K: 16 runs with a scale of eight bits. */
static void six_bits(const float *values, unsigned char *block)
{
    int scales[16];
    const double scale = signed_runs(values, 16, 32, 128, scales, block + 208);
    memset(block, 0, 192);
    for (int i = 0; i < SUPER; i++) {
        const int l = level(values[i], scale * scales[i / 16], -32, 31) + 32;
        const int half = i / 128, quarter = i % 128 / 32, column = i % 32;
        block[64 * half + 32 * (quarter % 2) + column] |=
            (unsigned char)((l & 15) << 4 * (quarter / 2));
        block[128 + 32 * half + column] |= (unsigned char)(l >> 4 << 2 * quarter);
    }
    for (int i = 0; i < 16; i++)
        block[192 + i] = (unsigned char)scales[i];
}

/* IQ4_XS: 8 runs with a scale of six bits; levels of a table. */
static void non_linear_runs(const float *values, unsigned char *block)
{
    int scales[8], levels[BLOCK];
    unsigned high = 0;
    const double scale = signed_runs(values, 32, 127, 32, scales, block);
    memset(block + 4, 0, 4);
    for (int i = 0; i < 8; i++) {
        const int s = scales[i] + 32;
        block[4 + i / 2] |= (unsigned char)((s & 15) << 4 * (i % 2));
        high |= (unsigned)s >> 4 << 2 * i;
        table_levels(values + 32 * i, scale * scales[i], NON_LINEAR, levels);
        put_nibbles(block + 8 + 16 * i, levels);
    }
    block[2] = (unsigned char)high;
    block[3] = (unsigned char)(high >> 8);
}

/* ------------------------------------------------------------------- types -- */

enum kind {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    BF16,
    MXFP4,
    KIND_COUNT
};

static const struct gguf_block TYPES[KIND_COUNT] = {
    [F32] = { "F32", 0, 1, 4 },          [F16] = { "F16", 1, 1, 2 },
    [Q4_0] = { "Q4_0", 2, 32, 18 },      [Q4_1] = { "Q4_1", 3, 32, 20 },
    [Q5_0] = { "Q5_0", 6, 32, 22 },      [Q5_1] = { "Q5_1", 7, 32, 24 },
    [Q8_0] = { "Q8_0", 8, 32, 34 },      [Q2_K] = { "Q2_K", 10, 256, 84 },
    [Q3_K] = { "Q3_K", 11, 256, 110 },   [Q4_K] = { "Q4_K", 12, 256, 144 },
    [Q5_K] = { "Q5_K", 13, 256, 176 },   [Q6_K] = { "Q6_K", 14, 256, 210 },
    [IQ4_NL] = { "IQ4_NL", 20, 32, 18 }, [IQ4_XS] = { "IQ4_XS", 23, 256, 136 },
    [BF16] = { "BF16", 30, 1, 2 },       [MXFP4] = { "MXFP4", 39, 32, 17 },
};

const struct gguf_block *gguf_block_at(int i)
{
    return i < KIND_COUNT ? &TYPES[i] : NULL;
}

const struct gguf_block *gguf_block(const char *name)
{
    int i = 0;
    while (i < KIND_COUNT && strcmp(TYPES[i].name, name) != 0)
        i++;
    return gguf_block_at(i);
}

static void quantize_block(enum kind kind, const float *values, unsigned char *block)
{
    switch (kind) {
    case F32:
        memcpy(block, values, sizeof *values);
        break;
    case F16:
        put_half(block, values[0]);
        break;
    case BF16:
        number_set(block, ATTN_BF16, 0, values[0]);
        break;
    case Q4_0:
        centred(values, block, 4);
        break;
    case Q4_1:
        shifted(values, block, 4);
        break;
    case Q5_0:
        centred(values, block, 5);
        break;
    case Q5_1:
        shifted(values, block, 5);
        break;
    case Q8_0:
        eight_bits(values, block);
        break;
    case Q2_K:
        two_bits(values, block);
        break;
    case Q3_K:
        three_bits(values, block);
        break;
    case Q4_K:
        four_bits(values, block, 4);
        break;
    case Q5_K:
        four_bits(values, block, 5);
        break;
    case Q6_K:
        six_bits(values, block);
        break;
    case IQ4_NL:
        non_linear(values, block);
        break;
    case IQ4_XS:
        non_linear_runs(values, block);
        break;
    case MXFP4:
        microscaled(values, block);
        break;
    case KIND_COUNT:
        break;
    }
}

void gguf_quantize(const struct gguf_block *type, const float *values, int64_t count, void *blocks)
{
    unsigned char *block = blocks;
    for (int64_t i = 0; i < count; i += type->count, block += type->bytes)
        quantize_block((enum kind)(type - TYPES), values + i, block);
}

void gguf_widen(const struct gguf_block *type, const void *blocks, int64_t count, float *values)
{
    static const struct {
        const char *name;
        enum attn_dtype dtype;
    } DTYPES[] = {
#define X(NAME, numbers, bytes) { #NAME, ATTN_##NAME },
        ATTN_BLOCK_MAP(X)
#undef X
    };
    const enum kind kind = (enum kind)(type - TYPES);
    if (type->count == 1) {
        const enum attn_dtype dtype = kind == F32 ? ATTN_F32 : kind == F16 ? ATTN_F16 : ATTN_BF16;
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)number_get(blocks, dtype, i);
        return;
    }
    int i = 0;
    while (strcmp(DTYPES[i].name, type->name) != 0)
        i++;
    attn_unpack(DTYPES[i].dtype, blocks, count / type->count, values);
}
