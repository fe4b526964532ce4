/* SPDX-License-Identifier: Apache-2.0 */
/* test_blocks.c - weights in blocks, through the library's functions: products with gates and
 * activations, in tasks, split, and in a layer, have the bits of the same numbers in F32, or those
 * of fixed point (tests/kernels/test_kernels_fixed.c), which are near. A row has the bits that it
 * has alone. Rows of a table have the bits of F32. What has no blocks refuses them. */
#include "blocks.h"
#include "kernel_tables.h"
#include "layer_gradient.h"
#include "quantize.h"
#include "rows.h"
#include "test.h"

#include "kernels/kernels.h"

#include <math.h>

enum { ROWS_MAX = 70, IN_MAX = 1024, OUT_MAX = 300, NUMBERS_MAX = IN_MAX * OUT_MAX };

/* Two matrices, in blocks and as floats. */
static struct {
    uint8_t blocks[2][2 * NUMBERS_MAX];
    float floats[2][NUMBERS_MAX], bias[2][OUT_MAX];
    float x[ROWS_MAX * IN_MAX], got[ROWS_MAX * IN_MAX], want[ROWS_MAX * IN_MAX];
} data;

static void fill_data(int index)
{
    struct fill fill = { (uint64_t)index };
    const enum attn_dtype dtype = blocks_dtype(index);
    const int64_t count = NUMBERS_MAX / attn_block_numbers(dtype);

    for (int i = 0; i < 2; i++) {
        blocks_fill(&fill, index, count, data.blocks[i]);
        attn_unpack(dtype, data.blocks[i], count, data.floats[i]);
        fill_floats(&fill, data.bias[i], OUT_MAX, -1, 1);
    }
    fill_floats(&fill, data.x, ROWS_MAX * IN_MAX, -1e-3f, 1e-3f);
}

static struct attn_linear linear_of(int i, enum attn_dtype dtype, int64_t in, int64_t out)
{
    const bool is_floats = dtype == ATTN_F32;

    return (struct attn_linear){
        .weight = is_floats ? (const void *)data.floats[i] : data.blocks[i],
        .bias = data.bias[i],
        .out = out,
        .in = in,
        .dtype = dtype,
    };
}

/* ---------------------------------------------------------------------------- products -- */

static void run(const struct attn_product *product)
{
    void *workspace = aligned_alloc(64, (attn_product_workspace_bytes(product) + 63) / 64 * 64);
    const char *where = "";

    assert_non_null(workspace);
    if (attn_product_check(product, &where) != ATTN_OK)
        fail_msg("refused: %s", where);
    for (int64_t task = attn_product_tasks(product); task-- > 0;)
        attn_product_run(product, task, workspace);
    free(workspace);
}

/* Products without a gate in fixed point are within this of those of floats: 2^-21 of the greatest
 * input times the weights, each as great as the greatest of its 32, which may be a difference. */
static void expect_near(int64_t rows, int64_t in, int64_t out)
{
    for (int64_t o = 0; o < out; o++) {
        double sum = 4 * fabs((double)data.bias[0][o]); /* roundings of groups */
        for (int64_t g = 0; g < in; g += 32) {
            double most = 0;
            for (int64_t i = g; i < g + 32; i++)
                most = fmax(most, fabs((double)data.floats[0][o * in + i]));
            sum += 32 * most * 1e-3;
        }
        for (int64_t r = 0; r < rows; r++) {
            const double got = (double)data.got[r * out + o], want = (double)data.want[r * out + o];
            assert_true(fabs(got - want) <= sum * 0x1p-21);
        }
    }
}

