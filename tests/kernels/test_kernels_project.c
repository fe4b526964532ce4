/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_project.c - the kernels of projections, of every table that this CPU can run,
 * against arithmetic in double. Their bits depend on the row alone.
 *
 * Counts go around the vector's length, the blocks and the parts. Memory ends at a guard page. */
#include "buffers.h"
#include "number.h"
#include "problem_count.h"
#include "test.h"

static const int64_t ROWS[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 48, 63, 64 };
static const int64_t OUTS[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 15, 16, 17, 33, 63, 64, 65, 80 };
static const int64_t INS[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 255, 256, 257, 530 };
enum { ROW_COUNTS = 17, OUT_COUNTS = 18, IN_COUNTS = 16 };

/* A projection with parameters in both orders, as floats and as they are written. */
struct projection {
    enum attn_numbers kind;
    int64_t rows, out, in;
    float *x, *y;
    float *by_outputs, *by_inputs, *bias; /* strides in + 1 and out + 3 */
    const void *outputs_written, *inputs_written;
    float *work;
};

static const enum attn_dtype DTYPES[] = {
    [ATTN_NUMBERS_F32] = ATTN_F32, [ATTN_NUMBERS_F16] = ATTN_F16, [ATTN_NUMBERS_BF16] = ATTN_BF16
};

/* Writes the floats as numbers of a kind, in memory that ends at a guard page. The floats become
 * what those numbers stand for. */
static const void *write_as(enum attn_numbers kind, float *floats, int64_t count)
{
    if (kind == ATTN_NUMBERS_F32)
        return floats;
    uint16_t *halves = buffers_halves(count);
    for (int64_t i = 0; i < count; i++) {
        number_set(halves, DTYPES[kind], i, (double)floats[i]);
        floats[i] = (float)number_get(halves, DTYPES[kind], i);
    }
    return halves;
}

static struct projection make(struct fill *fill, enum attn_numbers kind, int64_t rows, int64_t out,
                              int64_t in, bool biased)
{
    struct projection made = { .kind = kind, .rows = rows, .out = out, .in = in };

    made.x = buffers_rows(fill, rows, in, in + 2);
    made.y = buffers_floats((rows - 1) * (out + 5) + out);
    made.by_outputs = buffers_rows(fill, out, in, in + 1);
    made.outputs_written = write_as(kind, made.by_outputs, (out - 1) * (in + 1) + in);
    made.by_inputs = buffers_floats((in - 1) * (out + 3) + out);
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < out + 3 && i * (out + 3) + o < (in - 1) * (out + 3) + out; o++)
            made.by_inputs[i * (out + 3) + o] =
                o < out ? made.by_outputs[o * (in + 1) + i] : (float)NAN;
    made.inputs_written = write_as(kind, made.by_inputs, (in - 1) * (out + 3) + out);
    made.bias = biased ? buffers_filled(fill, out, -1, 1) : NULL;
    made.work = buffers_floats(ATTN_PROJECT_WORK);
    return made;
}

static const void *number_of(const struct projection *made, const void *written, int64_t index)
{
    return (const char *)written + index * (int64_t)attn_dtype_size(DTYPES[made->kind]);
}

/* Rows first to first + rows of the projection, to outputs first_out to first_out + out. */
static void run(const struct attn_kernels *kernels, const struct projection *made, bool by_inputs,
                int64_t first, int64_t rows, int64_t first_out, int64_t out)
{
    const float *x[ATTN_PROJECT_ROWS_MAX];
    float *y[ATTN_PROJECT_ROWS_MAX];
    const float *bias = made->bias ? made->bias + first_out : NULL;

    for (int64_t r = 0; r < rows; r++) {
        x[r] = made->x + (first + r) * (made->in + 2);
        y[r] = made->y + (first + r) * (made->out + 5) + first_out;
    }
    if (by_inputs)
        kernels->project_by_inputs[made->kind](y, x, rows,
                                               number_of(made, made->inputs_written, first_out),
                                               made->out + 3, bias, out, made->in, made->work);
    else
        kernels->project_by_outputs[made->kind](
            y, x, rows, number_of(made, made->outputs_written, first_out * (made->in + 1)),
            made->in + 1, bias, out, made->in, made->work);
}

