/* SPDX-License-Identifier: Apache-2.0 */
/* body_panel.h - blocks of several outputs side by side, so that lanes are outputs: the integers
 * and the scales of the inputs of one chain. A part of body_blocks.h.
 *
 * Integers are transposed as words of 32 bits: four bytes, or eight nibbles as a block has them.
 */
#ifndef ATTN_BODY_PANEL_H
#define ATTN_BODY_PANEL_H

#include "body_unpack.h"
#include "kernels.h"
#include "numbers.h"
#include "vector.h"

/* How words hold the integers, and the numbers of a scale. A word of bytes has four neighbours.
 * Words of nibbles have two runs of 16 or 32 numbers: first all low nibbles, then all high ones;
 * both runs of 16 have one scale, runs of 32 have one each. */
enum blocks_layout {
    BYTES_OF_16,
    BYTES_OF_32,
    BYTES_FUSED, /* the same, with finite scales of 11 bits and nothing less */
    NIBBLES_OF_16,
    NIBBLES_OF_32,
    BLOCKS_LAYOUTS
};

enum {
    PANEL_VECTORS = 4, /* at most */
    PANEL_SUMS_MAX = 8,
    PANEL_WORDS = ATTN_PROJECT_PART / 4,
    PANEL_GROUPS = 16
};

struct blocks_panel {
    vec words[PANEL_WORDS][PANEL_VECTORS];
    vec by[PANEL_GROUPS][PANEL_VECTORS], less[PANEL_GROUPS][PANEL_VECTORS];
    vec values;        /* of nibbles, where a register looks them up */
    bool has_infinite; /* or NaN, among the scales; said of BYTES_FUSED alone */
};

/* One vector of outputs: where the part of its first row of blocks begins, and the number of rows;
 * the last one stands for those that are missing. */
struct blocks_rows {
    const uint8_t *first;
    int64_t stride_bytes, count;
};

/* --------------------------------------------------------------------------------- nibbles -- */

/* The nibble at this bit of each word, from 0 to 15. */
INLINE vec nibble_number(uvec words, const int bit)
{
    return __builtin_convertvector((ivec)(words >> bit & 15u), vec);
}

#if VEC_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
#define HAS_NIBBLE_TABLE true

/* The value of the nibble at this bit of each word: a register has all 16 of them. */
INLINE vec nibble_value(uvec words, const int bit, vec values)
{
    return __builtin_ia32_permvarsf512_mask(values, (ivec)(words >> bit), (vec){ 0 }, (uint16_t)-1);
}
#else
#define HAS_NIBBLE_TABLE false

/* The values begin at the first one and are one apart. */
INLINE vec nibble_value(uvec words, const int bit, vec values)
{
    return nibble_number(words, bit) + values;
}
#endif

/* a * b + c, rounded once where HAS_FUSED. It is named, as compilers fuse the two operations only
 * where they optimise; without it a product that is too large rounds. */
#if VEC_BYTES == 64 && defined(__AVX512F__)
#define HAS_FUSED true
INLINE vec multiply_add(vec a, vec b, vec c)
{
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (uint16_t)-1, 4);
}
#elif VEC_BYTES == 32 && defined(__FMA__)
#define HAS_FUSED true
INLINE vec multiply_add(vec a, vec b, vec c)
{
    return __builtin_ia32_vfmaddps256(a, b, c);
}
#else
#define HAS_FUSED false
INLINE vec multiply_add(vec a, vec b, vec c)
{
    return a * b + c;
}
#endif

/* Those of 4 bits whose values are no steps of one need a table. */
#define LAYOUT_OF_VALUES (HAS_NIBBLE_TABLE ? NIBBLES_OF_16 : BYTES_OF_32)
#define LAYOUT_Q8_0      (HAS_FUSED ? BYTES_FUSED : BYTES_OF_32)
#define LAYOUT_Q4_0      NIBBLES_OF_16
#define LAYOUT_Q4_1      NIBBLES_OF_16
#define LAYOUT_Q5_0      LAYOUT_Q8_0
#define LAYOUT_Q5_1      BYTES_OF_32
#define LAYOUT_Q2_K      BYTES_OF_16
#define LAYOUT_Q3_K      BYTES_OF_16
#define LAYOUT_Q4_K      NIBBLES_OF_32
#define LAYOUT_Q5_K      BYTES_OF_32
#define LAYOUT_Q6_K      BYTES_OF_16
#define LAYOUT_IQ4_NL    LAYOUT_OF_VALUES
#define LAYOUT_IQ4_XS    LAYOUT_OF_VALUES
#define LAYOUT_MXFP4     LAYOUT_OF_VALUES

