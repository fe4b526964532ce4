/* SPDX-License-Identifier: Apache-2.0 */
/* body_fixed_rows.h - products of rows in fixed point with weights in blocks, on an instruction
 * that adds products of bytes. A part of body_fixed.h.
 *
 * Lanes are outputs. The blocks of 32 outputs and ATTN_FIXED_PART inputs become a panel of bytes,
 * four inputs of an output in each lane. Rows meet it by fours: registers hold the sums of each
 * row, digit and vector of outputs, so that both vectors of weights and each broadcast digit are
 * loaded once for several products. */
#ifndef ATTN_BODY_FIXED_ROWS_H
#define ATTN_BODY_FIXED_ROWS_H

#include "body_panel.h"
#include "fixed.h"
#include "vector.h"

#include <string.h>

enum {
    FIXED_ROWS = 4,    /* that meet a panel at once */
    FIXED_VECTORS = 2, /* of a panel */
    FIXED_OUTPUTS = FIXED_VECTORS * LANES,
    FIXED_QUADS = ATTN_FIXED_PART / 4
};

/* Sums of integers have magnitudes below 2^22 and begin with the bits of this float, whose last
 * place is 1. So they are floats at any time: this one plus the sum. */
#define SUMS_ZERO      12582912.0f
#define SUMS_ZERO_BITS 0x4b400000

/* 32 inputs of one row. */
struct fixed_unit {
    int8_t digits[FIXED_DIGITS][ATTN_FIXED_UNIT];
    int32_t starts[FIXED_DIGITS][2]; /* of groups: SUMS_ZERO_BITS, less what zero adds */
    float sums[2];                   /* of X, of groups */
    float places[FIXED_DIGITS + 1];  /* the unit times 256^d, and what takes SUMS_ZERO off again */
};

struct fixed_panel {
    ivec bytes[FIXED_QUADS][FIXED_VECTORS];
    struct blocks_panel turned;
};

struct fixed_chains {
    const struct fixed_panel *panel;
    const struct fixed_unit *rows; /* [unit][rows] */
    int64_t groups;                /* that are there */
    bool has_less;
    vec values;           /* bytes, of FORM_VALUES_OF_16 */
    const uint8_t *ahead; /* a part further on, of the first output, or NULL */
    int64_t ahead_stride, ahead_lines;
    vec (*y)[FIXED_VECTORS]; /* [rows] */
};

/* A part of some rows of blocks comes into the cache while this one is multiplied: each group
 * brings so many rows. The line that a part begins in came with the part before. */
INLINE void prefetch_part(const struct fixed_chains *chains, int64_t group, const int rows,
                          const int lines_min)
{
    uintptr_t from =
        (uintptr_t)chains->ahead + (uintptr_t)(group * rows * chains->ahead_stride) + 63;

    UNROLL
    for (int j = 0; j < rows; j++, from += (uintptr_t)chains->ahead_stride) {
        UNROLL
        for (int line = 0; line < lines_min; line++)
            __builtin_prefetch((const void *)(from + (uintptr_t)line * 64), 0, 2);
        for (int64_t line = lines_min; line < chains->ahead_lines; line++)
            __builtin_prefetch((const void *)(from + (uintptr_t)line * 64), 0, 2);
    }
}

/* The sums of a group times its unit. If integers are small (fixed_kind), only the last addition
 * rounds, and SUMS_ZERO of all digits goes with the first. */
INLINE vec sum_of_digits(const bool is_small, const int digits, const struct fixed_unit *unit,
                         const ivec *sums)
{
    vec sum = broadcast(unit->places[FIXED_DIGITS]);

    UNROLL
    for (int d = 0; d < digits; d++) {
        const int from = is_small ? digits - 1 - d : d;
        const vec digit = (vec)sums[from];
        sum = multiply_add(is_small || d == 0 ? digit : digit - SUMS_ZERO,
                           broadcast(unit->places[from]), sum);
    }
    return sum;
}

