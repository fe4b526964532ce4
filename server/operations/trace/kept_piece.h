/* SPDX-License-Identifier: Apache-2.0 */
/* kept_piece.h - one piece of a map of a kept trace, or the same piece of the maps of all heads of
 * a layer, as the bytes of an answer; and one score. */
#ifndef ATTND_KEPT_PIECE_H
#define ATTND_KEPT_PIECE_H

#include "operations/trace/kept_trace.h"

enum kept_dtype { KEPT_U8, KEPT_F16, KEPT_F32 };
enum kept_scale { KEPT_LINEAR, KEPT_SQRT, KEPT_LOG };

enum { KEPT_CELLS_MAX = 4096 }; /* on each side */

/* Bytes of a number. */
size_t kept_dtype_bytes(enum kept_dtype dtype);

/* As asked: the rows and keys [first, end) of each of these heads, as cells. */
struct kept_piece {
    const struct kept_layer *layer;
    int64_t head, head_count; /* the first, and how many */
    int64_t rows[2], keys[2];
    int64_t cell_rows, cell_columns;
    enum attn_map_reduce reduce;
    enum kept_dtype dtype;
    enum kept_scale scale;
    bool marks_hidden; /* a cell is NAN where none of its pairs may be seen */

    /* As planned. */
    bool from_levels;  /* the levels answer, without tasks of tiles */
    int64_t shape[2];  /* of one head */
    float *cells;      /* [head_count][shape[0]][shape[1]], the caller's */
    float least, most; /* of all cells' weights, once they are computed */
};

/* Settles the shape. A piece of many pairs in a head whose cells hold a block each or more is taken
 * from the levels: its cells are then the maxima over the whole blocks that they touch, and never
 * less than those of their own pairs. A head's cells are equal to the bit whether it is asked for
 * alone or with others. */
void kept_piece_plan(struct kept_piece *piece);
int64_t kept_piece_cells(const struct kept_piece *piece); /* of all heads */

/* A stage of tasks; each needs kept_piece_workspace_bytes(). piece->cells is set. */
int64_t kept_piece_tasks(const struct kept_piece *piece);
size_t kept_piece_workspace_bytes(const struct kept_piece *piece);
void kept_piece_run(const struct kept_piece *piece, int64_t task, void *workspace);

/* Where the piece marks them, a second stage: a task for each head, without workspace. A cell from
 * the levels is marked by its own pairs, whatever its blocks have. */
int64_t kept_piece_hidden_tasks(const struct kept_piece *piece);
void kept_piece_run_hidden(const struct kept_piece *piece, int64_t task);

/* After the tasks: sets least and most, of cells that are not NAN, and writes the cells in their
 * dtype and scale,
 *
 *     U8   255 * v^p, v = (weight - least) / (most - least), p = 1 for LINEAR, 1/2 for SQRT; LOG:
 *          255 * (1 + log10(max(v, 1e-6)) / 6). Where least equals most, 255 unless both are 0
 *     F16, F32   the weight, its root or its natural logarithm (-INFINITY for 0)
 *
 * bytes: kept_piece_cells() numbers, not in the memory of the cells. */
void kept_piece_write(struct kept_piece *piece, void *bytes);

/* Why a query gives a key its weight: every stage of one score. */
struct kept_pair {
    const float *query, *key; /* [head_dim] of the head, as attention reads them */
    float score;              /* scale * query . key */
    float softcapped;         /* score where the layer has no softcap */
    float masked;             /* with biases; -INFINITY: hidden */
    float lse;                /* of the row */
    float weight;             /* exp(masked - lse) */
};

/* Every number is the library's own. workspace: attn_map_tile_workspace_bytes() of the head. */
void kept_pair_compute(const struct kept_layer *layer, int64_t head, int64_t row, int64_t key,
                       struct kept_pair *pair, void *workspace);
size_t kept_pair_workspace_bytes(const struct kept_layer *layer);

#endif
