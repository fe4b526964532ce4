/* SPDX-License-Identifier: Apache-2.0 */
/* forward_tile.h - one task of forward.c, and the steps that process one tile of keys. */
#ifndef ATTN_FORWARD_TILE_H
#define ATTN_FORWARD_TILE_H

#include "base/convert.h"
#include "base/internal.h"
#include "forward/mask.h"

#include "kernels/kernels.h"

/* Values, context, the query and keys of the next task, and the end of the list. */
enum { ATTN_UPCOMING_MAX = 5 };

struct attn_row_task {
    const struct attn_plan_full *plan;
    const struct attn_problem *problem;
    const struct attn_kernels *kernels;
    struct attn_workspace work;
    int64_t batch, q_head, kv_head;
    int64_t row, row_count; /* query rows [row, row + row_count) */

    /* The keys that at least one of these rows may see, and the keys that every one of them may
     * see. */
    struct key_range any, every;

    /* The rows that are read after the current tile, and how far they have been prefetched. */
    struct attn_upcoming upcoming[ATTN_UPCOMING_MAX];
    struct attn_prefetch *prefetch;

    struct attn_needs needs;
    bool sums_context; /* the first pass also sums the context */
    bool is_sparse;    /* weights are those of sparsemax; max and lse are still the softmax's */
};

/* Keys [first + from, first + to) of the tile that begins at key first. */
struct attn_tile {
    int64_t first;
    int64_t from, to;
    enum attn_sees sees; /* through the caller's mask */
};

/* The first key of the tile that holds the first visible key. */
static inline int64_t attn_first_tile(const struct attn_row_task *task)
{
    return task->any.low / task->plan->kv_tile * task->plan->kv_tile;
}

/* Place the task at rows of head number head of the batch, and find the keys that they see. Its
 * workspace must be cut. */
void attn_task_place(struct attn_row_task *task, const struct attn_plan_full *plan, int64_t head,
                     int64_t row, int64_t row_count);

/* The block of columns columns, from column on, of the task's rows. */
struct attn_block attn_task_block(const struct attn_row_task *task, int64_t column,
                                  int64_t columns);

/* Write a transposed tile to the columns of an output, from column on. */
void attn_task_store(const struct attn_row_task *task, const struct attn_tensor *output,
                     int64_t column, int64_t columns, const float *tile, const float *factor);

/* Fill upcoming, and start prefetching, for the tile that begins at key first; the last tile ends
 * at end. */
void attn_task_look_ahead(struct attn_row_task *task, int64_t first, int64_t end);

/* The part of the n keys from first on that at least one row of the task may see, before the
 * caller's mask; empty if from == to. */
struct attn_tile attn_tile_visible(const struct attn_row_task *task, int64_t first, int64_t n);

/* Test the caller's mask of a tile; false if it hides the whole tile. */
bool attn_tile_scan(const struct attn_row_task *task, struct attn_tile *tile);

/* Write work.scores_t to a map, if it is wanted. */
void attn_tile_store(const struct attn_row_task *task, const struct attn_tensor *map,
                     const struct attn_tile *tile);

/* Compute the softcapped scores of the tile into work.scores_t, and write the maps of scores and
 * softcapped. Scores that work.ranges hides are undefined unless one of these maps is wanted. */
void attn_tile_score(const struct attn_row_task *task, const struct attn_tile *tile);

/* Turn work.scores_t into masked scores, except for what work.ranges hides; attn_tile_bound() hides
 * that. */
void attn_tile_mask(const struct attn_row_task *task, const struct attn_tile *tile);
void attn_tile_bound(const struct attn_row_task *task, const struct attn_tile *tile);

/* Turn the masked scores of a tile into weights. Without maps, this also hides what work.ranges
 * hides. */
void attn_tile_softmax(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *scores_t);

/* Set the masked scores of a tile that no row of the task may see. */
void attn_tile_mask_whole(const struct attn_row_task *task, const struct attn_tile *tile);

/* Add the weights of a tile times its values to the context, after work.rescale. Dropout changes
 * the weights. */
void attn_tile_context(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *weights_t);

/* Tiles that some rows see only in part (visible_ranges.c). */
struct attn_seen {
    const struct attn_kernels *kernels;
    const struct attn_workspace *work; /* its ranges hold what each row sees */
    int64_t row_count, width;
    int64_t key, n; /* the keys [key, key + n) */
};

/* scores_t[n][width] as score_tile() computes it, except that pairs that the ranges hide are
 * undefined until bound_tile(). */
void attn_seen_scores(const struct attn_seen *seen, float *scores_t, const float *key,
                      int64_t key_stride, int64_t head_dim, struct attn_prefetch *prefetch);

/* context_tile() for weights that are 0 where the ranges hide, and for finite values. */
void attn_seen_context(const struct attn_seen *seen, const float *weights_t, const float *value,
                       int64_t value_stride, int64_t v_head_dim, struct attn_prefetch *prefetch);

#endif
