/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - numbers of other dtypes, through small local buffers; int8 numbers of quantize.h. */
#include "base/convert.h"
#include "base/internal.h"
#include "quantize.h"

#include <math.h>
#include <string.h>

_Static_assert((int)ATTN_I8_ROWS == (int)ATTN_KERNELS_I8_ROWS,
               "scales are where kernels read them");

enum {
#define X(NAME, numbers, bytes) ROW_##NAME,
    ATTN_BLOCK_MAP(X)
#undef X
        BLOCK_DTYPES,
};
_Static_assert((int)BLOCK_DTYPES == (int)ATTN_BLOCKS_COUNT, "every dtype of blocks has a kernel");

enum {
#define X(NAME, numbers, bytes) SHAPE_##NAME = (numbers)*1024 + (bytes),
    ATTN_BLOCK_MAP(X)
#undef X
};
#define X(NAME, name, numbers, bytes)                                                              \
    _Static_assert((int)SHAPE_##NAME == (numbers)*1024 + (bytes), "kernels know the block's "      \
                                                                  "shape");
ATTN_BLOCKS_MAP(X)
#undef X

/* Numbers that go through a local buffer at a time. */
enum { PIECE = 64 };

enum attn_numbers attn_numbers_of(enum attn_dtype dtype)
{
    switch (dtype) {
    case ATTN_F32:
        return ATTN_NUMBERS_F32;
    case ATTN_F16:
        return ATTN_NUMBERS_F16;
    case ATTN_BF16:
        return ATTN_NUMBERS_BF16;
    default:
        return ATTN_NUMBERS_COUNT;
    }
}

enum attn_blocks attn_blocks_of(enum attn_dtype dtype)
{
    switch (dtype) {
#define X(NAME, name, numbers, bytes)                                                              \
    case ATTN_##NAME:                                                                              \
        return ATTN_BLOCKS_##NAME;
        ATTN_BLOCKS_MAP(X)
#undef X
    default:
        return ATTN_BLOCKS_COUNT;
    }
}

/* n contiguous numbers. */
static void widen_dense(const struct attn_kernels *kernels, const uint16_t *from,
                        enum attn_dtype dtype, int64_t n, float *to)
{
    if (dtype == ATTN_F16)
        kernels->widen_f16(to, from, n);
    else
        kernels->widen_bf16(to, from, n);
}

static void narrow_dense(const struct attn_kernels *kernels, const float *from,
                         enum attn_dtype dtype, int64_t n, uint16_t *to)
{
    if (dtype == ATTN_F16)
        kernels->narrow_f16(to, from, n);
    else
        kernels->narrow_bf16(to, from, n);
}

static int64_t index_of(const struct attn_tensor *tensor, const struct attn_block *block, int64_t i)
{
    return attn_tensor_index(tensor, block->batch, block->head, block->row + i) + block->column;
}

void attn_run_read(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                   const struct attn_run *run, int64_t row, int64_t column, int64_t columns,
                   float *to)
{
    const int64_t first = row * tensor->stride[2] + column;
    const int64_t at = run->at + row;

    if (run->dtype != ATTN_I8)
        attn_widen(kernels, run->row, run->dtype, first, 1, columns, to);
    else if (run->has_row_scales)
        kernels->widen_i8_row(to, (const int8_t *)run->row + first, run->scale[at], columns);
    else
        kernels->widen_i8_channels(to, (const int8_t *)run->row + first,
                                   run->scale + at / ATTN_I8_ROWS * tensor->shape[3] + column,
                                   columns);
}

const float *attn_block_read(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                             const struct attn_block *block, float *buffer, int64_t *stride)
{
    struct attn_run run =
        attn_tensor_run(tensor, block->batch, block->head, block->row, block->row_count);

    if (run.dtype == ATTN_F32 && run.count == block->row_count) {
        *stride = tensor->stride[2];
        return (const float *)run.row + block->column;
    }
    *stride = block->columns;
    for (int64_t i = 0; i < block->row_count; i += run.count) {
        run = attn_tensor_run(tensor, block->batch, block->head, block->row + i,
                              block->row_count - i);
        for (int64_t k = 0; k < run.count; k++)
            attn_run_read(kernels, tensor, &run, k, block->column, block->columns,
                          buffer + (i + k) * block->columns);
    }
    return buffer;
}

