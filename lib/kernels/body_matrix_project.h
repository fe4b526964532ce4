/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_project.h - products of rows with parameters of 16 bits, a part of
 * body_matrix_tiles.h. Those of few rows are in body_matrix_few.h.
 *
 * Parameters are the left operand and rows the right: a tile of sums is 16 outputs by 16 rows.
 * Parameters of BF16 that are stored by outputs are read where they lie, as a tile is 16 rows of 32
 * numbers; all others are packed on the way. The sums of an output are chains over
 * ATTN_MATRIX_PROJECT_PART inputs, which are added to y in their order.
 *
 * Rows of a part are packed once and then stay in the second cache. A visit multiplies as many
 * blocks of 32 inputs as let the packed rows stay in the first cache for all outputs. */
#ifndef ATTN_BODY_MATRIX_PROJECT_H
#define ATTN_BODY_MATRIX_PROJECT_H

#include "body_matrix_pack.h"
#include "kernels.h"

/* The room of one call: the rows of a part, the sums of some outputs, the parameters of a visit. A
 * group is ATTN_MATRIX_LANES rows. */
enum {
    PROJECT_GROUPS = ATTN_PROJECT_ROWS_MAX / ATTN_MATRIX_LANES,
    PROJECT_BLOCKS = ATTN_MATRIX_PROJECT_PART / ATTN_MATRIX_COLUMNS,
    PROJECT_ROWS_ROOM = PROJECT_GROUPS * PROJECT_BLOCKS * ATTN_MATRIX_PARTS_MAX * ATTN_MATRIX_BLOCK,
    PROJECT_OUTPUTS = 128,
    PROJECT_SUMS = ATTN_MATRIX_STEP * ATTN_MATRIX_LANES,
    PROJECT_SUMS_ROOM = PROJECT_OUTPUTS / ATTN_MATRIX_STEP * PROJECT_GROUPS * PROJECT_SUMS,
    PROJECT_VISIT_MAX = 8, /* blocks */
    PROJECT_F16_PARTS = 2,
    PROJECT_LEFT_ROOM = PROJECT_VISIT_MAX * PROJECT_F16_PARTS * ATTN_MATRIX_BLOCK
};
_Static_assert((PROJECT_ROWS_ROOM + PROJECT_LEFT_ROOM) * sizeof(uint16_t)
                       + PROJECT_SUMS_ROOM * sizeof(float)
                   <= ATTN_PROJECT_WORK * sizeof(float),
               "rows, parameters and sums have room");

/* ------------------------------------------------------------------------ rows into parts -- */

/* The first parts parts of x; see cut(). */
INLINE void cut_some(__m512i part[ATTN_MATRIX_PARTS_MAX], __m512 x, const int parts)
{
    part[0] = round_to_bf16(x);
    for (int p = 1; p < parts; p++) {
        x = _mm512_sub_ps(x, _mm512_castsi512_ps(part[p - 1]));
        part[p] = round_to_bf16(x);
    }
}

/* Do neighbours of a row make a pair? They do in parameters that are read where they lie. Numbers
 * of F16 are converted by whole vectors, and those of two vectors are paired with less work. */
INLINE bool pairs_neighbours(const struct attn_matrix_project *project)
{
    return project->kind == ATTN_NUMBERS_BF16;
}

/* Up to 16 rows and 32 inputs as one tile of each part of the right operand. */
INLINE void pack_project_tile(uint16_t *to, const struct attn_matrix_project *project,
                              int64_t first_row, int64_t column, const int parts)
{
    __m512i square[ATTN_MATRIX_PARTS_MAX][LANES];

    for (int64_t r = 0; r < LANES; r++) {
        __m512i a[ATTN_MATRIX_PARTS_MAX], b[ATTN_MATRIX_PARTS_MAX];
        const bool is_row = first_row + r < project->row_count;
        const float *x = is_row ? project->x[first_row + r] : NULL;
        cut_some(a, load_row(x, 0, 0, is_row, column, project->in), parts);
        cut_some(b, load_row(x, 0, 0, is_row, column + LANES, project->in), parts);
        UNROLL
        for (int p = 0; p < parts; p++)
            square[p][r] = pairs_neighbours(project) ? narrow(a[p], b[p]) : pair(a[p], b[p]);
    }
    UNROLL
    for (int p = 0; p < parts; p++) {
        transpose_words(square[p]);
        for (int i = 0; i < LANES; i++)
            _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK + i * ATTN_MATRIX_COLUMNS, square[p][i]);
    }
}

