/* SPDX-License-Identifier: Apache-2.0 */
/* test_recurrence.c - lib/recurrence.h: the causal convolution as PyTorch's Conv1d with groups and
 * padding computes it, cut to the length, and the recurrence of Mamba-2 as the paper writes it (Dao
 * and Gu 2024), both in double; and that rows in several calls have the bits of one call. */
#include "fill.h"
#include "recurrence.h"
#include "rows.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { ROWS = 23, COLUMNS = 150, TAPS = 4, STRIDE = 2 * COLUMNS + 7 };
enum { HEADS = 6, HEAD_DIM = 20, GROUPS = 2, STATE_DIM = 9, SSD_COLUMNS = HEADS * HEAD_DIM };

static void expect_near(const float *got, const double *want, int64_t count, double error)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= error * (1 + fabs(want[i]))))
            fail_msg("number %lld is %.9g; expected %.9g", (long long)i, (double)got[i], want[i]);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* --------------------------------------------------------------------- convolution -- */

static float x[ROWS * STRIDE], factor[ROWS * STRIDE], gate[ROWS * STRIDE];
static float weight[COLUMNS * TAPS], bias[COLUMNS], before[(TAPS - 1) * COLUMNS];

static void fill_convolution(uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, x, ROWS * STRIDE, -2, 2);
    fill_floats(&fill, factor, ROWS * STRIDE, -2, 2);
    fill_floats(&fill, gate, ROWS * STRIDE, -2, 2);
    fill_floats(&fill, weight, COLUMNS * TAPS, -1, 1);
    fill_floats(&fill, bias, COLUMNS, -1, 1);
    fill_floats(&fill, before, (TAPS - 1) * COLUMNS, -2, 2);
}

static struct attn_convolution_problem convolution_of(const struct attn_convolution *convolution,
                                                      int kind, int64_t first, int64_t rows,
                                                      float *y)
{
    return (struct attn_convolution_problem){
        .convolution = convolution,
        .x = x + first * STRIDE,
        .factor = kind & 1 ? factor + first * STRIDE : NULL,
        .gate = kind & 2 ? gate + first * STRIDE : NULL,
        .x_stride = STRIDE,
        .y = y + first * COLUMNS,
        .y_stride = COLUMNS,
        .row_count = rows,
        .kernels = attn_kernels_available()[0],
    };
}

static void run_convolution(const struct attn_convolution_problem *problem)
{
    for (int64_t task = attn_convolution_tasks(problem) - 1; task >= 0; task--)
        attn_convolution_run(problem, task);
}

/* Number c of row i of what is convolved; rows before the first are those of before. */
static double input_at(int64_t i, int64_t c, int kind, bool has_before)
{
    if (i < 0)
        return has_before ? (double)before[(i + TAPS - 1) * COLUMNS + c] : 0;
    return (double)x[i * STRIDE + c] * (kind & 1 ? (double)factor[i * STRIDE + c] : 1);
}

TEST(a_convolution_is_that_of_each_column)
{
    float y[ROWS * COLUMNS], after[(TAPS - 1) * COLUMNS];
    double want[ROWS * COLUMNS], kept_state[(TAPS - 1) * COLUMNS];
    for (int kind = 0; kind < 32; kind++) {
        const struct attn_convolution convolution = { COLUMNS, TAPS, weight, kind & 8 ? bias : NULL,
                                                      kind & 4 ? ATTN_SILU : ATTN_NO_ACTIVATION };
        fill_convolution((uint64_t)kind);
        struct attn_convolution_problem problem = convolution_of(&convolution, kind, 0, ROWS, y);
        problem.before = kind & 16 ? before : NULL;
        problem.after = after;
        assert_int_equal(attn_convolution_check(&convolution, NULL), ATTN_OK);
        run_convolution(&problem);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t c = 0; c < COLUMNS; c++) {
                double sum = kind & 8 ? (double)bias[c] : 0;
                for (int64_t t = 0; t < TAPS; t++)
                    sum += (double)weight[c * TAPS + t]
                           * input_at(i - (TAPS - 1) + t, c, kind, kind & 16);
                sum = kind & 4 ? silu(sum) : sum;
                want[i * COLUMNS + c] = kind & 2 ? sum * (double)gate[i * STRIDE + c] : sum;
            }
        for (int64_t i = 0; i < (TAPS - 1) * COLUMNS; i++)
            kept_state[i] = input_at(ROWS - (TAPS - 1) + i / COLUMNS, i % COLUMNS, kind, kind & 16);
        expect_near(y, want, ROWS * COLUMNS, 2e-6);
        expect_near(after, kept_state, (TAPS - 1) * COLUMNS, 1e-7);
    }
}

