/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - numbers that look random and are the same in every run.
 *
 * A test names its seed, so a failure can be repeated and no test depends on what ran before it.
 * The generator is splitmix64 (Steele, Lea and Flood 2014): one addition and a mix, the period
 * is full, and any seed is good. */
#ifndef FILL_H
#define FILL_H

#include <stdint.h>

struct fill {
    uint64_t state; /* the seed; any value */
};

static inline uint64_t fill_bits(struct fill *fill)
{
    uint64_t z = fill->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [low, high), with 24 random bits, so that the result for low 0 and high 1 is exact. */
static inline float fill_float(struct fill *fill, float low, float high)
{
    return low + (high - low) * ((float)(fill_bits(fill) >> 40) * 0x1p-24f);
}

/* Uniform in 0..count-1; count > 0 and small. */
static inline int64_t fill_below(struct fill *fill, int64_t count)
{
    return (int64_t)(fill_bits(fill) % (uint64_t)count);
}

static inline void fill_floats(struct fill *fill, float *data, int64_t count, float low, float high)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = fill_float(fill, low, high);
}

#endif
