/* test_layer_norm.c - norms of query and key: numbers worked by hand, what a norm cannot see, and
 * what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_gradient.h"

#include <math.h>
#include <string.h>

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
static void test_by_hand(void **state)
{
    static const float Q_WEIGHT[] = { 1, 2 }, K_WEIGHT[] = { 5, 1 };
    float query[] = { 3, 4, 0, 0 }, key[] = { 1, 7, 7, 1 }, scores[LENGTH * LENGTH];
    struct attn_layer layer = { .q_heads = 1, .kv_heads = 1, .head_dim = DIM, .v_head_dim = DIM };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    (void)state;
    problem.scores = scores;
    run(&problem);
    assert_true(scores[0] == 31 && scores[1] == 25 && scores[2] == 0 && scores[3] == 0);

    /* q = (3, 8) / sqrt(12.5 + 3.5) = (0.75, 2) and (0, 0), k = (5, 7) / 5 and (35, 1) / 5. */
    layer.q_norm = (struct attn_norm){ Q_WEIGHT, 3.5 };
    layer.k_norm = (struct attn_norm){ K_WEIGHT, 0 };
    run(&problem);
    assert_true(fabsf(scores[0] - 3.55f) < 1e-6f && fabsf(scores[1] - 5.65f) < 1e-6f);
    assert_true(scores[2] == 0 && scores[3] == 0);

    layer.k_norm.weight = NULL;
    run(&problem);
    assert_true(scores[0] == 14.75f && scores[1] == 7.25f);
}

/* Without eps a norm sees no factor. */
static void test_law_of_factors(void **state)
{
    static const float WEIGHT[] = { 0.5f, -3 };
    float query[] = { 3, 4, 0.1f, -7 }, key[] = { 1, 7, 7, 1 };
    float one[LENGTH * LENGTH], other[LENGTH * LENGTH];
    const struct attn_layer layer = { .q_heads = 1,
                                      .kv_heads = 1,
                                      .head_dim = DIM,
                                      .v_head_dim = DIM,
                                      .q_norm = { WEIGHT, 0 },
                                      .k_norm = { WEIGHT, 0 },
                                      .rope = { .dim = 2, .theta = 100 } };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    (void)state;
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

static void test_refused(void **state)
{
    static const float WEIGHT[] = { 1, 1 };
    static const double EPS[] = { -1e-9, (double)NAN, (double)INFINITY };
    float query[LENGTH * DIM] = { 0 }, key[LENGTH * DIM] = { 0 }, context[LENGTH * DIM];
    struct attn_layer layer = { .q_heads = 1, .kv_heads = 1, .head_dim = DIM, .v_head_dim = DIM };
    struct attn_layer_problem problem = problem_of(&layer, query, key);
    struct attn_layer_plan plan;
    const char *where = "";
    (void)state;
    problem.context = context;
    for (size_t i = 0; i < sizeof EPS / sizeof EPS[0]; i++) {
        layer.q_norm = (struct attn_norm){ WEIGHT, EPS[i] };
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, "layer.q_norm.eps");
        layer.q_norm.weight = NULL; /* and then it is not looked at */
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_OK);
        layer.k_norm = (struct attn_norm){ WEIGHT, EPS[i] };
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, "layer.k_norm.eps");
        layer.k_norm.weight = NULL;
    }
    layer.k_norm = (struct attn_norm){ WEIGHT, 0 };
    problem.key.dtype = ATTN_F16;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_DTYPE);
    problem.key.dtype = ATTN_F32;

    struct attn_layer_gradient_plan gradient_plan;
    const struct attn_layer_gradient_problem gradient = { .layer = problem,
                                                          .context_gradient = context };
    assert_int_equal(attn_layer_gradient_plan_init(&gradient_plan, &gradient, &where),
                     ATTN_ERR_OPTION);
    assert_string_equal(where, "layer.layer.k_norm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_law_of_factors),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
