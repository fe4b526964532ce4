/* SPDX-License-Identifier: Apache-2.0 */
/* body_decode_context.h - how the decode kernels read keys and values, and weights times values for
 * few query rows; a part of body_decode.h.
 *
 * Keys and values are read once with little arithmetic for each, so the kernels wait for memory.
 * Reading one row after another keeps too few cache lines in flight. So a tile is read as
 * DECODE_STREAMS parts side by side, each in the order of memory, and later lines of each part are
 * prefetched.
 *
 * The values of a run are summed before the sum is added to the context: a few keys of each part,
 * in an order that does not depend on the number of rows. */
#ifndef ATTN_BODY_DECODE_CONTEXT_H
#define ATTN_BODY_DECODE_CONTEXT_H

#include "kernels.h"
#include "numbers.h"
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

/* ----------------------------------------------------------------------------------- context -- */

/* Vectors of a value that meet four rows at once: their sums fill half of the registers, of which
 * there are 32 or 16. */
#if VEC_BYTES == 64 || defined(__aarch64__)
enum { DECODE_VECTORS = 4 };
#else
enum { DECODE_VECTORS = 2 };
#endif

/* A run of values: n of each part; parts are part_bytes apart, and their weights part_keys, as are
 * their scales, of I8. */
struct decode_values {
    const char *rows;
    const float *weights, *scale;
    int64_t weights_stride, part_keys;
    int64_t stride_bytes, part_bytes, n;
    int64_t columns, ahead;
    bool prefetch;
};

/* Add vectors vectors of a run's values, from column on, to context; guarded is for one row
 * only. */
