/* body_project.h - the kernels of projections, a part of body.h.
 *
 * An output is one chain of multiply-adds for every ATTN_PROJECT_PART inputs, in their order, and
 * the parts are added in theirs. No form below adds in any other way, whatever its lanes are, so
 * all of them give the same bits, and so do all tables whose CPU has a multiply-add:
 *
 *   few rows      lanes are outputs. Parameters that lie by outputs are transposed on the way, a
 *                 square of vectors at a time in registers: as little work for each of them as
 *                 memory takes to bring it. Those that lie by inputs need no turning, and are
 *                 read in runs as long as there are outputs.
 *   more rows     what is turned is the rows, once for all outputs: lanes are rows, and one
 *                 parameter at a time meets them. Where parameters lie by inputs lanes stay
 *                 outputs, of which a tile is copied to where its rows do not fall on one another
 *                 in the cache.
 *
 * Needs multiply() and transpose_square() of body.h. */
#ifndef ATTN_BODY_PROJECT_H
#define ATTN_BODY_PROJECT_H

#include "kernels.h"
#include "vector.h"

#include <string.h>

enum { PROJECT_FEW_ROWS = 4 };

/* Inputs of a tile, a whole number of parts. */
enum { PROJECT_TILE = 512 };

_Static_assert(PROJECT_TILE % ATTN_PROJECT_PART == 0, "a tile is made of parts");
_Static_assert((ATTN_PROJECT_OUTPUTS_MAX + PROJECT_TILE) * ATTN_PROJECT_ROWS_MAX
                   <= ATTN_PROJECT_WORK,
               "sums and a tile of rows have room");
_Static_assert((ATTN_PROJECT_ROWS_MAX + ATTN_WIDTH_MAX) * PROJECT_TILE <= ATTN_PROJECT_WORK,
               "rows and a tile of parameters have room");

/* The n numbers at p, the first LANES of them at the most, the rest 0; and back. */
INLINE vec load_most(const float *p, int64_t n)
{
    return n >= LANES ? load(p) : load_part(p, n);
}

INLINE void store_most(float *p, vec v, int64_t n)
{
    if (n >= LANES)
        store(p, v);
    else
        store_part(p, v, n);
}

INLINE int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* What the parts are added to. */
static void project_begin(float *const *y, int64_t row_count, const float *bias, int64_t out)
{
    for (int64_t r = 0; r < row_count; r++)
        if (bias)
            memcpy(y[r], bias, (size_t)out * sizeof *bias);
        else
            memset(y[r], 0, (size_t)out * sizeof **y);
}

/* ------------------------------------------------- few rows, parameters that lie by outputs -- */

/* The sums of rows rows with LANES outputs, on their way through the inputs. */
struct project_sums {
    vec totals[PROJECT_FEW_ROWS], part[PROJECT_FEW_ROWS];
    int64_t part_end; /* the input that the next part begins with */
};

INLINE void project_end_part(struct project_sums *sums)
{
    UNROLL
    for (int r = 0; r < PROJECT_FEW_ROWS; r++) {
        sums->totals[r] += sums->part[r];
        sums->part[r] = (vec){ 0 };
    }
    sums->part_end += ATTN_PROJECT_PART;
}

/* square[c]: the parameters of input i + c for the n outputs that weight begins with; columns of
 * them, LANES at the most. */
INLINE void project_load_square(vec square[LANES], const float *weight, int64_t weight_stride,
                                int64_t n, int64_t i, int64_t columns)
{
    UNROLL
    for (int j = 0; j < LANES; j++)
        square[j] = load_most(weight + (j < n ? j : n - 1) * weight_stride + i, columns);
    transpose_square(square);
}

/* Inputs i to i + LANES, all of one part. */
INLINE void project_square(const int rows, struct project_sums *sums,
                           const float *const x[PROJECT_FEW_ROWS], const float *weight,
                           int64_t weight_stride, int64_t n, int64_t i)
{
    vec square[LANES];

    project_load_square(square, weight, weight_stride, n, i, LANES);
    UNROLL
    for (int c = 0; c < LANES; c++) {
        UNROLL
        for (int r = 0; r < rows; r++)
            sums->part[r] += x[r][i + c] * square[c];
    }
}

