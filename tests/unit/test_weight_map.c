/* SPDX-License-Identifier: Apache-2.0 */
/* test_weight_map.c - lib/weight_map.h against the whole map of the plain call, to the last bit.
 *
 * The test has the reductions of the whole map in their plainest form. It asks the library for
 * every combination of them, with tasks in order and in reverse, on every table of kernels. */
#include "fill.h"
#include "layer.h"
#include "rows.h"
#include "test.h"

enum { HEADS = 4, Q_LEN = 150, KV_LEN = 203, HEAD_DIM = 5 };
enum { WEIGHTS = HEADS * Q_LEN * KV_LEN };

static struct {
    float query[HEADS * Q_LEN * HEAD_DIM], key[2 * KV_LEN * HEAD_DIM], value[2 * KV_LEN * HEAD_DIM];
    float mask[Q_LEN * KV_LEN];
    float weights[WEIGHTS], context[Q_LEN * HEADS * HEAD_DIM], lse[HEADS * Q_LEN];
} data;

static const struct attn_layer LAYER = {
    .q_heads = HEADS, .kv_heads = 2, .head_dim = HEAD_DIM, .v_head_dim = HEAD_DIM
};

/* The softmax_precision of every problem here. */
static enum attn_dtype precision = ATTN_F32;

static struct attn_layer_problem problem_of(const struct attn_kernels *kernels)
{
    struct attn_layer_problem problem = {
        .layer = &LAYER,
        .options = attn_options_default(HEAD_DIM),
        .query = attn_tensor_dense(data.query, ATTN_F32, 1, HEADS, Q_LEN, HEAD_DIM),
        .key = attn_tensor_dense(data.key, ATTN_F32, 1, 2, KV_LEN, HEAD_DIM),
        .value = attn_tensor_dense(data.value, ATTN_F32, 1, 2, KV_LEN, HEAD_DIM),
        .mask = attn_tensor_dense(data.mask, ATTN_F32, 1, 1, Q_LEN, KV_LEN),
        .past_len = 40,
        .kernels = kernels,
    };
    problem.options.causal = true;
    problem.options.softmax_precision = precision;
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

static void run_whole(const struct attn_kernels *kernels)
{
    struct attn_layer_problem problem = problem_of(kernels);
    problem.weights = data.weights;
    problem.context = data.context;
    problem.lse = data.lse;
    run(&problem, false);
}

/* Scores with many ties, rows that see nothing, and a whole map to reduce. */
static void make_whole(const struct attn_kernels *kernels)
{
    struct fill fill = { 11 };
    for (size_t i = 0; i < sizeof data.query / sizeof(float); i++)
        data.query[i] = (float)(fill_below(&fill, 5) - 2);
    for (size_t i = 0; i < sizeof data.key / sizeof(float); i++)
        data.key[i] = (float)(fill_below(&fill, 3) - 1);
    fill_floats(&fill, data.value, sizeof data.value / sizeof(float), -1, 1);
    for (int64_t i = 0; i < Q_LEN * KV_LEN; i++)
        data.mask[i] = i / KV_LEN == 66 || fill_below(&fill, 7) == 0 ? -INFINITY : 0.0f;
    run_whole(kernels);
}

/* Scores of which no two are equal. Their weights differ much, or so little that many weights
 * are equal, or so much that many are 0. */
static void make_whole_of(const struct attn_kernels *kernels, float spread)
{
    struct fill fill = { 12 };
    fill_floats(&fill, data.query, sizeof data.query / sizeof(float), -spread, spread);
    fill_floats(&fill, data.key, sizeof data.key / sizeof(float), -1, 1);
    memset(data.mask, 0, sizeof data.mask);
    run_whole(kernels);
}

/* ------------------------------------------------------- the plain reductions -- */

struct reduced {
    int64_t heads, rows, columns;
    float *values;
    int64_t *indices;
};

static float *reduce_heads(const struct attn_weight_map *map, int64_t *heads)
{
    float *out = malloc(sizeof data.weights);
    const int64_t plane = Q_LEN * KV_LEN;
    assert_non_null(out);
    *heads = map->heads != ATTN_MAP_EACH ? 1 : map->head_list ? map->head_count : HEADS;
    for (int64_t h = 0; h < *heads; h++)
        for (int64_t i = 0; i < plane; i++) {
            double sum = 0;
            float max = 0;
            for (int64_t g = 0; g < HEADS; g++) {
                sum += (double)data.weights[g * plane + i];
                max = fmaxf(max, data.weights[g * plane + i]);
            }
            const int64_t from = map->head_list ? map->head_list[h] : h;
            out[h * plane + i] = map->heads == ATTN_MAP_MEAN  ? (float)(sum / HEADS)
                                 : map->heads == ATTN_MAP_MAX ? max
                                                              : data.weights[from * plane + i];
        }
    return out;
}

struct cell {
    float value;
    int64_t index;
};

static int larger_first(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? 1 : -1) : x->index < y->index ? -1 : 1;
}