float *attn_block_place(const struct attn_tensor *tensor, const struct attn_block *block,
                        float *buffer, int64_t *stride)
{
    if (tensor->dtype == ATTN_F32) {
        *stride = tensor->stride[2];
        return (float *)tensor->data + index_of(tensor, block, 0);
    }
    *stride = block->columns;
    return buffer;
}

void attn_block_written(const struct attn_kernels *kernels, const struct attn_tensor *tensor,
                        const struct attn_block *block, const float *buffer)
{
    if (tensor->dtype == ATTN_F32)
        return;
    for (int64_t i = 0; i < block->row_count; i++)
        narrow_dense(kernels, buffer + i * block->columns, tensor->dtype, block->columns,
                     (uint16_t *)tensor->data + index_of(tensor, block, i));
}

void attn_narrow(const struct attn_kernels *kernels, const float *from, enum attn_dtype dtype,
                 int64_t n, void *to)
{
    if (dtype == ATTN_F32)
        memcpy(to, from, (size_t)n * sizeof(float));
    else
        narrow_dense(kernels, from, dtype, n, to);
}

void attn_widen(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                int64_t first, int64_t step, int64_t n, float *to)
{
    uint16_t piece[PIECE];

    if (dtype == ATTN_F32) {
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const float *)data)[first + i * step];
        return;
    }
    const uint16_t *from = (const uint16_t *)data + first;
    if (step == 1) {
        widen_dense(kernels, from, dtype, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = attn_min(PIECE, n - i);
        for (int64_t k = 0; k < count; k++)
            piece[k] = from[(i + k) * step];
        widen_dense(kernels, piece, dtype, count, to + i);
    }
}

void attn_read_doubles(const struct attn_kernels *kernels, const void *data, enum attn_dtype dtype,
                       int64_t first, int64_t step, int64_t n, double *to)
{
    float piece[PIECE];

    if (dtype == ATTN_F64) {
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const double *)data)[first + i * step];
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = attn_min(PIECE, n - i);
        attn_widen(kernels, data, dtype, first + i * step, step, count, piece);
        for (int64_t k = 0; k < count; k++)
            to[i + k] = (double)piece[k];
    }
}

/* Round to odd: if the nearest float is not exact, take the neighbouring float whose last bit is 1.
 * Rounding the result again, to fewer bits, is then the same as rounding once (Boldo and Melquiond
 * 2008). */
static float round_to_odd(double number)
{
    float rounded = (float)number;
    uint32_t bits;

    if ((double)rounded == number || isnan(number))
        return rounded;
    memcpy(&bits, &rounded, sizeof bits);
    if (bits % 2 == 0)
        bits += fabs((double)rounded) < fabs(number) ? 1 : UINT32_MAX;
    memcpy(&rounded, &bits, sizeof rounded);
    return rounded;
}

/* At most PIECE numbers. */
static void write_halves(const struct attn_kernels *kernels, uint16_t *to, enum attn_dtype dtype,
                         int64_t step, int64_t n, const double *from)
{
    uint16_t halves[PIECE];
    float floats[PIECE];

    for (int64_t i = 0; i < n; i++)
        floats[i] = round_to_odd(from[i]);
    narrow_dense(kernels, floats, dtype, n, halves);
    for (int64_t i = 0; i < n; i++)
        to[i * step] = halves[i];
}

void attn_write_doubles(const struct attn_kernels *kernels, void *data, enum attn_dtype dtype,
                        int64_t first, int64_t step, int64_t n, const double *from)
{
    if (dtype == ATTN_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)data)[first + i * step] = from[i];
    else if (dtype == ATTN_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)data)[first + i * step] = (float)from[i];
    else
        for (int64_t i = 0; i < n; i += PIECE)
            write_halves(kernels, (uint16_t *)data + first + i * step, dtype, step,
                         attn_min(PIECE, n - i), from + i);
}

/* --------------------------------------------------------------------- parts of bf16 numbers -- */