TEST(a_convolution_goes_on_to_the_bit)
{
    static const int64_t STEPS[][8] = { { 1, 1, 1, 20 }, { 2, 3, 18 }, { 22, 1 }, { 0, 23 } };
    float y[ROWS * COLUMNS], parts[ROWS * COLUMNS];
    float whole[(TAPS - 1) * COLUMNS], kept_state[(TAPS - 1) * COLUMNS];
    const struct attn_convolution convolution = { COLUMNS, TAPS, weight, bias, ATTN_SILU };
    fill_convolution(77);
    for (int i = 0; i < 4; i++) {
        struct attn_convolution_problem problem = convolution_of(&convolution, 3, 0, ROWS, y);
        problem.after = whole;
        run_convolution(&problem);
        const float *last = NULL;
        for (int64_t first = 0, s = 0; first < ROWS; first += STEPS[i][s++]) {
            problem = convolution_of(&convolution, 3, first, STEPS[i][s], parts);
            problem.before = last;
            problem.after = kept_state;
            run_convolution(&problem);
            last = STEPS[i][s] > 0 ? kept_state : last;
        }
        assert_memory_equal(parts, y, sizeof y);
        assert_memory_equal(kept_state, whole, sizeof whole);
    }
}

/* ------------------------------------------------------------------------- Mamba-2 -- */

static float values[ROWS * STRIDE], a[HEADS], dt_bias[HEADS], skip[HEADS];
static float start[HEADS * STATE_DIM * HEAD_DIM];

static void fill_ssd(uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, values, ROWS * STRIDE, -1.5f, 1.5f);
    fill_floats(&fill, a, HEADS, -3, -0.1f);
    fill_floats(&fill, dt_bias, HEADS, -2, 2);
    fill_floats(&fill, skip, HEADS, -1, 1);
    fill_floats(&fill, start, HEADS * STATE_DIM * HEAD_DIM, -1, 1);
}

/* x, b, c and dt lie side by side in a row, as a projection leaves them. */
enum { B = SSD_COLUMNS, C = B + GROUPS * STATE_DIM, DT = C + GROUPS * STATE_DIM };

static struct attn_ssd_problem ssd_of(const struct attn_ssd *ssd, int64_t first, int64_t rows,
                                      float *y)
{
    const float *row = values + first * STRIDE;
    return (struct attn_ssd_problem){ .ssd = ssd,
                                      .x = row,
                                      .b = row + B,
                                      .c = row + C,
                                      .dt = row + DT,
                                      .x_stride = STRIDE,
                                      .b_stride = STRIDE,
                                      .dt_stride = STRIDE,
                                      .y = y + first * SSD_COLUMNS,
                                      .y_stride = SSD_COLUMNS,
                                      .row_count = rows,
                                      .kernels = attn_kernels_available()[0] };
}

static void run_ssd(const struct attn_ssd_problem *problem)
{
    for (int64_t task = attn_ssd_tasks(problem) - 1; task >= 0; task--)
        attn_ssd_run(problem, task);
}

static const struct attn_ssd SSD = { .heads = HEADS,
                                     .head_dim = HEAD_DIM,
                                     .groups = GROUPS,
                                     .state_dim = STATE_DIM,
                                     .a = a,
                                     .dt_bias = dt_bias,
                                     .d = skip,
                                     .dt_min = 0,
                                     .dt_max = INFINITY };

/* One row of one head: the state S, [state_dim][head_dim], and y. */
static void step_plainly(const struct attn_ssd *ssd, int64_t row, int64_t h, double *S, double *y)
{
    const float *own = values + row * STRIDE;
    const float *b = own + B + h / (HEADS / GROUPS) * STATE_DIM, *c = b + (C - B);
    const double raw = log(1 + exp((double)own[DT + h] + (double)dt_bias[h]));
    const double dt = fmin(fmax(raw, ssd->dt_min), ssd->dt_max);
    for (int64_t p = 0; p < HEAD_DIM; p++) {
        const double x_p = (double)own[h * HEAD_DIM + p];
        y[p] = ssd->d ? (double)ssd->d[h] * x_p : 0;
        for (int64_t n = 0; n < STATE_DIM; n++) {
            double *s = &S[n * HEAD_DIM + p];
            *s = exp(dt * (double)a[h]) * *s + dt * (double)b[n] * x_p;
            y[p] += (double)c[n] * *s;
        }
    }
}

