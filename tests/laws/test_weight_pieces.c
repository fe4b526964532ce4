/* SPDX-License-Identifier: Apache-2.0 */
/* test_weight_pieces.c - regions and spans of weight maps: random pieces of random maps, on every
 * table of kernels, are pieces of the whole map, to the last bit; sums over spans are those in long
 * double, rounded. */
#include "fill.h"
#include "kernel_tables.h"
#include "layer.h"
#include "problem_count.h"
#include "rows.h"
#include "test.h"
#include "work.h"

#include "layer/layer_internal.h"

enum { HEADS = 4, Q_MAX = 140, KV_MAX = 210, HEAD_DIM = 16, SPANS = 9 };
enum { PLANE = Q_MAX * KV_MAX };

static struct {
    float query[HEADS * Q_MAX * HEAD_DIM], key[2 * KV_MAX * HEAD_DIM], value[2 * KV_MAX * HEAD_DIM];
    float weights[HEADS * PLANE], context[HEADS * Q_MAX * HEAD_DIM];
    float again[HEADS * Q_MAX * HEAD_DIM];
    float whole[HEADS * PLANE], cells[HEADS * PLANE];
    float values[HEADS * PLANE], pooled[HEADS * PLANE];
    int64_t indices[HEADS * PLANE];
} data;

static const struct attn_layer LAYER = {
    .q_heads = HEADS, .kv_heads = 2, .head_dim = HEAD_DIM, .v_head_dim = HEAD_DIM
};

/* A random problem: many rows or few, causal or not, in float or in double. */
static struct attn_layer_problem make_problem(const struct attn_kernels *kernels, struct fill *fill)
{
    const int64_t q_len =
        fill_below(fill, 4) == 0 ? 1 + fill_below(fill, 3) : 1 + fill_below(fill, Q_MAX);
    const int64_t kv_len = 1 + fill_below(fill, KV_MAX);
    struct attn_layer_problem problem = {
        .layer = &LAYER,
        .options = attn_options_default(HEAD_DIM),
        .query = attn_tensor_dense(data.query, ATTN_F32, 1, HEADS, q_len, HEAD_DIM),
        .key = attn_tensor_dense(data.key, ATTN_F32, 1, 2, kv_len, HEAD_DIM),
        .value = attn_tensor_dense(data.value, ATTN_F32, 1, 2, kv_len, HEAD_DIM),
        .past_len = fill_below(fill, 30),
        .kernels = kernels,
    };

    problem.options.causal = fill_below(fill, 2) == 0;
    if (fill_below(fill, 8) == 0)
        problem.options.softmax_precision = ATTN_F64;
    fill_floats(fill, data.query, HEADS * q_len * HEAD_DIM, -1, 1);
    fill_floats(fill, data.key, 2 * kv_len * HEAD_DIM, -2, 2);
    fill_floats(fill, data.value, 2 * kv_len * HEAD_DIM, -1, 1);
    return problem;
}

static void run(const struct attn_layer_problem *problem, bool in_reverse)
{
    struct attn_layer_plan plan;
    const char *where = "";
    const enum attn_status status = attn_layer_plan_init(&plan, problem, &where);
    if (status != ATTN_OK)
        fail_msg("%s: %s", attn_status_name(status), where);
    void *scratch = plan.scratch_bytes ? aligned_alloc(64, plan.scratch_bytes) : NULL;
    void *workspace = plan.workspace_bytes ? aligned_alloc(64, plan.workspace_bytes) : NULL;
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t i = 0; i < plan.task_count[stage]; i++)
            attn_layer_run(&plan, stage, in_reverse ? plan.task_count[stage] - 1 - i : i, scratch,
                           workspace);
    free(scratch);
    free(workspace);
}

/* ------------------------------------------------------------------ the plain reductions -- */

/* The map of each head of the result, whole. */
static int64_t reduce_heads(const struct attn_weight_map *map, int64_t plane)
{
    const int64_t heads = map->heads != ATTN_MAP_EACH ? 1
                          : map->head_list            ? map->head_count
                                                      : HEADS;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < plane; i++) {
            double sum = 0;
            float max = 0;
            for (int64_t g = 0; g < HEADS; g++) {
                sum += (double)data.weights[g * plane + i];
                max = fmaxf(max, data.weights[g * plane + i]);
            }
            data.whole[h * plane + i] =
                map->heads == ATTN_MAP_MEAN ? (float)(sum / HEADS)
                : map->heads == ATTN_MAP_MAX
                    ? max
                    : data.weights[(map->head_list ? map->head_list[h] : h) * plane + i];
        }
    return heads;
}

