/* number.h - one number of any dtype, as a double and back.
 *
 * By the definition of the formats (IEEE 754-2019, 3.4; bfloat16 as the upper half of a binary32),
 * with ldexp() and rint(), and knowing nothing of how lib/ converts. */
#ifndef NUMBER_H
#define NUMBER_H

#include "attn.h"

/* Number index of data; BOOL is 0 or 1. */
double number_get(const void *data, enum attn_dtype dtype, int64_t index);

/* Rounded once, to the nearest, ties to even; too large becomes infinite. NaN becomes a NaN. */
void number_set(void *data, enum attn_dtype dtype, int64_t index, double number);

/* The number at [b, h, l, d] of a view. */
double number_at(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d);
void number_put(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d,
                double number);

#endif
