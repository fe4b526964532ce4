/* SPDX-License-Identifier: Apache-2.0 */
/* body_rows.h - find the greatest numbers of a row, for the reduced weight maps.
 *
 * The lanes are numbers of one row. 64 numbers at a time are compared with the bound into one word
 * of bits, since nearly all of them are below it. */
#ifndef ATTN_BODY_ROWS_H
#define ATTN_BODY_ROWS_H

#include "kernels.h"
#include "vector.h"

#include <math.h>

enum { STEP_NUMBERS = 64 };

/* Bit i: is lane i of v at least lane i of bound? Not if either is NaN. */
#if defined(__AVX512F__) && VEC_BYTES == 64
INLINE uint64_t lanes_reaching(vec v, vec bound)
{
    return (uint16_t)__builtin_ia32_cmpps512_mask(v, bound, 0x1d, (uint16_t)-1, 4);
}
#elif defined(__AVX__) && VEC_BYTES == 32
INLINE uint64_t lanes_reaching(vec v, vec bound)
{
    return (uint32_t)__builtin_ia32_movmskps256((vec)(v >= bound));
}
#elif defined(__SSE__) && VEC_BYTES == 16
INLINE uint64_t lanes_reaching(vec v, vec bound)
{
    return (uint32_t)__builtin_ia32_movmskps((vec)(v >= bound));
}
#else
INLINE uint64_t lanes_reaching(vec v, vec bound)
{
    uint64_t bits = 0;
    UNROLL
    for (int i = 0; i < LANES; i++)
        bits |= (uint64_t)(v[i] >= bound[i]) << i;
    return bits;
}
#endif

/* The greatest of the lanes; none is NaN. */
INLINE float greatest_lane(vec v)
{
    float lanes[LANES];
    store(lanes, v);
    for (int64_t step = LANES / 2; step > 0; step /= 2)
        for (int64_t i = 0; i < step; i++)
            lanes[i] = lanes[i] > lanes[i + step] ? lanes[i] : lanes[i + step];
    return lanes[0];
}

INLINE float greatest_number(const float *row, int64_t n)
{
    float greatest_of_rest = -INFINITY;
    int64_t j = 0;
    if (n >= LANES) {
        vec max = broadcast(-INFINITY);
        for (; j + LANES <= n; j += LANES)
            max = greater(load(row + j), max);
        greatest_of_rest = greatest_lane(max);
    }
    for (; j < n; j++)
        greatest_of_rest = row[j] > greatest_of_rest ? row[j] : greatest_of_rest;
    return greatest_of_rest;
}

static void greatest_of_cells(float *greatest_of, const float *row, int64_t n, int64_t cells)
{
    for (int64_t c = 0, begin = 0; c < cells; c++) {
        const int64_t end = (c + 1) * n / cells + ((c + 1) * n % cells != 0);
        greatest_of[c] = greatest_number(row + begin, end - begin);
        begin = end;
    }
}

/* The least of the groups numbers that has fewer than k numbers above it. */
INLINE float ranked(const int groups, const float *numbers, int64_t k)
{
    float least = INFINITY;
    for (int64_t c = 0; c < groups; c += LANES) {
        const vec at = load(numbers + c);
        ivec above = { 0 }; /* minus the number of numbers above each lane */
        for (int i = 0; i < groups; i++)
            above -= (ivec)(broadcast(numbers[i]) > at);
        for (int64_t i = 0; i < LANES; i++)
            least = above[i] < k && at[i] < least ? at[i] : least;
    }
    return least;
}

/* Number j belongs to group j % groups. Take the greatest number of each group; return the k-th
 * greatest of those. */
INLINE float bound_by_groups(const int groups, const float *row, int64_t n, int64_t k)
{
    vec peaks[STEP_NUMBERS / LANES];
    float numbers[STEP_NUMBERS];
    int64_t j = 0;
    UNROLL
    for (int v = 0; v < groups / LANES; v++)
        peaks[v] = broadcast(-INFINITY);
    for (; j + groups <= n; j += groups) {
        UNROLL
        for (int v = 0; v < groups / LANES; v++)
            peaks[v] = greater(load(row + j + v * LANES), peaks[v]);
    }
    UNROLL
    for (int v = 0; v < groups / LANES; v++)
        store(numbers + v * LANES, peaks[v]);
    for (int i = 0; i < groups && j + i < n; i++)
        numbers[i] = row[j + i] > numbers[i] ? row[j + i] : numbers[i];
    return ranked(groups, numbers, k);
}

static float bound_of_greatest(const float *row, int64_t n, int64_t k)
{
    if (k <= 8)
        return bound_by_groups(16, row, n, k);
    if (k <= 16)
        return bound_by_groups(32, row, n, k);
    return bound_by_groups(STEP_NUMBERS, row, n, k);
}

static int64_t find_reaching(int64_t *places, int64_t room, const float *row, int64_t n,
                             float bound)
{
    int64_t count = 0;
    for (int64_t j = 0; j < n; j += STEP_NUMBERS) {
        uint64_t bits = 0;
        if (j + STEP_NUMBERS <= n) {
            UNROLL
            for (int v = 0; v < STEP_NUMBERS / LANES; v++)
                bits |= lanes_reaching(load(row + j + v * LANES), broadcast(bound)) << v * LANES;
        } else {
            for (int64_t i = 0; j + i < n; i++)
                bits |= (uint64_t)(row[j + i] >= bound) << i;
        }
        for (; bits != 0; bits &= bits - 1) {
            if (count == room)
                return room + 1;
            places[count++] = j + __builtin_ctzll(bits);
        }
    }
    return count;
}

#endif
