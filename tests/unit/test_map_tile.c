/* SPDX-License-Identifier: Apache-2.0 */
/* test_map_tile.c - a piece of a map, from query, key and lse, equals the same piece of the whole
 * map reduced here, in double, for every kernel table and every option that changes scores. */
#include "fill.h"
#include "map_tile.h"
#include "test.h"

enum { ROWS = 210, KEYS = 1300, DIM = 40 };

struct whole {
    float query[ROWS * DIM], key[KEYS * DIM], lse[ROWS], mask[ROWS * KEYS];
    float weights[ROWS * KEYS];
    struct attn_problem problem;
    float slope;
    int64_t past_len;
};

static void run_plan(const struct attn_problem *problem)
{
    struct attn_plan plan;
    const char *where = "";
    if (attn_plan_init(&plan, problem, &where) != ATTN_OK)
        fail_msg("%s", where);
    void *workspace = aligned_alloc(64, (plan.workspace_bytes + 63) / 64 * 64 + 64);
    for (int64_t task = 0; task < plan.task_count; task++)
        attn_plan_run(&plan, task, workspace);
    free(workspace);
}

/* Computes the whole map and its lse; the problem keeps no outputs. */
static void make_whole(struct whole *all, const struct attn_kernels *kernels)
{
    struct fill fill = { 17 };
    fill_floats(&fill, all->query, ROWS * DIM, -2, 2);
    fill_floats(&fill, all->key, KEYS * DIM, -2, 2);
    fill_floats(&fill, all->mask, ROWS * KEYS, -3, 3);
    all->slope = 0.01f;
    all->past_len = KEYS - ROWS;
    all->problem = (struct attn_problem){
        .options = attn_options_default(DIM),
        .query = attn_tensor_dense(all->query, ATTN_F32, 1, 1, ROWS, DIM),
        .key = attn_tensor_dense(all->key, ATTN_F32, 1, 1, KEYS, DIM),
        .value = attn_tensor_dense(all->key, ATTN_F32, 1, 1, KEYS, DIM),
        .past_len = &all->past_len,
        .kernels = kernels,
    };
}

static void compute_whole(struct whole *all)
{
    struct attn_problem problem = all->problem;
    problem.weights = attn_tensor_dense(all->weights, ATTN_F32, 1, 1, ROWS, KEYS);
    problem.lse = attn_tensor_dense(all->lse, ATTN_F32, 1, 1, ROWS, 1);
    run_plan(&problem);
}

static struct attn_map_tile tile_of(const struct whole *all, const int64_t place[6],
                                    enum attn_map_reduce reduce, float *cells)
{
    return (struct attn_map_tile){ .problem = all->problem,
                                   .lse = all->lse,
                                   .rows = { place[0], place[1] },
                                   .keys = { place[2], place[3] },
                                   .cell_rows = place[4],
                                   .cell_columns = place[5],
                                   .reduce = reduce,
                                   .cells = cells };
}

/* The cells of the piece, from the whole map; the caller frees them. */
static double *reduced(const struct whole *all, const struct attn_map_tile *tile,
                       const int64_t shape[2])
{
    const int64_t rows = tile->rows[1] - tile->rows[0], keys = tile->keys[1] - tile->keys[0];
    double *cells = calloc((size_t)(shape[0] * shape[1]), sizeof *cells);
    int64_t *counts = calloc((size_t)(shape[0] * shape[1]), sizeof *counts);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j++) {
            const int64_t cell = i * shape[0] / rows * shape[1] + j * shape[1] / keys;
            const double weight =
                (double)all->weights[(tile->rows[0] + i) * KEYS + tile->keys[0] + j];
            if (tile->reduce == ATTN_REDUCE_MEAN)
                cells[cell] += weight;
            else if (weight > cells[cell])
                cells[cell] = weight;
            counts[cell]++;
        }
    for (int64_t c = 0; tile->reduce == ATTN_REDUCE_MEAN && c < shape[0] * shape[1]; c++)
        cells[c] /= (double)counts[c];
    free(counts);
    return cells;
}

static void expect_tile(const struct whole *all, const struct attn_map_tile *tile)
{
    const char *where = "";
    int64_t shape[2];
    if (attn_map_tile_check(tile, &where) != ATTN_OK)
        fail_msg("%s", where);
    attn_map_tile_shape(tile, shape);
    void *workspace = aligned_alloc(64, (attn_map_tile_workspace_bytes(tile) + 63) / 64 * 64);
    for (int64_t task = attn_map_tile_tasks(tile) - 1; task >= 0; task--)
        attn_map_tile_run(tile, task, workspace);
    double *want = reduced(all, tile, shape);
    for (int64_t c = 0; c < shape[0] * shape[1]; c++)
        if (!(fabs((double)tile->cells[c] - want[c]) <= 4e-6 * want[c] + 1e-9))
            fail_msg("cell %d: %.9g, want %.9g", (int)c, (double)tile->cells[c], want[c]);
    free(want);
    free(workspace);
}