/* All rows, inputs [first, first + blocks * 32), as [group][PROJECT_BLOCKS][part][block]. The
 * second tile of a block that has no row is left as it is, and is not multiplied. */
INLINE void pack_project_rows(uint16_t *to, const struct attn_matrix_project *project,
                              int64_t first, int64_t blocks, const int parts)
{
    for (int64_t row = 0; row < project->row_count; row += LANES)
        for (int64_t b = 0; b < blocks; b++)
            pack_project_tile(
                to + (row / ATTN_MATRIX_LANES * PROJECT_BLOCKS + b) * parts * ATTN_MATRIX_BLOCK
                    + row % ATTN_MATRIX_LANES / LANES * ATTN_MATRIX_TILE,
                project, row, first + b * ATTN_MATRIX_COLUMNS, parts);
}

static void pack_rows(uint16_t *to, const struct attn_matrix_project *project, int64_t first,
                      int64_t blocks)
{
    if (project->products->right_parts == 1)
        pack_project_rows(to, project, first, blocks, 1);
    else if (project->products->right_parts == 2)
        pack_project_rows(to, project, first, blocks, 2);
    else
        pack_project_rows(to, project, first, blocks, 3);
}

/* ------------------------------------------------------------------ parameters into parts -- */

/* 16 numbers of F16, exactly, as two parts of 8 and 3 bits. */
INLINE void cut_f16(__m512i part[PROJECT_F16_PARTS], __m256i numbers)
{
    const __m512 x = _mm512_cvtph_ps(numbers);

    part[0] = _mm512_and_si512(_mm512_castps_si512(x), HIGH_HALVES);
    part[1] = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(part[0])));
}

/* 16 numbers from numbers on, of which the first n exist; the others are 0. */
INLINE __m256i load_numbers(const uint16_t *numbers, int64_t n)
{
    return _mm256_maskz_loadu_epi16(first_lanes(n), numbers);
}

/* Two vectors of numbers as pairs in each part. */
INLINE void pair_numbers(const struct attn_matrix_project *project,
                         __m512i pairs[PROJECT_F16_PARTS], __m256i low, __m256i high)
{
    __m512i a[PROJECT_F16_PARTS], b[PROJECT_F16_PARTS];

    if (project->kind == ATTN_NUMBERS_BF16) {
        pairs[0] = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                   _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
        pairs[1] = _mm512_setzero_si512();
        return;
    }
    cut_f16(a, low);
    cut_f16(b, high);
    pairs[0] = pair(a[0], b[0]);
    pairs[1] = pair(a[1], b[1]);
}

/* 16 outputs by 32 inputs, stored by outputs. */
INLINE void pack_by_outputs(uint16_t *to, const struct attn_matrix_project *project, int64_t output,
                            int64_t input)
{
    const uint16_t *from =
        (const uint16_t *)project->weight + output * project->weight_stride + input;
    const int64_t inputs = project->in - input;
    __m512i pairs[PROJECT_F16_PARTS];

    for (int64_t j = 0; j < LANES; j++, from += project->weight_stride) {
        const int64_t n = output + j < project->out ? inputs : 0;
        uint16_t *row = to + j * ATTN_MATRIX_COLUMNS;
        const __m256i low = load_numbers(from, n), high = load_numbers(from + LANES, n - LANES);
        if (pairs_neighbours(project)) {
            _mm256_store_si256((__m256i *)(void *)row, low);
            _mm256_store_si256((__m256i *)(void *)(row + LANES), high);
            continue;
        }
        pair_numbers(project, pairs, low, high);
        _mm512_store_si512(row, pairs[0]);
        _mm512_store_si512(row + ATTN_MATRIX_BLOCK, pairs[1]);
    }
}