/* Of vector v of the outputs. */
INLINE vec add_group(const bool is_small, const int digits, const struct fixed_chains *chains,
                     const struct fixed_unit *unit, int64_t g, int half, int v, const ivec *sums,
                     vec y)
{
    const struct blocks_panel *scales = &chains->panel->turned;

    y = multiply_add(scales->by[g][v], sum_of_digits(is_small, digits, unit, sums), y);
    return chains->has_less ? multiply_add(-scales->less[g][v], broadcast(unit->sums[half]), y) : y;
}

/* The groups of a part and some rows, from chains->rows on. */
INLINE void add_fixed(const int size, const bool is_small, const int rows, const int digits,
                      const struct fixed_chains *chains)
{
    const int quads = size / 4, per_unit = ATTN_FIXED_UNIT / size;
    const ivec(*bytes)[FIXED_VECTORS] = chains->panel->bytes;

    KEEP_ROLLED
    for (int64_t g = 0; g < chains->groups; g++, bytes += quads) {
        const struct fixed_unit *unit = chains->rows + g / per_unit * rows;
        const int half = per_unit == 1 ? 0 : (int)(g % 2);
        ivec sums[FIXED_ROWS][FIXED_VECTORS][FIXED_DIGITS];
        if (chains->ahead != NULL)
            prefetch_part(chains, g, (int)FIXED_OUTPUTS * size / ATTN_FIXED_PART, 2);
        UNROLL
        for (int s = 0; s < rows * FIXED_VECTORS * digits; s++)
            sums[s / digits / FIXED_VECTORS][s / digits % FIXED_VECTORS][s % digits] =
                unit[s / digits / FIXED_VECTORS].starts[s % digits][half] + (ivec){ 0 };
        UNROLL
        for (int q = 0; q < quads; q++) {
            UNROLL
            for (int r = 0; r < rows; r++) {
                UNROLL
                for (int d = 0; d < digits; d++) {
                    int32_t quad;
                    memcpy(&quad, unit[r].digits[d] + half * 16 + q * 4, sizeof quad);
                    UNROLL
                    for (int v = 0; v < FIXED_VECTORS; v++)
                        sums[r][v][d] = dot_bytes(sums[r][v][d], bytes[q][v], quad + (ivec){ 0 });
                }
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < FIXED_VECTORS; v++)
                chains->y[r][v] = add_group(is_small, digits, chains, &unit[r], g, half, v,
                                            sums[r][v], chains->y[r][v]);
        }
    }
}

#define ADD_FIXED(size, is_small, rows, digits)                                                    \
    static void add_##size##_##is_small##_##rows##_##digits(const struct fixed_chains *chains)     \
    {                                                                                              \
        add_fixed(size, is_small, rows, digits, chains);                                           \
    }
#define ADD_FIXED_OF(size, is_small, rows)                                                         \
    {                                                                                              \
        add_##size##_##is_small##_##rows##_2, add_##size##_##is_small##_##rows##_3                 \
    }
#define ADD_ALL(X) X(16, 0) X(16, 1) X(32, 0) X(32, 1)
#define X(size, is_small)                                                                          \
    ADD_FIXED(size, is_small, 1, 2)                                                                \
    ADD_FIXED(size, is_small, 2, 2)                                                                \
    ADD_FIXED(size, is_small, 4, 2)                                                                \
    ADD_FIXED(size, is_small, 1, 3)                                                                \
    ADD_FIXED(size, is_small, 2, 3)                                                                \
    ADD_FIXED(size, is_small, 4, 3)
ADD_ALL(X)
#undef X

/* The indices: whether groups have 32 inputs, whether integers are small, the logarithm of the
 * rows, and digits less two. */
static void (*const add_fixed_of[2][2][3][2])(const struct fixed_chains *chains) = {
#define X(size, is_small)                                                                          \
    [(size) == 32][is_small] = { ADD_FIXED_OF(size, is_small, 1), ADD_FIXED_OF(size, is_small, 2), \
                                 ADD_FIXED_OF(size, is_small, 4) },
    ADD_ALL(X)
#undef X
};

#include "body_fixed_row.h"