INLINE enum blocks_layout layout_of(const enum attn_blocks blocks)
{
    static const enum blocks_layout LAYOUTS[] = {
#define X(NAME, name, numbers, bytes) LAYOUT_##NAME,
        ATTN_BLOCKS_MAP(X)
#undef X
    };
    return LAYOUTS[blocks];
}

/* What nibble_value() takes. */
static vec values_of(const enum attn_blocks blocks)
{
    const float zero = blocks == ATTN_BLOCKS_Q4_0 ? -8.0f : 0.0f;
    float values[16] = { 0 };

    if (!HAS_NIBBLE_TABLE)
        return broadcast(zero);
    for (int i = 0; i < 16; i++)
        values[i] = blocks == ATTN_BLOCKS_IQ4_NL || blocks == ATTN_BLOCKS_IQ4_XS
                        ? (float)VALUES_NL[i]
                    : blocks == ATTN_BLOCKS_MXFP4 ? (float)VALUES_FP4[i]
                                                  : (float)i + zero;
    return load(values);
}

/* ----------------------------------------------------------------------------------- words -- */

/* Where the words of a row lie: in runs of bytes, of which one begins step bytes behind another. */
struct words_runs {
    int bytes, step;
};

#if VEC_BYTES == 64
/* 16 bytes at each of four places. */
INLINE vec load_quarters(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d)
{
    typedef float quarter __attribute__((vector_size(VEC_BYTES / 4)));
    typedef float half __attribute__((vector_size(VEC_BYTES / 2)));
    quarter q[4];

    memcpy(&q[0], a, sizeof q[0]);
    memcpy(&q[1], b, sizeof q[1]);
    memcpy(&q[2], c, sizeof q[2]);
    memcpy(&q[3], d, sizeof q[3]);
    const half low = __builtin_shufflevector(q[0], q[1], 0, 1, 2, 3, 4, 5, 6, 7);
    const half high = __builtin_shufflevector(q[2], q[3], 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#endif

/* Words c to c + LANES, which are a vector or some runs. */
INLINE vec load_words(const struct words_runs runs, const uint8_t *row, int c)
{
    const uint8_t *from = row + c * 4 / runs.bytes * runs.step + c * 4 % runs.bytes;
    vec words;

    if (runs.bytes >= VEC_BYTES) {
        memcpy(&words, from, sizeof words);
        return words;
    }
#if VEC_BYTES == 64
    typedef float quarter __attribute__((vector_size(VEC_BYTES / 4)));
    typedef float half __attribute__((vector_size(VEC_BYTES / 2)));
    const int second = runs.bytes == 16 ? runs.step : 16;
    quarter q[4];
    half h[2];
    UNROLL
    for (int i = 0; i < 2; i++, from += runs.bytes == 16 ? 2 * runs.step : runs.step) {
        memcpy(&q[2 * i], from, sizeof q[0]);
        memcpy(&q[2 * i + 1], from + second, sizeof q[0]);
        h[i] = __builtin_shufflevector(q[2 * i], q[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7);
        if (runs.bytes == 32)
            memcpy(&h[i], from, sizeof h[0]);
    }
    return __builtin_shufflevector(h[0], h[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                   15);
#elif VEC_BYTES == 32
    typedef float half __attribute__((vector_size(VEC_BYTES / 2)));
    half low, high;
    memcpy(&low, from, sizeof low);
    memcpy(&high, from + runs.step, sizeof high);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    return (vec){ 0 };
#endif
}

/* The words of each row become vectors that are step vectors apart. */
INLINE void turn_words(const struct words_runs runs, vec *to, int64_t step, const int count,
                       const uint8_t *const rows[LANES], int64_t offset)
{
    KEEP_ROLLED
    for (int c = 0; c < count; c += (int)LANES) {
        vec square[LANES];
        UNROLL
        for (int j = 0; j < LANES; j++)
            square[j] = load_words(runs, rows[j] + offset, c);
        transpose_square(square);
        UNROLL
        for (int j = 0; j < LANES; j++)
            to[(c + j) * step] = square[j];
    }
}

static void turn_bytes(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    turn_words((struct words_runs){ ATTN_PROJECT_PART, 0 }, &panel->words[0][v], PANEL_VECTORS,
               PANEL_WORDS, rows, 0);
}

/* Are the integers of blocks whole words, so that they are read where they lie: behind all else? */
INLINE bool has_words(const enum attn_blocks blocks)
{
    return layout_of(blocks) >= NIBBLES_OF_16 || blocks == ATTN_BLOCKS_Q8_0;
}

/* The bytes of one row of blocks that are transposed. */
INLINE void row_integers(const enum attn_blocks blocks, uint8_t *to, const uint8_t *row)
{
    const int numbers = (int)block_numbers(blocks), bytes = (int)block_bytes(blocks);

    KEEP_ROLLED
    for (int b = 0; b < ATTN_PROJECT_PART / numbers; b++) {
        const uint8_t *block = row + b * bytes;
        if (has_words(blocks))
            continue;
#define X(NAME, name, numbers_, bytes_)                                                            \
    else if (blocks == ATTN_BLOCKS_##NAME) integers_##name((int8_t *)to + b * numbers, block);
        ATTN_BLOCKS_MAP(X)
#undef X
    }
}

/* The rows, of which the last one stands for those that are missing. */
INLINE void find_rows(const uint8_t *row[LANES], const struct blocks_rows *rows)
{
    const uint8_t *at = rows->first;

    KEEP_ROLLED
    for (int j = 0; j < LANES; j++) {
        row[j] = at;
        at += j + 1 < rows->count ? rows->stride_bytes : 0;
    }
}

/* Where the integers of each row begin: in its first block, or unpacked. */
INLINE void find_integers(const enum attn_blocks blocks, const uint8_t *from[LANES],
                          uint8_t unpacked[LANES][ATTN_PROJECT_PART],
                          const uint8_t *const rows[LANES])
{
    const int64_t run = block_numbers(blocks) / (layout_of(blocks) >= NIBBLES_OF_16 ? 2 : 1);

    KEEP_ROLLED
    for (int j = 0; j < LANES; j++) {
        row_integers(blocks, unpacked[j], rows[j]);
        from[j] = has_words(blocks) ? rows[j] + block_bytes(blocks) - run : unpacked[j];
    }
}

/* integers_q6_k() of all rows at once, on words: 32 of them have low bits, 16 the high ones. */
static void turn_integers_q6_k(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    enum { LOW = 32, HIGH = 16, RUN = 8 };
    vec packed[LOW + HIGH];

    turn_words((struct words_runs){ VEC_BYTES, VEC_BYTES }, packed, 1, LOW + HIGH, rows, 0);
    for (int half = 0; half < 2; half++)
        for (int q = 0; q < RUN; q++) {
            const uvec high = (uvec)packed[LOW + half * RUN + q];
            UNROLL
            for (int run = 0; run < 4; run++) {
                const uvec low = (uvec)packed[(half * 2 + run % 2) * RUN + q];
                const uvec number =
                    (low >> run / 2 * 4 & 0x0f0f0f0fu) | (high >> run * 2 & 0x03030303u) << 4;
                const uvec less_32 = ((number | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
                panel->words[(half * 4 + run) * RUN + q][v] = (vec)less_32;
            }
        }
}

INLINE void turn_integers(const enum attn_blocks blocks, struct blocks_panel *panel, int v,
                          const uint8_t *const rows[LANES])
{
    const int halves = layout_of(blocks) >= NIBBLES_OF_16 ? 2 : 1;
    const int run = (int)block_numbers(blocks) / halves, step = (int)block_bytes(blocks);
    uint8_t unpacked[LANES][ATTN_PROJECT_PART];
    const uint8_t *from[LANES];

    find_integers(blocks, from, unpacked, rows);
    if (has_words(blocks))
        turn_words((struct words_runs){ run, step }, &panel->words[0][v], PANEL_VECTORS,
                   PANEL_WORDS / halves, from, 0);
    else
        turn_bytes(panel, v, from);
}

/* ---------------------------------------------------------------------------------- scales -- */

/* The four bytes that begin offset bytes behind each row. */
INLINE uvec turn_word(const uint8_t *const rows[LANES], int64_t offset)
{
    uint32_t words[LANES];
    uvec turned;

    for (int j = 0; j < LANES; j++)
        memcpy(&words[j], rows[j] + offset, sizeof words[j]);
    memcpy(&turned, words, sizeof turned);
    return turned;
}

/* The four words that begin offset bytes behind each row. */
INLINE void turn_four_words(uvec words[4], const uint8_t *const rows[LANES], int64_t offset)
{
#if VEC_BYTES == 64
    vec four[4], interleaved[4];

    UNROLL
    for (int i = 0; i < 4; i++)
        four[i] = load_quarters(rows[i] + offset, rows[4 + i] + offset, rows[8 + i] + offset,
                                rows[12 + i] + offset);
    for (int i = 0; i < 2; i++) {
        interleaved[2 * i] = INTERLEAVE_LOW(four[i], four[2 + i]);
        interleaved[2 * i + 1] = INTERLEAVE_HIGH(four[i], four[2 + i]);
    }
    for (int i = 0; i < 2; i++) {
        words[2 * i] = (uvec)INTERLEAVE_LOW(interleaved[i], interleaved[2 + i]);
        words[2 * i + 1] = (uvec)INTERLEAVE_HIGH(interleaved[i], interleaved[2 + i]);
    }
#else
    for (int i = 0; i < 4; i++)
        words[i] = turn_word(rows, offset + 4 * i);
#endif
}

/* The numbers of binary16 in the low halves of words. */
INLINE vec low_halves(uvec words)
{
    return float_of_f16(__builtin_convertvector(words & 0xffffu, hvec));
}

/* half_power_at() of the lowest bytes of words. */
INLINE vec half_powers(uvec words)
{
    const uvec e = words & 255u;
    const uvec is_small = (uvec)(e < 2u), small = (uvec){ 0 } + 0x00200000u;

    return (vec)((is_small & small << (e & 1u)) | (~is_small & (e - 1u) << 23));
}

static bool has_infinite(vec numbers)
{
    const vec zeros = numbers * 0.0f;
    float each[LANES];

    store(each, zeros);
    for (int j = 0; j < LANES; j++)
        if (!(each[j] == 0.0f))
            return true;
    return false;
}

INLINE void turn_scales_of_32(const enum attn_blocks blocks, struct blocks_panel *panel, int v,
                              const uint8_t *const rows[LANES])
{
    const bool has_least = blocks == ATTN_BLOCKS_Q4_1 || blocks == ATTN_BLOCKS_Q5_1;
    const int64_t bytes = block_bytes(blocks);
    vec sum = { 0 };

    for (int b = 0; b < ATTN_PROJECT_PART / 32; b++) {
        const uvec words = turn_word(rows, b * bytes);
        panel->by[b][v] = blocks == ATTN_BLOCKS_MXFP4 ? half_powers(words) : low_halves(words);
        panel->less[b][v] = has_least ? -low_halves(words >> 16) : (vec){ 0 };
        sum += panel->by[b][v];
    }
    if (layout_of(blocks) == BYTES_FUSED)
        panel->has_infinite = panel->has_infinite || has_infinite(sum);
}

/* scales_q4_k() of all rows at once. */
INLINE void turn_scales_q4_k(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    uvec words[4];

    turn_four_words(words, rows, 0);
    const vec scale = low_halves(words[0]), least = low_halves(words[0] >> 16);
    const uvec by[2] = { words[1] & 0x3f3f3f3fu,
                         (words[3] & 0x0f0f0f0fu) | (words[1] >> 2 & 0x30303030u) };
    const uvec less[2] = { words[2] & 0x3f3f3f3fu,
                           (words[3] >> 4 & 0x0f0f0f0fu) | (words[2] >> 2 & 0x30303030u) };

    UNROLL
    for (int at = 0; at < 8; at++) {
        const ivec by_at = (ivec)(by[at / 4] >> at % 4 * 8 & 255u);
        const ivec less_at = (ivec)(less[at / 4] >> at % 4 * 8 & 255u);
        panel->by[at][v] = scale * __builtin_convertvector(by_at, vec);
        panel->less[at][v] = least * __builtin_convertvector(less_at, vec);
    }
}

/* Small whole numbers as floats. */
INLINE vec float_of_words(uvec words)
{
    return __builtin_convertvector((ivec)words, vec);
}

/* scales_q6_k() of all rows at once, and so on below. */
INLINE void turn_scales_q6_k(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    const vec scale = low_halves(turn_word(rows, 206) >> 16);
    uvec words[4];

    turn_four_words(words, rows, 192);
    UNROLL
    for (int w = 0; w < 4; w++) {
        UNROLL
        for (int at = 0; at < 4; at++) {
            const ivec by = (ivec)(words[w] << (24 - 8 * at)) >> 24;
            panel->by[4 * w + at][v] = scale * float_of_words((uvec)by);
            panel->less[4 * w + at][v] = (vec){ 0 };
        }
    }
}

INLINE void turn_scales_q3_k(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    const vec scale = low_halves(turn_word(rows, 106) >> 16);
    const uvec low[2] = { turn_word(rows, 96), turn_word(rows, 100) }, high = turn_word(rows, 104);

    UNROLL
    for (int group = 0; group < 16; group++) {
        const int at = group % 4 * 8;
        const uvec by = (low[group % 8 / 4] >> (at + group / 8 * 4) & 15u)
                        | (high >> (at + group / 4 * 2) & 3u) << 4;
        panel->by[group][v] = scale * float_of_words(by - 32u);
        panel->less[group][v] = (vec){ 0 };
    }
}

INLINE void turn_scales_q2_k(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    const uvec both = turn_word(rows, 80);
    const vec scale = low_halves(both), least = low_halves(both >> 16);
    uvec words[4];

    turn_four_words(words, rows, 0);
    UNROLL
    for (int w = 0; w < 4; w++) {
        UNROLL
        for (int at = 0; at < 4; at++) {
            panel->by[4 * w + at][v] = scale * float_of_words(words[w] >> 8 * at & 15u);
            panel->less[4 * w + at][v] = least * float_of_words(words[w] >> (8 * at + 4) & 15u);
        }
    }
}

INLINE void turn_scales_iq4_xs(struct blocks_panel *panel, int v, const uint8_t *const rows[LANES])
{
    const uvec both = turn_word(rows, 0), low = turn_word(rows, 4);
    const vec scale = low_halves(both);

    UNROLL
    for (int group = 0; group < 8; group++) {
        const uvec by = (low >> 4 * group & 15u) | (both >> (16 + 2 * group) & 3u) << 4;
        panel->by[group][v] = scale * float_of_words(by - 32u);
        panel->less[group][v] = (vec){ 0 };
    }
}

INLINE void turn_scales(const enum attn_blocks blocks, struct blocks_panel *panel, int v,
                        const uint8_t *const rows[LANES])
{
    if (block_numbers(blocks) == 32)
        turn_scales_of_32(blocks, panel, v, rows);
    else if (blocks == ATTN_BLOCKS_Q2_K)
        turn_scales_q2_k(panel, v, rows);
    else if (blocks == ATTN_BLOCKS_Q3_K)
        turn_scales_q3_k(panel, v, rows);
    else if (blocks == ATTN_BLOCKS_Q6_K)
        turn_scales_q6_k(panel, v, rows);
    else if (blocks == ATTN_BLOCKS_IQ4_XS)
        turn_scales_iq4_xs(panel, v, rows);
    else
        turn_scales_q4_k(panel, v, rows);
}

/* The part of a vector of outputs becomes vector v of the panel. */
INLINE void turn_blocks(const enum attn_blocks blocks, struct blocks_panel *panel, int v,
                        const struct blocks_rows *rows)
{
    const uint8_t *from[LANES];

    find_rows(from, rows);
    if (blocks == ATTN_BLOCKS_Q6_K)
        turn_integers_q6_k(panel, v, from);
    else
        turn_integers(blocks, panel, v, from);
    turn_scales(blocks, panel, v, from);
}

#define X(NAME, name, numbers, bytes)                                                              \
    static void turn_blocks_##name(struct blocks_panel *panel, int v,                              \
                                   const struct blocks_rows *rows)                                 \
    {                                                                                              \
        turn_blocks(ATTN_BLOCKS_##NAME, panel, v, rows);                                           \
    }
ATTN_BLOCKS_MAP(X)
#undef X

#endif
