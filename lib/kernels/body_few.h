/* body_few.h - the kernels for few query rows; a part of body.h.
 *
 * Where there are fewer query rows than lanes, the lanes are numbers of one row instead: a vector
 * of a key meets the same vector of each query row, and the sums across vectors that this takes
 * are made for LANES pairs at once. What is not a whole vector at the end of a row is covered by a
 * vector that ends with the row and overlaps the one before.
 *
 * Keys and values are read once and little is done with each, so memory is what there is to wait
 * for: they are read in its order, and where several rows share them what comes later is called
 * for. */
#ifndef ATTN_BODY_FEW_H
#define ATTN_BODY_FEW_H

#include "half.h"
#include "kernels.h"
#include "vector.h"

#include <math.h>
#include <string.h>

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

/* One line of the rows that are read next. Called for one at a time, between the arithmetic: more
 * at once than a core has misses under way for would make it wait. */
INLINE void call_for(const struct attn_ahead *ahead, int64_t row, int64_t bytes)
{
    const uintptr_t at = (uintptr_t)ahead->rows + (uintptr_t)(row * ahead->stride_bytes + bytes);
    __builtin_prefetch((const void *)at, 0, 2);
}

/* ------------------------------------------------------------------------------- scores -- */

/* Lane i: the sum over the lanes of sums[i]. Two passes within each 16 bytes make one vector of
 * four, the others add the 16 bytes of two vectors. */
INLINE vec sum_each(const vec sums[LANES])
{
    enum { FOURS = LANES / 4 };
    vec parts[FOURS];

    UNROLL
    for (int i = 0; i < FOURS; i++) {
        const vec *four = sums + i * 4;
        const vec even = INTERLEAVE_LOW(four[0], four[2]) + INTERLEAVE_HIGH(four[0], four[2]);
        const vec odd = INTERLEAVE_LOW(four[1], four[3]) + INTERLEAVE_HIGH(four[1], four[3]);
        parts[i] = INTERLEAVE_LOW(even, odd) + INTERLEAVE_HIGH(even, odd);
    }
    UNROLL
    for (int half = FOURS / 2; half > 0; half /= 2) {
        UNROLL
        for (int i = 0; i < half; i++) {
            /* cppcheck-suppress arrayIndexOutOfBounds ; vectors of 4 lanes have no such pass */
            const vec even = EVEN_QUARTERS(parts[2 * i], parts[2 * i + 1]);
            /* cppcheck-suppress arrayIndexOutOfBounds ; as above */
            const vec odd = ODD_QUARTERS(parts[2 * i], parts[2 * i + 1]);
            parts[i] = even + odd;
        }
    }
    return parts[0];
}

/* Lanes from first on keep what they have, the others become 0. */
INLINE ivec lanes_from(int64_t first)
{
    ivec lane = { 0 };
    UNROLL
    for (int i = 0; i < LANES; i++)
        lane[i] = i;
    return lane >= (int32_t)first - (ivec){ 0 };
}

/* Adds to sums[r * count + i] LANES products of query row r, from number d on, and key i, from
 * number column on; kept are the lanes that count, NULL: all. */
INLINE void few_products(const enum attn_numbers kind, const int rows, const int count, vec *sums,
                         const float *query, int64_t query_stride, int64_t d,
                         const char *const *keys, int64_t column, const ivec *kept)
{
    vec k[4];

    UNROLL
    for (int i = 0; i < count; i++) {
        k[i] = load_numbers(kind, keys[i], column);
        if (kept != NULL)
            k[i] = (vec)((ivec)k[i] & *kept);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        const vec q = load(query + r * query_stride + d);
        UNROLL
        for (int i = 0; i < count; i++)
            sums[r * count + i] += q * k[i];
    }
}

/* The numbers of one key, or of a few that share the vectors of several rows, are read to their end
 * before those of the next: what the CPU calls for by itself are lines in the order of memory. One
 * row leaves it time for that, and calls of ours only take the place of its own; several do not.
 * sums is as in few_products(). */
