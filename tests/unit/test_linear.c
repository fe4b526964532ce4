/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear.c - lib/linear.h: products of rows in tasks against arithmetic in double, on every
 * table of kernels; the bits of a row; and what is refused. */
#include "fill.h"
#include "kernel_tables.h"
#include "layer.h"
#include "number.h"
#include "test.h"
#include "work.h"

enum { ROWS_MAX = 150, IN_MAX = 80, OUT_MAX = 700, GAP = 3 };
enum { X_STRIDE = IN_MAX + GAP, Y_STRIDE = OUT_MAX + GAP };

static struct {
    float x[ROWS_MAX * X_STRIDE], y[ROWS_MAX * Y_STRIDE], again[ROWS_MAX * Y_STRIDE];
    float weight[2][OUT_MAX * IN_MAX], bias[2][OUT_MAX];
    uint16_t halves[2][OUT_MAX * IN_MAX];
} data;

static void fill_data(uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, data.x, ROWS_MAX * X_STRIDE, -1, 1);
    for (int i = 0; i < 2; i++) {
        fill_floats(&fill, data.bias[i], OUT_MAX, -1, 1);
        for (int64_t k = 0; k < OUT_MAX * IN_MAX; k++) {
            number_set(data.halves[i], ATTN_BF16, k, (double)fill_float(&fill, -0.5f, 0.5f));
            data.weight[i][k] = (float)number_get(data.halves[i], ATTN_BF16, k);
        }
    }
}

static struct attn_linear linear_of(int i, int64_t in, int64_t out, bool in_out,
                                    enum attn_dtype dtype)
{
    return (struct attn_linear){ .weight = dtype == ATTN_F32 ? (void *)data.weight[i]
                                                             : (void *)data.halves[i],
                                 .bias = data.bias[i],
                                 .out = out,
                                 .in = in,
                                 .in_out = in_out,
                                 .dtype = dtype };
}

static struct attn_product product_of(const struct attn_kernels *kernels,
                                      const struct attn_linear *linear,
                                      const struct attn_linear *gate,
                                      enum attn_activation activation, int64_t rows)
{
    return (struct attn_product){ .linear = linear,
                                  .gate = gate,
                                  .activation = activation,
                                  .xielu = { 0.75f, 1.25f, 0.5f, -0.125f },
                                  .x = data.x,
                                  .x_stride = X_STRIDE,
                                  .y = data.y,
                                  .y_stride = Y_STRIDE,
                                  .row_count = rows,
                                  .kernels = kernels };
}

static void run(const struct attn_product *product, bool in_reverse)
{
    const char *where = "";
    const enum attn_status status = attn_product_check(product, &where);
    void *workspace = aligned_alloc(64, attn_product_workspace_bytes(product));
    const int64_t tasks = attn_product_tasks(product);
    if (status != ATTN_OK)
        fail_msg("%s: %s", attn_status_name(status), where);
    assert_non_null(workspace);
    for (int64_t i = 0; i < tasks; i++) {
        memset(workspace, 0xff, attn_product_workspace_bytes(product));
        attn_product_run(product, in_reverse ? tasks - 1 - i : i, workspace);
    }
    free(workspace);
}

static double output_of(const struct attn_linear *linear, int i, int64_t row, int64_t output)
{
    double sum = (double)data.bias[i][output];
    for (int64_t k = 0; k < linear->in; k++)
        sum +=
            (double)data.x[row * X_STRIDE + k]
            * (double)data
                  .weight[i][linear->in_out ? k * linear->out + output : output * linear->in + k];
    return sum;
}

static double activated(enum attn_activation activation, double x)
{
    switch (activation) {
    case ATTN_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case ATTN_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ATTN_GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    case ATTN_RELU:
        return x < 0 ? 0 : x;
    case ATTN_RELU_SQUARED:
        return x < 0 ? 0 : x * x;
    case ATTN_SILU:
        return x / (1 + exp(-x));
    case ATTN_SIGMOID:
        return 1 / (1 + exp(-x));
    case ATTN_TANH:
        return tanh(x);
    case ATTN_XIELU:
        return x > 0 ? 0.75 * x * x + 0.5 * x : 1.25 * (expm1(fmin(x, -0.125)) - x) + 0.5 * x;
    default:
        return x;
    }
}

static void expect_right(const struct attn_product *product)
{
    const struct attn_linear *linear = product->linear;
    for (int64_t r = 0; r < product->row_count; r++) {
        for (int64_t o = 0; o < linear->out; o++) {
            const double limit =
                product->gated_limit > 0 ? (double)product->gated_limit : (double)INFINITY;
            const double plain = output_of(linear, 0, r, o);
            const double up = fmax(-limit, fmin(plain, limit)) + (double)product->gated_offset;
            const double scale = product->gate_scale != 0 ? (double)product->gate_scale : 1;
            const double want =
                product->gate == NULL
                    ? activated(product->activation, plain)
                    : up
                          * activated(product->activation,
                                      fmin(scale * output_of(product->gate, 1, r, o), limit));
            const double got = (double)data.y[r * Y_STRIDE + o];
            if (!(fabs(got - want) <= 1e-5 * (1 + fabs(up))))
                fail_msg("row %d, output %d is %.9g; want %.9g", (int)r, (int)o, got, want);
        }
        for (int64_t o = linear->out; o < Y_STRIDE; o++)
            assert_true(data.y[r * Y_STRIDE + o] == 77.0f);
    }
}

