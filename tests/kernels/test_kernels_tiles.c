/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_tiles.c - the kernels that move and multiply tiles, of every table that this CPU
 * can run, against arithmetic in double.
 *
 * Counts go around the vector's length and around any unrolling. Memory ends at a guard page and
 * is aligned to a float only. NaN stands wherever a kernel must not look, and wherever one lane
 * must not reach another. */
#include "buffers.h"
#include "test.h"

#include <float.h>

static const int64_t COUNTS[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 33 };
enum { COUNTS_LENGTH = sizeof COUNTS / sizeof COUNTS[0] };

typedef void (*check_fn)(const struct attn_kernels *kernels, int64_t width);

/* Calls check for every table and width; every other case is not aligned. */
static void for_all(check_fn check)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t width = (*k)->lanes; width <= ATTN_WIDTH_MAX; width += (*k)->lanes) {
            buffers_shift = width / (*k)->lanes % 2;
            check(*k, width);
        }
}

static void fail_at(const struct attn_kernels *kernels, int64_t width, int64_t i, int64_t j,
                    double got, double want)
{
    fail_msg("%s, width %" PRId64 ": [%" PRId64 ", %" PRId64 "] = %.9g, want %.9g", kernels->name,
             width, i, j, got, want);
}

/* Row counts that are worth a test for a width: the ends of vectors. */
static int64_t row_count_of(int step, int64_t lanes, int64_t width)
{
    const int64_t counts[] = { 0, 1, lanes - 1, lanes, lanes + 1, width - 1, width };
    const int64_t count = counts[step];
    return count > width ? width : count;
}

enum { ROW_COUNT_STEPS = 7 };

/* ----------------------------------------------------------- transposes -- */

static void check_transpose_in(const struct attn_kernels *kernels, int64_t width, int64_t row_count,
                               int64_t columns, int64_t gap)
{
    struct fill fill = { (uint64_t)(width * 1000 + row_count * 10 + columns) };
    const int64_t stride = columns + gap;
    const float factor = fill_float(&fill, -2, 2);
    float *rows = buffers_rows(&fill, row_count, columns, stride > 0 ? stride : 1);
    float *tile = buffers_floats(columns * width);
    kernels->transpose_in(tile, rows, stride, row_count, columns, factor, width);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < width; r++) {
            const float want = r < row_count ? rows[r * stride + c] * factor : 0.0f;
            if (tile[c * width + r] != want)
                fail_at(kernels, width, c, r, (double)tile[c * width + r], (double)want);
        }
    buffers_free();
}

static void check_transpose_out(const struct attn_kernels *kernels, int64_t width,
                                int64_t row_count, int64_t columns, int64_t gap)
{
    struct fill fill = { (uint64_t)(width * 1000 + row_count * 10 + columns) };
    const int64_t stride = columns + gap;
    for (int with_factor = 0; with_factor <= 1; with_factor++) {
        float *tile = buffers_filled(&fill, columns * width, -1, 1);
        float *factor = buffers_filled(&fill, width, -2, 2);
        for (int64_t r = row_count; r < width; r++) {
            factor[r] = NAN; /* lanes without a row */
            for (int64_t c = 0; c < columns; c++)
                tile[c * width + r] = NAN;
        }
        float *rows = buffers_rows(&fill, row_count, columns, stride > 0 ? stride : 1);
        kernels->transpose_out(rows, stride, tile, with_factor ? factor : NULL, row_count, columns,
                               width);
        for (int64_t r = 0; r < row_count; r++)
            for (int64_t c = 0; c < (r + 1 < row_count ? stride : columns); c++) {
                const float got = rows[r * stride + c];
                const float want = c >= columns  ? NAN
                                   : with_factor ? tile[c * width + r] * factor[r]
                                                 : tile[c * width + r];
                if (!buffers_same(got, want))
                    fail_at(kernels, width, r, c, (double)got, (double)want);
            }
        buffers_free();
    }
}

