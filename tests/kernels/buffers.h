/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.h - the memory of one check of a kernel.
 *
 * All of it ends at an unreadable page and is released at once; buffers_shift
 * moves it a float away from every vector boundary without leaving the page. */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "attn.h"
#include "fill.h"
#include "guard.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <math.h>

enum { BUFFERS_MAX = 16 };

static struct guard_buffer buffers[BUFFERS_MAX];
static int buffers_count;
static int64_t buffers_shift; /* how many floats before the page's end the memory ends: 0 or 1 */

static inline void *buffers_bytes(size_t size)
{
    if (buffers_count == BUFFERS_MAX) {
        fprintf(stderr, "buffers: too many\n");
        exit(1);
    }
    struct guard_buffer *buffer = &buffers[buffers_count++];
    *buffer = guard_alloc(size);
    return buffer->data;
}

/* Returns count floats. The last one touches the page or is one float away from it, so that the
 * start is not aligned when count + shift is odd. */
static inline float *buffers_floats(int64_t count)
{
    return buffers_bytes((size_t)(count + buffers_shift) * sizeof(float));
}

/* The same for numbers of 16 bits. */
static inline uint16_t *buffers_halves(int64_t count)
{
    return buffers_bytes((size_t)(count + buffers_shift) * sizeof(uint16_t));
}

static inline float *buffers_filled(struct fill *fill, int64_t count, float low, float high)
{
    float *data = buffers_floats(count);
    fill_floats(fill, data, count, low, high);
    return data;
}

static inline float *buffers_copy(const float *from, int64_t count)
{
    float *data = buffers_floats(count);
    memcpy(data, from, (size_t)count * sizeof *data);
    return data;
}

/* Rows of columns numbers, with NaN between the rows and none after the last: the memory is as
 * long as a kernel may read, and no longer. */
static inline float *buffers_rows(struct fill *fill, int64_t row_count, int64_t columns,
                                  int64_t stride)
{
    const int64_t count = row_count > 0 ? (row_count - 1) * stride + columns : 0;
    float *rows = buffers_floats(count);
    for (int64_t i = 0; i < count; i++)
        rows[i] = i % stride < columns ? fill_float(fill, -1, 1) : NAN;
    return rows;
}

static inline void buffers_free(void)
{
    while (buffers_count > 0)
        guard_free(&buffers[--buffers_count]);
}

/* Whether two floats are the same number, or both NaN. */
static inline bool buffers_same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

#endif
