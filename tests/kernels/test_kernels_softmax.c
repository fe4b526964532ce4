/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_softmax.c - the kernels between scores and weights, of every table that this CPU
 * can run, against arithmetic in double.
 *
 * Most of what can go wrong here is not a number: -infinity minus -infinity in a
 * lane that sees nothing, NaN under a mask, an exp that leaves its range. */
#include "buffers.h"
#include "test.h"

#include <float.h>

/* Two units in the last place, and a hair for the double reference's own rounding to float. */
static const double EXP_TOLERANCE = 2.01 * 0x1p-23;

typedef void (*check_fn)(const struct attn_kernels *kernels, int64_t width, int64_t n);

/* Every table, width and alignment, at counts of keys around any unrolling. */
static void for_all(check_fn check)
{
    static const int64_t counts[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 96, 97 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t width = (*k)->lanes; width <= ATTN_WIDTH_MAX; width += (*k)->lanes)
            for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
                buffers_shift = (int64_t)(n % 2);
                check(*k, width, counts[n]);
            }
}

static void fail_at(const struct attn_kernels *kernels, int64_t width, int64_t j, int64_t r,
                    double got, double want)
{
    fail_msg("%s, width %" PRId64 ": key %" PRId64 ", lane %" PRId64 ": %.9g, want %.9g",
             kernels->name, width, j, r, got, want);
}

/* -------------------------------------------------------------- softcap -- */

/* Scores from the least to the greatest sizes, of both signs, and what is not a number. */
static float awkward_score(int64_t i)
{
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX };
    enum { SPECIAL = sizeof special / sizeof special[0] };
    if (i % 16 < SPECIAL)
        return special[i % 16];
    const float size = powf(10.0f, (float)((i * 7) % 61 - 30) + 0.37f);
    return i % 2 == 0 ? size : -size;
}

static void check_softcap(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    static const float caps[] = { 0.5f, 30.0f, 1.0f, 50.0f, 1e-3f, 1e4f };
    for (size_t k = 0; k < sizeof caps / sizeof caps[0]; k++) {
        float *scores_t = buffers_floats(n * width);
        for (int64_t i = 0; i < n * width; i++)
            scores_t[i] = awkward_score(i + n);
        kernels->softcap_tile(scores_t, caps[k], n, width);
        for (int64_t i = 0; i < n * width; i++) {
            const double cap = (double)caps[k];
            const double want = cap * tanh((double)awkward_score(i + n) / cap);
            const double got = (double)scores_t[i];
            if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 5e-7 * fabs(want)))
                fail_at(kernels, width, i / width, i % width, got, want);
            assert_true(isnan(got) || fabs(got) <= cap);
        }
        buffers_free();
    }
}

TEST(softcap)
{
    for_all(check_softcap);
}

/* The middle, where tanh bends, step by step. */
TEST(softcap_sweep)
{
    enum { STEPS = 40000 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        const int64_t width = (*k)->lanes, n = STEPS / width;
        float *scores_t = buffers_floats(n * width);
        for (int64_t i = 0; i < n * width; i++)
            scores_t[i] = 24.0f * (float)i / STEPS - 12.0f;
        float *given = buffers_copy(scores_t, n * width);
        (*k)->softcap_tile(scores_t, 1.0f, n, width);
        for (int64_t i = 0; i < n * width; i++) {
            const double want = tanh((double)given[i]);
            if (!(fabs((double)scores_t[i] - want) <= 5e-7 * fabs(want)))
                fail_at(*k, width, i / width, i % width, (double)scores_t[i], want);
        }
        buffers_free();
    }
}

/* ------------------------------------------------------- bounds and bias -- */

/* Bounds of all kinds: within the keys of a tile, and far from them. */
static void make_bounds(int32_t *low, int32_t *high, int64_t width, int64_t n)
{
    static const int32_t ends[] = { INT32_MIN, -1, 0, 1, 2, 5, 8, 50, 97, INT32_MAX };
    enum { ENDS = sizeof ends / sizeof ends[0] };
    for (int64_t r = 0; r < width; r++) {
        low[r] = ends[(r * 3 + n) % ENDS];
        high[r] = ends[(r * 7 + 4) % ENDS];
    }
}

