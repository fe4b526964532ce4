/* SPDX-License-Identifier: Apache-2.0 */
/* body_fixed_row.h - the product of one row in fixed point. A part of body_fixed_rows.h.
 *
 * Several rows share a panel whose words were transposed, and one row would pay for all of that. It
 * meets the weights as they lie: a vector has 16 bytes of each of four outputs, and the lanes of an
 * output are added up behind the products. The sums of a group are exact, so their bits are those
 * of the panel. Groups of 16 inputs would be added up twice as often, and keep to the panel. Two
 * groups of 32 that share bytes, of Q4_K, have as few words as a square of registers turns. */
#ifndef ATTN_BODY_FIXED_ROW_H
#define ATTN_BODY_FIXED_ROW_H

#include "body_panel.h"
#include "fixed.h"
#include "vector.h"

#include <string.h>

typedef int32_t half_vec __attribute__((vector_size(VEC_BYTES / 2)));

/* The integers of a part of LANES outputs: those of a group begin step bytes behind the ones
 * before. Integers that are no whole words are unpacked. */
struct fixed_lines {
    const uint8_t *from[LANES];
    int64_t step;
    uint8_t unpacked[LANES][ATTN_FIXED_PART];
};

/* And the scales become those of the panel. */
INLINE void find_lines(const enum attn_blocks blocks, struct fixed_lines *lines,
                       struct blocks_panel *panel, const struct blocks_rows *rows)
{
    const uint8_t *row[LANES];

    find_rows(row, rows);
    find_integers(blocks, lines->from, lines->unpacked, row);
    lines->step = !has_words(blocks) ? 32 : block_numbers(blocks) == 32 ? block_bytes(blocks) : 16;
    turn_scales(blocks, panel, 0, row);
}

