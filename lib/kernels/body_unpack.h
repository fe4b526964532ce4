/* body_unpack.h - the numbers of blocks as floats, a part of body.h.
 *
 * A block has the layout of ggml's, byte for byte: scales in binary16, integers of 2 to 8 bits, of
 * which neighbours in a byte are 16 or 32 numbers apart. An integer times its scales needs at most
 * 24 bits, so each product here is exact, in any order and with or without a multiply-add, and
 * every table gives the same bits. Loops are plain C, as the compiler makes vectors of them. */
#ifndef ATTN_BODY_UNPACK_H
#define ATTN_BODY_UNPACK_H

#include "kernels.h"
#include "vector.h"

#include <string.h>

/* The numbers of one block of the kind, and its bytes. */
INLINE int64_t block_numbers(const enum attn_blocks blocks)
{
    static const int64_t NUMBERS[] = {
#define X(NAME, name, numbers, bytes) numbers,
        ATTN_BLOCKS_MAP(X)
#undef X
    };
    return NUMBERS[blocks];
}

INLINE int64_t block_bytes(const enum attn_blocks blocks)
{
    static const int64_t BYTES[] = {
#define X(NAME, name, numbers, bytes) bytes,
        ATTN_BLOCKS_MAP(X)
#undef X
    };
    return BYTES[blocks];
}

/* The values of the integers of IQ4_NL and IQ4_XS; and twice those of FP4 (E2M1), which has two
 * zeros. */
static const int8_t VALUES_NL[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113 };
static const int8_t VALUES_FP4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* One number of binary16; a subnormal is a multiple of 2^-24. */
INLINE float scale_at(const uint8_t *bytes)
{
    const uint32_t half = bytes[0] | (uint32_t)bytes[1] << 8;
    const uint32_t magnitude = half & 0x7fff, sign = (half & 0x8000) << 16;
    uint32_t bits = (magnitude << 13) + (magnitude >= 0x7c00 ? (255 - 31) << 23 : (127 - 15) << 23);
    float number;

    if (magnitude < 0x0400) {
        const float tiny = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &tiny, sizeof bits);
    }
    bits |= sign;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* 2^(e - 128), as half of the scale 2^(e - 127) (E8M0). */
INLINE float half_power_at(const uint8_t *byte)
{
    const uint32_t e = *byte, bits = e < 2 ? UINT32_C(0x00200000) << e : (e - 1) << 23;
    float number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

/* ----------------------------------------------------------------------- blocks of 32 numbers --
 */

static void unpack_block_q8_0(float *to, const uint8_t *block)
{
    const float scale = scale_at(block);
    for (int i = 0; i < 32; i++)
        to[i] = (float)(int8_t)block[2 + i] * scale;
}

static void unpack_block_q4_0(float *to, const uint8_t *block)
{
    const float scale = scale_at(block);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)((block[2 + i] & 15) - 8) * scale;
        to[i + 16] = (float)((block[2 + i] >> 4) - 8) * scale;
    }
}

static void unpack_block_q4_1(float *to, const uint8_t *block)
{
    const float scale = scale_at(block), least = scale_at(block + 2);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)(block[4 + i] & 15) * scale + least;
        to[i + 16] = (float)(block[4 + i] >> 4) * scale + least;
    }
}

/* The fifth bits of the 32 integers lie in four bytes. */
INLINE uint32_t bits_at(const uint8_t *bytes)
{
    uint32_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return bits;
}

static void unpack_block_q5_0(float *to, const uint8_t *block)
{
    const float scale = scale_at(block);
    const uint32_t bits = bits_at(block + 2);
    for (int i = 0; i < 16; i++) {
        const int low = (block[6 + i] & 15) | (int)(bits >> i & 1) << 4;
        const int high = block[6 + i] >> 4 | (int)(bits >> (i + 16) & 1) << 4;
        to[i] = (float)(low - 16) * scale;
        to[i + 16] = (float)(high - 16) * scale;
    }
}

static void unpack_block_q5_1(float *to, const uint8_t *block)
{
    const float scale = scale_at(block), least = scale_at(block + 2);
    const uint32_t bits = bits_at(block + 4);
    for (int i = 0; i < 16; i++) {
        const int low = (block[8 + i] & 15) | (int)(bits >> i & 1) << 4;
        const int high = block[8 + i] >> 4 | (int)(bits >> (i + 16) & 1) << 4;
        to[i] = (float)low * scale + least;
        to[i + 16] = (float)high * scale + least;
    }
}

INLINE void unpack_values(float *to, const uint8_t *bytes, const int8_t values[16], float scale)
{
    for (int i = 0; i < 16; i++) {
        to[i] = (float)values[bytes[i] & 15] * scale;
        to[i + 16] = (float)values[bytes[i] >> 4] * scale;
    }
}

static void unpack_block_iq4_nl(float *to, const uint8_t *block)
{
    unpack_values(to, block + 2, VALUES_NL, scale_at(block));
}

static void unpack_block_mxfp4(float *to, const uint8_t *block)
{
    unpack_values(to, block + 1, VALUES_FP4, half_power_at(block));
}

/* ---------------------------------------------------------------------- blocks of 256 numbers --
 */

