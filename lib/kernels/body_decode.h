/* SPDX-License-Identifier: Apache-2.0 */
/* body_decode.h - the decode kernels, for few query rows; a part of body.h.
 *
 * With fewer query rows than lanes, the lanes are numbers of one row instead: a vector of a key is
 * multiplied by the same vector of each query row, and the sums across vectors that this needs are
 * computed for LANES pairs at once. If a row does not end with a whole vector, its end is covered
 * by a vector that ends with the row and overlaps the vector before. */
#ifndef ATTN_BODY_DECODE_H
#define ATTN_BODY_DECODE_H

#include "body_decode_context.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------- scores -- */

/* Lane i of the result is the sum over the lanes of sums[i]. Two passes within each 16 bytes reduce
 * four vectors to one; further passes add the groups of 16 bytes of two vectors. */
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

/* Mask: lanes from first on keep their number, the others become 0. */
INLINE ivec lanes_from(int64_t first)
{
    ivec lane = { 0 };
    UNROLL
    for (int i = 0; i < LANES; i++)
        lane[i] = i;
    return lane >= (int32_t)first - (ivec){ 0 };
}

/* In the vector that ends with a row of head_dim: the lanes that are not in the vector before
 * it. */
INLINE ivec lanes_of_end(int64_t head_dim)
{
    return lanes_from(head_dim / LANES * LANES - (head_dim - LANES));
}

INLINE vec load_end(const enum attn_numbers kind, const char *row, const float *scale,
                    int64_t head_dim)
{
    return (vec)((ivec)load_key(kind, row, scale, head_dim - LANES) & lanes_of_end(head_dim));
}

/* The keys of one pass: n rows stride_bytes apart, in parts part_bytes apart; whether to prefetch,
 * and how many bytes ahead. Of I8, the scales of the page that they lie in, and the row of the page
 * that is the first of rows; parts are part_keys apart. */
struct decode_keys {
    const char *rows;
    int64_t stride_bytes, part_bytes, n;
    int64_t head_dim, ahead;
    bool prefetch;
    const float *scale;
    int64_t at, part_keys;
};

/* Row j of part s. If there is only one part, rows past the last are the last. */
INLINE const char *decode_row(const struct decode_keys *key, const int parts, int64_t s, int64_t j)
{
    if (parts == 1)
        return key->rows + (j < key->n ? j : key->n - 1) * key->stride_bytes;
    return key->rows + j * key->stride_bytes + s * key->part_bytes;
}

/* The scales of that row. */
INLINE const float *decode_scale(const enum attn_numbers kind, const struct decode_keys *key,
                                 const int parts, int64_t s, int64_t j)
{
    const int64_t row = parts == 1 ? (j < key->n ? j : key->n - 1) : j + s * key->part_keys;
    if (kind != ATTN_NUMBERS_I8)
        return NULL;
    return key->scale + (key->at + row) / ATTN_KERNELS_I8_ROWS * key->head_dim;
}

/* sums[s * keys + j]: the products of one query row with key j of part s, as LANES partial sums
 * that are still to be added; each part has the same number of keys. The loop must stay rolled:
 * then each of its load instructions continues where it was one row before, and so the CPU predicts
 * what it reads next. vectors is the number of whole vectors of a row, which keeps the query in
 * registers; 0: any number. */
INLINE void decode_products_of_row(const enum attn_numbers kind, const int parts, const int vectors,
                                   const bool prefetch, vec sums[LANES], const float *query,
                                   const struct decode_keys *key)
{
    const int keys = (int)LANES / parts;
    vec q[8];

    UNROLL
    for (int v = 0; v < vectors; v++)
        q[v] = load(query + v * LANES);
    KEEP_ROLLED
    for (int j = 0; j < keys; j++) {
        UNROLL
        for (int s = 0; s < parts; s++) {
            const char *row = offsets_from(decode_row(key, parts, s, j));
            const float *scale = decode_scale(kind, key, parts, s, j);
            vec sum = { 0 };
            int64_t d = vectors * LANES;
            UNROLL
            for (int v = 0; v < vectors; v++) {
                prefetch_ahead(kind, prefetch, row, v * LANES, key->ahead);
                sum += q[v] * load_key(kind, row, scale, v * LANES);
            }
            if (vectors == 0) {
                for (; d + LANES <= key->head_dim; d += LANES) {
                    prefetch_ahead(kind, prefetch, row, d, key->ahead);
                    sum += load(query + d) * load_key(kind, row, scale, d);
                }
                if (d < key->head_dim)
                    sum += load(query + d) * load_end(kind, row, scale, key->head_dim);
            }
            sums[s * keys + j] = sum;
        }
    }
}

