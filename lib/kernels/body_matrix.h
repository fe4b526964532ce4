/* body_matrix.h - the kernels of matrix.h, written once on six instructions of a matrix unit. The
 * including file defines:
 *
 *     #define ATTN_MATRIX              attn_matrix_amx
 *     #define ATTN_MATRIX_TAKES_SMALL  false
 *     tile_configure(&config)  tile_release()                       struct tile_config
 *     tile_zero(t)             tile_load(t, address, stride)        tile_store(t, address, stride)
 *     tile_dot(c, a, b)        c += a . b, pairs of bf16 into float
 *
 * Tiles 0 to 3 hold sums, 4 and 5 the left operand, 6 and 7 the right. While the vector unit turns
 * scores into weights, the matrix unit multiplies what comes next: both are one stream of
 * instructions, 16 shares of vector arithmetic with a share of the products before each.
 *
 * Beside products of tiles a core runs one multiplication of whole vectors in a cycle and not two,
 * but still two additions or logical operations: so weights are made with few multiplications. */
#ifndef ATTN_BODY_MATRIX_H
#define ATTN_BODY_MATRIX_H

#include "body_matrix_pack.h"

#include <math.h>
#include <string.h>

/* The memory of a tile of sums: 16 rows of a transposed tile of ATTN_MATRIX_LANES. */
enum {
    SUMS_STRIDE = ATTN_MATRIX_LANES * (int)sizeof(float),
    SUMS_DOWN = LANES * ATTN_MATRIX_LANES,
    TILE_STRIDE = 64
};

static void begin(void)
{
    struct tile_config config;

    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    tile_configure(&config);
}

static void end(void)
{
    tile_release();
}

/* ---------------------------------------------------------------------- products of tiles -- */

INLINE void load_sums(const float *sums)
{
    tile_load(0, sums, SUMS_STRIDE);
    tile_load(1, sums + LANES, SUMS_STRIDE);
    tile_load(2, sums + SUMS_DOWN, SUMS_STRIDE);
    tile_load(3, sums + SUMS_DOWN + LANES, SUMS_STRIDE);
}

INLINE void store_sums(float *sums)
{
    tile_store(0, sums, SUMS_STRIDE);
    tile_store(1, sums + LANES, SUMS_STRIDE);
    tile_store(2, sums + SUMS_DOWN, SUMS_STRIDE);
    tile_store(3, sums + SUMS_DOWN + LANES, SUMS_STRIDE);
}

/* One block of the left times one of the right. */
INLINE void multiply_blocks(const uint16_t *left, const uint16_t *right, bool loads_left,
                            bool loads_right)
{
    if (loads_left)
        tile_load(4, left, TILE_STRIDE);
    if (loads_right)
        tile_load(6, right, TILE_STRIDE);
    tile_dot(0, 4, 6);
    if (loads_right)
        tile_load(7, right + ATTN_MATRIX_TILE, TILE_STRIDE);
    tile_dot(1, 4, 7);
    if (loads_left)
        tile_load(5, left + ATTN_MATRIX_TILE, TILE_STRIDE);
    tile_dot(2, 5, 6);
    tile_dot(3, 5, 7);
}

/* How far the products of a struct attn_matrix_beside are. */
struct stream {
    const struct attn_matrix_beside *beside;
    int64_t scores, all; /* products of blocks for the scores; and in all */
    int64_t done;
    int64_t block; /* of columns, or the slot */
    int product;
};

INLINE struct stream begin_stream(const struct attn_matrix_beside *beside)
{
    struct stream stream = { .beside = beside };

    stream.scores = beside->blocks > 0 ? beside->blocks * beside->score->count : 0;
    stream.all = stream.scores + (beside->count > 0 ? beside->count * beside->context->count : 0);
    if (stream.scores > 0) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    }
    return stream;
}

INLINE void next_product(struct stream *stream, const struct attn_matrix_products *products)
{
    stream->done++;
    if (++stream->product == products->count) {
        stream->product = 0;
        stream->block++;
    }
}

