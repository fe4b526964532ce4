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

/* pack_by_outputs() of F16 where all 16 outputs and 32 inputs exist. */
INLINE void pack_whole_f16(uint16_t *to, const uint16_t *from, int64_t stride)
{
    UNROLL
    for (int64_t j = 0; j < LANES; j++) {
        __m512i a[PROJECT_F16_PARTS], b[PROJECT_F16_PARTS];
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

    if (!is_whole || project->by_inputs || project->kind == ATTN_NUMBERS_BF16)
        return left_of(project, output, input, 1, packed);
    pack_whole_f16(packed, from, project->weight_stride);
    pack_whole_f16(packed + ATTN_MATRIX_TILE, from + LANES * project->weight_stride,
                   project->weight_stride);
    return (struct project_left){ packed, ATTN_MATRIX_COLUMNS, 0, ATTN_MATRIX_BLOCK };
}

/* -------------------------------------------------------------------------------- products -- */

/* The sums of 32 outputs += the products of one block. */
INLINE void multiply_few(const struct project_left *left, const uint16_t *right,
                         const struct attn_matrix_products *products, int64_t row_count)
{
    const int64_t stride = left->row_step * (int64_t)sizeof(uint16_t);

    for (int i = 0; i < products->count; i++) {
        const uint16_t *from = left->numbers + products->left[i] * left->part_step;
        if (products->loads_left[i]) {
            tile_load(4, from, stride);
            tile_load(5, from + LANES * left->row_step, stride);
        }
        tile_load(6, right + products->right[i] * LANES * row_count * 2, row_count * 4);
        tile_dot(0, 4, 6);
        tile_dot(2, 5, 6);
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

/* One chain: 32 outputs, up to ATTN_MATRIX_PROJECT_PART inputs, from input on. */
static void multiply_chain(const struct attn_matrix_project *project, const uint16_t *right,
                           uint16_t *packed, float *sums, int64_t output, int64_t input,
                           int64_t blocks)
{
    const int64_t rows = project->row_count;
    const int64_t right_step = project->products->right_parts * LANES * rows * 2;
    struct project_left left = few_left(project, output, input, packed);

    tile_zero(0);
    tile_zero(2);
    for (int64_t b = 0; b < blocks; b++, right += right_step) {
        const struct project_left this = left;
        if (b + 1 < blocks)
            left = few_left(project, output, input + (b + 1) * ATTN_MATRIX_COLUMNS,
                            packed + (b + 1) % 2 * FEW_LEFT);
        multiply_few(&this, right, project->products, rows);
    }
    tile_store(0, sums, rows * 4);
    tile_store(2, sums + LANES * rows, rows * 4);
    add_few_sums(project, sums, output);
}

static void project_few(const struct attn_matrix_project *project)
{
    uint16_t *packed = (uint16_t *)(void *)project->work, *rows = packed + FEW_LEFT_ROOM;
    float *sums = (float *)(void *)(rows + FEW_ROWS_ROOM);
    const int64_t block = project->products->right_parts * LANES * project->row_count * 2;
    const int64_t chain = PROJECT_BLOCKS * block, chains = FEW_ROWS_ROOM / chain;
    const int64_t piece = chains * ATTN_MATRIX_PROJECT_PART;

    begin_few(project->row_count);
    for (int64_t i = 0; i < project->in; i += piece) {
        const int64_t end = project->in - i < piece ? project->in : i + piece;
        pack_few(rows, project, i, (end - i + ATTN_MATRIX_COLUMNS - 1) / ATTN_MATRIX_COLUMNS);
        for (int64_t o = 0; o < project->out; o += ATTN_MATRIX_STEP)
            for (int64_t k = i; k < end; k += ATTN_MATRIX_PROJECT_PART) {
                const int64_t rest = (end - k + ATTN_MATRIX_COLUMNS - 1) / ATTN_MATRIX_COLUMNS;
                multiply_chain(project, rows + (k - i) / ATTN_MATRIX_COLUMNS * block, packed, sums,
                               o, k, rest < PROJECT_BLOCKS ? rest : PROJECT_BLOCKS);
            }
    }
    end();
}

static void project(const struct attn_matrix_project *project)
{
    (project->row_count <= FEW_ROWS ? project_few : project_many)(project);
}

#endif
