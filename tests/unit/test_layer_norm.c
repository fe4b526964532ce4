/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_norm.c - norms of query and key: numbers worked out by hand, changes that a norm
 * must not react to, and what is refused. */
#include "layer_gradient.h"
#include "test.h"

enum { LENGTH = 2, DIM = 2 };

static _Alignas(64) char scratch[4096], workspace[1 << 20];

static void run(const struct attn_layer_problem *problem)
{
    struct attn_layer_plan plan;
    const char *where = "";
    if (attn_layer_plan_init(&plan, problem, &where) != ATTN_OK)
        fail_msg("%s", where);
    assert_true(plan.scratch_bytes <= sizeof scratch && plan.workspace_bytes <= sizeof workspace);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, task, scratch, workspace);
}

static struct attn_layer_problem problem_of(const struct attn_layer *layer, float *query,
                                            float *key)
{
    struct attn_layer_problem problem = {
        .layer = layer,
        .options = attn_options_default(DIM),
        .query = attn_tensor_dense(query, ATTN_F32, 1, 1, LENGTH, DIM),
        .key = attn_tensor_dense(key, ATTN_F32, 1, 1, LENGTH, DIM),
        .value = attn_tensor_dense(key, ATTN_F32, 1, 1, LENGTH, DIM),
    };
    problem.options.scale = 1;
    return problem;
}

/* The mean square of (3, 4) is 12.5 and of (1, 7) is 25. */
TEST(by_hand)
{
    static const float Q_WEIGHT[] = { 1, 2 }, K_WEIGHT[] = { 5, 1 };
    float query[] = { 3, 4, 0, 0 }, key[] = { 1, 7, 7, 1 }, scores[LENGTH * LENGTH];
    struct attn_layer layer = { .q_heads = 1, .kv_heads = 1, .head_dim = DIM, .v_head_dim = DIM };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    problem.scores = scores;
    run(&problem);
    assert_true(scores[0] == 31 && scores[1] == 25 && scores[2] == 0 && scores[3] == 0);

    /* q = (3, 8) / sqrt(12.5 + 3.5) = (0.75, 2) and (0, 0), k = (5, 7) / 5 and (35, 1) / 5. */
    layer.q_norm = (struct attn_norm){ .weight = Q_WEIGHT, .eps = 3.5 };
    layer.k_norm = (struct attn_norm){ .weight = K_WEIGHT, .eps = 0 };
    run(&problem);
    assert_true(fabsf(scores[0] - 3.55f) < 1e-6f && fabsf(scores[1] - 5.65f) < 1e-6f);
    assert_true(scores[2] == 0 && scores[3] == 0);

    layer.k_norm.weight = NULL;
    run(&problem);
    assert_true(scores[0] == 14.75f && scores[1] == 7.25f);
}

/* Values are normed too: (3, 4) * (1, 2) / sqrt(12.5 + 3.5) is what a row that sees it alone gets,
 * also where the layer has no projections. */
TEST(values_by_hand)
{
    static const float WEIGHT[] = { 1, 2 };
    float query[] = { 3, 4, 0, 0 }, context[LENGTH * DIM];
    struct attn_layer layer = { .q_heads = 1, .kv_heads = 1, .head_dim = DIM, .v_head_dim = DIM };
    struct attn_layer_problem problem = problem_of(&layer, query, query);
    problem.options.window_left = problem.options.window_right = 0;
    problem.context = context;
    layer.v_norm = (struct attn_norm){ .weight = WEIGHT, .eps = 3.5 };
    run(&problem);
    assert_true(context[0] == 0.75f && context[1] == 2 && context[2] == 0 && context[3] == 0);
    layer.v_norm.eps = -1;
    struct attn_layer_plan plan;
    const char *where = "";
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, "layer.v_norm.eps");
}

/* What two heads of a query row become, against key rows that pick its numbers one by one. */
static void expect_normed(const struct attn_norm *norm, double projected_max, const double want[4])
{
    enum { HEADS = 2 };
    static const float IDENTITY[] = { 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1 };
    float query[] = { 3, 4, 1, 7 }, key[] = { 1, 0, 1, 0, 0, 1, 0, 1 };
    float scores[HEADS * LENGTH];
    const struct attn_layer layer = {
        .q_heads = HEADS,
        .kv_heads = HEADS,
        .head_dim = DIM,
        .v_head_dim = DIM,
        .q_proj = { .weight = IDENTITY, .out = HEADS * DIM, .in = HEADS * DIM },
        .projected_max = projected_max,
        .q_norm = *norm,
    };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    problem.query = attn_tensor_dense(query, ATTN_F32, 1, 1, 1, HEADS * DIM);
    problem.key = problem.value = attn_tensor_dense(key, ATTN_F32, 1, 1, LENGTH, HEADS * DIM);
    problem.scores = scores;
    run(&problem);
    for (int i = 0; i < HEADS * DIM; i++)
        if (!(fabs((double)scores[i] - want[i]) < 1e-6))
            fail_msg("number %d is %.9g, want %.9g", i, (double)scores[i], want[i]);
}

