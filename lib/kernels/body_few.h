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

/* The line that number i lies in, of one of the rows that are read next; of a row's vectors those
 * call that have come to another line. Called for one at a time, between the arithmetic: more at
 * once than a core has misses under way for would make it wait. */
INLINE void call_for(const enum attn_numbers kind, const struct attn_ahead *ahead, int64_t row,
                     int64_t i)
{
    const int64_t bytes = bytes_of(kind, i);
    const uintptr_t at = (uintptr_t)ahead->rows + (uintptr_t)(row * ahead->stride_bytes + bytes);

    if (bytes_of(kind, LANES) == 64 || bytes % 64 == 0)
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

/* The key with number j of n, or the last. */
INLINE const char *key_at(const void *key, int64_t stride_bytes, int64_t j, int64_t n)
{
    return (const char *)key + (j < n ? j : n - 1) * stride_bytes;
}

/* The lanes of the vector that ends with a row of head_dim that are not in the one before. */
INLINE ivec lanes_of_end(int64_t head_dim)
{
    return lanes_from(head_dim / LANES * LANES - (head_dim - LANES));
}

INLINE vec load_end(const enum attn_numbers kind, const char *row, int64_t head_dim)
{
    return (vec)((ivec)load_numbers(kind, row, head_dim - LANES) & lanes_of_end(head_dim));
}

/* sums[j]: the products of one query row with key j, LANES sums of them that are to be added. The
 * loop is to stay one: each load in it takes up where it left off a row before, which is how the
 * CPU knows what it will read next. Where the numbers of a row are so many whole vectors, 0: any
 * number, the query stays in registers. */
INLINE void few_products_of_row(const enum attn_numbers kind, const int vectors, vec sums[LANES],
                                const float *query, const void *key, int64_t stride_bytes,
                                int64_t n, int64_t head_dim)
{
    vec q[8];

    UNROLL
    for (int v = 0; v < vectors; v++)
        q[v] = load(query + v * LANES);
    KEEP_ROLLED
    for (int j = 0; j < LANES; j++) {
        const char *row = key_at(key, stride_bytes, j, n);
        vec sum = { 0 };
        int64_t d = vectors * LANES;
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum += q[v] * load_numbers(kind, row, v * LANES);
        if (vectors == 0) {
            for (; d + LANES <= head_dim; d += LANES)
                sum += load(query + d) * load_numbers(kind, row, d);
            if (d < head_dim)
                sum += load(query + d) * load_end(kind, row, head_dim);
        }
        sums[j] = sum;
    }
}

/* sums[r * keys + j]: the same of query row r with key j, keys and rows of them being LANES
 * together. All sums stay in registers; what several rows share is called for. */
INLINE void few_products_of_rows(const enum attn_numbers kind, const int rows, vec sums[LANES],
                                 const float *query, int64_t query_stride, const void *key,
                                 int64_t stride_bytes, int64_t n, int64_t head_dim,
                                 const struct attn_ahead *ahead, int64_t first)
{
    enum { KEYS_MAX = 8 };
    const int keys = (int)LANES / rows;
    const char *row[KEYS_MAX];
    vec k[KEYS_MAX];
    int64_t d = 0, called = first, column = 0;

    UNROLL
    for (int j = 0; j < keys; j++)
        row[j] = key_at(key, stride_bytes, j, n);
    UNROLL
    for (int i = 0; i < LANES; i++)
        sums[i] = (vec){ 0 };
    for (; d + LANES <= head_dim; d += LANES) {
        UNROLL
        for (int j = 0; j < keys; j++) {
            k[j] = load_numbers(kind, row[j], d);
            call_for(kind, ahead, called, column);
            column += LANES;
            if (column >= head_dim) {
                column = 0;
                called++;
            }
        }
        UNROLL
        for (int i = 0; i < LANES; i++)
            sums[i] += load(query + i / keys * query_stride + d) * k[i % keys];
    }
    if (d < head_dim) {
        UNROLL
        for (int i = 0; i < LANES; i++)
            sums[i] +=
                load(query + i / keys * query_stride + d) * load_end(kind, row[i % keys], head_dim);
    }
}

/* rows query rows with the first n keys of LANES / rows. */
INLINE void few_scores_block(const enum attn_numbers kind, const int rows, const int vectors,
                             float *scores, int64_t scores_stride, const float *query,
                             int64_t query_stride, const void *key, int64_t key_stride, int64_t n,
                             int64_t head_dim, const struct attn_ahead *ahead, int64_t first)
{
    const int keys = (int)LANES / rows;
    const int64_t stride_bytes = bytes_of(kind, key_stride);
    vec sums[LANES];

    if (rows == 1)
        few_products_of_row(kind, vectors, sums, query, key, stride_bytes, n, head_dim);
    else
        few_products_of_rows(kind, rows, sums, query, query_stride, key, stride_bytes, n, head_dim,
                             ahead, first);
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

#define FEW_SCORES_BLOCK(vectors, count)                                                           \
    few_scores_block(kind, rows, vectors, scores + j, scores_stride, query, query_stride,          \
                     (const char *)key + bytes_of(kind, j * key_stride), key_stride, count,        \
                     head_dim, ahead, j)
    if (rows == 1 && head_dim == 4 * LANES)
        for (; j + keys <= n; j += keys)
            FEW_SCORES_BLOCK(4, keys);
    if (rows == 1 && head_dim == 8 * LANES)
        for (; j + keys <= n; j += keys)
            FEW_SCORES_BLOCK(8, keys);
    for (; j + keys <= n; j += keys)
        FEW_SCORES_BLOCK(0, keys);
    if (j < n)
        FEW_SCORES_BLOCK(0, n - j);
#undef FEW_SCORES_BLOCK
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

/* Keys whose values are summed before the sum joins the context. */
enum { FEW_RUN = 16 };

/* vectors of values from column on, into context; guarded is for one row only. */
INLINE void few_context_block(const enum attn_numbers kind, const int rows, const int vectors,
                              const bool guarded, float *context, int64_t context_stride,
                              const float *rescale, const float *weights, int64_t weights_stride,
                              const void *value, int64_t value_stride, int64_t column, int64_t n,
                              int64_t v_head_dim, const struct attn_ahead *ahead)
{
    const int64_t stride_bytes = bytes_of(kind, value_stride);
    /* Rows of floats that are read to their ends one after the other: the CPU sees them coming. */
    const bool is_stream = kind == ATTN_NUMBERS_F32 && vectors * LANES == v_head_dim;
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
            if (rows > 1 && !is_stream)
                call_for(kind, ahead, j, column + i * LANES);
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
    const int most = rows == 1 ? 8 : rows == 2 ? 2 * FEW_VECTORS : FEW_VECTORS;
    int64_t c = 0;

#define FEW_CONTEXT_BLOCK(vectors, column)                                                         \
    few_context_block(kind, rows, vectors, guarded, context + c, context_stride, rescale, weights, \
                      weights_stride, value, value_stride, column, n, v_head_dim, ahead)
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

/* A run of keys: a chain of products as long as that, and values that the nearest cache still holds
 * when the next rows want them. */
INLINE void few_context_run(const enum attn_numbers kind, float *context, int64_t context_stride,
                            const float *rescale, int64_t rescale_step, const float *weights,
                            int64_t weights_stride, int64_t row_count, const void *value,
                            int64_t value_stride, int64_t n, int64_t v_head_dim,
                            const struct attn_ahead *ahead, bool guarded)
{
    const struct attn_ahead none = { value, bytes_of(kind, value_stride) };
    /* Values that a pass of two rows reads to their ends, where one of four would not. */
    const bool in_twos = kind == ATTN_NUMBERS_F32 && v_head_dim > FEW_VECTORS * LANES
                         && v_head_dim <= 2 * FEW_VECTORS * LANES;
    int64_t r = 0;

#define FEW_CONTEXT_ROWS(rows, guard)                                                              \
    few_context_rows(kind, rows, guard, context + r * context_stride, context_stride,              \
                     rescale + r * rescale_step, weights + r * weights_stride, weights_stride,     \
                     value, value_stride, n, v_head_dim, r == 0 ? ahead : &none)
    if (guarded) {
        for (; r < row_count; r++)
            FEW_CONTEXT_ROWS(1, true);
        return;
    }
    for (; r + 4 <= row_count && !in_twos; r += 4)
        FEW_CONTEXT_ROWS(4, false);
    for (; r + 2 <= row_count; r += 2)
        FEW_CONTEXT_ROWS(2, false);
    if (r < row_count)
        FEW_CONTEXT_ROWS(1, false);
#undef FEW_CONTEXT_ROWS
}

INLINE void few_context(const enum attn_numbers kind, float *context, int64_t context_stride,
                        const float *rescale, const float *weights, int64_t weights_stride,
                        int64_t row_count, const void *value, int64_t value_stride, int64_t n,
                        int64_t v_head_dim, const struct attn_ahead *ahead, bool guarded)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    const int64_t stride_bytes = bytes_of(kind, value_stride);

    for (int64_t j = 0; j < n; j += FEW_RUN) {
        const struct attn_ahead run_ahead = {
            (const void *)((uintptr_t)ahead->rows + (uintptr_t)(j * ahead->stride_bytes)),
            ahead->stride_bytes
        };
        few_context_run(kind, context, context_stride, j == 0 ? rescale : ones, j == 0, weights + j,
                        weights_stride, row_count, (const char *)value + j * stride_bytes,
                        value_stride, n - j < FEW_RUN ? n - j : FEW_RUN, v_head_dim, &run_ahead,
                        guarded);
    }
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
