/* SPDX-License-Identifier: Apache-2.0 */
/* body_blocks.h - products of rows with blocks (kernels.h), a part of body.h.
 *
 * A sum has the order of body_project.h, so a product has the bits that it has with the numbers of
 * the blocks as floats:
 *
 * - Few rows: lanes are outputs, and a panel (body_panel.h) has a few chains of multiply-adds side
 *   by side. Each word of it is taken apart in registers and meets all rows; no float of a weight
 *   is stored.
 *
 * - More rows: as in body_project.h, blocks become floats in a buffer that all rows use. */
#ifndef ATTN_BODY_BLOCKS_H
#define ATTN_BODY_BLOCKS_H

#include "body_panel.h"
#include "body_project.h"
#include "body_unpack.h"
#include "kernels.h"

/* One kind of blocks, by its functions: products are compiled once for all kinds. */
struct blocks_kind {
    enum attn_blocks blocks;
    enum blocks_layout layout;
    int64_t numbers, bytes; /* of a block */
    void (*unpack)(float *to, const void *blocks, int64_t count);
    void (*turn)(struct blocks_panel *panel, int v, const struct blocks_rows *rows);
};

static const struct blocks_kind blocks_kinds[] = {
#define X(NAME, name, numbers, bytes)                                                              \
    { ATTN_BLOCKS_##NAME, LAYOUT_##NAME, numbers, bytes, unpack_##name, turn_blocks_##name },
    ATTN_BLOCKS_MAP(X)
#undef X
};

struct blocks_weight {
    const void *blocks;
    int64_t stride, out, in;
};

/* The block of output o that begins at input i. */
INLINE const uint8_t *blocks_at(const struct blocks_kind *kind, const struct blocks_weight *weight,
                                int64_t o, int64_t i)
{
    return (const uint8_t *)weight->blocks + (o * weight->stride + i) / kind->numbers * kind->bytes;
}

/* ------------------------------------------------------------------ one chain of a sum -- */

/* A byte under the exponent of FUSED_EXPONENT - bit is the float 2^that + 128 + byte: one operation
 * in place of three. What is too much goes where the scale is multiplied, as every product here is
 * exact: bytes lie at bits 4 and 12, so that 2^exponent + 128 has 13 bits or 5. */
enum { FUSED_EXPONENT = 23 };

#define FUSED_TOO_MUCH(bit) ((float)((1 << (FUSED_EXPONENT - (bit))) + 128))

INLINE vec fused_byte(uvec words, const int k)
{
    const int bit = k % 2 * 8 + 4;
    const uint32_t exponent = (uint32_t)(127 + FUSED_EXPONENT - bit) << 23;
    const uvec moved = k < 2 ? words << 4 : words >> 12;

    return (vec)((moved & (uint32_t)255 << bit) ^ (exponent | (uint32_t)128 << bit));
}

/* The floats of integer k of each word, from bit on; nibbles have values of a table. */
INLINE vec integer_at(const enum blocks_layout layout, uvec words, const int bit, const int k,
                      vec values)
{
    if (layout == BYTES_FUSED)
        return fused_byte(words, k);
    if (layout == BYTES_OF_16 || layout == BYTES_OF_32)
        return __builtin_convertvector((ivec)(words << (24 - 8 * k)) >> 24, vec);
    if (layout == NIBBLES_OF_32 && !HAS_NIBBLE_TABLE) /* the values begin at 0 */
        return nibble_number(words, bit + 8 * k);
    return nibble_value(words, bit + 8 * k, values);
}

/* The scales of a group. */
struct blocks_scales {
    vec by[PANEL_VECTORS];
    vec less[2][PANEL_VECTORS]; /* of even and of odd integers */
};

INLINE void load_scales(const enum blocks_layout layout, const int vectors,
                        struct blocks_scales *scales, const struct blocks_panel *panel, int group)
{
    UNROLL
    for (int v = 0; v < vectors; v++) {
        scales->by[v] = panel->by[group][v];
        scales->less[0][v] =
            layout == BYTES_FUSED ? scales->by[v] * FUSED_TOO_MUCH(4) : panel->less[group][v];
        scales->less[1][v] =
            layout == BYTES_FUSED ? scales->by[v] * FUSED_TOO_MUCH(12) : scales->less[0][v];
    }
}

/* One chain of the sums of a vector of outputs: outputs from o on, inputs from i on. */
struct blocks_chain {
    int64_t o, i;
};

/* Chains of a few rows, one for each vector of a panel: mostly those of the same outputs, which lie
 * side by side in memory. count are there. Those of the next panel are brought meanwhile. */
struct blocks_chains {
    float *const *y;
    const float *const *x;
    int64_t row_count, out, count;
    const struct blocks_panel *panel;
    struct blocks_chain chain[PANEL_VECTORS];
    const uint8_t *ahead[PANEL_VECTORS]; /* the first rows */
    int64_t ahead_stride, ahead_bytes;   /* from row to row, and of each row */
};

/* The four inputs from column on, whose integers are at bit, bit + 8, ... of the words. */
INLINE void add_word(const enum blocks_layout layout, const int rows, const int vectors, vec *sums,
                     const struct blocks_chains *chains, int64_t column, const vec *words,
                     const int bit, const struct blocks_scales *scales)
{
    UNROLL
    for (int k = 0; k < 4; k++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const vec integers = integer_at(layout, (uvec)words[v], bit, k, chains->panel->values);
            const vec weight = multiply_add(integers, scales->by[v], -scales->less[k % 2][v]);
            UNROLL
            for (int r = 0; r < rows; r++)
                sums[r * vectors + v] += chains->x[r][chains->chain[v].i + column + k] * weight;
        }
    }
}

