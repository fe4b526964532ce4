/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_fixed.c - products of weights in blocks with rows in fixed point: all units have the
 * bits of the formulas of fixed.h, written out here, whatever the rows and outputs beside are. What
 * tiles get of weights is what unpack() says. Memory ends at a guard page. */
#include "blocks.h"
#include "buffers.h"
#include "kernel_tables.h"
#include "problem_count.h"
#include "quantize.h"
#include "test.h"

#include "kernels/matrix.h"

enum { ROWS_MAX = ATTN_PROJECT_ROWS_MAX, GAP = 5, GROUPS_MAX = 16 };

struct product {
    int index;                     /* of the dtype of blocks */
    int64_t rows, out, in, stride; /* of a row of blocks, in numbers */
    int digits;
    float *x, *y, *want, *bias, *work;
    uint8_t *blocks;
};

static struct product make(int index, int64_t rows, int64_t out, int64_t blocks, int64_t gap,
                           int digits)
{
    struct fill fill = { (uint64_t)(rows * 100000 + out * 1000 + blocks * 10 + gap) };
    const int64_t numbers = attn_block_numbers(blocks_dtype(index));
    const int64_t in = blocks * numbers, stride = in + gap * numbers;
    const int64_t count = ((out - 1) * stride + in) / numbers;
    struct product made = { index, rows, out, in, stride, digits, .blocks = NULL };

    made.x = buffers_rows(&fill, rows, in, in + 2);
    for (int64_t i = 0; i < rows * in / 32; i++) /* of all sizes, and some zeros */
        for (int64_t j = 0; j < 32; j++)
            made.x[i * 32 / in * (in + 2) + i * 32 % in + j] *=
                ldexpf(1.0f, (int)(i * 7 % 23) - 11) * (fill_below(&fill, 9) == 0 ? 0.0f : 1.0f);
    made.bias = gap > 0 ? buffers_filled(&fill, out, -1, 1) : NULL;
    made.y = buffers_filled(&fill, rows * (out + GAP), -1, 1);
    made.want = buffers_copy(made.y, rows * (out + GAP));
    made.work = aligned_alloc(64, ATTN_PROJECT_WORK * sizeof(float));
    made.blocks = buffers_bytes((size_t)count * attn_block_bytes(blocks_dtype(index)));
    blocks_fill(&fill, index, count, made.blocks);
    return made;
}

static void release(const struct product *made)
{
    free(made->work);
    buffers_free();
}

/* Rows first to first + rows and outputs first_out to first_out + out; pointers in x and y. */
static struct attn_fixed_project part_of(const struct product *made, const float **x, float **y,
                                         int64_t first, int64_t rows, int64_t first_out,
                                         int64_t out)
{
    for (int64_t r = 0; r < rows; r++) {
        x[r] = made->x + (first + r) * (made->in + 2);
        y[r] = made->y + (first + r) * (made->out + GAP) + first_out;
    }
    return (struct attn_fixed_project){
        .y = y,
        .x = x,
        .row_count = rows,
        .out = out,
        .in = made->in,
        .weight = attn_number_at(made->blocks, blocks_dtype(made->index), first_out * made->stride),
        .weight_stride = made->stride,
        .bias = made->bias != NULL ? made->bias + first_out : NULL,
        .blocks = (enum attn_blocks)made->index,
        .digits = made->digits,
        .work = made->work,
    };
}

/* ---------------------------------------------------------------------------- reference -- */

/* Of 32 inputs, in their unit: the digits, each of -128 to 127, the least first. */
struct inputs {
    double unit;
    int64_t whole[32], digit[3][32];
};

static void cut(struct inputs *to, const float *x, int digits)
{
    float most = 0;
    int exponent;

    memset(to, 0, sizeof *to);
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    if (most < 0x1p-100f)
        return;
    frexp((double)(most * (1.0f + 0x1p-7f)), &exponent);
    to->unit = ldexp(1, exponent - (8 * digits - 1));
    for (int i = 0; i < 32; i++) {
        int64_t rest = to->whole[i] = llrint((double)x[i] / to->unit);
        for (int d = 0; d < digits; d++) {
            to->digit[d][i] = ((rest + 128) & 255) - 128;
            rest = (rest - to->digit[d][i]) / 256;
        }
        assert_int_equal(rest, 0);
    }
}