struct piece {
    int64_t heads, rows, first_row, columns, first_column;
};

static int64_t row_of(const struct attn_weight_map *map, const struct piece *piece, int64_t i)
{
    return map->row_list ? map->row_list[i] : piece->first_row + i;
}

static struct piece piece_of(const struct attn_weight_map *map, int64_t q_len, int64_t kv_len)
{
    struct piece piece = { reduce_heads(map, q_len * kv_len), q_len, 0, kv_len, 0 };
    if (map->row_list)
        piece.rows = map->row_count;
    if (map->region_rows.end > 0) {
        piece.first_row = map->region_rows.begin;
        piece.rows = map->region_rows.end - map->region_rows.begin;
    }
    if (map->region_keys.end > 0) {
        piece.first_column = map->region_keys.begin;
        piece.columns = map->region_keys.end - map->region_keys.begin;
    }
    return piece;
}

/* Pools the piece, and compares values and indices with the largest of each of its rows. */
static void expect_region(const struct attn_weight_map *map, int64_t q_len, int64_t kv_len,
                          const int64_t shape[3])
{
    const struct piece piece = piece_of(map, q_len, kv_len);
    const int64_t rows =
        map->pool_rows && map->pool_rows < piece.rows ? map->pool_rows : piece.rows;
    const int64_t columns =
        map->pool_columns && map->pool_columns < piece.columns ? map->pool_columns : piece.columns;
    const int64_t k = map->top_k && map->top_k < columns ? map->top_k : columns;
    assert_true(shape[0] == piece.heads && shape[1] == rows && shape[2] == k);
    memset(data.cells, 0, (size_t)(piece.heads * rows * columns) * sizeof *data.cells);
    for (int64_t h = 0; h < piece.heads; h++)
        for (int64_t i = 0; i < piece.rows; i++)
            for (int64_t j = 0; j < piece.columns; j++) {
                float *cell = &data.cells[(h * rows + i * rows / piece.rows) * columns
                                          + j * columns / piece.columns];
                *cell = fmaxf(*cell, data.whole[(h * q_len + row_of(map, &piece, i)) * kv_len
                                                + piece.first_column + j]);
            }
    for (int64_t r = 0; r < piece.heads * rows; r++) {
        float values[KV_MAX];
        int64_t indices[KV_MAX];
        attn_top_k(data.cells + r * columns, columns, k, values, indices);
        assert_memory_equal(data.values + r * k, map->top_k ? values : data.cells + r * columns,
                            (size_t)k * sizeof *values);
        for (int64_t n = 0; map->top_k && n < k; n++)
            assert_int_equal(data.indices[r * k + n],
                             indices[n] + (map->pool_columns ? 0 : piece.first_column));
    }
}

static void expect_spans(const struct attn_weight_map *map, int64_t q_len, int64_t kv_len,
                         const int64_t shape[3])
{
    const struct piece piece = piece_of(map, q_len, kv_len);
    assert_true(shape[0] == piece.heads && shape[1] == piece.rows && shape[2] == map->span_count);
    for (int64_t h = 0; h < piece.heads; h++)
        for (int64_t i = 0; i < piece.rows; i++)
            for (int64_t s = 0; s < map->span_count; s++) {
                const float *row = data.whole + (h * q_len + row_of(map, &piece, i)) * kv_len;
                const float got = data.values[(h * piece.rows + i) * map->span_count + s];
                long double sum = 0;
                for (int64_t j = map->spans[s].begin; j < map->spans[s].end; j++)
                    sum += (long double)row[j];
                if (!(fabsl((long double)got - sum) <= sum * (0x1p-24L + 0x1p-40L)))
                    fail_msg("span %d of row %d is %.9g; want %.9g", (int)s, (int)i, (double)got,
                             (double)sum);
            }
}

/* ----------------------------------------------------------------------- random pieces -- */

static struct attn_map_range random_range(struct fill *fill, int64_t end)
{
    const int64_t begin = fill_below(fill, end);
    return (struct attn_map_range){ begin, begin + 1 + fill_below(fill, end - begin) };
}