/* sums[r * keys + s * each + j]: the same for query row r with key j of part s; keys * rows is
 * LANES. All sums stay in registers. */
INLINE void decode_products_of_rows(const enum attn_numbers kind, const int rows, const int parts,
                                    const bool prefetch, vec sums[LANES], const float *query,
                                    int64_t query_stride, const struct decode_keys *key)
{
    enum { KEYS_MAX = 8 };
    const int keys = (int)LANES / rows;
    const int each = keys / parts;
    const char *row[KEYS_MAX];
    const float *scale[KEYS_MAX];
    vec k[KEYS_MAX];
    int64_t d = 0;

    UNROLL
    for (int i = 0; i < keys; i++) {
        row[i] = decode_row(key, parts, i / each, i % each);
        scale[i] = decode_scale(kind, key, parts, i / each, i % each);
    }
    UNROLL
    for (int i = 0; i < LANES; i++)
        sums[i] = (vec){ 0 };
    for (; d + LANES <= key->head_dim; d += LANES) {
        UNROLL
        for (int i = 0; i < keys; i++) {
            prefetch_ahead(kind, prefetch, row[i], d, key->ahead);
            k[i] = load_key(kind, row[i], scale[i], d);
        }
        UNROLL
        for (int i = 0; i < LANES; i++)
            sums[i] += load(query + i / keys * query_stride + d) * k[i % keys];
    }
    if (d < key->head_dim) {
        UNROLL
        for (int i = 0; i < LANES; i++)
            sums[i] += load(query + i / keys * query_stride + d)
                       * load_end(kind, row[i % keys], scale[i % keys], key->head_dim);
    }
}

/* LANES scores: [r * keys + s * each + j] is that of query row r with key j of part s. */
INLINE vec decode_scores_made(const enum attn_numbers kind, const int rows, const int parts,
                              const int vectors, const bool prefetch, const float *query,
                              int64_t query_stride, const struct decode_keys *key)
{
    vec sums[LANES];

    if (rows == 1)
        decode_products_of_row(kind, parts, vectors, prefetch, sums, query, key);
    else
        decode_products_of_rows(kind, rows, parts, prefetch, sums, query, query_stride, key);
    return sum_each(sums);
}

/* Transpose within each 16 bytes of four vectors: from four parts' numbers for one key in each
 * vector to four keys' numbers for one part. */
INLINE void transpose_fours(vec fours[4])
{
    const vec low_even = INTERLEAVE_LOW(fours[0], fours[2]);
    const vec high_even = INTERLEAVE_HIGH(fours[0], fours[2]);
    const vec low_odd = INTERLEAVE_LOW(fours[1], fours[3]);
    const vec high_odd = INTERLEAVE_HIGH(fours[1], fours[3]);

    fours[0] = INTERLEAVE_LOW(low_even, low_odd);
    fours[1] = INTERLEAVE_HIGH(low_even, low_odd);
    fours[2] = INTERLEAVE_LOW(high_even, high_odd);
    fours[3] = INTERLEAVE_HIGH(high_even, high_odd);
}

/* Scores of rows query rows with DECODE_BLOCK keys of each of DECODE_STREAMS parts; the scores of
 * two parts are part_keys apart. Each step takes as many keys of as many parts as make LANES pairs.
 * If that is one key of each part, the step is repeated four times, to store four scores of a row
 * at once. */