INLINE void few_products_of_keys(const enum attn_numbers kind, const int rows, const int count,
                                 vec *sums, const float *query, int64_t query_stride,
                                 const char *const *keys, int64_t head_dim,
                                 const struct attn_ahead *ahead, int64_t first)
{
    const int vectors = 4 / count;
    const int64_t whole = head_dim / LANES * LANES;
    int64_t d = 0;

    UNROLL
    for (int i = 0; i < rows * count; i++)
        sums[i] = (vec){ 0 };
    for (; d + vectors * LANES <= whole; d += vectors * LANES) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            UNROLL
            for (int i = 0; i < count && rows > 1; i++)
                call_for(ahead, first + i, bytes_of(kind, d + v * LANES));
            few_products(kind, rows, count, sums, query, query_stride, d + v * LANES, keys,
                         d + v * LANES, NULL);
        }
    }
    for (; d < whole; d += LANES)
        few_products(kind, rows, count, sums, query, query_stride, d, keys, d, NULL);
    if (whole < head_dim) {
        const ivec kept = lanes_from(whole - (head_dim - LANES));
        few_products(kind, rows, count, sums, query, query_stride, whole, keys, head_dim - LANES,
                     &kept);
    }
}

/* rows query rows with the first n keys of LANES / rows. */
INLINE void few_scores_block(const enum attn_numbers kind, const int rows, float *scores,
                             int64_t scores_stride, const float *query, int64_t query_stride,
                             const void *key, int64_t key_stride, int64_t n, int64_t head_dim,
                             const struct attn_ahead *ahead, int64_t first)
{
    const int keys = (int)LANES / rows;
    const int most = rows == 1 ? 1 : kind == ATTN_NUMBERS_F32 ? 2 : 4;
    const int count = keys < most ? keys : most;
    const int64_t stride_bytes = bytes_of(kind, key_stride);
    vec sums[LANES];

    for (int j = 0; j < keys; j += count) {
        vec some[16];
        const char *rows_of_keys[4];
        UNROLL
        for (int i = 0; i < count; i++)
            rows_of_keys[i] = (const char *)key + (j + i < n ? j + i : n - 1) * stride_bytes;
        few_products_of_keys(kind, rows, count, some, query, query_stride, rows_of_keys, head_dim,
                             ahead, first + j);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int i = 0; i < count; i++)
                sums[r * keys + j + i] = some[r * count + i];
        }
    }
    const vec made = sum_each(sums);
    UNROLL
    for (int r = 0; r < rows; r++) {
        if (n >= keys)
            memcpy(scores + r * scores_stride, (const float *)&made + (int64_t)r * keys,
                   (size_t)keys * sizeof(float));
        else
            for (int j = 0; j < n; j++)
                scores[r * scores_stride + j] = made[r * keys + j];
    }
}

INLINE void few_scores_rows(const enum attn_numbers kind, const int rows, float *scores,
                            int64_t scores_stride, const float *query, int64_t query_stride,
                            const void *key, int64_t key_stride, int64_t n, int64_t head_dim,
                            const struct attn_ahead *ahead)
{
    const int keys = (int)LANES / rows;
    int64_t j = 0;

    for (; j + keys <= n; j += keys)
        few_scores_block(kind, rows, scores + j, scores_stride, query, query_stride,
                         (const char *)key + bytes_of(kind, j * key_stride), key_stride, keys,
                         head_dim, ahead, j);
    if (j < n)
        few_scores_block(kind, rows, scores + j, scores_stride, query, query_stride,
                         (const char *)key + bytes_of(kind, j * key_stride), key_stride, n - j,
                         head_dim, ahead, j);
}

