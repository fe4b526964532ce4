/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_activation.c - the functions of single numbers, of every table that this CPU can
 * run, against double arithmetic over the range of floats; and that a result depends on its number
 * alone. */
#include "buffers.h"
#include "test.h"

#include <float.h>

typedef void function(float *row, int64_t n);

static double sigmoid_times(double x, double w)
{
    return x / (1 + exp(-w));
}

static double true_gelu(double x)
{
    return x / 2 * erfc(-x / sqrt(2));
}

static double true_gelu_tanh(double x)
{
    return sigmoid_times(x, 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double true_gelu_quick(double x)
{
    return sigmoid_times(x, 1.702 * x);
}

static double true_relu(double x)
{
    return x < 0 ? 0 : x;
}

static double true_relu_squared(double x)
{
    return x < 0 ? 0 : x * x;
}

static double true_silu(double x)
{
    return sigmoid_times(x, x);
}

static double true_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The largest error that is allowed: in ulp, and besides as a part of the larger of 1 and |x|. */
struct activation {
    const char *name;
    double (*truth)(double x);
    double ulps, part;
    float low, high; /* the limits at -INFINITY and INFINITY */
    float most;      /* at FLT_MAX */
};

static const struct activation ACTIVATIONS[] = {
    { "gelu", true_gelu, 6, 0, 0, INFINITY, FLT_MAX },
    { "gelu_tanh", true_gelu_tanh, 4, 1e-7, 0, INFINITY, FLT_MAX },
    { "gelu_quick", true_gelu_quick, 4, 0, 0, INFINITY, FLT_MAX },
    { "relu", true_relu, 0, 0, 0, INFINITY, FLT_MAX },
    { "relu_squared", true_relu_squared, 0.5, 0, 0, INFINITY, INFINITY },
    { "silu", true_silu, 4, 0, 0, INFINITY, FLT_MAX },
    { "sigmoid", true_sigmoid, 4, 0, 0, 1, 1 },
    { "tanh", tanh, 2, 0, -1, 1, 1 },
};
enum { COUNT = sizeof ACTIVATIONS / sizeof ACTIVATIONS[0] };

static function *function_of(const struct attn_kernels *kernels, int i)
{
    function *const functions[COUNT] = { kernels->gelu,         kernels->gelu_tanh,
                                         kernels->gelu_quick,   kernels->relu,
                                         kernels->relu_squared, kernels->silu,
                                         kernels->sigmoid,      kernels->tanh };
    return functions[i];
}

static double ulp_of(double truth)
{
    const float size = (float)fabs(truth);
    return (double)nextafterf(size, INFINITY) - (double)size;
}

static double check_number(const struct attn_kernels *kernels, const struct activation *activation,
                           float x, float got)
{
    const double truth = activation->truth((double)x);
    const double error = fabs((double)got - truth);
    const double allowed =
        activation->ulps * ulp_of(truth) + activation->part * fmax(1, fabs((double)x)) + 2e-36;

    if (!(error <= allowed) && !isinf((float)truth))
        fail_msg("%s of %s: %.9g gives %.9g, want %.9g: %.2f ulp", activation->name, kernels->name,
                 (double)x, (double)got, truth, error / ulp_of(truth));
    return fabs(truth) > 1e-3 ? error / ulp_of(truth) : 0;
}

enum { RUN = 4096 };

/* RUN floats with neighbouring bits, from bits on. */
static double check_run(const struct attn_kernels *kernels, int i, uint32_t bits, uint32_t step)
{
    static float x[RUN], y[RUN];
    double worst = 0;

    for (uint32_t k = 0; k < RUN; k++) {
        const uint32_t number = bits + k * step;
        memcpy(&x[k], &number, sizeof number);
    }
    memcpy(y, x, sizeof y);
    function_of(kernels, i)(y, RUN);
    for (int k = 0; k < RUN; k++)
        if (isfinite(x[k]))
            worst = fmax(worst, check_number(kernels, &ACTIVATIONS[i], x[k], y[k]));
    return worst;
}

/* All floats of both signs at a stride, or all of them where ATTND_TEST_FLOATS is set. */
TEST(is_near_the_truth)
{
    const uint32_t step = getenv("ATTND_TEST_FLOATS") ? 1 : 2039;

    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < COUNT; i++) {
            double worst = 0;
            for (uint64_t bits = 0; bits < 0x100000000u; bits += (uint64_t)RUN * step)
                worst = fmax(worst, check_run(*k, i, (uint32_t)bits, step));
            print_message("%s of %s: at most %.2f ulp\n", ACTIVATIONS[i].name, (*k)->name, worst);
        }
}

/* A stride over the bits leaves few numbers where the functions bend. */
TEST(is_near_where_it_bends)
{
    enum { NUMBERS = 200000 };
    static float x[NUMBERS], y[NUMBERS];

    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < COUNT; i++) {
            struct fill fill = { 5 };
            double worst = 0;
            fill_floats(&fill, x, NUMBERS, -16, 16);
            memcpy(y, x, sizeof y);
            function_of(*k, i)(y, NUMBERS);
            for (int64_t j = 0; j < NUMBERS; j++)
                worst = fmax(worst, check_number(*k, &ACTIVATIONS[i], x[j], y[j]));
            print_message("%s of %s: at most %.2f ulp\n", ACTIVATIONS[i].name, (*k)->name, worst);
        }
}

