/* SPDX-License-Identifier: Apache-2.0 */
/* body_project_inputs.h - projections with parameters stored by inputs, a part of body.h; see
 * body_project.h. */
#ifndef ATTN_BODY_PROJECT_INPUTS_H
#define ATTN_BODY_PROJECT_INPUTS_H

#include "body_project.h"

#include <string.h>

/* Up to this many rows use the parameters where they lie; more rows use a copy. */
enum { PROJECT_INPUTS_ROWS = 4 };

/* sums[r][o] += x[r][i] * weight[i][o] for inputs i to i + steps; sums is [row_count][out]. */
INLINE void project_inputs(const enum attn_numbers kind, const int steps, float *sums,
                           const float *const *x, int64_t row_count, int64_t i, const void *weight,
                           int64_t weight_stride, int64_t out)
{
    for (int64_t o = 0; o < out; o += LANES) {
        const int64_t n = at_most(out - o, LANES);
        vec w[4];
        UNROLL
        for (int s = 0; s < steps; s++)
            w[s] = load_numbers_most(kind, weight, (i + s) * weight_stride + o, n);
        for (int64_t r = 0; r < row_count; r++) {
            vec sum = load_most(sums + r * out + o, n);
            UNROLL
            for (int s = 0; s < steps; s++)
                sum += x[r][i + s] * w[s];
            store_most(sums + r * out + o, sum, n);
        }
    }
}

INLINE void project_decode_inputs(const enum attn_numbers kind, float *const *y,
                                  const float *const *x, int64_t row_count, const void *weight,
                                  int64_t weight_stride, int64_t out, int64_t in, float *sums)
{
    for (int64_t part = 0; part < in; part += ATTN_PROJECT_PART) {
        const int64_t end = at_most(in, part + ATTN_PROJECT_PART);
        int64_t i = part;
        memset(sums, 0, (size_t)(row_count * out) * sizeof *sums);
        for (; i + 4 <= end; i += 4)
            project_inputs(kind, 4, sums, x, row_count, i, weight, weight_stride, out);
        for (; i < end; i++)
            project_inputs(kind, 1, sums, x, row_count, i, weight, weight_stride, out);
        for (int64_t r = 0; r < row_count; r++)
            for (int64_t o = 0; o < out; o++)
                y[r][o] += sums[r * out + o];
    }
}

/* Add a part of the sums of rows rows, [rows][PROJECT_TILE], for n columns of a tile of
 * parameters. */
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
            for (; r + BLOCK_ROWS_REST <= row_count; r += BLOCK_ROWS_REST)
                project_inputs_block(BLOCK_ROWS_REST, y + r, o + c, n - c,
                                     rows + r * PROJECT_TILE + i, tile + i * ATTN_WIDTH_MAX + c,
                                     part);
            for (; r < row_count; r++)
                project_inputs_block(1, y + r, o + c, n - c, rows + r * PROJECT_TILE + i,
                                     tile + i * ATTN_WIDTH_MAX + c, part);
        }
}

/* tile[i][o] = weight[i][o] for o < n, else 0. */
INLINE void project_copy(const enum attn_numbers kind, float *tile, const void *weight,
                         int64_t weight_stride, int64_t columns, int64_t n)
{
    if (kind == ATTN_NUMBERS_F32) {
        copy_rows(tile, ATTN_WIDTH_MAX, weight, weight_stride, columns, n, 1.0f);
        return;
    }
    for (int64_t i = 0; i < columns; i++)
        for (int64_t o = 0; o < ATTN_WIDTH_MAX; o += LANES)
            store(tile + i * ATTN_WIDTH_MAX + o,
                  o < n ? load_numbers_most(kind, weight, i * weight_stride + o, n - o)
                        : (vec){ 0 });
}

INLINE void project_many_inputs(const enum attn_numbers kind, float *const *y,
                                const float *const *x, int64_t row_count, const void *weight,
                                int64_t weight_stride, int64_t out, int64_t in, float *work)
{
    float *rows = work, *tile = work + row_count * PROJECT_TILE;

    for (int64_t i = 0; i < in; i += PROJECT_TILE) {
        const int64_t columns = at_most(in - i, PROJECT_TILE);
        for (int64_t r = 0; r < row_count; r++)
            memcpy(rows + r * PROJECT_TILE, x[r] + i, (size_t)columns * sizeof *rows);
        for (int64_t o = 0; o < out; o += ATTN_WIDTH_MAX) {
            const int64_t n = at_most(out - o, ATTN_WIDTH_MAX);
            project_copy(kind, tile, number_at(kind, weight, i * weight_stride + o), weight_stride,
                         columns, n);
            project_inputs_tile(y, row_count, o, n, rows, tile, columns);
        }
    }
}

INLINE void project_by_inputs(const enum attn_numbers kind, float *const *y, const float *const *x,
                              int64_t row_count, const void *weight, int64_t weight_stride,
                              const float *bias, int64_t out, int64_t in, float *work)
{
    project_begin(y, row_count, bias, out);
    if (row_count > PROJECT_INPUTS_ROWS)
        project_many_inputs(kind, y, x, row_count, weight, weight_stride, out, in, work);
    else
        project_decode_inputs(kind, y, x, row_count, weight, weight_stride, out, in, work);
}

/* ------------------------------------------------------------------------ kinds of number -- */

PROJECT_OF(by_inputs, f32, ATTN_NUMBERS_F32)
PROJECT_OF(by_inputs, f16, ATTN_NUMBERS_F16)
PROJECT_OF(by_inputs, bf16, ATTN_NUMBERS_BF16)

#endif
