/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_dtypes.c - a layer without parameters takes and gives every dtype of attn.h, and
 * then equals attention itself. A layer that itself computes in float takes F32 alone. */
#include "attention_case.h"
#include "layer.h"
#include "number.h"
#include "test.h"

static const enum attn_dtype DTYPES[] = { ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16 };
enum { DTYPE_COUNT = 4 };

static const struct attention_sizes SIZES = { 1, 4, 2, 37, 70, 12, 9 };

static const struct attn_layer PLAIN = {
    .q_heads = 4, .kv_heads = 2, .head_dim = 12, .v_head_dim = 9
};

/* F32 numbers in another dtype. */
static struct attn_tensor recast(struct attention_case *c, const struct attn_tensor *tensor,
                                 enum attn_dtype dtype)
{
    const int64_t *shape = tensor->shape;
    const struct attn_tensor copy =
        attention_case_tensor(c, dtype, LAYOUT_DENSE, shape[0], shape[1], shape[2], shape[3]);
    for (int64_t h = 0; h < shape[1]; h++)
        for (int64_t l = 0; l < shape[2]; l++)
            for (int64_t d = 0; d < shape[3]; d++)
                number_put(&copy, 0, h, l, d, number_at(tensor, 0, h, l, d));
    return copy;
}

static void make_case(struct attention_case *c, enum attn_dtype input, enum attn_dtype output)
{
    const int64_t h = SIZES.q_heads, q = SIZES.q_len, k = SIZES.kv_len;
    attention_case_init(c, &SIZES, LAYOUT_DENSE, 17);
    struct attn_problem *problem = &c->problem;
    problem->options.causal = true;
    problem->query = recast(c, &problem->query, input);
    problem->key = recast(c, &problem->key, input);
    problem->value = recast(c, &problem->value, input);
    problem->context = attention_case_tensor(c, output, LAYOUT_DENSE, 1, h, q, SIZES.v_head_dim);
    problem->lse = attention_case_tensor(
        c, attn_dtype_size(output) < attn_dtype_size(ATTN_F32) ? ATTN_F32 : output, LAYOUT_DENSE, 1,
        h, q, 1);
    problem->scores = attention_case_tensor(c, output, LAYOUT_DENSE, 1, h, q, k);
    problem->masked = attention_case_tensor(c, output, LAYOUT_DENSE, 1, h, q, k);
    problem->weights = attention_case_tensor(c, output, LAYOUT_DENSE, 1, h, q, k);
}

/* The same call of a layer, its outputs in fresh memory. */
static struct attn_layer_problem layer_problem(struct attention_case *c,
                                               const struct attn_layer *layer)
{
    const struct attn_problem *from = &c->problem;
    struct attn_layer_problem problem = {
        .layer = layer,
        .options = from->options,
        .query = from->query,
        .key = from->key,
        .value = from->value,
        .partial = true, /* the context by heads, as attention has it */
        .output_dtype = from->context.dtype,
    };
    void **const outputs[] = { &problem.context, &problem.lse, &problem.scores, &problem.masked,
                               &problem.weights };
    const struct attn_tensor *const sizes[] = { &from->context, &from->lse, &from->scores,
                                                &from->masked, &from->weights };
    for (int i = 0; i < 5; i++)
        *outputs[i] = attention_case_alloc(
            c, (size_t)(sizes[i]->shape[1] * sizes[i]->shape[2] * sizes[i]->shape[3])
                   * attn_dtype_size(sizes[i]->dtype));
    return problem;
}

static void expect_equal(const void *got, const struct attn_tensor *want)
{
    const int64_t count = want->shape[1] * want->shape[2] * want->shape[3];
    assert_memory_equal(got, want->data, (size_t)count * attn_dtype_size(want->dtype));
}

TEST(plain)
{
    for (int in = 0; in < DTYPE_COUNT; in++)
        for (int out = 0; out < DTYPE_COUNT; out++) {
            struct attention_case c;
            make_case(&c, DTYPES[in], DTYPES[out]);
            const struct attn_layer_problem problem = layer_problem(&c, &PLAIN);
            attention_run(&c.problem);
            attention_run_layer(&problem);
            expect_equal(problem.context, &c.problem.context);
            expect_equal(problem.lse, &c.problem.lse);
            expect_equal(problem.scores, &c.problem.scores);
            expect_equal(problem.masked, &c.problem.masked);
            expect_equal(problem.weights, &c.problem.weights);
            attention_case_free(&c);
        }
}

/* The rows are not cut into heads, neither in the inputs nor in the outputs. */
TEST(rows)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct attention_case c;
        make_case(&c, DTYPES[dtype], DTYPES[dtype]);
        struct attn_problem *attention = &c.problem;
        struct attn_layer_problem problem = layer_problem(&c, &PLAIN);
        problem.query = attn_tensor_dense(problem.query.data, DTYPES[dtype], 1, 1, SIZES.q_len,
                                          PLAIN.q_heads * PLAIN.head_dim);
        problem.partial = false;
        attention->query =
            attn_tensor_rows(attention->query.data, DTYPES[dtype], 1, PLAIN.q_heads, SIZES.q_len,
                             PLAIN.head_dim, PLAIN.q_heads * PLAIN.head_dim);
        attention->context =
            attn_tensor_rows(attention->context.data, DTYPES[dtype], 1, PLAIN.q_heads, SIZES.q_len,
                             PLAIN.v_head_dim, PLAIN.q_heads * PLAIN.v_head_dim);
        attention_run(attention);
        attention_run_layer(&problem);
        expect_equal(problem.context, &attention->context);
        attention_case_free(&c);
    }
}

static void expect_refused(const struct attn_layer_problem *problem, const char *field)
{
    struct attn_layer_plan plan;
    const char *where = "";
    assert_int_equal(attn_layer_plan_init(&plan, problem, &where), ATTN_ERR_DTYPE);
    assert_string_equal(where, field);
}

TEST(refused)
{
    struct attention_case c;
    make_case(&c, ATTN_F32, ATTN_F32);
    float numbers[36 * 36] = { 0 };
    struct attn_layer layer = PLAIN;
    struct attn_layer_problem problem = layer_problem(&c, &layer);
    problem.output_dtype = ATTN_BOOL;
    expect_refused(&problem, "output_dtype");
    problem.output_dtype = ATTN_F64;
    problem.partial = false;
    layer.o_proj = (struct attn_linear){ .weight = numbers, .out = 36, .in = 36 };
    expect_refused(&problem, "output_dtype");
    problem.output_dtype = ATTN_F32;
    problem.value.dtype = ATTN_BOOL;
    expect_refused(&problem, "value.dtype");
    problem.value.dtype = ATTN_F32;
    layer.rope = (struct attn_rope){ .dim = 4, .theta = 10000 };
    problem.key.dtype = ATTN_F16;
    expect_refused(&problem, "key.dtype");
    problem.key.dtype = ATTN_F32;
    problem.query.dtype = ATTN_F64;
    expect_refused(&problem, "query.dtype");
    problem.query.dtype = ATTN_F32;
    layer.v_proj = (struct attn_linear){ .weight = numbers, .out = 18, .in = 18 };
    problem.value =
        attn_tensor_dense(problem.value.data, ATTN_BF16, 1, 1, SIZES.kv_len, layer.v_proj.in);
    expect_refused(&problem, "value.dtype");
    attention_case_free(&c);
}
