/* SPDX-License-Identifier: Apache-2.0 */
/* test_softmax.c - lib/softmax.h, compared with long double, and what it promises about unusual
 * rows. */
#include "fill.h"
#include "number.h"
#include "softmax.h"
#include "test.h"

enum { NUMBERS_MAX = 7 * 33 * 7 };

/* The sum without the 1 that one of the largest numbers adds. With that 1, small numbers would
 * be rounded away. */
static long double others_than_largest(const struct attn_softmax *softmax, const float *input,
                                       int64_t begin, int64_t visible, long double max)
{
    long double others = 0;
    bool left_out = false;
    for (int64_t i = 0; i < visible && i < softmax->length; i++) {
        const long double above = (long double)input[begin + i * softmax->inner] - max;
        if (above < 0 || left_out)
            others += expl(above);
        left_out = left_out || above == 0;
    }
    return others;
}

/* The definition, row by row in long double, of the visible numbers only. */
static void expect_row(const struct attn_softmax *softmax, const float *input, int64_t row)
{
    const int64_t inner = softmax->inner, length = softmax->length;
    const int64_t begin = row / inner * length * inner + row % inner;
    const int64_t visible =
        softmax->visible ? softmax->visible[row / softmax->rows_per_visible] : length;
    long double max = -INFINITY, others;
    for (int64_t i = 0; i < visible && i < length; i++)
        max = fmaxl(max, (long double)input[begin + i * inner]);
    others = others_than_largest(softmax, input, begin, visible, max);
    for (int64_t i = 0; i < length; i++) {
        const long double above = (long double)input[begin + i * inner] - max;
        const float got = ((const float *)softmax->output)[begin + i * inner];
        float want = softmax->is_log ? -INFINITY : 0.0f;
        if (i < visible && max > -INFINITY)
            want = (float)(softmax->is_log ? above - log1pl(others) : expl(above) / (1 + others));
        /* Rounded once: the result is the same float, or its neighbour if double lies on the
         * other side. */
        if (got != want && got != nextafterf(want, got))
            fail_msg("row %lld, number %lld: %.9g, want %.9g", (long long)row, (long long)i,
                     (double)got, (double)want);
    }
}

static void run_and_expect(struct attn_softmax *softmax, int64_t split)
{
    const int64_t rows = softmax->outer * softmax->inner;
    attn_softmax_run(softmax, 0, split);
    attn_softmax_run(softmax, split, rows - split);
    for (int64_t r = 0; r < rows; r++)
        expect_row(softmax, softmax->input, r);
}

TEST(every_axis_of_every_shape)
{
    static const int64_t SIZES[] = { 1, 2, 3, 7, 16, 33 };
    static float input[NUMBERS_MAX], output[NUMBERS_MAX];
    for (int o = 0; o < 4; o++)
        for (int l = 0; l < 6; l++)
            for (int i = 0; i < 4; i++)
                for (int is_log = 0; is_log < 2; is_log++) {
                    struct attn_softmax softmax = { input, output, SIZES[o],    SIZES[l], SIZES[i],
                                                    NULL,  1,      is_log != 0, ATTN_F32 };
                    const int64_t count = SIZES[o] * SIZES[l] * SIZES[i];
                    struct fill fill = { (uint64_t)count };
                    fill_floats(&fill, input, count, -20, 20);
                    run_and_expect(&softmax, SIZES[o] * SIZES[i] / 2);
                }
}

TEST(lengths_hide)
{
    static const int64_t visible[] = { 0, 1, 5, 9, 12 };
    float input[5 * 2 * 9], output[5 * 2 * 9];
    struct fill fill = { 3 };
    fill_floats(&fill, input, 90, -1, 1);
    for (int is_log = 0; is_log < 2; is_log++) {
        struct attn_softmax softmax = {
            input, output, 10, 9, 1, visible, 2, is_log != 0, ATTN_F32
        };
        run_and_expect(&softmax, 3);
    }
}

/* Hidden numbers are not read, whatever they are. */
TEST(hidden_numbers_do_not_matter)
{
    static const int64_t visible[] = { 2, 0 };
    float numbers[] = { 1, 1, NAN, INFINITY, NAN, NAN, NAN, NAN };
    static const float want[] = { 0.5f, 0.5f, 0, 0, 0, 0, 0, 0 };
    struct attn_softmax softmax = { numbers, numbers, 2, 4, 1, visible, 1, false, ATTN_F32 };
    attn_softmax_run(&softmax, 0, 2);
    assert_memory_equal(numbers, want, sizeof want);
}

