/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - what the files of decoding share: decode_plan.c, decode_scores.c, forward_decode.c.
 * Decoding is attention for few query rows. */
#ifndef ATTN_DECODE_H
#define ATTN_DECODE_H

#include "attn.h"
#include "base/convert.h"
#include "base/internal.h"
#include "forward/mask.h"

#include "kernels/kernels.h"

enum {
    ATTN_DECODE_ROWS = 16,  /* of one task at most: query rows times heads */
    ATTN_DECODE_KEYS = 512, /* of a tile: all its keys are read, then all its values */
    ATTN_DECODE_PREFETCH_BYTES =
        8 << 20, /* least size of all keys and values for which rows are prefetched: smaller ones
                    may be in a cache, where prefetching costs a tenth */
    ATTN_DECODE_COLUMNS =
        2048, /* limit of the columns of query, context and a tile's sums together */
};

/* The table whose vectors fill with the numbers of a row: the plan's own, or for heads with fewer
 * columns than its lanes one with shorter vectors. NULL: there is none. */
const struct attn_kernels *attn_decode_kernels(const struct attn_plan_full *plan);

/* Can the plan's problem be run as decode tasks? Depends on its shapes and options, never on its
 * outputs, so that the bits of one output do not depend on the others. */
bool attn_decode_fits(const struct attn_plan_full *plan);

/* Choose the tasks and parts of the plan. */
void attn_decode_choose(struct attn_plan_full *plan);

/* The result of a chunk of keys so far: max and sum [row_count], context [row_count][v_padded]. */
struct attn_decode_state {
    float *max, *sum, *context;
};

/* The same for all chunks so far, in double, so that many chunks lose no more precision than
 * one. */
struct attn_decode_whole {
    double *max, *sum, *context;
};

/* Keys [first, first + n). */
struct attn_span {
    int64_t first, n;
};

struct attn_decode_task {
    const struct attn_plan_full *plan;
    const struct attn_problem *problem;
    const struct attn_kernels *kernels;
    int64_t batch, kv_head;
    int64_t q_head, head_count; /* row h * q_len + i is query row i of head q_head + h */
    int64_t q_len, row_count;
    int64_t head_padded, v_padded, score_stride;

    struct attn_decode_whole whole;
    struct attn_decode_state chunk;
    float *query;   /* [row_count][head_padded], scaled */
    float *scores;  /* [row_count][score_stride], of the current tile */
    float *sums;    /* [row_count][v_padded]: the weighted values of a tile */
    float *bias;    /* [score_stride] */
    float *rescale; /* [row_count] */
    float *rows;    /* a block of numbers that are not F32, while they are converted */
    char *together; /* the keys or values of a tile that lies in more than one page */

    struct key_range *ranges; /* [q_len]: the keys that a row may see, before the caller's mask */
    struct key_range any, every; /* the keys that some row may see, and that every row may see */
    struct attn_needs needs;
    bool prefetch; /* prefetch rows that are read later */
};

/* Divide memory into the workspace of a task and return its bytes; with memory NULL, only count. */
size_t attn_decode_cut(const struct attn_plan_full *plan, struct attn_decode_task *task,
                       void *memory);

/* The same for the result that one part leaves. */
size_t attn_decode_cut_state(const struct attn_plan_full *plan, struct attn_decode_state *state,
                             void *memory);

/* columns rounded up to whole vectors. */
static inline int64_t attn_decode_padded(const struct attn_plan_full *plan, int64_t columns)
{
    const int64_t lanes = attn_decode_kernels(plan)->lanes;

    return attn_divide_up(columns, lanes) * lanes;
}

static inline float *attn_decode_scores(const struct attn_decode_task *task, int64_t row)
{
    return task->scores + row * task->score_stride;
}

/* A block of columns columns, from column on, of the query rows of one head of the task. */
static inline struct attn_block attn_decode_block(const struct attn_decode_task *task, int64_t head,
                                                  int64_t column, int64_t columns)
{
    return (struct attn_block){ task->batch, task->q_head + head, 0, task->q_len, column, columns };
}

/* The rows of a span of a key or value tensor, for the task's head, stride elements apart: in
 * place, or where they lie in more than one page, brought together in task->together; what is I8
 * there becomes F32. Of I8 in place, scale and at are as in struct attn_run. */
