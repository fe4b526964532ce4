/* SPDX-License-Identifier: Apache-2.0 */
/* body_project.h - the kernels of projections, a part of body.h.
 *
 * An output is one chain of multiply-adds for every ATTN_PROJECT_PART inputs, in their order, and
 * the chains are added in their order. All forms below add in exactly this way, whatever their
 * lanes are, so all of them give the same bits, and so do all tables whose CPU has a multiply-add:
 *
 * - Few rows: lanes are outputs. Parameters stored by outputs are transposed in registers, a square
 *   of vectors at a time, which takes no longer than memory takes to bring them. Parameters stored
 *   by inputs need no transposing, and are read in runs as long as the number of outputs.
 *
 * - More rows: the rows are transposed, once for all outputs. Lanes are rows, and one parameter at
 * a time is multiplied with them. With parameters stored by inputs, lanes stay outputs, and tiles
 * of parameters are copied to where their rows do not evict each other from the cache.
 *
 * 16-bit parameters are widened exactly on the way, and so give the same bits as F32 parameters of
 * the same value. For few rows they are widened in registers: two neighbours are transposed as if
 * they were one float, which halves the work. For more rows a block of them is widened into a
 * buffer that all rows use: to widen a parameter where it is multiplied takes the units that
 * multiply.
 *
 * Needs multiply() of body.h. */
#ifndef ATTN_BODY_PROJECT_H
#define ATTN_BODY_PROJECT_H

#include "body_decode.h"
#include "kernels.h"
#include "numbers.h"
#include "vector.h"

#include <string.h>

/* Rows whose sums fit into registers beside a square of parameters. */
enum { PROJECT_DECODE_ROWS = VEC_BYTES == 64 ? 8 : 4 };

/* One row meets groups of outputs side by side. The lines of long rows would evict each other.
 * PROJECT_SHORT_BYTES is the longest row that is short. */
enum { PROJECT_GROUPS_MAX = 2, PROJECT_SHORT_BYTES = 4096 };

/* Inputs of a tile, a whole number of parts. Rows that registers take at once are a panel. */
enum { PROJECT_TILE = 512, PROJECT_PANEL = BLOCK_VECTORS * LANES };

/* Outputs that meet a panel, one part of the inputs at a time, before the next panel does: as many
 * as make up for bringing it to the first cache. A panel of all rows is too large for that cache,
 * and few outputs meet it. PROJECT_WIDE_STRIDE is the stride of rows of widened parameters, chosen
 * so that neighbouring rows do not share a place in the cache. */
enum {
    PROJECT_STEP = (int)PROJECT_PANEL < (int)ATTN_PROJECT_ROWS_MAX ? 48 : 12,
    PROJECT_WIDE_STRIDE = ATTN_PROJECT_PART + 16
};

/* Outputs whose sums with all rows fill a part of the first cache: a multiple of the outputs that
 * registers take at once. */
enum { PROJECT_GROUP = 48 };

_Static_assert(PROJECT_TILE % ATTN_PROJECT_PART == 0, "a tile is made of parts");
_Static_assert((ATTN_PROJECT_OUTPUTS_MAX + PROJECT_TILE) * ATTN_PROJECT_ROWS_MAX
                       + PROJECT_STEP * PROJECT_WIDE_STRIDE
                   <= ATTN_PROJECT_WORK,
               "sums, a tile of rows and a block of widened parameters have room");
_Static_assert((ATTN_PROJECT_ROWS_MAX + ATTN_WIDTH_MAX) * PROJECT_TILE <= ATTN_PROJECT_WORK,
               "rows, as many as a tile of attention has, and a tile of parameters have room");

/* Load or store the n numbers at p, but at most LANES; missing lanes are 0. */
INLINE vec load_most(const float *p, int64_t n)
{
    return n >= LANES ? load(p) : load_part(p, n);
}

INLINE void store_most(float *p, vec v, int64_t n)
{
    if (n >= LANES)
        store(p, v);
    else
        store_part(p, v, n);
}

