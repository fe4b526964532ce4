/* SPDX-License-Identifier: Apache-2.0 */
/* rollout.h - attention rollout (Abnar and Zuidema 2020, "Quantifying Attention Flow in
 * Transformers"): how much of each first row a row has after some layers, if weights say how much
 * of each row goes into another and the residual is as much again.
 *
 *     step[i][j] = (mean over heads of weight[i][j] + (i == j)) / 2, rows divided by their sum
 *     rollout of layer n = step of layer n . ... . step of the first layer
 */
#ifndef ATTND_ROLLOUT_H
#define ATTND_ROLLOUT_H

#include "map_tile.h"

/* Weights of a layer of self-attention, head by head, in the order in which rows come. */
struct rollout_layer {
    struct attn_map_tile (*tile)(const void *owner, int64_t head); /* all of the head's map */
    const void *owner;
    int64_t heads, length;
};

/* Tasks that make rows [first, first + count) of a step, and the workspace of each: so much more
 * than that of a tile, 64-byte aligned. */
int64_t rollout_step_tasks(int64_t count);
size_t rollout_workspace_bytes(const struct attn_map_tile *tile);
void rollout_step_run(const struct rollout_layer *layer, int64_t first, int64_t count, int64_t task,
                      float *step, void *workspace); /* step: [count][length] */

#endif