TEST(knows_the_ends)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < COUNT; i++) {
            float row[] = { INFINITY, -INFINITY, NAN, 0.0f, -0.0f, FLT_MAX, -FLT_MAX, -NAN };
            function_of(*k, i)(row, 8);
            assert_true(row[0] == ACTIVATIONS[i].high && row[1] == ACTIVATIONS[i].low);
            assert_true(isnan(row[2]) && isnan(row[7]));
            const float middle = (float)ACTIVATIONS[i].truth(0);
            assert_true(row[3] == middle && row[4] == middle);
            assert_true(row[5] == ACTIVATIONS[i].most && row[6] == ACTIVATIONS[i].low);
        }
}

/* Its parameters: positive, negative, beta, eps. The third row is Apertus 8B's kind; the last has
 * its eps where it shows. */
static const float XIELU[][4] = { { 0.8f, 0.8f, 0.5f, -1e-6f },
                                  { 0, 1, 1, -1e-6f },
                                  { 0.3f, 3.5f, 0.5f, -9.98e-7f },
                                  { 2, 1.25f, 0.5f, -0.75f },
                                  { 0.5f, 1.5f, -0.25f, -2.5f } };
enum { XIELUS = sizeof XIELU / sizeof XIELU[0] };

static double true_xielu(const float *p, double x)
{
    return x > 0 ? (double)p[0] * x * x + (double)p[2] * x
                 : (double)p[1] * (expm1(fmin(x, (double)p[3])) - x) + (double)p[2] * x;
}

static void check_xielu(const struct attn_kernels *kernels, const float *p, float x, float got)
{
    const double truth = true_xielu(p, (double)x), error = fabs((double)got - truth);
    const double most = fmax(fmax(1, (double)p[0]), fmax((double)p[1], fabs((double)p[2])));
    if (!(error <= 6 * ulp_of(truth) || error <= 3e-7 * fmax(1, fabs((double)x)) * most)
        && !isinf((float)truth))
        fail_msg("xielu of %s: %.9g gives %.9g, want %.9g", kernels->name, (double)x, (double)got,
                 truth);
}

TEST(xielu)
{
    enum { NUMBERS = 100000 };
    static float x[NUMBERS], y[NUMBERS];

    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < XIELUS; i++) {
            struct fill fill = { 8 };
            fill_floats(&fill, x, NUMBERS, -4, 4);
            for (int64_t j = 0; j < NUMBERS; j += 3)
                x[j] *= j % 2 ? 1e-5f : j % 4 ? 1e5f : 1e-38f;
            memcpy(y, x, sizeof y);
            (*k)->xielu(y, XIELU[i], NUMBERS);
            for (int64_t j = 0; j < NUMBERS; j++)
                check_xielu(*k, XIELU[i], x[j], y[j]);
            for (int64_t first = 1; first < 67; first++) {
                float part[67];
                memcpy(part, x + first, (size_t)(67 - first) * sizeof *part);
                (*k)->xielu(part, XIELU[i], 67 - first);
                assert_memory_equal(part, y + first, (size_t)(67 - first) * sizeof *part);
            }
            float ends[] = { INFINITY, NAN, 0.0f, -0.0f, -NAN };
            (*k)->xielu(ends, XIELU[i], 5);
            assert_true(isnan(ends[1]) && isnan(ends[4]) && ends[2] <= 0 && ends[3] <= 0);
            assert_true(ends[0] == INFINITY || i == 1 || i == 4);
        }
}

/* The same numbers at every place of rows of every length, beside other numbers. */
TEST(has_no_place)
{
    enum { NUMBERS = 67 };

    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int i = 0; i < COUNT; i++)
            for (int64_t first = 0; first < NUMBERS; first++) {
                struct fill fill = { 9 };
                float *whole = buffers_filled(&fill, NUMBERS, -4, 4);
                float *rest = buffers_copy(whole + first, NUMBERS - first);
                function_of(*k, i)(whole, NUMBERS);
                function_of(*k, i)(rest, NUMBERS - first);
                assert_memory_equal(whole + first, rest, (size_t)(NUMBERS - first) * sizeof *whole);
                buffers_free();
            }
}

/* A softcap of a row is that of a tile; a product of rows is that of its numbers. */
TEST(matches_its_tile)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t n = 0; n < 70; n++) {
            const int64_t whole = (n + (*k)->lanes - 1) / (*k)->lanes * (*k)->lanes;
            struct fill fill = { (uint64_t)n };
            float *row = buffers_filled(&fill, n, -90, 90);
            float *tile = buffers_floats(whole);
            float *factors = buffers_filled(&fill, n, -2, 2);
            memset(tile, 0, (size_t)whole * sizeof *tile);
            memcpy(tile, row, (size_t)n * sizeof *tile);
            (*k)->softcap_row(row, 30, n);
            (*k)->softcap_tile(tile, 30, whole / (*k)->lanes, (*k)->lanes);
            assert_memory_equal(row, tile, (size_t)n * sizeof *row);
            (*k)->multiply_row(row, factors, n);
            for (int64_t j = 0; j < n; j++)
                assert_true(row[j] == tile[j] * factors[j]);
            buffers_free();
        }
}