/* Inputs i to i + columns, where there are not LANES or a part ends amid them. */
static void project_cut_square(int rows, struct project_sums *sums,
                               const float *const x[PROJECT_FEW_ROWS], const float *weight,
                               int64_t weight_stride, int64_t n, int64_t i, int64_t columns)
{
    vec square[LANES];

    project_load_square(square, weight, weight_stride, n, i, columns);
    for (int64_t c = 0; c < columns; c++) {
        if (i + c == sums->part_end)
            project_end_part(sums);
        for (int r = 0; r < rows; r++)
            sums->part[r] += x[r][i + c] * square[c];
    }
}

/* Numbers from weight to the first that is aligned to a vector: loads that cross from one line of
 * the cache to the next fetch lines twice where rows fall on one another in it. */
INLINE int64_t project_unaligned(const float *weight)
{
    return (int64_t)(-(uintptr_t)weight % VEC_BYTES / sizeof *weight);
}

/* rows rows with n outputs, LANES at the most, from output o on. What is cut works on a copy of the
 * sums, so that they themselves have no address and stay in registers. */
INLINE void project_outputs(const int rows, float *const y[PROJECT_FEW_ROWS],
                            const float *const x[PROJECT_FEW_ROWS], const float *weight,
                            int64_t weight_stride, int64_t o, int64_t n, int64_t in)
{
    struct project_sums sums = { .part_end = ATTN_PROJECT_PART };
    int64_t i = 0, columns = at_most(project_unaligned(weight), in);

    UNROLL
    for (int r = 0; r < rows; r++)
        sums.totals[r] = load_most(y[r] + o, n);
    for (; i < in; i += columns, columns = at_most(in - i, LANES)) {
        if (i == sums.part_end)
            project_end_part(&sums);
        if (columns == LANES && i + LANES <= sums.part_end) {
            project_square(rows, &sums, x, weight, weight_stride, n, i);
        } else {
            struct project_sums cut = sums;
            project_cut_square(rows, &cut, x, weight, weight_stride, n, i, columns);
            sums = cut;
        }
    }
    project_end_part(&sums);
    UNROLL
    for (int r = 0; r < rows; r++)
        store_most(y[r] + o, sums.totals[r], n);
}

/* rows rows, of which the last may be one row again. */
INLINE void project_few(const int rows, float *const *y, const float *const *x, int64_t row_count,
                        const float *weight, int64_t weight_stride, int64_t out, int64_t in)
{
    const float *from[PROJECT_FEW_ROWS];
    float *to[PROJECT_FEW_ROWS];

    for (int r = 0; r < rows; r++) {
        from[r] = x[at_most(r, row_count - 1)];
        to[r] = y[at_most(r, row_count - 1)];
    }
    for (int64_t o = 0; o < out; o += LANES)
        project_outputs(rows, to, from, weight + o * weight_stride, weight_stride, o,
                        at_most(out - o, LANES), in);
}

/* ------------------------------------------------ more rows, parameters that lie by outputs -- */

/* Rows become lanes: tile[c][r] = x[r][i + c] for c < columns, 0 where there is no row r. */
INLINE void project_turn(float *tile, const float *const *x, int64_t row_count, int64_t i,
                         int64_t columns, int64_t width)
{
    for (int64_t r = 0; r < width; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const int64_t n = at_most(columns - c, LANES);
            vec square[LANES];
            UNROLL
            for (int j = 0; j < LANES; j++)
                square[j] = r + j < row_count ? load_most(x[r + j] + i + c, n) : (vec){ 0 };
            transpose_square(square);
            for (int j = 0; j < n; j++)
                store(tile + (c + j) * width + r, square[j]);
        }
}

/* y[r][o] = sums_t[o][r]. */
INLINE void project_turn_back(float *const *y, int64_t row_count, const float *sums_t,
                              int64_t width, int64_t out)
{
    for (int64_t r = 0; r < row_count; r += LANES)
        for (int64_t o = 0; o < out; o += LANES) {
            const int64_t n = at_most(out - o, LANES);
            vec square[LANES];
            UNROLL
            for (int j = 0; j < LANES; j++)
                square[j] = load(sums_t + (o + (j < n ? j : n - 1)) * width + r);
            transpose_square(square);
            for (int j = 0; j < at_most(row_count - r, LANES); j++)
                store_most(y[r + j] + o, square[j], n);
        }
}