/* The k largest, equal ones in their order. */
static void take_largest(const float *row, int64_t count, int64_t k, float *values,
                         int64_t *indices)
{
    struct cell cells[KV_LEN];
    for (int64_t j = 0; j < count; j++)
        cells[j] = (struct cell){ row[j], j };
    qsort(cells, (size_t)count, sizeof cells[0], larger_first);
    for (int64_t n = 0; n < k; n++) {
        values[n] = cells[n].value;
        indices[n] = cells[n].index;
    }
}

static struct reduced reduce(const struct attn_weight_map *map)
{
    struct reduced reduced;
    float *heads = reduce_heads(map, &reduced.heads);
    const int64_t chosen = map->row_list ? map->row_count : Q_LEN;
    const int64_t columns =
        map->pool_columns && map->pool_columns < KV_LEN ? map->pool_columns : KV_LEN;
    reduced.rows = map->pool_rows && map->pool_rows < chosen ? map->pool_rows : chosen;
    reduced.columns = map->top_k && map->top_k < columns ? map->top_k : columns;
    float *cells = calloc((size_t)(reduced.heads * reduced.rows * columns), sizeof *cells);
    reduced.values = calloc((size_t)(reduced.heads * reduced.rows * columns), sizeof(float));
    reduced.indices = calloc((size_t)(reduced.heads * reduced.rows * columns), sizeof(int64_t));
    for (int64_t h = 0; h < reduced.heads; h++)
        for (int64_t i = 0; i < chosen; i++)
            for (int64_t j = 0; j < KV_LEN; j++) {
                const int64_t row = map->row_list ? map->row_list[i] : i;
                float *cell = &cells[(h * reduced.rows + i * reduced.rows / chosen) * columns
                                     + j * columns / KV_LEN];
                *cell = fmaxf(*cell, heads[(h * Q_LEN + row) * KV_LEN + j]);
            }
    for (int64_t r = 0; r < reduced.heads * reduced.rows; r++)
        if (map->top_k)
            take_largest(cells + r * columns, columns, reduced.columns,
                         reduced.values + r * reduced.columns,
                         reduced.indices + r * reduced.columns);
        else
            memcpy(reduced.values + r * columns, cells + r * columns,
                   (size_t)columns * sizeof(float));
    free(heads);
    free(cells);
    return reduced;
}

/* --------------------------------------------------------------- the comparison -- */

static void expect_map(struct attn_weight_map map, const struct attn_kernels *kernels,
                       bool with_context, bool in_reverse)
{
    static float context[Q_LEN * HEADS * HEAD_DIM];
    static float lse[HEADS * Q_LEN];
    struct attn_layer_problem problem = problem_of(kernels);
    struct reduced want = reduce(&map);
    int64_t shape[3];
    attn_weight_map_shape(&map, HEADS, Q_LEN, KV_LEN, shape);
    assert_int_equal(shape[0], want.heads);
    assert_int_equal(shape[1], want.rows);
    assert_int_equal(shape[2], want.columns);
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    const int64_t pooled = attn_weight_map_pooled_count(&map, HEADS, Q_LEN, KV_LEN);
    map.values = calloc(count + 1, sizeof *map.values);
    map.indices = map.top_k ? calloc(count + 1, sizeof *map.indices) : NULL;
    map.pooled = pooled > 0 ? calloc((size_t)pooled, sizeof *map.pooled) : NULL;
    problem.weight_map = &map;
    if (with_context) {
        problem.context = context;
        problem.lse = lse;
    }
    run(&problem, in_reverse);
    assert_memory_equal(map.values, want.values, count * sizeof *map.values);
    if (map.top_k)
        assert_memory_equal(map.indices, want.indices, count * sizeof *map.indices);
    if (with_context) {
        assert_memory_equal(context, data.context, sizeof context);
        assert_memory_equal(lse, data.lse, sizeof lse);
    }
    free(map.values);
    free(map.indices);
    free(map.pooled);
    free(want.values);
    free(want.indices);
}

