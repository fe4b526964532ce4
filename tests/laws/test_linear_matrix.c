/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear_matrix.c - products with parameters of 16 bits on a matrix unit: random shapes
 * against arithmetic in double, in memory that ends at a guard page; bits that follow from the row
 * alone; rows that tiles cannot multiply; which products the rule gives to the unit. */
#include "fill.h"
#include "guard.h"
#include "kernel_tables.h"
#include "linear.h"
#include "number.h"
#include "problem_count.h"
#include "test.h"

#include "kernels/kernels.h"

enum { X, Y, WEIGHT, GATE, BIAS, BUFFERS };

enum { IN_MAX = 1100 };

/* A product in memory of its own, and the gate as a second matrix. */
struct made {
    struct attn_linear linear, gate;
    struct attn_product product;
    struct guard_buffer buffers[BUFFERS];
};

static const struct attn_kernels *model_or_skip(void)
{
    const struct attn_kernels *model = kernel_table_of_model();
    if (model == NULL)
        skip();
    return model;
}

static float *floats_of(struct made *made, int buffer, int64_t count)
{
    made->buffers[buffer] = guard_alloc((size_t)count * sizeof(float));
    return made->buffers[buffer].data;
}

static int64_t rows_of(const struct attn_linear *linear)
{
    return linear->in_out ? linear->in : linear->out;
}

static int64_t columns_of(const struct attn_linear *linear)
{
    return linear->in_out ? linear->out : linear->in;
}

/* NaN lies between the rows, and nothing behind the last one. */
static void fill_weight(struct made *made, int buffer, struct attn_linear *linear,
                        struct fill *fill)
{
    const int64_t count = (rows_of(linear) - 1) * linear->stride + columns_of(linear);
    made->buffers[buffer] = guard_alloc((size_t)count * sizeof(uint16_t));
    linear->weight = made->buffers[buffer].data;
    for (int64_t i = 0; i < count; i++)
        number_set(made->buffers[buffer].data, linear->dtype, i,
                   i % linear->stride < columns_of(linear) ? (double)fill_float(fill, -1, 1)
                                                           : (double)NAN);
}

/* Of one output, for each input. */
static void weights_of(const struct attn_linear *linear, int64_t output, double *weights)
{
    assert_true(linear->in <= IN_MAX);
    for (int64_t i = 0; i < linear->in; i++)
        weights[i] =
            number_get(linear->weight, linear->dtype,
                       linear->in_out ? i * linear->stride + output : output * linear->stride + i);
}

static struct attn_linear linear_of(struct fill *fill, int64_t in, int64_t out)
{
    struct attn_linear linear = { .in = in,
                                  .out = out,
                                  .in_out = fill_below(fill, 2) == 0,
                                  .dtype = fill_below(fill, 2) == 0 ? ATTN_BF16 : ATTN_F16 };
    linear.stride = columns_of(&linear) + fill_below(fill, 3);
    return linear;
}

static void make(struct made *made, struct fill *fill, int64_t rows, int64_t in, int64_t out)
{
    *made = (struct made){ .linear = linear_of(fill, in, out), .gate = linear_of(fill, in, out) };
    struct attn_product *product = &made->product;
    *product = (struct attn_product){ .linear = &made->linear,
                                      .x_stride = in + fill_below(fill, 4),
                                      .y_stride = out + fill_below(fill, 4),
                                      .row_count = rows,
                                      .kernels = kernel_table_of_model() };
    float *x = floats_of(made, X, (rows - 1) * product->x_stride + in);
    for (int64_t i = 0; i < (rows - 1) * product->x_stride + in; i++)
        x[i] = i % product->x_stride < in ? fill_float(fill, -1, 1) : NAN;
    product->x = x;
    product->y = floats_of(made, Y, (rows - 1) * product->y_stride + out);
    fill_weight(made, WEIGHT, &made->linear, fill);
    fill_weight(made, GATE, &made->gate, fill);
    float *bias = floats_of(made, BIAS, out);
    fill_floats(fill, bias, out, -1, 1);
    made->linear.bias = fill_below(fill, 2) == 0 ? bias : NULL;
    made->product.gate = fill_below(fill, 4) == 0 ? &made->gate : NULL;
    made->product.precision = (enum attn_precision)fill_below(fill, ATTN_PRECISION_COUNT);
}

