/* SPDX-License-Identifier: Apache-2.0 */
/* test_quantize.c - rows as int8 with scales: within half a scale of every float, the greatest of a
 * channel or row exactly, and nothing infinite from any finite float. The errors of attention over
 * such keys and values are printed (API_SESSIONS.md has them). */
#include "attention_case.h"
#include "quantize.h"
#include "test.h"

#include <float.h>

enum { ROWS = 64, COLUMNS = 37 };

/* A number is within half a scale; a scale below the least normal float has few bits. */
static void expect_near(float number, int8_t quantized, float scale)
{
    const double got = (double)quantized * (double)scale;
    const double lost = scale < FLT_MIN ? 64 * (double)FLT_TRUE_MIN : 0;
    const double allowed = 0.5 * (double)scale * (1 + 1e-5) + lost;
    assert_true(isfinite((float)quantized * scale));
    if (!(fabs(got - (double)number) <= allowed))
        fail_msg("%g becomes %d x %g", (double)number, quantized, (double)scale);
    assert_true(quantized >= -127);
}

static void check_scale(float most)
{
    struct fill fill = { 7 };
    float rows[ROWS * COLUMNS], channel[COLUMNS], row[ROWS];
    int8_t by_channel[ROWS * COLUMNS], by_row[ROWS * COLUMNS];
    fill_floats(&fill, rows, ROWS * COLUMNS, -1, 1);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        rows[i] *= most;
    for (int i = 0; i < ROWS; i++)
        rows[i * COLUMNS + 5] = 0;
    memset(rows + 9 * COLUMNS, 0, COLUMNS * sizeof(float));
    attn_quantize_channels(by_channel, COLUMNS, channel, rows, COLUMNS, ROWS, COLUMNS);
    attn_quantize_rows(by_row, COLUMNS, row, rows, COLUMNS, ROWS, COLUMNS);
    assert_true(channel[5] == 0 && row[9] == 0);
    for (int i = 0; i < ROWS; i++)
        for (int d = 0; d < COLUMNS; d++) {
            const int at = i * COLUMNS + d;
            expect_near(rows[at], by_channel[at], channel[d]);
            expect_near(rows[at], by_row[at], row[i]);
            assert_int_equal(attn_quantize(rows[at], channel[d]), by_channel[at]);
            assert_int_equal(attn_quantize(rows[at], row[i]), by_row[at]);
        }
}

TEST(every_scale)
{
    for (int exponent = -148; exponent < 128; exponent++)
        check_scale(ldexpf(1.0f, exponent));
    check_scale(FLT_MAX);
}

/* The greatest magnitude becomes 127, of either sign; half a step goes to the even one. */
TEST(rounding)
{
    const float row[] = { -254, 254, 1, 3, -1, -3, 2, 0 };
    static const int8_t want[] = { -127, 127, 0, 2, 0, -2, 1, 0 };
    int8_t got[8];
    float scale;
    attn_quantize_rows(got, 8, &scale, row, 8, 1, 8);
    assert_true(scale == 2);
    assert_memory_equal(got, want, sizeof want);
}

/* --------------------------------------------------------------------------- errors -- */

enum { KEYS = 4096, HEAD_DIM = 64, QUERIES = 16 };

/* Nearly normal: the sum of twelve. */
static float normal(struct fill *fill)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += fill_float(fill, -0.5f, 0.5f);
    return sum;
}

/* A channel in eight of the keys is `outlier` times as large, and of one sign, as those of models
 * are; by_row: keys with a scale for each row instead, as a comparison. */
struct kind {
    const char *name;
    float outlier;
    bool by_row;
    double bound;
};

static void quantize_side(float *rows, bool by_row)
{
    int8_t numbers[ATTN_I8_ROWS * HEAD_DIM];
    float scale[HEAD_DIM];
    for (int64_t i = 0; i < KEYS; i += ATTN_I8_ROWS) {
        float *group = rows + i * HEAD_DIM;
        attn_quantize_channels(numbers, HEAD_DIM, scale, group, HEAD_DIM, ATTN_I8_ROWS, HEAD_DIM);
        for (int64_t r = 0; r < ATTN_I8_ROWS; r++) {
            float *row = group + r * HEAD_DIM;
            if (by_row)
                attn_quantize_rows(numbers + r * HEAD_DIM, HEAD_DIM, scale, row, HEAD_DIM, 1,
                                   HEAD_DIM);
            for (int64_t d = 0; d < HEAD_DIM; d++)
                row[d] = (float)numbers[r * HEAD_DIM + d] * scale[by_row ? 0 : d];
        }
    }
}

static void draw(struct attention_case *c, const struct kind *kind)
{
    struct fill fill = { 11 };
    float *key = c->problem.key.data, *value = c->problem.value.data,
          *query = c->problem.query.data;
    for (int64_t i = 0; i < KEYS * HEAD_DIM; i++) {
        const bool is_outlier = i % 8 == 3;
        key[i] = is_outlier ? kind->outlier * (1 + 0.1f * normal(&fill)) : normal(&fill);
        value[i] = normal(&fill);
    }
    for (int64_t i = 0; i < QUERIES * HEAD_DIM; i++)
        query[i] = normal(&fill);
}

/* Prints and bounds the root of the mean square of errors of context over that of context. */
static void check_errors(const struct kind *kind)
{
    const struct attention_sizes sizes = { 1, 1, 1, QUERIES, KEYS, HEAD_DIM, HEAD_DIM };
    struct attention_case c;
    static float want[QUERIES * HEAD_DIM];
    double errors = 0, squares = 0;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 1);
    attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
    draw(&c, kind);
    attention_run(&c.problem);
    memcpy(want, c.problem.context.data, sizeof want);
    quantize_side(c.problem.key.data, kind->by_row);
    quantize_side(c.problem.value.data, true);
    attention_run(&c.problem);
    for (int64_t i = 0; i < QUERIES * HEAD_DIM; i++) {
        const double error = (double)(((float *)c.problem.context.data)[i] - want[i]);
        errors += error * error;
        squares += (double)want[i] * (double)want[i];
    }
    printf("%s: context %.2g of its size\n", kind->name, sqrt(errors / squares));
    assert_true(sqrt(errors / squares) < kind->bound);
    attention_case_free(&c);
}

TEST(errors)
{
    static const struct kind KINDS[] = {
        { "normal keys, a scale a channel", 1, false, 0.02 },
        { "normal keys, a scale a row", 1, true, 0.02 },
        { "channels of 20, a scale a channel", 20, false, 0.2 },
        { "channels of 20, a scale a row", 20, true, 1 },
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        check_errors(&KINDS[i]);
}
