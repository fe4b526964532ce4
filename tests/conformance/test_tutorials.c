/* SPDX-License-Identifier: Apache-2.0 */
/* test_tutorials.c - the numbers that well-known tutorials and manuals print.
 *
 * People see these numbers when they learn attention, and newcomers try them first. */
#include "attention_case.h"
#include "test.h"

#include <cblas.h>

static void expect_near(const float *got, const double *want, int count, double tolerance)
{
    for (int i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance))
            fail_msg("[%d] = %.9g, want %.9g", i, (double)got[i], want[i]);
}

/* Four words, matrices used as x @ W: "The Attention Mechanism from Scratch", S. Cristina. */
TEST(tutorial_of_four_words)
{
    static float words[] = { 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1 };
    static const float w_q[] = { 2, 0, 2, 2, 0, 0, 2, 1, 2 };
    static const float w_k[] = { 2, 2, 2, 0, 2, 1, 0, 1, 1 };
    static const float w_v[] = { 1, 1, 0, 0, 1, 1, 0, 0, 0 };
    static const double want[] = { 0.98522025, 1.74174051, 0.75652026, 0.90965265,
                                   1.40965265, 0.5,        0.99851226, 1.75849334,
                                   0.75998108, 0.99560386, 1.90407309, 0.90846923 };
    float context[12];
    const struct attn_layer layer = { 1,
                                      1,
                                      3,
                                      3,
                                      .q_proj = { w_q, NULL, 3, 3, true },
                                      .k_proj = { w_k, NULL, 3, 3, true },
                                      .v_proj = { w_v, NULL, 3, 3, true } };
    struct attn_layer_problem problem = { .layer = &layer, .context = context };
    problem.options = attn_options_default(3);
    problem.query = attn_tensor_dense(words, ATTN_F32, 1, 1, 4, 3);
    problem.key = problem.value = problem.query;
    attention_run_layer(&problem);
    expect_near(context, want, 12, 1e-6);
}

TEST(causal_and_its_mask)
{
    static float query[] = { 1, 0, 0, 0, 1, 0 }, key[] = { 1, 2, 3, 4, 5, 6 };
    static float value[] = { 0, 1, 0, 1, 0, 1 }, mask[] = { 0, -1e9f, 0, 0 };
    static const double want[] = { 0, 1, 0, 0.84967455, 0.15032545, 0.84967455 };
    for (int causal = 0; causal <= 1; causal++) {
        float context[6];
        struct attn_problem problem = { .options = attn_options_default(3) };
        problem.query = attn_tensor_dense(query, ATTN_F32, 1, 1, 2, 3);
        problem.key = attn_tensor_dense(key, ATTN_F32, 1, 1, 2, 3);
        problem.value = attn_tensor_dense(value, ATTN_F32, 1, 1, 2, 3);
        problem.context = attn_tensor_dense(context, ATTN_F32, 1, 1, 2, 3);
        if (causal)
            problem.options.causal = true;
        else
            problem.mask = attn_tensor_dense(mask, ATTN_F32, 1, 1, 2, 2);
        attention_run(&problem);
        expect_near(context, want, 6, 1e-6);
    }
}

/* Masked softmax of "Dive into Deep Learning", section 11.3: equal keys make the context the mean
 * of the values that count. */
TEST(mean_of_valid_values)
{
    static const int64_t kv_len[] = { 2, 6 };
    static const double want[] = { 2, 3, 4, 5, 10, 11, 12, 13 };
    float query[2 * 20], key[20], value[40], context[8];
    struct fill fill = { 11 };
    fill_floats(&fill, query, 40, -1, 1);
    for (int i = 0; i < 20; i++)
        key[i] = 1.0f;
    for (int i = 0; i < 40; i++)
        value[i] = (float)i;
    struct attn_problem problem = { .options = attn_options_default(2), .kv_len = kv_len };
    problem.query = attn_tensor_dense(query, ATTN_F32, 2, 1, 1, 2);
    problem.key = attn_tensor_dense(key, ATTN_F32, 2, 1, 10, 2);
    problem.value = attn_tensor_dense(value, ATTN_F32, 2, 1, 10, 4);
    problem.key.stride[0] = problem.value.stride[0] = 0;
    problem.context = attn_tensor_dense(context, ATTN_F32, 2, 1, 1, 4);
    attention_run(&problem);
    expect_near(context, want, 8, 1e-5);
}

/* Row i of every matrix is filled with i + 1, so a projected row is its sum times 1, 2, ... 10. */
TEST(scores_of_counting_rows)
{
    static const double want[] = { 24349.5379833, 36524.30697494, 48699.07596659 };
    float w[100], zeros[10] = { 0 }, query[10], key[30], scores[3];
    for (int i = 0; i < 100; i++)
        w[i] = (float)(i / 10 + 1);
    for (int i = 0; i < 10; i++)
        query[i] = 1.0f;
    for (int i = 0; i < 30; i++)
        key[i] = (float)(i / 10 + 2);
    const struct attn_linear linear = { .weight = w, .bias = zeros, .out = 10, .in = 10 };
    const struct attn_layer layer = {
        1, 1, 10, 10, .q_proj = linear, .k_proj = linear, .v_proj = linear
    };
    struct attn_layer_problem problem = { .layer = &layer, .scores = scores };
    problem.options = attn_options_default(10);
    problem.query = attn_tensor_dense(query, ATTN_F32, 1, 1, 1, 10);
    problem.key = problem.value = attn_tensor_dense(key, ATTN_F32, 1, 1, 3, 10);
    attention_run_layer(&problem);
    expect_near(scores, want, 3, 0.02); /* half a unit in the last place of 36524 is 0.002 */
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
