/* SPDX-License-Identifier: Apache-2.0 */
/* bench_shape.h - the problem that all contenders of bench_attention compute. */
#ifndef BENCH_SHAPE_H
#define BENCH_SHAPE_H

#include <stddef.h>
#include <stdint.h>

struct bench_shape {
    int batch, q_heads, kv_heads, q_len, kv_len, head_dim;
    int causal; /* the last query row sees every key */
    int threads;
};

enum { BENCH_QUERY = 1, BENCH_KEY = 2, BENCH_VALUE = 3 };

/* Number i of this input, the same in every contender's language: a number from -1 to 1, times 3
 * for the query and 1.5 for the others. Such scores make a softmax of some contrast. */
static inline float bench_number(uint32_t i, uint32_t input)
{
    uint32_t hash = i * 2654435761u + input;
    hash ^= hash >> 16;
    hash *= 0x85ebca6bu;
    hash ^= hash >> 13;
    return (float)(int32_t)hash * (1.0f / 2147483648.0f) * (input == BENCH_QUERY ? 3.0f : 1.5f);
}

/* The environment of contenders that are to take numbers of BF16: BENCH_BF16=1. */
#define BENCH_BF16 "BENCH_BF16"

static inline void bench_fill(float *numbers, size_t count, uint32_t input)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = bench_number((uint32_t)i, input);
}

#endif