INLINE void few_scores(const enum attn_numbers kind, float *scores, int64_t scores_stride,
                       const float *query, int64_t query_stride, int64_t row_count, const void *key,
                       int64_t key_stride, int64_t n, int64_t head_dim,
                       const struct attn_ahead *ahead)
{
    const struct attn_ahead none = { key, bytes_of(kind, key_stride) };
    int64_t r = 0;

    for (; r + 4 <= row_count; r += 4)
        few_scores_rows(kind, 4, scores + r * scores_stride, scores_stride,
                        query + r * query_stride, query_stride, key, key_stride, n, head_dim,
                        r == 0 ? ahead : &none);
    if (r + 2 <= row_count) {
        few_scores_rows(kind, 2, scores + r * scores_stride, scores_stride,
                        query + r * query_stride, query_stride, key, key_stride, n, head_dim,
                        r == 0 ? ahead : &none);
        r += 2;
    }
    if (r < row_count)
        few_scores_rows(kind, 1, scores + r * scores_stride, scores_stride,
                        query + r * query_stride, query_stride, key, key_stride, n, head_dim,
                        r == 0 ? ahead : &none);
}

/* ------------------------------------------------------------------------------ softmax -- */

static void few_softmax(float *scores, float *max, float *sum, float *rescale, int64_t n)
{
    const int64_t padded = (n + LANES - 1) / LANES * LANES;
    const float old_max = *max;
    float new_max = old_max;
    vec best = broadcast(-INFINITY);
    vec total = { 0 };

    for (int64_t j = n; j < padded; j++)
        scores[j] = -INFINITY;
    for (int64_t j = 0; j < padded; j += LANES)
        best = greater(load(scores + j), best);
    for (int i = 0; i < LANES; i++)
        new_max = best[i] > new_max ? best[i] : new_max;
    /* A row that has seen nothing subtracts 0: -INFINITY - -INFINITY would be NaN. */
    const float base = new_max == -INFINITY ? 0.0f : new_max;
    for (int64_t j = 0; j < padded; j += LANES) {
        const vec weight = exp_nonpositive(load(scores + j) - base);
        store(scores + j, weight);
        total += weight;
    }
    float tile_sum = 0.0f;
    for (int i = 0; i < LANES; i++)
        tile_sum += total[i];
    *rescale = exp_nonpositive(broadcast(old_max - base))[0];
    *max = new_max;
    *sum = *sum * *rescale + tile_sum;
}

/* ------------------------------------------------------------------------------ context -- */

/* Of values that meet four rows: the sums of four fill half the registers, of two where there are
 * 16 registers. */
#if VEC_BYTES == 64 || defined(__aarch64__)
enum { FEW_VECTORS = 4 };
#else
enum { FEW_VECTORS = 2 };
#endif