static void check_transposes(const struct attn_kernels *kernels, int64_t width)
{
    for (int step = 0; step < ROW_COUNT_STEPS; step++)
        for (int c = 0; c < COUNTS_LENGTH; c++) {
            const int64_t row_count = row_count_of(step, kernels->lanes, width);
            const int64_t gap = c % 3;
            check_transpose_in(kernels, width, row_count, COUNTS[c], gap);
            check_transpose_out(kernels, width, row_count, COUNTS[c], gap);
        }
}

TEST(transposes)
{
    for_all(check_transposes);
}

/* --------------------------------------------------------------- scores -- */

static void check_score_tile_of(const struct attn_kernels *kernels, int64_t width, int64_t n,
                                int64_t head_dim, int64_t gap)
{
    struct fill fill = { (uint64_t)(width * 1000 + n * 10 + head_dim) };
    const int64_t stride = head_dim + gap;
    float *query_t = buffers_filled(&fill, head_dim * width, -1, 1);
    float *key = buffers_rows(&fill, n, head_dim, stride > 0 ? stride : 1);
    float *scores_t = buffers_floats(n * width);
    kernels->score_tile(scores_t, query_t, key, stride, n, head_dim, width, NULL);
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < width; r++) {
            double want = 0, size = 0;
            for (int64_t d = 0; d < head_dim; d++) {
                const double product = (double)key[j * stride + d] * (double)query_t[d * width + r];
                want += product;
                size += fabs(product);
            }
            const double got = (double)scores_t[j * width + r];
            if (!(fabs(got - want) <= 4e-7 * size))
                fail_at(kernels, width, j, r, got, want);
        }
    buffers_free();
}

static void check_score_tile(const struct attn_kernels *kernels, int64_t width)
{
    for (int n = 0; n < COUNTS_LENGTH; n++)
        for (int d = 0; d < COUNTS_LENGTH; d++)
            check_score_tile_of(kernels, width, COUNTS[n], COUNTS[d], d % 3);
    check_score_tile_of(kernels, width, 96, 64, 0);
    check_score_tile_of(kernels, width, 97, 80, 5);
}

TEST(score_tile)
{
    for_all(check_score_tile);
}

/* A key of NaN spoils its own scores only, a query of NaN its own lane only. */
static void check_score_poison(const struct attn_kernels *kernels, int64_t width)
{
    enum { N = 13, HEAD_DIM = 11 };
    struct fill fill = { (uint64_t)width };
    float *query_t = buffers_filled(&fill, HEAD_DIM * width, -1, 1);
    float *key = buffers_rows(&fill, N, HEAD_DIM, HEAD_DIM);
    float *scores_t = buffers_floats(N * width);
    key[5 * HEAD_DIM + 3] = NAN;
    key[6 * HEAD_DIM + 3] = INFINITY;
    query_t[2 * width + 1] = NAN;
    query_t[3 * width + 2] = 0.0f; /* 0 times NaN or infinity is NaN, not 0 */
    kernels->score_tile(scores_t, query_t, key, HEAD_DIM, N, HEAD_DIM, width, NULL);
    for (int64_t j = 0; j < N; j++)
        for (int64_t r = 0; r < width; r++) {
            const float got = scores_t[j * width + r];
            const bool want_nan = j == 5 || r == 1 || (j == 6 && r == 2);
            if (want_nan ? !isnan(got) : j == 6 ? !isinf(got) : !isfinite(got))
                fail_at(kernels, width, j, r, (double)got, 0.0);
        }
    buffers_free();
}

TEST(score_poison)
{
    for_all(check_score_poison);
}

/* -------------------------------------------------------------- context -- */

struct context_operands {
    int64_t n, v_head_dim, stride;
    float *before, *after, *rescale, *weights_t, *value;
};