static void check_bound(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    float *scores_t = buffers_floats(n * width);
    for (int64_t i = 0; i < n * width; i++)
        scores_t[i] = awkward_score(i);
    int32_t *low = (int32_t *)(void *)buffers_floats(width);
    int32_t *high = (int32_t *)(void *)buffers_floats(width);
    make_bounds(low, high, width, n);
    kernels->bound_tile(scores_t, low, high, n, width);
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < width; r++) {
            const bool visible = low[r] <= j && j < high[r];
            const float want = visible ? awkward_score(j * width + r) : -INFINITY;
            if (!buffers_same(scores_t[j * width + r], want))
                fail_at(kernels, width, j, r, (double)scores_t[j * width + r], (double)want);
        }
    buffers_free();
}

TEST(bound)
{
    for_all(check_bound);
}

static void check_bias(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    struct fill fill = { (uint64_t)(n * 100 + width) };
    float *scores_t = buffers_floats(n * width);
    float *bias_t = buffers_filled(&fill, n * width, -3, 3);
    for (int64_t i = 0; i < n * width; i++) {
        scores_t[i] = awkward_score(i);
        if (i % 3 == 0)
            bias_t[i] = -INFINITY;
    }
    kernels->bias_tile(scores_t, bias_t, n, width);
    for (int64_t i = 0; i < n * width; i++) {
        const float want = bias_t[i] == -INFINITY ? -INFINITY : awkward_score(i) + bias_t[i];
        if (!buffers_same(scores_t[i], want))
            fail_at(kernels, width, i / width, i % width, (double)scores_t[i], (double)want);
    }
    buffers_free();
}

TEST(bias)
{
    for_all(check_bias);
}

/* -------------------------------------------------------------- softmax -- */

/* Whether got is exp as the contract has it: of a float difference, and 0 below the least normal
 * number. */
static bool is_exp(float got, float difference)
{
    const double want = exp((double)difference);
    if (difference == 0.0f)
        return got == 1.0f;
    if (want < (double)FLT_MIN * (1 - 1e-6))
        return got == 0.0f;
    if (want < (double)FLT_MIN * (1 + 1e-6) && got == 0.0f)
        return true;
    return fabs((double)got - want) <= EXP_TOLERANCE * want;
}

/* r % 8 decides what a lane is like. Lane 3 sees nothing, 4 sees nothing in the first step, 5
 * sees nothing after it. The other lanes have a masked key here and there; 6 climbs and 7 is far
 * below 0. */
static float step_score(struct fill *fill, int step, int64_t j, int64_t r)
{
    const float score = fill_float(fill, -6, 6);
    const int64_t kind = r % 8;
    if (kind == 3 || (kind == 4 && step == 0) || (kind == 5 && step > 0))
        return -INFINITY;
    if ((j + r) % 5 == 2)
        return -INFINITY;
    return kind == 6 ? score + 40.0f * (float)step : kind == 7 ? score * 20.0f - 1000.0f : score;
}

struct running {
    float *max, *sum, *rescale;
};

static void check_step(const struct attn_kernels *kernels, int64_t width, int64_t n,
                       struct running *running, const float *given, const float *weights)
{
    for (int64_t r = 0; r < width; r++) {
        const float old_max = running->max[r], old_sum = running->sum[r];
        float new_max = old_max;
        for (int64_t j = 0; j < n; j++)
            new_max = fmaxf(new_max, given[j * width + r]);
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            const float score = given[j * width + r], got = weights[j * width + r];
            const bool right = score == -INFINITY ? got == 0.0f : is_exp(got, score - new_max);
            if (!right)
                fail_at(kernels, width, j, r, (double)got, exp((double)(score - new_max)));
            sum += (double)got;
        }
        if (old_max != -INFINITY)
            sum += (double)old_sum * exp((double)(old_max - new_max));
        running->max[r] = new_max;
        running->sum[r] = (float)sum;
    }
}