TEST(every_combination)
{
    static const int64_t heads[] = { 0, 3 }, rows[] = { 2, 63, 64, 66, 149 };
    static const int64_t pools[][2] = { { 0, 0 }, { 4, 10 }, { 149, 203 }, { 500, 500 }, { 3, 1 } };
    static const int64_t top_ks[] = { 0, 1, 7, 500 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k; k++) {
        make_whole(*k);
        for (int number = 0; number < 4 * 2 * 5 * 4; number++) {
            const int64_t *pool = pools[number / 4 % 5];
            const int mode = number / 40;
            struct attn_weight_map map = {
                .heads = mode < 2   ? ATTN_MAP_EACH
                         : mode < 3 ? ATTN_MAP_MEAN
                                    : ATTN_MAP_MAX,
                .head_list = mode == 1 ? heads : NULL,
                .head_count = 2,
                .row_list = number / 20 % 2 ? rows : NULL,
                .row_count = 5,
                .pool_rows = pool[0],
                .pool_columns = pool[1],
                .top_k = top_ks[number % 4],
            };
            expect_map(map, *k, number % 3 == 0, number % 5 == 0);
        }
    }
}

/* If the library looks for the greatest among the scores, it finds those of the weights, ties
 * included. */
TEST(every_spread)
{
    static const float spreads[] = { 3, 1e-2f, 1e-6f, 3e-7f, 0, 1000, 1e6f };
    static const int64_t top_ks[] = { 1, 8, 12, 32, 33 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k; k++)
        for (size_t i = 0; i < sizeof spreads / sizeof spreads[0]; i++) {
            make_whole_of(*k, spreads[i]);
            for (size_t n = 0; n < sizeof top_ks / sizeof top_ks[0]; n++) {
                expect_map((struct attn_weight_map){ .top_k = top_ks[n] }, *k, false, false);
                expect_map((struct attn_weight_map){ .top_k = top_ks[n], .pool_columns = 40 }, *k,
                           false, true);
            }
            expect_map((struct attn_weight_map){ .pool_rows = 5, .pool_columns = 9 }, *k, true,
                       false);
        }
}

/* NaN comes after all numbers, and no cell is NaN. */
TEST(not_a_number)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k; k++) {
        make_whole_of(*k, 3);
        data.query[70 * HEAD_DIM] = NAN;
        data.query[Q_LEN * HEAD_DIM] = INFINITY;
        run_whole(*k);
        expect_map((struct attn_weight_map){ .pool_columns = 9 }, *k, false, false);
        float values[8 * HEADS * Q_LEN];
        int64_t indices[8 * HEADS * Q_LEN];
        struct attn_weight_map map = { .top_k = 8, .values = values, .indices = indices };
        struct attn_layer_problem problem = problem_of(*k);
        problem.weight_map = &map;
        run(&problem, false);
        for (int64_t i = 0; i < HEADS * Q_LEN; i++) {
            float want[8];
            int64_t places[8];
            attn_top_k(data.weights + i * KV_LEN, KV_LEN, 8, want, places);
            assert_memory_equal(values + i * 8, want, sizeof want);
            assert_memory_equal(indices + i * 8, places, sizeof places);
        }
    }
}

/* In double, tasks have other rows. The map is still that of the weights. */
TEST(in_double)
{
    static const int64_t heads[] = { 0, 3 }, rows[] = { 2, 7, 8, 66, 149 };
    precision = ATTN_F64;
    make_whole(NULL);
    for (int with_context = 0; with_context < 2; with_context++) {
        expect_map((struct attn_weight_map){ .heads = ATTN_MAP_MEAN, .pool_rows = 4, .top_k = 3 },
                   NULL, with_context, true);
        expect_map((struct attn_weight_map){ .heads = ATTN_MAP_MAX, .pool_columns = 10 }, NULL,
                   with_context, false);
        expect_map(
            (struct attn_weight_map){
                .head_list = heads, .head_count = 2, .row_list = rows, .row_count = 5, .top_k = 7 },
            NULL, with_context, true);
    }
    precision = ATTN_F32;
}

