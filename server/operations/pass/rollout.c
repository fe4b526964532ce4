/* SPDX-License-Identifier: Apache-2.0 */
/* rollout.c - steps of a rollout, a few rows a task, from tiles of weights. */
#include "operations/pass/rollout.h"

#include <string.h>

enum { TASK_ROWS = 16 };

int64_t rollout_step_tasks(int64_t count)
{
    return (count + TASK_ROWS - 1) / TASK_ROWS;
}

size_t rollout_workspace_bytes(const struct attn_map_tile *tile)
{
    const size_t block = (size_t)TASK_ROWS * ATTN_MAP_TILE_KEYS;
    return (attn_map_tile_workspace_bytes(tile) + 63) / 64 * 64
           + block * (sizeof(float) + sizeof(double));
}

/* The means over heads of some rows and keys, into the step. */
static void add_heads(const struct rollout_layer *layer, int64_t row, int64_t n, int64_t key,
                      int64_t keys, float *step, void *workspace)
{
    const size_t block = (size_t)TASK_ROWS * ATTN_MAP_TILE_KEYS;
    double *sums = workspace;
    float *weights = (float *)(void *)(sums + block);
    memset(sums, 0, (size_t)(n * keys) * sizeof *sums);
    for (int64_t h = 0; h < layer->heads; h++) {
        struct attn_map_tile tile = layer->tile(layer->owner, h);
        tile.keys[0] = key;
        tile.keys[1] = key + keys;
        attn_map_tile_scores(&tile, row, n, weights, weights + block);
        attn_map_tile_weigh(&tile, row, n, weights);
        for (int64_t i = 0; i < n * keys; i++)
            sums[i] += (double)weights[i];
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < keys; j++)
            step[r * layer->length + key + j] = (float)(sums[r * keys + j] / (double)layer->heads);
}

void rollout_step_run(const struct rollout_layer *layer, int64_t first, int64_t count, int64_t task,
                      float *step, void *workspace)
{
    const int64_t length = layer->length, begin = task * TASK_ROWS;
    const int64_t n = count - begin < TASK_ROWS ? count - begin : TASK_ROWS;
    step += begin * length;
    for (int64_t key = 0; key < length; key += ATTN_MAP_TILE_KEYS)
        add_heads(layer, first + begin, n, key,
                  length - key < ATTN_MAP_TILE_KEYS ? length - key : ATTN_MAP_TILE_KEYS, step,
                  workspace);
    for (int64_t r = 0; r < n; r++) {
        float *row = step + r * length;
        double sum = 0.5;
        for (int64_t j = 0; j < length; j++)
            sum += 0.5 * (double)row[j];
        for (int64_t j = 0; j < length; j++)
            row[j] = (float)((0.5 * (double)row[j] + (j == first + begin + r ? 0.5 : 0)) / sum);
    }
}
