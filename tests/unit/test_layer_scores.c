/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_scores.c - the score functions beside the scaled dot product, each against its own
 * formula in double.
 *
 *     general   q W k                        additive   v . tanh(Wq q + Wk k)
 *     concat    v . tanh(W [k; q])           queries and keys of unequal widths
 *
 * The formulas are written out here over the joined or unjoined matrices as a paper has them, so
 * that nothing of how a layer cuts them is taken for granted. */
#include "attention_case.h"
#include "test.h"

#include <cblas.h>

enum { D_QUERY = 5, D_KEY = 9, D_VALUE = 4, P = 11, Q_LEN = 37, KV_LEN = 101 };

struct numbers {
    float query[Q_LEN * D_QUERY], key[KV_LEN * D_KEY], value[KV_LEN * D_VALUE];
    float w_query[P * D_QUERY], w_key[P * D_KEY]; /* [P][in] */
    float w_general[D_QUERY * D_KEY];             /* [D_QUERY][D_KEY] */
    float bias[P], v[P];
    float context[Q_LEN * D_VALUE], scores[Q_LEN * KV_LEN], weights[Q_LEN * KV_LEN], lse[Q_LEN];
};

static struct numbers numbers;

static void fill_all(uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, numbers.query, Q_LEN * D_QUERY, -1, 1);
    fill_floats(&fill, numbers.key, KV_LEN * D_KEY, -1, 1);
    fill_floats(&fill, numbers.value, KV_LEN * D_VALUE, -1, 1);
    fill_floats(&fill, numbers.w_query, P * D_QUERY, -1, 1);
    fill_floats(&fill, numbers.w_key, P * D_KEY, -1, 1);
    fill_floats(&fill, numbers.w_general, D_QUERY * D_KEY, -1, 1);
    fill_floats(&fill, numbers.bias, P, -1, 1);
    fill_floats(&fill, numbers.v, P, -2, 2);
}

static double additive_score(int64_t i, int64_t j)
{
    double score = 0;
    for (int64_t p = 0; p < P; p++) {
        double sum = (double)numbers.bias[p];
        for (int64_t d = 0; d < D_QUERY; d++)
            sum +=
                (double)numbers.w_query[p * D_QUERY + d] * (double)numbers.query[i * D_QUERY + d];
        for (int64_t d = 0; d < D_KEY; d++)
            sum += (double)numbers.w_key[p * D_KEY + d] * (double)numbers.key[j * D_KEY + d];
        score += (double)numbers.v[p] * tanh(sum);
    }
    return score;
}

static double general_score(int64_t i, int64_t j)
{
    double score = 0;
    for (int64_t a = 0; a < D_QUERY; a++)
        for (int64_t b = 0; b < D_KEY; b++)
            score += (double)numbers.query[i * D_QUERY + a]
                     * (double)numbers.w_general[a * D_KEY + b]
                     * (double)numbers.key[j * D_KEY + b];
    return score;
}

static void near(double got, double want, const char *what)
{
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want))))
        fail_msg("%s is %.9g, want %.9g", what, got, want);
}

/* Runs the layer with row-wise lengths. Checks every score, and computes the other expected
 * numbers from the scores. */
static void check_layer(const struct attn_layer *layer, double (*score)(int64_t i, int64_t j))
{
    int64_t lengths[Q_LEN];
    struct attn_layer_problem problem = {
        .layer = layer,
        .options = attn_options_default(1),
        .query = attn_tensor_dense(numbers.query, ATTN_F32, 1, 1, Q_LEN, D_QUERY),
        .key = attn_tensor_dense(numbers.key, ATTN_F32, 1, 1, KV_LEN, D_KEY),
        .value = attn_tensor_dense(numbers.value, ATTN_F32, 1, 1, KV_LEN, D_VALUE),
        .row_kv_len = lengths,
        .context = numbers.context,
        .lse = numbers.lse,
        .scores = numbers.scores,
        .weights = numbers.weights,
    };
    for (int64_t i = 0; i < Q_LEN; i++)
        lengths[i] = 1 + i * 11 % KV_LEN;
    attention_run_layer(&problem);
    for (int64_t i = 0; i < Q_LEN; i++) {
        double sum = 0, context[D_VALUE] = { 0 };
        for (int64_t j = 0; j < KV_LEN; j++)
            near((double)numbers.scores[i * KV_LEN + j], score(i, j), "score");
        for (int64_t j = 0; j < lengths[i]; j++)
            sum += exp(score(i, j));
        near((double)numbers.lse[i], log(sum), "lse");
        for (int64_t j = 0; j < KV_LEN; j++) {
            const double weight = j < lengths[i] ? exp(score(i, j)) / sum : 0;
            near((double)numbers.weights[i * KV_LEN + j], weight, "weight");
            for (int64_t d = 0; d < D_VALUE; d++)
                context[d] += weight * (double)numbers.value[j * D_VALUE + d];
        }
        for (int64_t d = 0; d < D_VALUE; d++)
            near((double)numbers.context[i * D_VALUE + d], context[d], "context");
    }
}

TEST(additive)
{
    fill_all(1);
    const struct attn_layer layer = {
        .q_heads = 1,
        .kv_heads = 1,
        .head_dim = P,
        .v_head_dim = D_VALUE,
        .q_proj = { .weight = numbers.w_query, .bias = numbers.bias, .out = P, .in = D_QUERY },
        .k_proj = { .weight = numbers.w_key, .out = P, .in = D_KEY },
        .additive_weight = numbers.v,
    };
    check_layer(&layer, additive_score);
}

/* [P][D_KEY + D_QUERY], or transposed. */
TEST(concat)
{
    enum { IN = D_KEY + D_QUERY };
    float joined[P * IN];
    fill_all(2);
    for (int in_out = 0; in_out <= 1; in_out++) {
        for (int64_t p = 0; p < P; p++)
            for (int64_t d = 0; d < IN; d++)
                joined[in_out ? d * P + p : p * IN + d] =
                    d < D_KEY ? numbers.w_key[p * D_KEY + d]
                              : numbers.w_query[p * D_QUERY + d - D_KEY];
        const struct attn_linear concat_proj = {
            .weight = joined, .bias = numbers.bias, .out = P, .in = IN, .in_out = in_out == 1
        };
        struct attn_layer layer = {
            .q_heads = 1,
            .kv_heads = 1,
            .head_dim = P,
            .v_head_dim = D_VALUE,
            .additive_weight = numbers.v,
        };
        attn_linear_split(&concat_proj, D_KEY, &layer.k_proj, &layer.q_proj);
        check_layer(&layer, additive_score);
    }
}

TEST(general)
{
    fill_all(3);
    const struct attn_layer layer = {
        .q_heads = 1,
        .kv_heads = 1,
        .head_dim = D_KEY,
        .v_head_dim = D_VALUE,
        .q_proj = { .weight = numbers.w_general, .out = D_KEY, .in = D_QUERY, .in_out = true },
    };
    check_layer(&layer, general_score);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
