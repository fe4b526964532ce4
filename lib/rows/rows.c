/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - sums of rows, rows of a table, activations, and sums over a row of logits; the largest
 * numbers of a row, by a heap. See rows.h and linear.h. */
#include "rows.h"
#include "base/convert.h"
#include "base/internal.h"
#include "linear.h"

#include "kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Numbers that are widened or scaled at a time: whole blocks of every dtype. */
enum { PIECE = 256 };

/* An activation without parameters. */
static void activate(const struct attn_kernels *kernels, enum attn_activation activation,
                     float *numbers, int64_t count)
{
    void (*const functions[ATTN_ACTIVATION_COUNT])(float *, int64_t) = {
        [ATTN_GELU] = kernels->gelu,
        [ATTN_GELU_TANH] = kernels->gelu_tanh,
        [ATTN_GELU_QUICK] = kernels->gelu_quick,
        [ATTN_RELU] = kernels->relu,
        [ATTN_RELU_SQUARED] = kernels->relu_squared,
        [ATTN_SILU] = kernels->silu,
        [ATTN_SIGMOID] = kernels->sigmoid,
        [ATTN_TANH] = kernels->tanh,
    };

    if (activation != ATTN_NO_ACTIVATION)
        functions[activation](numbers, count);
}

void attn_activate(const struct attn_kernels *kernels, enum attn_activation activation,
                   const struct attn_xielu *xielu, float *numbers, int64_t count)
{
    if (activation == ATTN_XIELU)
        kernels->xielu(numbers,
                       (const float[]){ xielu->positive, xielu->negative, xielu->beta, xielu->eps },
                       count);
    else
        activate(kernels, activation, numbers, count);
}

void attn_rows_add(const struct attn_kernels *kernels, float *y, int64_t y_stride, const float *x,
                   int64_t x_stride, float scale, const float *column_scales, int64_t row_count,
                   int64_t columns)
{
    float scaled[PIECE];

    if (column_scales == NULL) {
        kernels->add_rows(y, y_stride, x, x_stride, row_count, columns, scale);
        return;
    }
    for (int64_t r = 0; r < row_count; r++)
        for (int64_t c = 0; c < columns; c += PIECE) {
            const int64_t n = attn_min(columns - c, PIECE);
            kernels->copy_rows(scaled, PIECE, x + r * x_stride + c, x_stride, 1, n, 1.0f);
            kernels->multiply_row(scaled, column_scales + c, n);
            kernels->add_rows(y + r * y_stride + c, y_stride, scaled, PIECE, 1, n, scale);
        }
}

void attn_rows_gate(const struct attn_kernels *kernels, float *y, int64_t y_stride,
                    const float *gate, int64_t gate_stride, enum attn_activation activation,
                    int64_t row_count, int64_t columns)
{
    float factors[PIECE];

    for (int64_t r = 0; r < row_count; r++)
        for (int64_t c = 0; c < columns; c += PIECE) {
            const int64_t n = attn_min(columns - c, PIECE);
            memcpy(factors, gate + r * gate_stride + c, (size_t)n * sizeof *factors);
            activate(kernels, activation, factors, n);
            kernels->multiply_row(y + r * y_stride + c, factors, n);
        }
}

static void put_row(const struct attn_kernels *kernels, const float *row, int64_t n, float scale,
                    bool adds, float *y)
{
    (adds ? kernels->add_rows : kernels->copy_rows)(y, n, row, n, 1, n, scale);
}

