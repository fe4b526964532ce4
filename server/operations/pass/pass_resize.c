/* SPDX-License-Identifier: Apache-2.0 */
/* pass_resize.c - positions of the patches of a picture that is not of the size that its model has
 * positions for: those of a grid of patches, interpolated between these.
 *
 * Source: upsample_bicubic2d of PyTorch (a is -0.75, and what is beyond an edge is what is at it),
 * and with antialias _upsample_bicubic2d_aa and _upsample_bilinear2d_aa (a is -0.5; filters grow
 * with what is left out, and end at an edge), all with align_corners False. */
#include "operations/pass/pass_internal.h"

#include <math.h>

/* The places of one side that a place of another is made of. */
struct taps {
    int64_t first, count;
    double center, scale; /* a tap is so far from the center, in filters' widths */
    double sum;           /* of all weights */
};

static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double weight_at(enum model_resize resize, const struct taps *taps, int64_t i)
{
    const double x = ((double)(taps->first + i) - taps->center) / taps->scale;
    if (resize == MODEL_RESIZE_SMOOTH_LINEAR)
        return fabs(x) < 1 ? 1 - fabs(x) : 0;
    return cubic(x, resize == MODEL_RESIZE_CUBIC ? -0.75 : -0.5);
}

static struct taps find_taps(enum model_resize resize, int64_t place, int64_t from, int64_t to)
{
    const double step = (double)from / (double)to;
    const double center = ((double)place + 0.5) * step - 0.5;
    struct taps taps = { .center = center, .scale = 1, .sum = 1 };
    if (resize == MODEL_RESIZE_CUBIC) {
        taps.first = (int64_t)floor(center) - 1;
        taps.count = 4;
        return taps;
    }
    taps.scale = step > 1 ? step : 1;
    const double support = (resize == MODEL_RESIZE_SMOOTH_LINEAR ? 1 : 2) * taps.scale;
    const double first = center - support + 1, end = center + support + 1;
    taps.first = first > 0 ? (int64_t)first : 0;
    taps.count = (end < (double)from ? (int64_t)end : from) - taps.first;
    taps.sum = 0;
    for (int64_t i = 0; i < taps.count; i++)
        taps.sum += weight_at(resize, &taps, i);
    return taps;
}

static int64_t within(int64_t place, int64_t count)
{
    return place < 0 ? 0 : place < count ? place : count - 1;
}

void pass_resize_add(const struct pass *pass, const struct model_embedding *embedding, int64_t down,
                     int64_t across, float *rows)
{
    const struct model_table *positions = &embedding->positions;
    const struct attn_rows_table table = { positions->rows, positions->dtype, positions->width };
    const int64_t own_down = embedding->image_height / embedding->patch;
    const int64_t own_across = embedding->image_width / embedding->patch;
    const int64_t before = embedding->position_offset + embedding->class_row_count;
    const enum model_resize resize = embedding->resize;
    for (int64_t p = 0; p < down * across; p++) {
        const struct taps y = find_taps(resize, p / across, own_down, down);
        const struct taps x = find_taps(resize, p % across, own_across, across);
        for (int64_t i = 0; i < y.count * x.count; i++) {
            const double weight = weight_at(resize, &y, i / x.count) / y.sum
                                  * weight_at(resize, &x, i % x.count) / x.sum;
            const int64_t number = before + within(y.first + i / x.count, own_down) * own_across
                                   + within(x.first + i % x.count, own_across);
            attn_rows_gather(pass->limits.kernels, &table, &number, 1, (float)weight, true,
                             rows + p * positions->width, positions->width);
        }
    }
}