/* vectors of values from column on, into context; guarded is for one row only. */
INLINE void few_context_block(const enum attn_numbers kind, const int rows, const int vectors,
                              const bool guarded, float *context, int64_t context_stride,
                              const float *rescale, const float *weights, int64_t weights_stride,
                              const void *value, int64_t value_stride, int64_t column, int64_t n,
                              const struct attn_ahead *ahead)
{
    const int64_t stride_bytes = bytes_of(kind, value_stride);
    vec sums[16];

    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sums[i] = (vec){ 0 };
    for (int64_t j = 0; j < n; j++) {
        const char *row = (const char *)value + j * stride_bytes;
        vec v[8];
        if (guarded && weights[j] == 0.0f)
            continue;
        UNROLL
        for (int i = 0; i < vectors; i++) {
            v[i] = load_numbers(kind, row, column + i * LANES);
            if (rows > 1)
                call_for(ahead, j, bytes_of(kind, column + i * LANES));
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vec weight = broadcast(weights[r * weights_stride + j]);
            UNROLL
            for (int i = 0; i < vectors; i++)
                sums[r * vectors + i] += weight * v[i];
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

/* As many sums as there are registers for, and more than one row of each vector of values. */
INLINE void few_context_rows(const enum attn_numbers kind, const int rows, const bool guarded,
                             float *context, int64_t context_stride, const float *rescale,
                             const float *weights, int64_t weights_stride, const void *value,
                             int64_t value_stride, int64_t n, int64_t v_head_dim,
                             const struct attn_ahead *ahead)
{
    const int most = rows == 1 ? 8 : rows == 2 ? 4 : FEW_VECTORS;
    int64_t c = 0;

#define FEW_CONTEXT_BLOCK(vectors, column)                                                         \
    few_context_block(kind, rows, vectors, guarded, context + c, context_stride, rescale, weights, \
                      weights_stride, value, value_stride, column, n, ahead)
    for (; c + most * LANES <= v_head_dim; c += most * LANES)
        FEW_CONTEXT_BLOCK(most, c);
    if (most > 4 && c + 4 * LANES <= v_head_dim) {
        FEW_CONTEXT_BLOCK(4, c);
        c += 4 * LANES;
    }
    for (; c + LANES <= v_head_dim; c += LANES)
        FEW_CONTEXT_BLOCK(1, c);
    if (c < v_head_dim)
        FEW_CONTEXT_BLOCK(1, v_head_dim - LANES);
#undef FEW_CONTEXT_BLOCK
}

INLINE void few_context(const enum attn_numbers kind, float *context, int64_t context_stride,
                        const float *rescale, const float *weights, int64_t weights_stride,
                        int64_t row_count, const void *value, int64_t value_stride, int64_t n,
                        int64_t v_head_dim, const struct attn_ahead *ahead, bool guarded)
{
    const struct attn_ahead none = { value, bytes_of(kind, value_stride) };
    int64_t r = 0;

#define FEW_CONTEXT_ROWS(rows, guard)                                                              \
    few_context_rows(kind, rows, guard, context + r * context_stride, context_stride, rescale + r, \
                     weights + r * weights_stride, weights_stride, value, value_stride, n,         \
                     v_head_dim, r == 0 ? ahead : &none)
    if (guarded) {
        for (; r < row_count; r++)
            FEW_CONTEXT_ROWS(1, true);
        return;
    }
    for (; r + 4 <= row_count; r += 4)
        FEW_CONTEXT_ROWS(4, false);
    if (r + 2 <= row_count) {
        FEW_CONTEXT_ROWS(2, false);
        r += 2;
    }
    if (r < row_count)
        FEW_CONTEXT_ROWS(1, false);
#undef FEW_CONTEXT_ROWS
}

/* ------------------------------------------------------------------------ kinds of number -- */

#define FEW_OF_KIND(suffix, kind)                                                                  \
    static void few_scores_##suffix(float *scores, int64_t scores_stride, const float *query,      \
                                    int64_t query_stride, int64_t row_count, const void *key,      \
                                    int64_t key_stride, int64_t n, int64_t head_dim,               \
                                    const struct attn_ahead *ahead)                                \
    {                                                                                              \
        few_scores(kind, scores, scores_stride, query, query_stride, row_count, key, key_stride,   \
                   n, head_dim, ahead);                                                            \
    }                                                                                              \
    static void few_context_##suffix(                                                              \
        float *context, int64_t context_stride, const float *rescale, const float *weights,        \
        int64_t weights_stride, int64_t row_count, const void *value, int64_t value_stride,        \
        int64_t n, int64_t v_head_dim, const struct attn_ahead *ahead, bool guarded)               \
    {                                                                                              \
        few_context(kind, context, context_stride, rescale, weights, weights_stride, row_count,    \
                    value, value_stride, n, v_head_dim, ahead, guarded);                           \
    }

FEW_OF_KIND(f32, ATTN_NUMBERS_F32)
FEW_OF_KIND(f16, ATTN_NUMBERS_F16)
FEW_OF_KIND(bf16, ATTN_NUMBERS_BF16)

#endif
