/* model_quantised.c - see model_quantised.h. */
#include "models/model/model_quantised.h"

#include <math.h>

enum { HALF = MODEL_MXFP4_NUMBERS / 2 };

/* Number n of a block in a file. */
static unsigned nibble_at(const unsigned char *block, int n)
{
    return n % 2 == 0 ? block[n / 2] & 15u : (unsigned)block[n / 2] >> 4;
}

/* The library's block is ggml's: the scale, then numbers n and n + 16 in one byte. */
void model_quantised_mxfp4(void *values, const struct model_converted_source *source)
{
    const unsigned char *from = source->bytes, *scale = source->scales;
    unsigned char *to = values;
    const size_t block_bytes = attn_block_bytes(ATTN_MXFP4);
    for (size_t done = 0; done < source->decoded_bytes; done += block_bytes) {
        *to++ = *scale++;
        for (int n = 0; n < HALF; n++)
            *to++ = (unsigned char)(nibble_at(from, n) | nibble_at(from, n + HALF) << 4);
        from += MODEL_MXFP4_BYTES;
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
    const unsigned char *from = source->bytes;
    const int64_t scales_of_row =
        (source->columns + source->scale_columns - 1) / source->scale_columns;
    float table[256], scale = 0, *to = values;
    for (int i = 0; i < 256; i++)
        table[i] = model_quantised_e4m3((unsigned char)i);
    for (int64_t row = 0; row < source->rows; row++)
        for (int64_t c = 0; c < source->columns; c++) {
            if (c % source->scale_columns == 0)
                dtype_read(&scale,
                           attn_number_at(source->scales, source->scale_dtype,
                                          row / source->scale_rows * scales_of_row
                                              + c / source->scale_columns),
                           source->scale_dtype, 1);
            *to++ = table[*from++] * scale;
        }
}
