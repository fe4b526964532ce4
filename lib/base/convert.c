/* convert.c - see convert.h. */
#include "base/convert.h"

#include "base/internal.h"

#include <math.h>
#include <string.h>

_Static_assert((int)ATTN_I8_ROWS == (int)ATTN_KERNELS_I8_ROWS,
               "scales are where kernels read them");

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