/* Random heads, and random rows: all, a region, or a list. */
static struct attn_weight_map random_choice(struct fill *fill, int64_t q_len,
                                            int64_t row_list[Q_MAX])
{
    static const int64_t heads[] = { 0, 1, 3 };
    const int64_t mode = fill_below(fill, 4), rows = fill_below(fill, 3);
    struct attn_weight_map map = { .heads = mode == 2   ? ATTN_MAP_MEAN
                                            : mode == 3 ? ATTN_MAP_MAX
                                                        : ATTN_MAP_EACH,
                                   .head_list = mode == 1 ? heads : NULL,
                                   .head_count = 3,
                                   .values = data.values,
                                   .indices = data.indices };
    if (rows == 1)
        map.region_rows = random_range(fill, q_len);
    if (rows == 2) {
        map.row_list = row_list;
        for (int64_t i = 0; i < q_len; i++)
            if (fill_below(fill, 9) == 0)
                row_list[map.row_count++] = i;
    }
    return map;
}

static void run_map(struct attn_weight_map *map, const struct attn_layer_problem *whole,
                    struct fill *fill, int64_t shape[3])
{
    struct attn_layer_problem problem = *whole;
    const int64_t q_len = problem.query.shape[2], kv_len = problem.key.shape[2];
    const int64_t pooled = attn_weight_map_pooled_count(map, HEADS, q_len, kv_len);
    attn_weight_map_shape(map, HEADS, q_len, kv_len, shape);
    memset(data.values, 0, (size_t)(shape[0] * shape[1] * shape[2]) * sizeof *data.values);
    memset(data.pooled, 0, (size_t)pooled * sizeof *data.pooled);
    map->pooled = pooled > 0 ? data.pooled : NULL;
    problem.weight_map = map;
    problem.context = fill_below(fill, 2) == 0 ? data.again : NULL;
    run(&problem, fill_below(fill, 2) == 0);
    if (problem.context != NULL)
        assert_memory_equal(data.again, data.context,
                            (size_t)(q_len * HEADS * HEAD_DIM) * sizeof *data.again);
}

static struct attn_layer_problem make_whole(const struct attn_kernels *kernels, struct fill *fill)
{
    const struct attn_layer_problem problem = make_problem(kernels, fill);
    struct attn_layer_problem whole = problem;
    whole.weights = data.weights;
    whole.context = data.context;
    run(&whole, false);
    return problem;
}

TEST(regions_are_pieces)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k; k++)
        for (uint64_t seed = 0; seed < 400; seed++) {
            struct fill fill = { seed };
            int64_t row_list[Q_MAX], shape[3];
            if (!problem_is_tried(seed))
                continue;
            const struct attn_layer_problem problem = make_whole(*k, &fill);
            const int64_t q_len = problem.query.shape[2], kv_len = problem.key.shape[2];
            struct attn_weight_map map = random_choice(&fill, q_len, row_list);
            if (fill_below(&fill, 4) > 0)
                map.region_keys = random_range(&fill, kv_len);
            if (fill_below(&fill, 2) == 0)
                map.pool_columns = 1 + fill_below(&fill, kv_len);
            if (fill_below(&fill, 2) == 0)
                map.pool_rows = 1 + fill_below(&fill, q_len);
            if (fill_below(&fill, 2) == 0)
                map.top_k = 1 + fill_below(&fill, 40);
            else
                map.indices = NULL;
            run_map(&map, &problem, &fill, shape);
            expect_region(&map, q_len, kv_len, shape);
        }
}

TEST(spans_are_sums)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k; k++)
        for (uint64_t seed = 0; seed < 400; seed++) {
            struct fill fill = { seed + 1000 };
            struct attn_map_range spans[SPANS];
            int64_t row_list[Q_MAX], shape[3];
            if (!problem_is_tried(seed))
                continue;
            const struct attn_layer_problem problem = make_whole(*k, &fill);
            const int64_t q_len = problem.query.shape[2], kv_len = problem.key.shape[2];
            struct attn_weight_map map = random_choice(&fill, q_len, row_list);
            for (int s = 0; s < SPANS; s++)
                spans[s] = s % 4 == 3 ? (struct attn_map_range){ kv_len, kv_len }
                                      : random_range(&fill, kv_len);
            spans[0] = (struct attn_map_range){ 0, kv_len };
            map.spans = spans;
            map.span_count = fill_below(&fill, SPANS + 1);
            run_map(&map, &problem, &fill, shape);
            expect_spans(&map, q_len, kv_len, shape);
        }
}

