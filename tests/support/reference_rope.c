/* SPDX-License-Identifier: Apache-2.0 */
/* reference_rope.c - rotary embedding in double, from the papers' formulas.
 *
 * The scalings are written in wavelengths, as in the code of Meta and of the YaRN authors. lib/
 * counts turns instead. */
#include "reference.h"

#include <math.h>

static const double TAU = 6.283185307179586476925286766559;

static double base_frequency(const struct attn_rope *rope, double base, int64_t pair)
{
    return 1.0 / pow(base, 2.0 * (double)pair / (double)rope->dim);
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double llama3(const struct attn_rope_scaling *s, double frequency)
{
    const double wavelength = TAU / frequency;
    if (wavelength < s->original_max_position_embeddings / s->high_freq_factor)
        return frequency;
    if (wavelength > s->original_max_position_embeddings / s->low_freq_factor)
        return frequency / s->factor;
    const double smooth = (s->original_max_position_embeddings / wavelength - s->low_freq_factor)
                          / (s->high_freq_factor - s->low_freq_factor);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

static double yarn(const struct attn_rope *rope, int64_t pair)
{
    const struct attn_rope_scaling *s = &rope->scaling;
    const double frequency = base_frequency(rope, rope->theta, pair);
    const double turns[2] = { s->beta_fast, s->beta_slow };
    double ends[2];
    for (int i = 0; i < 2; i++) /* the wavelength at which there are so many turns */
        ends[i] = log(s->original_max_position_embeddings / turns[i] / TAU) / log(rope->theta) / 2
                  * (double)rope->dim;
    double low = s->truncate ? floor(ends[0]) : ends[0];
    double high = s->truncate ? ceil(ends[1]) : ends[1];
    low = low < 0 ? 0 : low;
    high = high > (double)(rope->dim - 1) ? (double)(rope->dim - 1) : high;
    if (high == low)
        high += 0.001;
    const double extrapolated = 1 - clamp(((double)pair - low) / (high - low), 0, 1);
    return frequency / s->factor * (1 - extrapolated) + frequency * extrapolated;
}

static double frequency_of(const struct attn_rope *rope, int64_t pair, double length)
{
    const struct attn_rope_scaling *s = &rope->scaling;
    const double trained = s->original_max_position_embeddings;
    const double dim = (double)rope->dim;
    if (rope->pairs > 0 && pair >= rope->pairs)
        return 0;
    switch (s->type) {
    case ATTN_ROPE_DEFAULT:
        break;
    case ATTN_ROPE_LINEAR:
        return base_frequency(rope, rope->theta, pair) / s->factor;
    case ATTN_ROPE_DYNAMIC:
        if (length <= trained || rope->dim == 2)
            break;
        return base_frequency(
            rope,
            rope->theta * pow(s->factor * length / trained - (s->factor - 1), dim / (dim - 2)),
            pair);
    case ATTN_ROPE_YARN:
        return yarn(rope, pair);
    case ATTN_ROPE_LLAMA3:
        return llama3(s, base_frequency(rope, rope->theta, pair));
    case ATTN_ROPE_LONGROPE:
        return 1.0
               / ((length > trained ? s->long_factor : s->short_factor)[pair]
                  * pow(rope->theta, 2.0 * (double)pair / dim));
    }
    return base_frequency(rope, rope->theta, pair);
}

static double mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static double attention_factor(const struct attn_rope_scaling *s)
{
    if (s->type != ATTN_ROPE_YARN && s->type != ATTN_ROPE_LONGROPE)
        return 1;
    if (s->attention_factor != 0)
        return s->attention_factor;
    if (s->type == ATTN_ROPE_LONGROPE)
        return s->factor <= 1 ? 1
                              : sqrt(1 + log(s->factor) / log(s->original_max_position_embeddings));
    if (s->mscale != 0 && s->mscale_all_dim != 0)
        return mscale(s->factor, s->mscale) / mscale(s->factor, s->mscale_all_dim);
    return mscale(s->factor, 1);
}

/* modeling_dinov3_vit.py: get_patches_center_coordinates(), DINOv3ViTRopePositionEmbedding. */
static double grid_angle(const struct attn_rope *rope, int64_t pair, int64_t position)
{
    const struct attn_rope_grid *grid = &rope->grid;
    const int64_t patch = position - grid->first, quarter = rope->dim / 4;
    if (patch < 0 || patch >= grid->height * grid->width)
        return 0;
    const double at = pair < quarter ? ((double)(patch / grid->width) + 0.5) / (double)grid->height
                                     : ((double)(patch % grid->width) + 0.5) / (double)grid->width;
    return TAU * (2 * at - 1) / pow(rope->theta, (double)(pair % quarter) / (double)quarter);
}

void reference_rope(const struct attn_rope *rope, int64_t position, double length, double *row)
{
    const int64_t half = rope->dim / 2;
    const double factor = attention_factor(&rope->scaling);
    for (int64_t c = 0; c < half; c++) {
        const double angle = rope->grid.height > 0
                                 ? grid_angle(rope, c, position)
                                 : (double)position * frequency_of(rope, c, length);
        double *first = row + (rope->interleaved ? 2 * c : c);
        double *second = row + (rope->interleaved ? 2 * c + 1 : c + half);
        const double x = *first, y = *second;
        *first = factor * (x * cos(angle) - y * sin(angle));
        *second = factor * (x * sin(angle) + y * cos(angle));
    }
}