static void drop(struct made *made)
{
    for (int i = 0; i < BUFFERS; i++)
        guard_free(&made->buffers[i]);
}

/* Tasks in reverse order; nothing of one may be left for the next. */
static void run(const struct attn_product *product)
{
    const size_t bytes = attn_product_workspace_bytes(product);
    struct guard_buffer workspace = guard_alloc(bytes);
    assert_int_equal(attn_product_check(product, NULL), ATTN_OK);
    for (int64_t task = attn_product_tasks(product) - 1; task >= 0; task--) {
        memset(workspace.data, 0xff, bytes);
        attn_product_run(product, task, workspace.data);
    }
    guard_free(&workspace);
}

/* ------------------------------------------------------------------------ random products -- */

struct sum {
    double value, size; /* the sum, and that of the magnitudes */
};

/* weights: those of the output. */
static struct sum sum_of(const struct attn_product *product, const struct attn_linear *linear,
                         const double *weights, int64_t row, int64_t output)
{
    const double bias = linear->bias ? (double)linear->bias[output] : 0;
    struct sum sum = { bias, fabs(bias) };
    for (int64_t i = 0; i < linear->in; i++) {
        const double term = (double)product->x[row * product->x_stride + i] * weights[i];
        sum.value += term;
        sum.size += fabs(term);
    }
    return sum;
}

/* Of a sum of magnitudes: the rounding of float sums, and of parts that are left out. */
static double bound_of(enum attn_precision precision)
{
    return precision == ATTN_PRECISION_HIGHEST ? 4e-7
           : precision == ATTN_PRECISION_HIGH  ? 0x1p-16 + 4e-7
                                               : 0x1p-8 + 4e-7;
}

static void expect_right(const struct made *made)
{
    const struct attn_product *product = &made->product;
    const double bound = bound_of(product->precision);
    double up_weights[IN_MAX], gate_weights[IN_MAX];
    for (int64_t o = 0; o < made->linear.out; o++) {
        weights_of(&made->linear, o, up_weights);
        if (product->gate)
            weights_of(product->gate, o, gate_weights);
        for (int64_t r = 0; r < product->row_count; r++) {
            const struct sum up = sum_of(product, &made->linear, up_weights, r, o);
            struct sum gate = { 1, 0 };
            if (product->gate)
                gate = sum_of(product, product->gate, gate_weights, r, o);
            const double got = (double)product->y[r * product->y_stride + o];
            const double room = bound
                                * (up.size * fabs(gate.value) + fabs(up.value) * gate.size
                                   + bound * up.size * gate.size);
            if (!(fabs(got - up.value * gate.value) <= room + 1e-30))
                fail_msg("%d rows, %d x %d, precision %d: [%d, %d] = %.9g, want %.9g",
                         (int)product->row_count, (int)made->linear.out, (int)made->linear.in,
                         (int)product->precision, (int)r, (int)o, got, up.value * gate.value);
        }
    }
}

static int64_t size_of(struct fill *fill, int64_t most)
{
    return 1 + fill_below(fill, fill_below(fill, 2) == 0 ? most : most / 8);
}

TEST(random_products_are_right)
{
    const int64_t count = problem_count(150);
    model_or_skip();
    for (int64_t i = 0; i < count; i++) {
        struct fill fill = { (uint64_t)i };
        struct made made;
        const int64_t rows = size_of(&fill, 140), in = size_of(&fill, IN_MAX);
        make(&made, &fill, rows, in, size_of(&fill, 300));
        run(&made.product);
        expect_right(&made);
        for (int64_t r = 0; r + 1 < rows; r++)
            for (int64_t o = made.linear.out; o < made.product.y_stride; o++) {
                uint32_t bits;
                memcpy(&bits, &made.product.y[r * made.product.y_stride + o], sizeof bits);
                assert_int_equal(bits, 0xA5A5A5A5);
            }
        drop(&made);
    }
}

/* ------------------------------------------------------------------------------------ bits -- */

