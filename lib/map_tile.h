/* SPDX-License-Identifier: Apache-2.0 */
/* map_tile.h - a piece of the weight map of one head, from its query, key and lse:
 *
 *     weight[i][j] = exp(masked[i][j] - lse[i])
 *
 * A row's lse stands for its whole softmax, so a piece costs rows * keys * head_dim, however long
 * the rows are. The piece is reduced to cells: row i of n is in cell i * cell_rows / n, rounded
 * down, and so are keys. */
#ifndef ATTN_MAP_TILE_H
#define ATTN_MAP_TILE_H

#include "attn.h"

enum attn_map_reduce { ATTN_REDUCE_MAX, ATTN_REDUCE_MEAN };

struct attn_map_tile {
    /* The whole map, without outputs: batch 1, one query head and one key/value head. value is not
     * read and may be absent. No kv_len, row_kv_len and sinks: they are in lse and in a mask. */
    struct attn_problem problem;
    const float *lse; /* [q_len] of that head; -INFINITY: the row's weights are 0 */

    /* NULL, or given weights of some rows (given.h): [q_len], NULL for a row that keeps its own. */
    const float *const *given;

    int64_t rows[2], keys[2];        /* the piece: [first, end) */
    int64_t cell_rows, cell_columns; /* at most; 1 or more */
    enum attn_map_reduce reduce;

    float *cells; /* output, [cells of rows][cells of keys]; see attn_map_tile_shape() */
};

/* The number of cells: those asked for, but no more than there are rows and keys. */
void attn_map_tile_shape(const struct attn_map_tile *tile, int64_t shape[2]);

/* As attn_plan_init(); *where names a field of struct attn_map_tile ("rows"). */
enum attn_status attn_map_tile_check(const struct attn_map_tile *tile, const char **where);

/* Tasks write disjoint rows of cells; 0 if the piece is empty. Each running task needs a workspace,
 * 64-byte aligned. */
int64_t attn_map_tile_tasks(const struct attn_map_tile *tile);
size_t attn_map_tile_workspace_bytes(const struct attn_map_tile *tile);
void attn_map_tile_run(const struct attn_map_tile *tile, int64_t task, void *workspace);

/* The masked scores of rows [row, row + row_count) of the map and all keys of the piece, dense: at
 * most ATTN_MAP_TILE_ROWS rows, and keys[1] - keys[0] <= ATTN_MAP_TILE_KEYS. The same workspace. */
enum { ATTN_MAP_TILE_ROWS = 64, ATTN_MAP_TILE_KEYS = 1024 };
void attn_map_tile_scores(const struct attn_map_tile *tile, int64_t row, int64_t row_count,
                          float *scores, void *workspace);

/* Turn such masked scores into weights in place. */
void attn_map_tile_weigh(const struct attn_map_tile *tile, int64_t row, int64_t row_count,
                         float *scores);

#endif
