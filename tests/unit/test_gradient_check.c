/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_check.c - what the plan of a gradient refuses, and the field that it names. */
#include "attention_case.h"
#include "gradient.h"
#include "test.h"

/* A case with its gradients. */
struct gradient_case {
    struct attention_case forward;
    struct attn_gradient_problem problem;
};

static void gradient_case_init(struct gradient_case *c)
{
    static const struct attention_sizes sizes = { 2, 4, 2, 3, 4, 3, 2 };
    memset(c, 0, sizeof *c);
    attention_case_init(&c->forward, &sizes, LAYOUT_DENSE, 51);
    struct attention_case *f = &c->forward;
    c->problem.context_gradient = attention_case_tensor(f, ATTN_F32, LAYOUT_DENSE, 2, 4, 3, 2);
    c->problem.query_gradient = attention_case_tensor(f, ATTN_F32, LAYOUT_DENSE, 2, 4, 3, 3);
    c->problem.key_gradient = attention_case_tensor(f, ATTN_F32, LAYOUT_DENSE, 2, 2, 4, 3);
    c->problem.value_gradient = attention_case_tensor(f, ATTN_F32, LAYOUT_DENSE, 2, 2, 4, 2);
}

static void expect_refused(struct gradient_case *c, enum attn_status status, const char *field)
{
    struct attn_gradient_plan plan;
    const char *where = "";
    c->problem.attention = c->forward.problem;
    assert_int_equal(attn_gradient_plan_init(&plan, &c->problem, &where), status);
    assert_string_equal(where, field);
}

TEST(refused)
{
    struct gradient_case c;
    gradient_case_init(&c);
    const struct attn_gradient_problem good = c.problem;
    expect_refused(&c, ATTN_OK, "");
    c.problem.context_gradient.data = NULL;
    expect_refused(&c, ATTN_ERR_NO_DATA, "context_gradient.data");
    c.problem = good;
    c.problem.context_gradient.shape[3]++;
    expect_refused(&c, ATTN_ERR_SHAPE, "context_gradient.shape[3]");
    c.problem = good;
    c.problem.query_gradient.shape[2]++;
    expect_refused(&c, ATTN_ERR_SHAPE, "query_gradient.shape[2]");
    c.problem = good;
    c.problem.has_forward = true;
    expect_refused(&c, ATTN_ERR_NO_DATA, "attention.context");
    attention_case_outputs(&c.forward, OUT_CONTEXT, LAYOUT_DENSE);
    expect_refused(&c, ATTN_ERR_NO_DATA, "attention.lse");
    attention_case_outputs(&c.forward, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
    expect_refused(&c, ATTN_OK, "");
    c.forward.problem.lse.dtype = ATTN_F16;
    expect_refused(&c, ATTN_ERR_DTYPE, "attention.lse.dtype");
    c.forward.problem.context.dtype = ATTN_BF16;
    expect_refused(&c, ATTN_ERR_DTYPE, "attention.context.dtype");
    attention_case_outputs(&c.forward, 0, LAYOUT_DENSE);
    c.problem = good;
    c.problem.key_gradient.dtype = ATTN_F16;
    expect_refused(&c, ATTN_ERR_DTYPE, "key_gradient.dtype");
    c.problem = good;
    c.forward.problem.value.dtype = ATTN_BF16;
    expect_refused(&c, ATTN_ERR_DTYPE, "value.dtype");
    c.forward.problem.value.dtype = ATTN_F32;
    c.problem.value_gradient.stride[1] = 0;
    expect_refused(&c, ATTN_ERR_STRIDE, "value_gradient.stride[1]");
    c.problem = good;
    c.problem.mask_gradient = c.problem.query_gradient;
    expect_refused(&c, ATTN_ERR_NO_DATA, "attention.mask.data");
    unsigned char allowed = 1;
    c.forward.problem.mask = attn_tensor_dense(&allowed, ATTN_BOOL, 1, 1, 1, 1);
    expect_refused(&c, ATTN_ERR_DTYPE, "attention.mask.dtype");
    c.problem.mask_gradient.data = NULL;
    c.forward.problem.mask.dtype = ATTN_F16;
    expect_refused(&c, ATTN_ERR_DTYPE, "attention.mask.dtype");
    c.forward.problem.mask.data = NULL;
    c.forward.problem.options.softmax_precision = ATTN_F64;
    expect_refused(&c, ATTN_ERR_OPTION, "attention.options.softmax_precision");
    c.forward.problem.options.scale = NAN;
    expect_refused(&c, ATTN_ERR_OPTION, "options.scale");
    attention_case_free(&c.forward);
}

/* Gradients of parts that the problem does not have. */
TEST(refused_lists)
{
    const float numbers[4] = { 0 };
    float gradient[4];
    struct gradient_case c;
    gradient_case_init(&c);
    struct attn_problem *attention = &c.forward.problem;
    const struct attn_gradient_problem good = c.problem;
    c.problem.additive_weight_gradient = gradient;
    expect_refused(&c, ATTN_ERR_NO_DATA, "attention.additive_weight");
    attention->additive_weight = numbers;
    expect_refused(&c, ATTN_OK, "");
    c.problem = good;
    c.problem.alibi_slopes_gradient = gradient;
    expect_refused(&c, ATTN_ERR_NO_DATA, "attention.alibi_slopes");
    attention->alibi_slopes = numbers;
    expect_refused(&c, ATTN_OK, "");
    c.problem = good;
    c.problem.sinks_gradient = gradient;
    expect_refused(&c, ATTN_ERR_NO_DATA, "attention.sinks");
    attention->sinks = numbers;
    expect_refused(&c, ATTN_OK, "");
    attention_case_free(&c.forward);
}
