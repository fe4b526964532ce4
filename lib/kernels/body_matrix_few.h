/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_few.h - projections of few rows, a part of body_matrix_tiles.h.
 *
 * One row waits for memory: what counts is that parameters come in long runs, and that each block
 * of them is multiplied while the next ones are on their way. So 32 outputs at a time meet all
 * inputs, as far as the packed rows have room, and numbers of F16 are cut into parts one block
 * ahead. The sums of an output are those of body_matrix_project.h, bit for bit. */
#ifndef ATTN_BODY_MATRIX_FEW_H
#define ATTN_BODY_MATRIX_FEW_H

#include "body_matrix_project.h"

/* Rows that are few; and the room of one call: parameters of two blocks, the sums of some outputs,
 * and the rest for rows. */
enum {
    FEW_ROWS = LANES,
    FEW_LEFT = PROJECT_F16_PARTS * ATTN_MATRIX_BLOCK,
    FEW_LEFT_ROOM = 2 * FEW_LEFT,
    FEW_SUMS_ROOM = ATTN_MATRIX_STEP * FEW_ROWS,
    FEW_ROWS_ROOM = ATTN_PROJECT_WORK * 2 - FEW_LEFT_ROOM - FEW_SUMS_ROOM * 2
};
_Static_assert(FEW_ROWS_ROOM >= PROJECT_BLOCKS * ATTN_MATRIX_PARTS_MAX * ATTN_MATRIX_TILE,
               "there is room for the inputs of one chain");

struct few_room {
    uint16_t *left, *rows;
    float *sums;
};

/* Parameters are prefetched so many inputs ahead. */
enum { FEW_AHEAD = 4 * ATTN_MATRIX_COLUMNS };

/* Tiles of rows and of sums are as narrow as there are rows: with one row a tile is one vector. */
static void begin_few(int64_t row_count)
{
    struct tile_config config = whole_tiles();

    config.row_bytes[0] = config.row_bytes[2] = config.row_bytes[6] = (uint16_t)(row_count * 4);
    tile_configure(&config);
}

/* ------------------------------------------------------------------------------------ rows -- */

/* 16 pairs, each row_count behind the one before. */
INLINE void store_apart(uint16_t *to, __m512i pairs, int64_t row_count)
{
    uint32_t apart[LANES];

    if (row_count == 1) {
        _mm512_storeu_si512(to, pairs);
        return;
    }
    _mm512_storeu_si512(apart, pairs);
    for (int64_t i = 0; i < LANES; i++)
        memcpy(to + i * row_count * 2, &apart[i], sizeof apart[i]);
}

/* Inputs [first, first + blocks * 32) of all rows, as [block][part][pair][row]. */
INLINE void pack_few_rows(uint16_t *to, const struct attn_matrix_project *project, int64_t first,
                          int64_t blocks, const int parts)
{
    const int64_t rows = project->row_count;

    for (int64_t block = 0; block < blocks; block++)
        for (int64_t r = 0; r < rows; r++) {
            const int64_t column = first + block * ATTN_MATRIX_COLUMNS;
            __m512i a[ATTN_MATRIX_PARTS_MAX], b[ATTN_MATRIX_PARTS_MAX];
            cut_some(a, load_row(project->x[r], 0, 0, 1, column, project->in), parts);
            cut_some(b, load_row(project->x[r], 0, 0, 1, column + LANES, project->in), parts);
            UNROLL
            for (int p = 0; p < parts; p++)
                store_apart(to + ((block * parts + p) * LANES * rows + r) * 2,
                            pairs_neighbours(project) ? narrow(a[p], b[p]) : pair(a[p], b[p]),
                            rows);
        }
}

static void pack_few(uint16_t *to, const struct attn_matrix_project *project, int64_t first,
                     int64_t blocks)
{
    if (project->products->right_parts == 1)
        pack_few_rows(to, project, first, blocks, 1);
    else if (project->products->right_parts == 2)
        pack_few_rows(to, project, first, blocks, 2);
    else
        pack_few_rows(to, project, first, blocks, 3);
}

/* ------------------------------------------------------------------------------ parameters -- */

/* From a block to the one that is prefetched: of the same outputs, or of the next 32. */
INLINE int64_t few_ahead(const struct attn_matrix_project *project, int64_t input)
{
    return input + FEW_AHEAD < project->in
               ? FEW_AHEAD
               : FEW_AHEAD - project->in + ATTN_MATRIX_STEP * project->weight_stride;
}

/* One row of a block that is further on. It need not exist. */
INLINE void prefetch_few(const uint16_t *row, int64_t ahead)
{
    _mm_prefetch((const char *)((uintptr_t)row + (uintptr_t)(ahead * 2)), _MM_HINT_T1);
}

/* pack_by_outputs() of F16 where all 16 outputs and 32 inputs exist. */
INLINE void pack_whole_f16(uint16_t *to, const uint16_t *from, int64_t stride, int64_t ahead)
{
    UNROLL
    for (int64_t j = 0; j < LANES; j++) {
        __m512i a[PROJECT_F16_PARTS], b[PROJECT_F16_PARTS];
        prefetch_few(from + j * stride, ahead);
        cut_f16(a, _mm256_loadu_si256((const __m256i *)(const void *)(from + j * stride)));
        cut_f16(b, _mm256_loadu_si256((const __m256i *)(const void *)(from + j * stride + LANES)));
        for (int p = 0; p < PROJECT_F16_PARTS; p++)
            _mm512_store_si512(to + p * ATTN_MATRIX_BLOCK + j * ATTN_MATRIX_COLUMNS,
                               pair(a[p], b[p]));
    }
}

