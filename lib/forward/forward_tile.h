/* forward_tile.h - one task of forward.c, and what it does with one tile of keys. */
#ifndef ATTN_FORWARD_TILE_H
#define ATTN_FORWARD_TILE_H

#include "base/convert.h"
#include "base/internal.h"
#include "base/outputs.h"
#include "forward/mask.h"

#include "kernels/kernels.h"

/* Values, context, and the query and keys of the next task; the end of the list. */
enum { ATTN_UPCOMING_MAX = 5 };

struct attn_row_task {
    const struct attn_plan *plan;
    const struct attn_problem *problem;
    const struct attn_kernels *kernels;
    struct attn_workspace work;
    int64_t batch, q_head, kv_head;
    int64_t row, row_count; /* query rows [row, row + row_count) */

    /* Of the key ranges of these rows: what any row may see, and what every row may see. */
    struct key_range any, every;

    /* What is read next while the tile at hand is computed, and how far it has been called. */
    struct attn_upcoming upcoming[ATTN_UPCOMING_MAX];
    struct attn_prefetch *prefetch;

    struct attn_needs needs;
    bool sums_context; /* beside the softmax */
    bool is_sparse;    /* the weights are those of sparsemax; max and lse still the softmax's */
};

/* Keys [first + from, first + to) of the tile that begins at key first. */
struct attn_tile {
    int64_t first;
    int64_t from, to;
    enum attn_sees sees; /* by the caller's mask */
};

/* Where the tile of the first visible key begins. */
static inline int64_t attn_first_tile(const struct attn_row_task *task)
{
    return task->any.low / task->plan->kv_tile * task->plan->kv_tile;
}

/* columns columns from column on of the task's rows. */
struct attn_block attn_task_block(const struct attn_row_task *task, int64_t column,
                                  int64_t columns);

/* A transposed tile to the columns of an output from column on. */
void attn_task_store(const struct attn_row_task *task, const struct attn_tensor *output,
                     int64_t column, int64_t columns, const float *tile, const float *factor);

/* Fills upcoming, and begins to call, for the tile that begins at key first; the last tile ends at
 * end. */
void attn_task_look_ahead(struct attn_row_task *task, int64_t first, int64_t end);

/* What some row of the task may see of the n keys from first on by anything but the caller's mask;
 * empty where from == to. */
struct attn_tile attn_tile_visible(const struct attn_row_task *task, int64_t first, int64_t n);

/* Looks at the caller's mask of a tile; false where it hides all of it. */
bool attn_tile_scan(const struct attn_row_task *task, struct attn_tile *tile);

/* work.scores_t to a map that is wanted. */
void attn_tile_store(const struct attn_row_task *task, const struct attn_tensor *map,
                     const struct attn_tile *tile);

/* work.scores_t becomes the softcapped scores of the tile, and the maps of scores and of softcapped
 * are stored. Scores that work.ranges hide are anything, unless one of these is wanted. */
void attn_tile_score(const struct attn_row_task *task, const struct attn_tile *tile);

/* work.scores_t becomes the masked scores, but for what work.ranges hide; attn_tile_bound() hides
 * that. */
void attn_tile_mask(const struct attn_row_task *task, const struct attn_tile *tile);
void attn_tile_bound(const struct attn_row_task *task, const struct attn_tile *tile);

/* The masked scores of a tile become weights. What work.ranges hide need not be hidden yet, unless
 * there is a map. */
void attn_tile_softmax(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *scores_t);

/* The same where every row of the task is barred from the whole tile. */
void attn_tile_mask_whole(const struct attn_row_task *task, const struct attn_tile *tile);

/* The weights of a tile, with work.rescale, into the context. Dropout changes them. */
void attn_tile_context(const struct attn_row_task *task, const struct attn_tile *tile,
                       float *weights_t);

#endif