INLINE void score_product(struct stream *stream)
{
    const struct attn_matrix_beside *beside = stream->beside;
    const struct attn_matrix_products *products = beside->score;
    const int i = stream->product;

    multiply_blocks(
        beside->keys
            + (stream->block * products->left_parts + products->left[i]) * ATTN_MATRIX_BLOCK,
        beside->queries
            + (stream->block * products->right_parts + products->right[i]) * ATTN_MATRIX_BLOCK,
        products->loads_left[i], products->loads_right[i]);
    next_product(stream, products);
    if (stream->done == stream->scores)
        store_sums(beside->scores_t);
}

INLINE void context_product(struct stream *stream)
{
    const struct attn_matrix_beside *beside = stream->beside;
    const struct attn_matrix_products *products = beside->context;
    const int i = stream->product;

    if (stream->done == stream->scores) {
        load_sums(beside->context_t);
        stream->block = beside->first;
    }
    const int64_t step = beside->steps[stream->block];
    multiply_blocks(
        beside->values + (step * products->left_parts + products->left[i]) * ATTN_MATRIX_BLOCK,
        beside->weights
            + (stream->block * products->right_parts + products->right[i]) * ATTN_MATRIX_BLOCK,
        products->loads_left[i], products->loads_right[i]);
    next_product(stream, products);
    if (stream->done == stream->all)
        store_sums(beside->context_t);
}

/* Go on until this many products are done. */
INLINE void run_stream(struct stream *stream, int64_t until)
{
    while (stream->done < until && stream->done < stream->scores)
        score_product(stream);
    while (stream->done < until)
        context_product(stream);
}

static void multiply(const struct attn_matrix_beside *beside)
{
    struct stream stream = begin_stream(beside);

    run_stream(&stream, stream.all);
}

/* ----------------------------------------------------------------- from scores to weights -- */

/* 2^f for 0 <= f < 1: 1 at 0, of the least degree that the parts of weights can show. */
INLINE __m512 two_to_fraction(__m512 f, const int parts)
{
#define TERM(x) _mm512_set1_ps(x)
    __m512 p;

    if (parts == 1) {
        p = _mm512_fmadd_ps(TERM(7.706706376e-02f), f, TERM(2.276449535e-01f));
        p = _mm512_fmadd_ps(p, f, TERM(6.951168020e-01f));
    } else if (parts == 2) {
        p = _mm512_fmadd_ps(TERM(1.342668773e-02f), f, TERM(5.224246638e-02f));
        p = _mm512_fmadd_ps(p, f, TERM(2.412802103e-01f));
        p = _mm512_fmadd_ps(p, f, TERM(6.930448437e-01f));
    } else {
        p = _mm512_fmadd_ps(TERM(1.867130482e-03f), f, TERM(9.017029176e-03f));
        p = _mm512_fmadd_ps(p, f, TERM(5.579991423e-02f));
        p = _mm512_fmadd_ps(p, f, TERM(2.401644497e-01f));
        p = _mm512_fmadd_ps(p, f, TERM(6.931513119e-01f));
    }
    return _mm512_fmadd_ps(p, f, TERM(1.0f));
#undef TERM
}

/* 2^t; 0 for -INFINITY. vreduceps leaves the fraction of t, and vscalefps takes its floor. */
INLINE __m512 two_to(__m512 t, const int parts)
{
    enum { FRACTION_OF_FLOOR = 9 };

    return _mm512_scalef_ps(two_to_fraction(_mm512_reduce_ps(t, FRACTION_OF_FLOOR), parts), t);
}

/* The weights of four keys, as two rows of pairs for each part. Returns the sum of what is
 * multiplied: with peaked rows that is worth more than the rounding of a weight. */
