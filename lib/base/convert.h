/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - convert numbers between a tensor's dtype and the arithmetic's; into how many parts of
 * bf16 numbers a matrix unit cuts numbers, and which parts it multiplies (kernels/matrix.h).
 *
 * The kernels work on floats. Numbers of another dtype are widened into a dense buffer before the
 * kernels read them, and rounded out of a buffer after the kernels have written them; F32 is used
 * in place. Widening is exact; rounding is to nearest, ties to even. */
#ifndef ATTN_CONVERT_H
#define ATTN_CONVERT_H

#include "attn.h"

#include "kernels/kernels.h"
#include "kernels/matrix.h"

/* A block of rows of one head: row_count rows from row on; of each, columns columns from column
 * on. */
struct attn_block {
    int64_t batch, head;
    int64_t row, row_count;
    int64_t column, columns;
};

struct attn_run;

/* Convert columns numbers of row number row of a run, from column on, to floats. The tensor of the
 * run is F32, F16, BF16 or I8. */
void attn_run_read(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                   const struct attn_run *run, int64_t row, int64_t column, int64_t columns,
                   float *to);

/* Return the block as floats, rows *stride apart: in place, or widened into buffer,
 * [row_count][columns], which also takes a block of F32 that lies in more than one page. The tensor
 * is F32, F16, BF16 or I8. */
const float *attn_block_read(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                             const struct attn_block *block, float *buffer, int64_t *stride);

/* Return where to write the block, rows *stride apart: in the tensor, or in buffer,
 * [row_count][columns]. */
float *attn_block_place(const struct attn_tensor *tensor, const struct attn_block *block,
                        float *buffer, int64_t *stride);

/* Call after writing there: moves the contents of buffer to the tensor. */
void attn_block_written(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                        const struct attn_block *block, const float *buffer);

/* Write n floats to F32, F16 or BF16, each rounded once. */
void attn_narrow(const struct attn_kernels *kernels, const float *from, enum attn_dtype dtype,
                 int64_t n, void *to);

/* The kernels' name of F32, F16 or BF16; ATTN_NUMBERS_COUNT for the others, which they cannot
 * read. */
enum attn_numbers attn_numbers_of(enum attn_dtype dtype);

/* The kernels' name of a dtype with blocks; ATTN_BLOCKS_COUNT for the others. */
enum attn_blocks attn_blocks_of(enum attn_dtype dtype);

/* Convert n numbers of F32, F16 or BF16, step elements apart from number first of data on, to
 * floats. */
void attn_widen(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                int64_t first, int64_t step, int64_t n, float *to);

/* The same for any dtype except BOOL, to doubles. */
void attn_read_doubles(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                       int64_t first, int64_t step, int64_t n, double *to);

/* Write n doubles to data, step elements apart from number first on, each rounded once. */
void attn_write_doubles(const struct attn_kernels *kernels, void *data, enum attn_dtype dtype,
                        int64_t first, int64_t step, int64_t n, const double *from);

/* --------------------------------------------------------------- parts of bf16 numbers -- */

/* The parts of numbers of this dtype: BF16 has one; F16 has two, which lose nothing, or, where
 * products are limited, no more than F32 has. */
int attn_parts_of(const struct attn_matrix_kernels *kernels, enum attn_dtype dtype,
                  enum attn_precision precision);

/* Small products first. A part of the left and one of the right are multiplied unless together they
 * are below what the precision shows: by as many times 8 bits as the sum of their numbers says. */
struct attn_matrix_products attn_products_of(int left_parts, int right_parts,
                                             enum attn_precision precision);

#endif
