/* SPDX-License-Identifier: Apache-2.0 */
/* body_mask.h - masks of a tile: bounds, biases, and quick tests of the caller's mask.
 *
 * A mask of bytes is stored row by row, but lanes need one key of all rows. So each row becomes a
 * word of bits, which tells whether the mask hides anything at all. Only if it does are the words
 * transposed (Hacker's Delight, 7-3) to a word for each key, whose bit r belongs to lane r. */
#ifndef ATTN_BODY_MASK_H
#define ATTN_BODY_MASK_H

#include "kernels.h"
#include "prefetch.h"
#include "vector.h"

#include <math.h>

enum { WORD_BITS = 64 };

/* Bit i is set if byte i of STEP_BYTES is not 0. */
#if defined(__AVX2__) && VEC_BYTES >= 32
enum { STEP_BYTES = 32 };
INLINE uint64_t bits_of(const uint8_t *bytes)
{
    typedef char bytes_vec __attribute__((vector_size(STEP_BYTES)));
    bytes_vec v;
    memcpy(&v, bytes, sizeof v);
    return ~(uint32_t)__builtin_ia32_pmovmskb256((bytes_vec)(v == 0));
}
#elif defined(__SSE2__)
enum { STEP_BYTES = 16 };
INLINE uint64_t bits_of(const uint8_t *bytes)
{
    typedef char bytes_vec __attribute__((vector_size(STEP_BYTES)));
    bytes_vec v;
    memcpy(&v, bytes, sizeof v);
    return (uint16_t)~__builtin_ia32_pmovmskb128((bytes_vec)(v == 0));
}
#else
enum { STEP_BYTES = 8 };
INLINE uint64_t bits_of(const uint8_t *bytes)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7fu;
    uint64_t v;
    memcpy(&v, bytes, sizeof v); /* aarch64 is little endian: byte 0 is the lowest */
    v = (((v & low) + low) | v) & ~low;
    return (v >> 7) * 0x0102040810204080u >> 56;
}
#endif

/* The first n <= WORD_BITS bytes of a row as bits; the other bits are 0. Reads no further. */
INLINE uint64_t word_of(const uint8_t *bytes, int64_t n)
{
    uint64_t word = 0;
    int64_t j = 0;
    for (; j + STEP_BYTES <= n; j += STEP_BYTES)
        word |= bits_of(bytes + j) << j;
    if (j < n) {
        uint8_t rest[STEP_BYTES] = { 0 };
        memcpy(rest, bytes + j, (size_t)(n - j));
        word |= bits_of(rest) << j;
    }
    return word;
}

/* Bit c of word r becomes bit r of word c. */
INLINE void transpose_words(uint64_t words[WORD_BITS])
{
    uint64_t kept = 0x00000000ffffffffu;
    for (int step = WORD_BITS / 2; step > 0; step /= 2, kept ^= kept << step)
        for (int block = 0; block < WORD_BITS; block += 2 * step)
            for (int i = block; i < block + step; i++) {
                const uint64_t moved = ((words[i] >> step) ^ words[i + step]) & kept;
                words[i] ^= moved << step;
                words[i + step] ^= moved;
            }
}

/* Prefetch the keys of a row that the next tile will test; they may be past the row's end. */
INLINE void prefetch_row(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += LINE_BYTES)
        __builtin_prefetch((const void *)((uintptr_t)row + (uintptr_t)(bytes + i)), 0, 2);
}

static enum attn_sees mask_bits(uint64_t *bits, const uint8_t *allowed, int64_t row_stride,
                                int64_t row_count, int64_t n)
{
    uint64_t words[ATTN_MASK_KEYS_MAX / WORD_BITS][WORD_BITS];
    uint64_t hidden = 0, seen = 0;
    for (int64_t r = 0; r < row_count; r++)
        prefetch_row(allowed + r * row_stride, n);
    for (int64_t j = 0; j < n; j += WORD_BITS) {
        const int64_t count = n - j < WORD_BITS ? n - j : WORD_BITS;
        /* cppcheck-suppress shiftTooManyBits ; count is 1 or more */
        const uint64_t all = ~(uint64_t)0 >> (WORD_BITS - count);
        for (int64_t r = 0; r < WORD_BITS; r++) {
            const uint64_t word =
                r < row_count ? word_of(allowed + r * row_stride + j, count) : all;
            words[j / WORD_BITS][r] = word;
            hidden |= word ^ all;
            seen |= r < row_count ? word : 0;
        }
    }
    if (hidden == 0)
        return ATTN_SEES_ALL;
    if (seen == 0)
        return ATTN_SEES_NOTHING;
    for (int64_t j = 0; j < n; j += WORD_BITS) {
        transpose_words(words[j / WORD_BITS]);
        for (int64_t i = j; i < n && i < j + WORD_BITS; i++)
            bits[i] = words[j / WORD_BITS][i - j];
    }
    return ATTN_SEES_BITS;
}