/* One row and groups of 16 inputs, from words of bytes. */
INLINE void add_words(const bool is_small, const int digits, const struct fixed_chains *chains)
{
    enum { SIZE = 16, QUADS = SIZE / 4 };
    const vec(*words)[PANEL_VECTORS] = chains->panel->turned.words;
    vec y = chains->y[0][0];

    KEEP_ROLLED
    for (int64_t g = 0; g < chains->groups; g++, words += QUADS) {
        const struct fixed_unit *unit = chains->rows + g / 2;
        ivec sums[FIXED_DIGITS];
        prefetch_part(chains, g, (int)LANES * SIZE / ATTN_FIXED_PART, 2);
        UNROLL
        for (int d = 0; d < digits; d++)
            sums[d] = unit->starts[d][g % 2] + (ivec){ 0 };
        UNROLL
        for (int q = 0; q < QUADS; q++) {
            const ivec bytes = (ivec)((uvec)words[q][0] ^ 0x80808080u);
            UNROLL
            for (int d = 0; d < digits; d++) {
                int32_t quad;
                memcpy(&quad, unit->digits[d] + g % 2 * SIZE + q * 4, sizeof quad);
                sums[d] = dot_bytes(sums[d], bytes, quad + (ivec){ 0 });
            }
        }
        y = add_group(is_small, digits, chains, unit, g, (int)(g % 2), 0, sums, y);
    }
    chains->y[0][0] = y;
}

#define ADD_WORDS(is_small, digits)                                                                \
    static void add_words_##is_small##_##digits(const struct fixed_chains *chains)                 \
    {                                                                                              \
        add_words(is_small, digits, chains);                                                       \
    }
ADD_WORDS(0, 2)
ADD_WORDS(0, 3)
ADD_WORDS(1, 2)
ADD_WORDS(1, 3)

/* The indices: whether integers are small, and digits less two. */
static void (*const add_words_of[2][2])(const struct fixed_chains *chains) = {
    { add_words_0_2, add_words_0_3 },
    { add_words_1_2, add_words_1_3 },
};

/* ------------------------------------------------------------------------------- panels -- */

static vec values_of_bytes(enum attn_blocks blocks)
{
    const int8_t *values = blocks == ATTN_BLOCKS_MXFP4 ? VALUES_FP4 : VALUES_NL;
    uint8_t bytes[VEC_BYTES];
    vec table;

    for (int i = 0; i < VEC_BYTES; i++)
        bytes[i] = (uint8_t)(values[i % 16] + 128);
    memcpy(&table, bytes, sizeof table);
    return table;
}

/* Quads [0, FIXED_QUADS) of vector v as unsigned bytes. */
INLINE void unpack_vector(const enum fixed_form form, struct fixed_panel *panel, int v, vec values)
{
    const bool has_bytes = form == FORM_BYTES_OF_16 || form == FORM_BYTES_OF_32;
    const int run =
        form == FORM_NIBBLES_OF_32 ? 8 : 4; /* words of low nibbles, then of high ones */

    for (int w = 0; w < (has_bytes ? FIXED_QUADS : FIXED_QUADS / 2); w++) {
        const uvec words = (uvec)panel->turned.words[w][v];
        if (has_bytes) {
            panel->bytes[w][v] = (ivec)(words ^ 0x80808080u);
            continue;
        }
        UNROLL
        for (int k = 0; k < 2; k++) {
            const ivec nibbles = (ivec)(words >> 4 * k & 0x0f0f0f0fu);
            panel->bytes[w / run * 2 * run + k * run + w % run][v] =
                form == FORM_VALUES_OF_16 ? look_up(values, nibbles) : nibbles;
        }
    }
}

#define UNPACK_VECTOR(form)                                                                        \
    static void unpack_vector_##form(struct fixed_panel *panel, int v, vec values)                 \
    {                                                                                              \
        unpack_vector(form, panel, v, values);                                                     \
    }
UNPACK_VECTOR(FORM_BYTES_OF_32)
UNPACK_VECTOR(FORM_NIBBLES_OF_16)
UNPACK_VECTOR(FORM_NIBBLES_OF_32)
UNPACK_VECTOR(FORM_VALUES_OF_16)