/* A byte of integers of two bits has numbers i, i + 32, i + 64 and i + 96 of its half block; 16
 * numbers have one scale. */
static void unpack_block_q2_k(float *to, const uint8_t *block)
{
    const uint8_t *bytes = block + 16;
    const float scale = scale_at(block + 80), least = scale_at(block + 82);

    for (int group = 0; group < 16; group++) {
        const int first = group / 8 * 32 + group % 2 * 16, shift = group % 8 / 2 * 2;
        const float by = scale * (float)(block[group] & 15),
                    less = least * (float)(block[group] >> 4);
        for (int i = 0; i < 16; i++)
            to[group * 16 + i] = (float)(bytes[first + i] >> shift & 3) * by - less;
    }
}

/* The scale of a group: its four low bits lie in bytes 0 to 7, the two high bits in 8 to 11. */
INLINE int scale_of_q3_k(const uint8_t *scales, int group)
{
    const int low = scales[group % 8] >> group / 8 * 4 & 15;
    const int high = scales[8 + group % 4] >> group / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

static void unpack_block_q3_k(float *to, const uint8_t *block)
{
    const uint8_t *high = block, *low = block + 32, *scales = block + 96;
    const float scale = scale_at(block + 108);

    for (int group = 0; group < 16; group++) {
        const int first = group % 2 * 16, shift = group % 8 / 2 * 2;
        const float by = scale * (float)scale_of_q3_k(scales, group);
        for (int i = 0; i < 16; i++) {
            const int two = low[group / 8 * 32 + first + i] >> shift & 3;
            const int bit = high[first + i] >> group / 2 & 1;
            to[group * 16 + i] = (float)((two | bit << 2) - 4) * by;
        }
    }
}

/* Scale and least number of a group of 32, six bits each: of groups 0 to 3 the low bits of bytes 0
 * to 7; of the others bytes 8 to 11 have four bits, and the first bytes' upper two the rest. */
struct scales_k {
    float by, less;
};

INLINE struct scales_k scales_of_k(const uint8_t *block, int group)
{
    const uint8_t *scales = block + 4;
    const float scale = scale_at(block), least = scale_at(block + 2);
    const int at = group % 4;
    const int by = group < 4 ? scales[at] & 63 : (scales[at + 8] & 15) | scales[at] >> 6 << 4;
    const int less =
        group < 4 ? scales[at + 4] & 63 : scales[at + 8] >> 4 | scales[at + 4] >> 6 << 4;
    return (struct scales_k){ scale * (float)by, least * (float)less };
}

static void unpack_block_q4_k(float *to, const uint8_t *block)
{
    for (int group = 0; group < 8; group++) {
        const uint8_t *bytes = block + 16 + group / 2 * 32;
        const struct scales_k scales = scales_of_k(block, group);
        const int shift = group % 2 * 4;
        for (int i = 0; i < 32; i++)
            to[group * 32 + i] = (float)(bytes[i] >> shift & 15) * scales.by - scales.less;
    }
}

static void unpack_block_q5_k(float *to, const uint8_t *block)
{
    for (int group = 0; group < 8; group++) {
        const uint8_t *high = block + 16, *bytes = block + 48 + group / 2 * 32;
        const struct scales_k scales = scales_of_k(block, group);
        const int shift = group % 2 * 4;
        for (int i = 0; i < 32; i++) {
            const int integer = (bytes[i] >> shift & 15) | (high[i] >> group & 1) << 4;
            to[group * 32 + i] = (float)integer * scales.by - scales.less;
        }
    }
}

/* 16 numbers have one scale. */
static void unpack_block_q6_k(float *to, const uint8_t *block)
{
    const int8_t *scales = (const int8_t *)block + 192;
    const float scale = scale_at(block + 208);

    for (int group = 0; group < 16; group++) {
        const int half = group / 8, quarter = group % 8 / 2, first = group % 2 * 16;
        const uint8_t *low = block + half * 64 + quarter % 2 * 32 + first;
        const uint8_t *high = block + 128 + half * 32 + first;
        const float by = scale * (float)scales[group];
        for (int i = 0; i < 16; i++) {
            const int four = low[i] >> quarter / 2 * 4 & 15, two = high[i] >> quarter * 2 & 3;
            to[group * 16 + i] = (float)((four | two << 4) - 32) * by;
        }
    }
}

static void unpack_block_iq4_xs(float *to, const uint8_t *block)
{
    const float scale = scale_at(block);
    const int high = block[2] | block[3] << 8;

    for (int group = 0; group < 8; group++) {
        const int low = block[4 + group / 2] >> group % 2 * 4 & 15;
        const int by = (low | (high >> 2 * group & 3) << 4) - 32;
        unpack_values(to + group * 32, block + 8 + group * 16, VALUES_NL, scale * (float)by);
    }
}

/* ------------------------------------------------------------------------- kernels of kernels.h --
 */

#define X(NAME, name, numbers, bytes)                                                              \
    static void unpack_##name(float *to, const void *blocks, int64_t count)                        \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            unpack_block_##name(to + i * (numbers), (const uint8_t *)blocks + i * (bytes));        \
    }
ATTN_BLOCKS_MAP(X)
#undef X

#endif
