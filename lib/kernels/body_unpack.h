/* SPDX-License-Identifier: Apache-2.0 */
/* body_unpack.h - the numbers of blocks as floats, a part of body.h.
 *
 * A block has the layout of ggml's, byte for byte: scales in binary16, integers of 2 to 8 bits, of
 * which neighbours in a byte are 16 or 32 numbers apart. An integer times its scales needs at most
 * 24 bits, so each product here is exact, in any order and with or without a multiply-add, and
 * every table gives the same bits. Loops are plain C, as the compiler makes vectors of them. */
#ifndef ATTN_BODY_UNPACK_H
#define ATTN_BODY_UNPACK_H

#include "kernels.h"
#include "numbers.h"
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

/* ------------------------------------------------------------------------------------ integers --
 */

typedef uint8_t sixteen_bytes __attribute__((vector_size(16)));

/* Numbers i and i + half of a run share byte i; zero is the nibble of the number 0. */
INLINE void integers_of_nibbles(int8_t *to, const uint8_t *bytes, const int half,
                                const uint8_t zero)
{
    UNROLL
    for (int i = 0; i < half; i += 16) {
        sixteen_bytes both;
        memcpy(&both, bytes + i, sizeof both);
        const sixteen_bytes low = (both & 15) - zero, high = (both >> 4) - zero;
        memcpy(to + i, &low, sizeof low);
        memcpy(to + half + i, &high, sizeof high);
    }
}

INLINE void integers_q8_0(int8_t *to, const uint8_t *block)
{
    memcpy(to, block + 2, 32);
}

INLINE void integers_q4_0(int8_t *to, const uint8_t *block)
{
    integers_of_nibbles(to, block + 2, 16, 8);
}

INLINE void integers_q4_1(int8_t *to, const uint8_t *block)
{
    integers_of_nibbles(to, block + 4, 16, 0);
}

/* Bytes 0 and 1 eight times each, or 2 and 3. SSE2 can but interleave bytes. */
INLINE sixteen_bytes eight_times(sixteen_bytes bytes, const bool is_high)
{
#if defined(__SSE2__) && !defined(__SSSE3__)
    bytes = __builtin_shufflevector(bytes, bytes, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    bytes = __builtin_shufflevector(bytes, bytes, 0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7);
    return is_high ? __builtin_shufflevector(bytes, bytes, 8, 9, 10, 11, 8, 9, 10, 11, 12, 13, 14,
                                             15, 12, 13, 14, 15)
                   : __builtin_shufflevector(bytes, bytes, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5,
                                             6, 7);
#else
    return is_high ? __builtin_shufflevector(bytes, bytes, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3,
                                             3, 3)
                   : __builtin_shufflevector(bytes, bytes, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1,
                                             1, 1);
#endif
}

/* 32 integers of 5 bits less zero: nibbles of 16 bytes, first all low ones, and the bits of four
 * bytes before them in the same order. */
INLINE void integers_of_fifths(int8_t *to, const uint8_t *bits, const uint8_t zero)
{
    static const sixteen_bytes PLACES = {
        1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128
    };
    sixteen_bytes both, all;

    memcpy(&all, bits, sizeof all);
    memcpy(&both, bits + 4, sizeof both);
    const sixteen_bytes low = (sixteen_bytes)((eight_times(all, false) & PLACES) != 0) & 16;
    const sixteen_bytes high = (sixteen_bytes)((eight_times(all, true) & PLACES) != 0) & 16;
    const sixteen_bytes first = ((both & 15) | low) - zero, second = (both >> 4 | high) - zero;
    memcpy(to, &first, sizeof first);
    memcpy(to + 16, &second, sizeof second);
}

INLINE void integers_q5_0(int8_t *to, const uint8_t *block)
{
    integers_of_fifths(to, block + 2, 16);
}

INLINE void integers_q5_1(int8_t *to, const uint8_t *block)
{
    integers_of_fifths(to, block + 4, 0);
}

/* A byte has two bits of numbers i, i + 32, i + 64 and i + 96 of half a block. */
INLINE void integers_of_pairs(int8_t *to, const uint8_t *bytes)
{
    UNROLL
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++)
            to[run * 32 + i] = (int8_t)(bytes[run / 4 * 32 + i] >> run % 4 * 2 & 3);
}