static void (*const unpack_vector_of[FIXED_FORMS])(struct fixed_panel *panel, int v, vec values) = {
    [FORM_BYTES_OF_16] = unpack_vector_FORM_BYTES_OF_32,
    [FORM_BYTES_OF_32] = unpack_vector_FORM_BYTES_OF_32,
    [FORM_NIBBLES_OF_16] = unpack_vector_FORM_NIBBLES_OF_16,
    [FORM_NIBBLES_OF_32] = unpack_vector_FORM_NIBBLES_OF_32,
    [FORM_VALUES_OF_16] = unpack_vector_FORM_VALUES_OF_16,
};

/* ---------------------------------------------------------------------------------- rows -- */

/* The inputs of all rows that have room at once. */
static int64_t span_of(const struct attn_fixed_project *project)
{
    const int64_t rows = (project->row_count + FIXED_ROWS - 1) / FIXED_ROWS * FIXED_ROWS;
    const int64_t units = (int64_t)(ATTN_PROJECT_WORK * sizeof(float) / sizeof(struct fixed_unit));

    return units / rows * ATTN_FIXED_UNIT / ATTN_FIXED_PART * ATTN_FIXED_PART;
}

/* The digits of X are the bytes of X + 128 + 128 * 256 and so on, each less 128. */
INLINE void store_digits_of(struct fixed_unit *to, const struct fixed_inputs *inputs, ivec digit[2],
                            const int digits)
{
    static const uint8_t PLANES[VEC_BYTES] = {
#define X 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15
        X, X, X, X
#undef X
    };
    const uvec middles = (uvec){ 0 } + (digits > 2 ? 0x00808080u : 0x00008080u);
    ivec planes, turned[2];

    memcpy(&planes, PLANES, sizeof planes);
    UNROLL
    for (int half = 0; half < 2; half++)
        turned[half] = look_up((vec)(((uvec)inputs->whole[half] + middles) ^ middles), planes);
    digit[0] = __builtin_shufflevector(turned[0], turned[1], 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9,
                                       13, 17, 21, 25, 29);
    digit[1] = __builtin_shufflevector(turned[0], turned[1], 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11,
                                       15, 19, 23, 27, 31);
    memcpy(to->digits, &digit[0], 2 * sizeof to->digits[0]);
    if (digits > 2)
        memcpy(to->digits[2], &digit[1], sizeof to->digits[2]);
}

/* What the sums of groups begin with. A digit has eight lanes of each vector, of a quad each. */
INLINE void store_starts(struct fixed_unit *to, const struct fixed_kind *kind, const ivec digit[2])
{
    const uint32_t four = 0x01010101u * (uint32_t)kind->zero;
    const ivec zero = (ivec)(four + (uvec){ 0 });
    const ivec a = dot_bytes((ivec){ 0 }, zero, digit[0]),
               b = dot_bytes((ivec){ 0 }, zero, digit[1]);
    ivec sums =
        __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
        + __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);

    sums += NUMBERS(sums);
    if (quads_of(kind->form) == 8)
        sums += PAIRS(sums);
    sums =
        SUMS_ZERO_BITS
        - __builtin_shufflevector(sums, sums, 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
    memcpy(to->starts, &sums, sizeof to->starts);
}

INLINE void cut_unit(const struct fixed_kind *kind, struct fixed_unit *to, const float *x,
                     const bool has_less, const int digits)
{
    const float zeros = !kind->is_small ? 1 : digits > 2 ? 1 + 256 + 65536 : 1 + 256;
    const vec places = { 1, 256, 65536, -SUMS_ZERO * zeros };
    struct fixed_inputs inputs;
    ivec digit[2];

    cut_inputs(&inputs, x, digits);
    store_digits_of(to, &inputs, digit, digits);
    if (kind->zero != 0)
        store_starts(to, kind, digit);
    else
        for (int d = 0; d < digits; d++)
            to->starts[d][0] = to->starts[d][1] = SUMS_ZERO_BITS;
    if (has_less)
        group_sums(to->sums, 1, &inputs, quads_of(kind->form) * 4);
    const vec all = inputs.unit * places;
    memcpy(to->places, &all, sizeof to->places);
}