static void mask_tile(float *scores_t, const uint64_t *bits, int64_t n, int64_t width)
{
    ivec lane = { 0 };
    UNROLL
    for (int i = 0; i < LANES; i++)
        lane[i] = (int32_t)1 << i;
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < width; c += LANES) {
            float *scores = scores_t + j * width + c;
            const ivec row_bits = (int32_t)(uint16_t)(bits[j] >> c) - (ivec){ 0 };
            store(scores, select((row_bits & lane) == 0, broadcast(-INFINITY), load(scores)));
        }
}

/* Which keys of a tile at least one lane of a vector sees, and which every lane sees. Either range
 * may be empty, with its low above its high. */
struct lane_bounds {
    int64_t any_low, any_high, every_low, every_high;
};

INLINE struct lane_bounds bounds_of(const int32_t *low, const int32_t *high)
{
    struct lane_bounds bounds = { low[0], high[0], low[0], high[0] };
    for (int i = 1; i < LANES; i++) {
        bounds.any_low = low[i] < bounds.any_low ? low[i] : bounds.any_low;
        bounds.any_high = high[i] > bounds.any_high ? high[i] : bounds.any_high;
        bounds.every_low = low[i] > bounds.every_low ? low[i] : bounds.every_low;
        bounds.every_high = high[i] < bounds.every_high ? high[i] : bounds.every_high;
    }
    return bounds;
}

/* Hide keys [from, to) from one vector of a tile where low and high say so. */
INLINE void bound_vector(float *scores_t, const int32_t *low, const int32_t *high,
                         const struct lane_bounds *bounds, int64_t from, int64_t to, int64_t width)
{
    ivec first, end;
    memcpy(&first, low, sizeof first);
    memcpy(&end, high, sizeof end);
    for (int64_t j = from; j < to; j++) {
        if (j == bounds->every_low && j < bounds->every_high) {
            j = bounds->every_high;
            if (j >= to)
                break;
        }
        float *scores = scores_t + j * width;
        const ivec key = (int32_t)j - (ivec){ 0 };
        const ivec visible = (first <= key) & (key < end);
        store(scores, select(visible, load(scores), broadcast(-INFINITY)));
    }
}

static void bound_tile(float *scores_t, const int32_t *low, const int32_t *high, int64_t n,
                       int64_t width)
{
    for (int64_t c = 0; c < width; c += LANES) {
        const struct lane_bounds bounds = bounds_of(low + c, high + c);
        bound_vector(scores_t + c, low + c, high + c, &bounds, 0, n, width);
    }
}

static void bias_tile(float *scores_t, const float *bias_t, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n * width; i += LANES) {
        const vec bias = load(bias_t + i);
        store(scores_t + i, select(bias == -INFINITY, bias, load(scores_t + i) + bias));
    }
}

/* Are all n numbers of a row equal to first? Zeros of both signs are equal. */
INLINE bool is_uniform(const float *row, int64_t n, float first)
{
    ivec other = { 0 };
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        other |= load(row + j) != first - (vec){ 0 };
    for (; j < n; j++)
        if (row[j] != first)
            return false;
    int32_t any = 0;
    for (int i = 0; i < LANES; i++)
        any |= other[i];
    return any == 0;
}

static enum attn_sees mask_floats(const float *bias, int64_t row_stride, int64_t row_count,
                                  int64_t n)
{
    if (n == 0 || row_count == 0)
        return ATTN_SEES_ALL;
    const float first = bias[0];
    if (first != 0.0f && first != -INFINITY)
        return ATTN_SEES_BIASES;
    for (int64_t r = 0; r < row_count; r++) {
        prefetch_row(bias + r * row_stride, n * (int64_t)sizeof *bias);
        if (!is_uniform(bias + r * row_stride, n, first))
            return ATTN_SEES_BIASES;
    }
    return first == 0.0f ? ATTN_SEES_ALL : ATTN_SEES_NOTHING;
}

#endif