static void check_product(const struct attn_kernels *kernels, int index, int64_t rows, int64_t in,
                          int64_t out, bool has_gate)
{
    const enum attn_dtype dtype = blocks_dtype(index);
    const struct attn_linear blocks = linear_of(0, dtype, in, out),
                             gate = linear_of(1, dtype, in, out);
    const struct attn_linear floats = linear_of(0, ATTN_F32, in, out);
    const struct attn_linear float_gate = linear_of(1, ATTN_F32, in, out);
    struct attn_product product = {
        .linear = &blocks,
        .gate = has_gate ? &gate : NULL,
        .activation = has_gate ? ATTN_SILU : ATTN_NO_ACTIVATION,
        .x = data.x,
        .x_stride = IN_MAX,
        .y = data.got,
        .y_stride = out,
        .row_count = rows,
        .kernels = kernels,
    };

    run(&product);
    product.linear = &floats;
    product.gate = has_gate ? &float_gate : NULL;
    product.y = data.want;
    run(&product);
    if (kernels->fixed != NULL) {
        if (!has_gate)
            expect_near(rows, in, out);
        return;
    }
    if (memcmp(data.got, data.want, (size_t)(rows * out) * sizeof(float)) != 0)
        fail_msg("%s, %s: %d rows, %d x %d differ", attn_kernels_name(kernels), blocks_name(index),
                 (int)rows, (int)out, (int)in);
}

TEST(a_product_has_the_bits_of_floats)
{
    static const int64_t outs[] = { 1, 63, 256, 300 };

    for (int d = 0; d < BLOCKS_DTYPES; d++) {
        const int64_t block = attn_block_numbers(blocks_dtype(d));
        fill_data(d);
        for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
            for (int64_t rows = 1; rows <= 65; rows += rows < 10 ? 1 : 5)
                check_product(*k, d, rows,
                              block == 32 ? 32 * (1 + rows * 5 % 32) : 512 + rows % 3 * 256,
                              outs[(rows + d) % 4], rows % 2 == 0);
    }
}

/* With a gate as well; one input in the middle is not finite, or too great for fixed point. */
TEST(a_row_has_the_bits_that_it_has_alone)
{
    enum { ROWS = 37, IN = 512, OUT = 70 };
    static const float odd[] = { INFINITY, NAN, 0x1p70f, 0x1p-70f };

    for (int d = 0; d < BLOCKS_DTYPES; d++)
        for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++) {
            fill_data(d);
            const struct attn_linear linear = linear_of(0, blocks_dtype(d), IN, OUT);
            const struct attn_linear gate = linear_of(1, blocks_dtype(d), IN, OUT);
            data.x[20 * IN_MAX + 100] = odd[d % 4];
            if (d % 4 == 3)
                for (int i = 0; i < IN; i++)
                    data.x[20 * IN_MAX + i] *= 0x1p-70f;
            struct attn_product product = { .linear = &linear,
                                            .gate = d % 2 == 0 ? &gate : NULL,
                                            .activation = ATTN_SILU,
                                            .x = data.x,
                                            .x_stride = IN_MAX,
                                            .y = data.got,
                                            .y_stride = OUT,
                                            .row_count = ROWS,
                                            .kernels = *k,
                                            .precision =
                                                (enum attn_precision)(d % ATTN_PRECISION_COUNT) };
            run(&product);
            product.row_count = 1;
            product.y = data.want;
            for (int r = 0; r < ROWS; r++, product.x += IN_MAX, product.y += OUT)
                run(&product);
            for (int i = 0; i < ROWS * OUT; i++)
                assert_true(memcmp(&data.got[i], &data.want[i], sizeof(float)) == 0
                            || (isnan(data.got[i]) && isnan(data.want[i])));
        }
}

/* The halves of a matrix, whole blocks, are two matrices with a stride. */
TEST(a_split_product_has_the_bits_of_floats)
{
    const struct attn_kernels *kernels = &attn_kernels_generic;

    for (int d = 0; d < BLOCKS_DTYPES; d++) {
        const struct attn_linear whole[] = { linear_of(0, blocks_dtype(d), 1024, 40),
                                             linear_of(0, ATTN_F32, 1024, 40) };
        struct attn_linear half[2][2];
        fill_data(d);
        for (int i = 0; i < 2; i++)
            attn_linear_split(&whole[i], 256, &half[i][0], &half[i][1]);
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < 2; i++)
                run(&(struct attn_product){ .linear = &half[i][side],
                                            .x = data.x,
                                            .x_stride = IN_MAX,
                                            .y = i == 0 ? data.got : data.want,
                                            .y_stride = 40,
                                            .row_count = 9,
                                            .kernels = kernels });
            assert_memory_equal(data.got, data.want, 9 * 40 * sizeof(float));
        }
    }
}

