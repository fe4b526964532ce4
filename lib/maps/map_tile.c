/* SPDX-License-Identifier: Apache-2.0 */
/* map_tile.c - blocks of rows and keys, each with its plan, to the cells of a piece.
 *
 * A task takes rows of cells. It walks over their rows and keys in blocks, and runs a plan of its
 * own for each block, whose output is the masked scores. A maximum is taken of scores, before the
 * exponential, so that a large cell needs one exponential for each of its rows. */
#include "map_tile.h"

#include "base/internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Rows of a task, at least, if there are so many. */
enum { TASK_ROWS = 64 };

static const struct attn_kernels *kernels_of(const struct attn_map_tile *tile)
{
    return tile->problem.kernels != NULL ? tile->problem.kernels : attn_kernels_available()[0];
}

static int64_t row_count_of(const struct attn_map_tile *tile)
{
    return tile->rows[1] - tile->rows[0];
}

static int64_t key_count_of(const struct attn_map_tile *tile)
{
    return tile->keys[1] - tile->keys[0];
}

void attn_map_tile_shape(const struct attn_map_tile *tile, int64_t shape[2])
{
    shape[0] = attn_min(tile->cell_rows, row_count_of(tile));
    shape[1] = attn_min(tile->cell_columns, key_count_of(tile));
}

/* ------------------------------------------------------------------- blocks -- */

/* Cut the mask to rows and keys from these on; a dimension of 1 broadcasts. */
static void cut_mask(struct attn_tensor *mask, int64_t row, int64_t key, int64_t row_count,
                     int64_t key_count)
{
    int64_t offset = 0;

    if (mask->data == NULL)
        return;
    if (mask->shape[2] > 1) {
        offset += row * mask->stride[2];
        mask->shape[2] = row_count;
    }
    if (mask->shape[3] > 1) {
        offset += key * mask->stride[3];
        mask->shape[3] = key_count;
    }
    mask->data = (char *)mask->data + offset * (int64_t)attn_dtype_size(mask->dtype);
}

static void cut(struct attn_tensor *tensor, int64_t first, int64_t count)
{
    tensor->data =
        (char *)tensor->data + first * tensor->stride[2] * (int64_t)attn_dtype_size(tensor->dtype);
    tensor->shape[2] = count;
}

/* The problem of one block. past_len is where its own is kept. */
static void cut_problem(struct attn_problem *problem, const struct attn_map_tile *tile, int64_t row,
                        int64_t row_count, int64_t key, int64_t key_count, int64_t *past_len)
{
    *problem = tile->problem;
    *past_len = (problem->past_len != NULL ? *problem->past_len : 0) + row;
    problem->past_len = past_len;
    problem->kv_offset += key;
    problem->first_keys = attn_max(problem->first_keys - key, 0);
    cut(&problem->query, row, row_count);
    cut(&problem->key, key, key_count);
    problem->value = problem->key;
    cut_mask(&problem->mask, row, key, row_count, key_count);
}

/* Masked scores of one block, dense. The checks have been passed by the whole tile. */
static void run_block(const struct attn_map_tile *tile, int64_t row, int64_t row_count, int64_t key,
                      int64_t key_count, float *scores, void *workspace)
{
    struct attn_problem problem;
    struct attn_plan_full plan;
    int64_t past_len;

    cut_problem(&problem, tile, row, row_count, key, key_count, &past_len);
    problem.masked = attn_tensor_dense(scores, ATTN_F32, 1, 1, row_count, key_count);
    if (attn_plan_make(&plan, &problem, NULL) != ATTN_OK)
        return;
    for (int64_t task = 0; task < plan.task_count; task++)
        attn_plan_run(attn_plan_given(&plan), task, workspace);
}

/* Turn masked scores of a row into weights in place. */
static void weigh(const struct attn_kernels *kernels, float *row, float lse, int64_t n)
{
    if (lse > -INFINITY)
        kernels->weights_row(row, lse, 1.0f, n);
    else
        memset(row, 0, (size_t)n * sizeof *row);
}

static const float *given_of(const struct attn_map_tile *tile, int64_t row)
{
    return tile->given != NULL ? tile->given[row] : NULL;
}

/* Turn n masked scores of a row, from key on, into its weights. */
static void weigh_row(const struct attn_map_tile *tile, int64_t row, int64_t key, float *scores,
                      int64_t n)
{
    const float *given = given_of(tile, row);

    if (given != NULL)
        memcpy(scores, given + key, (size_t)n * sizeof *scores);
    else
        weigh(kernels_of(tile), scores, tile->lse[row], n);
}

void attn_map_tile_scores(const struct attn_map_tile *tile, int64_t row, int64_t row_count,
                          float *scores, void *workspace)
{
    run_block(tile, row, row_count, tile->keys[0], key_count_of(tile), scores, workspace);
}

void attn_map_tile_weigh(const struct attn_map_tile *tile, int64_t row, int64_t row_count,
                         float *scores)
{
    const int64_t keys = key_count_of(tile);

    for (int64_t r = 0; r < row_count; r++)
        weigh_row(tile, row + r, tile->keys[0], scores + r * keys, keys);
}