/* Rows first to first + rows, from input at on, to [unit][rows]. Rows that are missing are 0. */
static void cut_rows(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                     struct fixed_unit *to, int64_t first, int64_t rows, int64_t at, int64_t inputs)
{
    const bool has_less = attn_fixed_has_less(project->blocks);
    const int64_t count = least_of(project->row_count - first, rows);

    for (int64_t i = 0; i < inputs; i += ATTN_FIXED_UNIT, to += rows)
        for (int64_t r = 0; r < rows; r++)
            if (r >= count)
                memset(&to[r], 0, sizeof to[r]);
            else if (project->digits == 2)
                cut_unit(kind, &to[r], project->x[first + r] + at + i, has_less, 2);
            else
                cut_unit(kind, &to[r], project->x[first + r] + at + i, has_less, 3);
}

/* ----------------------------------------------------------------- products of all rows -- */

/* Of count that are left. */
static int64_t rows_at_once(int64_t count)
{
    return count > 2 ? FIXED_ROWS : count;
}

INLINE int64_t lanes_of(int64_t outputs, int v)
{
    return outputs < v * LANES ? 0 : least_of(outputs - v * LANES, LANES);
}

INLINE void load_outputs(vec *y, const float *from, int64_t outputs, const int vectors)
{
    UNROLL
    for (int v = 0; v < vectors; v++)
        y[v] = outputs >= (v + 1) * LANES ? load(from + v * LANES)
                                          : load_part(from + v * LANES, lanes_of(outputs, v));
}

INLINE void store_outputs(float *to, const vec *y, int64_t outputs, const int vectors)
{
    UNROLL
    for (int v = 0; v < vectors; v++)
        if (outputs >= (v + 1) * LANES)
            store(to + v * LANES, y[v]);
        else
            store_part(to + v * LANES, y[v], lanes_of(outputs, v));
}

/* Rows first to first + rows meet a panel of so many outputs, from output on. Where there are
 * three rows, the last one is there twice. */
static void add_rows(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                     struct fixed_chains *chains, int64_t first, int64_t output)
{
    const int64_t count = least_of(project->row_count - first, FIXED_ROWS);
    const int64_t n = project->out - output;
    const int log_rows = count > 2 ? 2 : count > 1 ? 1 : 0;
    vec y[FIXED_ROWS][FIXED_VECTORS];

    for (int64_t r = 0; r < 1 << log_rows; r++)
        load_outputs(y[r], project->y[first + least_of(r, count - 1)] + output, n, FIXED_VECTORS);
    chains->y = y;
    add_fixed_of[quads_of(kind->form) == 8][kind->is_small][log_rows][project->digits - 2](chains);
    for (int64_t r = 0; r < count; r++)
        store_outputs(project->y[first + r] + output, y[r], n, FIXED_VECTORS);
}

static void turn_part(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                      struct fixed_panel *panel, vec values, int64_t output, int64_t input)
{
    struct fixed_last last;

    for (int v = 0; v < FIXED_VECTORS; v++) {
        const int64_t o = output + v * LANES < project->out ? output + v * LANES : output;
        const struct blocks_rows weights = rows_of_part(kind, project, o, input, &last);
        kind->turn(&panel->turned, v, &weights);
        unpack_vector_of[kind->form](panel, v, values);
    }
}

/* The next parts would come too late. */
enum { FIXED_AHEAD = 2 * ATTN_FIXED_PART };

/* Inputs [input, input + ATTN_FIXED_PART), as far as they are before end, of outputs from output
 * on; units are those of a row. */