#define X(NAME, name, numbers, bytes)                                                              \
    static void find_lines_##name(struct fixed_lines *lines, struct blocks_panel *panel,           \
                                  const struct blocks_rows *rows)                                  \
    {                                                                                              \
        find_lines(ATTN_BLOCKS_##NAME, lines, panel, rows);                                        \
    }
ATTN_BLOCKS_MAP(X)
#undef X

/* --------------------------------------------------------------------------------- lanes -- */

INLINE ivec load_two(const uint8_t *a, const uint8_t *b)
{
    half_vec h[2];

    memcpy(&h[0], a, sizeof h[0]);
    memcpy(&h[1], b, sizeof h[1]);
    return __builtin_shufflevector(h[0], h[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                   15);
}

/* The 32 bytes at four places: the first 16 of each, and the others. */
INLINE void load_lines(ivec line[2], const uint8_t *a, const uint8_t *b, const uint8_t *c,
                       const uint8_t *d)
{
    const ivec ab = load_two(a, b), cd = load_two(c, d);

    line[0] =
        __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    line[1] =
        __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

/* Lane 4 r + q is the sum of quarter r of vector q. */
INLINE ivec add_quarters(const ivec v[4])
{
    ivec pairs[2];

    UNROLL
    for (int i = 0; i < 2; i++)
        pairs[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8,
                                           24, 9, 25, 12, 28, 13, 29)
                   + __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10,
                                             26, 11, 27, 14, 30, 15, 31);
    return __builtin_shufflevector(pairs[0], pairs[1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12,
                                   13, 28, 29)
           + __builtin_shufflevector(pairs[0], pairs[1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27,
                                     14, 15, 30, 31);
}

/* ------------------------------------------------------------------------------ products -- */

/* Unsigned bytes of a half of a group. */
INLINE ivec bytes_of_half(const enum fixed_form form, const ivec line[2], int half, vec values)
{
    if (form == FORM_BYTES_OF_32)
        return (ivec)((uvec)line[half] ^ 0x80808080u);
    const ivec nibbles = (ivec)((uvec)line[half] >> 4 * half & 0x0f0f0f0fu);
    return form == FORM_VALUES_OF_16 ? look_up(values, nibbles) : nibbles;
}

INLINE ivec repeat_quarter(const int8_t *digits)
{
    quarter_vec q;

    memcpy(&q, digits, sizeof q);
    return repeat(q);
}

INLINE void sum_group(const enum fixed_form form, const int digits, const struct fixed_unit *unit,
                      ivec lines[4][2], vec values, ivec *sums)
{
    ivec parts[FIXED_DIGITS][4] = { { { 0 } } };

    UNROLL
    for (int half = 0; half < 2; half++) {
        ivec digit[FIXED_DIGITS];
        UNROLL
        for (int d = 0; d < digits; d++)
            digit[d] = repeat_quarter(unit->digits[d] + half * 16);
        UNROLL
        for (int q = 0; q < 4; q++) {
            const ivec bytes = bytes_of_half(form, lines[q], half, values);
            UNROLL
            for (int d = 0; d < digits; d++)
                parts[d][q] = dot_bytes(parts[d][q], bytes, digit[d]);
        }
    }
    UNROLL
    for (int d = 0; d < digits; d++)
        sums[d] = add_quarters(parts[d]) + unit->starts[d][0];
}

INLINE void add_row(const enum fixed_form form, const int digits, const struct fixed_chains *chains,
                    const struct fixed_lines *lines)
{
    const bool is_of_16 = form == FORM_NIBBLES_OF_16 || form == FORM_VALUES_OF_16;
    vec y = chains->y[0][0];

    KEEP_ROLLED
    for (int64_t g = 0; g < chains->groups; g++) {
        const int64_t at = g * lines->step;
        ivec line[4][2], sums[FIXED_DIGITS];
        prefetch_part(chains, g, (int)LANES * 32 / ATTN_FIXED_PART, 3);
        UNROLL
        for (int q = 0; q < 4; q++) {
            const uint8_t *const from[4] = { lines->from[q] + at, lines->from[4 + q] + at,
                                             lines->from[8 + q] + at, lines->from[12 + q] + at };
            if (is_of_16)
                line[q][0] = line[q][1] = (ivec)load_quarters(from[0], from[1], from[2], from[3]);
            else
                load_lines(line[q], from[0], from[1], from[2], from[3]);
        }
        sum_group(form, digits, &chains->rows[g], line, chains->values, sums);
        y = add_group(form == FORM_NIBBLES_OF_16, digits, chains, &chains->rows[g], g, 0, 0, sums,
                      y);
    }
    chains->y[0][0] = y;
}

#define ADD_ROW(form, digits)                                                                      \
    static void add_row_##form##_##digits(const struct fixed_chains *chains,                       \
                                          const struct fixed_lines *lines)                         \
    {                                                                                              \
        add_row(form, digits, chains, lines);                                                      \
    }
#define ADD_ROW_OF(form) [form] = { add_row_##form##_2, add_row_##form##_3 }
ADD_ROW(FORM_BYTES_OF_32, 2)
ADD_ROW(FORM_BYTES_OF_32, 3)
ADD_ROW(FORM_NIBBLES_OF_16, 2)
ADD_ROW(FORM_NIBBLES_OF_16, 3)
ADD_ROW(FORM_VALUES_OF_16, 2)
ADD_ROW(FORM_VALUES_OF_16, 3)

/* The indices: form, and digits less two. */
static void (*const add_row_of[FIXED_FORMS][2])(const struct fixed_chains *chains,
                                                const struct fixed_lines *lines) = {
    ADD_ROW_OF(FORM_BYTES_OF_32),
    ADD_ROW_OF(FORM_NIBBLES_OF_16),
    ADD_ROW_OF(FORM_VALUES_OF_16),
};

/* Two groups share eight words, whose high nibbles count 16. */
INLINE vec add_nibbles(const int digits, const struct fixed_chains *chains, const vec words[8],
                       int64_t g, vec y)
{
    const struct fixed_unit *unit = chains->rows + g;
    const struct blocks_panel *scales = &chains->panel->turned;
    ivec sums[2][FIXED_DIGITS];

    UNROLL
    for (int s = 0; s < 2 * digits; s++)
        sums[s / digits][s % digits] = unit[s / digits].starts[s % digits][0] + (ivec){ 0 };
    UNROLL
    for (int q = 0; q < 8; q++) {
        UNROLL
        for (int s = 0; s < 2 * digits; s++) {
            const ivec bytes = (ivec)((uvec)words[q] & (s < digits ? 0x0f0f0f0fu : 0xf0f0f0f0u));
            int32_t quad;
            memcpy(&quad, unit[s / digits].digits[s % digits] + q * 4, sizeof quad);
            sums[s / digits][s % digits] =
                dot_bytes(sums[s / digits][s % digits], bytes, quad + (ivec){ 0 });
        }
    }
    UNROLL
    for (int k = 0; k < 2; k++) {
        const vec by = k == 0 ? scales->by[g][0] : scales->by[g + 1][0] * (1.0f / 16);
        y = multiply_add(by, sum_of_digits(true, digits, &unit[k], sums[k]), y);
        y = multiply_add(-scales->less[g + k][0], broadcast(unit[k].sums[0]), y);
    }
    return y;
}

/* A block of Q4_K of each output: half of their integers are a square of words. */
INLINE void add_squares(const int digits, const struct fixed_chains *chains,
                        struct blocks_panel *panel, const struct blocks_rows *rows)
{
    const uint8_t *row[LANES];
    vec y = chains->y[0][0];

    find_rows(row, rows);
    turn_scales_q4_k(panel, 0, row);
    KEEP_ROLLED
    for (int half = 0; half < 2; half++) {
        vec square[LANES];
        UNROLL
        for (int j = 0; j < LANES; j++)
            memcpy(&square[j], row[j] + 16 + half * 64, sizeof square[j]);
        transpose_square(square);
        UNROLL
        for (int pair = 0; pair < 2; pair++) {
            const int g = half * 4 + pair * 2;
            for (int k = 0; k < 2; k++)
                prefetch_part(chains, g + k, 2, 3);
            y = add_nibbles(digits, chains, square + pair * 8, g, y);
        }
    }
    chains->y[0][0] = y;
}

static void add_squares_2(const struct fixed_chains *chains, struct blocks_panel *panel,
                          const struct blocks_rows *rows)
{
    add_squares(2, chains, panel, rows);
}

static void add_squares_3(const struct fixed_chains *chains, struct blocks_panel *panel,
                          const struct blocks_rows *rows)
{
    add_squares(3, chains, panel, rows);
}

static void (*const find_lines_of[])(struct fixed_lines *lines, struct blocks_panel *panel,
                                     const struct blocks_rows *rows) = {
#define X(NAME, name, numbers, bytes) find_lines_##name,
    ATTN_BLOCKS_MAP(X)
#undef X
};

#endif
