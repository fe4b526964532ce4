/* quantize.c - see quantize.h. */
#include "quantize.h"

#include <math.h>

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