/* sums_t[o][r] += a part of the sums of outs outputs. */
INLINE void project_block(const int outs, const int vectors, float *sums_t, const float *tile,
                          int64_t width, const float *weight, int64_t weight_stride,
                          int64_t columns)
{
    vec sums[BLOCK_SUMS_MAX];

    multiply(outs, vectors, false, sums, weight, weight_stride, 1, tile, width, columns, NULL);
    UNROLL
    for (int o = 0; o < outs; o++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *sum = sums_t + o * width + v * LANES;
            store(sum, load(sum) + sums[o * vectors + v]);
        }
    }
}

/* outs outputs with all rows, vectors of them at once: 2, or as many as width is a multiple of. */
INLINE void project_rows(const int outs, const int vectors, float *sums_t, const float *tile,
                         int64_t width, const float *weight, int64_t weight_stride, int64_t columns)
{
    for (int64_t i = 0; i < columns; i += ATTN_PROJECT_PART) {
        const int64_t n = at_most(columns - i, ATTN_PROJECT_PART);
        int64_t r = 0;
        for (; r + vectors * LANES <= width; r += vectors * LANES)
            project_block(outs, vectors, sums_t + r, tile + i * width + r, width, weight + i,
                          weight_stride, n);
        for (; vectors == 2 && r < width; r += LANES)
            project_block(outs, 1, sums_t + r, tile + i * width + r, width, weight + i,
                          weight_stride, n);
    }
}

/* sums_t is [out][width], tile [columns][width]. */
INLINE void project_tile(const int vectors, float *sums_t, const float *tile, int64_t width,
                         const float *weight, int64_t weight_stride, int64_t out, int64_t columns)
{
    int64_t o = 0;

    for (; o + BLOCK_ROWS(vectors) <= out; o += BLOCK_ROWS(vectors))
        project_rows(BLOCK_ROWS(vectors), vectors, sums_t + o * width, tile, width,
                     weight + o * weight_stride, weight_stride, columns);
    for (; o < out; o++)
        project_rows(1, vectors, sums_t + o * width, tile, width, weight + o * weight_stride,
                     weight_stride, columns);
}

INLINE void project_many(float *const *y, const float *const *x, int64_t row_count,
                         const float *weight, int64_t weight_stride, const float *bias, int64_t out,
                         int64_t in, float *work)
{
    const int64_t width = (row_count + LANES - 1) / LANES * LANES;
    float *sums_t = work, *tile = work + out * width;

    for (int64_t o = 0; o < out; o++)
        for (int64_t r = 0; r < width; r += LANES)
            store(sums_t + o * width + r, broadcast(bias ? bias[o] : 0.0f));
    for (int64_t i = 0; i < in; i += PROJECT_TILE) {
        const int64_t columns = at_most(in - i, PROJECT_TILE);
        project_turn(tile, x, row_count, i, columns, width);
        if (width % (BLOCK_VECTORS * LANES) == 0)
            project_tile(BLOCK_VECTORS, sums_t, tile, width, weight + i, weight_stride, out,
                         columns);
        else
            project_tile(2, sums_t, tile, width, weight + i, weight_stride, out, columns);
    }
    project_turn_back(y, row_count, sums_t, width, out);
}

static void project_by_outputs(float *const *y, const float *const *x, int64_t row_count,
                               const float *weight, int64_t weight_stride, const float *bias,
                               int64_t out, int64_t in, float *work)
{
    if (row_count > PROJECT_FEW_ROWS) {
        project_many(y, x, row_count, weight, weight_stride, bias, out, in, work);
        return;
    }
    project_begin(y, row_count, bias, out);
    if (row_count > 2)
        project_few(4, y, x, row_count, weight, weight_stride, out, in);
    else if (row_count > 1)
        project_few(2, y, x, row_count, weight, weight_stride, out, in);
    else if (row_count > 0)
        project_few(1, y, x, row_count, weight, weight_stride, out, in);
}

/* --------------------------------------------------------- parameters that lie by inputs -- */

/* sums[r][o] += x[r][i] * weight[i][o] for inputs i to i + steps; sums is [row_count][out]. */
INLINE void project_inputs(const int steps, float *sums, const float *const *x, int64_t row_count,
                           int64_t i, const float *weight, int64_t weight_stride, int64_t out)
{
    for (int64_t o = 0; o < out; o += LANES) {
        const int64_t n = at_most(out - o, LANES);
        vec w[4];
        UNROLL
        for (int s = 0; s < steps; s++)
            w[s] = load_most(weight + (i + s) * weight_stride + o, n);
        for (int64_t r = 0; r < row_count; r++) {
            vec sum = load_most(sums + r * out + o, n);
            UNROLL
            for (int s = 0; s < steps; s++)
                sum += x[r][i + s] * w[s];
            store_most(sums + r * out + o, sum, n);
        }
    }
}

