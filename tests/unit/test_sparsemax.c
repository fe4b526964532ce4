/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparsemax.c - sparsemax weights: published numbers, the paper's properties, and the search
 * for a threshold where rounding is at its worst. */
#include "fill.h"
#include "forward/sparsemax.h"
#include "test.h"

enum { KEYS_MAX = 5000 };

/* weights = sparsemax(scores) of one row; returns the rounds it took. */
static int sparsemax(const float *scores, float *weights, int64_t n, float sink)
{
    struct attn_threshold row;
    float max = sink;
    int rounds = 0;
    for (int64_t j = 0; j < n; j++)
        max = fmaxf(max, scores[j]);
    attn_threshold_init(&row, max, sink);
    do {
        attn_threshold_add(&row, 1, scores, n, 1);
        rounds++;
    } while (attn_threshold_improve(&row));
    for (int64_t j = 0; j < n; j++)
        weights[j] = scores[j];
    attn_sparsemax_row(&row, weights, n, 1);
    return rounds;
}

/* The example on the page of the entmax package, and pairs worked out from the paper's equation
 * 3: for two scores t and 0, the first has the weight (1 + t) / 2, kept between 0 and 1. */
TEST(published)
{
    const float scores[3] = { -2.0f, 0.0f, 0.5f };
    float weights[3];
    sparsemax(scores, weights, 3, -INFINITY);
    assert_true(weights[0] == 0.0f && weights[1] == 0.25f && weights[2] == 0.75f);
    for (float t = -1.5f; t <= 1.5f; t += 0.25f) {
        const float pair[2] = { t, 0.0f };
        sparsemax(pair, weights, 2, -INFINITY);
        const float want = t < -1 ? 0.0f : t > 1 ? 1.0f : (1 + t) / 2;
        assert_true(weights[0] == want && weights[1] == 1 - want);
    }
}

static double sum_of(const float *weights, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)weights[j];
    return sum;
}

/* The weights lie on the simplex. Scores and weights have the same order. Where two weights are
 * not 0, they differ as their scores do (the paper's proposition 2 and equation 3). It takes few
 * rounds. */
TEST(properties)
{
    static float scores[KEYS_MAX], weights[KEYS_MAX];
    static const float widths[] = { 0.0f, 1e-6f, 0.01f, 1.0f, 30.0f, 1e5f };
    struct fill fill = { 17 };
    for (int round = 0; round < 120; round++) {
        const int64_t n = 1 + fill_below(&fill, round % 10 == 0 ? KEYS_MAX : 60);
        const float width = widths[round % 6], shift = fill_float(&fill, -1e3f, 1e3f);
        for (int64_t j = 0; j < n; j++)
            scores[j] = shift + fill_float(&fill, -width, width);
        assert_true(sparsemax(scores, weights, n, -INFINITY) <= 40);
        assert_true(fabs(sum_of(weights, n) - 1) < 1e-6);
        for (int64_t j = 1; j < n; j++) {
            const double apart = (double)scores[j] - (double)scores[j - 1];
            const double between = (double)weights[j] - (double)weights[j - 1];
            assert_true(weights[j] >= 0 && apart * between >= 0);
            if (weights[j] > 0 && weights[j - 1] > 0)
                assert_true(fabs(apart - between) < 1e-7);
        }
    }
}

/* The gaps between scores fall by a factor, so each round leaves out only few of them. */
TEST(slow_rows)
{
    static float scores[KEYS_MAX], weights[KEYS_MAX];
    for (double factor = 0.3; factor < 1; factor += 0.0999) {
        double gap = 1;
        for (int64_t j = 0; j < KEYS_MAX; j++, gap *= factor)
            scores[j] = (float)-gap;
        assert_true(sparsemax(scores, weights, KEYS_MAX, -INFINITY) <= 40);
        assert_true(fabs(sum_of(weights, KEYS_MAX) - 1) < 1e-5);
    }
}

TEST(sink_and_nothing)
{
    const float scores[3] = { 0.25f, -INFINITY, -5.0f }, none[2] = { -INFINITY, -INFINITY };
    float weights[3];
    sparsemax(scores, weights, 3, 0.25f); /* the sink takes half */
    assert_true(weights[0] == 0.5f && weights[1] == 0.0f && weights[2] == 0.0f);
    sparsemax(scores, weights, 3, 9.0f); /* all of it */
    assert_true(weights[0] == 0.0f && weights[1] == 0.0f && weights[2] == 0.0f);
    sparsemax(none, weights, 2, -INFINITY);
    assert_true(weights[0] == 0.0f && weights[1] == 0.0f);
    sparsemax(none, weights, 0, -INFINITY);
}

TEST(nan)
{
    const float scores[3] = { 0.25f, NAN, 0.5f };
    float weights[3];
    sparsemax(scores, weights, 3, -INFINITY);
    assert_true(isnan(weights[0]) && isnan(weights[1]) && isnan(weights[2]));
}