static void clear(void)
{
    for (int64_t i = 0; i < ROWS_MAX * Y_STRIDE; i++)
        data.y[i] = 77.0f;
}

TEST(is_right)
{
    static const int64_t rows[] = { 1, 3, 9, 64, 65, 150 }, outs[] = { 1, 7, 256, 300, 700 };
    fill_data(3);
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int i = 0; i < 6 * ATTN_ACTIVATION_COUNT; i++) {
            const bool in_out = i % 2 == 1;
            const enum attn_dtype dtype = i % 3 == 0 ? ATTN_BF16 : ATTN_F32;
            const int64_t in = 1 + i * 37 % IN_MAX, out = outs[i % 5];
            const struct attn_linear linear = linear_of(0, in, out, in_out, dtype);
            const struct attn_linear gate = linear_of(1, in, out, i % 5 == 0, ATTN_F32);
            const struct attn_product product =
                product_of(*k, &linear, i / ATTN_ACTIVATION_COUNT % 2 ? &gate : NULL,
                           (enum attn_activation)(i % ATTN_ACTIVATION_COUNT), rows[i % 6]);
            clear();
            run(&product, i % 2 == 0);
            expect_right(&product);
        }
}

/* A row alone, or with others; and each product alone, then its activation. */
TEST(knows_nothing_but_the_row)
{
    fill_data(4);
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++) {
        const struct attn_linear linear = linear_of(0, 70, 300, false, ATTN_BF16);
        const struct attn_linear gate = linear_of(1, 70, 300, false, ATTN_F32);
        struct attn_product product = product_of(*k, &linear, &gate, ATTN_SILU, 131);
        clear();
        run(&product, false);
        memcpy(data.again, data.y, sizeof data.y);
        clear();
        for (int64_t first = 0, count = 1; first < 131; first += count, count = count * 3 % 31) {
            product.x = data.x + first * X_STRIDE;
            product.y = data.y + first * Y_STRIDE;
            product.row_count = first + count < 131 ? count : 131 - first;
            run(&product, true);
        }
        assert_memory_equal(data.y, data.again, sizeof data.y);

        product = product_of(*k, &gate, NULL, ATTN_SILU, 131);
        run(&product, false);
        float *gates = malloc(sizeof data.y);
        assert_non_null(gates);
        memcpy(gates, data.y, sizeof data.y);
        product = product_of(*k, &linear, NULL, ATTN_NO_ACTIVATION, 131);
        run(&product, false);
        for (int64_t r = 0; r < 131; r++)
            for (int64_t o = 0; o < 300; o++)
                assert_true(data.again[r * Y_STRIDE + o]
                            == data.y[r * Y_STRIDE + o] * gates[r * Y_STRIDE + o]);
        free(gates);
    }
}

/* Rows that overlap, as the windows of a convolution do, have the bits of their copies. */
TEST(overlap)
{
    enum { IN = 70, OUT = 300, ROWS = 64, STEP = 23 };
    static float copies[ROWS * IN];
    const struct attn_linear linear = linear_of(0, IN, OUT, false, ATTN_F32);
    fill_data(5);
    for (int64_t r = 0; r < ROWS; r++)
        memcpy(copies + r * IN, data.x + r * STEP, IN * sizeof *copies);
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++) {
        struct attn_product product = product_of(*k, &linear, NULL, ATTN_GELU, ROWS);
        clear();
        product.x_stride = STEP;
        run(&product, false);
        memcpy(data.again, data.y, sizeof data.y);
        clear();
        product.x = copies;
        product.x_stride = IN;
        run(&product, true);
        assert_memory_equal(data.y, data.again, sizeof data.y);
    }
}

static void expect_refused(const struct attn_product *product, enum attn_status want,
                           const char *field)
{
    const char *where = "";
    assert_int_equal(attn_product_check(product, &where), want);
    assert_string_equal(where, field);
    assert_int_equal(attn_product_check(product, NULL), want);
}

/* OpenAI's gpt-oss: outputs on both sides of the limit, and 1 added to what the gate multiplies. */
TEST(is_limited)
{
    const struct attn_linear linear = linear_of(0, 70, 300, false, ATTN_F32);
    const struct attn_linear gate = linear_of(1, 70, 300, false, ATTN_F32);
    fill_data(3);
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int i = 0; i < 4; i++) {
            struct attn_product product = product_of(*k, &linear, &gate, ATTN_GELU_QUICK, 33);
            product.gated_limit = i % 2 ? 0.5f : 0;
            product.gated_offset = i / 2 ? 1 : 0;
            clear();
            run(&product, false);
            expect_right(&product);
        }
}