TEST(odd_rows)
{
    float nothing[] = { -INFINITY, -INFINITY };
    float some[] = { -INFINITY, 3, 3 };
    float huge[] = { 3e38f, -3e38f, 3e38f };
    float bad[] = { 1, NAN, 2 };
    float infinite[] = { 1, INFINITY };
    struct attn_softmax softmax = { nothing, nothing, 1, 2, 1, NULL, 0, false, ATTN_F32 };
    attn_softmax_run(&softmax, 0, 1);
    assert_true(nothing[0] == 0 && nothing[1] == 0);
    softmax = (struct attn_softmax){ some, some, 1, 3, 1, NULL, 0, false, ATTN_F32 };
    attn_softmax_run(&softmax, 0, 1);
    assert_true(some[0] == 0 && some[1] == 0.5f && some[2] == 0.5f);
    softmax = (struct attn_softmax){ huge, huge, 1, 3, 1, NULL, 0, false, ATTN_F32 };
    attn_softmax_run(&softmax, 0, 1);
    assert_true(huge[0] == 0.5f && huge[1] == 0 && huge[2] == 0.5f);
    softmax = (struct attn_softmax){ bad, bad, 1, 3, 1, NULL, 0, false, ATTN_F32 };
    attn_softmax_run(&softmax, 0, 1);
    assert_true(isnan(bad[0]) && isnan(bad[1]) && isnan(bad[2]));
    softmax = (struct attn_softmax){ infinite, infinite, 1, 2, 1, NULL, 0, false, ATTN_F32 };
    attn_softmax_run(&softmax, 0, 1);
    assert_true(isnan(infinite[0]) && isnan(infinite[1]));
}

/* A sum in float would be off by more than a tenth here. */
TEST(long_row_of_equal_numbers)
{
    const int64_t length = 100000;
    float *numbers = malloc((size_t)length * sizeof *numbers);
    struct attn_softmax softmax = { numbers, numbers, 1, length, 1, NULL, 0, true, ATTN_F32 };
    assert_non_null(numbers);
    for (int64_t i = 0; i < length; i++)
        numbers[i] = 12345.0f;
    attn_softmax_run(&softmax, 0, 1);
    for (int64_t i = 0; i < length; i++)
        assert_true(numbers[i] == (float)-log(100000.0));
    free(numbers);
}

/* In every dtype the answer is the answer in double, rounded once. The answer in double is
 * right. */
static void check_dtype(enum attn_dtype dtype, int64_t inner, bool is_log)
{
    enum { OUTER = 3, LENGTH = 70, INNER_MAX = 2, COUNT = OUTER * LENGTH * INNER_MAX };
    static const int64_t visible[OUTER] = { LENGTH, 66, 1 };
    double narrow[COUNT], wide[COUNT], given[COUNT]; /* the first holds any dtype */
    const int64_t count = OUTER * LENGTH * inner;
    struct fill fill = { (uint64_t)inner };
    for (int64_t i = 0; i < count; i++) {
        number_set(narrow, dtype, i, (double)fill_float(&fill, -9, 9) + 1e-9);
        given[i] = wide[i] = number_get(narrow, dtype, i);
    }
    struct attn_softmax softmax = { narrow,  narrow, OUTER,  LENGTH, inner,
                                    visible, inner,  is_log, dtype };
    attn_softmax_run(&softmax, 0, OUTER * inner);
    softmax =
        (struct attn_softmax){ wide, wide, OUTER, LENGTH, inner, visible, inner, is_log, ATTN_F64 };
    attn_softmax_run(&softmax, 0, OUTER * inner);
    for (int64_t i = 0; i < count; i++) {
        double rounded;
        number_set(&rounded, dtype, 0, wide[i]);
        assert_true(number_get(narrow, dtype, i) == number_get(&rounded, dtype, 0));
    }
    for (int64_t row = 0; row < OUTER * inner; row++) {
        const int64_t begin = row / inner * LENGTH * inner + row % inner;
        long double sum = 0;
        for (int64_t i = 0; i < visible[row / inner]; i++)
            sum += expl((long double)given[begin + i * inner]);
        for (int64_t i = 0; i < visible[row / inner]; i++) {
            const long double x = (long double)given[begin + i * inner];
            const double want = (double)(is_log ? x - logl(sum) : expl(x) / sum);
            assert_true(fabs(wide[begin + i * inner] - want) <= 4e-15 * (is_log ? 9 : want));
        }
    }
}

TEST(dtypes)
{
    static const enum attn_dtype dtypes[] = { ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16 };
    for (int d = 0; d < 4; d++)
        for (int64_t inner = 1; inner <= 2; inner++)
            for (int is_log = 0; is_log < 2; is_log++)
                check_dtype(dtypes[d], inner, is_log != 0);
}