/* -------------------------------------------------------------------- cells -- */

/* The first number of n that is in cell number c of cells. */
static int64_t first_of(int64_t c, int64_t cells, int64_t n)
{
    return attn_divide_up(c * n, cells);
}

/* A task on its way. Of each row of a block, columns numbers are kept while its keys are walked:
 * the greatest score of each cell for MAX, sums of weights for MEAN. */
struct walk {
    const struct attn_map_tile *tile;
    const struct attn_kernels *kernels;
    int64_t cell_rows, columns;
    float *scores; /* of a block */
    float *most;   /* [ATTN_MAP_TILE_ROWS][columns] */
    double *sums;  /* [ATTN_MAP_TILE_ROWS][columns] */
    double *total; /* [columns] of the row of cells at hand */
    void *workspace;
};

/* Take n numbers of row r of a block, keys from key on. */
static void take_keys(const struct walk *walk, int64_t r, const float *row, int64_t key, int64_t n)
{
    const int64_t keys = key_count_of(walk->tile);
    int64_t c = key * walk->columns / keys;

    for (int64_t j = 0; j < n; c++) {
        const int64_t end = attn_min(first_of(c + 1, walk->columns, keys) - key, n);
        if (walk->tile->reduce == ATTN_REDUCE_MAX) {
            float most = walk->most[r * walk->columns + c];
            for (; j < end; j++)
                most = row[j] > most ? row[j] : most;
            walk->most[r * walk->columns + c] = most;
        } else {
            double sum = 0;
            for (; j < end; j++)
                sum += (double)row[j];
            walk->sums[r * walk->columns + c] += sum;
        }
    }
}

/* Rows [row, row + n) of the map, all keys of the piece. */
static void walk_keys(const struct walk *walk, int64_t row, int64_t n)
{
    const struct attn_map_tile *tile = walk->tile;
    const int64_t keys = key_count_of(tile);

    for (int64_t i = 0; i < n * walk->columns; i++) {
        walk->most[i] = -INFINITY;
        walk->sums[i] = 0;
    }
    for (int64_t key = 0; key < keys; key += ATTN_MAP_TILE_KEYS) {
        const int64_t count = attn_min(ATTN_MAP_TILE_KEYS, keys - key);
        run_block(tile, row, n, tile->keys[0] + key, count, walk->scores, walk->workspace);
        for (int64_t r = 0; r < n; r++) {
            float *scores = walk->scores + r * count;
            if (tile->reduce == ATTN_REDUCE_MEAN || given_of(tile, row + r) != NULL)
                weigh_row(tile, row + r, tile->keys[0] + key, scores, count);
            take_keys(walk, r, scores, key, count);
        }
    }
}

/* The last row of a row of cells has been added: write its means. */
static void end_cells(const struct walk *walk, int64_t number)
{
    const int64_t rows = row_count_of(walk->tile), keys = key_count_of(walk->tile);
    const int64_t row_count =
        first_of(number + 1, walk->cell_rows, rows) - first_of(number, walk->cell_rows, rows);
    float *out = walk->tile->cells + number * walk->columns;

    for (int64_t c = 0; c < walk->columns; c++) {
        const int64_t key_count =
            first_of(c + 1, walk->columns, keys) - first_of(c, walk->columns, keys);
        out[c] = (float)(walk->total[c] / (double)(key_count * row_count));
        walk->total[c] = 0;
    }
}

/* Add row r of a block, which is number i of the piece, to its row of cells. */
static void add_row(const struct walk *walk, int64_t i, int64_t r)
{
    const int64_t rows = row_count_of(walk->tile);
    const int64_t number = i * walk->cell_rows / rows;
    float *out = walk->tile->cells + number * walk->columns;
    float *most = walk->most + r * walk->columns;

    if (walk->tile->reduce == ATTN_REDUCE_MAX) {
        if (given_of(walk->tile, walk->tile->rows[0] + i) == NULL)
            weigh(walk->kernels, most, walk->tile->lse[walk->tile->rows[0] + i], walk->columns);
        for (int64_t c = 0; c < walk->columns; c++)
            out[c] = most[c] > out[c] ? most[c] : out[c];
        return;
    }
    for (int64_t c = 0; c < walk->columns; c++)
        walk->total[c] += walk->sums[r * walk->columns + c];
    if (i + 1 == first_of(number + 1, walk->cell_rows, rows))
        end_cells(walk, number);
}

/* --------------------------------------------------------------------- tasks -- */

/* Rows of cells of one task. */
static int64_t cell_rows_of_task(const struct attn_map_tile *tile, const int64_t shape[2])
{
    const int64_t rows_of_cell = attn_max(row_count_of(tile) / shape[0], 1);

    return attn_max(TASK_ROWS / rows_of_cell, 1);
}

enum attn_status attn_map_tile_check(const struct attn_map_tile *tile, const char **where)
{
    struct attn_problem problem = tile->problem;
    struct attn_plan_full plan;