/* ---------------------------------------------------------------------- rows of a table -- */

TEST(rows_are_gathered)
{
    static const int64_t numbers[] = { 7, 0, 3, 3, 299 };
    struct attn_rows_table table = { .columns = 768 };

    for (int d = 0; d < BLOCKS_DTYPES; d++) {
        fill_data(d);
        for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
            for (int adds = 0; adds < 2; adds++) {
                memcpy(data.got, data.x, sizeof data.x);
                memcpy(data.want, data.x, sizeof data.x);
                table.rows = data.blocks[0], table.dtype = blocks_dtype(d);
                attn_rows_gather(*k, &table, numbers, 5, 3, adds, data.got, IN_MAX);
                table.rows = data.floats[0], table.dtype = ATTN_F32;
                attn_rows_gather(*k, &table, numbers, 5, 3, adds, data.want, IN_MAX);
                assert_memory_equal(data.got, data.want, sizeof data.got);
            }
    }
}

/* ------------------------------------------------------------------------------- a layer -- */

enum { D_MODEL = 256, HEADS = 4, HEAD_DIM = 64, Q_LEN = 11 };

static struct attn_layer layer_of(enum attn_dtype dtype)
{
    return (struct attn_layer){
        .q_heads = HEADS,
        .kv_heads = HEADS,
        .head_dim = HEAD_DIM,
        .v_head_dim = HEAD_DIM,
        .q_proj = linear_of(0, dtype, D_MODEL, HEADS * HEAD_DIM),
        .k_proj = linear_of(1, dtype, D_MODEL, HEADS * HEAD_DIM),
        .v_proj = linear_of(0, dtype, D_MODEL, HEADS * HEAD_DIM),
        .o_proj = linear_of(1, dtype, HEADS * HEAD_DIM, OUT_MAX),
    };
}

static struct attn_layer_problem problem_of(const struct attn_layer *layer,
                                            const struct attn_kernels *kernels, float *context)
{
    const struct attn_tensor x = attn_tensor_dense(data.x, ATTN_F32, 1, 1, Q_LEN, D_MODEL);

    return (struct attn_layer_problem){ .layer = layer,
                                        .options = attn_options_default(HEAD_DIM),
                                        .query = x,
                                        .key = x,
                                        .value = x,
                                        .context = context,
                                        .kernels = kernels };
}

static void run_layer(enum attn_dtype dtype, const struct attn_kernels *kernels, float *context)
{
    const struct attn_layer layer = layer_of(dtype);
    const struct attn_layer_problem problem = problem_of(&layer, kernels, context);
    struct attn_layer_plan plan;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, NULL), ATTN_OK);
    void *scratch = aligned_alloc(64, (plan.scratch_bytes + 127) / 64 * 64);
    void *workspace = aligned_alloc(64, (plan.workspace_bytes + 127) / 64 * 64);

    assert_non_null(scratch);
    assert_non_null(workspace);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, task, scratch, workspace);
    free(scratch);
    free(workspace);
}

TEST(a_layer_has_the_bits_of_floats)
{
    for (int d = 0; d < BLOCKS_DTYPES; d++) {
        fill_data(d);
        for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++) {
            run_layer(blocks_dtype(d), *k, data.got);
            run_layer(ATTN_F32, *k, data.want);
            if ((*k)->fixed == NULL)
                assert_memory_equal(data.got, data.want, Q_LEN * OUT_MAX * sizeof(float));
            for (int64_t i = 0; i < Q_LEN * OUT_MAX; i++)
                assert_true(isfinite(data.want[i]));
        }
    }
}

/* ----------------------------------------------------------------------------- refused -- */

static void expect_refused(const struct attn_product *product, enum attn_status status,
                           const char *field)
{
    const char *where = "";
    assert_int_equal(attn_product_check(product, &where), status);
    assert_string_equal(where, field);
}