static struct context_operands make_context(int64_t width, int64_t n, int64_t v_head_dim,
                                            int64_t gap)
{
    struct fill fill = { (uint64_t)(width * 1000 + n * 10 + v_head_dim) };
    struct context_operands o = { .n = n, .v_head_dim = v_head_dim, .stride = v_head_dim + gap };
    o.before = buffers_filled(&fill, v_head_dim * width, -1, 1);
    o.after = buffers_copy(o.before, v_head_dim * width);
    o.rescale = buffers_filled(&fill, width, 0, 1);
    o.weights_t = buffers_filled(&fill, n * width, 0, 1);
    o.value = buffers_rows(&fill, n, v_head_dim, o.stride > 0 ? o.stride : 1);
    return o;
}

/* With skip_zeros a weight of 0 adds nothing; without, it adds 0 times the value. */
static void expect_context(const struct attn_kernels *kernels, const struct context_operands *o,
                           int64_t width, bool skip_zeros)
{
    for (int64_t c = 0; c < o->v_head_dim; c++)
        for (int64_t r = 0; r < width; r++) {
            double want = (double)o->before[c * width + r] * (double)o->rescale[r];
            double size = fabs(want);
            for (int64_t j = 0; j < o->n; j++) {
                const double weight = (double)o->weights_t[j * width + r];
                if (skip_zeros && weight == 0)
                    continue;
                const double product = weight * (double)o->value[j * o->stride + c];
                want += product;
                size += fabs(product);
            }
            const double got = (double)o->after[c * width + r];
            if (isfinite(want) ? !(fabs(got - want) <= 4e-7 * size)
                               : !buffers_same((float)got, (float)want))
                fail_at(kernels, width, c, r, got, want);
        }
}

static void check_context_tile_of(const struct attn_kernels *kernels, int64_t width, int64_t n,
                                  int64_t v_head_dim, int64_t gap)
{
    for (int guarded = 0; guarded <= 1; guarded++) {
        struct context_operands o = make_context(width, n, v_head_dim, gap);
        (guarded ? kernels->context_tile_guarded : kernels->context_tile)(
            o.after, o.rescale, o.weights_t, o.value, o.stride, n, v_head_dim, width, NULL);
        expect_context(kernels, &o, width, guarded);
        buffers_free();
    }
}

static void check_context_tile(const struct attn_kernels *kernels, int64_t width)
{
    for (int n = 0; n < COUNTS_LENGTH; n++)
        for (int d = 0; d < COUNTS_LENGTH; d++)
            check_context_tile_of(kernels, width, COUNTS[n], COUNTS[d], n % 3);
    check_context_tile_of(kernels, width, 96, 64, 0);
    check_context_tile_of(kernels, width, 97, 80, 5);
}

TEST(context_tile)
{
    for_all(check_context_tile);
}

/* NaN and infinite values count in the lanes that give them a weight, and in no other. */
static void check_guarded_poison(const struct attn_kernels *kernels, int64_t width)
{
    for (int64_t v_head_dim = 1; v_head_dim <= 19; v_head_dim += 3)
        for (int64_t n = 1; n <= 13; n += 4) {
            struct context_operands o = make_context(width, n, v_head_dim, 1);
            for (int64_t j = 0; j < n; j++) {
                const float poison = j % 3 == 0 ? NAN : j % 3 == 1 ? INFINITY : -INFINITY;
                o.value[j * o.stride + j % v_head_dim] = poison;
                for (int64_t r = 0; r < width; r++)
                    if ((j + r) % 4 != 0 || r % 8 == 3)
                        o.weights_t[j * width + r] = r % 2 == 0 ? 0.0f : -0.0f;
            }
            kernels->context_tile_guarded(o.after, o.rescale, o.weights_t, o.value, o.stride, n,
                                          v_head_dim, width, NULL);
            expect_context(kernels, &o, width, true);
            buffers_free();
        }
}

TEST(guarded_poison)
{
    for_all(check_guarded_poison);
}

/* ---------------------------------------------------------- independence -- */

/* The same numbers give equal bits in lane r of a wide tile and in lane r % lanes of a narrow
 * one. */
