/* SPDX-License-Identifier: Apache-2.0 */
/* forward_fp8.c - see forward_fp8.h. */
#include "forward_fp8.h"

#include <math.h>
#include <stdio.h>

/* E4M3: one bit of sign, four of exponent with a bias of 7, three of fraction. */
static double e4m3(int byte)
{
    const int exponent = byte / 8 % 16, fraction = byte % 8;
    const double magnitude =
        exponent > 0 ? ldexp(1 + fraction / 8.0, exponent - 7) : ldexp(fraction / 8.0, -6);
    return byte >= 128 ? -magnitude : magnitude;
}

struct rows forward_fp8_linear(struct rows x, const char *name, int layer)
{
    char names[2][128];
    snprintf(names[0], sizeof names[0], "%s.weight", name);
    snprintf(names[1], sizeof names[1], "%s.weight_scale_inv", name);
    const struct rows bytes = published_tensor(names[0], layer);
    const struct rows scales = published_tensor(names[1], layer);
    const struct rows weight = published_rows(bytes.count, bytes.columns);
    for (int64_t r = 0; r < bytes.count; r++)
        for (int64_t c = 0; c < bytes.columns; c++)
            weight.data[r * bytes.columns + c] =
                e4m3((int)bytes.data[r * bytes.columns + c])
                * scales.data[r / FORWARD_FP8_ROWS * scales.columns + c / FORWARD_FP8_COLUMNS];
    return forward_product(x, weight);
}
