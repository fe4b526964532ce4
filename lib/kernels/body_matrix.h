/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix.h - the kernels of matrix.h, over products of blocks that body_matrix_tiles.h makes
 * on tiles and body_matrix_dots.h on vectors. The including file includes one of the two, and
 * defines:
 *
 *     #define ATTN_MATRIX      attn_matrix_amx
 *     #define ATTN_MATRIX_RULE .takes_small = false, .rows_min = 64      which problems it takes
 *
 * While the vector unit turns scores into weights, a matrix unit multiplies what comes next: both
 * are one stream of instructions, 16 shares of vector arithmetic with a share of the products
 * before each.
 *
 * Beside products of tiles a core runs one multiplication of whole vectors in a cycle and not two,
 * but still two additions or logical operations: so weights are made with few multiplications. */
#ifndef ATTN_BODY_MATRIX_H
#define ATTN_BODY_MATRIX_H

#include "body_matrix_pack.h"

#include <math.h>

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

const struct attn_matrix_kernels ATTN_MATRIX = {
    ATTN_MATRIX_RULE,
    .begin = begin,
    .end = end,
    .pack_keys = pack_keys,
    .pack_queries = pack_queries,
    .pack_values = pack_values,
    .multiply = multiply,
    .weigh = { weigh_one, weigh_two, weigh_three },
    .greatest = greatest,
    .project = MATRIX_PROJECT,
    .odd_rows = MATRIX_ODD_ROWS,
    .multiply_fixed = MATRIX_MULTIPLY_FIXED,
};

#endif