static void check_lane_independence(const struct attn_kernels *kernels, int64_t width)
{
    enum { N = 23, DIM = 21 };
    const int64_t lanes = kernels->lanes;
    struct fill fill = { (uint64_t)width };
    struct context_operands wide = make_context(width, N, DIM, 0);
    float *scores_t = buffers_floats(N * width);
    kernels->score_tile(scores_t, wide.before, wide.value, DIM, N, DIM, width, NULL);
    kernels->context_tile(wide.after, wide.rescale, wide.weights_t, wide.value, DIM, N, DIM, width,
                          NULL);
    float *narrow_t = buffers_filled(&fill, DIM * lanes, -1, 1);
    float *narrow_scores_t = buffers_floats(N * lanes);
    float *narrow_weights_t = buffers_filled(&fill, N * lanes, 0, 1);
    float *narrow_rescale = buffers_filled(&fill, lanes, 0, 1);
    const int64_t from = width - 1, to = 1; /* the last lane of one tile is lane 1 of the other */
    for (int64_t d = 0; d < DIM; d++)
        narrow_t[d * lanes + to] = wide.before[d * width + from];
    for (int64_t j = 0; j < N; j++)
        narrow_weights_t[j * lanes + to] = wide.weights_t[j * width + from];
    narrow_rescale[to] = wide.rescale[from];
    kernels->score_tile(narrow_scores_t, narrow_t, wide.value, DIM, N, DIM, lanes, NULL);
    kernels->context_tile(narrow_t, narrow_rescale, narrow_weights_t, wide.value, DIM, N, DIM,
                          lanes, NULL);
    for (int64_t j = 0; j < N; j++)
        assert_true(narrow_scores_t[j * lanes + to] == scores_t[j * width + from]);
    for (int64_t d = 0; d < DIM; d++)
        assert_true(narrow_t[d * lanes + to] == wide.after[d * width + from]);
    buffers_free();
}

TEST(lane_independence)
{
    for_all(check_lane_independence);
}

/* ----------------------------------------------------------- all_finite -- */

static void check_all_finite(const struct attn_kernels *kernels, int64_t row_count, int64_t columns,
                             int64_t gap)
{
    static const float extremes[] = { FLT_MAX, -FLT_MAX, FLT_MIN,  1e-45f,
                                      -0.0f,   NAN,      INFINITY, -INFINITY };
    struct fill fill = { (uint64_t)(row_count * 100 + columns) };
    const int64_t stride = columns + gap;
    float *rows = buffers_rows(&fill, row_count, columns, stride > 0 ? stride : 1);
    assert_true(kernels->all_finite(rows, stride, row_count, columns));
    for (int64_t r = 0; r < row_count; r++)
        for (int64_t c = 0; c < columns; c++)
            for (size_t e = 0; e < sizeof extremes / sizeof extremes[0]; e++) {
                const float kept = rows[r * stride + c];
                rows[r * stride + c] = extremes[e];
                if (kernels->all_finite(rows, stride, row_count, columns)
                    != (bool)isfinite(extremes[e]))
                    fail_at(kernels, 0, r, c, (double)extremes[e], 0.0);
                rows[r * stride + c] = kept;
            }
    buffers_free();
}

TEST(all_finite)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (buffers_shift = 0; buffers_shift <= 1; buffers_shift++)
            for (int64_t row_count = 0; row_count <= 3; row_count++)
                for (int64_t columns = 0; columns <= 67; columns++)
                    check_all_finite(*k, row_count, columns, columns % 3);
}

/* ---------------------------------------------------------- one vector of a tile -- */

/* Vectors run alone, each with one key fewer than the one before it. They give the bits that the
 * tile has there, and write nothing else. */