struct attn_decode_rows {
    const void *rows;
    int64_t stride;
    enum attn_dtype dtype;
    const float *scale;
    int64_t at;
};

struct attn_decode_rows attn_decode_rows(const struct attn_decode_task *task,
                                         const struct attn_tensor *tensor,
                                         const struct attn_span *span);

/* Where reading continues at this row, for prefetching. It may be one row after the last, which is
 * often the next head's first. NULL if nothing is to be prefetched. */
const void *attn_decode_next_row(const struct attn_decode_task *task,
                                 const struct attn_tensor *tensor, int64_t row);

/* The keys of the tile that at least one row of the task may see. */
struct attn_span attn_decode_visible(const struct attn_decode_task *task,
                                     const struct attn_span *tile);

/* Compute the scores of all rows with the keys of a tile, softcap included, and write their
 * maps. */
void attn_decode_score(const struct attn_decode_task *task, const struct attn_span *tile);

/* Turn those scores into masked scores. If no row may see the tile, the scores need not be
 * computed. */
void attn_decode_mask(const struct attn_decode_task *task, const struct attn_span *tile);

/* Both. Maps that are wanted are written again, with the same numbers. */
void attn_decode_masked_scores(const struct attn_decode_task *task, const struct attn_span *tile);

/* Write the tile's scores of all rows of the task to a map, if it is wanted. */
void attn_decode_store_map(const struct attn_decode_task *task, const struct attn_tensor *map,
                           const struct attn_span *tile);

/* Query heads [first, first + count) of one group, at most plan->decode_heads. */
struct attn_decode_heads {
    int64_t batch, first, count;
};

/* Run task number number of plan->task_count; or the given heads, with the same bits. */
void attn_decode_run(const struct attn_plan_full *plan, int64_t number, void *workspace);
void attn_decode_run_part(const struct attn_plan_full *plan, int64_t part, void *shared,
                          void *workspace);

/* The steps of a part, for decode_together.c. Its state is in shared. */
void attn_decode_begin_part(struct attn_decode_task *task, const struct attn_plan_full *plan,
                            int64_t part, void *shared, void *workspace);
void attn_decode_clear_part(const struct attn_decode_task *task);

/* Tile number tile of a chunk; n is 0 or less where the chunk has none. */
struct attn_span attn_decode_tile(const struct attn_plan_full *plan, int64_t chunk, int64_t tile);
void attn_decode_run_tile(struct attn_decode_task *task, const struct attn_span *whole);

/* Of a tile that all rows see: scores without softcap; softcap and clear lanes behind them; weights
 * in their place; sums of weighted values; and their addition to the chunk. */
void attn_decode_score_keys(const struct attn_decode_task *task, const struct attn_span *tile);
void attn_decode_cap(const struct attn_decode_task *task, const struct attn_span *tile);
void attn_decode_weigh(const struct attn_decode_task *task, const struct attn_span *tile,
                       float *weights);
void attn_decode_sum_values(const struct attn_decode_task *task, const struct attn_span *tile,
                            const float *weights);
void attn_decode_add_sums(const struct attn_decode_task *task);

/* A part of several plans, whose keys may lie in the same memory. */
struct attn_decode_part {
    struct attn_plan_full plan;
    void *shared;
    int64_t number;
};

/* A chunk of several plans, tile by tile: each tile is run for one after the other, while it is in
 * a near cache, and rows of several plans meet keys that they share together. count is at most
 * ATTN_DECODE_ROWS. The workspace has room for the rows of several plans, or else of one.
 * is_near: the tiles are in a near cache already. */
int64_t attn_decode_chunk_tiles(const struct attn_plan_full *plan);
void attn_decode_run_parts_tile(const struct attn_decode_part *parts, int count, int64_t tile,
                                bool is_near, void *workspace, size_t workspace_bytes);

void attn_decode_run_join(const struct attn_plan_full *plan, int64_t number, void *shared,
                          void *workspace);
void attn_decode_run_heads(const struct attn_plan_full *plan, const struct attn_decode_heads *heads,
                           void *workspace);

#endif