static void expect_rows(const struct attn_product *part, const struct attn_product *whole,
                        int64_t first, const char *what)
{
    for (int64_t r = 0; r < part->row_count; r++)
        if (memcmp(part->y + r * part->y_stride, whole->y + (first + r) * whole->y_stride,
                   (size_t)whole->linear->out * sizeof(float))
            != 0)
            fail_msg("%s: row %d of %d has other bits", what, (int)(first + r),
                     (int)whole->row_count);
}

/* Rows by themselves and in groups of any size; parameters that are stored the other way. */
TEST(bits_follow_from_the_row)
{
    model_or_skip();
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct fill fill = { seed };
        struct made made;
        make(&made, &fill, 131, 600 + (int64_t)seed % 3 * 40, 300);
        run(&made.product);
        struct attn_product part = made.product;
        struct guard_buffer again = guard_alloc(131 * 300 * sizeof(float));
        part.y = again.data;
        part.y_stride = 300;
        for (int64_t first = 0, count = 1; first < 131; first += count, count = count * 3 % 67) {
            part.x = made.product.x + first * part.x_stride;
            part.row_count = first + count < 131 ? count : 131 - first;
            run(&part);
            expect_rows(&part, &made.product, first, "some rows");
        }
        struct attn_linear turned = made.linear;
        turned.in_out = !turned.in_out;
        turned.stride = columns_of(&turned);
        struct guard_buffer weight =
            guard_alloc((size_t)(turned.in * turned.out) * sizeof(uint16_t));
        turned.weight = weight.data;
        for (int64_t o = 0; o < turned.out; o++) {
            double weights[IN_MAX];
            weights_of(&made.linear, o, weights);
            for (int64_t i = 0; i < turned.in; i++)
                number_set(weight.data, turned.dtype,
                           turned.in_out ? i * turned.stride + o : o * turned.stride + i,
                           weights[i]);
        }
        part = made.product;
        part.y = again.data;
        part.y_stride = 300;
        part.linear = &turned;
        run(&part);
        expect_rows(&part, &made.product, 0, "turned");
        guard_free(&weight);
        guard_free(&again);
        drop(&made);
    }
}

/* More inputs than fit into the room of few rows at once. */
TEST(few_rows_of_many_inputs_have_the_bits_of_many)
{
    static const int64_t counts[] = { 1, 2, 5, 16 };
    enum { ROWS = 17, OUT = 40 };
    model_or_skip();
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct fill fill = { seed };
        struct made made;
        make(&made, &fill, ROWS, 10500 + (int64_t)seed * 7, OUT);
        run(&made.product);
        struct attn_product part = made.product;
        struct guard_buffer again = guard_alloc(ROWS * OUT * sizeof(float));
        part.y = again.data;
        part.y_stride = OUT;
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            part.row_count = counts[i];
            run(&part);
            expect_rows(&part, &made.product, 0, "few rows");
        }
        guard_free(&again);
        drop(&made);
    }
}

TEST(unit_has_the_bits_of_the_model)
{
    model_or_skip();
    if (kernel_table_of_unit() == NULL)
        skip();
    /* The unit as it is served leaves small matrices and much padding to the vectors. */
    struct attn_matrix_kernels matrix = *kernel_table_of_unit()->matrix;
    struct attn_kernels table = *kernel_table_of_unit();
    matrix.takes_small = true;
    table.matrix = &matrix;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fill fill = { seed };
        struct made made;
        const int64_t rows = size_of(&fill, 140), in = size_of(&fill, IN_MAX);
        make(&made, &fill, rows, 64 + in, 64 + size_of(&fill, 300));
        run(&made.product);
        struct attn_product unit = made.product;
        struct guard_buffer again = guard_alloc((size_t)(rows * made.linear.out) * sizeof(float));
        unit.kernels = &table;
        unit.y = again.data;
        unit.y_stride = made.linear.out;
        run(&unit);
        expect_rows(&unit, &made.product, 0, "the unit");
        guard_free(&again);
        drop(&made);
    }
}

/* ------------------------------------------------------------------------------- odd rows -- */

/* Rows that are not finite, or too large or too small for parts, have the bits of the vectors; the
 * rows beside them are as ever. */