static void check_lanes(const struct attn_kernels *kernels, int64_t width)
{
    const int64_t lanes = kernels->lanes, n = 37, columns = 29;
    struct fill fill = { (uint64_t)width };
    float *query_t = buffers_filled(&fill, columns * width, -1, 1);
    float *key = buffers_rows(&fill, n, columns, columns + 2);
    float *whole = buffers_floats(n * width), *part = buffers_floats(n * width);
    for (int64_t i = 0; i < n * width; i++)
        part[i] = 77.0f;
    kernels->score_tile(whole, query_t, key, columns + 2, n, columns, width, NULL);
    for (int64_t c = 0; c < width; c += lanes)
        kernels->score_lanes(part + c, query_t + c, key, columns + 2, n - c / lanes, columns, width,
                             lanes, NULL);
    for (int64_t i = 0; i < n * width; i++) {
        const bool is_hidden = i / width >= n - i % width / lanes;
        assert_true(part[i] == (is_hidden ? 77.0f : whole[i]));
        if (is_hidden)
            whole[i] = 0.0f; /* as weights */
    }
    float *some = buffers_floats(n * width);
    for (int64_t count = lanes; count < width; count += lanes) {
        memset(some, 0, (size_t)(n * width) * sizeof *some);
        kernels->score_lanes(some, query_t, key, columns + 2, n, columns, width, count, NULL);
        for (int64_t i = 0; i < n * width; i++)
            assert_true(whole[i] == 0.0f || some[i] == (i % width < count ? whole[i] : 0.0f));
    }
    float *rescale = buffers_filled(&fill, width, 0, 1);
    float *context = buffers_filled(&fill, columns * width, -1, 1);
    float *context_part = buffers_copy(context, columns * width);
    kernels->context_tile(context, rescale, whole, key, columns + 2, n, columns, width, NULL);
    for (int64_t c = 0; c < width; c += lanes)
        kernels->context_lanes(context_part + c, rescale + c, whole + c, key, columns + 2,
                               n - c / lanes, columns, width, NULL);
    for (int64_t i = 0; i < columns * width; i++)
        assert_true(context_part[i] == context[i]);
    buffers_free();
}

TEST(lanes)
{
    for_all(check_lanes);
}

/* Upcoming rows change nothing and are not read: there is no memory at their addresses. */
static void check_upcoming(const struct attn_kernels *kernels, int64_t width)
{
    enum { N = 41, COLUMNS = 29 };
    struct fill fill = { (uint64_t)width };
    const struct attn_upcoming lists[][3] = {
        { { NULL, 0, 0, 0 } },
        { { (const void *)(uintptr_t)64, 4096, 200, 3 }, { NULL, 0, 0, 0 } },
        { { (const void *)(uintptr_t)68, -640, 64, 1 },
          { (const void *)(uintptr_t)8192, 4, 4, 1000 },
          { NULL, 0, 0, 0 } },
    };
    float *query_t = buffers_filled(&fill, COLUMNS * width, -1, 1);
    float *key = buffers_rows(&fill, N, COLUMNS, COLUMNS);
    float *rescale = buffers_filled(&fill, width, 0, 1);
    float *scores[2] = { buffers_floats(N * width), buffers_floats(N * width) };
    float *context[2] = { buffers_floats(COLUMNS * width), buffers_floats(COLUMNS * width) };
    for (int i = 0; i < 3; i++) {
        for (int called = 0; called <= 1; called++) {
            struct attn_prefetch whole = { .list = lists[i] };
            struct attn_prefetch *prefetch = called ? &whole : NULL;
            memset(context[called], 0, (size_t)(COLUMNS * width) * sizeof(float));
            kernels->score_tile(scores[called], query_t, key, COLUMNS, N, COLUMNS, width, prefetch);
            kernels->context_tile(context[called], rescale, scores[called], key, COLUMNS, N,
                                  COLUMNS, width, prefetch);
        }
        assert_memory_equal(scores[0], scores[1], (size_t)(N * width) * sizeof(float));
        assert_memory_equal(context[0], context[1], (size_t)(COLUMNS * width) * sizeof(float));
    }
    buffers_free();
}

TEST(upcoming)
{
    for_all(check_upcoming);
}