/* Falcon-H1's gate; of one that is limited too the scale comes first. */
TEST(has_a_scaled_gate)
{
    const struct attn_linear linear = linear_of(0, 70, 300, false, ATTN_F32);
    const struct attn_linear gate = linear_of(1, 70, 300, false, ATTN_F32);
    static const float SCALES[] = { 0.375f, 1, -2.5f };
    fill_data(3);
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int i = 0; i < 6; i++) {
            struct attn_product product = product_of(*k, &linear, &gate, ATTN_SILU, 33);
            product.gate_scale = SCALES[i % 3];
            product.gated_limit = i / 3 ? 0.5f : 0;
            clear();
            run(&product, false);
            expect_right(&product);
        }
}

TEST(is_refused)
{
    const struct attn_linear good = linear_of(0, 70, 300, false, ATTN_F32);
    const struct attn_product product =
        product_of(attn_kernels_available()[0], &good, NULL, ATTN_GELU, 5);
    struct attn_linear bad = good;
    struct attn_product wrong = product;
    wrong.linear = &bad;
    bad.weight = NULL;
    expect_refused(&wrong, ATTN_ERR_NO_DATA, "linear.weight");
    wrong.precision = ATTN_PRECISION_COUNT, bad = good;
    expect_refused(&wrong, ATTN_ERR_OPTION, "precision");
    wrong.precision = ATTN_PRECISION_HIGHEST;
    bad = good, bad.dtype = ATTN_F64;
    expect_refused(&wrong, ATTN_ERR_DTYPE, "linear.dtype");
    bad = good, bad.in = 0;
    expect_refused(&wrong, ATTN_ERR_SHAPE, "linear.in");
    bad = good, bad.out = (int64_t)INT32_MAX + 1;
    expect_refused(&wrong, ATTN_ERR_TOO_LARGE, "linear.out");
    bad = good, bad.stride = 69;
    expect_refused(&wrong, ATTN_ERR_STRIDE, "linear.stride");
    wrong = product, wrong.gate = &bad, bad = good, bad.out = 299;
    expect_refused(&wrong, ATTN_ERR_SHAPE, "gate.out");
    wrong = product, wrong.kernels = NULL;
    expect_refused(&wrong, ATTN_ERR_NO_DATA, "kernels");
    wrong = product, wrong.activation = ATTN_ACTIVATION_COUNT;
    expect_refused(&wrong, ATTN_ERR_OPTION, "activation");
    wrong.activation = ATTN_XIELU, wrong.xielu = (struct attn_xielu){ 1, 1, 1, 0 };
    expect_refused(&wrong, ATTN_ERR_OPTION, "xielu");
    wrong.xielu = (struct attn_xielu){ 1, NAN, 1, -1 };
    expect_refused(&wrong, ATTN_ERR_OPTION, "xielu");
    wrong = product, wrong.gated_limit = -1;
    expect_refused(&wrong, ATTN_ERR_OPTION, "gated_limit");
    wrong = product, wrong.gated_offset = NAN;
    expect_refused(&wrong, ATTN_ERR_OPTION, "gated_offset");
    wrong = product, wrong.gate_scale = INFINITY;
    expect_refused(&wrong, ATTN_ERR_OPTION, "gate_scale");
    wrong = product, wrong.x_stride = 0;
    expect_refused(&wrong, ATTN_ERR_STRIDE, "x_stride");
    wrong = product, wrong.y_stride = INT64_MAX / 8;
    expect_refused(&wrong, ATTN_ERR_TOO_LARGE, "y_stride");
    wrong = product, wrong.row_count = 0;
    assert_int_equal(attn_product_tasks(&wrong), 0);
}

/* Every flop and every activation counts; parameters count once for each chunk of rows. */
TEST(is_counted)
{
    const struct attn_linear linear = linear_of(0, 70, 300, false, ATTN_BF16);
    struct attn_product product =
        product_of(attn_kernels_available()[0], &linear, NULL, ATTN_NO_ACTIVATION, 150);
    struct attn_work work = { 0 };
    attn_product_work(&product, &work);
    assert_true((int64_t)work.tasks == attn_product_tasks(&product));
    assert_true((int64_t)work.projection_flops == 2 * 150 * 300 * 70);
    assert_true((int64_t)work.parameter_bytes == 2 * 300 * 70 && (int64_t)work.tanhs == 0);
    product.gate = &linear;
    product.activation = ATTN_SILU;
    attn_product_work(&product, &work);
    assert_true((int64_t)work.projection_flops == 3 * 2 * 150 * 300 * 70);
    assert_true((int64_t)work.tanhs == 150 * 300 && (int64_t)work.moved_numbers == 150 * 300);
    attn_rows_work(150, 70, &work);
    assert_true((int64_t)work.moved_numbers == 150 * 370);
}