INLINE void integers_q2_k(int8_t *to, const uint8_t *block)
{
    integers_of_pairs(to, block + 16);
}

/* Bit run of byte i is the third bit of number i of that run of 32. */
INLINE void integers_q3_k(int8_t *to, const uint8_t *block)
{
    UNROLL
    for (int run = 0; run < 8; run++) {
        const uint8_t *low = block + 32 + run / 4 * 32;
        for (int i = 0; i < 32; i++)
            to[run * 32 + i] =
                (int8_t)(((low[i] >> run % 4 * 2 & 3) | (block[i] >> run & 1) << 2) - 4);
    }
}

INLINE void integers_q4_k(int8_t *to, const uint8_t *block)
{
    for (int run = 0; run < 4; run++)
        integers_of_nibbles(to + run * 64, block + 16 + run * 32, 32, 0);
}

/* The fifth bit, in the same way. */
INLINE void integers_q5_k(int8_t *to, const uint8_t *block)
{
    UNROLL
    for (int run = 0; run < 8; run++) {
        const uint8_t *low = block + 48 + run / 2 * 32, *high = block + 16;
        for (int i = 0; i < 32; i++)
            to[run * 32 + i] = (int8_t)((low[i] >> run % 2 * 4 & 15) | (high[i] >> run & 1) << 4);
    }
}

/* The low four bits of half a block lie in 64 bytes, the high two in 32. */
INLINE void integers_q6_k(int8_t *to, const uint8_t *block)
{
    UNROLL
    for (int run = 0; run < 8; run++) {
        const uint8_t *low = block + run / 4 * 64 + run % 2 * 32,
                      *high = block + 128 + run / 4 * 32;
        for (int i = 0; i < 32; i++)
            to[run * 32 + i] =
                (int8_t)(((low[i] >> run % 4 / 2 * 4 & 15) | (high[i] >> run % 4 * 2 & 3) << 4)
                         - 32);
    }
}

INLINE void integers_of_values(int8_t *to, const uint8_t *bytes, const int8_t values[16])
{
    for (int i = 0; i < 16; i++) {
        to[i] = values[bytes[i] & 15];
        to[i + 16] = values[bytes[i] >> 4];
    }
}

INLINE void integers_iq4_nl(int8_t *to, const uint8_t *block)
{
    integers_of_values(to, block + 2, VALUES_NL);
}

INLINE void integers_iq4_xs(int8_t *to, const uint8_t *block)
{
    for (int run = 0; run < 8; run++)
        integers_of_values(to + run * 32, block + 8 + run * 16, VALUES_NL);
}

INLINE void integers_mxfp4(int8_t *to, const uint8_t *block)
{
    integers_of_values(to, block + 1, VALUES_FP4);
}

/* -------------------------------------------------------------------------------------- scales --
 */

/* Those of the groups of a block. */
struct block_scales {
    float by[16], less[16];
};

INLINE void scales_one(struct block_scales *scales, float by, float less)
{
    scales->by[0] = by;
    scales->less[0] = less;
}

#define SCALES_ONE(name, by, less)                                                                 \
    INLINE void scales_##name(struct block_scales *scales, const uint8_t *block)                   \
    {                                                                                              \
        scales_one(scales, by, less);                                                              \
    }
SCALES_ONE(q8_0, scale_at(block), 0.0f)
SCALES_ONE(q4_0, scale_at(block), 0.0f)
SCALES_ONE(q4_1, scale_at(block), -scale_at(block + 2))
SCALES_ONE(q5_0, scale_at(block), 0.0f)
SCALES_ONE(q5_1, scale_at(block), -scale_at(block + 2))
SCALES_ONE(iq4_nl, scale_at(block), 0.0f)
SCALES_ONE(mxfp4, half_power_at(block), 0.0f)

