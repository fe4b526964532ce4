/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.h - rows of floats as the int8 numbers and scales that pages of I8 have (attn.h), and
 * the numbers of blocks as floats.
 *
 * The scale of a channel of some rows, or of a row, is its greatest magnitude / 127. A number is
 * the float / its scale, rounded to nearest, ties to even, and so within half a scale of the float;
 * where all floats are 0 it is 0. A magnitude below 2^-120 has fewer bits: scales become subnormal.
 * The floats must be finite, and what they become is finite too. */
#ifndef ATTN_QUANTIZE_H
#define ATTN_QUANTIZE_H

#include "attn.h"

#include <stdint.h>

/* rows is [row_count][row_stride], of which columns count; numbers is [row_count][number_stride].
 * One scale for each channel, [columns]; or for each row, [row_count]. */
void attn_quantize_channels(int8_t *numbers, int64_t number_stride, float *scale, const float *rows,
                            int64_t row_stride, int64_t row_count, int64_t columns);
void attn_quantize_rows(int8_t *numbers, int64_t number_stride, float *scale, const float *rows,
                        int64_t row_stride, int64_t row_count, int64_t columns);

/* The number that a float is with this scale. */
int8_t attn_quantize(float number, float scale);

/* The numbers of count whole blocks, which may begin at any byte. dtype has blocks. Every product
 * of a scale and an integer is a float, so a number is rounded at most once: where a least number
 * is added to it. The bits are those of dequantize_row_*() of ggml, from which the blocks are. */
void attn_unpack(enum attn_dtype dtype, const void *blocks, int64_t count, float *numbers);

#endif