INLINE void decode_context_block(const enum attn_numbers kind, const int rows, const int vectors,
                                 const int parts, const bool prefetch, const bool guarded,
                                 float *context, int64_t context_stride, const float *rescale,
                                 const struct decode_values *value, int64_t column)
{
    vec sums[16];

    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sums[i] = (vec){ 0 };
    KEEP_ROLLED
    for (int64_t j = 0; j < value->n; j++) {
        UNROLL
        for (int s = 0; s < parts; s++) {
            const char *row = offsets_from(value->rows + j * value->stride_bytes
                                           + s * value->part_bytes + bytes_of(kind, column));
            const float *weights = value->weights + j + s * value->part_keys;
            vec weight[4], factor = { 0 };
            if (guarded && weights[0] == 0.0f)
                continue;
            UNROLL
            for (int r = 0; r < rows; r++)
                weight[r] = broadcast(weights[r * value->weights_stride]);
            if (kind == ATTN_NUMBERS_I8)
                factor = broadcast(value->scale[j + s * value->part_keys]);
            UNROLL
            for (int i = 0; i < vectors; i++) {
                prefetch_ahead(kind, prefetch, row, i * LANES, value->ahead);
                const vec numbers = load_numbers(kind, row, i * LANES);
                const vec v = kind == ATTN_NUMBERS_I8 ? numbers * factor : numbers;
                UNROLL
                for (int r = 0; r < rows; r++)
                    sums[r * vectors + i] += weight[r] * v;
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < vectors; i++) {
            float *c = context + r * context_stride + i * LANES;
            store(c, load(c) * rescale[r] + sums[r * vectors + i]);
        }
    }
}

/* All columns of a run, as many vectors at a time as there are registers for their sums. */
INLINE void decode_context_rows(const enum attn_numbers kind, const int rows, const int parts,
                                const bool prefetch, const bool guarded, float *context,
                                int64_t context_stride, const float *rescale,
                                const struct decode_values *value)
{
    const int most = rows == 1 ? 8 : rows == 2 ? 2 * DECODE_VECTORS : DECODE_VECTORS;
    int64_t c = 0;

#define DECODE_CONTEXT_BLOCK(vectors, column)                                                      \
    decode_context_block(kind, rows, vectors, parts, prefetch, guarded, context + c,               \
                         context_stride, rescale, value, column)
    for (; c + most * LANES <= value->columns; c += most * LANES)
        DECODE_CONTEXT_BLOCK(most, c);
    if (most > 4 && c + 4 * LANES <= value->columns) {
        DECODE_CONTEXT_BLOCK(4, c);
        c += 4 * LANES;
    }
    for (; c + LANES <= value->columns; c += LANES)
        DECODE_CONTEXT_BLOCK(1, c);
    if (c < value->columns)
        DECODE_CONTEXT_BLOCK(1, value->columns - LANES);
#undef DECODE_CONTEXT_BLOCK
}

/* One run of keys for all rows. A run is the length of a chain of products, and its values are
 * still in the nearest cache when the next rows need them. Only the first four rows prefetch. If a
 * value has more vectors than four rows have registers for and comes from far, the rows read it
 * twice: two rows at a time, to the end of the value. */
INLINE void decode_context_run(const enum attn_numbers kind, const int parts, float *context,
                               int64_t context_stride, const float *rescale, int64_t rescale_step,
                               int64_t row_count, const struct decode_values *first, bool guarded)
{
    const bool in_twos = kind == ATTN_NUMBERS_F32 && first->prefetch
                         && first->columns > DECODE_VECTORS * LANES
                         && first->columns <= 2 * DECODE_VECTORS * LANES;
    struct decode_values value = *first;
    int64_t r = 0;

#define DECODE_CONTEXT_ROWS(rows, prefetch, guard)                                                 \
    decode_context_rows(kind, rows, parts, prefetch, guard, context + r * context_stride,          \
                        context_stride, rescale + r * rescale_step, &value)
#define DECODE_CONTEXT_PREFETCHING(rows)                                                           \
    value.weights = first->weights + r * first->weights_stride;                                    \
    if (parts > 1 && value.prefetch && r < 4)                                                      \
        DECODE_CONTEXT_ROWS(rows, parts > 1, false);                                               \
    else                                                                                           \
        DECODE_CONTEXT_ROWS(rows, false, false)
    for (; guarded && r < row_count; r++) {
        value.weights = first->weights + r * first->weights_stride;
        DECODE_CONTEXT_ROWS(1, false, true);
    }
    while (r + 2 <= row_count) {
        if (r + 4 <= row_count && !(in_twos && r < 4)) {
            DECODE_CONTEXT_PREFETCHING(4);
            r += 4;
        } else {
            DECODE_CONTEXT_PREFETCHING(2);
            r += 2;
        }
    }
    if (r < row_count) {
        DECODE_CONTEXT_PREFETCHING(1);
    }
#undef DECODE_CONTEXT_PREFETCHING
#undef DECODE_CONTEXT_ROWS
}

INLINE void decode_context(const enum attn_numbers kind, float *context, int64_t context_stride,
                           const float *rescale, const float *weights, int64_t weights_stride,
                           int64_t row_count, const void *value, int64_t value_stride, int64_t n,
                           int64_t v_head_dim, const void *next, int64_t low, int64_t high,
                           const float *scale)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    const int64_t stride_bytes = bytes_of(kind, value_stride);
    const int64_t part_keys = keys_of_part(n);
    struct decode_values run = { .weights_stride = weights_stride,
                                 .part_keys = part_keys,
                                 .stride_bytes = stride_bytes,
                                 .part_bytes = part_keys * stride_bytes,
                                 .n = DECODE_RUN_EACH,
                                 .columns = v_head_dim,
                                 .prefetch = next != NULL };

    for (int64_t j = 0; j < part_keys; j += DECODE_RUN_EACH) {
        run.rows = (const char *)value + j * stride_bytes;
        run.weights = weights + j;
        run.scale = kind == ATTN_NUMBERS_I8 ? scale + j : NULL;
        run.ahead = bytes_ahead(value, next, j, part_keys, stride_bytes);
        const int64_t run_end = j + (DECODE_STREAMS - 1) * part_keys + DECODE_RUN_EACH;
        decode_context_run(kind, DECODE_STREAMS, context, context_stride, j == 0 ? rescale : ones,
                           j == 0, row_count, &run, j < low || run_end > high);
    }
    const int64_t met = DECODE_STREAMS * part_keys;
    run.prefetch = false;
    for (int64_t j = met; j < n; j += DECODE_RUN) {
        run.rows = (const char *)value + j * stride_bytes;
        run.weights = weights + j;
        run.scale = kind == ATTN_NUMBERS_I8 ? scale + j : NULL;
        run.n = n - j < DECODE_RUN ? n - j : DECODE_RUN;
        decode_context_run(kind, 1, context, context_stride, j == 0 ? rescale : ones, j == 0,
                           row_count, &run, j < low || j + run.n > high);
    }
}

#endif