TEST(nothing_chosen)
{
    static const int64_t none[] = { 0 };
    make_whole(NULL);
    for (int with_context = 0; with_context < 2; with_context++) {
        expect_map((struct attn_weight_map){ .row_list = none, .pool_rows = 2, .pool_columns = 2 },
                   NULL, with_context, false);
        expect_map((struct attn_weight_map){ .head_list = none, .top_k = 3 }, NULL, with_context,
                   false);
        expect_map((struct attn_weight_map){ .heads = ATTN_MAP_MEAN, .row_list = none }, NULL,
                   with_context, false);
    }
}

/* The mean and the maximum over heads do not hold the whole map: the memory of a task does not
 * grow with the rows of the problem or with its heads. */
TEST(memory)
{
    float number = 0;
    for (int heads = ATTN_MAP_EACH; heads <= ATTN_MAP_MAX; heads++) {
        struct attn_weight_map map = { .heads = (enum attn_map_heads)heads, .values = &number };
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            const int64_t rows = i ? 100000 : 100;
            struct attn_layer layer = LAYER;
            struct attn_layer_problem problem = problem_of(NULL);
            struct attn_layer_plan plan;
            layer.q_heads = i ? 64 : 2;
            problem.layer = &layer;
            problem.mask.data = NULL;
            problem.query =
                attn_tensor_dense(data.query, ATTN_F32, 1, layer.q_heads, rows, HEAD_DIM);
            problem.weight_map = &map;
            assert_int_equal(attn_layer_plan_init(&plan, &problem, NULL), ATTN_OK);
            bytes[i] = plan.workspace_bytes + plan.scratch_bytes;
        }
        assert_int_equal(bytes[0], bytes[1]);
        assert_in_range(bytes[0], 1, 64 * KV_LEN * 12 + 100000);
    }
}

TEST(checks)
{
    static const int64_t falling[] = { 2, 1 }, twice[] = { 1, 1 }, beyond[] = { 0, Q_LEN },
                         negative[] = { -1 };
    float number = 0;
    int64_t index = 0;
    const struct {
        struct attn_weight_map map;
        const char *where;
    } cases[] = {
        { { .head_list = falling, .head_count = 2, .values = &number }, "weight_map.head_list" },
        { { .head_list = beyond, .head_count = 2, .values = &number }, "weight_map.head_list" },
        { { .row_list = twice, .row_count = 2, .values = &number }, "weight_map.row_list" },
        { { .row_list = beyond, .row_count = 2, .values = &number }, "weight_map.row_list" },
        { { .row_list = negative, .row_count = 1, .values = &number }, "weight_map.row_list" },
        { { .heads = ATTN_MAP_MEAN, .head_list = twice, .values = &number }, "weight_map.heads" },
        { { .pool_rows = -1, .values = &number }, "weight_map.pool_rows" },
        { { .pool_columns = -1, .values = &number }, "weight_map.pool_columns" },
        { { .top_k = -1, .values = &number }, "weight_map.top_k" },
        { { .top_k = 0 }, "weight_map.values" },
        { { .top_k = 1, .values = &number }, "weight_map.indices" },
        { { .top_k = 1, .pool_rows = 1, .values = &number, .indices = &index },
          "weight_map.pooled" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attn_layer_problem problem = problem_of(NULL);
        struct attn_layer_plan plan;
        const char *where = "";
        problem.weight_map = &cases[i].map;
        assert_int_not_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_OK);
        assert_string_equal(where, cases[i].where);
    }
    struct attn_layer_problem problem = problem_of(NULL);
    struct attn_weight_map map = { .values = &number };
    struct attn_layer_plan plan;
    const char *where = "";
    problem.weight_map = &map;
    problem.weights = data.weights;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, "weights");
}

TEST(top_k)
{
    static const float row[] = { NAN, 1, 3, -INFINITY, 3, INFINITY, NAN, 1 };
    static const int64_t order[] = { 5, 2, 4, 1, 7, 3, 0, 6 };
    for (int64_t k = 0; k <= 8; k++) {
        float values[8];
        int64_t indices[8];
        attn_top_k(row, 8, k, values, indices);
        assert_memory_equal(indices, order, (size_t)k * sizeof *order);
        for (int64_t i = 0; i < k; i++)
            assert_memory_equal(&values[i], &row[order[i]], sizeof *row);
    }
}