/* -------------------------------------------------------------------------- few tiles -- */

static double flops_of(const struct attn_layer_plan *plan)
{
    struct attn_work work = { 0 };
    attn_layer_work(plan, &work);
    return work.tile_flops;
}

/* A plan of many tiles whose map has one row: the other tiles are computed, and counted, only for
 * other outputs. */
TEST(other_tiles_compute_nothing)
{
    static const int64_t last[] = { 639 };
    struct attn_layer_problem problem = { .layer = &LAYER,
                                          .options = attn_options_default(HEAD_DIM) };
    struct attn_weight_map map = { .row_list = last, .row_count = 1 };
    struct attn_layer_plan plan;
    static float query[HEADS * 640 * HEAD_DIM];
    problem.query = attn_tensor_dense(query, ATTN_F32, 1, HEADS, 640, HEAD_DIM);
    problem.key = attn_tensor_dense(data.key, ATTN_F32, 1, 2, KV_MAX, HEAD_DIM);
    problem.value = attn_tensor_dense(data.value, ATTN_F32, 1, 2, KV_MAX, HEAD_DIM);
    problem.weight_map = &map;
    map.values = data.values;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, NULL), ATTN_OK);
    const struct attn_plan *attention = attn_plan_given(&attn_layer_plan_full(&plan)->attention);
    assert_true(fabs(attn_weight_map_share(&map, attention) - 0.1) < 1e-9);
    const double one = flops_of(&plan);
    map.row_list = NULL;
    assert_true(fabs(attn_weight_map_share(&map, attention) - 1) < 1e-9);
    assert_true(fabs(flops_of(&plan) - 10 * one) < 1e-3 * one);
    map.region_rows = (struct attn_map_range){ 60, 70 };
    assert_true(fabs(attn_weight_map_share(&map, attention) - 0.2) < 1e-9);
}

/* ---------------------------------------------------------------------------- refused -- */

static void expect_refused(const struct attn_weight_map *map, const char *field)
{
    struct fill fill = { 1 };
    struct attn_layer_problem problem = make_problem(NULL, &fill);
    struct attn_layer_plan plan;
    const char *where = "";
    problem.query = attn_tensor_dense(data.query, ATTN_F32, 1, HEADS, 20, HEAD_DIM);
    problem.key = attn_tensor_dense(data.key, ATTN_F32, 1, 2, 30, HEAD_DIM);
    problem.value = attn_tensor_dense(data.value, ATTN_F32, 1, 2, 30, HEAD_DIM);
    problem.weight_map = map;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, field);
}

TEST(is_refused)
{
    static const int64_t row = 3;
    static const struct attn_map_range spans[] = { { 0, 30 }, { 29, 31 } };
    static const struct attn_map_range bad[] = { { -1, 3 }, { 4, 4 }, { 5, 2 }, { 0, 31 } };
    for (int i = 0; i < 4; i++) {
        expect_refused(&(struct attn_weight_map){ .region_rows = bad[i], .values = data.values },
                       "weight_map.region_rows");
        expect_refused(&(struct attn_weight_map){ .region_keys = bad[i], .values = data.values },
                       "weight_map.region_keys");
    }
    expect_refused(
        &(struct attn_weight_map){
            .region_rows = { 0, 4 }, .row_list = &row, .row_count = 1, .values = data.values },
        "weight_map.region_rows");
    const struct attn_weight_map good = {
        .spans = spans, .span_count = 1, .values = data.values, .indices = data.indices
    };
    struct attn_weight_map map = good;
    map.span_count = 2;
    expect_refused(&map, "weight_map.spans");
    map.span_count = -1;
    expect_refused(&map, "weight_map.span_count");
    map = good, map.top_k = 1;
    expect_refused(&map, "weight_map.spans");
    map = good, map.pool_rows = 1;
    expect_refused(&map, "weight_map.spans");
    map = good, map.region_keys = spans[0];
    expect_refused(&map, "weight_map.spans");
}