/* Three steps of n keys: weights, max, sum and rescale after each. */
static void check_softmax(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    struct fill fill = { (uint64_t)(n * 100 + width) };
    float *max = buffers_floats(width), *sum = buffers_floats(width);
    struct running want = { buffers_floats(width), buffers_floats(width), NULL };
    for (int64_t r = 0; r < width; r++) {
        max[r] = want.max[r] = -INFINITY;
        sum[r] = want.sum[r] = 0.0f;
    }
    for (int step = 0; step < 3; step++) {
        float *scores_t = buffers_floats(n * width), *rescale = buffers_floats(width);
        for (int64_t i = 0; i < n * width; i++)
            scores_t[i] = step_score(&fill, step, i / width, i % width);
        const float *given = buffers_copy(scores_t, n * width);
        const float *old_max = buffers_copy(max, width);
        kernels->softmax_tile(scores_t, max, sum, rescale, n, width);
        check_step(kernels, width, n, &want, given, scores_t);
        for (int64_t r = 0; r < width; r++) {
            if (max[r] != want.max[r])
                fail_at(kernels, width, -1, r, (double)max[r], (double)want.max[r]);
            if (!(fabsf(sum[r] - want.sum[r]) <= 1e-6f * want.sum[r]))
                fail_at(kernels, width, -2, r, (double)sum[r], (double)want.sum[r]);
            if (max[r] == -INFINITY || old_max[r] == -INFINITY)
                assert_true(isfinite(rescale[r])); /* it multiplies zeros */
            else
                assert_true(is_exp(rescale[r], old_max[r] - max[r]));
        }
    }
    buffers_free();
}

TEST(softmax)
{
    for_all(check_softmax);
}

/* What a diagonal, a window's ends and lengths leave of a tile, and bounds in any order. */
static void make_ranges(int32_t *low, int32_t *high, int64_t width, int64_t n, int kind)
{
    make_bounds(low, high, width, n);
    for (int64_t r = 0; kind > 0 && r < width; r++) {
        low[r] = (int32_t)(kind == 2 ? r : 0);
        high[r] = (int32_t)(kind == 3 ? n - 5 : r + 3);
    }
}

static void check_softmax_bounded(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    for (int kind = 0; kind < 4; kind++) {
        struct fill fill = { (uint64_t)(n * 100 + width) };
        float *scores_t = buffers_filled(&fill, n * width, -4, 4);
        float *max = buffers_filled(&fill, width, -4, 4), *sum = buffers_filled(&fill, width, 1, 9);
        float *rescale = buffers_floats(width), *want_rescale = buffers_floats(width);
        int32_t *low = (int32_t *)(void *)buffers_floats(width);
        int32_t *high = (int32_t *)(void *)buffers_floats(width);
        make_ranges(low, high, width, n, kind);
        for (int64_t r = 0; r < width; r += 3) {
            max[r] = -INFINITY;
            sum[r] = 0.0f;
        }
        float *want_t = buffers_copy(scores_t, n * width);
        float *want_max = buffers_copy(max, width), *want_sum = buffers_copy(sum, width);
        for (int64_t i = 0; i < n * width; i++)
            if (i / width < low[i % width] || i / width >= high[i % width])
                scores_t[i] = NAN; /* no kernel computes hidden scores */
        kernels->bound_tile(want_t, low, high, n, width);
        kernels->softmax_tile(want_t, want_max, want_sum, want_rescale, n, width);
        kernels->softmax_bounded_tile(scores_t, low, high, max, sum, rescale, n, width);
        assert_memory_equal(scores_t, want_t, (size_t)(n * width) * sizeof(float));
        assert_memory_equal(max, want_max, (size_t)width * sizeof(float));
        assert_memory_equal(sum, want_sum, (size_t)width * sizeof(float));
        assert_memory_equal(rescale, want_rescale, (size_t)width * sizeof(float));
        buffers_free();
    }
}

/* The whole range of exp, in steps of about 0.0026. */
TEST(exp_sweep)
{
    enum { STEPS = 40000 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        const int64_t width = (*k)->lanes, n = STEPS / width;
        float *scores_t = buffers_floats(n * width);
        float *max = buffers_floats(width), *sum = buffers_floats(width);
        float *rescale = buffers_floats(width);
        for (int64_t i = 0; i < n * width; i++)
            scores_t[i] = -104.0f * (float)i / STEPS;
        for (int64_t r = 0; r < width; r++) {
            max[r] = 0.0f;
            sum[r] = 0.0f;
        }
        float *given = buffers_copy(scores_t, n * width);
        (*k)->softmax_tile(scores_t, max, sum, rescale, n, width);
        for (int64_t i = 0; i < n * width; i++)
            if (!is_exp(scores_t[i], given[i]))
                fail_at(*k, width, i / width, i % width, (double)scores_t[i],
                        exp((double)given[i]));
        buffers_free();
    }
}