/* The same, stored by inputs. */
INLINE void pack_by_inputs(uint16_t *to, const struct attn_matrix_project *project, int64_t output,
                           int64_t input)
{
    const int64_t outputs = project->out - output;
    const int parts = project->products->left_parts;
    __m512i square[PROJECT_F16_PARTS][LANES], pairs[PROJECT_F16_PARTS];

    for (int64_t i = 0; i < LANES; i++) {
        const int64_t k = input + (pairs_neighbours(project) ? 2 * i : i);
        const int64_t next = k + (pairs_neighbours(project) ? 1 : LANES);
        const uint16_t *from = (const uint16_t *)project->weight + output;
        pair_numbers(
            project, pairs,
            load_numbers(from + k * project->weight_stride, k < project->in ? outputs : 0),
            load_numbers(from + next * project->weight_stride, next < project->in ? outputs : 0));
        for (int p = 0; p < parts; p++)
            square[p][i] = pairs[p];
    }
    for (int p = 0; p < parts; p++) {
        transpose_words(square[p]);
        for (int i = 0; i < LANES; i++)
            _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK + i * ATTN_MATRIX_COLUMNS, square[p][i]);
    }
}

/* Where the parameters of a visit are: the blocks of 32 outputs by 32 inputs. Steps are in numbers.
 */
struct project_left {
    const uint16_t *numbers;
    int64_t row_step; /* from one output to the next */
    int64_t block_step, part_step;
};

/* The parameters of outputs [output, output + 32) and count blocks of inputs. */
INLINE struct project_left left_of(const struct attn_matrix_project *project, int64_t output,
                                   int64_t input, int64_t count, uint16_t *packed)
{
    const int64_t parts = project->products->left_parts;
    const bool is_whole = output + ATTN_MATRIX_STEP <= project->out
                          && input + count * ATTN_MATRIX_COLUMNS <= project->in;

    if (is_whole && project->kind == ATTN_NUMBERS_BF16 && !project->by_inputs)
        return (struct project_left){ (const uint16_t *)project->weight
                                          + output * project->weight_stride + input,
                                      project->weight_stride, ATTN_MATRIX_COLUMNS, 0 };
    for (int64_t b = 0; b < count; b++)
        for (int64_t half = 0; half < 2; half++)
            (project->by_inputs ? pack_by_inputs : pack_by_outputs)(
                packed + b * parts * ATTN_MATRIX_BLOCK + half * ATTN_MATRIX_TILE, project,
                output + half * LANES, input + b * ATTN_MATRIX_COLUMNS);
    return (struct project_left){ packed, ATTN_MATRIX_COLUMNS, parts * ATTN_MATRIX_BLOCK,
                                  ATTN_MATRIX_BLOCK };
}

/* ------------------------------------------------------------------------------- products -- */

/* sums_t += or = the products of count blocks; sums_t is [32 outputs][32 rows]. is_half: only the
 * first 16 rows. */
INLINE void multiply_visit(float *sums_t, const struct project_left *left, const uint16_t *right,
                           const struct attn_matrix_products *products, int64_t count,
                           bool is_first, const bool is_half)
{
    const int64_t stride = left->row_step * (int64_t)sizeof(uint16_t);

    if (is_first) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        load_sums(sums_t);
    }
    for (int64_t b = 0; b < count; b++) {
        for (int i = 0; i < products->count; i++) {
            const uint16_t *from =
                left->numbers + b * left->block_step + products->left[i] * left->part_step;
            const uint16_t *rows =
                right + (b * products->right_parts + products->right[i]) * ATTN_MATRIX_BLOCK;
            if (products->loads_left[i]) {
                tile_load(4, from, stride);
                tile_load(5, from + LANES * left->row_step, stride);
            }
            tile_load(6, rows, TILE_STRIDE);
            tile_dot(0, 4, 6);
            tile_dot(2, 5, 6);
            if (is_half)
                continue;
            tile_load(7, rows + ATTN_MATRIX_TILE, TILE_STRIDE);
            tile_dot(1, 4, 7);
            tile_dot(3, 5, 7);
        }
    }
    store_sums(sums_t);
}

/* y += the sums of 32 outputs, from output on, and of a group, from row on. */
static void add_project_sums(const struct attn_matrix_project *project, const float *sums_t,
                             int64_t output, int64_t row)
{
    for (int64_t o = 0; o < ATTN_MATRIX_STEP && output + o < project->out; o += LANES)
        for (int64_t r = 0; r < ATTN_MATRIX_LANES && row + r < project->row_count; r += LANES) {
            const __mmask16 present = first_lanes(project->out - output - o);
            __m512i square[LANES];
            for (int j = 0; j < LANES; j++)
                square[j] = _mm512_load_si512(sums_t + (o + j) * ATTN_MATRIX_LANES + r);
            transpose_words(square);
            for (int j = 0; j < LANES && row + r + j < project->row_count; j++) {
                float *y = project->y[row + r + j] + output + o;
                _mm512_mask_storeu_ps(y, present,
                                      _mm512_add_ps(_mm512_maskz_loadu_ps(present, y),
                                                    _mm512_castsi512_ps(square[j])));
            }
        }
}