static void add_part(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                     struct fixed_chains *chains, struct fixed_panel *panel, int64_t units,
                     int64_t unit, int64_t output, int64_t input)
{
    const struct fixed_unit *cut = (const void *)project->work;

    turn_part(kind, project, panel, chains->values, output, input);
    for (int64_t r = 0; r < project->row_count; r += FIXED_ROWS, chains->ahead = NULL) {
        chains->rows = cut + r * units + unit * rows_at_once(project->row_count - r);
        add_rows(kind, project, chains, r, output);
    }
}

/* The same for one row, and LANES outputs. */
static void add_one_part(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                         struct fixed_chains *chains, struct fixed_panel *panel, int64_t output,
                         int64_t input)
{
    struct fixed_last last;
    const struct blocks_rows weights = rows_of_part(kind, project, output, input, &last);

    if (kind->form == FORM_NIBBLES_OF_32) {
        (project->digits == 2 ? add_squares_2 : add_squares_3)(chains, &panel->turned, &weights);
        return;
    }
    if (add_row_of[kind->form][0] != NULL) {
        struct fixed_lines lines;
        find_lines_of[project->blocks](&lines, &panel->turned, &weights);
        add_row_of[kind->form][project->digits - 2](chains, &lines);
        return;
    }
    kind->turn(&panel->turned, 0, &weights);
    add_words_of[kind->is_small][project->digits - 2](chains);
}

/* The inputs [first, end), whose rows are in the work memory. */
static void add_span(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                     struct fixed_panel *panel, int64_t first, int64_t end)
{
    const int64_t stride = project->weight_stride / kind->numbers * kind->bytes;
    const int64_t units = (end - first) / ATTN_FIXED_UNIT;
    const bool is_one = project->row_count == 1;
    const int64_t outputs = is_one ? LANES : FIXED_OUTPUTS;
    vec y[1][FIXED_VECTORS] = { { { 0 } } };
    struct fixed_chains chains = {
        .panel = panel,
        .has_less = attn_fixed_has_less(project->blocks),
        .values = values_of_bytes(project->blocks),
        .ahead_stride = stride,
        .ahead_lines = (ATTN_FIXED_PART / kind->numbers * kind->bytes + 63) / 64,
        .y = y,
    };

    for (int64_t o = 0; o < project->out; o += outputs) {
        if (is_one)
            load_outputs(y[0], project->y[0] + o, project->out - o, 1);
        for (int64_t i = first; i < end; i += ATTN_FIXED_PART) {
            const int64_t next = i + FIXED_AHEAD, unit = (i - first) / ATTN_FIXED_UNIT;
            const bool is_last = next >= end;
            chains.groups = least_of(end - i, ATTN_FIXED_PART) / (quads_of(kind->form) * 4);
            chains.ahead = (const uint8_t *)project->weight + (is_last ? o + outputs : o) * stride
                           + (is_last ? first + next - end : next) / kind->numbers * kind->bytes;
            chains.rows = (const struct fixed_unit *)(const void *)project->work + unit;
            if (is_one)
                add_one_part(kind, project, &chains, panel, o, i);
            else
                add_part(kind, project, &chains, panel, units, unit, o, i);
        }
        if (is_one)
            store_outputs(project->y[0] + o, y[0], project->out - o, 1);
    }
}

static void project_fixed(const struct attn_fixed_project *project)
{
    const struct fixed_kind *kind = &fixed_kinds[project->blocks];
    const int64_t span = span_of(project);
    struct fixed_unit *cut = (void *)project->work;
    struct fixed_panel panel;

    panel.turned.has_infinite = false;
    for (int64_t r = 0; r < project->row_count; r++)
        if (project->bias != NULL)
            memcpy(project->y[r], project->bias, (size_t)project->out * sizeof(float));
        else
            memset(project->y[r], 0, (size_t)project->out * sizeof(float));
    for (int64_t first = 0; first < project->in; first += span) {
        const int64_t end = least_of(project->in, first + span);
        const int64_t units = (end - first) / ATTN_FIXED_UNIT;
        for (int64_t r = 0; r < project->row_count; r += FIXED_ROWS)
            cut_rows(kind, project, cut + r * units, r, rows_at_once(project->row_count - r), first,
                     end - first);
        add_span(kind, project, &panel, first, end);
    }
}

#endif
