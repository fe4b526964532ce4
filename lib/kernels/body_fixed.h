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

enum {
    FIXED_DIGITS = ATTN_FIXED_DIGITS_MAX,
    FIXED_GROUPS = ATTN_FIXED_PART / 16, /* of a part, at most */
    FIXED_ROWS = 8                       /* that share a chain */
};

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

INLINE float greatest_lane(vec v)
{
    v = greater(v, HALVES(v));
    v = greater(v, QUARTERS(v));
    v = greater(v, PAIRS(v));
    return greater(v, NUMBERS(v))[0];
}

INLINE int32_t sum_of_lanes(ivec v)
{
    v += HALVES(v);
    v += QUARTERS(v);
    v += PAIRS(v);
    return (v + NUMBERS(v))[0];
}

/* 32 inputs in their unit, each half of them by its digits, the least first. */
struct fixed_inputs {
    float unit;
    ivec whole[2], digit[FIXED_DIGITS][2];
};

INLINE float float_of_field(uint32_t exponent)
{
    const uint32_t bits = exponent << 23;
    float number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The greatest digit is at most 127, for which a whole number of 8 bits less one is too small by a
 * hair. Inputs below 2^-100 beside a row of 2^-64 or more are 0. */
INLINE void cut_inputs(struct fixed_inputs *to, const float *x, const int digits)
{
    const vec low = load(x), high = load(x + LANES);
    const float most = greatest_lane(greater(absolute(low), absolute(high)));
    const float above = most * (1.0f + 0x1p-7f);
    uint32_t bits;

    memcpy(&bits, &above, sizeof bits);
    const uint32_t unit = (bits >> 23) + 2 - 8 * (uint32_t)digits;
    const bool is_zero = most < 0x1p-100f;
    const float inverse = is_zero ? 0.0f : float_of_field(254 - unit);
    to->unit = is_zero ? 0.0f : float_of_field(unit);
    UNROLL
    for (int half = 0; half < 2; half++) {
        ivec rest = nearest_integers((half == 0 ? low : high) * inverse);
        to->whole[half] = rest;
        UNROLL
        for (int d = 0; d + 1 < digits; d++) {
            to->digit[d][half] = rest << 24 >> 24;
            rest = (rest - to->digit[d][half]) >> 8;
        }
        to->digit[digits - 1][half] = rest;
    }
}

/* The sum of X of the groups of size inputs. */
INLINE void group_sums(float *sums, int64_t step, const struct fixed_inputs *inputs, const int size)
{
    if (size == 32) {
        *sums = (float)sum_of_lanes(inputs->whole[0] + inputs->whole[1]) * inputs->unit;
        return;
    }
    sums[0] = (float)sum_of_lanes(inputs->whole[0]) * inputs->unit;
    sums[step] = (float)sum_of_lanes(inputs->whole[1]) * inputs->unit;
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

static const struct fixed_kind fixed_kinds[] = {
#define X(NAME, name, numbers, bytes)                                                              \
    { ATTN_BLOCKS_##NAME,                                                                          \
      FORM_OF(ATTN_BLOCKS_##NAME, LAYOUT_##NAME),                                                  \
      numbers,                                                                                     \
      bytes,                                                                                       \
      ZERO_OF(ATTN_BLOCKS_##NAME, FORM_OF(ATTN_BLOCKS_##NAME, LAYOUT_##NAME)),                     \
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

/* ------------------------------------------------------------------ products of vectors -- */

/* Rows in fixed point, span inputs of each: digits are [digit][span], the least first; starts
 * [digit][group]. */
struct fixed_row {
    const int8_t *digits;
    const float *units, *sums;
    const int32_t *starts;
};

struct fixed_chains {
    const struct blocks_panel *panel;
    vec values; /* bytes, of FORM_VALUES_OF_16 */
    bool has_less;
    int64_t span, groups; /* of a row; the groups of a span */
    int64_t group, count; /* the first of this part, and those that are there */
    int64_t n;            /* outputs */
    struct fixed_row row[FIXED_ROWS];
    float *y[FIXED_ROWS];
    const uint8_t *ahead; /* a part further on, of the first output */
    int64_t ahead_stride, ahead_bytes;
};

/* The next parts would come too late. */
enum { FIXED_AHEAD = 4 * ATTN_FIXED_PART };

/* A part of LANES rows comes into the cache while this one is multiplied: of groups groups each
 * brings its share. */
INLINE void prefetch_part(const struct fixed_chains *chains, int group, const int groups)
{
    const int rows = (int)LANES / groups;
    const int64_t lines = (chains->ahead_bytes + 126) / 64;
    uintptr_t from = (uintptr_t)chains->ahead + (uintptr_t)(group * rows * chains->ahead_stride);

    UNROLL
    for (int j = 0; j < rows; j++, from += (uintptr_t)chains->ahead_stride) {
        __builtin_prefetch((const void *)from, 0, 3);
        __builtin_prefetch((const void *)(from + 64), 0, 3);
        for (int64_t line = 2; line < lines; line++)
            __builtin_prefetch((const void *)(from + (uintptr_t)line * 64), 0, 3);
    }
}

/* Unsigned bytes of quad q of group g. */
INLINE ivec bytes_at(const enum fixed_form form, const struct fixed_chains *chains, int g, int q)
{
    const struct fixed_place place = place_of(form, g, q);
    const uvec words = (uvec)chains->panel->words[place.word][0];

    if (form == FORM_BYTES_OF_16 || form == FORM_BYTES_OF_32)
        return (ivec)(words ^ 0x80808080u);
    const ivec nibbles = (ivec)(words >> place.bit & 0x0f0f0f0fu);
    return form == FORM_VALUES_OF_16 ? look_up(chains->values, nibbles) : nibbles;
}

/* y = fma(by, sum, y), and so on, for one group of one row. */
INLINE vec add_group(const struct fixed_chains *chains, const struct fixed_row *row, int g,
                     const int size, const int digits, const ivec *sums, vec y)
{
    const int64_t group = chains->group + g;
    vec sum = float_of(sums[0]);

    for (int d = 1; d < digits; d++)
        sum = multiply_add(float_of(sums[d]), broadcast(d == 1 ? 256.0f : 65536.0f), sum);
    sum *= row->units[group * size / ATTN_FIXED_UNIT];
    y = multiply_add(chains->panel->by[g][0], sum, y);
    return chains->has_less
               ? multiply_add(-chains->panel->less[g][0], broadcast(row->sums[group]), y)
               : y;
}

/* As many groups at once as hide how long each step of a chain takes. */
INLINE void add_fixed(const enum fixed_form form, const int rows, const int digits,
                      const struct fixed_chains *chains)
{
    enum { SUMS_MAX = 24 };
    const int quads = quads_of(form), size = quads * 4, groups = ATTN_FIXED_PART / size;
    const int at_once = rows == 1 ? 4 : rows == 2 ? 2 : 1;
    vec y[FIXED_ROWS];

    UNROLL
    for (int r = 0; r < rows; r++)
        y[r] = chains->n >= LANES ? load(chains->y[r]) : load_part(chains->y[r], chains->n);
    KEEP_ROLLED
    for (int g = 0; g < groups; g += at_once) {
        ivec sums[SUMS_MAX];
        for (int k = 0; chains->ahead != NULL && k < at_once; k++)
            prefetch_part(chains, g + k, groups);
        UNROLL
        for (int s = 0; s < at_once * rows * digits; s++)
            sums[s] =
                chains->row[s / digits % rows]
                    .starts[s % digits * chains->groups + chains->group + g + s / digits / rows]
                + (ivec){ 0 };
        UNROLL
        for (int q = 0; q < quads; q++) {
            UNROLL
            for (int k = 0; k < at_once; k++) {
                const ivec bytes = bytes_at(form, chains, g + k, q);
                UNROLL
                for (int s = 0; s < rows * digits; s++) {
                    int32_t quad;
                    memcpy(&quad,
                           chains->row[s / digits].digits + s % digits * chains->span
                               + (chains->group + g + k) * size + q * 4,
                           sizeof quad);
                    sums[k * rows * digits + s] =
                        dot_bytes(sums[k * rows * digits + s], bytes, quad + (ivec){ 0 });
                }
            }
        }
        UNROLL
        for (int k = 0; k < at_once; k++) {
            if (g + k >= chains->count)
                break;
            UNROLL
            for (int r = 0; r < rows; r++)
                y[r] = add_group(chains, &chains->row[r], g + k, size, digits,
                                 sums + (k * rows + r) * digits, y[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        if (chains->n >= LANES)
            store(chains->y[r], y[r]);
        else
            store_part(chains->y[r], y[r], chains->n);
    }
}

#define ADD_FIXED(form, rows, digits)                                                              \
    static void add_##form##_##rows##_##digits(const struct fixed_chains *chains)                  \
    {                                                                                              \
        add_fixed(form, rows, digits, chains);                                                     \
    }
#define ADD_ALL_FIXED(form)                                                                        \
    ADD_FIXED(form, 1, 2)                                                                          \
    ADD_FIXED(form, 2, 2)                                                                          \
    ADD_FIXED(form, 4, 2)                                                                          \
    ADD_FIXED(form, 8, 2)                                                                          \
    ADD_FIXED(form, 1, 3)                                                                          \
    ADD_FIXED(form, 2, 3)                                                                          \
    ADD_FIXED(form, 4, 3)                                                                          \
    ADD_FIXED(form, 8, 3)
ADD_ALL_FIXED(FORM_BYTES_OF_16)
ADD_ALL_FIXED(FORM_BYTES_OF_32)
ADD_ALL_FIXED(FORM_NIBBLES_OF_16)
ADD_ALL_FIXED(FORM_NIBBLES_OF_32)
ADD_ALL_FIXED(FORM_VALUES_OF_16)

#define ADD_FIXED_OF(form)                                                                         \
    [form] = { { add_##form##_1_2, add_##form##_2_2, add_##form##_4_2, add_##form##_8_2 },         \
               { add_##form##_1_3, add_##form##_2_3, add_##form##_4_3, add_##form##_8_3 } }

/* The indices: form, digits less two, and the logarithm of the rows. */
static void (*const add_fixed_of[FIXED_FORMS][2][4])(const struct fixed_chains *chains) = {
    ADD_FIXED_OF(FORM_BYTES_OF_16),   ADD_FIXED_OF(FORM_BYTES_OF_32),
    ADD_FIXED_OF(FORM_NIBBLES_OF_16), ADD_FIXED_OF(FORM_NIBBLES_OF_32),
    ADD_FIXED_OF(FORM_VALUES_OF_16),
};

#include "body_fixed_row.h"

/* ------------------------------------------------------------------- rows for vectors -- */

/* The room of one row: digits, units, sums and starts of its groups, for as many inputs as let all
 * rows have room. */
enum { FIXED_BYTES_OF_16 = 16 * FIXED_DIGITS + 4 + 4 + 4 * FIXED_DIGITS };

static int64_t span_of(const struct attn_fixed_project *project)
{
    const int64_t bytes = (int64_t)(ATTN_PROJECT_WORK * sizeof(float)) / project->row_count;
    const int64_t most = bytes / FIXED_BYTES_OF_16 * 16 / ATTN_FIXED_PART * ATTN_FIXED_PART;
    const int64_t in = (project->in + ATTN_FIXED_PART - 1) / ATTN_FIXED_PART * ATTN_FIXED_PART;

    return least_of(most, in);
}

/* The bytes of a digit, and what the sums of its groups begin with: no zero of the weights. */
INLINE void store_digit(int8_t *to, int32_t *starts, const ivec digit[2], int zero, int size)
{
    typedef int8_t bytes __attribute__((vector_size(LANES)));
    const bytes low = __builtin_convertvector(digit[0], bytes);
    const bytes high = __builtin_convertvector(digit[1], bytes);

    memcpy(to, &low, sizeof low);
    memcpy(to + LANES, &high, sizeof high);
    if (zero == 0)
        return;
    starts[0] = -zero * sum_of_lanes(size == 32 ? digit[0] + digit[1] : digit[0]);
    if (size == 16)
        starts[1] = -zero * sum_of_lanes(digit[1]);
}

/* Inputs [first, first + span) of row r, as far as there are any. */
INLINE struct fixed_row cut_row(const struct fixed_kind *kind,
                                const struct attn_fixed_project *project, int64_t r, int64_t first,
                                int64_t span, const int digits)
{
    const int size = quads_of(kind->form) * 4;
    const bool has_less = attn_fixed_has_less(project->blocks);
    const int64_t count = least_of(project->in - first, span), groups = span / size;
    int8_t *to = (int8_t *)project->work + r * (span / 16 * FIXED_BYTES_OF_16);
    float *units = (float *)(void *)(to + digits * span), *sums = units + span / 32;
    int32_t *starts = (int32_t *)(void *)(sums + groups);

    if (kind->zero == 0)
        memset(starts, 0, (size_t)(digits * groups) * sizeof *starts);
    for (int64_t i = 0; i < count; i += ATTN_FIXED_UNIT) {
        struct fixed_inputs inputs;
        cut_inputs(&inputs, project->x[r] + first + i, digits);
        units[i / ATTN_FIXED_UNIT] = inputs.unit;
        if (has_less)
            group_sums(sums + i / size, 1, &inputs, size);
        UNROLL
        for (int d = 0; d < digits; d++)
            store_digit(to + d * span + i, starts + d * groups + i / size, inputs.digit[d],
                        kind->zero, size);
    }
    return (struct fixed_row){ to, units, sums, starts };
}

/* ----------------------------------------------------------------- products of all rows -- */

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

/* Rows first to first + rows, a power of two; where there are fewer, the last one is repeated. */
static void add_rows_of(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                        struct fixed_chains *chains, const struct fixed_row *rows, int64_t first,
                        int64_t output)
{
    const int64_t count = least_of(project->row_count - first, FIXED_ROWS);
    const int log_rows = count > 4 ? 3 : count > 2 ? 2 : count > 1 ? 1 : 0;
    float unused[LANES];

    for (int r = 0; r < 1 << log_rows; r++) {
        chains->row[r] = rows[first + least_of(r, count - 1)];
        chains->y[r] = r < count ? project->y[first + r] + output : unused;
    }
    memset(unused, 0, sizeof unused);
    add_fixed_of[kind->form][project->digits - 2][log_rows](chains);
}

/* The inputs of a span, from input first on. */
static void add_span(const struct fixed_kind *kind, const struct attn_fixed_project *project,
                     const struct fixed_row *rows, struct fixed_chains *chains,
                     struct blocks_panel *panel, int64_t first)
{
    const int64_t end = least_of(project->in, first + chains->span);
    const int size = quads_of(kind->form) * 4;
    const int64_t stride = project->weight_stride / kind->numbers * kind->bytes;
    void (*const add_one)(const struct fixed_chains *chains, const struct fixed_lines *lines) =
        project->row_count == 1 ? add_row_of[kind->form][project->digits - 2] : NULL;
    struct fixed_lines lines;
    struct fixed_last last;

    chains->ahead_stride = stride;
    chains->ahead_bytes = ATTN_FIXED_PART / kind->numbers * kind->bytes;
    for (int64_t o = 0; o < project->out; o += LANES)
        for (int64_t i = first; i < end; i += ATTN_FIXED_PART) {
            const int64_t next = i + FIXED_AHEAD;
            const bool is_last = next >= end;
            const struct blocks_rows weights = rows_of_part(kind, project, o, i, &last);
            chains->group = (i - first) / size;
            chains->count = least_of(end - i, ATTN_FIXED_PART) / size;
            chains->n = project->out - o;
            chains->ahead = (const uint8_t *)project->weight + (is_last ? o + LANES : o) * stride
                            + (is_last ? first + next - end : next) / kind->numbers * kind->bytes;
            if (add_one != NULL) {
                find_lines_of[kind->blocks](&lines, panel, &weights);
                chains->row[0] = rows[0];
                chains->y[0] = project->y[0] + o;
                add_one(chains, &lines);
                continue;
            }
            kind->turn(panel, 0, &weights);
            for (int64_t r = 0; r < project->row_count; r += FIXED_ROWS, chains->ahead = NULL)
                add_rows_of(kind, project, chains, rows, r, o);
        }
}

static void project_fixed(const struct attn_fixed_project *project)
{
    const struct fixed_kind *kind = &fixed_kinds[project->blocks];
    const int64_t span = span_of(project);
    struct fixed_row rows[ATTN_PROJECT_ROWS_MAX];
    struct blocks_panel panel;
    struct fixed_chains chains = {
        .panel = &panel,
        .values = values_of_bytes(project->blocks),
        .has_less = attn_fixed_has_less(project->blocks),
        .span = span,
        .groups = span / (quads_of(kind->form) * 4),
    };

    panel.has_infinite = false;
    for (int64_t r = 0; r < project->row_count; r++)
        if (project->bias != NULL)
            memcpy(project->y[r], project->bias, (size_t)project->out * sizeof(float));
        else
            memset(project->y[r], 0, (size_t)project->out * sizeof(float));
    for (int64_t first = 0; first < project->in; first += span) {
        for (int64_t r = 0; r < project->row_count; r++)
            rows[r] = project->digits == 2 ? cut_row(kind, project, r, first, span, 2)
                                           : cut_row(kind, project, r, first, span, 3);
        add_span(kind, project, rows, &chains, &panel, first);
    }
}

/* ------------------------------------------------------------------------- for tiles -- */

/* A digit of 16 rows times its place and unit, as bf16 numbers. */
INLINE void store_digits(uint16_t *to, const ivec digit[2], float place)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const uvec bits = (uvec)(float_of(digit[half]) * place);
        const hvec numbers = __builtin_convertvector(bits >> 16, hvec);
        memcpy(to + half * LANES, &numbers, sizeof numbers);
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
            float place = inputs.unit;
            UNROLL
            for (int d = 0; d < digits; d++, place *= 256.0f)
                store_digits(to + d * ATTN_FIXED_TILE, inputs.digit[d], place);
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