TEST(odd_rows_are_those_of_vectors)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN, 0x1p64f, 3e38f };
    enum { ROWS = 40, ODD = 5, TINY = 20, ZERO = 21 };
    model_or_skip();
    struct fill fill = { 5 };
    struct made made;
    make(&made, &fill, ROWS, 300, 100);
    made.product.gate = NULL;
    run(&made.product);
    struct attn_product whole = made.product;
    struct guard_buffer again = guard_alloc(ROWS * 100 * sizeof(float));
    struct guard_buffer vectors = guard_alloc(ROWS * 100 * sizeof(float));
    float *x = made.buffers[X].data;
    for (int i = 0; i < ODD; i++)
        x[(3 + 2 * i) * whole.x_stride + 7 * i] = odd[i];
    for (int i = 0; i < 300; i++) {
        x[TINY * whole.x_stride + i] *= 0x1p-64f;
        x[ZERO * whole.x_stride + i] = 0;
    }
    whole.y = again.data;
    whole.y_stride = 100;
    run(&whole);
    struct attn_product float_product = whole;
    float_product.kernels = attn_kernels_available()[0];
    float_product.y = vectors.data;
    run(&float_product);
    for (int64_t r = 0; r < ROWS; r++) {
        const bool is_odd = (r >= 3 && r < 3 + 2 * ODD && r % 2 == 1) || r == TINY || r == ZERO;
        const float *want =
            is_odd ? float_product.y + r * 100 : made.product.y + r * made.product.y_stride;
        for (int64_t o = 0; o < 100; o++)
            if (!(whole.y[r * 100 + o] == want[o]
                  || (isnan(whole.y[r * 100 + o]) && isnan(want[o]))))
                fail_msg("[%d, %d] = %g, want %g", (int)r, (int)o, (double)whole.y[r * 100 + o],
                         (double)want[o]);
    }
    guard_free(&vectors);
    guard_free(&again);
    drop(&made);
}

/* A number that is small beside its row takes no part in the rule. */
TEST(small_numbers_are_no_oddity)
{
    const struct attn_kernels *model = model_or_skip();
    float rows[2][40] = { { 0 } };
    const float *const x[2] = { rows[0], rows[1] };
    rows[0][3] = 1e-40f;
    rows[0][17] = -1;
    rows[1][3] = 1e-40f;
    assert_int_equal(model->matrix->odd_rows(x, 2, 40), 2);
    assert_int_equal(model->matrix->odd_rows(x, 2, 3), 0);
}

/* -------------------------------------------------------------------------------- the rule -- */

TEST(parameters_alone_decide)
{
    static const struct {
        int64_t in, out;
        enum attn_dtype dtype;
        bool is_matrix;
    } cases[] = {
        { 64, 64, ATTN_BF16, true },    { 64, 64, ATTN_F16, true },
        { 64, 64, ATTN_F32, false },    { 768, 3072, ATTN_BF16, true },
        { 64, 63, ATTN_BF16, false },   { 32, 96, ATTN_BF16, false },
        { 4096, 33, ATTN_BF16, false }, { 4096, 60, ATTN_F16, true },
        { 1, 50000, ATTN_F16, false },  { 50257, 768, ATTN_BF16, true },
    };
    struct attn_kernels table = *model_or_skip();
    struct attn_matrix_kernels matrix = *table.matrix;
    matrix.takes_small = false;
    table.matrix = &matrix;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int64_t rows = 1; rows < 100; rows += 33) {
            const uint16_t weight = 0;
            const struct attn_linear linear = {
                .weight = &weight, .in = cases[i].in, .out = cases[i].out, .dtype = cases[i].dtype
            };
            struct attn_product product = { .linear = &linear,
                                            .x_stride = linear.in,
                                            .y_stride = linear.out,
                                            .row_count = rows,
                                            .kernels = &table,
                                            .precision = ATTN_PRECISION_MEDIUM };
            assert_int_equal(attn_product_precision(&product),
                             cases[i].is_matrix ? ATTN_PRECISION_MEDIUM : ATTN_PRECISION_HIGHEST);
            product.kernels = attn_kernels_available()[0];
            assert_int_equal(attn_product_precision(&product), ATTN_PRECISION_HIGHEST);
        }
}
