/* norm.h - what a norm does to a row, for the gradients too. */
#ifndef ATTN_NORM_H
#define ATTN_NORM_H

#include "rows.h"

/* For columns numbers: what is subtracted from them (0 if the norm is not centred), and the factor
 * that they are then multiplied by. */
struct attn_norm_moments {
    double mean, factor;
};
struct attn_norm_moments attn_norm_moments(const struct attn_norm *norm, const float *x,
                                           int64_t columns);

#endif
