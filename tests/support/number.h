/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - one number of any dtype, as a double and back.
 *
 * This follows the definition of the formats (IEEE 754-2019, 3.4; bfloat16 is the upper half of
 * a binary32), with ldexp() and rint(). It does not use the conversions of lib/. */
#ifndef NUMBER_H
#define NUMBER_H

#include "attn.h"

/* Number index of data; BOOL is 0 or 1. */
double number_get(const void *data, enum attn_dtype dtype, int64_t index);

/* Rounds once, to the nearest, ties to even. A number that is too large becomes infinite. NaN
 * becomes a NaN. */
void number_set(void *data, enum attn_dtype dtype, int64_t index, double number);

/* The number at [b, h, l, d] of a view. */
double number_at(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d);
void number_put(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d,
                double number);

#endif