/* (3, 4, 1, 7) has the mean square 18.75, the mean 3.75 and the variance 4.6875; its heads have the
 * means 3.5 and 4, the variances 0.25 and 9. */
TEST(scopes)
{
    static const float TWO[] = { 1, 2 }, FOUR[] = { 1, 2, -1, 3 }, BIAS[] = { 1, -1, 0.5f, 0 };
    const double row = sqrt(18.75), centred = sqrt(4.6875);
    expect_normed(&(struct attn_norm){ .weight = FOUR, .scope = ATTN_NORM_ROW }, 0,
                  (double[]){ 3 / row, 8 / row, -1 / row, 21 / row });
    expect_normed(&(struct attn_norm){ .weight = FOUR, .scope = ATTN_NORM_ROW, .is_centred = true },
                  0, (double[]){ -0.75 / centred, 0.5 / centred, 2.75 / centred, 9.75 / centred });
    expect_normed(
        &(struct attn_norm){ .weight = FOUR, .scope = ATTN_NORM_HEADS, .is_centred = true }, 0,
        (double[]){ -1, 2, 1, 3 });
    expect_normed(&(struct attn_norm){ FOUR, 0.75, BIAS, ATTN_NORM_HEADS, true }, 0,
                  (double[]){ 0.5, 0, 3 / sqrt(9.75) + 0.5, 9 / sqrt(9.75) });
    expect_normed(&(struct attn_norm){ TWO, 0, BIAS, ATTN_NORM_HEAD, true }, 0,
                  (double[]){ 0, 1, 0, 1 });
    expect_normed(&(struct attn_norm){ .weight = FOUR, .scope = ATTN_NORM_HEADS }, 0,
                  (double[]){ 3 / sqrt(12.5), 8 / sqrt(12.5), -0.2, 4.2 });
    /* Clamped to (3, 3.5, 1, 3.5) before it is normed, or not normed at all. */
    expect_normed(&(struct attn_norm){ .weight = NULL }, 3.5, (double[]){ 3, 3.5, 1, 3.5 });
    expect_normed(&(struct attn_norm){ TWO, 0, NULL, ATTN_NORM_HEAD, true }, 3.5,
                  (double[]){ -1, 2, -1, 2 });
}

/* Keys and values are clamped from both sides. An input without a projection is not clamped. */
TEST(clamped)
{
    static const float MATRIX[] = { 2, 0, 0, -2 };
    float query[] = { 1, 0, 0, 1 }, key[] = { 3, 5, NAN, 1 }, scores[LENGTH * LENGTH];
    float context[LENGTH * DIM];
    const int64_t kv_len = 1;
    struct attn_layer layer = { .q_heads = 1,
                                .kv_heads = 1,
                                .head_dim = DIM,
                                .v_head_dim = DIM,
                                .k_proj = { .weight = MATRIX, .out = DIM, .in = DIM },
                                .v_proj = { .weight = MATRIX, .out = DIM, .in = DIM },
                                .projected_max = 4 };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    problem.scores = scores;
    problem.context = context;
    problem.kv_len = &kv_len;
    run(&problem);
    assert_true(scores[0] == 4 && scores[2] == -4);
    assert_true(context[0] == 4 && context[1] == -4);
    layer.k_proj.weight = NULL;
    run(&problem);
    assert_true(scores[0] == 3 && scores[2] == 5);
}

/* A query (3, 4) at position 1, which turns by 1; its norm has the weights (1, 2), and the mean
 * square of its numbers is 12.5 before and after it turns. Key 0 is (1, 0), key 1 is (0, 1) and
 * turns too. */
