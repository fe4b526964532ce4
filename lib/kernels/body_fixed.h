/* SPDX-License-Identifier: Apache-2.0 */
/* body_fixed.h - products of weights in blocks with rows in fixed point, on an instruction that
 * adds products of four bytes; and what tiles need of rows and weights. See fixed.h.
 *
 * Lanes are outputs: the words of a panel (body_panel.h) are four integers of each output, and meet
 * four digits of a row at once. Bytes of weights are unsigned: an integer has zero added, which the
 * sums begin without.
 *
 * The including file defines dot_bytes(sums, bytes, digits): sums += bytes . digits, four unsigned
 * bytes by four signed ones in each lane. */
#ifndef ATTN_BODY_FIXED_H
#define ATTN_BODY_FIXED_H

#include "body_panel.h"
#include "fixed.h"
#include "vector.h"

#include <string.h>

enum { FIXED_DIGITS = ATTN_FIXED_DIGITS_MAX };

/* Rounded to nearest, ties to even. */
INLINE ivec nearest_integers(vec x)
{
    return __builtin_ia32_cvtps2dq512_mask(x, (ivec){ 0 }, (uint16_t)-1, 4);
}

INLINE vec float_of(ivec integers)
{
    return __builtin_convertvector(integers, vec);
}

INLINE int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---------------------------------------------------------------------- rows in fixed point -- */

#define HALVES(v)                                                                                  \
    __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define QUARTERS(v)                                                                                \
    __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define PAIRS(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define NUMBERS(v)                                                                                 \
    __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)

/* In all lanes. */
INLINE vec greatest_lane(vec v)
{
    v = greater(v, HALVES(v));
    v = greater(v, QUARTERS(v));
    v = greater(v, PAIRS(v));
    return greater(v, NUMBERS(v));
}

INLINE int32_t sum_of_lanes(ivec v)
{
    v += HALVES(v);
    v += QUARTERS(v);
    v += PAIRS(v);
    return (v + NUMBERS(v))[0];
}

/* 32 inputs in their unit, which all lanes have. */
struct fixed_inputs {
    vec unit;
    ivec whole[2];
};

/* The greatest digit is at most 127, for which a whole number of 8 bits less one is too small by a
 * hair. Inputs below 2^-100 beside a row of 2^-64 or more are 0. */
INLINE void cut_inputs(struct fixed_inputs *to, const float *x, const int digits)
{
    const vec low = load(x), high = load(x + LANES);
    const vec most = greatest_lane(greater(absolute(low), absolute(high)));
    const uvec unit = ((uvec)(most * (1.0f + 0x1p-7f)) >> 23) + (uint32_t)(2 - 8 * digits);
    const uvec is_some = (uvec)(most >= 0x1p-100f);
    const vec inverse = (vec)((254 - unit) << 23 & is_some);

    to->unit = (vec)(unit << 23 & is_some);
    to->whole[0] = nearest_integers(low * inverse);
    to->whole[1] = nearest_integers(high * inverse);
}

/* The sum of X of the groups of size inputs. */
INLINE void group_sums(float *sums, int64_t step, const struct fixed_inputs *inputs, const int size)
{
    if (size == 32) {
        *sums = (float)sum_of_lanes(inputs->whole[0] + inputs->whole[1]) * inputs->unit[0];
        return;
    }
    sums[0] = (float)sum_of_lanes(inputs->whole[0]) * inputs->unit[0];
    sums[step] = (float)sum_of_lanes(inputs->whole[1]) * inputs->unit[0];
}

/* ------------------------------------------------------------------------- kinds of weights -- */

/* How the bytes of weights come out of words: as blocks_layout says, or by a table. */
enum fixed_form {
    FORM_BYTES_OF_16,
    FORM_BYTES_OF_32,
    FORM_NIBBLES_OF_16,
    FORM_NIBBLES_OF_32,
    FORM_VALUES_OF_16,
    FIXED_FORMS
};

struct fixed_kind {
    enum attn_blocks blocks;
    enum fixed_form form;
    int64_t numbers, bytes; /* of a block */
    int zero;               /* added to integers */
    bool is_small; /* the magnitudes of the integers of a group have a sum of at most 480 */
    void (*turn)(struct blocks_panel *panel, int v, const struct blocks_rows *rows);
};

#define FORM_OF(name, layout)                                                                      \
    ((layout) == BYTES_OF_16                                    ? FORM_BYTES_OF_16                 \
     : (layout) == BYTES_OF_32 || (layout) == BYTES_FUSED       ? FORM_BYTES_OF_32                 \
     : (layout) == NIBBLES_OF_32                                ? FORM_NIBBLES_OF_32               \
     : (name) == ATTN_BLOCKS_Q4_0 || (name) == ATTN_BLOCKS_Q4_1 ? FORM_NIBBLES_OF_16               \
                                                                : FORM_VALUES_OF_16)