/* As load_most(), for a row of any kind, from number i on. */
INLINE vec load_numbers_most(const enum attn_numbers kind, const void *row, int64_t i, int64_t n)
{
    if (kind == ATTN_NUMBERS_F32)
        return load_most((const float *)row + i, n);
    if (n >= LANES)
        return load_numbers(kind, row, i);
    const hvec halves = load_halves((const uint16_t *)row + i, n);
    return kind == ATTN_NUMBERS_F16 ? float_of_f16(halves) : float_of_bf16(halves);
}

/* The address of number i. */
INLINE const void *number_at(const enum attn_numbers kind, const void *numbers, int64_t i)
{
    return (const char *)numbers + bytes_of(kind, i);
}

INLINE int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Set each output to its bias, to which the parts are added. */
static void project_begin(float *const *y, int64_t row_count, const float *bias, int64_t out)
{
    for (int64_t r = 0; r < row_count; r++)
        if (bias)
            memcpy(y[r], bias, (size_t)out * sizeof *bias);
        else
            memset(y[r], 0, (size_t)out * sizeof **y);
}

/* ------------------------------------------ few rows, parameters stored by outputs -- */

/* The sums of rows rows with groups groups of LANES outputs, while the loop passes over the inputs:
 * those of a group lie side by side. A sum is one chain, which waits for each multiply-add before
 * the next, so one row takes several groups at once. */
struct project_sums {
    vec totals[PROJECT_DECODE_ROWS], part[PROJECT_DECODE_ROWS];
    int64_t part_end; /* the first input of the next part */
};

INLINE void project_end_part(struct project_sums *sums)
{
    UNROLL
    for (int r = 0; r < PROJECT_DECODE_ROWS; r++) {
        sums->totals[r] += sums->part[r];
        sums->part[r] = (vec){ 0 };
    }
    sums->part_end += ATTN_PROJECT_PART;
}

/* Inputs of a square: as many as fill a vector. */
#define SQUARE_INPUTS(kind) ((kind) == ATTN_NUMBERS_F32 ? LANES : 2 * LANES)

/* Load and transpose a square of parameters: columns inputs, at most SQUARE_INPUTS, from i on, of
 * the n outputs that start at weight. Each vector of the result is an input, or a pair of
 * inputs. */
INLINE void project_load_square(const enum attn_numbers kind, vec square[LANES], const void *weight,
                                int64_t weight_stride, int64_t n, int64_t i, int64_t columns)
{
    UNROLL
    for (int j = 0; j < LANES; j++) {
        const int64_t first = (j < n ? j : n - 1) * weight_stride + i;
        square[j] = (vec){ 0 };
        if (kind == ATTN_NUMBERS_F32)
            square[j] = load_most((const float *)weight + first, columns);
        else if (columns == SQUARE_INPUTS(kind))
            memcpy(&square[j], (const uint16_t *)weight + first, sizeof square[j]);
        else
            memcpy(&square[j], (const uint16_t *)weight + first, (size_t)columns * 2);
    }
    transpose_square(square);
}