TEST(behind_rope)
{
    static const float WEIGHT[] = { 1, 2 };
    const double root = sqrt(12.5), cosine = cos(1.0), sine = sin(1.0);
    for (int follows = 0; follows < 2; follows++) {
        const double y = follows ? 4 : 8; /* what turns is (3, y) */
        const double q[] = { (3 * cosine - y * sine) / root,
                             (follows ? 2 : 1) * (3 * sine + y * cosine) / root };
        float query[] = { 3, 4 }, key[] = { 1, 0, 0, 1 }, scores[LENGTH];
        const struct attn_layer layer = { .q_heads = 1,
                                          .kv_heads = 1,
                                          .head_dim = DIM,
                                          .v_head_dim = DIM,
                                          .q_norm = { .weight = WEIGHT },
                                          .norms_follow_rope = follows,
                                          .rope = { .dim = DIM, .theta = 100 } };
        struct attn_layer_problem problem = problem_of(&layer, query, key);
        problem.query = attn_tensor_dense(query, ATTN_F32, 1, 1, 1, DIM);
        problem.past_len = 1;
        problem.scores = scores;
        run(&problem);
        assert_true(fabs((double)scores[0] - q[0]) < 1e-6);
        assert_true(fabs((double)scores[1] - (q[1] * cosine - q[0] * sine)) < 1e-6);
    }
}

/* Without eps, a factor on its input does not change the result of a norm. */
TEST(law_of_factors)
{
    static const float WEIGHT[] = { 0.5f, -3 };
    float query[] = { 3, 4, 0.1f, -7 }, key[] = { 1, 7, 7, 1 };
    float one[LENGTH * LENGTH], other[LENGTH * LENGTH];
    const struct attn_layer layer = { .q_heads = 1,
                                      .kv_heads = 1,
                                      .head_dim = DIM,
                                      .v_head_dim = DIM,
                                      .q_norm = { .weight = WEIGHT, .eps = 0 },
                                      .k_norm = { .weight = WEIGHT, .eps = 0 },
                                      .rope = { .dim = 2, .theta = 100 } };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    problem.weights = one;
    run(&problem);
    for (int i = 0; i < LENGTH * DIM; i++) {
        query[i] *= 8;
        key[i] *= 0.25f;
    }
    problem.weights = other;
    run(&problem);
    assert_memory_equal(one, other, sizeof one);
}

TEST(refused)
{
    static const float WEIGHT[] = { 1, 1 };
    static const double EPS[] = { -1e-9, (double)NAN, (double)INFINITY };
    float query[LENGTH * DIM] = { 0 }, key[LENGTH * DIM] = { 0 }, context[LENGTH * DIM];
    struct attn_layer layer = { .q_heads = 1, .kv_heads = 1, .head_dim = DIM, .v_head_dim = DIM };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    struct attn_layer_plan plan;
    const char *where = "";
    problem.context = context;
    for (size_t i = 0; i < sizeof EPS / sizeof EPS[0]; i++) {
        layer.q_norm = (struct attn_norm){ .weight = WEIGHT, .eps = EPS[i] };
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, "layer.q_norm.eps");
        layer.q_norm.weight = NULL; /* and then it is not looked at */
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_OK);
        layer.k_norm = (struct attn_norm){ .weight = WEIGHT, .eps = EPS[i] };
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, "layer.k_norm.eps");
        layer.k_norm.weight = NULL;
    }
    layer.k_norm = (struct attn_norm){ .weight = WEIGHT, .scope = (enum attn_norm_scope)3 };
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, "layer.k_norm.scope");
    layer.k_norm.weight = NULL;
    layer.projected_max = -1;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, "layer.projected_max");
    layer.projected_max = 1;
    layer.norms_follow_rope = true;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, "layer.norms_follow_rope");
    layer.norms_follow_rope = false;
    layer.projected_max = 0;
    layer.k_norm = (struct attn_norm){ .weight = WEIGHT, .eps = 0 };
    problem.key.dtype = ATTN_F16;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_DTYPE);
    problem.key.dtype = ATTN_F32;

    /* Gradients of parts that the layer does not have. */
    struct attn_layer_gradient_plan gradient_plan;
    float weight_gradient[DIM];
    struct attn_layer_gradient_problem gradient = { .layer = problem,
                                                    .context_gradient = context,
                                                    .k_norm.bias = weight_gradient };
    assert_int_equal(attn_layer_gradient_plan_init(&gradient_plan, &gradient, &where),
                     ATTN_ERR_NO_DATA);
    assert_string_equal(where, "k_norm");
    gradient.k_norm.bias = NULL;
    gradient.q_norm.weight = weight_gradient;
    assert_int_equal(attn_layer_gradient_plan_init(&gradient_plan, &gradient, &where),
                     ATTN_ERR_NO_DATA);
    assert_string_equal(where, "q_norm");
}