static void clear(const struct projection *made)
{
    for (int64_t i = 0; i < (made->rows - 1) * (made->out + 5) + made->out; i++)
        made->y[i] = 77.0f;
}

static void expect_right(const struct attn_kernels *kernels, const struct projection *made,
                         bool by_inputs)
{
    for (int64_t r = 0; r < made->rows; r++) {
        for (int64_t o = 0; o < made->out; o++) {
            const double bias = made->bias ? (double)made->bias[o] : 0;
            double want = bias, size = fabs(bias);
            for (int64_t i = 0; i < made->in; i++) {
                const double product = (double)made->x[r * (made->in + 2) + i]
                                       * (double)made->by_outputs[o * (made->in + 1) + i];
                want += product;
                size += fabs(product);
            }
            const double got = (double)made->y[r * (made->out + 5) + o];
            if (!(fabs(got - want) <= 4e-7 * (1 + size)))
                fail_msg("%s, by %s: %" PRId64 " rows, %" PRId64 " x %" PRId64 ": [%" PRId64
                         ", %" PRId64 "] = %.9g, want %.9g",
                         kernels->name, by_inputs ? "inputs" : "outputs", made->rows, made->out,
                         made->in, r, o, got, want);
        }
        for (int64_t o = made->out; o < made->out + 5 && r + 1 < made->rows; o++)
            assert_true(made->y[r * (made->out + 5) + o] == 77.0f);
    }
}

static void check_right(const struct attn_kernels *kernels, enum attn_numbers kind, int64_t rows,
                        int64_t out, int64_t in)
{
    struct fill fill = { (uint64_t)(rows * 100000 + out * 1000 + in) };
    const struct projection made = make(&fill, kind, rows, out, in, (rows + out + in) % 2 == 0);

    for (int by_inputs = 0; by_inputs < 2; by_inputs++) {
        clear(&made);
        run(kernels, &made, by_inputs, 0, rows, 0, out);
        expect_right(kernels, &made, by_inputs);
    }
    buffers_free();
}

TEST(is_right_at_every_length)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int k = 0; k < 2 * ATTN_NUMBERS_COUNT; k++) {
            const enum attn_numbers kind = (enum attn_numbers)(k / 2);
            buffers_shift = k % 2;
            for (int o = 0; o < OUT_COUNTS; o++)
                for (int i = 0; i < IN_COUNTS; i++)
                    if (problem_is_tried((uint64_t)(o * IN_COUNTS + i + k)))
                        check_right(*table, kind, ROWS[(o * 7 + i * 5 + k) % ROW_COUNTS], OUTS[o],
                                    INS[i]);
            for (int r = 0; r < ROW_COUNTS; r++)
                check_right(*table, kind, ROWS[r], 37, 67);
        }
    buffers_shift = 0;
}

/* The most rows and outputs that a kernel takes. */
TEST(takes_the_most)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int k = 0; k < ATTN_NUMBERS_COUNT; k++) {
            const enum attn_numbers kind = (enum attn_numbers)k;
            check_right(*table, kind, ATTN_PROJECT_ROWS_MAX, ATTN_PROJECT_OUTPUTS_MAX, 300);
            check_right(*table, kind, 1, ATTN_PROJECT_OUTPUTS_MAX, 300);
            check_right(*table, kind, ATTN_PROJECT_ROWS_MAX - 1, ATTN_PROJECT_OUTPUTS_MAX - 1, 600);
        }
}

/* Goes row after row and output after output, as many at once as step and width say. The bits
 * are always the same, and are those of the parameters as floats. */