INLINE __m512 weigh_four(uint16_t *to, const float *scores, __m512 offset, __m512 base,
                         __m512 to_power, const int parts)
{
    __m512 w[4];
    __m512i part[4][ATTN_MATRIX_PARTS_MAX];

    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512 s = _mm512_sub_ps(_mm512_load_ps(scores + i * ATTN_MATRIX_LANES), offset);
        w[i] = two_to(_mm512_fmsub_ps(s, to_power, base), parts);
        if (parts == 1) {
            part[i][0] = _mm512_and_si512(
                _mm512_add_epi32(_mm512_castps_si512(w[i]), _mm512_set1_epi32(0x8000)),
                HIGH_HALVES);
            w[i] = _mm512_castsi512_ps(part[i][0]);
            continue;
        }
        part[i][0] = _mm512_and_si512(_mm512_castps_si512(w[i]), HIGH_HALVES);
        const __m512 rest = _mm512_sub_ps(w[i], _mm512_castsi512_ps(part[i][0]));
        part[i][1] = _mm512_castps_si512(rest);
        if (parts == 2)
            part[i][1] = _mm512_add_epi32(part[i][1], _mm512_set1_epi32(0x8000));
        else
            part[i][2] = _mm512_castps_si512(_mm512_sub_ps(
                rest, _mm512_castsi512_ps(_mm512_and_si512(part[i][1], HIGH_HALVES))));
    }
    UNROLL
    for (int p = 0; p < parts; p++) {
        _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK, pair(part[0][p], part[1][p]));
        _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK + ATTN_MATRIX_STEP,
                           pair(part[2][p], part[3][p]));
    }
    return _mm512_add_ps(_mm512_add_ps(w[0], w[1]), _mm512_add_ps(w[2], w[3]));
}

/* Scores alone are done after 10 of the 16 shares, so that they are in memory when the next step
 * needs them. */
enum { SHARES = 16, SHARES_OF_SCORES = 10 };

INLINE void weigh(const struct attn_matrix_weights *weights,
                  const struct attn_matrix_beside *beside, const int parts)
{
    const __m512 to_power = _mm512_set1_ps(weights->to_power);
    struct stream stream = begin_stream(beside);
    const int64_t spread = beside->count > 0 ? SHARES : SHARES_OF_SCORES;
    int64_t share = 0;

    for (int half = 0; half < 2; half++) {
        const __m512 offset = _mm512_load_ps(weights->offset + half * LANES);
        const __m512 base = _mm512_load_ps(weights->base + half * LANES);
        __m512 sum = _mm512_setzero_ps();
        for (int key = 0; key < ATTN_MATRIX_STEP; key += 4) {
            const int64_t until = ++share * stream.all / spread;
            run_stream(&stream, until < stream.all ? until : stream.all);
            sum = _mm512_add_ps(
                sum,
                weigh_four(weights->weights + half * ATTN_MATRIX_TILE + key / 2 * ATTN_MATRIX_STEP,
                           weights->scores_t + key * ATTN_MATRIX_LANES + half * LANES, offset, base,
                           to_power, parts));
        }
        _mm512_store_ps(weights->sums + half * LANES, sum);
    }
}

#define WEIGH(name, parts)                                                                         \
    static void name(const struct attn_matrix_weights *weights,                                    \
                     const struct attn_matrix_beside *beside)                                      \
    {                                                                                              \
        weigh(weights, beside, parts);                                                             \
    }
WEIGH(weigh_one, 1)
WEIGH(weigh_two, 2)
WEIGH(weigh_three, 3)
#undef WEIGH

static void greatest(float *max, const float *scores_t)
{
    for (int half = 0; half < 2; half++) {
        __m512 m = _mm512_set1_ps(-INFINITY);
        for (int j = 0; j < ATTN_MATRIX_STEP; j++)
            m = _mm512_max_ps(_mm512_load_ps(scores_t + j * ATTN_MATRIX_LANES + half * LANES), m);
        _mm512_store_ps(max + half * LANES, m);
    }
}

#include "body_matrix_project.h"

const struct attn_matrix_kernels ATTN_MATRIX = {
    .takes_small = ATTN_MATRIX_TAKES_SMALL,
    .begin = begin,
    .end = end,
    .pack_keys = pack_keys,
    .pack_queries = pack_queries,
    .pack_values = pack_values,
    .multiply = multiply,
    .weigh = { weigh_one, weigh_two, weigh_three },
    .greatest = greatest,
    .project = project,
    .odd_rows = odd_rows,
};

#endif
