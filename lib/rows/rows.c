/* rows.c - sums of rows, rows of a table, activations, and sums over a row of logits; see rows.h
 * and linear.h. */
#include "rows.h"

#include "base/convert.h"
#include "base/internal.h"
#include "linear.h"

#include "kernels/kernels.h"

#include <math.h>

/* Numbers that are widened or scaled at a time. */
enum { PIECE = 256 };

void attn_activate(const struct attn_kernels *kernels, enum attn_activation activation,
                   float *numbers, int64_t count)
{
    void (*const functions[ATTN_ACTIVATION_COUNT])(float *, int64_t) = {
        [ATTN_GELU] = kernels->gelu,
        [ATTN_GELU_TANH] = kernels->gelu_tanh,
        [ATTN_GELU_QUICK] = kernels->gelu_quick,
        [ATTN_RELU] = kernels->relu,
        [ATTN_SILU] = kernels->silu,
        [ATTN_TANH] = kernels->tanh,
    };

    if (activation != ATTN_NO_ACTIVATION)
        functions[activation](numbers, count);
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