int attn_parts_of(const struct attn_matrix_kernels *kernels, enum attn_dtype dtype,
                  enum attn_precision precision)
{
    static const int parts[ATTN_PRECISION_COUNT] = {
#define X(NAME, name, parts) parts,
        ATTN_PRECISION_MAP(X)
#undef X
    };

    const bool is_exact = kernels->products_max == 0 || parts[precision] > 2;

    if (dtype == ATTN_F16)
        return is_exact ? 2 : parts[precision];
    return dtype == ATTN_BF16 ? 1 : parts[precision];
}

struct attn_matrix_products attn_products_of(int left_parts, int right_parts,
                                             enum attn_precision precision)
{
    static const struct {
        uint8_t left, right;
    } all[ATTN_MATRIX_PRODUCTS_MAX] = {
        { 0, 2 }, { 0, 1 }, { 1, 1 }, { 1, 0 }, { 2, 0 }, { 0, 0 }
    };
    const int sum_max = precision == ATTN_PRECISION_HIGHEST ? 2 : 1;
    struct attn_matrix_products products = { .left_parts = left_parts, .right_parts = right_parts };

    for (int i = 0; i < ATTN_MATRIX_PRODUCTS_MAX; i++) {
        const uint8_t left = all[i].left, right = all[i].right;
        const int n = products.count;
        if (left >= left_parts || right >= right_parts || left + right > sum_max)
            continue;
        products.left[n] = left;
        products.right[n] = right;
        products.loads_left[n] = n == 0 || left != products.left[n - 1];
        products.loads_right[n] = n == 0 || right != products.right[n - 1];
        products.count++;
    }
    return products;
}

/* ------------------------------------------------------------------- int8 numbers and scales -- */

/* The greatest scale: 127 times the next float would be infinite. */
#define SCALE_MAX 0x1.020406p121f

/* From 1.5 * 2^23 on, a float has no room for a fraction: adding it rounds. */
#define TO_NEAREST 12582912.0f

static float scale_of(float greatest)
{
    const float scale = greatest / 127.0f;

    return scale < SCALE_MAX ? scale : SCALE_MAX;
}

static float greater(float a, float b)
{
    return a > b ? a : b;
}

void attn_unpack(enum attn_dtype dtype, const void *blocks, int64_t count, float *numbers)
{
    attn_kernels_generic.unpack[attn_blocks_of(dtype)](numbers, blocks, count);
}

int8_t attn_quantize(float number, float scale)
{
    const float wanted = scale > 0.0f ? number / scale : 0.0f;
    const float within = wanted < -127.0f ? -127.0f : wanted > 127.0f ? 127.0f : wanted;

    return (int8_t)(int32_t)((within + TO_NEAREST) - TO_NEAREST);
}

void attn_quantize_channels(int8_t *numbers, int64_t number_stride, float *scale, const float *rows,
                            int64_t row_stride, int64_t row_count, int64_t columns)
{
    for (int64_t d = 0; d < columns; d++)
        scale[d] = 0.0f;
    for (int64_t i = 0; i < row_count; i++)
        for (int64_t d = 0; d < columns; d++)
            scale[d] = greater(fabsf(rows[i * row_stride + d]), scale[d]);
    for (int64_t d = 0; d < columns; d++)
        scale[d] = scale_of(scale[d]);
    for (int64_t i = 0; i < row_count; i++)
        for (int64_t d = 0; d < columns; d++)
            numbers[i * number_stride + d] = attn_quantize(rows[i * row_stride + d], scale[d]);
}

void attn_quantize_rows(int8_t *numbers, int64_t number_stride, float *scale, const float *rows,
                        int64_t row_stride, int64_t row_count, int64_t columns)
{
    for (int64_t i = 0; i < row_count; i++) {
        const float *row = rows + i * row_stride;
        float greatest = 0.0f;
        for (int64_t d = 0; d < columns; d++)
            greatest = greater(fabsf(row[d]), greatest);
        scale[i] = scale_of(greatest);
        for (int64_t d = 0; d < columns; d++)
            numbers[i * number_stride + d] = attn_quantize(row[d], scale[i]);
    }
}
