/* body_blocks.h - products of rows with blocks (kernels.h), a part of body.h.
 *
 * A sum has the order of body_project.h, so a product has the bits that it has with the numbers of
 * the blocks as floats. Blocks become floats a panel at a time, which is in the first cache while
 * all rows meet it; memory brings the blocks alone.
 *
 * Needs project_decode() and project_many() of body_project.h. */
#ifndef ATTN_BODY_BLOCKS_H
#define ATTN_BODY_BLOCKS_H

#include "body_project.h"
#include "body_unpack.h"
#include "kernels.h"

/* A panel of few rows: so many outputs, and the inputs of one chain. */
enum { BLOCKS_PANEL_OUTPUTS = 2 * LANES, BLOCKS_PANEL_STRIDE = ATTN_PROJECT_PART + LANES };

INLINE void project_few_blocks(const enum attn_numbers kind, const int rows, float *const *y,
                               const float *const *x, int64_t row_count, const void *weight,
                               int64_t weight_stride, int64_t out, int64_t in, float *panel)
{
    const float *from[PROJECT_DECODE_ROWS];
    float *to[PROJECT_DECODE_ROWS];

    for (int64_t o = 0; o < out; o += BLOCKS_PANEL_OUTPUTS)
        for (int64_t i = 0; i < in; i += ATTN_PROJECT_PART) {
            const int64_t n = at_most(out - o, BLOCKS_PANEL_OUTPUTS);
            const int64_t columns = at_most(in - i, ATTN_PROJECT_PART);
            for (int64_t j = 0; j < n; j++)
                widen_numbers(kind, panel + j * BLOCKS_PANEL_STRIDE,
                              number_at(kind, weight, (o + j) * weight_stride + i), columns);
            for (int64_t r = 0; r < row_count; r++) {
                from[r] = x[r] + i;
                to[r] = y[r] + o;
            }
            project_decode(ATTN_NUMBERS_F32, rows, to, from, row_count, panel, BLOCKS_PANEL_STRIDE,
                           n, columns);
        }
}

INLINE void project_blocks(const enum attn_numbers kind, float *const *y, const float *const *x,
                           int64_t row_count, const void *weight, int64_t weight_stride,
                           const float *bias, int64_t out, int64_t in, float *work)
{
    if (row_count > PROJECT_DECODE_ROWS) {
        project_many(kind, y, x, row_count, weight, weight_stride, bias, out, in, work);
        return;
    }
    project_begin(y, row_count, bias, out);
    if (row_count > 4)
        project_few_blocks(kind, PROJECT_DECODE_ROWS, y, x, row_count, weight, weight_stride, out,
                           in, work);
    else if (row_count > 2)
        project_few_blocks(kind, 4, y, x, row_count, weight, weight_stride, out, in, work);
    else if (row_count > 1)
        project_few_blocks(kind, 2, y, x, row_count, weight, weight_stride, out, in, work);
    else if (row_count > 0)
        project_few_blocks(kind, 1, y, x, row_count, weight, weight_stride, out, in, work);
}

#define X(NAME, name, numbers, bytes)                                                              \
    static void project_blocks_##name(float *const *y, const float *const *x, int64_t row_count,   \
                                      const void *weight, int64_t weight_stride,                   \
                                      const float *bias, int64_t out, int64_t in, float *work)     \
    {                                                                                              \
        project_blocks(ATTN_NUMBERS_BLOCKS + ATTN_BLOCKS_##NAME, y, x, row_count, weight,          \
                       weight_stride, bias, out, in, work);                                        \
    }
ATTN_BLOCKS_MAP(X)
#undef X

#endif