/* Blocks of a visit: their packed rows fill at most 40 KiB. */
INLINE int64_t visit_of(const struct attn_matrix_project *project)
{
    const int64_t row_tiles = (project->row_count + LANES - 1) / LANES;
    const int64_t blocks = 40 / (row_tiles * project->products->right_parts);

    return blocks < PROJECT_VISIT_MAX ? blocks : PROJECT_VISIT_MAX;
}

struct project_room {
    uint16_t *rows, *left;
    float *sums;
};

/* The part of up to PROJECT_OUTPUTS outputs that begins at this input. */
static void project_outputs(const struct attn_matrix_project *project,
                            const struct project_room *room, int64_t output, int64_t input,
                            int64_t blocks)
{
    const int64_t visit = visit_of(project), rest = project->out - output;
    const int64_t end = output + (rest < PROJECT_OUTPUTS ? rest : PROJECT_OUTPUTS);
    const int64_t group_step =
        (int64_t)PROJECT_BLOCKS * project->products->right_parts * ATTN_MATRIX_BLOCK;

    for (int64_t b = 0; b < blocks; b += visit) {
        const int64_t count = blocks - b < visit ? blocks - b : visit;
        float *sums = room->sums;
        for (int64_t o = output; o < end; o += ATTN_MATRIX_STEP) {
            const struct project_left left =
                left_of(project, o, input + b * ATTN_MATRIX_COLUMNS, count, room->left);
            const uint16_t *right =
                room->rows + b * project->products->right_parts * ATTN_MATRIX_BLOCK;
            for (int64_t r = 0; r < project->row_count; r += ATTN_MATRIX_LANES) {
                if (project->row_count - r <= LANES)
                    multiply_visit(sums, &left, right, project->products, count, b == 0, true);
                else
                    multiply_visit(sums, &left, right, project->products, count, b == 0, false);
                sums += PROJECT_SUMS;
                right += group_step;
            }
        }
    }
    const float *sums = room->sums;
    for (int64_t o = output; o < end; o += ATTN_MATRIX_STEP)
        for (int64_t r = 0; r < project->row_count; r += ATTN_MATRIX_LANES, sums += PROJECT_SUMS)
            add_project_sums(project, sums, o, r);
}

static void project_many(const struct attn_matrix_project *project)
{
    struct project_room room = { .rows = (uint16_t *)(void *)project->work };

    room.left = room.rows + PROJECT_ROWS_ROOM;
    room.sums = (float *)(void *)(room.left + PROJECT_LEFT_ROOM);
    begin();
    for (int64_t i = 0; i < project->in; i += ATTN_MATRIX_PROJECT_PART) {
        const int64_t rest = project->in - i;
        const int64_t inputs = rest < ATTN_MATRIX_PROJECT_PART ? rest : ATTN_MATRIX_PROJECT_PART;
        const int64_t blocks = (inputs + ATTN_MATRIX_COLUMNS - 1) / ATTN_MATRIX_COLUMNS;
        pack_rows(room.rows, project, i, blocks);
        for (int64_t o = 0; o < project->out; o += PROJECT_OUTPUTS)
            project_outputs(project, &room, o, i, blocks);
    }
    end();
}

/* The bits of magnitudes, as integers, are in the order of the magnitudes, and those of infinity
 * and NaN follow. */
static uint64_t odd_rows(const float *const *x, int64_t row_count, int64_t in)
{
    enum { LEAST = 0x1f800000, LIMIT = 0x5f800000 }; /* 2^-64 and 2^64 */
    uint64_t odd = 0;

    for (int64_t r = 0; r < row_count; r++) {
        __m512i most = _mm512_setzero_si512();
        for (int64_t i = 0; i < in; i += LANES)
            most = _mm512_max_epu32(most,
                                    _mm512_castps_si512(magnitude(load_row(x[r], 0, 0, 1, i, in))));
        const uint32_t greatest = _mm512_reduce_max_epu32(most);
        if (greatest >= LIMIT || (greatest < LEAST && greatest != 0))
            odd |= (uint64_t)1 << r;
    }
    return odd;
}

#endif