/* Each step of four columns brings its part of the rows of the next panel. */
INLINE void prefetch_panel(const struct blocks_chains *chains, const int vectors, int64_t column)
{
    const int64_t columns = ATTN_PROJECT_PART / (vectors * LANES), row = column / columns;

    if (column % columns != 0)
        return;
    const uintptr_t from =
        (uintptr_t)chains->ahead[row / LANES] + (uintptr_t)(row % LANES * chains->ahead_stride);
    for (int64_t at = 0; at < chains->ahead_bytes + 63; at += 64)
        __builtin_prefetch((const void *)(from + (uintptr_t)at), 0, 3);
}

/* Adds the chains of vectors vectors; of rows rows the first row_count are there. */
INLINE void add_chains(const enum blocks_layout layout, const int rows, const int vectors,
                       const struct blocks_chains *chains)
{
    const bool is_nibbles = layout == NIBBLES_OF_16 || layout == NIBBLES_OF_32;
    const int group_words = layout == BYTES_OF_16 || layout == NIBBLES_OF_16 ? 4 : 8;
    const int halves = is_nibbles ? 2 : 1;
    const struct blocks_panel *panel = chains->panel;
    vec sums[PANEL_SUMS_MAX];
    int64_t column = 0;

    UNROLL
    for (int s = 0; s < rows * vectors; s++)
        sums[s] = (vec){ 0 };
    for (int first = 0, group = 0; first < PANEL_WORDS / halves; first += group_words) {
        UNROLL
        for (int half = 0; half < halves; half++) {
            struct blocks_scales scales;
            load_scales(layout, vectors, &scales, panel, group);
            KEEP_ROLLED
            for (int w = first; w < first + group_words; w++, column += 4) {
                prefetch_panel(chains, vectors, column);
                add_word(layout, rows, vectors, sums, chains, column, panel->words[w], half * 4,
                         &scales);
            }
            group += layout != NIBBLES_OF_16 || half == 1;
        }
    }
    UNROLL
    for (int s = 0; s < rows * vectors; s++) {
        const int64_t o = chains->chain[s % vectors].o, n = chains->out - o;
        if (s / vectors < chains->row_count && s % vectors < chains->count) {
            float *sum = chains->y[s / vectors] + o;
            store_most(sum, load_most(sum, n) + sums[s], n);
        }
    }
}

/* As many chains at once as hide how long each of their steps takes, and as registers hold. */
#define VECTORS_OF(rows) ((rows) == 1 ? PANEL_VECTORS : (rows) == PROJECT_DECODE_ROWS ? 1 : 2)

#define ADD_CHAINS(layout, rows)                                                                   \
    static void add_chains_##layout##_##rows(const struct blocks_chains *chains)                   \
    {                                                                                              \
        add_chains(layout, rows, VECTORS_OF(rows), chains);                                        \
    }
#define ADD_ALL_CHAINS(layout)                                                                     \
    ADD_CHAINS(layout, 1) ADD_CHAINS(layout, 2) ADD_CHAINS(layout, 4) ADD_MOST_CHAINS(layout)