/* left_of() for one block. */
INLINE struct project_left few_left(const struct attn_matrix_project *project, int64_t output,
                                    int64_t input, uint16_t *packed)
{
    const bool is_whole =
        output + ATTN_MATRIX_STEP <= project->out && input + ATTN_MATRIX_COLUMNS <= project->in;
    const uint16_t *from =
        (const uint16_t *)project->weight + output * project->weight_stride + input;

    if (!is_whole || project->by_inputs)
        return left_of(project, output, input, 1, packed);
    const int64_t stride = project->weight_stride, ahead = few_ahead(project, input);
    if (project->kind == ATTN_NUMBERS_BF16) {
        for (int64_t j = 0; j < ATTN_MATRIX_STEP; j++)
            prefetch_few(from + j * stride, ahead);
        return (struct project_left){ from, stride, 0, 0 };
    }
    pack_whole_f16(packed, from, stride, ahead);
    pack_whole_f16(packed + ATTN_MATRIX_TILE, from + LANES * stride, stride, ahead);
    return (struct project_left){ packed, ATTN_MATRIX_COLUMNS, 0, ATTN_MATRIX_BLOCK };
}

/* -------------------------------------------------------------------------------- products -- */

/* The sums of 32 outputs += the products of one block. */
INLINE void multiply_few(const struct project_left *left, const uint16_t *right,
                         const struct attn_matrix_products *products, int64_t row_count)
{
    const int64_t stride = left->row_step * (int64_t)sizeof(uint16_t);
    const int64_t down = LANES * left->row_step;

    tile_load(4, left->numbers, stride);
    tile_load(5, left->numbers + down, stride);
    if (products->left_parts > 1) {
        tile_load(1, left->numbers + left->part_step, stride);
        tile_load(3, left->numbers + left->part_step + down, stride);
    }
    for (int i = 0; i < products->count; i++) {
        if (products->loads_right[i])
            tile_load(6, right + products->right[i] * LANES * row_count * 2, row_count * 4);
        if (products->left[i] == 0) {
            tile_dot(0, 4, 6);
            tile_dot(2, 5, 6);
        } else {
            tile_dot(0, 1, 6);
            tile_dot(2, 3, 6);
        }
    }
}

/* y += the sums of 32 outputs, [output][row]. */
static void add_few_sums(const struct attn_matrix_project *project, const float *sums,
                         int64_t output)
{
    const int64_t rows = project->row_count, rest = project->out - output;
    const int64_t count = rest < ATTN_MATRIX_STEP ? rest : ATTN_MATRIX_STEP;

    for (int64_t r = 0; r < rows; r++) {
        float *y = project->y[r] + output;
        for (int64_t o = 0; o < count; o++)
            y[o] += sums[o * rows + r];
    }
}

/* The chains of 32 outputs end. */
INLINE void end_chains(const struct attn_matrix_project *project, float *sums, int64_t output)
{
    const int64_t rows = project->row_count;

    tile_store(0, sums, rows * 4);
    tile_store(2, sums + LANES * rows, rows * 4);
    add_few_sums(project, sums, output);
}

/* All outputs by blocks blocks of inputs, from input on, whose rows are packed. */
static void multiply_piece(const struct attn_matrix_project *project, const struct few_room *room,
                           int64_t input, int64_t blocks)
{
    const int64_t right_step = project->products->right_parts * LANES * project->row_count * 2;
    struct project_left next = few_left(project, 0, input, room->left);
    int64_t done = 0;

    for (int64_t o = 0; o < project->out; o += ATTN_MATRIX_STEP)
        for (int64_t b = 0; b < blocks; b++) {
            const struct project_left left = next;
            const bool is_last = b + 1 == blocks;
            uint16_t *packed = room->left + ++done % 2 * FEW_LEFT;
            if (!is_last)
                next = few_left(project, o, input + (b + 1) * ATTN_MATRIX_COLUMNS, packed);
            else if (o + ATTN_MATRIX_STEP < project->out)
                next = few_left(project, o + ATTN_MATRIX_STEP, input, packed);
            if (b % PROJECT_BLOCKS == 0) {
                tile_zero(0);
                tile_zero(2);
            }
            multiply_few(&left, room->rows + b * right_step, project->products, project->row_count);
            if (is_last || (b + 1) % PROJECT_BLOCKS == 0)
                end_chains(project, room->sums, o);
        }
}

static void project_few(const struct attn_matrix_project *project)
{
    const int64_t chain =
        PROJECT_BLOCKS * project->products->right_parts * LANES * project->row_count * 2;
    const int64_t piece = FEW_ROWS_ROOM / chain * ATTN_MATRIX_PROJECT_PART;
    struct few_room room = { .left = (uint16_t *)(void *)project->work };

    room.rows = room.left + FEW_LEFT_ROOM;
    room.sums = (float *)(void *)(room.rows + FEW_ROWS_ROOM);
    begin_few(project->row_count);
    for (int64_t i = 0; i < project->in; i += piece) {
        const int64_t inputs = project->in - i < piece ? project->in - i : piece;
        const int64_t blocks = (inputs + ATTN_MATRIX_COLUMNS - 1) / ATTN_MATRIX_COLUMNS;
        pack_few(room.rows, project, i, blocks);
        multiply_piece(project, &room, i, blocks);
    }
    end();
}

static void project(const struct attn_matrix_project *project)
{
    (project->row_count <= FEW_ROWS ? project_few : project_many)(project);
}

#endif