/* Pieces: of one number, of a row, across blocks of rows and of keys, of the whole. */
static const int64_t PLACES[][6] = {
    { 0, 1, 0, 1, 5, 5 },           { 7, 8, 3, 1290, 1, 40 },   { 3, 200, 9, 30, 50, 3 },
    { 60, 70, 1000, 1050, 99, 99 }, { 0, ROWS, 0, KEYS, 7, 9 }, { 1, 140, 1, 1299, 139, 11 },
};

static void expect_tiles(struct whole *all)
{
    float *cells = malloc(ROWS * KEYS * sizeof *cells);
    compute_whole(all);
    for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++)
        for (int reduce = ATTN_REDUCE_MAX; reduce <= ATTN_REDUCE_MEAN; reduce++) {
            const struct attn_map_tile tile =
                tile_of(all, PLACES[i], (enum attn_map_reduce)reduce, cells);
            expect_tile(all, &tile);
        }
    free(cells);
}

static struct whole whole;

TEST(plain_causal_and_windows)
{
    const struct attn_kernels *const *kernels = attn_kernels_available();
    for (; *kernels; kernels++) {
        make_whole(&whole, *kernels);
        expect_tiles(&whole);
        whole.problem.options.causal = true;
        whole.problem.options.softcap = 3;
        expect_tiles(&whole);
        whole.problem.options.window_left = 90;
        expect_tiles(&whole);
    }
}

TEST(masks)
{
    static uint8_t hidden[KEYS];
    make_whole(&whole, NULL);
    whole.problem.alibi_slopes = &whole.slope;
    whole.problem.mask = attn_tensor_dense(whole.mask, ATTN_F32, 1, 1, ROWS, KEYS);
    expect_tiles(&whole);
    for (int j = 0; j < KEYS; j++)
        hidden[j] = j % 3 != 1;
    whole.problem.mask = attn_tensor_dense(hidden, ATTN_BOOL, 1, 1, 1, KEYS);
    expect_tiles(&whole);
}

/* Rows that see no key have weights 0. */
TEST(rows_that_see_nothing)
{
    make_whole(&whole, NULL);
    whole.problem.options.causal = true;
    whole.past_len = -20;
    expect_tiles(&whole);
}

TEST(weights_of_rows)
{
    float *weights = malloc((size_t)ATTN_MAP_TILE_ROWS * 1000 * sizeof *weights), cell;
    make_whole(&whole, NULL);
    compute_whole(&whole);
    const struct attn_map_tile tile =
        tile_of(&whole, (const int64_t[]){ 5, 60, 100, 1100, 1, 1 }, ATTN_REDUCE_MAX, &cell);
    void *workspace = aligned_alloc(64, (attn_map_tile_workspace_bytes(&tile) + 63) / 64 * 64);
    attn_map_tile_scores(&tile, 20, ATTN_MAP_TILE_ROWS, weights, workspace);
    attn_map_tile_weigh(&tile, 20, ATTN_MAP_TILE_ROWS, weights);
    for (int r = 0; r < ATTN_MAP_TILE_ROWS; r++)
        for (int j = 0; j < 1000; j++) {
            const float want = whole.weights[(20 + r) * KEYS + 100 + j];
            assert_true(fabsf(weights[r * 1000 + j] - want) <= 4e-6f * want);
        }
    free(workspace);
    free(weights);
}

static void expect_refused(struct attn_map_tile tile, enum attn_status status, const char *field)
{
    const char *where = "";
    assert_int_equal(attn_map_tile_check(&tile, &where), status);
    assert_string_equal(where, field);
}

TEST(checks)
{
    float cells[4];
    int64_t length = 1;
    make_whole(&whole, NULL);
    const int64_t place[6] = { 0, 2, 0, 2, 2, 2 };
    const struct attn_map_tile good = tile_of(&whole, place, ATTN_REDUCE_MAX, cells);
    struct attn_map_tile tile = good;
    tile.rows[1] = ROWS + 1;
    expect_refused(tile, ATTN_ERR_OPTION, "rows");
    tile = good;
    tile.keys[0] = 3;
    expect_refused(tile, ATTN_ERR_OPTION, "keys");
    tile = good;
    tile.cell_rows = 0;
    expect_refused(tile, ATTN_ERR_OPTION, "cell_rows");
    tile = good;
    tile.cells = NULL;
    expect_refused(tile, ATTN_ERR_NO_DATA, "cells");
    tile = good;
    tile.problem.kv_len = &length;
    expect_refused(tile, ATTN_ERR_OPTION, "kv_len");
    tile = good;
    tile.rows[1] = 0;
    assert_int_equal(attn_map_tile_tasks(&tile), 0);
}
