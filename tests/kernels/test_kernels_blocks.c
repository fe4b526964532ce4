/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_blocks.c - the kernels on blocks, of every table that this CPU can run: a product
 * has the bits of the same product with the blocks' numbers as floats, and those numbers have the
 * same bits in every table.
 *
 * Blocks are random bytes with finite scales. Memory ends at a guard page. */
#include "blocks.h"
#include "buffers.h"
#include "problem_count.h"
#include "quantize.h"
#include "test.h"

static const int64_t OUTS[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 77, 256 };
enum { OUT_COUNTS = 16, ROWS_MAX = ATTN_PROJECT_ROWS_MAX, GAP = 5 };

/* A product of rows with blocks, and with the same numbers as floats. */
struct product {
    int index; /* of the dtype of blocks */
    enum attn_dtype dtype;
    int64_t rows, out, in, stride; /* of a row of blocks, in numbers */
    float *x, *y, *want, *bias, *floats, *work;
    uint8_t *blocks;
};

static struct product make(struct fill *fill, int index, int64_t rows, int64_t out, int64_t in,
                           int64_t stride)
{
    const enum attn_dtype dtype = blocks_dtype(index);
    struct product made = { index, dtype, rows, out, in, stride, .blocks = NULL };
    const int64_t numbers = (out - 1) * stride + in;
    const int64_t count = numbers / attn_block_numbers(dtype);

    made.x = buffers_rows(fill, rows, in, in + 2);
    made.y = buffers_floats(rows * (out + GAP));
    made.want = buffers_floats(rows * (out + GAP));
    made.bias = fill_below(fill, 2) == 0 ? buffers_filled(fill, out, -1, 1) : NULL;
    made.floats = buffers_floats(numbers);
    made.work = buffers_floats(ATTN_PROJECT_WORK);
    made.blocks = buffers_bytes((size_t)count * attn_block_bytes(dtype));
    blocks_fill(fill, index, count, made.blocks);
    attn_unpack(dtype, made.blocks, count, made.floats);
    return made;
}

static void clear(float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = 77.0f;
}

/* Rows first to first + rows and outputs first_out to first_out + out. */
static void run(const struct attn_kernels *kernels, const struct product *made, bool is_floats,
                int64_t first, int64_t rows, int64_t first_out, int64_t out)
{
    const float *x[ROWS_MAX];
    float *y[ROWS_MAX];
    const float *bias = made->bias ? made->bias + first_out : NULL;

    for (int64_t r = 0; r < rows; r++) {
        x[r] = made->x + (first + r) * (made->in + 2);
        y[r] = (is_floats ? made->want : made->y) + (first + r) * (made->out + GAP) + first_out;
    }
    if (is_floats)
        kernels->project_by_outputs[ATTN_NUMBERS_F32](
            y, x, rows, made->floats + first_out * made->stride, made->stride, bias, out, made->in,
            made->work);
    else
        kernels->project_blocks[made->index](
            y, x, rows, attn_number_at(made->blocks, made->dtype, first_out * made->stride),
            made->stride, bias, out, made->in, made->work);
}

static void expect_same(const struct attn_kernels *kernels, const struct product *made)
{
    const int64_t count = made->rows * (made->out + GAP);

    if (memcmp(made->y, made->want, (size_t)count * sizeof(float)) != 0)
        fail_msg("%s, %s: %" PRId64 " rows, %" PRId64 " x %" PRId64
                 " has other bits than with floats",
                 kernels->name, blocks_name(made->index), made->rows, made->out, made->in);
}

static void check(const struct attn_kernels *kernels, int index, int64_t rows, int64_t out,
                  int64_t blocks, int64_t gap)
{
    const int64_t numbers = attn_block_numbers(blocks_dtype(index));
    struct fill fill = { (uint64_t)(rows * 100000 + out * 1000 + blocks * 10 + gap) };
    const int64_t in = blocks * numbers;
    const struct product made = make(&fill, index, rows, out, in, in + gap * numbers);

    clear(made.y, rows * (out + GAP));
    clear(made.want, rows * (out + GAP));
    run(kernels, &made, true, 0, rows, 0, out);
    run(kernels, &made, false, 0, rows, 0, out);
    expect_same(kernels, &made);
    buffers_free();
}

