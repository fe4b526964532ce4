/* SPDX-License-Identifier: Apache-2.0 */
/* model_quantised.c - see model_quantised.h. */
#include "models/model/model_quantised.h"

#include <math.h>

/* Numbers n and n + 16 of a block share a byte in the library's, which is ggml's; n and n + 1 in a
 * file. */
static void swap_halves(unsigned char *to, const unsigned char *from)
{
    enum { HALF = MODEL_MXFP4_BYTES / 2 };
    for (int64_t i = 0; i < HALF; i++) {
        const unsigned low = from[i], high = from[i + HALF];
        to[2 * i] = (unsigned char)((low & 15) | high << 4);
        to[2 * i + 1] = (unsigned char)(low >> 4 | (high & 240));
    }
}

void model_quantised_mxfp4(void *values, const struct model_converted_source *source)
{
    const unsigned char *from = source->bytes, *scales = source->scales;
    const size_t block_bytes = attn_block_bytes(ATTN_MXFP4);
    const size_t count = source->decoded_bytes / block_bytes;
    unsigned char *to = values;
    for (size_t i = 0; i < count; i++, to += block_bytes) {
        to[0] = scales[i];
        swap_halves(to + 1, from + i * MODEL_MXFP4_BYTES);
    }
}

float model_quantised_e4m3(unsigned char bits)
{
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float magnitude = (bits & 127) == 127 ? NAN
                            : exponent > 0      ? ldexpf((float)(8 + fraction), exponent - 10)
                                                : ldexpf((float)fraction, -9);
    return bits & 128 ? -magnitude : magnitude;
}

void model_quantised_fp8(void *values, const struct model_converted_source *source)
{
    const int64_t width = source->scale_columns, columns = source->columns;
    const int64_t blocks = (columns + width - 1) / width;
    const unsigned char *from = source->bytes;
    float table[256], *to = values;
    for (int i = 0; i < 256; i++)
        table[i] = model_quantised_e4m3((unsigned char)i);
    for (int64_t row = 0; row < source->rows; row++)
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t left = columns - block * width, count = left < width ? left : width;
            float scale;
            dtype_read(&scale,
                       attn_number_at(source->scales, source->scale_dtype,
                                      row / source->scale_rows * blocks + block),
                       source->scale_dtype, 1);
            for (int64_t c = 0; c < count; c++)
                *to++ = table[*from++] * scale;
        }
}
