/* decode.h - what the files of attention for few query rows share: decode_plan.c, decode_scores.c,
 * decode_finish.c, forward_decode.c. */
#ifndef ATTN_DECODE_H
#define ATTN_DECODE_H

#include "attn.h"
#include "base/convert.h"
#include "base/internal.h"
#include "base/outputs.h"
#include "forward/mask.h"

#include "kernels/kernels.h"

enum {
    ATTN_DECODE_ROWS = 16,  /* of one task at the most: query rows times heads */
    ATTN_DECODE_KEYS = 512, /* of a tile: all its keys are read, then all its values */
    ATTN_DECODE_PREFETCH_BYTES = 8 << 20, /* of all keys and values, from which on rows are called
                                        for: fewer may lie near, where calling costs a tenth */
    ATTN_DECODE_COLUMNS = 2048, /* of query, context and what a chunk adds to it: the same */
};

/* Whether the problem of the plan is one for these tasks: by its shapes and options, never by its
 * outputs, so that the bits of one do not depend on what else is asked for. */
bool attn_decode_fits(const struct attn_plan *plan);

/* Sets the tasks of the plan and how they are cut. */
void attn_decode_choose(struct attn_plan *plan);

/* What a row knows of the keys it has met, [row_count] each; context is [row_count][v_padded]. */
struct attn_decode_state {
    float *max, *sum, *context;
};

/* The same of all chunks so far, in double, so that many chunks lose no more than one. */
struct attn_decode_whole {
    double *max, *sum, *context;
};

struct attn_decode_task {
    const struct attn_plan *plan;
    const struct attn_problem *problem;
    const struct attn_kernels *kernels;
    int64_t batch, kv_head;
    int64_t q_head, head_count; /* row h * q_len + i is query row i of head q_head + h */
    int64_t q_len, row_count;
    int64_t head_padded, v_padded, score_stride;

    struct attn_decode_whole whole;
    struct attn_decode_state chunk;
    float *query;   /* [row_count][head_padded], scaled */
    float *scores;  /* [row_count][score_stride], of the tile that is worked on */
    float *sums;    /* [row_count][v_padded]: what the values of a tile add */
    float *bias;    /* [score_stride] */
    float *rescale; /* [row_count] */
    float *rows;    /* a block of what is not F32, on its way in or out */

    struct key_range *ranges;    /* [q_len]: the keys that a row may see, mask apart, */
    struct key_range any, every; /* what any row may see, and what every row may see */
    struct attn_needs needs;
    bool prefetch; /* for rows that are read later */
};

/* Keys [first, first + n). */
struct attn_span {
    int64_t first, n;
};

/* Cuts memory into the workspace of a task; memory NULL only counts. Returns the bytes. */
size_t attn_decode_cut(const struct attn_plan *plan, struct attn_decode_task *task, void *memory);

/* The same for what one part leaves behind. */
size_t attn_decode_cut_state(const struct attn_plan *plan, struct attn_decode_state *state,
                             void *memory);

/* columns rounded up to whole vectors. */
static inline int64_t attn_decode_padded(const struct attn_plan *plan, int64_t columns)
{
    return attn_divide_up(columns, plan->kernels->lanes) * plan->kernels->lanes;
}

static inline float *attn_decode_scores(const struct attn_decode_task *task, int64_t row)
{
    return task->scores + row * task->score_stride;
}

/* columns of the query rows of one head of the task, from column on. */
static inline struct attn_block attn_decode_block(const struct attn_decode_task *task, int64_t head,
                                                  int64_t column, int64_t columns)
{
    return (struct attn_block){ task->batch, task->q_head + head, 0, task->q_len, column, columns };
}

/* Row number row of a key or value, of the task's head. */
static inline const void *attn_decode_row(const struct attn_decode_task *task,
                                          const struct attn_tensor *tensor, int64_t row)
{
    return (const char *)tensor->data
           + attn_tensor_index(tensor, task->batch, task->kv_head, row)
                 * (int64_t)attn_dtype_size(tensor->dtype);
}

/* Where reading goes on after this: at a row which may be one after the last, as the next head's
 * often is. NULL where nothing is to be called for. */
static inline const void *attn_decode_next_row(const struct attn_decode_task *task,
                                               const struct attn_tensor *tensor, int64_t row)
{
    const int64_t number = attn_tensor_index(tensor, task->batch, task->kv_head, row);
    const int64_t offset = number * (int64_t)attn_dtype_size(tensor->dtype);

    return task->prefetch ? (const void *)((uintptr_t)tensor->data + (uintptr_t)offset) : NULL;
}

/* The keys of the tile that some row of the task may see. */
struct attn_span attn_decode_visible(const struct attn_decode_task *task,
                                     const struct attn_span *tile);

/* The scores of every row with the keys of a tile, softcap included, and the maps that show them.
 */
void attn_decode_score(const struct attn_decode_task *task, const struct attn_span *tile);

/* Those scores become masked ones; where no row may see the tile, it need not have been scored. */
void attn_decode_mask(const struct attn_decode_task *task, const struct attn_span *tile);

/* Both. Maps are written again where they are wanted, with the same numbers. */
void attn_decode_masked_scores(const struct attn_decode_task *task, const struct attn_span *tile);

/* The scores of every row of the task, of the tile, to a map where that is wanted. */
void attn_decode_store_map(const struct attn_decode_task *task, const struct attn_tensor *map,
                           const struct attn_span *tile);

/* What a chunk has found joins what was found in the chunks before it. */
void attn_decode_join(const struct attn_decode_task *task, const struct attn_decode_state *chunk);

/* Everything that needs all keys: lse, context, weights. */
void attn_decode_finish(struct attn_decode_task *task);

/* Query heads [first, first + count) of one group, at most plan->decode_heads. */
struct attn_decode_heads {
    int64_t batch, first, count;
};

/* Task number of plan->task_count; or the heads that the caller names, with the same bits. */
void attn_decode_run(const struct attn_plan *plan, int64_t number, void *workspace);
void attn_decode_run_heads(const struct attn_plan *plan, const struct attn_decode_heads *heads,
                           void *workspace);

#endif
