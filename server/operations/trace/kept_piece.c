/* SPDX-License-Identifier: Apache-2.0 */
/* kept_piece.c - cells from tiles of a map or from its levels, and one pair with all its stages. */
#include "operations/trace/kept_piece.h"

#include "base/dtype.h"
#include "operations/trace/kept_hidden.h"

#include <math.h>
#include <string.h>

size_t kept_dtype_bytes(enum kept_dtype dtype)
{
    return dtype == KEPT_U8 ? 1 : dtype == KEPT_F16 ? 2 : 4;
}

static int64_t count_of(const int64_t range[2])
{
    return range[1] - range[0];
}

/* The cells of the index-th head; NULL where there are none yet. */
static float *cells_of(const struct kept_piece *piece, int64_t index)
{
    return piece->cells ? piece->cells + index * piece->shape[0] * piece->shape[1] : NULL;
}

/* ------------------------------------------------------------------ planning -- */

/* Whether each cell holds at least one block of the level on both sides. */
static bool suits_levels(const struct kept_piece *piece)
{
    const int64_t rows = count_of(piece->rows), keys = count_of(piece->keys);
    return piece->layer->levels && piece->reduce == ATTN_REDUCE_MAX
           && (double)rows * (double)keys > KEPT_PAIRS_MAX && rows >= piece->cell_rows * KEPT_BLOCK
           && keys >= piece->cell_columns * KEPT_BLOCK;
}

/* The piece of one of its heads, the index-th. */
static struct attn_map_tile tile_of(const struct kept_piece *piece, int64_t index)
{
    struct attn_map_tile tile = kept_layer_tile(
        piece->layer, piece->head + index, piece->rows, piece->keys,
        (const int64_t[]){ piece->cell_rows, piece->cell_columns }, cells_of(piece, index));
    tile.reduce = piece->reduce;
    return tile;
}

void kept_piece_plan(struct kept_piece *piece)
{
    const struct attn_map_tile tile = tile_of(piece, 0);
    attn_map_tile_shape(&tile, piece->shape);
    piece->from_levels = suits_levels(piece);
}

int64_t kept_piece_cells(const struct kept_piece *piece)
{
    return piece->head_count * piece->shape[0] * piece->shape[1];
}

/* ----------------------------------------------------------------- computing -- */

/* The first number of n that is in cell number c of cells. */
static int64_t first_number(int64_t c, int64_t cells, int64_t n)
{
    return (c * n + cells - 1) / cells;
}

/* The blocks [first, end) that cell number c of a range touches; n numbers are in blocks blocks. */
static void blocks_of(const int64_t range[2], int64_t c, int64_t cells, int64_t n, int64_t blocks,
                      int64_t touched[2])
{
    const int64_t count = count_of(range);
    touched[0] = (range[0] + first_number(c, cells, count)) * blocks / n;
    touched[1] = (range[0] + first_number(c + 1, cells, count) - 1) * blocks / n + 1;
}

/* One row of cells of the index-th head, from its level. */
static void run_levels(const struct kept_piece *piece, int64_t index, int64_t row)
{
    const struct kept_layer *layer = piece->layer;
    const float *level =
        layer->levels + (piece->head + index) * layer->level_rows * layer->level_columns;
    float *out = cells_of(piece, index) + row * piece->shape[1];
    int64_t rows[2], columns[2];
    blocks_of(piece->rows, row, piece->shape[0], layer->q_len, layer->level_rows, rows);
    for (int64_t c = 0; c < piece->shape[1]; c++) {
        float most = 0;
        blocks_of(piece->keys, c, piece->shape[1], layer->kv_len, layer->level_columns, columns);
        for (int64_t i = rows[0]; i < rows[1]; i++)
            for (int64_t j = columns[0]; j < columns[1]; j++)
                most = fmaxf(most, level[i * layer->level_columns + j]);
        out[c] = most;
    }
}

/* Tasks of one head. All heads have as many. */
static int64_t tasks_of_head(const struct kept_piece *piece)
{
    const struct attn_map_tile tile = tile_of(piece, 0);
    return piece->from_levels ? 1 : attn_map_tile_tasks(&tile);
}

int64_t kept_piece_tasks(const struct kept_piece *piece)
{
    return piece->head_count * tasks_of_head(piece);
}

size_t kept_piece_workspace_bytes(const struct kept_piece *piece)
{
    const struct attn_map_tile tile = tile_of(piece, 0);
    return piece->from_levels ? 0 : attn_map_tile_workspace_bytes(&tile);
}

void kept_piece_run(const struct kept_piece *piece, int64_t task, void *workspace)
{
    const int64_t task_count = tasks_of_head(piece), index = task / task_count;
    const struct attn_map_tile tile = tile_of(piece, index);
    if (!piece->from_levels)
        attn_map_tile_run(&tile, task % task_count, workspace);
    for (int64_t row = 0; piece->from_levels && row < piece->shape[0]; row++)
        run_levels(piece, index, row);
}

