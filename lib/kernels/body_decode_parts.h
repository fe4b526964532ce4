/* body_decode_parts.h - how the decode kernels read keys and values; a part of body_decode.h.
 *
 * Keys and values are read once with little arithmetic for each, so the kernels wait for memory.
 * Reading one row after another keeps too few cache lines in flight. So a tile is read as
 * DECODE_STREAMS parts side by side, each in the order of memory, and later lines of each part are
 * prefetched. */
#ifndef ATTN_BODY_DECODE_PARTS_H
#define ATTN_BODY_DECODE_PARTS_H

#include "half.h"
#include "int8.h"
#include "kernels.h"
#include "vector.h"

/* LANES numbers of a row, from number i on; those of I8 lack their scales. */
INLINE vec load_numbers(const enum attn_numbers kind, const void *row, int64_t i)
{
    if (kind == ATTN_NUMBERS_F32)
        return load((const float *)row + i);
    if (kind == ATTN_NUMBERS_I8)
        return float_of_i8((const int8_t *)row + i, LANES);
    const hvec halves = load_halves((const uint16_t *)row + i, LANES);
    return kind == ATTN_NUMBERS_F16 ? float_of_f16(halves) : float_of_bf16(halves);
}

/* LANES numbers of a key; scale has one for each number of the row, and is for I8 alone. */
INLINE vec load_key(const enum attn_numbers kind, const void *row, const float *scale, int64_t i)
{
    const vec numbers = load_numbers(kind, row, i);
    return kind == ATTN_NUMBERS_I8 ? numbers * load(scale + i) : numbers;
}

INLINE int64_t bytes_of(const enum attn_numbers kind, int64_t count)
{
    return count * (kind == ATTN_NUMBERS_F32 ? 4 : kind == ATTN_NUMBERS_I8 ? 1 : 2);
}

/* Return p, hidden from the compiler's analysis. Reads relative to the result use an offset in the
 * instruction; without this, gcc keeps a separate pointer for each, more than there are
 * registers. */
INLINE const void *offsets_from(const void *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* Number of parts of a tile that are read side by side. */
enum { DECODE_STREAMS = 4 };

/* Keys of each part that all query rows meet while they are in the nearest cache. Their scores are
 * whole vectors of LANES pairs, and their values whole runs. */
enum { DECODE_BLOCK = 16 };

/* A run: keys whose values are summed before the sum is added to the context, in all and of each
 * part. */
enum { DECODE_RUN = 16, DECODE_RUN_EACH = DECODE_RUN / DECODE_STREAMS };

/* The number of keys of each part, of n in all; the rest at the end is read one key after the
 * other. */
INLINE int64_t keys_of_part(int64_t n)
{
    return n / (DECODE_STREAMS * DECODE_BLOCK) * DECODE_BLOCK;
}

/* How many bytes ahead to prefetch when key or value j of each part of part_keys is used: the next
 * block; at the end of the part, the place next where reading continues. */
INLINE int64_t bytes_ahead(const void *rows, const void *next, int64_t j, int64_t part_keys,
                           int64_t stride_bytes)
{
    if (j + DECODE_BLOCK < part_keys)
        return DECODE_BLOCK * stride_bytes;
    return (int64_t)((uintptr_t)next - (uintptr_t)rows) - (part_keys - DECODE_BLOCK) * stride_bytes;
}

/* Prefetch the line ahead bytes after number i of a row, into the first cache. Rows of I8 have a
 * line in a few steps and more to compute in each: the second cache is near enough. */
INLINE void prefetch_ahead(const enum attn_numbers kind, const bool prefetch, const char *row,
                           int64_t i, int64_t ahead)
{
    const int64_t bytes = bytes_of(kind, i);
    const uintptr_t at = (uintptr_t)row + (uintptr_t)(bytes + ahead);

    if (prefetch && bytes % 64 == 0 && kind != ATTN_NUMBERS_I8)
        __builtin_prefetch((const void *)at, 0, 3);
    if (prefetch && bytes % 64 == 0 && kind == ATTN_NUMBERS_I8)
        __builtin_prefetch((const void *)at, 0, 2);
}

#endif