/* NaN in one lane stays in it. */
static void check_softmax_poison(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    struct fill fill = { (uint64_t)(n * 100 + width) };
    float *max = buffers_floats(width), *sum = buffers_floats(width);
    float *rescale = buffers_floats(width);
    float *scores_t = buffers_filled(&fill, n * width, -4, 4);
    for (int64_t r = 0; r < width; r++) {
        max[r] = -INFINITY;
        sum[r] = 0.0f;
    }
    for (int64_t j = 0; j < n; j++)
        scores_t[j * width + 2] = NAN;
    kernels->softmax_tile(scores_t, max, sum, rescale, n, width);
    for (int64_t r = 0; r < width; r++) {
        if (r == 2 || n == 0)
            continue;
        assert_true(isfinite(max[r]) && isfinite(sum[r]) && sum[r] >= 1.0f);
        for (int64_t j = 0; j < n; j++)
            assert_true(isfinite(scores_t[j * width + r]));
    }
    buffers_free();
}

TEST(softmax_poison)
{
    for_all(check_softmax_poison);
}

/* A lane's bits depend on its own numbers only: they are the same in another lane of a tile of
 * another width. */
static void check_lane_independence(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    const int64_t lanes = kernels->lanes, from = width - 1, to = 0;
    struct fill fill = { (uint64_t)(n * 100 + width) };
    float *wide = buffers_filled(&fill, n * width, -9, 9);
    float *narrow = buffers_filled(&fill, n * lanes, -9, 9);
    float *max = buffers_filled(&fill, width, -1, 1), *sum = buffers_filled(&fill, width, 1, 2);
    float *narrow_max = buffers_copy(max, lanes), *narrow_sum = buffers_copy(sum, lanes);
    float *rescale = buffers_floats(width), *narrow_rescale = buffers_floats(lanes);
    for (int64_t j = 0; j < n; j++)
        narrow[j * lanes + to] = wide[j * width + from];
    narrow_max[to] = max[from];
    narrow_sum[to] = sum[from];
    kernels->softcap_tile(wide, 3.0f, n, width);
    kernels->softcap_tile(narrow, 3.0f, n, lanes);
    kernels->softmax_tile(wide, max, sum, rescale, n, width);
    kernels->softmax_tile(narrow, narrow_max, narrow_sum, narrow_rescale, n, lanes);
    for (int64_t j = 0; j < n; j++)
        assert_true(narrow[j * lanes + to] == wide[j * width + from]);
    assert_true(narrow_sum[to] == sum[from] && narrow_rescale[to] == rescale[from]);
    buffers_free();
}

TEST(lane_independence)
{
    for_all(check_lane_independence);
}

/* ---------------------------------------------------------- weights_row -- */

static void check_weights_row(const struct attn_kernels *kernels, int64_t n)
{
    struct fill fill = { (uint64_t)n };
    float *row = buffers_filled(&fill, n, -30, 3);
    float max = -INFINITY;
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        if (j % 4 == 1)
            row[j] = -INFINITY;
        max = fmaxf(max, row[j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += row[j] == -INFINITY ? 0.0 : exp((double)(row[j] - max));
    float *given = buffers_copy(row, n);
    kernels->weights_row(row, max, (float)sum, n);
    for (int64_t j = 0; j < n; j++) {
        const double got = (double)row[j];
        const double want = given[j] == -INFINITY ? 0.0 : exp((double)(given[j] - max)) / sum;
        if (want == 0.0 ? got != 0.0 : !(fabs(got - want) <= 2 * EXP_TOLERANCE * want))
            fail_at(kernels, 0, j, 0, got, want);
    }
    for (int64_t j = 0; j < n; j++)
        row[j] = -INFINITY;
    kernels->weights_row(row, -INFINITY, 0.0f, n);
    for (int64_t j = 0; j < n; j++)
        assert_true(row[j] == 0.0f);
    buffers_free();
}

TEST(weights_row)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (buffers_shift = 0; buffers_shift <= 1; buffers_shift++)
            for (int64_t n = 0; n <= 70; n++)
                check_weights_row(*k, n);
}

TEST(softmax_bounded)
{
    for_all(check_softmax_bounded);
}