static float float_of_bf16_bits(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Integer i of group g of output o. */
static double integer_at(const struct attn_fixed_panel *panel, int size, int64_t g, int64_t i,
                         int64_t o)
{
    const int64_t place = size == 16 && g % 2 != 0 ? i + 16 : i;

    return (double)float_of_bf16_bits(panel->tiles[g][place / 2 * 32 + o * 2 + place % 2]);
}

/* y after the groups of a part. */
static float add_groups(const struct product *made, const struct attn_fixed_panel *panel,
                        const float *x, int64_t input, int64_t o, float y)
{
    const int size = attn_fixed_group((enum attn_blocks)made->index);
    const int64_t rest = made->in - input, count = rest < ATTN_FIXED_PART ? rest : ATTN_FIXED_PART;
    struct inputs inputs;

    for (int64_t g = 0; g < count / size; g++) {
        const int64_t at = g * size % 32;
        int64_t whole = 0;
        float sum = 0;
        cut(&inputs, x + input + g * size - at, made->digits);
        for (int d = 0; d < made->digits; d++) {
            double products = 0;
            for (int64_t i = 0; i < size; i++)
                products += integer_at(panel, size, g, i, o) * (double)inputs.digit[d][at + i];
            sum = (float)((double)sum + ldexp(products, 8 * d));
        }
        for (int64_t i = 0; i < size; i++)
            whole += inputs.whole[at + i];
        y = fmaf(panel->by[g][o], sum * (float)inputs.unit, y);
        if (attn_fixed_has_less((enum attn_blocks)made->index))
            y = fmaf(-panel->less[g][o], (float)whole * (float)inputs.unit, y);
    }
    return y;
}

static void compute_want(const struct attn_fixed_kernels *fixed, const struct product *made)
{
    struct attn_fixed_panel *panel = aligned_alloc(64, sizeof *panel);
    const float *x[ROWS_MAX];
    float *y[ROWS_MAX];
    const struct attn_fixed_project all = part_of(made, x, y, 0, made->rows, 0, made->out);

    for (int64_t o = 0; o < made->out; o++)
        for (int64_t i = 0; i < made->in; i += ATTN_FIXED_PART) {
            if (o % 16 == 0 || made->in > ATTN_FIXED_PART)
                fixed->lay(panel, &all, o / 16 * 16, i);
            for (int64_t r = 0; r < made->rows; r++) {
                float *to = made->want + r * (made->out + GAP) + o;
                if (i == 0)
                    *to = made->bias != NULL ? made->bias[o] : 0;
                *to = add_groups(made, panel, x[r], i, o % 16, *to);
            }
        }
    free(panel);
}

/* ------------------------------------------------------------------------------- checks -- */

static bool is_unit(const struct attn_kernels *kernels, bool is_tiles)
{
    return kernels->fixed != NULL
           && (!is_tiles || (kernels->matrix != NULL && kernels->matrix->multiply_fixed != NULL));
}

static void run(const struct attn_kernels *kernels, bool is_tiles, const struct product *made,
                int64_t first, int64_t rows, int64_t first_out, int64_t out)
{
    const float *x[ROWS_MAX];
    float *y[ROWS_MAX];
    const struct attn_fixed_project part = part_of(made, x, y, first, rows, first_out, out);

    if (is_tiles)
        kernels->matrix->multiply_fixed(kernels->fixed, &part);
    else
        kernels->fixed->project(&part);
}

static void expect_want(const struct attn_kernels *kernels, bool is_tiles,
                        const struct product *made)
{
    const int64_t count = made->rows * (made->out + GAP);

    for (int64_t i = 0; i < count; i++)
        if (memcmp(&made->y[i], &made->want[i], sizeof(float)) != 0)
            fail_msg("%s, %s, %s, %d digits: output %" PRId64 " of row %" PRId64 " of %" PRId64
                     ", %" PRId64 " x %" PRId64 ": %a in place of %a",
                     kernels->name, is_tiles ? "tiles" : "vectors", blocks_name(made->index),
                     made->digits, i % (made->out + GAP), i / (made->out + GAP), made->rows,
                     made->out, made->in, (double)made->y[i], (double)made->want[i]);
}

static void check(int index, int64_t rows, int64_t out, int64_t blocks, int64_t gap, int digits)
{
    const struct product made = make(index, rows, out, blocks, gap, digits);
    bool is_known = false;

    for (const struct attn_kernels *const *table = kernel_tables(); *table; table++)
        for (int tiles = 0; tiles < 2; tiles++) {
            if (!is_unit(*table, tiles))
                continue;
            if (!is_known)
                compute_want((*table)->fixed, &made);
            is_known = true;
            for (int64_t i = 0; i < rows * (out + GAP); i++)
                made.y[i] = i % (out + GAP) < out ? NAN : made.want[i];
            run(*table, tiles, &made, 0, rows, 0, out);
            expect_want(*table, tiles, &made);
        }
    release(&made);
}

TEST(all_units_have_the_bits_of_the_formulas)
{
    static const int64_t OUTS[] = { 1, 15, 16, 17, 33, 64, 65, 77, 130 };
    static const int64_t ROWS[] = { 1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 33, 64 };

    for (int d = 0; d < BLOCKS_DTYPES; d++) {
        const bool is_small = attn_block_numbers(blocks_dtype(d)) == 32;
        for (int r = 0; r < 12; r++)
            for (int o = 0; o < 9; o++)
                if (problem_is_tried((uint64_t)(r * 9 + o + d)) && (r + o + d) % 4 == 0)
                    check(d, ROWS[r], OUTS[o], is_small ? 1 + (r + o * 3) % 21 : 1 + (r + o) % 3,
                          (r + o) % 2, 2 + (r + o + d) / 4 % 2);
    }
}

/* A span of digits ends before the inputs do: one row has room for 58112, 64 rows for 768. */
TEST(long_rows_have_the_bits_of_the_formulas)
{
    check(BLOCKS_Q8_0, 64, 20, 27, 0, 3);
    check(BLOCKS_Q4_K, 33, 17, 8, 0, 3);
    check(BLOCKS_Q6_K, 1, 3, 230, 0, 3);
}

/* The bits of a sum do not depend on the rows and outputs beside it. */
TEST(know_nothing_but_the_row)
{
    static const int64_t steps[] = { 1, 2, 3, 5, 8, 9, 17, 29 };
    static const int64_t widths[] = { 1, 6, 16, 23, 40 };

    for (const struct attn_kernels *const *table = kernel_tables(); *table; table++)
        for (int d = 0; d < BLOCKS_DTYPES && is_unit(*table, false); d++) {
            const struct product made =
                make(d, 29, 40, 512 / attn_block_numbers(blocks_dtype(d)), 0, 3);
            compute_want((*table)->fixed, &made);
            for (int s = 0; s < 8; s++)
                for (int w = 0; w < 5; w++) {
                    const bool is_tiles = (s + w) % 2 == 0 && is_unit(*table, true);
                    for (int64_t i = 0; i < made.rows * (made.out + GAP); i++)
                        made.y[i] = i % (made.out + GAP) < made.out ? NAN : made.want[i];
                    for (int64_t r = 0; r < made.rows; r += steps[s])
                        for (int64_t o = 0; o < made.out; o += widths[w])
                            run(*table, is_tiles, &made, r,
                                r + steps[s] < made.rows ? steps[s] : made.rows - r, o,
                                o + widths[w] < made.out ? widths[w] : made.out - o);
                    expect_want(*table, is_tiles, &made);
                }
            release(&made);
        }
}

TEST(tiles_get_the_numbers_of_blocks)
{
    const struct attn_kernels *kernels = kernel_tables()[0];
    struct attn_fixed_panel *panel = aligned_alloc(64, sizeof *panel);

    for (int d = 0; d < BLOCKS_DTYPES && is_unit(kernels, false); d++) {
        const struct product made = make(d, 1, 21, 512 / attn_block_numbers(blocks_dtype(d)), 1, 3);
        const int size = attn_fixed_group((enum attn_blocks)d);
        float numbers[512];
        const float *x[1];
        float *y[1];
        const struct attn_fixed_project all = part_of(&made, x, y, 0, 1, 0, made.out);
        for (int64_t o = 0; o < made.out; o++) {
            attn_unpack(blocks_dtype(d),
                        attn_number_at(made.blocks, blocks_dtype(d), o * made.stride),
                        512 / attn_block_numbers(blocks_dtype(d)), numbers);
            for (int64_t i = 0; i < 512; i++) {
                const int64_t g = i % ATTN_FIXED_PART / size;
                if (i % ATTN_FIXED_PART == 0)
                    kernels->fixed->lay(panel, &all, o / 16 * 16, i);
                const double number =
                    (double)panel->by[g][o % 16] * integer_at(panel, size, g, i % size, o % 16)
                    - (double)panel->less[g][o % 16];
                if ((float)number != numbers[i])
                    fail_msg("%s, number %" PRId64 ": %a in place of %a", blocks_name(d), i, number,
                             (double)numbers[i]);
            }
        }
        release(&made);
    }
    free(panel);
}

/* Rows that fixed point does not hold. */
TEST(odd_rows_are_found)
{
    static const float greatest[] = { 0, 1, 0x1p63f, 0x1p64f, 0x1p-64f, 0x1p-65f, INFINITY, NAN };
    const struct attn_fixed_kernels *fixed = kernel_tables()[0]->fixed;
    float x[8][48] = { { 0 } };
    const float *rows[8];

    for (int r = 0; r < 8; r++) {
        rows[r] = x[r];
        x[r][r * 5] = -greatest[r];
        x[r][7] = x[r][7] != 0 ? x[r][7] : r == 5 ? 0 : 0x1p-90f;
    }
    if (fixed != NULL)
        assert_int_equal(fixed->odd_rows(rows, 8, 48), 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1);
}
