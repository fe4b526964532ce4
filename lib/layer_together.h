/* layer_together.h - one stage of several calls together, instead of the tasks of each: the same
 * product (layer.h), or attention of few query rows over caches that begin with the same keys, as
 * forks of one cache do. Keys are then read from memory once for all calls: a task takes a tile of
 * them and runs it for one call after the other, while the tile is in a near cache.
 *
 * Each call gets the bits that it would get alone. */
#ifndef ATTN_LAYER_TOGETHER_H
#define ATTN_LAYER_TOGETHER_H

#include "layer.h"

/* Whether there is something to gain. Holds for all pairs of some calls if it holds for the first
 * one and each of the others. */
bool attn_layer_runs_together(const struct attn_layer_plan *a, const struct attn_layer_plan *b,
                              int stage);

/* Below 0, 0 or above 0: an order of calls in which those of one product, and of them those whose
 * caches have the longest beginning in common, are neighbours. */
int attn_layer_compare_keys(const struct attn_layer_plan *a, const struct attn_layer_plan *b);

/* The workspace of a task: 64-byte aligned, and at least the largest of the calls. With some 64 KiB
 * more, rows of several calls meet the keys that they share together. */
struct attn_layer_room {
    void *workspace;
    size_t bytes;
};

/* The tasks of the stage of all calls, any two of which run together. One call alone has its own
 * tasks. */
int64_t attn_layer_together_tasks(const struct attn_layer_call *calls, int count, int stage);
void attn_layer_together_run(const struct attn_layer_call *calls, int count, int stage,
                             int64_t task, const struct attn_layer_room *room);

#endif