INLINE void scales_q2_k(struct block_scales *scales, const uint8_t *block)
{
    const float by = scale_at(block + 80), less = scale_at(block + 82);
    for (int group = 0; group < 16; group++) {
        scales->by[group] = by * (float)(block[group] & 15);
        scales->less[group] = less * (float)(block[group] >> 4);
    }
}

/* Four low bits of a group's scale lie in bytes 0 to 7, two high ones in bytes 8 to 11. */
INLINE void scales_q3_k(struct block_scales *scales, const uint8_t *block)
{
    const uint8_t *bytes = block + 96;
    const float by = scale_at(block + 108);
    for (int group = 0; group < 16; group++) {
        const int low = bytes[group % 8] >> group / 8 * 4 & 15;
        const int high = bytes[8 + group % 4] >> group / 4 * 2 & 3;
        scales->by[group] = by * (float)((low | high << 4) - 32);
        scales->less[group] = 0.0f;
    }
}

/* Six bits each: of groups 0 to 3 the low bits of bytes 0 to 7; of the others bytes 8 to 11 have
 * four bits, and the first bytes' upper two the rest. */
INLINE void scales_q4_k(struct block_scales *scales, const uint8_t *block)
{
    const uint8_t *bytes = block + 4;
    const float by = scale_at(block), less = scale_at(block + 2);
    for (int at = 0; at < 4; at++) {
        scales->by[at] = by * (float)(bytes[at] & 63);
        scales->less[at] = less * (float)(bytes[at + 4] & 63);
        scales->by[at + 4] = by * (float)((bytes[at + 8] & 15) | bytes[at] >> 6 << 4);
        scales->less[at + 4] = less * (float)(bytes[at + 8] >> 4 | bytes[at + 4] >> 6 << 4);
    }
}

INLINE void scales_q5_k(struct block_scales *scales, const uint8_t *block)
{
    scales_q4_k(scales, block);
}

INLINE void scales_q6_k(struct block_scales *scales, const uint8_t *block)
{
    const float by = scale_at(block + 208);
    for (int group = 0; group < 16; group++) {
        scales->by[group] = by * (float)(int8_t)block[192 + group];
        scales->less[group] = 0.0f;
    }
}

INLINE void scales_iq4_xs(struct block_scales *scales, const uint8_t *block)
{
    const float by = scale_at(block);
    const int high = block[2] | block[3] << 8;
    for (int group = 0; group < 8; group++) {
        const int low = block[4 + group / 2] >> group % 2 * 4 & 15;
        scales->by[group] = by * (float)((low | (high >> 2 * group & 3) << 4) - 32);
        scales->less[group] = 0.0f;
    }
}

/* The numbers of one group. */
INLINE int group_numbers(const enum attn_blocks blocks)
{
    return blocks == ATTN_BLOCKS_Q2_K || blocks == ATTN_BLOCKS_Q3_K || blocks == ATTN_BLOCKS_Q6_K
               ? 16
               : 32;
}

/* ------------------------------------------------------------------------- kernels of kernels.h --
 */

INLINE void scale_integers(const enum attn_blocks blocks, float *to, const int8_t *integers,
                           const struct block_scales *scales)
{
    const int numbers = group_numbers(blocks);
    for (int group = 0; group < block_numbers(blocks) / numbers; group++) {
        const vec by = broadcast(scales->by[group]), less = broadcast(scales->less[group]);
        UNROLL
        for (int64_t i = 0; i < numbers; i += LANES) {
            const int64_t at = group * numbers + i;
            store(to + at, float_of_i8(integers + at, LANES) * by - less);
        }
    }
}

#define X(NAME, name, numbers, bytes)                                                              \
    static void unpack_##name(float *to, const void *blocks, int64_t count)                        \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const uint8_t *block = (const uint8_t *)blocks + i * (bytes);                          \
            struct block_scales scales;                                                            \
            int8_t integers[numbers];                                                              \
            integers_##name(integers, block);                                                      \
            scales_##name(&scales, block);                                                         \
            scale_integers(ATTN_BLOCKS_##NAME, to + i * (numbers), integers, &scales);             \
        }                                                                                          \
    }
ATTN_BLOCKS_MAP(X)
#undef X

#endif