/* By how many rows at once. */
#if VEC_BYTES == 64
#define ADD_MOST_CHAINS(layout)    ADD_CHAINS(layout, 8)
#define ADD_MOST_CHAINS_OF(layout) , [8] = add_chains_##layout##_8
#else
#define ADD_MOST_CHAINS(layout)
#define ADD_MOST_CHAINS_OF(layout)
#endif
#define ADD_CHAINS_OF(layout)                                                                      \
    [layout] = { [1] = add_chains_##layout##_1,                                                    \
                 [2] = add_chains_##layout##_2,                                                    \
                 [4] = add_chains_##layout##_4 ADD_MOST_CHAINS_OF(layout) }

ADD_ALL_CHAINS(BYTES_OF_16)
ADD_ALL_CHAINS(BYTES_OF_32)
ADD_ALL_CHAINS(BYTES_FUSED)
ADD_ALL_CHAINS(NIBBLES_OF_16)
ADD_ALL_CHAINS(NIBBLES_OF_32)

static void (*const add_chains_of[BLOCKS_LAYOUTS][PROJECT_DECODE_ROWS + 1])(
    const struct blocks_chains *chains) = {
    ADD_CHAINS_OF(BYTES_OF_16),   ADD_CHAINS_OF(BYTES_OF_32),   ADD_CHAINS_OF(BYTES_FUSED),
    ADD_CHAINS_OF(NIBBLES_OF_16), ADD_CHAINS_OF(NIBBLES_OF_32),
};

/* ---------------------------------------------------------------------------------- few rows -- */

/* The last inputs, fewer than a chain has, become floats for some outputs at a time. */
enum { FLOATS_OUTPUTS = 2 * LANES, FLOATS_STRIDE = ATTN_PROJECT_PART + LANES };

static void project_last_blocks(const struct blocks_kind *kind, const struct blocks_weight *weight,
                                float *const *y, const float *const *x, int64_t row_count,
                                int64_t i, int64_t columns, float *floats)
{
    const float *from[PROJECT_DECODE_ROWS];
    float *to[PROJECT_DECODE_ROWS];

    for (int64_t o = 0; o < weight->out && columns > 0; o += FLOATS_OUTPUTS) {
        const int64_t n = at_most(weight->out - o, FLOATS_OUTPUTS);
        for (int64_t j = 0; j < n; j++)
            kind->unpack(floats + j * FLOATS_STRIDE, blocks_at(kind, weight, o + j, i),
                         columns / kind->numbers);
        for (int64_t r = 0; r < row_count; r++) {
            from[r] = x[r] + i;
            to[r] = y[r] + o;
        }
        project_few(ATTN_NUMBERS_F32, to, from, row_count, floats, FLOATS_STRIDE, n, columns);
    }
}

/* Chain number c of a weight that has so many for each output. */
static struct blocks_chain chain_at(int64_t c, int64_t count)
{
    return (struct blocks_chain){ c / count * LANES, c % count * ATTN_PROJECT_PART };
}

/* The panel of the chains from c on, before end; the one behind it is ahead. */
static void begin_chains(const struct blocks_kind *kind, const struct blocks_weight *weight,
                         struct blocks_chains *chains, struct blocks_panel *panel, int vectors,
                         int64_t c, int64_t end)
{
    const int64_t parts = weight->in / ATTN_PROJECT_PART;

    chains->count = at_most(end - c, vectors);
    panel->has_infinite = false;
    for (int v = 0; v < vectors; v++) {
        const struct blocks_chain next = chain_at(at_most(c + vectors + v, end - 1), parts);
        chains->chain[v] = chain_at(at_most(c + v, end - 1), parts);
        chains->ahead[v] = blocks_at(kind, weight, next.o, next.i);
        const struct blocks_chain *chain = &chains->chain[v];
        if (v < chains->count)
            kind->turn(panel, v,
                       &(struct blocks_rows){ blocks_at(kind, weight, chain->o, chain->i),
                                              chains->ahead_stride, weight->out - chain->o });
    }
}

/* What is too much cannot be taken off an infinite number. */
static enum blocks_layout layout_of_panel(const struct blocks_kind *kind,
                                          const struct blocks_panel *panel)
{
    return kind->layout == BYTES_FUSED && panel->has_infinite ? BYTES_OF_32 : kind->layout;
}

/* At most PROJECT_DECODE_ROWS rows; where a kernel takes more, the last one is repeated. */
static void project_few_blocks(const struct blocks_kind *kind, const struct blocks_weight *weight,
                               float *const *y, const float *const *x, int64_t row_count,
                               float *floats)
{
    const int rows = row_count > 4 ? PROJECT_DECODE_ROWS : row_count > 2 ? 4 : (int)row_count;
    const int vectors = VECTORS_OF(rows);
    const int64_t parts = weight->in / ATTN_PROJECT_PART, whole = parts * ATTN_PROJECT_PART;
    const int64_t end = (weight->out + LANES - 1) / LANES * parts;
    const float *from[PROJECT_DECODE_ROWS];
    struct blocks_panel panel;
    struct blocks_chains chains = {
        .y = y,
        .x = from,
        .row_count = row_count,
        .out = weight->out,
        .panel = &panel,
        .ahead_stride = weight->stride / kind->numbers * kind->bytes,
        .ahead_bytes = ATTN_PROJECT_PART / kind->numbers * kind->bytes,
    };

    for (int r = 0; r < rows; r++)
        from[r] = x[at_most(r, row_count - 1)];
    memset(&panel, 0, sizeof panel);
    panel.values = values_of(kind->blocks);
    for (int64_t c = 0; c < end; c += vectors) {
        begin_chains(kind, weight, &chains, &panel, vectors, c, end);
        add_chains_of[layout_of_panel(kind, &panel)][rows](&chains);
    }
    project_last_blocks(kind, weight, y, x, row_count, whole, weight->in - whole, floats);
}

/* --------------------------------------------------------------------------------- more rows -- */

/* Prefetch the line that is bytes ahead; it need not exist. */
INLINE void prefetch_number(const void *number, int64_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)number + (uintptr_t)bytes), 0, 2);
}

