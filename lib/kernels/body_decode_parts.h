/* body_decode_parts.h - how the kernels for few query rows read keys and values; a part of
 * body_decode.h.
 *
 * They are read once and little is done with each, so memory is what there is to wait for. Of one
 * row after another a core has too few lines under way: so a tile is read as DECODE_STREAMS parts
 * side by side, each in the order of memory, and what comes later in each is called for. */
#ifndef ATTN_BODY_DECODE_PARTS_H
#define ATTN_BODY_DECODE_PARTS_H

#include "half.h"
#include "kernels.h"
#include "vector.h"

/* LANES numbers of a row from number i on. */
INLINE vec load_numbers(const enum attn_numbers kind, const void *row, int64_t i)
{
    if (kind == ATTN_NUMBERS_F32)
        return load((const float *)row + i);
    const hvec halves = load_halves((const uint16_t *)row + i, LANES);
    return kind == ATTN_NUMBERS_F16 ? float_of_f16(halves) : float_of_bf16(halves);
}

INLINE int64_t bytes_of(const enum attn_numbers kind, int64_t count)
{
    return count * (kind == ATTN_NUMBERS_F32 ? 4 : 2);
}

/* p, of which the compiler knows no more: what is read beside it has an offset in the instruction,
 * where gcc would otherwise keep a pointer of its own for each, more than there are registers. */
INLINE const char *offsets_from(const char *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* Parts of a tile that are read side by side. */
enum { DECODE_STREAMS = 4 };

/* Keys of each part that all query rows meet while the nearest cache holds them: their scores are
 * whole vectors of LANES pairs, and their values so many runs. */
enum { DECODE_BLOCK = 16 };

/* Keys whose values are summed before the sum joins the context, so many of each part. */
enum { DECODE_RUN = 16, DECODE_RUN_EACH = DECODE_RUN / DECODE_STREAMS };

/* Keys of each part, of n; the others at the end are read one after the other. */
INLINE int64_t keys_of_part(int64_t n)
{
    return n / (DECODE_STREAMS * DECODE_BLOCK) * DECODE_BLOCK;
}

/* How far from its use a line is called for that key or value j of each part of part_keys meets: a
 * block ahead, and at the end of the part, where reading goes on at next. */
INLINE int64_t bytes_ahead(const void *rows, const void *next, int64_t j, int64_t part_keys,
                           int64_t stride_bytes)
{
    if (j + DECODE_BLOCK < part_keys)
        return DECODE_BLOCK * stride_bytes;
    return (int64_t)((uintptr_t)next - (uintptr_t)rows) - (part_keys - DECODE_BLOCK) * stride_bytes;
}

/* Prefetches the line that lies ahead of number i of a row. Where one row of floats leaves the core
 * nothing to do but load, a prefetch of one of two lines brings the other along. */
INLINE void prefetch_ahead(const enum attn_numbers kind, const int rows, const bool prefetch,
                           const char *row, int64_t i, int64_t ahead)
{
    const int64_t step = rows == 1 && kind == ATTN_NUMBERS_F32 ? 128 : 64;
    const int64_t bytes = bytes_of(kind, i);
    const uintptr_t at = (uintptr_t)row + (uintptr_t)(bytes + ahead);

    if (prefetch && bytes % step == 0)
        __builtin_prefetch((const void *)at, 0, 2);
}

#endif