#define ZERO_OF(name, form)                                                                        \
    ((form) == FORM_NIBBLES_OF_16 || (form) == FORM_NIBBLES_OF_32                                  \
         ? (name) == ATTN_BLOCKS_Q4_0 ? 8 : 0                                                      \
         : 128)

#define IS_SMALL(name)                                                                             \
    ((name) == ATTN_BLOCKS_Q4_0 || (name) == ATTN_BLOCKS_Q4_1 || (name) == ATTN_BLOCKS_Q4_K        \
     || (name) == ATTN_BLOCKS_Q2_K || (name) == ATTN_BLOCKS_Q3_K)

static const struct fixed_kind fixed_kinds[] = {
#define X(NAME, name, numbers, bytes)                                                              \
    { ATTN_BLOCKS_##NAME,                                                                          \
      FORM_OF(ATTN_BLOCKS_##NAME, LAYOUT_##NAME),                                                  \
      numbers,                                                                                     \
      bytes,                                                                                       \
      ZERO_OF(ATTN_BLOCKS_##NAME, FORM_OF(ATTN_BLOCKS_##NAME, LAYOUT_##NAME)),                     \
      IS_SMALL(ATTN_BLOCKS_##NAME),                                                                \
      turn_blocks_##name },
    ATTN_BLOCKS_MAP(X)
#undef X
};

/* Quads are four neighbours. Where quad q of group g lies. */
struct fixed_place {
    int word, bit;
};

INLINE struct fixed_place place_of(const enum fixed_form form, int g, int q)
{
    if (form == FORM_BYTES_OF_16)
        return (struct fixed_place){ g * 4 + q, 0 };
    if (form == FORM_BYTES_OF_32)
        return (struct fixed_place){ g * 8 + q, 0 };
    if (form == FORM_NIBBLES_OF_32)
        return (struct fixed_place){ g / 2 * 8 + q, g % 2 * 4 };
    return (struct fixed_place){ g * 4 + q % 4, q / 4 * 4 };
}

INLINE int quads_of(const enum fixed_form form)
{
    return form == FORM_BYTES_OF_16 ? 4 : 8;
}

/* The blocks of outputs from output on, which begin at this input. The last inputs are copied, with
 * nothing behind them. */
struct fixed_last {
    uint8_t rows[LANES][512];
};

INLINE struct blocks_rows rows_of_part(const struct fixed_kind *kind,
                                       const struct attn_fixed_project *project, int64_t output,
                                       int64_t input, struct fixed_last *last)
{
    const int64_t stride = project->weight_stride / kind->numbers * kind->bytes;
    const uint8_t *first =
        (const uint8_t *)project->weight + output * stride + input / kind->numbers * kind->bytes;
    const int64_t count = least_of(project->out - output, LANES), rest = project->in - input;

    if (rest >= ATTN_FIXED_PART)
        return (struct blocks_rows){ first, stride, count };
    memset(last, 0, sizeof *last);
    for (int64_t j = 0; j < count; j++)
        memcpy(last->rows[j], first + j * stride, (size_t)(rest / kind->numbers * kind->bytes));
    return (struct blocks_rows){ last->rows[0], sizeof last->rows[0], count };
}

#include "body_fixed_rows.h"

/* ------------------------------------------------------------------------- for tiles -- */

/* The digits of a unit times their places, as bf16 numbers. */
INLINE void store_digits(uint16_t *to, const struct fixed_inputs *inputs, const int digits)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        ivec rest = inputs->whole[half];
        vec place = inputs->unit;
        UNROLL
        for (int d = 0; d < digits; d++, place *= 256.0f) {
            const ivec digit = d + 1 < digits ? rest << 24 >> 24 : rest;
            const uvec bits = (uvec)(float_of(digit) * place);
            const hvec numbers = __builtin_convertvector(bits >> 16, hvec);
            memcpy(to + d * ATTN_FIXED_TILE + half * LANES, &numbers, sizeof numbers);
            rest = (rest - digit) >> 8;
        }
    }
}

INLINE void cut_tiles(uint16_t *tiles, float *sums, const struct attn_fixed_project *project,
                      int64_t first, const int digits)
{
    const int size = attn_fixed_group(project->blocks);
    const bool has_less = attn_fixed_has_less(project->blocks);
    const int64_t row_tiles = (project->row_count + LANES - 1) / LANES;
    const int64_t count = least_of(project->in - first, ATTN_FIXED_PART);

    for (int64_t r = 0; r < row_tiles * LANES; r++)
        for (int64_t i = 0; i < count; i += ATTN_FIXED_UNIT) {
            uint16_t *to =
                tiles + ((i / ATTN_FIXED_UNIT * row_tiles + r / LANES) * digits) * ATTN_FIXED_TILE
                + r % LANES * ATTN_FIXED_UNIT;
            struct fixed_inputs inputs;
            if (r < project->row_count)
                cut_inputs(&inputs, project->x[r] + first + i, digits);
            else
                memset(&inputs, 0, sizeof inputs);
            store_digits(to, &inputs, digits);
            if (has_less)
                group_sums(sums + i / size * ATTN_PROJECT_ROWS_MAX + r, ATTN_PROJECT_ROWS_MAX,
                           &inputs, size);
        }
}

static void cut(uint16_t *tiles, float *sums, const struct attn_fixed_project *project,
                int64_t first)
{
    if (project->digits == 2)
        cut_tiles(tiles, sums, project, first, 2);
    else
        cut_tiles(tiles, sums, project, first, 3);
}

/* Integer k of each word. */
INLINE uvec bits_of_integer(const enum fixed_form form, uvec words, const int k, int bit,
                            vec values)
{
    if (form == FORM_BYTES_OF_16 || form == FORM_BYTES_OF_32)
        return (uvec)float_of((ivec)(words << (24 - 8 * k)) >> 24);
    return (uvec)nibble_value(words, bit + 8 * k, values);
}

/* The tile of group g. */
INLINE void lay_group(const enum fixed_form form, uint16_t *tile, const struct blocks_panel *panel,
                      int g)
{
    enum { PAIR_ROW = 2 * LANES, HALF = ATTN_FIXED_TILE / 2 };
    const int quads = quads_of(form);

    if (quads == 4) {
        memset(tile + (g % 2 == 0 ? HALF : 0), 0, HALF * sizeof *tile);
        tile += g % 2 * HALF;
    }
    UNROLL
    for (int q = 0; q < quads; q++) {
        const struct fixed_place place = place_of(form, g, q);
        const uvec words = (uvec)panel->words[place.word][0];
        UNROLL
        for (int k = 0; k < 4; k += 2) {
            const uvec low = bits_of_integer(form, words, k, place.bit, panel->values);
            const uvec high = bits_of_integer(form, words, k + 1, place.bit, panel->values);
            const uvec pairs = low >> 16 | (high & 0xffff0000u);
            memcpy(tile + (q * 2 + k / 2) * PAIR_ROW, &pairs, sizeof pairs);
        }
    }
}

#define LAY_PART(form)                                                                             \
    static void lay_part_##form(struct attn_fixed_panel *to, const struct blocks_panel *panel,     \
                                int groups)                                                        \
    {                                                                                              \
        for (int g = 0; g < groups; g++)                                                           \
            lay_group(form, to->tiles[g], panel, g);                                               \
    }
LAY_PART(FORM_BYTES_OF_16)
LAY_PART(FORM_BYTES_OF_32)
LAY_PART(FORM_NIBBLES_OF_16)
LAY_PART(FORM_NIBBLES_OF_32)

static void (*const lay_part_of[FIXED_FORMS])(struct attn_fixed_panel *to,
                                              const struct blocks_panel *panel, int groups) = {
    [FORM_BYTES_OF_16] = lay_part_FORM_BYTES_OF_16,
    [FORM_BYTES_OF_32] = lay_part_FORM_BYTES_OF_32,
    [FORM_NIBBLES_OF_16] = lay_part_FORM_NIBBLES_OF_16,
    [FORM_NIBBLES_OF_32] = lay_part_FORM_NIBBLES_OF_32,
    [FORM_VALUES_OF_16] = lay_part_FORM_NIBBLES_OF_16,
};

static void lay(struct attn_fixed_panel *to, const struct attn_fixed_project *project,
                int64_t output, int64_t input)
{
    const struct fixed_kind *kind = &fixed_kinds[project->blocks];
    const int size = quads_of(kind->form) * 4;
    const int groups = (int)least_of(project->in - input, ATTN_FIXED_PART) / size;
    struct blocks_panel panel;
    struct fixed_last last;

    panel.values = values_of(project->blocks);
    panel.has_infinite = false;
    const struct blocks_rows weights = rows_of_part(kind, project, output, input, &last);
    kind->turn(&panel, 0, &weights);
    lay_part_of[kind->form](to, &panel, groups);
    for (int g = 0; g < groups; g++) {
        store(to->by[g], panel.by[g][0]);
        store(to->less[g], panel.less[g][0]);
    }
}

/* The bits of magnitudes, as integers, are in the order of the magnitudes, and those of infinity
 * and NaN follow. */
static uint64_t odd_rows(const float *const *x, int64_t row_count, int64_t in)
{
    enum { LEAST = 0x1f800000, LIMIT = 0x5f800000 }; /* 2^-64 and 2^64 */
    uint64_t odd = 0;

    for (int64_t r = 0; r < row_count; r++) {
        uint32_t greatest = 0;
        for (int64_t i = 0; i < in; i++) {
            uint32_t bits;
            memcpy(&bits, &x[r][i], sizeof bits);
            bits &= 0x7fffffff;
            greatest = greatest > bits ? greatest : bits;
        }
        if (greatest >= LIMIT || (greatest < LEAST && greatest != 0))
            odd |= (uint64_t)1 << r;
    }
    return odd;
}

#endif