INLINE void project_few_inputs(float *const *y, const float *const *x, int64_t row_count,
                               const float *weight, int64_t weight_stride, int64_t out, int64_t in,
                               float *sums)
{
    for (int64_t part = 0; part < in; part += ATTN_PROJECT_PART) {
        const int64_t end = at_most(in, part + ATTN_PROJECT_PART);
        int64_t i = part;
        memset(sums, 0, (size_t)(row_count * out) * sizeof *sums);
        for (; i + 4 <= end; i += 4)
            project_inputs(4, sums, x, row_count, i, weight, weight_stride, out);
        for (; i < end; i++)
            project_inputs(1, sums, x, row_count, i, weight, weight_stride, out);
        for (int64_t r = 0; r < row_count; r++)
            for (int64_t o = 0; o < out; o++)
                y[r][o] += sums[r * out + o];
    }
}

/* A part of the sums of rows rows, [rows][PROJECT_TILE], with n columns of a tile of parameters. */
INLINE void project_inputs_block(const int rows, float *const *y, int64_t o, int64_t n,
                                 const float *x, const float *tile, int64_t columns)
{
    vec sums[BLOCK_SUMS_MAX];

    multiply(rows, BLOCK_VECTORS, false, sums, x, PROJECT_TILE, 1, tile, ATTN_WIDTH_MAX, columns,
             NULL);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < BLOCK_VECTORS; v++) {
            float *sum = y[r] + o + v * LANES;
            if (v * LANES < n)
                store_most(sum, load_most(sum, n - v * LANES) + sums[r * BLOCK_VECTORS + v],
                           n - v * LANES);
        }
    }
}

/* All rows with the n outputs of a tile, from output o on. */
INLINE void project_inputs_tile(float *const *y, int64_t row_count, int64_t o, int64_t n,
                                const float *rows, const float *tile, int64_t columns)
{
    for (int64_t c = 0; c < n; c += BLOCK_VECTORS * LANES)
        for (int64_t i = 0; i < columns; i += ATTN_PROJECT_PART) {
            const int64_t part = at_most(columns - i, ATTN_PROJECT_PART);
            int64_t r = 0;
            for (; r + BLOCK_ROWS_WIDE <= row_count; r += BLOCK_ROWS_WIDE)
                project_inputs_block(BLOCK_ROWS_WIDE, y + r, o + c, n - c,
                                     rows + r * PROJECT_TILE + i, tile + i * ATTN_WIDTH_MAX + c,
                                     part);
            for (; r < row_count; r++)
                project_inputs_block(1, y + r, o + c, n - c, rows + r * PROJECT_TILE + i,
                                     tile + i * ATTN_WIDTH_MAX + c, part);
        }
}

INLINE void project_many_inputs(float *const *y, const float *const *x, int64_t row_count,
                                const float *weight, int64_t weight_stride, int64_t out, int64_t in,
                                float *work)
{
    float *rows = work, *tile = work + row_count * PROJECT_TILE;

    for (int64_t i = 0; i < in; i += PROJECT_TILE) {
        const int64_t columns = at_most(in - i, PROJECT_TILE);
        for (int64_t r = 0; r < row_count; r++)
            memcpy(rows + r * PROJECT_TILE, x[r] + i, (size_t)columns * sizeof *rows);
        for (int64_t o = 0; o < out; o += ATTN_WIDTH_MAX) {
            const int64_t n = at_most(out - o, ATTN_WIDTH_MAX);
            copy_rows(tile, ATTN_WIDTH_MAX, weight + i * weight_stride + o, weight_stride, columns,
                      n, 1.0f);
            project_inputs_tile(y, row_count, o, n, rows, tile, columns);
        }
    }
}

static void project_by_inputs(float *const *y, const float *const *x, int64_t row_count,
                              const float *weight, int64_t weight_stride, const float *bias,
                              int64_t out, int64_t in, float *work)
{
    project_begin(y, row_count, bias, out);
    if (row_count > PROJECT_FEW_ROWS)
        project_many_inputs(y, x, row_count, weight, weight_stride, out, in, work);
    else
        project_few_inputs(y, x, row_count, weight, weight_stride, out, in, work);
}

#endif
