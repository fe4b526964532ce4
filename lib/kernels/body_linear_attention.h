/* SPDX-License-Identifier: Apache-2.0 */
/* body_linear_attention.h - rows one after the other through the state of linear attention, a part
 * of body.h.
 *
 * Lanes are columns of the state. A row reads the state twice and writes it once, so a block of
 * columns goes through all rows before the next one: it stays in the nearest cache. A sum over
 * the rows of the state is two chains, of even and of odd rows, which the CPU adds to in turn. */
#ifndef ATTN_BODY_LINEAR_ATTENTION_H
#define ATTN_BODY_LINEAR_ATTENTION_H

#include "kernels.h"
#include "vector.h"

enum { STATE_VECTORS = 4 };

/* The first n lanes at p; n is LANES at all calls but the one for the last columns. */
INLINE vec load_lanes(const float *p, int64_t n)
{
    return n == LANES ? load(p) : load_part(p, n);
}

INLINE void store_lanes(float *p, vec v, int64_t n)
{
    if (n == LANES)
        store(p, v);
    else
        store_part(p, v, n);
}

/* A block of columns of the state: vectors of n lanes. */
struct state_block {
    float *state;
    int64_t stride, depth, n;
};

/* Adds factor times a row of the state to a chain. */
INLINE void read_row(const int vectors, const struct state_block block, int64_t d, float factor,
                     vec chain[STATE_VECTORS])
{
    const float *row = block.state + d * block.stride;
    UNROLL
    for (int v = 0; v < vectors; v++)
        chain[v] += factor * load_lanes(row + v * LANES, block.n);
}

/* sums[v] = sum over d of factors[d] * state[d][v] */
INLINE void read_state(const int vectors, const struct state_block block, const float *factors,
                       vec sums[STATE_VECTORS])
{
    vec odd[STATE_VECTORS] = { 0 };
    int64_t d = 0;
    UNROLL
    for (int v = 0; v < vectors; v++)
        sums[v] = (vec){ 0 };
    for (; d + 2 <= block.depth; d += 2) {
        read_row(vectors, block, d, factors[d], sums);
        read_row(vectors, block, d + 1, factors[d + 1], odd);
    }
    if (d < block.depth)
        read_row(vectors, block, d, factors[d], sums);
    UNROLL
    for (int v = 0; v < vectors; v++)
        sums[v] += odd[v];
}

/* What changes a state, and reads it again. */
struct state_change {
    const float *decay, *key, *factors;
    vec update[STATE_VECTORS];
};

INLINE void change_row(const int vectors, const struct state_block block,
                       const struct state_change *change, int64_t d, vec chain[STATE_VECTORS])
{
    float *row = block.state + d * block.stride;
    const float decay = change->decay[d], key = change->key[d], factor = change->factors[d];
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const vec kept = decay * load_lanes(row + v * LANES, block.n);
        const vec now = key * change->update[v] + kept;
        store_lanes(row + v * LANES, now, block.n);
        chain[v] += factor * now;
    }
}

/* state[d][v] = decay[d] * state[d][v] + key[d] * update[v], and read_state() of that. */
INLINE void update_state(const int vectors, const struct state_block block,
                         const struct state_change *change, vec sums[STATE_VECTORS])
{
    vec odd[STATE_VECTORS] = { 0 };
    int64_t d = 0;
    UNROLL
    for (int v = 0; v < vectors; v++)
        sums[v] = (vec){ 0 };
    for (; d + 2 <= block.depth; d += 2) {
        change_row(vectors, block, change, d, sums);
        change_row(vectors, block, change, d + 1, odd);
    }
    if (d < block.depth)
        change_row(vectors, block, change, d, sums);
    UNROLL
    for (int v = 0; v < vectors; v++)
        sums[v] += odd[v];
}

INLINE void change_block(const int vectors, const struct state_block block,
                         const struct attn_state_rows *rows, int64_t t, int64_t c)
{
    const float *query = rows->query + t * rows->reads * rows->depth;
    const float *key = rows->key + t * rows->depth;
    struct state_change change = { .decay = rows->decay + t * rows->depth,
                                   .key = key,
                                   .factors = rows->reads > 0 ? query : key,
                                   .update = { { 0 } } };
    vec sums[STATE_VECTORS];

    if (rows->beta)
        read_state(vectors, block, rows->erase + t * rows->depth, sums);
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const float *value = rows->value + t * rows->value_stride + c + v * LANES;
        change.update[v] = load_lanes(value, block.n);
        if (rows->beta)
            change.update[v] = (change.update[v] - sums[v]) * rows->beta[t];
    }
    update_state(vectors, block, &change, sums);
    for (int64_t r = 0; r < rows->reads; r++) {
        float *y = rows->y + t * rows->y_stride + r * rows->y_step + c;
        if (r > 0)
            read_state(vectors, block, query + r * rows->depth, sums);
        UNROLL
        for (int v = 0; v < vectors; v++)
            store_lanes(y + v * LANES, sums[v], block.n);
    }
}

static void change_state(const struct attn_state_rows *rows)
{
    int64_t c = 0;

#define CHANGE_BLOCKS(vectors, lanes)                                                              \
    for (int64_t t = 0; t < rows->count; t++)                                                      \
        change_block(                                                                              \
            vectors,                                                                               \
            (struct state_block){ rows->state + c, rows->state_stride, rows->depth, lanes }, rows, \
            t, c);
    for (; c + STATE_VECTORS * LANES <= rows->columns; c += STATE_VECTORS * LANES) {
        CHANGE_BLOCKS(STATE_VECTORS, LANES)
    }
    for (; c + LANES <= rows->columns; c += LANES) {
        CHANGE_BLOCKS(1, LANES)
    }
    if (c < rows->columns) {
        CHANGE_BLOCKS(1, rows->columns - c)
    }
#undef CHANGE_BLOCKS
}

#endif