INLINE void decode_scores_block(const enum attn_numbers kind, const int rows, const int vectors,
                                const bool prefetch, float *scores, int64_t scores_stride,
                                int64_t part_keys, const float *query, int64_t query_stride,
                                const struct decode_keys *first)
{
    const int keys = (int)LANES / rows;
    const int parts = keys < DECODE_STREAMS ? keys : DECODE_STREAMS;
    const int each = keys / parts;
    const int repeats = rows * DECODE_STREAMS == LANES ? 4 : 1;
    struct decode_keys key = *first;

    for (int64_t j = 0; j < DECODE_BLOCK; j += each * repeats)
        for (int64_t part = 0; part < DECODE_STREAMS; part += parts) {
            const int some = repeats * each;
            vec made[4];
            KEEP_ROLLED
            for (int i = 0; i < repeats; i++) {
                key.rows = first->rows + (j + i) * key.stride_bytes + part * key.part_bytes;
                key.at = first->at + j + i + part * key.part_keys;
                made[i] = decode_scores_made(kind, rows, parts, vectors, prefetch, query,
                                             query_stride, &key);
            }
            if (repeats == 4)
                transpose_fours(made);
            UNROLL
            for (int r = 0; r < rows; r++) {
                UNROLL
                for (int s = 0; s < parts; s++) {
                    const float *from = repeats == 4
                                            ? (const float *)&made[s] + (int64_t)r * 4
                                            : (const float *)&made[0] + r * keys + s * each;
                    memcpy(scores + r * scores_stride + (part + s) * part_keys + j, from,
                           (size_t)some * sizeof(float));
                }
            }
        }
}

/* Scores of rows query rows with n keys, one key after the other. */
INLINE void decode_scores_rest(const enum attn_numbers kind, const int rows, const int vectors,
                               float *scores, int64_t scores_stride, const float *query,
                               int64_t query_stride, const struct decode_keys *first, int64_t n)
{
    const int keys = (int)LANES / rows;
    struct decode_keys key = *first;

    KEEP_ROLLED
    for (int64_t j = 0; j < n; j += keys) {
        key.rows = first->rows + j * key.stride_bytes;
        key.at = first->at + j;
        key.n = n - j;
        const vec made =
            decode_scores_made(kind, rows, 1, vectors, false, query, query_stride, &key);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const float *from = (const float *)&made + (int64_t)r * keys;
            float *to = scores + r * scores_stride + j;
            if (key.n >= keys)
                memcpy(to, from, (size_t)keys * sizeof(float));
            else
                memcpy(to, from, (size_t)key.n * sizeof(float));
        }
    }
}

/* Scores of rows query rows with a block of each part, or with the rest of the keys. */
INLINE void decode_scores_rows(const enum attn_numbers kind, const int rows, const bool prefetch,
                               float *scores, int64_t scores_stride, int64_t part_keys,
                               const float *query, int64_t query_stride,
                               const struct decode_keys *key)
{
#define DECODE_SCORES(vectors)                                                                     \
    if (part_keys > 0)                                                                             \
        decode_scores_block(kind, rows, vectors, prefetch, scores, scores_stride, part_keys,       \
                            query, query_stride, key);                                             \
    else                                                                                           \
        decode_scores_rest(kind, rows, vectors, scores, scores_stride, query, query_stride, key,   \
                           key->n)
    if (rows == 1 && key->head_dim == 4 * LANES) {
        DECODE_SCORES(4);
    } else if (rows == 1 && key->head_dim == 8 * LANES) {
        DECODE_SCORES(8);
    } else {
        DECODE_SCORES(0);
    }
#undef DECODE_SCORES
}

/* Scores of all query rows with a block of each part, or with the rest of the keys. */
INLINE void decode_scores_all(const enum attn_numbers kind, float *scores, int64_t scores_stride,
                              int64_t part_keys, const float *query, int64_t query_stride,
                              int64_t row_count, const struct decode_keys *key)
{
    int64_t r = 0;

#define DECODE_SCORES_ROWS(rows, prefetch)                                                         \
    decode_scores_rows(kind, rows, prefetch, scores + r * scores_stride, scores_stride, part_keys, \
                       query + r * query_stride, query_stride, key)
#define DECODE_SCORES_PREFETCHING(rows)                                                            \
    if (r == 0 && key->prefetch)                                                                   \
        DECODE_SCORES_ROWS(rows, true);                                                            \
    else                                                                                           \
        DECODE_SCORES_ROWS(rows, false)
    for (; r + 4 <= row_count; r += 4) {
        DECODE_SCORES_PREFETCHING(4);
    }
    if (r + 2 <= row_count) {
        DECODE_SCORES_PREFETCHING(2);
        r += 2;
    }
    if (r < row_count) {
        DECODE_SCORES_PREFETCHING(1);
    }
#undef DECODE_SCORES_PREFETCHING
#undef DECODE_SCORES_ROWS
}