    problem.value = problem.key;
    RETURN_IF_FAILED(attn_plan_make(&plan, &problem, where));
    RETURN_IF(problem.query.shape[0] != 1 || problem.query.shape[1] != 1, ATTN_ERR_SHAPE, "query");
    RETURN_IF(problem.kv_len != NULL || problem.row_kv_len != NULL, ATTN_ERR_OPTION, "kv_len");
    RETURN_IF(problem.sinks != NULL, ATTN_ERR_OPTION, "sinks");
    RETURN_IF(problem.key.pages != NULL, ATTN_ERR_SHAPE, "key.pages");
    RETURN_IF(tile->lse == NULL, ATTN_ERR_NO_DATA, "lse");
    RETURN_IF(tile->cells == NULL, ATTN_ERR_NO_DATA, "cells");
    RETURN_IF(tile->rows[0] < 0 || tile->rows[1] < tile->rows[0]
                  || tile->rows[1] > problem.query.shape[2],
              ATTN_ERR_OPTION, "rows");
    RETURN_IF(tile->keys[0] < 0 || tile->keys[1] < tile->keys[0]
                  || tile->keys[1] > problem.key.shape[2],
              ATTN_ERR_OPTION, "keys");
    RETURN_IF(tile->cell_rows < 1, ATTN_ERR_OPTION, "cell_rows");
    RETURN_IF(tile->cell_columns < 1, ATTN_ERR_OPTION, "cell_columns");
    return ATTN_OK;
}

int64_t attn_map_tile_tasks(const struct attn_map_tile *tile)
{
    int64_t shape[2];

    attn_map_tile_shape(tile, shape);
    if (shape[0] == 0 || shape[1] == 0)
        return 0;
    return attn_divide_up(shape[0], cell_rows_of_task(tile, shape));
}

/* Of the plan of a block: those of fewer rows or keys need no more. */
static size_t plan_bytes(const struct attn_map_tile *tile)
{
    struct attn_problem problem;
    struct attn_plan_full plan;
    size_t most = 0;

    for (int64_t rows = 1; rows <= ATTN_MAP_TILE_ROWS; rows++) {
        int64_t past_len;
        float number;
        const int64_t n = attn_min(rows, tile->problem.query.shape[2]);
        const int64_t keys = attn_min(ATTN_MAP_TILE_KEYS, tile->problem.key.shape[2]);
        cut_problem(&problem, tile, 0, n, 0, keys, &past_len);
        problem.masked = attn_tensor_dense(&number, ATTN_F32, 1, 1, n, keys);
        if (attn_plan_make(&plan, &problem, NULL) == ATTN_OK && plan.workspace_bytes > most)
            most = plan.workspace_bytes;
    }
    return attn_align_up(most);
}

/* Divide a workspace into the plan's own, which comes first, and the parts of the walk, and return
 * its bytes; with memory NULL, only count. */
static size_t cut_walk(struct walk *walk, void *memory)
{
    const int64_t numbers = ATTN_MAP_TILE_ROWS * walk->columns;
    size_t bytes = plan_bytes(walk->tile);

    walk->scores = attn_cut(memory, &bytes, (int64_t)ATTN_MAP_TILE_ROWS * ATTN_MAP_TILE_KEYS,
                            sizeof *walk->scores);
    walk->most = attn_cut(memory, &bytes, numbers, sizeof *walk->most);
    walk->sums = attn_cut(memory, &bytes, numbers, sizeof *walk->sums);
    walk->total = attn_cut(memory, &bytes, walk->columns, sizeof *walk->total);
    return bytes;
}

size_t attn_map_tile_workspace_bytes(const struct attn_map_tile *tile)
{
    int64_t shape[2];

    attn_map_tile_shape(tile, shape);
    return cut_walk(&(struct walk){ .tile = tile, .columns = shape[1] }, NULL);
}

void attn_map_tile_run(const struct attn_map_tile *tile, int64_t task, void *workspace)
{
    int64_t shape[2];

    attn_map_tile_shape(tile, shape);
    struct walk walk = { .tile = tile,
                         .kernels = kernels_of(tile),
                         .cell_rows = shape[0],
                         .columns = shape[1],
                         .workspace = workspace };
    const int64_t step = cell_rows_of_task(tile, shape), rows = row_count_of(tile);
    const int64_t first_cells = task * step, end_cells_row = attn_min(first_cells + step, shape[0]);
    const int64_t end = first_of(end_cells_row, shape[0], rows);

    cut_walk(&walk, workspace);
    memset(tile->cells + first_cells * shape[1], 0,
           (size_t)((end_cells_row - first_cells) * shape[1]) * sizeof(float));
    memset(walk.total, 0, (size_t)shape[1] * sizeof(double));
    for (int64_t i = first_of(first_cells, shape[0], rows); i < end; i += ATTN_MAP_TILE_ROWS) {
        const int64_t n = attn_min(ATTN_MAP_TILE_ROWS, end - i);
        walk_keys(&walk, tile->rows[0] + i, n);
        for (int64_t r = 0; r < n; r++)
            add_row(&walk, i + r, r);
    }
}