int64_t kept_piece_hidden_tasks(const struct kept_piece *piece)
{
    return piece->marks_hidden ? piece->head_count : 0;
}

/* The numbers [first, end) of a range that are in cell number c. */
static void cell_range(const int64_t range[2], int64_t c, int64_t cells, int64_t held[2])
{
    held[0] = range[0] + first_number(c, cells, count_of(range));
    held[1] = range[0] + first_number(c + 1, cells, count_of(range));
}

void kept_piece_run_hidden(const struct kept_piece *piece, int64_t task)
{
    float *cells = cells_of(piece, task);
    int64_t rows[2], keys[2];
    for (int64_t row = 0; row < piece->shape[0]; row++) {
        cell_range(piece->rows, row, piece->shape[0], rows);
        for (int64_t c = 0; c < piece->shape[1]; c++) {
            cell_range(piece->keys, c, piece->shape[1], keys);
            if (kept_pairs_are_hidden(piece->layer, piece->head + task, rows, keys))
                cells[row * piece->shape[1] + c] = NAN;
        }
    }
}

/* ------------------------------------------------------------------- writing -- */

static uint8_t to_byte(const struct kept_piece *piece, float weight)
{
    const float range = piece->most - piece->least;
    const float v = range > 0 ? (weight - piece->least) / range : piece->most > 0.0f ? 1.0f : 0.0f;
    const float shown = piece->scale == KEPT_LINEAR ? v
                        : piece->scale == KEPT_SQRT ? sqrtf(v)
                                                    : 1 + log10f(fmaxf(v, 1e-6f)) / 6;
    return (uint8_t)lrintf(255 * fmaxf(shown, 0));
}

static float scale_weight(enum kept_scale scale, float weight)
{
    return scale == KEPT_SQRT ? sqrtf(weight) : scale == KEPT_LOG ? logf(weight) : weight;
}

void kept_piece_write(struct kept_piece *piece, void *bytes)
{
    float *cells = piece->cells;
    const int64_t count = kept_piece_cells(piece);
    piece->least = count > 0 ? INFINITY : 0;
    piece->most = 0;
    for (int64_t i = 0; i < count; i++) {
        piece->least = fminf(piece->least, cells[i]);
        piece->most = fmaxf(piece->most, cells[i]);
    }
    piece->least = fminf(piece->least, piece->most); /* of cells that are all hidden: 0 */
    if (piece->dtype == KEPT_U8) {
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)bytes)[i] = to_byte(piece, cells[i]);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        cells[i] = scale_weight(piece->scale, cells[i]);
    if (piece->dtype == KEPT_F16)
        dtype_write(bytes, ATTN_F16, cells, (size_t)count);
    else
        memcpy(bytes, cells, (size_t)count * sizeof *cells);
}

/* ----------------------------------------------------------------- one pair -- */

static struct attn_map_tile pair_tile(const struct kept_layer *layer, int64_t head, int64_t row,
                                      int64_t key)
{
    static float cell;
    return kept_layer_tile(layer, head, (const int64_t[]){ row, row + 1 },
                           (const int64_t[]){ key, key + 1 }, (const int64_t[]){ 1, 1 }, &cell);
}

size_t kept_pair_workspace_bytes(const struct kept_layer *layer)
{
    const struct attn_map_tile tile = pair_tile(layer, 0, 0, 0);
    return attn_map_tile_workspace_bytes(&tile);
}

void kept_pair_compute(const struct kept_layer *layer, int64_t head, int64_t row, int64_t key,
                       struct kept_pair *pair, void *workspace)
{
    const struct attn_map_tile tile = pair_tile(layer, head, row, key);
    struct attn_map_tile plain = tile;
    pair->query = (const float *)tile.problem.query.data + row * tile.problem.query.stride[2];
    pair->key = (const float *)tile.problem.key.data + key * tile.problem.key.stride[2];
    pair->lse = tile.lse[row];
    attn_map_tile_scores(&tile, row, 1, &pair->masked, workspace);
    pair->weight = pair->masked;
    attn_map_tile_weigh(&tile, row, 1, &pair->weight);

    plain.problem.options.causal = false;
    plain.problem.options.window_left = plain.problem.options.window_right = -1;
    plain.problem.options.chunk = 0;
    plain.problem.mask.data = NULL;
    plain.problem.alibi_slopes = NULL;
    attn_map_tile_scores(&plain, row, 1, &pair->softcapped, workspace);
    plain.problem.options.softcap = 0;
    attn_map_tile_scores(&plain, row, 1, &pair->score, workspace);
}
