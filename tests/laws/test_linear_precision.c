/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear_precision.c - how exact products with parameters of 16 bits are for each precision of
 * the matrix unit, and those with blocks where rows are in fixed point, beside arithmetic in double
 * and a textbook's loop in float; and which precision calls and layers say that they have. */
#include "fill.h"
#include "gguf_quantize.h"
#include "kernel_tables.h"
#include "layer.h"
#include "linear.h"
#include "number.h"
#include "quantize.h"
#include "test.h"

#include "kernels/kernels.h"

enum { ROWS = 33, OUTPUTS = 64, INPUTS_MAX = 4096 };

static float x[ROWS * INPUTS_MAX], y[ROWS * OUTPUTS], textbook[ROWS * OUTPUTS];
static uint16_t weight[OUTPUTS * INPUTS_MAX];
static float numbers[OUTPUTS * INPUTS_MAX]; /* those of weight */
static double truth[ROWS * OUTPUTS];

/* Of the outputs, in units of 2^-24 times the root of the number of inputs, which is their
 * deviation. */
struct errors {
    double mean, max;
};

static double normal(struct fill *fill)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)fill_float(fill, -0.5f, 0.5f);
    return sum;
}

static void fill_weight(struct fill *fill, enum attn_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)normal(fill);
    if (dtype == ATTN_Q8_0 || dtype == ATTN_Q4_K) {
        gguf_quantize(gguf_block(dtype == ATTN_Q8_0 ? "Q8_0" : "Q4_K"), numbers, count, weight);
        attn_unpack(dtype, weight, count / attn_block_numbers(dtype), numbers);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        number_set(weight, dtype, i, (double)numbers[i]);
        numbers[i] = (float)number_get(weight, dtype, i);
    }
}

/* One input of outlier is a thousand times as large as its neighbours; 0: none. */
static void fill_product(enum attn_dtype dtype, int64_t inputs, int64_t outlier)
{
    struct fill fill = { (uint64_t)inputs };
    for (int64_t i = 0; i < ROWS * inputs; i++)
        x[i] = (float)normal(&fill) * (outlier > 0 && i % outlier == 5 ? 1000.0f : 1.0f);
    fill_weight(&fill, dtype, OUTPUTS * inputs);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t o = 0; o < OUTPUTS; o++) {
            float sum = 0;
            double exact = 0;
            for (int64_t i = 0; i < inputs; i++) {
                const float w = numbers[o * inputs + i];
                sum += x[r * inputs + i] * w;
                exact += (double)x[r * inputs + i] * (double)w;
            }
            textbook[r * OUTPUTS + o] = sum;
            truth[r * OUTPUTS + o] = exact;
        }
}

static struct errors errors_of(const float *rows, int64_t inputs)
{
    const double unit = 0x1p-24 * sqrt((double)inputs);
    struct errors errors = { 0, 0 };
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        const double error = fabs((double)rows[i] - truth[i]) / unit;
        errors.mean += error / (ROWS * OUTPUTS);
        errors.max = error <= errors.max ? errors.max : error;
    }
    return errors;
}

static struct errors run(const struct attn_kernels *kernels, enum attn_dtype dtype, int64_t inputs,
                         enum attn_precision precision)
{
    const struct attn_linear linear = {
        .weight = weight, .in = inputs, .out = OUTPUTS, .dtype = dtype
    };
    const struct attn_product product = { .linear = &linear,
                                          .x = x,
                                          .x_stride = inputs,
                                          .y = y,
                                          .y_stride = OUTPUTS,
                                          .row_count = ROWS,
                                          .kernels = kernels,
                                          .precision = precision };
    void *workspace = aligned_alloc(64, attn_product_workspace_bytes(&product));
    assert_non_null(workspace);
    for (int64_t task = 0; task < attn_product_tasks(&product); task++)
        attn_product_run(&product, task, workspace);
    free(workspace);
    return errors_of(y, inputs);
}

/* The highest is no worse than a loop in float, nor than the vectors beside the tiles. */
static void check_errors(const struct attn_kernels *kernels, enum attn_dtype dtype, int64_t inputs)
{
    static const double limits[ATTN_PRECISION_COUNT][2] = { { 2.5, 20 },
                                                            { 120, 700 },
                                                            { 3e4, 2e5 } };
    fill_product(dtype, inputs, 0);
    const struct errors loop = errors_of(textbook, inputs);
    const struct errors vectors =
        run(attn_kernels_available()[0], dtype, inputs, ATTN_PRECISION_HIGHEST);
    print_message("%d inputs, dtype %d: textbook %.3g (%.3g), vectors %.3g (%.3g)", (int)inputs,
                  (int)dtype, loop.max, loop.mean, vectors.max, vectors.mean);
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        const struct errors errors = run(kernels, dtype, inputs, (enum attn_precision)p);
        print_message(", %s %.3g (%.3g)", attn_precision_name((enum attn_precision)p), errors.max,
                      errors.mean);
        assert_true(errors.mean <= limits[p][0] && errors.max <= limits[p][1]);
        if (p == ATTN_PRECISION_HIGHEST) {
            assert_true(errors.mean <= loop.mean && errors.max <= loop.max);
            assert_true(errors.mean <= vectors.mean);
        }
    }
    print_message("\n");
}