static void check_bits(const struct attn_kernels *kernels, const struct projection *made,
                       const float *whole)
{
    static const int64_t steps[] = { 1, 2, 3, 4, 5, 7, 8, 13, 16, 29, 64 };
    static const int64_t widths[] = { 1, 6, 16, 23, 64, 80 };
    const int64_t count = (made->rows - 1) * (made->out + 5) + made->out;

    for (int s = 0; s < 11; s++)
        for (int w = 0; w < 6; w++)
            for (int by_inputs = 0; by_inputs < 2; by_inputs++) {
                if (!problem_is_tried((uint64_t)(s * 6 + w + by_inputs)))
                    continue;
                clear(made);
                for (int64_t r = 0; r < made->rows; r += steps[s])
                    for (int64_t o = 0; o < made->out; o += widths[w])
                        run(kernels, made, by_inputs, r,
                            r + steps[s] < made->rows ? steps[s] : made->rows - r, o,
                            o + widths[w] < made->out ? widths[w] : made->out - o);
                if (memcmp(made->y, whole, (size_t)count * sizeof *whole) != 0)
                    fail_msg("%s, by %s: %" PRId64 " rows and %" PRId64
                             " outputs at once give other bits",
                             kernels->name, by_inputs ? "inputs" : "outputs", steps[s], widths[w]);
            }
}

TEST(knows_nothing_but_the_row)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int k = 0; k < ATTN_NUMBERS_COUNT; k++) {
            struct fill fill = { 7 };
            struct projection made = make(&fill, (enum attn_numbers)k, 64, 80, 530, true);
            struct projection floats = made;
            const int64_t count = (made.rows - 1) * (made.out + 5) + made.out;

            floats.kind = ATTN_NUMBERS_F32;
            floats.outputs_written = made.by_outputs;
            clear(&floats);
            run(*table, &floats, false, 0, made.rows, 0, made.out);
            check_bits(*table, &made, buffers_copy(made.y, count));
            buffers_free();
        }
}

/* Rows too long for the work buffer are cut, fewer of them fit as they are. */
TEST(cuts_long_rows_without_a_trace)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int k = 0; k < ATTN_NUMBERS_COUNT; k++) {
            struct fill fill = { 9 };
            const struct projection made = make(&fill, (enum attn_numbers)k, 64, 50, 1500, true);
            const int64_t count = (made.rows - 1) * (made.out + 5) + made.out;

            clear(&made);
            run(*table, &made, false, 0, made.rows, 0, made.out);
            const float *cut = buffers_copy(made.y, count);
            clear(&made);
            for (int64_t r = 0; r < made.rows; r += 16)
                run(*table, &made, false, r, 16, 0, made.out);
            assert_memory_equal(made.y, cut, (size_t)count * sizeof *cut);
            buffers_free();
        }
}

/* The numbers of one row reach no other row. */
TEST(keeps_rows_apart)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++)
        for (int by_inputs = 0; by_inputs < 2; by_inputs++) {
            struct fill fill = { 11 };
            const struct projection made = make(&fill, ATTN_NUMBERS_F32, 21, 33, 40, false);
            clear(&made);
            run(*table, &made, by_inputs, 0, made.rows, 0, made.out);
            float *before = buffers_copy(made.y, (made.rows - 1) * (made.out + 5) + made.out);
            made.x[3 * (made.in + 2) + 1] = NAN;
            made.x[17 * (made.in + 2) + 39] = INFINITY;
            run(*table, &made, by_inputs, 0, made.rows, 0, made.out);
            for (int64_t r = 0; r < made.rows; r++)
                for (int64_t o = 0; o < made.out; o++) {
                    const int64_t at = r * (made.out + 5) + o;
                    if (r == 3 || r == 17)
                        assert_false(isfinite(made.y[at]));
                    else
                        assert_true(made.y[at] == before[at]);
                }
            buffers_free();
        }
}

/* A multiply-add gives the same bits at any vector length. Only a table without multiply-adds
 * may differ. */
TEST(tables_agree)
{
    const struct attn_kernels *const *table = attn_kernels_available();
    struct fill fill = { 13 };
    const struct projection made = make(&fill, ATTN_NUMBERS_F32, 19, 50, 300, true);
    const int64_t count = (made.rows - 1) * (made.out + 5) + made.out;

    clear(&made);
    run(*table, &made, false, 0, made.rows, 0, made.out);
    const float *first = buffers_copy(made.y, count);
    for (; *table && strcmp((*table)->name, "generic") != 0; table++) {
        clear(&made);
        run(*table, &made, false, 0, made.rows, 0, made.out);
        assert_memory_equal(made.y, first, (size_t)count * sizeof *first);
    }
    buffers_free();
}