/* sums_t is [out][width of lanes]; the first column is input i, and wide has room for a part of
 * PROJECT_STEP outputs. */
static void project_blocks_tile(const struct blocks_kind *kind, const struct blocks_weight *weight,
                                float *sums_t, const struct project_lanes *lanes, int64_t i,
                                float *wide)
{
    const int64_t stride = weight->stride / kind->numbers * kind->bytes;

    for (int64_t o = 0; o < weight->out; o += PROJECT_STEP)
        for (int64_t c = 0; c < lanes->columns; c += ATTN_PROJECT_PART) {
            const int64_t n = at_most(weight->out - o, PROJECT_STEP);
            const int64_t columns = at_most(lanes->columns - c, ATTN_PROJECT_PART);
            const struct project_part part = { wide, PROJECT_WIDE_STRIDE, n, columns, { 0 } };
            for (int64_t j = 0; j < n; j++) {
                const uint8_t *blocks = blocks_at(kind, weight, o + j, i + c);
                kind->unpack(wide + j * PROJECT_WIDE_STRIDE, blocks, columns / kind->numbers);
                for (int64_t at = 0; at < columns / kind->numbers * kind->bytes; at += 64)
                    prefetch_number(blocks, at + PROJECT_STEP * stride);
            }
            project_panels_of(sums_t + o * lanes->width, lanes, c, &part);
        }
}

static void project_many_blocks(const struct blocks_kind *kind, const struct blocks_weight *weight,
                                const float *bias, float *const *y, const float *const *x,
                                int64_t row_count, float *work)
{
    const int64_t width = (row_count + LANES - 1) / LANES * LANES;
    float *sums_t = work, *tile = sums_t + weight->out * width, *wide = tile + PROJECT_TILE * width;

    project_begin_many(sums_t, width, bias, weight->out);
    for (int64_t i = 0; i < weight->in; i += PROJECT_TILE) {
        const struct project_lanes lanes = { tile, width, at_most(weight->in - i, PROJECT_TILE) };
        project_rotate(&lanes, x, row_count, i);
        project_blocks_tile(kind, weight, sums_t, &lanes, i, wide);
    }
    project_rotate_back(y, row_count, sums_t, width, 0, weight->out);
}

/* ------------------------------------------------------------------------ kernels of kernels.h --
 */

/* For more rows than these, floats that all of them use take less time. */
enum { BLOCKS_FEW_ROWS = 8 };

static void project_blocks(const struct blocks_kind *kind, const struct blocks_weight *weight,
                           const float *bias, float *const *y, const float *const *x,
                           int64_t row_count, float *work)
{
    if (row_count > BLOCKS_FEW_ROWS) {
        project_many_blocks(kind, weight, bias, y, x, row_count, work);
        return;
    }
    project_begin(y, row_count, bias, weight->out);
    for (int64_t r = 0; r < row_count; r += PROJECT_DECODE_ROWS)
        project_few_blocks(kind, weight, y + r, x + r, at_most(row_count - r, PROJECT_DECODE_ROWS),
                           work);
}

#define X(NAME, name, numbers, bytes)                                                              \
    static void project_blocks_##name(float *const *y, const float *const *x, int64_t row_count,   \
                                      const void *weight, int64_t weight_stride,                   \
                                      const float *bias, int64_t out, int64_t in, float *work)     \
    {                                                                                              \
        project_blocks(&blocks_kinds[ATTN_BLOCKS_##NAME],                                          \
                       &(struct blocks_weight){ weight, weight_stride, out, in }, bias, y, x,      \
                       row_count, work);                                                           \
    }
ATTN_BLOCKS_MAP(X)
#undef X

#endif
