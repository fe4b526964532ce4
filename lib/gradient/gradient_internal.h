/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_internal.h - what the files of the gradient share.
 *
 * Both kinds of tile are [others][width]. In a tile of rows the lanes are query rows and the others
 * are keys, as in the forward pass; in a tile of keys the lanes are keys and the others are query
 * rows. So the same kernels compute every product, and no sum crosses the lanes of a vector. */
#ifndef ATTN_GRADIENT_INTERNAL_H
#define ATTN_GRADIENT_INTERNAL_H

#include "base/internal.h"
#include "forward/mask.h"
#include "gradient.h"

/* A struct attn_gradient_plan as the library sees it. */
struct __attribute__((may_alias)) attn_gradient_plan_full {
    int64_t task_count[ATTN_GRADIENT_STAGES]; /* up to workspace_bytes as in gradient.h */
    size_t scratch_bytes, workspace_bytes;

    struct attn_gradient_problem problem;
    const struct attn_kernels *kernels;
    int64_t row_tile, row_width; /* query rows of one row task, and the lanes they take */
    int64_t key_tile, key_width; /* the same for key tasks */
    int64_t row_tiles;
    int rounds; /* number of stages from 1 on; also the number of parts that a head's queries and
                   its keys are cut into */
    int64_t part_rows;  /* query rows in one part, a multiple of other_tile */
    int64_t part_keys;  /* keys in one part, a multiple of key_tile */
    int64_t key_tasks;  /* key tasks of each round */
    int64_t mask_tasks; /* tasks of the mask, in stage 1 after the key tasks; one task of sums over
                           all rows follows them */
    int64_t mask_row_tiles;
    int64_t other_tile; /* keys, or query rows, that a tile of lanes meets in one step */
};

ATTN_FULL_PLAN(attn_gradient_plan, workspace_bytes)

/* The results of stage 0. Each array except the last has one element for each query row, [batch *
 * q_heads * q_len]. Arrays that are not needed are absent. */
struct attn_gradient_rows {
    float *max;       /* the maximum of the row's masked scores */
    float *factor;    /* 1 / sum of exp(score - max); 0 for a row that sees nothing */
    float *delta;     /* sum over keys of slope * gradient of the weight, divided by the sum of the
                         slopes */
    float *delta_low; /* what is left of delta behind the float: where one weight is nearly 1, the
                         gradient of its score is a small difference from delta */
    struct key_range *ranges;          /* the keys that the row may see, before the caller's mask */
    struct attn_threshold *thresholds; /* sparsemax: the final thresholds; else absent */
    double *slopes;      /* -sum over keys of gradient of the masked score * |p - k| */
    double *weight_sums; /* [tasks of stage 0][head_dim]: partial sums of the additive weight's
                            gradient */
};

struct attn_gradient_workspace {
    float *first_t;      /* [head_dim][width]: queries times scale, or keys */
    float *second_t;     /* [v_head_dim][width]: gradients of the context, or values */
    float *first_sum_t;  /* [head_dim][width]: gradients of queries, or of keys */
    float *second_sum_t; /* [v_head_dim][width]: gradients of values */
    float *query_rows;   /* [other_tile][head_dim]: the others' queries times scale */
    float *key_rows; /* [width][padded head_dim]: keys as rows, for a dot product; else absent */
    float *products; /* [other_tile][padded head_dim]: these keys' part of the others' gradients */
    float *weight_sum_t; /* [head_dim][width]: gradients of the additive weight; may be absent */
    float *weights_t;    /* [other_tile][width], like the four below */
    float *gradient_t;
    float *support_t; /* for sparsemax, else absent: 1 where a weight is not 0 */
    float *capped_t;
    float *bias_t;
    float *max; /* [width], like the floats below */
    float *sum;
    float *delta;
    float *delta_low;
    double *dividend; /* [width], like divisor: their ratio is delta */
    double *divisor;
    float *rescale;
    float *ones;
    float *distance;          /* from key to query row; absent without ALiBi */
    struct key_range *ranges; /* [width]: the keys that each query row may see, before the caller's
                                 mask */
    int32_t *low;             /* [width]: the same, counted from the first key of the tile */
    int32_t *high;
};