/* The numbers of binary16 in the lower halves of words, or in the upper ones. */
INLINE vec project_halves(uvec pair, bool is_upper)
{
#if VEC_BYTES >= 32
    /* Both are brought apart at once. */
    typedef uint16_t both_vec __attribute__((vector_size(VEC_BYTES)));
    const both_vec both = (both_vec)pair;
    hvec halves[2];
#if VEC_BYTES == 64
    const both_vec apart =
        __builtin_shufflevector(both, both, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                30, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
    typedef int64_t words_vec __attribute__((vector_size(VEC_BYTES)));
    const words_vec within = (words_vec)__builtin_shufflevector(both, both, 0, 2, 4, 6, 1, 3, 5, 7,
                                                                8, 10, 12, 14, 9, 11, 13, 15);
    const words_vec apart = __builtin_shufflevector(within, within, 0, 2, 1, 3);
#endif

    memcpy(halves, &apart, sizeof halves);
    return float_of_f16(halves[is_upper]);
#else
    return float_of_f16(__builtin_convertvector(is_upper ? pair >> 16 : pair & 0xffffu, hvec));
#endif
}

/* The parameters of input c of a square. The first of a pair is in the lower half. */
INLINE vec project_column(const enum attn_numbers kind, const vec square[LANES], int64_t c)
{
    if (kind == ATTN_NUMBERS_F32)
        return square[c];
    const uvec pair = (uvec)square[c / 2];
    if (kind == ATTN_NUMBERS_BF16)
        return (vec)(c % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
    return project_halves(pair, c % 2 != 0);
}

/* The address to prefetch from while the loop reads a vector of each of some outputs, from input i
 * on: as many vectors, one behind the other. Memory brings these up to half as fast again as lines
 * of rows side by side, which the CPU does not predict. Short rows are one run: the rows of the
 * next outputs. A run of a long row is its next block, or the first block of a row of the next
 * outputs. The address need not exist. */
INLINE uintptr_t project_next(const enum attn_numbers kind, int64_t outputs, const void *weight,
                              int64_t weight_stride, int64_t i, int64_t in)
{
    const int64_t row = bytes_of(kind, weight_stride), at = bytes_of(kind, i);
    const int64_t block = outputs * VEC_BYTES, next = (at / block + 1) * block;
    const uintptr_t from = (uintptr_t)weight, beyond = from + (uintptr_t)(outputs * row);

    if (row <= PROJECT_SHORT_BYTES)
        return beyond + (uintptr_t)(at * outputs);
    return (next < bytes_of(kind, in) ? from + (uintptr_t)next : beyond)
           + (uintptr_t)(at % block / VEC_BYTES * row);
}

/* Inputs i to i + SQUARE_INPUTS of one group, all of one part; next: as many parameters to
 * prefetch. */
INLINE void project_square(const enum attn_numbers kind, const int rows, vec *part,
                           const float *const x[PROJECT_DECODE_ROWS], const void *weight,
                           int64_t weight_stride, int64_t n, int64_t i, uintptr_t next)
{
    const int inputs = (int)SQUARE_INPUTS(kind);
    vec square[LANES];

    project_load_square(kind, square, weight, weight_stride, n, i, inputs);
    UNROLL
    for (int j = 0; j < LANES; j++)
        __builtin_prefetch((const void *)(next + (uintptr_t)j * VEC_BYTES), 0, 3);
    UNROLL
    for (int c = 0; c < inputs; c++) {
        const vec column = project_column(kind, square, c);
        UNROLL
        for (int r = 0; r < rows; r++)
            part[r] += x[r][i + c] * column;
    }
}

/* Inputs i to i + columns of all groups, if there are fewer than SQUARE_INPUTS or a part ends among
 * them. */
INLINE void project_cut_square(const enum attn_numbers kind, const int rows, const int groups,
                               struct project_sums *sums, const float *const x[PROJECT_DECODE_ROWS],
                               const void *weight, int64_t weight_stride, int64_t n, int64_t i,
                               int64_t columns)
{
    vec square[PROJECT_GROUPS_MAX][LANES];

    for (int g = 0; g < groups; g++)
        project_load_square(kind, square[g], number_at(kind, weight, g * LANES * weight_stride),
                            weight_stride, n - g * LANES, i, columns);
    for (int64_t c = 0; c < columns; c++) {
        if (i + c == sums->part_end)
            project_end_part(sums);
        for (int g = 0; g < groups; g++) {
            const vec column = project_column(kind, square[g], c);
            for (int r = 0; r < rows; r++)
                sums->part[g * rows + r] += x[r][i + c] * column;
        }
    }
}

/* How many numbers from weight to the first one aligned to a vector. Loads that cross from one
 * cache line to the next fetch lines twice when rows evict each other from the cache. */
INLINE int64_t project_unaligned(const enum attn_numbers kind, const void *weight)
{
    return (int64_t)(-(uintptr_t)weight % VEC_BYTES) / bytes_of(kind, 1);
}

/* rows rows with n outputs, at most groups * LANES and more than a group less, from output o on.
 * The cut squares work on a copy of the sums, so that the sums themselves have no address and stay
 * in registers. */
INLINE void project_outputs(const enum attn_numbers kind, const int rows, const int groups,
                            float *const y[PROJECT_DECODE_ROWS],
                            const float *const x[PROJECT_DECODE_ROWS], const void *weight,
                            int64_t weight_stride, int64_t o, int64_t n, int64_t in)
{
    struct project_sums sums = { .part_end = ATTN_PROJECT_PART };
    int64_t i = 0, columns = at_most(project_unaligned(kind, weight), in);

    UNROLL
    for (int s = 0; s < groups * rows; s++)
        sums.totals[s] = load_most(y[s % rows] + o + s / rows * LANES, n - s / rows * LANES);
    for (; i < in; i += columns, columns = at_most(in - i, SQUARE_INPUTS(kind))) {
        if (i == sums.part_end)
            project_end_part(&sums);
        if (columns == SQUARE_INPUTS(kind) && i + columns <= sums.part_end) {
            const uintptr_t next = project_next(kind, groups * LANES, weight, weight_stride, i, in);
            UNROLL
            for (int g = 0; g < groups; g++)
                project_square(kind, rows, sums.part + g * rows, x,
                               number_at(kind, weight, g * LANES * weight_stride), weight_stride,
                               n - g * LANES, i, next + (uintptr_t)g * LANES * VEC_BYTES);
        } else {
            struct project_sums cut = sums;
            project_cut_square(kind, rows, groups, &cut, x, weight, weight_stride, n, i, columns);
            sums = cut;
        }
    }
    project_end_part(&sums);
    UNROLL
    for (int s = 0; s < groups * rows; s++)
        store_most(y[s % rows] + o + s / rows * LANES, sums.totals[s], n - s / rows * LANES);
}

/* rows rows; if row_count is smaller, the last row is repeated. */
INLINE void project_decode(const enum attn_numbers kind, const int rows, float *const *y,
                           const float *const *x, int64_t row_count, const void *weight,
                           int64_t weight_stride, int64_t out, int64_t in)
{
    const int groups = PROJECT_GROUPS_MAX;
    const bool is_short = bytes_of(kind, in) <= PROJECT_SHORT_BYTES;
    const float *from[PROJECT_DECODE_ROWS];
    float *to[PROJECT_DECODE_ROWS];
    int64_t o = 0;

    for (int r = 0; r < rows; r++) {
        from[r] = x[at_most(r, row_count - 1)];
        to[r] = y[at_most(r, row_count - 1)];
    }
    for (; rows == 1 && is_short && o + groups * LANES <= out; o += groups * LANES)
        project_outputs(kind, 1, groups, to, from, number_at(kind, weight, o * weight_stride),
                        weight_stride, o, groups * LANES, in);
    for (; o < out; o += LANES)
        project_outputs(kind, rows, 1, to, from, number_at(kind, weight, o * weight_stride),
                        weight_stride, o, at_most(out - o, LANES), in);
}

/* ----------------------------------------- more rows, parameters stored by outputs -- */

/* Rows that became lanes: panels one behind the other, each [columns][lanes of the panel]. The last
 * panel has fewer lanes if width, a multiple of LANES, ends in it. */
struct project_lanes {
    float *numbers;
    int64_t width, columns;
};

INLINE int64_t project_lanes_stride(const struct project_lanes *lanes, int64_t r)
{
    return at_most(lanes->width - r / PROJECT_PANEL * PROJECT_PANEL, PROJECT_PANEL);
}

/* The address of column c of row r. */
INLINE float *project_lanes_at(const struct project_lanes *lanes, int64_t c, int64_t r)
{
    const int64_t within = r % PROJECT_PANEL;

    return lanes->numbers + (r - within) * lanes->columns + c * project_lanes_stride(lanes, r)
           + within;
}

/* Column c of row r is x[r][i + c], and 0 where there is no row r. Whole squares stay in
 * registers. */
INLINE void project_rotate(const struct project_lanes *lanes, const float *const *x,
                           int64_t row_count, int64_t i)
{
    for (int64_t r = 0; r < lanes->width; r += LANES) {
        const int64_t stride = project_lanes_stride(lanes, r);
        for (int64_t c = 0; c < lanes->columns; c += LANES) {
            const int64_t n = at_most(lanes->columns - c, LANES);
            float *to = project_lanes_at(lanes, c, r);
            vec square[LANES];
            if (n == LANES && r + LANES <= row_count) {
                UNROLL
                for (int j = 0; j < LANES; j++)
                    square[j] = load(x[r + j] + i + c);
                transpose_square(square);
                UNROLL
                for (int j = 0; j < LANES; j++)
                    store(to + j * stride, square[j]);
                continue;
            }
            KEEP_ROLLED
            for (int j = 0; j < LANES; j++)
                square[j] = r + j < row_count ? load_most(x[r + j] + i + c, n) : (vec){ 0 };
            transpose_square(square);
            KEEP_ROLLED
            for (int j = 0; j < n; j++)
                store(to + j * stride, square[j]);
        }
    }
}

/* y[r][first + o] = sums_t[o][r] for o < out. */
INLINE void project_rotate_back(float *const *y, int64_t row_count, const float *sums_t,
                                int64_t width, int64_t first, int64_t out)
{
    for (int64_t r = 0; r < row_count; r += LANES)
        for (int64_t o = 0; o < out; o += LANES) {
            const int64_t n = at_most(out - o, LANES);
            vec square[LANES];
            if (n == LANES && r + LANES <= row_count) {
                UNROLL
                for (int j = 0; j < LANES; j++)
                    square[j] = load(sums_t + (o + j) * width + r);
                transpose_square(square);
                UNROLL
                for (int j = 0; j < LANES; j++)
                    store(y[r + j] + first + o, square[j]);
                continue;
            }
            KEEP_ROLLED
            for (int j = 0; j < LANES; j++)
                square[j] = load(sums_t + (o + (j < n ? j : n - 1)) * width + r);
            transpose_square(square);
            KEEP_ROLLED
            for (int j = 0; j < at_most(row_count - r, LANES); j++)
                store_most(y[r + j] + first + o, square[j], n);
        }
}

/* Where the parameters of the next outputs lie, for the same inputs. */
struct project_ahead {
    uintptr_t first; /* of the first output; it need not exist */
    int64_t row_bytes, number_bytes;
};

/* multiply() while the next parameters come: their rows are runs too short for the CPU to predict.
 * They are asked for every PROJECT_LINE steps, at most a line of each row. */
enum { PROJECT_LINE = 16 };

INLINE void project_multiply(const int rows, const int vectors, vec sums[BLOCK_SUMS_MAX],
                             const float *left, int64_t left_row, const float *right, int64_t width,
                             int64_t depth, const struct project_ahead *ahead)
{
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sums[i] = (vec){ 0 };
    for (int64_t k = 0; k < depth; k += PROJECT_LINE) {
        UNROLL
        for (int r = 0; r < rows && ahead; r++)
            __builtin_prefetch(
                (const void *)(ahead->first
                               + (uintptr_t)(k * ahead->number_bytes + r * ahead->row_bytes)),
                0, 2);
        multiply_more(rows, vectors, false, sums, left + k, left_row, 1, right + k * width, width,
                      at_most(depth - k, PROJECT_LINE), NULL);
    }
}

/* sums_t[o][r] += one part of the sums of outs outputs. */
INLINE void project_block(const int outs, const int vectors, float *sums_t, int64_t width,
                          const float *lanes, int64_t lanes_stride, const float *weight,
                          int64_t weight_stride, int64_t columns, const struct project_ahead *ahead)
{
    vec sums[BLOCK_SUMS_MAX];

    project_multiply(outs, vectors, sums, weight, weight_stride, lanes, lanes_stride, columns,
                     ahead);
    UNROLL
    for (int o = 0; o < outs; o++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *sum = sums_t + o * width + v * LANES;
            store(sum, load(sum) + sums[o * vectors + v]);
        }
    }
}

/* Parameters that all rows meet next: n inputs of out outputs, at most PROJECT_STEP, of which
 * weight has the first; and where those that come then lie, if row_bytes of ahead is not 0. */
struct project_part {
    const float *weight;
    int64_t weight_stride, out, n;
    struct project_ahead ahead;
};

/* vectors vectors of rows, from row r on, with a part that begins at column c. The first rows alone
 * ask for what comes then. */
INLINE void project_panel(const int vectors, float *sums_t, const struct project_lanes *lanes,
                          int64_t c, int64_t r, const struct project_part *part)
{
    const int64_t stride = project_lanes_stride(lanes, r), width = lanes->width;
    const float *from = project_lanes_at(lanes, c, r), *weight = part->weight;
    const bool asks = r == 0 && part->ahead.row_bytes > 0;
    struct project_ahead ahead = part->ahead;
    int64_t o = 0;

#define PROJECT_BLOCKS(outs)                                                                       \
    for (; o + (outs) <= part->out; o += (outs)) {                                                 \
        project_block(outs, vectors, sums_t + o * width + r, width, from, stride, weight,          \
                      part->weight_stride, part->n, asks ? &ahead : NULL);                         \
        weight += (outs)*part->weight_stride;                                                      \
        ahead.first += (uintptr_t)((outs)*ahead.row_bytes);                                        \
    }
    PROJECT_BLOCKS(BLOCK_ROWS(vectors))
    PROJECT_BLOCKS(BLOCK_ROWS_REST)
    PROJECT_BLOCKS(1)
#undef PROJECT_BLOCKS
}

/* All rows with a part: vectors vectors at once, which are 2 or divide the width. */
INLINE void project_panels(const int vectors, float *sums_t, const struct project_lanes *lanes,
                           int64_t c, const struct project_part *part)
{
    int64_t r = 0;

    for (; r + vectors * LANES <= lanes->width; r += vectors * LANES)
        project_panel(vectors, sums_t, lanes, c, r, part);
    for (; vectors == 2 && r < lanes->width; r += LANES)
        project_panel(1, sums_t, lanes, c, r, part);
}

/* project_panels() with as many vectors as the width has. */
INLINE void project_panels_of(float *sums_t, const struct project_lanes *lanes, int64_t c,
                              const struct project_part *part)
{
    if (lanes->width % PROJECT_PANEL == 0)
        project_panels(BLOCK_VECTORS, sums_t, lanes, c, part);
    else
        project_panels(2, sums_t, lanes, c, part);
}

/* sums_t[o][r] += the sums of out outputs, at most PROJECT_STEP, over all columns. If parameters
 * must be widened, wide has room for a part of them. */
INLINE void project_step(const enum attn_numbers kind, float *sums_t,
                         const struct project_lanes *lanes, const void *weight,
                         int64_t weight_stride, int64_t out, float *wide)
{
    for (int64_t c = 0; c < lanes->columns; c += ATTN_PROJECT_PART) {
        const int64_t then = c + ATTN_PROJECT_PART;
        const void *from = number_at(kind, weight, c);
        const void *ahead = then < lanes->columns
                                ? number_at(kind, weight, then)
                                : number_at(kind, weight, PROJECT_STEP * weight_stride);
        struct project_part part = { from,
                                     weight_stride,
                                     out,
                                     at_most(lanes->columns - c, ATTN_PROJECT_PART),
                                     { (uintptr_t)ahead, bytes_of(kind, weight_stride),
                                       bytes_of(kind, 1) } };

        if (kind != ATTN_NUMBERS_F32) {
            for (int64_t o = 0; o < out; o++)
                (kind == ATTN_NUMBERS_F16 ? widen_f16 : widen_bf16)(
                    wide + o * PROJECT_WIDE_STRIDE, (const uint16_t *)from + o * weight_stride,
                    part.n);
            part.weight = wide;
            part.weight_stride = PROJECT_WIDE_STRIDE;
        }
        project_panels_of(sums_t, lanes, c, &part);
    }
}

/* sums_t is [out][width of lanes]. */
INLINE void project_tile(const enum attn_numbers kind, float *sums_t,
                         const struct project_lanes *lanes, const void *weight,
                         int64_t weight_stride, int64_t out, float *wide)
{
    for (int64_t o = 0; o < out; o += PROJECT_STEP)
        project_step(kind, sums_t + o * lanes->width, lanes,
                     number_at(kind, weight, o * weight_stride), weight_stride,
                     at_most(out - o, PROJECT_STEP), wide);
}

/* Set each output of all rows to its bias. */
INLINE void project_begin_many(float *sums_t, int64_t width, const float *bias, int64_t out)
{
    for (int64_t o = 0; o < out; o++)
        for (int64_t r = 0; r < width; r += LANES)
            store(sums_t + o * width + r, broadcast(bias ? bias[o] : 0.0f));
}

/* Rows that fit in the work buffer are turned once. Then some outputs at a time meet all inputs,
 * and their sums stay in the first cache until they are turned back. */
INLINE void project_whole_rows(const enum attn_numbers kind, float *const *y, const float *const *x,
                               int64_t row_count, const void *weight, int64_t weight_stride,
                               const float *bias, int64_t out, int64_t in, float *work)
{
    const int64_t width = (row_count + LANES - 1) / LANES * LANES;
    float *sums_t = work, *wide = sums_t + PROJECT_GROUP * width;
    const struct project_lanes lanes = { wide + PROJECT_STEP * PROJECT_WIDE_STRIDE, width, in };

    project_rotate(&lanes, x, row_count, 0);
    for (int64_t o = 0; o < out; o += PROJECT_GROUP) {
        const int64_t n = at_most(out - o, PROJECT_GROUP);
        project_begin_many(sums_t, width, bias ? bias + o : NULL, n);
        project_tile(kind, sums_t, &lanes, number_at(kind, weight, o * weight_stride),
                     weight_stride, n, wide);
        project_rotate_back(y, row_count, sums_t, width, o, n);
    }
}

INLINE void project_many(const enum attn_numbers kind, float *const *y, const float *const *x,
                         int64_t row_count, const void *weight, int64_t weight_stride,
                         const float *bias, int64_t out, int64_t in, float *work)
{
    const int64_t width = (row_count + LANES - 1) / LANES * LANES;
    float *sums_t = work, *tile = sums_t + out * width, *wide = tile + PROJECT_TILE * width;

    if ((PROJECT_GROUP + in) * width + PROJECT_STEP * PROJECT_WIDE_STRIDE <= ATTN_PROJECT_WORK) {
        project_whole_rows(kind, y, x, row_count, weight, weight_stride, bias, out, in, work);
        return;
    }
    project_begin_many(sums_t, width, bias, out);
    for (int64_t i = 0; i < in; i += PROJECT_TILE) {
        const struct project_lanes lanes = { tile, width, at_most(in - i, PROJECT_TILE) };
        project_rotate(&lanes, x, row_count, i);
        project_tile(kind, sums_t, &lanes, number_at(kind, weight, i), weight_stride, out, wide);
    }
    project_rotate_back(y, row_count, sums_t, width, 0, out);
}

/* Add the products of at most PROJECT_DECODE_ROWS rows. */
INLINE void project_few(const enum attn_numbers kind, float *const *y, const float *const *x,
                        int64_t row_count, const void *weight, int64_t weight_stride, int64_t out,
                        int64_t in)
{
    if (row_count > 4)
        project_decode(kind, PROJECT_DECODE_ROWS, y, x, row_count, weight, weight_stride, out, in);
    else if (row_count > 2)
        project_decode(kind, 4, y, x, row_count, weight, weight_stride, out, in);
    else if (row_count > 1)
        project_decode(kind, 2, y, x, row_count, weight, weight_stride, out, in);
    else if (row_count > 0)
        project_decode(kind, 1, y, x, row_count, weight, weight_stride, out, in);
}

INLINE void project_by_outputs(const enum attn_numbers kind, float *const *y, const float *const *x,
                               int64_t row_count, const void *weight, int64_t weight_stride,
                               const float *bias, int64_t out, int64_t in, float *work)
{
    if (row_count > PROJECT_DECODE_ROWS) {
        project_many(kind, y, x, row_count, weight, weight_stride, bias, out, in, work);
        return;
    }
    project_begin(y, row_count, bias, out);
    project_few(kind, y, x, row_count, weight, weight_stride, out, in);
}

/* ------------------------------------------------------------------------ kinds of number -- */

/* A kernel of kernels.h: project_by_outputs() or project_by_inputs() for one kind. */
#define PROJECT_OF(way, suffix, kind)                                                              \
    static void project_##way##_##suffix(                                                          \
        float *const *y, const float *const *x, int64_t row_count, const void *weight,             \
        int64_t weight_stride, const float *bias, int64_t out, int64_t in, float *work)            \
    {                                                                                              \
        project_##way(kind, y, x, row_count, weight, weight_stride, bias, out, in, work);          \
    }

PROJECT_OF(by_outputs, f32, ATTN_NUMBERS_F32)
PROJECT_OF(by_outputs, f16, ATTN_NUMBERS_F16)
PROJECT_OF(by_outputs, bf16, ATTN_NUMBERS_BF16)

#endif