INLINE void decode_scores(const enum attn_numbers kind, float *scores, int64_t scores_stride,
                          const float *query, int64_t query_stride, int64_t row_count,
                          const void *key, int64_t key_stride, int64_t n, int64_t head_dim,
                          const void *next, const float *scale, int64_t at)
{
    const int64_t stride_bytes = bytes_of(kind, key_stride);
    const int64_t part_keys = keys_of_part(n);
    struct decode_keys keys = { .rows = key,
                                .stride_bytes = stride_bytes,
                                .part_bytes = part_keys * stride_bytes,
                                .n = DECODE_BLOCK,
                                .head_dim = head_dim,
                                .prefetch = next != NULL,
                                .scale = scale,
                                .part_keys = part_keys };

    for (int64_t j = 0; j < part_keys; j += DECODE_BLOCK) {
        keys.rows = (const char *)key + j * stride_bytes;
        keys.at = at + j;
        keys.ahead = bytes_ahead(key, next, j, part_keys, stride_bytes);
        decode_scores_all(kind, scores + j, scores_stride, part_keys, query, query_stride,
                          row_count, &keys);
    }
    const int64_t met = DECODE_STREAMS * part_keys;
    if (met == n)
        return;
    keys.rows = (const char *)key + met * stride_bytes;
    keys.at = at + met;
    keys.n = n - met;
    keys.prefetch = false;
    decode_scores_all(kind, scores + met, scores_stride, 0, query, query_stride, row_count, &keys);
}

/* ------------------------------------------------------------------------------ softmax -- */

static void decode_softmax(float *scores, float *max, float *sum, float *rescale, int64_t n)
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

/* ------------------------------------------------------------------------ kinds of number -- */

#define DECODE_OF_KIND(suffix, kind)                                                               \
    static void decode_scores_##suffix(float *scores, int64_t scores_stride, const float *query,   \
                                       int64_t query_stride, int64_t row_count, const void *key,   \
                                       int64_t key_stride, int64_t n, int64_t head_dim,            \
                                       const void *next)                                           \
    {                                                                                              \
        decode_scores(kind, scores, scores_stride, query, query_stride, row_count, key,            \
                      key_stride, n, head_dim, next, NULL, 0);                                     \
    }                                                                                              \
    static void decode_context_##suffix(                                                           \
        float *context, int64_t context_stride, const float *rescale, const float *weights,        \
        int64_t weights_stride, int64_t row_count, const void *value, int64_t value_stride,        \
        int64_t n, int64_t v_head_dim, const void *next, int64_t low, int64_t high)                \
    {                                                                                              \
        decode_context(kind, context, context_stride, rescale, weights, weights_stride, row_count, \
                       value, value_stride, n, v_head_dim, next, low, high, NULL);                 \
    }

DECODE_OF_KIND(f32, ATTN_NUMBERS_F32)
DECODE_OF_KIND(f16, ATTN_NUMBERS_F16)
DECODE_OF_KIND(bf16, ATTN_NUMBERS_BF16)

static void decode_scores_i8(float *scores, int64_t scores_stride, const float *query,
                             int64_t query_stride, int64_t row_count, const void *key,
                             int64_t key_stride, int64_t n, int64_t head_dim, const void *next,
                             const float *scale, int64_t at)
{
    decode_scores(ATTN_NUMBERS_I8, scores, scores_stride, query, query_stride, row_count, key,
                  key_stride, n, head_dim, next, scale, at);
}

static void decode_context_i8(float *context, int64_t context_stride, const float *rescale,
                              const float *weights, int64_t weights_stride, int64_t row_count,
                              const void *value, int64_t value_stride, int64_t n,
                              int64_t v_head_dim, const void *next, int64_t low, int64_t high,
                              const float *scale)
{
    decode_context(ATTN_NUMBERS_I8, context, context_stride, rescale, weights, weights_stride,
                   row_count, value, value_stride, n, v_head_dim, next, low, high, scale);
}

#endif
