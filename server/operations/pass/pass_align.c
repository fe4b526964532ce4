/* SPDX-License-Identifier: Apache-2.0 */
/* pass_align.c - the maps of the heads that an alignment goes by, while the layer's scratch holds
 * query and key; behind the last of their layers the alignment itself. */
#include "operations/pass/pass_internal.h"

#include "operations/pass/align.h"
#include "operations/pass/sound.h"

enum { TURN_MAPS, TURN_ALIGN };

/* A weight that is smoothed takes as long as so many numbers that are moved, most of it for the
 * median of seven; a cell of the path, and a weight of a head on its way into the mean. */
enum { SMOOTH_MOVES = 70, PATH_MOVES = 8, MEAN_MOVES = 2 };

static bool align_is_read(const struct pass *pass, const struct pass_step *step,
                          const struct pass_sequence *sequence)
{
    const struct trace_align *align = sequence->item->align;
    (void)pass;
    for (int64_t i = 0; align && step->is_cross && i < align->head_count; i++)
        if (align->heads[i][0] == step->layer)
            return true;
    return false;
}

static bool align_plan(struct pass *pass, const struct pass_step *step,
                       struct pass_sequence *sequence, struct attn_work *work, struct fault *fault)
{
    const struct trace_align *align = sequence->item->align;
    const double numbers = (double)align->rows * (double)align->keys;
    int64_t heads = 0;
    (void)pass;
    (void)fault;
    for (int64_t i = 0; i < align->head_count; i++)
        heads += align->heads[i][0] == step->layer;
    if (work && align->is_speech)
        work->moved_numbers += SMOOTH_MOVES * numbers * (double)heads;
    if (work && step->layer == align->last_layer)
        work->moved_numbers += numbers * (PATH_MOVES + MEAN_MOVES * (double)align->head_count);
    return true;
}

static size_t map_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                  struct pass_sequence *sequence)
{
    const struct attn_map_tile tile = pass_map_tile(sequence, 0);
    (void)pass;
    (void)step;
    return (attn_map_tile_workspace_bytes(&tile) + 63) / 64 * 64
           + (size_t)ATTN_MAP_TILE_ROWS * ATTN_MAP_TILE_KEYS * sizeof(float);
}

/* The weights of one head, into its map; of speech smoothed. */
static void make_map(const struct pass_sequence *sequence, int64_t number, void *workspace)
{
    const struct trace_align *align = sequence->item->align;
    const int64_t rows = align->rows, keys = align->keys;
    struct attn_map_tile tile = pass_map_tile(sequence, align->heads[number][1]);
    float *weights = workspace, *map = align->maps + number * rows * keys;
    for (int64_t row = 0; row < rows; row += ATTN_MAP_TILE_ROWS)
        for (int64_t key = 0; key < keys; key += ATTN_MAP_TILE_KEYS) {
            const int64_t n = rows - row < ATTN_MAP_TILE_ROWS ? rows - row : ATTN_MAP_TILE_ROWS;
            const int64_t m = keys - key < ATTN_MAP_TILE_KEYS ? keys - key : ATTN_MAP_TILE_KEYS;
            tile.keys[0] = key;
            tile.keys[1] = key + m;
            attn_map_tile_scores(&tile, row, n, weights,
                                 weights + (size_t)ATTN_MAP_TILE_ROWS * ATTN_MAP_TILE_KEYS);
            attn_map_tile_weigh(&tile, row, n, weights);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < m; j++)
                    map[(row + i) * keys + key + j] = weights[i * m + j];
        }
    if (align->is_speech)
        align_smooth(map, rows, keys, ALIGN_MEDIAN, align->copy + number * keys);
}

static void find_largest(const struct trace_align *align, const float *map, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        const float *weights = map + row * align->keys;
        int64_t best = 0;
        for (int64_t key = 1; key < align->keys; key++)
            if (weights[key] > weights[best])
                best = key;
        align->places[row] = best;
        align->weights[row] = weights[best];
    }
}

static void align_rows(const struct trace_align *align)
{
    const int64_t rows = align->rows - align->first_row;
    const float *map = align->maps + align->first_row * align->keys;
    align_average(align->maps, align->head_count, align->rows, align->keys);
    if (!align->is_speech) {
        find_largest(align, map, rows);
        return;
    }
    align_path(map, rows, align->keys, align->places, align->workspace);
    for (int64_t row = 0; row < rows; row++)
        align->times[row] =
            (float)((double)((int64_t)2 * SOUND_HOP * align->places[row]) / SOUND_RATE);
}

static int64_t align_tasks(struct pass *pass, const struct pass_step *step,
                           struct pass_sequence *sequence, int turn)
{
    (void)pass;
    const struct trace_align *align = sequence->item->align;
    if (turn == TURN_MAPS)
        return align->head_count;
    return turn == TURN_ALIGN && step->layer == align->last_layer;
}

static void align_run(const struct pass *pass, const struct pass_step *step,
                      const struct pass_sequence *sequence, int turn, int64_t task, void *workspace)
{
    (void)pass;
    const struct trace_align *align = sequence->item->align;
    if (turn == TURN_ALIGN)
        align_rows(align);
    else if (align->heads[task][0] == step->layer)
        make_map(sequence, task, workspace);
}

const struct pass_map_reader pass_align = { align_is_read, align_plan, map_workspace_bytes,
                                            align_tasks, align_run };