/* Divide memory into parts and return their bytes; with memory NULL, only count. */
size_t attn_gradient_rows_cut(struct attn_gradient_rows *rows,
                              const struct attn_gradient_plan_full *plan, void *memory);
size_t attn_gradient_workspace_cut(struct attn_gradient_workspace *work,
                                   const struct attn_gradient_plan_full *plan, void *memory);

/* A tile of query rows of one head, and the workspace in which it is computed. */
struct attn_row_tile {
    const struct attn_gradient_plan_full *plan;
    struct attn_gradient_workspace work;
    int64_t batch, q_head, kv_head;
    int64_t row, row_count;            /* query rows [row, row + row_count) */
    int64_t first;                     /* the index of the first row in struct attn_gradient_rows */
    struct attn_threshold *thresholds; /* of these rows, for sparsemax; else absent */
    struct key_range any;              /* the keys that at least one row may see */
    struct key_range every;            /* the keys that every row may see */
};

/* Find what the rows may see. */
void attn_row_tile_begin(struct attn_row_tile *tile, const struct attn_gradient_plan_full *plan,
                         int64_t batch, int64_t q_head, int64_t row,
                         const struct attn_gradient_rows *rows, void *workspace);

/* Transpose their queries and gradients of the context, before they meet keys. */
void attn_row_tile_load(const struct attn_row_tile *tile);

/* Compute into weights_t the weights (before dropout) and into gradient_t the gradients of the
 * masked scores, of keys [key, key + n), from work.max, work.sum (here the factor), work.delta and
 * work.delta_low. */
void attn_row_tile_gradient(const struct attn_row_tile *tile, int64_t key, int64_t n);

/* Steps that both kinds of tile share (gradient_tile.c). */

/* The factor of queries before they are scored: the scale, or 1 for additive scores, which apply
 * the scale later. */
float attn_gradient_query_factor(const struct attn_problem *attention);

/* Compute into weights_t the scores of the lanes with n rows of others. */
void attn_gradient_score(const struct attn_gradient_plan_full *plan,
                         const struct attn_gradient_workspace *work, const float *rows,
                         int64_t row_stride, int64_t n, int64_t width);

/* Turn gradient_t from gradients of weights into those of masked scores. step as in kernels.h. */
void attn_gradient_normalize(const struct attn_gradient_plan_full *plan,
                             const struct attn_gradient_workspace *work, const float *delta,
                             const float *delta_low, int64_t step, int64_t n, int64_t width);

/* Set support_t to the slopes of sparsemax at weights_t. */
void attn_gradient_support(const struct attn_gradient_workspace *work, int64_t n, int64_t width);

/* Turn gradient_t from gradients of masked scores into those of scores: through softcap, if any. */
void attn_gradient_uncap(const struct attn_gradient_plan_full *plan,
                         const struct attn_gradient_workspace *work, int64_t n, int64_t width);

/* Add gradient_t, of scores, to first_sum_t, and to weight_sum_t if sums_weight. hides: some pair
 * may be hidden, and then adds nothing even if the row is not finite. */
void attn_gradient_add(const struct attn_gradient_plan_full *plan,
                       const struct attn_gradient_workspace *work, const float *rows,
                       int64_t row_stride, int64_t n, int64_t width, bool hides, bool sums_weight);

/* Do the key tasks compute the query's gradient too? They do for a dot product, whose gradient is a
 * product as well. Additive scores would need their tanh once more for each of the two gradients,
 * so there the query's gradient is computed where the lanes are query rows. */
static inline bool attn_gradient_keys_make_query(const struct attn_gradient_problem *problem)
{
    return problem->attention.additive_weight == NULL && problem->query_gradient.data != NULL;
}

/* columns rounded up to whole vectors. */
int64_t attn_gradient_padded(const struct attn_gradient_plan_full *plan, int64_t columns);

/* The tasks: for query rows (gradient_rows.c), for keys as lanes (gradient_keys.c), for the mask
 * and for sums over all rows (gradient_masking.c). */
void attn_gradient_run_rows(const struct attn_gradient_plan_full *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_keys(const struct attn_gradient_plan_full *plan, int round, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_mask(const struct attn_gradient_plan_full *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_sums(const struct attn_gradient_plan_full *plan,
                            const struct attn_gradient_rows *rows);

#endif
