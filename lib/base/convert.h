/* convert.h - numbers of any dtype on their way between a tensor and the arithmetic.
 *
 * The kernels work on floats. What a tensor has in another dtype is widened into a buffer, dense,
 * before they read it, and rounded out of one after they have written it; F32 stays where it is.
 * Widening is exact; rounding is to the nearest, ties to even. */
#ifndef ATTN_CONVERT_H
#define ATTN_CONVERT_H

#include "attn.h"

#include "kernels/kernels.h"

/* A block of rows of one head: row_count from row on, of which columns from column on. */
struct attn_block {
    int64_t batch, head;
    int64_t row, row_count;
    int64_t column, columns;
};

/* The block as floats, *stride from row to row: where it lies, or widened into buffer,
 * [row_count][columns]. The tensor is F32, F16 or BF16. */
const float *attn_block_read(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                             const struct attn_block *block, float *buffer, int64_t *stride);

/* Where to write the block, *stride from row to row: its place in the tensor, or buffer,
 * [row_count][columns]. */
float *attn_block_place(const struct attn_tensor *tensor, const struct attn_block *block,
                        float *buffer, int64_t *stride);

/* After the block has been written there: what is in buffer goes to the tensor. */
void attn_block_written(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                        const struct attn_block *block, const float *buffer);

/* How the kernels call F32, F16 or BF16. */
static inline enum attn_numbers attn_numbers_of(enum attn_dtype dtype)
{
    return dtype == ATTN_F16    ? ATTN_NUMBERS_F16
           : dtype == ATTN_BF16 ? ATTN_NUMBERS_BF16
                                : ATTN_NUMBERS_F32;
}

/* n numbers of F32, F16 or BF16, step elements apart from number first of data on, to floats. */
void attn_widen(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                int64_t first, int64_t step, int64_t n, float *to);

/* Of any dtype but BOOL, to doubles. */
void attn_read_doubles(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                       int64_t first, int64_t step, int64_t n, double *to);

/* n doubles to data, step elements apart from number first on, each rounded once. */
void attn_write_doubles(const struct attn_kernels *kernels, void *data, enum attn_dtype dtype,
                        int64_t first, int64_t step, int64_t n, const double *from);

#endif