TEST(have_the_bits_of_floats)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int d = 0; d < BLOCKS_DTYPES; d++) {
            const bool is_small = attn_block_numbers(blocks_dtype(d)) == 32;
            for (int64_t rows = 1; rows <= ROWS_MAX; rows++)
                for (int o = 0; o < OUT_COUNTS; o++)
                    if (problem_is_tried((uint64_t)(rows * OUT_COUNTS + o + d))
                        && (rows <= 9 || (rows + o + d) % 16 == 0))
                        check(*table, d, rows, OUTS[o],
                              is_small ? 1 + (rows + o * 3) % 21 : 1 + (rows + o) % 3,
                              (rows + o) % 2);
        }
}

/* Positive integers under a scale that is infinite: so is the sum, and the others are as ever. */
TEST(infinite_scales_are_multiplied)
{
    static const uint8_t INFINITE[] = { 0x00, 0x7c };
    enum { OUT = 40, IN = 512, OUTPUT = 21, BLOCK = 9, NUMBERS = 32, BYTES = 34 };

    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int64_t rows = 1; rows <= 9; rows++) {
            struct fill fill = { (uint64_t)rows };
            struct product made = make(&fill, BLOCKS_Q8_0, rows, OUT, IN, IN);
            uint8_t *block = made.blocks + (OUTPUT * IN / NUMBERS + BLOCK) * BYTES;
            memset(block, 3, BYTES);
            memcpy(block, INFINITE, sizeof INFINITE);
            attn_unpack(ATTN_Q8_0, made.blocks, OUT * IN / NUMBERS, made.floats);
            for (int64_t i = 0; i < (rows - 1) * (IN + 2) + IN; i++)
                made.x[i] = 1.0f;
            run(*table, &made, true, 0, rows, 0, OUT);
            run(*table, &made, false, 0, rows, 0, OUT);
            for (int64_t r = 0; r < rows; r++)
                assert_true(isinf(made.y[r * (OUT + GAP) + OUTPUT]));
            expect_same(*table, &made);
            buffers_free();
        }
}

/* The bits of a sum do not depend on the rows and outputs beside it. */
TEST(know_nothing_but_the_row)
{
    static const int64_t steps[] = { 1, 2, 3, 5, 8, 9, 17, 29 };
    static const int64_t widths[] = { 1, 6, 16, 23, 40 };

    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int d = 0; d < BLOCKS_DTYPES; d++) {
            struct fill fill = { 7 };
            const struct product made = make(&fill, d, 29, 40, 512, 512);
            run(*table, &made, true, 0, made.rows, 0, made.out);
            for (int s = 0; s < 8; s++)
                for (int w = 0; w < 5; w++) {
                    memcpy(made.y, made.want,
                           (size_t)(made.rows * (made.out + GAP)) * sizeof(float));
                    for (int64_t r = 0; r < made.rows; r += steps[s])
                        for (int64_t o = 0; o < made.out; o += widths[w])
                            run(*table, &made, false, r,
                                r + steps[s] < made.rows ? steps[s] : made.rows - r, o,
                                o + widths[w] < made.out ? widths[w] : made.out - o);
                    expect_same(*table, &made);
                }
            buffers_free();
        }
}

TEST(unpack_to_the_same_bits)
{
    enum { COUNT = 301 };
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int d = 0; d < BLOCKS_DTYPES; d++) {
            struct fill fill = { (uint64_t)d };
            const enum attn_dtype dtype = blocks_dtype(d);
            const int64_t numbers = COUNT * attn_block_numbers(dtype);
            uint8_t *blocks = buffers_bytes(COUNT * attn_block_bytes(dtype));
            blocks_fill(&fill, d, COUNT, blocks);
            float *got = buffers_floats(numbers), *want = buffers_floats(numbers);
            attn_unpack(dtype, blocks, COUNT, want);
            (*table)->unpack[d](got, blocks, COUNT);
            assert_memory_equal(got, want, (size_t)numbers * sizeof(float));
            buffers_free();
        }
}