TEST(precisions_hold)
{
    static const int64_t inputs[] = { 64, 768, INPUTS_MAX };
    if (kernel_table_of_model() == NULL)
        skip();
    for (int i = 0; i < 3; i++) {
        check_errors(kernel_table_of_model(), ATTN_BF16, inputs[i]);
        check_errors(kernel_table_of_model(), ATTN_F16, inputs[i]);
    }
}

/* Blocks in fixed point: from 256 inputs on the highest is no worse than a loop in float; of fewer,
 * and beside inputs that are far greater than their neighbours, it is about as exact. */
static void check_blocks(enum attn_dtype dtype, int64_t inputs, int64_t outlier)
{
    const struct attn_kernels *kernels = kernel_tables()[0];
    struct attn_kernels floats = *kernels;
    floats.fixed = NULL;
    fill_product(dtype, inputs, outlier);
    const struct errors loop = errors_of(textbook, inputs);
    const struct errors vectors = run(&floats, dtype, inputs, ATTN_PRECISION_HIGHEST);
    print_message("%d inputs, %s, outliers %d: textbook %.3g (%.3g), floats %.3g (%.3g)",
                  (int)inputs, dtype == ATTN_Q8_0 ? "Q8_0" : "Q4_K", (int)outlier, loop.max,
                  loop.mean, vectors.max, vectors.mean);
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        const struct errors errors = run(kernels, dtype, inputs, (enum attn_precision)p);
        print_message(", %s %.3g (%.3g)", attn_precision_name((enum attn_precision)p), errors.max,
                      errors.mean);
        if (p == ATTN_PRECISION_MEDIUM)
            assert_true(errors.mean <= (outlier > 0 ? 2e5 : 600));
        else
            assert_true(errors.max <= loop.max
                        && errors.mean <= loop.mean * (inputs >= 256 && outlier == 0 ? 1 : 1.75));
    }
    print_message("\n");
}

TEST(precisions_of_blocks_hold)
{
    static const int64_t inputs[] = { 64, 256, 768, INPUTS_MAX };
    if (kernel_tables()[0]->fixed == NULL)
        skip();
    for (int outliers = 0; outliers < 2; outliers++)
        for (int i = 0; i < 4; i++) {
            check_blocks(ATTN_Q8_0, inputs[i], outliers > 0 ? 64 : 0);
            if (inputs[i] % 256 == 0)
                check_blocks(ATTN_Q4_K, inputs[i], outliers > 0 ? 64 : 0);
        }
}

/* --------------------------------------------------------------------------------- layers -- */

enum { COLUMNS = 64, HEADS = 2 };

static void plan_of(struct attn_layer_plan *plan, const struct attn_layer *layer,
                    const struct attn_kernels *kernels, enum attn_precision precision)
{
    static float out[COLUMNS];
    const struct attn_tensor rows = attn_tensor_dense(x, ATTN_F32, 1, 1, 1, COLUMNS);
    struct attn_layer_problem problem = { .layer = layer,
                                          .options = attn_options_default(COLUMNS / HEADS),
                                          .query = rows,
                                          .key = rows,
                                          .value = rows,
                                          .context = out,
                                          .kernels = kernels };
    problem.options.precision = precision;
    assert_int_equal(attn_layer_plan_init(plan, &problem, NULL), ATTN_OK);
}

/* One row is no work for attention's tiles where they must pay, but its projections are. A product
 * is shared by calls of one precision. */
TEST(layers_say_what_they_have)
{
    if (kernel_table_of_model() == NULL)
        skip();
    struct attn_kernels table = *kernel_table_of_model();
    struct attn_matrix_kernels matrix = *table.matrix;
    matrix.takes_small = false;
    table.matrix = &matrix;
    const struct attn_linear linear = {
        .weight = weight, .in = COLUMNS, .out = COLUMNS, .dtype = ATTN_BF16
    };
    struct attn_layer layer = { .q_heads = HEADS,
                                .kv_heads = HEADS,
                                .head_dim = COLUMNS / HEADS,
                                .v_head_dim = COLUMNS / HEADS };
    struct attn_layer_plan plan, other;
    plan_of(&plan, &layer, &table, ATTN_PRECISION_MEDIUM);
    assert_int_equal(attn_layer_precision(&plan), ATTN_PRECISION_HIGHEST);
    layer.o_proj = linear;
    plan_of(&plan, &layer, &table, ATTN_PRECISION_MEDIUM);
    assert_int_equal(attn_layer_precision(&plan), ATTN_PRECISION_MEDIUM);
    layer.q_proj = linear;
    layer.o_proj.weight = NULL;
    plan_of(&plan, &layer, &table, ATTN_PRECISION_MEDIUM);
    assert_int_equal(attn_layer_precision(&plan), ATTN_PRECISION_MEDIUM);
    plan_of(&other, &layer, &table, ATTN_PRECISION_MEDIUM);
    assert_true(attn_layer_runs_together(&plan, &other, 0));
    plan_of(&other, &layer, &table, ATTN_PRECISION_HIGH);
    assert_false(attn_layer_runs_together(&plan, &other, 0));
    layer.q_proj.dtype = ATTN_F32;
    plan_of(&plan, &layer, &table, ATTN_PRECISION_MEDIUM);
    assert_int_equal(attn_layer_precision(&plan), ATTN_PRECISION_HIGHEST);
    layer.q_proj.dtype = ATTN_BF16;
    plan_of(&plan, &layer, attn_kernels_available()[0], ATTN_PRECISION_MEDIUM);
    assert_int_equal(attn_layer_precision(&plan), ATTN_PRECISION_HIGHEST);
}