TEST(a_recurrence_is_that_of_each_head)
{
    enum { STATE = STATE_DIM * HEAD_DIM };
    float y[ROWS * SSD_COLUMNS], after[HEADS * STATE];
    double want[ROWS * SSD_COLUMNS], kept_state[HEADS * STATE];
    for (int kind = 0; kind < 8; kind++) {
        struct attn_ssd ssd = SSD;
        fill_ssd((uint64_t)kind);
        ssd.d = kind & 1 ? skip : NULL;
        ssd.dt_min = kind & 2 ? 0.3 : 0;
        ssd.dt_max = kind & 2 ? 1.5 : INFINITY;
        struct attn_ssd_problem problem = ssd_of(&ssd, 0, ROWS, y);
        problem.before = kind & 4 ? start : NULL;
        problem.after = after;
        assert_int_equal(attn_ssd_check(&ssd, NULL), ATTN_OK);
        run_ssd(&problem);
        for (int64_t i = 0; i < HEADS * STATE; i++)
            kept_state[i] = kind & 4 ? (double)start[i] : 0;
        for (int64_t row = 0; row < ROWS; row++)
            for (int64_t h = 0; h < HEADS; h++)
                step_plainly(&ssd, row, h, kept_state + h * STATE,
                             want + row * SSD_COLUMNS + h * HEAD_DIM);
        expect_near(y, want, ROWS * SSD_COLUMNS, 1e-5);
        expect_near(after, kept_state, HEADS * STATE, 1e-5);
    }
}

TEST(a_recurrence_goes_on_to_the_bit)
{
    float y[ROWS * SSD_COLUMNS], parts[ROWS * SSD_COLUMNS];
    float whole[HEADS * STATE_DIM * HEAD_DIM], kept_state[HEADS * STATE_DIM * HEAD_DIM];
    fill_ssd(5);
    for (int64_t rows = 1; rows <= 8; rows++) {
        struct attn_ssd_problem problem = ssd_of(&SSD, 0, ROWS, y);
        problem.before = start;
        problem.after = whole;
        run_ssd(&problem);
        for (int64_t first = 0; first < ROWS; first += rows) {
            problem = ssd_of(&SSD, first, rows < ROWS - first ? rows : ROWS - first, parts);
            problem.before = first == 0 ? start : kept_state;
            problem.after = kept_state;
            run_ssd(&problem);
        }
        assert_memory_equal(parts, y, sizeof y);
        assert_memory_equal(kept_state, whole, sizeof whole);
    }
}

/* --------------------------------------------------------------------------- checks -- */

static void expect_refused(enum attn_status status, enum attn_status want, const char **where,
                           const char *field)
{
    assert_int_equal(status, want);
    assert_string_equal(*where, field);
}

TEST(what_is_no_step_is_refused)
{
    const char *where = "";
    struct attn_convolution convolution = { COLUMNS, TAPS, weight, NULL, ATTN_SILU };
    struct attn_ssd ssd = SSD;
    convolution.taps = ATTN_CONVOLUTION_TAPS_MAX + 1;
    expect_refused(attn_convolution_check(&convolution, &where), ATTN_ERR_SHAPE, &where, "taps");
    convolution.taps = TAPS;
    convolution.activation = ATTN_XIELU;
    expect_refused(attn_convolution_check(&convolution, &where), ATTN_ERR_OPTION, &where,
                   "activation");
    convolution.weight = NULL;
    expect_refused(attn_convolution_check(&convolution, &where), ATTN_ERR_NO_DATA, &where,
                   "weight");
    ssd.groups = 4;
    expect_refused(attn_ssd_check(&ssd, &where), ATTN_ERR_SHAPE, &where, "groups");
    ssd.groups = GROUPS;
    ssd.dt_min = NAN;
    expect_refused(attn_ssd_check(&ssd, &where), ATTN_ERR_OPTION, &where, "dt_min");
    ssd.dt_min = 1;
    ssd.dt_max = 0.5;
    expect_refused(attn_ssd_check(&ssd, &where), ATTN_ERR_OPTION, &where, "dt_max");
    ssd.state_dim = INT64_MAX;
    expect_refused(attn_ssd_check(&ssd, &where), ATTN_ERR_SHAPE, &where, "state_dim");
}

TEST(no_rows_are_no_work)
{
    struct attn_ssd_problem problem = ssd_of(&SSD, 0, 0, NULL);
    const struct attn_convolution convolution = { COLUMNS, TAPS, weight, NULL, ATTN_SILU };
    const struct attn_convolution_problem none = { .convolution = &convolution };
    assert_int_equal(attn_ssd_tasks(&problem), 0);
    assert_int_equal(attn_convolution_tasks(&none), 0);
}

/* ---------------------------------------------------------------------------- gates -- */

TEST(a_gate_multiplies_by_its_activation)
{
    enum { N = 300 };
    float y[2 * N], g[2 * N], kept[2 * N];
    double want[2 * N];
    struct fill fill = { 9 };
    fill_floats(&fill, y, 2 * N, -2, 2);
    fill_floats(&fill, g, 2 * N, -4, 4);
    memcpy(kept, g, sizeof g);
    for (int64_t i = 0; i < 2 * N; i++)
        want[i] = (double)y[i] * silu((double)g[i]);
    attn_rows_gate(attn_kernels_available()[0], y, N, g, N, ATTN_SILU, 2, N);
    expect_near(y, want, 2 * N, 1e-6);
    assert_memory_equal(g, kept, sizeof g);
}