TEST(a_product_is_refused)
{
    struct attn_linear bad = linear_of(0, ATTN_Q4_K, 512, 10);
    const struct attn_product product = { .linear = &bad,
                                          .x = data.x,
                                          .x_stride = IN_MAX,
                                          .y = data.got,
                                          .y_stride = IN_MAX,
                                          .row_count = 1,
                                          .kernels = attn_kernels_available()[0] };
    assert_int_equal(attn_product_check(&product, NULL), ATTN_OK);
    bad.in_out = true;
    expect_refused(&product, ATTN_ERR_DTYPE, "linear.dtype");
    bad.in_out = false, bad.in = 384;
    expect_refused(&product, ATTN_ERR_SHAPE, "linear.in");
    bad.in = 512, bad.stride = 640;
    expect_refused(&product, ATTN_ERR_STRIDE, "linear.stride");
    bad.stride = 768;
    assert_int_equal(attn_product_check(&product, NULL), ATTN_OK);
    bad.dtype = (enum attn_dtype)(ATTN_MXFP4 + 1);
    expect_refused(&product, ATTN_ERR_DTYPE, "linear.dtype");
}

static void expect_layer_refused(const struct attn_layer *layer, enum attn_status status,
                                 const char *field)
{
    const struct attn_layer_problem problem =
        problem_of(layer, attn_kernels_available()[0], data.got);
    struct attn_layer_plan plan;
    const char *where = "";
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), status);
    assert_string_equal(where, field);
}

TEST(a_layer_is_refused)
{
    struct attn_layer layer = layer_of(ATTN_Q4_K);
    layer.k_proj.in_out = true;
    expect_layer_refused(&layer, ATTN_ERR_DTYPE, "layer.k_proj");
    layer = layer_of(ATTN_Q4_K), layer.v_proj.stride = 300;
    expect_layer_refused(&layer, ATTN_ERR_STRIDE, "layer.v_proj");
    layer = layer_of(ATTN_Q4_K), layer.o_proj.in_out = true;
    expect_layer_refused(&layer, ATTN_ERR_DTYPE, "layer.o_proj.dtype");
    layer = layer_of(ATTN_Q4_K), layer.o_proj.stride = 300;
    expect_layer_refused(&layer, ATTN_ERR_STRIDE, "layer.o_proj.stride");
    layer = layer_of(ATTN_Q4_K), layer.v_head_dim = 96, layer.v_proj.out = layer.o_proj.in = 384;
    expect_layer_refused(&layer, ATTN_ERR_SHAPE, "layer.o_proj.in");
}

/* A gradient goes through a projection by its inputs, which blocks do not have. */
TEST(a_gradient_is_refused)
{
    const struct attn_layer layer = layer_of(ATTN_Q8_0);
    static float d_out[Q_LEN * OUT_MAX];
    const struct attn_layer_gradient_problem problem = {
        .layer = problem_of(&layer, attn_kernels_available()[0], data.got),
        .context_gradient = d_out,
    };
    struct attn_layer_gradient_plan plan;
    const char *where = "";
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &problem, &where), ATTN_ERR_DTYPE);
    assert_string_equal(where, "q_proj");
}

/* Tensors of attention have numbers, not blocks. */
TEST(attention_is_refused)
{
    for (int d = 0; d < BLOCKS_DTYPES; d++) {
        struct attn_problem problem = { .options = attn_options_default(HEAD_DIM) };
        struct attn_plan plan;
        const char *where = "";
        problem.query = attn_tensor_dense(data.x, ATTN_F32, 1, 1, 2, 256);
        problem.key = attn_tensor_dense(data.blocks, blocks_dtype(d), 1, 1, 2, 256);
        problem.value = problem.query;
        problem.context = attn_tensor_dense(data.got, ATTN_F32, 1, 1, 2, 256);
        assert_int_equal(attn_plan_init(&plan, &problem, &where), ATTN_ERR_DTYPE);
        assert_string_equal(where, "key.dtype");
        assert_int_equal(attn_dtype_size(blocks_dtype(d)), 0);
    }
    assert_int_equal(attn_block_numbers(ATTN_BF16), 1);
    assert_int_equal(attn_block_bytes(ATTN_BF16), 2);
    assert_ptr_equal(attn_number_at(data.floats, ATTN_F32, 3), (const char *)data.floats + 12);
    assert_ptr_equal(attn_number_at(data.blocks, ATTN_Q6_K, 600), (const char *)data.blocks + 420);
}