void attn_rows_gather(const struct attn_kernels *kernels, const struct attn_rows_table *table,
                      const int64_t *numbers, int64_t row_count, float scale, bool adds, float *y,
                      int64_t y_stride)
{
    const int64_t columns = table->columns;
    const enum attn_blocks blocks = attn_blocks_of(table->dtype);
    float wide[PIECE];

    for (int64_t r = 0; r < row_count; r++) {
        const int64_t first = numbers[r] * columns;
        if (table->dtype == ATTN_F32) {
            put_row(kernels, (const float *)table->rows + first, columns, scale, adds,
                    y + r * y_stride);
            continue;
        }
        for (int64_t c = 0; c < columns; c += PIECE) {
            const int64_t n = attn_min(columns - c, PIECE);
            if (blocks != ATTN_BLOCKS_COUNT)
                kernels->unpack[blocks](wide, attn_number_at(table->rows, table->dtype, first + c),
                                        n / attn_block_numbers(table->dtype));
            else
                attn_widen(kernels, table->rows, table->dtype, first + c, 1, n, wide);
            put_row(kernels, wide, n, scale, adds, y + r * y_stride + c);
        }
    }
}

void attn_rows_cap(const struct attn_kernels *kernels, float *numbers, int64_t count, float scale,
                   float softcap)
{
    if (scale < 1.0f || scale > 1.0f)
        kernels->copy_rows(numbers, count, numbers, count, 1, count, scale);
    if (softcap > 0.0f)
        kernels->softcap_row(numbers, softcap, count);
}

struct attn_row_sums attn_row_sums(const float *row, int64_t count)
{
    float max = -INFINITY;
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        max = row[i] > max ? row[i] : max;
    if (max == -INFINITY) {
        for (int64_t i = 0; i < count; i++)
            sum += isnan(row[i]) ? NAN : 0;
        return (struct attn_row_sums){ max, log(sum) };
    }
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)row[i] - (double)max);
    return (struct attn_row_sums){ max, log(sum) };
}

/* ----------------------------------------------------------------------- the largest numbers -- */

/* The result's own memory is a heap whose root is the last of the k best numbers so far. Most
 * numbers are only compared with the root. At the end the roots are removed one after the other,
 * which sorts the result. */
static bool is_behind(float a, int64_t index_a, float b, int64_t index_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || index_a > index_b);
    return a < b || (a == b && index_a > index_b);
}

/* Numbers that are compared at once. */
enum { STEP_NUMBERS = 16 };

/* Is any of STEP_NUMBERS numbers not <= bound? All have higher indices than the numbers in the
 * heap, so none that equals bound belongs into it. */
static bool has_above(const float *row, float bound)
{
    int above = 0;

    for (int i = 0; i < STEP_NUMBERS; i++)
        above |= !(row[i] <= bound);
    return above != 0;
}

/* Sift value down from index at, in a heap of count numbers. */
static void sink(float *values, int64_t *indices, int64_t count, int64_t at, float value,
                 int64_t index)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count
            && is_behind(values[child + 1], indices[child + 1], values[child], indices[child]))
            child++;
        if (!is_behind(values[child], indices[child], value, index))
            break;
        values[at] = values[child];
        indices[at] = indices[child];
        at = child;
    }
    values[at] = value;
    indices[at] = index;
}

void attn_top_k(const float *row, int64_t count, int64_t k, float *values, int64_t *indices)
{
    if (k == 0)
        return;
    for (int64_t i = 0; i < k; i++) {
        values[i] = row[i];
        indices[i] = i;
    }
    for (int64_t i = k / 2; i-- > 0;)
        sink(values, indices, k, i, values[i], indices[i]);
    for (int64_t j = k; j < count;) {
        const int64_t end = count - j < STEP_NUMBERS ? count : j + STEP_NUMBERS;
        if (end - j == STEP_NUMBERS && !has_above(row + j, values[0])) {
            j = end;
            continue;
        }
        for (; j < end; j++)
            if (is_behind(values[0], indices[0], row[j], j))
                sink(values, indices, k, 0, row[j], j);
    }
    for (int64_t end = k - 1; end > 0; end--) {
        const float value = values[end];
        const int64_t index = indices[end];
        values[end] = values[0];
        indices[end] = indices[0];
        sink(values, indices, end, 0, value, index);
    }
}
