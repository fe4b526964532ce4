/* gradient_internal.h - what the files of the gradient share.
 *
 * Both kinds of tile are [others][width]. In a tile of rows the lanes are query rows and the
 * others keys, as in the forward pass; in a tile of keys the lanes are keys and the others query
 * rows. So the same kernels make every product, and no sum goes across the lanes of a vector. */
#ifndef ATTN_GRADIENT_INTERNAL_H
#define ATTN_GRADIENT_INTERNAL_H

#include "base/internal.h"
#include "forward/mask.h"
#include "gradient.h"

/* What stage 0 leaves: one of each for each query row, [batch * q_heads * q_len], but for the last.
 * What is not needed is absent. */
struct attn_gradient_rows {
    float *max;    /* of the row's masked scores */
    float *factor; /* 1 / sum of exp(score - max), 0 for a row that sees nothing */
    float *delta;  /* sum over keys of slope * gradient of the weight, over the sum of the slopes */
    struct attn_threshold *thresholds; /* sparsemax: found */
    double *slopes;      /* -sum over keys of gradient of the masked score * |p - k| */
    double *weight_sums; /* [tasks of stage 0][head_dim]: parts of the additive weight's */
};

struct attn_gradient_workspace {
    float *first_t;      /* [head_dim][width]: queries times scale, or keys */
    float *second_t;     /* [v_head_dim][width]: gradients of the context, or values */
    float *first_sum_t;  /* [head_dim][width]: gradients of queries, or of keys */
    float *second_sum_t; /* [v_head_dim][width]: gradients of values */
    float *query_rows;   /* [other_tile][head_dim]: the others' queries times scale */
    float *key_rows;     /* [width][padded head_dim]: keys as rows; of a dot product, else absent */
    float *products;     /* [other_tile][padded head_dim]: what they add to others' gradients */
    float *weight_sum_t; /* [head_dim][width]: gradients of the additive weight; may be absent */
    float *weights_t;    /* [other_tile][width], like the four below */
    float *gradient_t;
    float *support_t; /* 1 where a weight is not 0; of sparsemax, else absent */
    float *capped_t;
    float *bias_t;
    float *max; /* [width], like the four below */
    float *sum;
    float *delta;
    float *rescale;
    float *ones;
    float *distance;          /* from key to query row, for ALiBi; absent without it */
    struct key_range *ranges; /* what each query row may see, mask apart: [width] or [other_tile] */
    int32_t *low;             /* [width]: the same, counted from the first key of the tile */
    int32_t *high;
};

/* Cut memory into parts and return their bytes; memory NULL only counts. */
size_t attn_gradient_rows_cut(struct attn_gradient_rows *rows,
                              const struct attn_gradient_plan *plan, void *memory);
size_t attn_gradient_workspace_cut(struct attn_gradient_workspace *work,
                                   const struct attn_gradient_plan *plan, void *memory);

/* A tile of query rows of one head, with the workspace it is computed in. */
struct attn_row_tile {
    const struct attn_gradient_plan *plan;
    struct attn_gradient_workspace work;
    int64_t batch, q_head, kv_head;
    int64_t row, row_count;            /* query rows [row, row + row_count) */
    int64_t first;                     /* the place of the first in struct attn_gradient_rows */
    struct attn_threshold *thresholds; /* of these rows; of sparsemax, else absent */
    struct key_range any;              /* the keys that some row may see */
    struct key_range every;            /* the keys that every row may see */
};

/* Transposes queries and gradients of the context, and finds what the rows may see. */
void attn_row_tile_begin(struct attn_row_tile *tile, const struct attn_gradient_plan *plan,
                         int64_t batch, int64_t q_head, int64_t row,
                         const struct attn_gradient_rows *rows, void *workspace);

/* weights_t and gradient_t become the weights (before dropout) and the gradients of the masked
 * scores of keys [key, key + n), from work.max, work.sum (as a factor) and work.delta. */
void attn_row_tile_gradient(const struct attn_row_tile *tile, int64_t key, int64_t n);

/* What both kinds of tile do alike (gradient_scores.c). */

/* What queries are multiplied by before they are scored: the additive score does that later. */
float attn_gradient_query_factor(const struct attn_problem *attention);

/* weights_t become the scores of the lanes against n rows of others. */
void attn_gradient_score(const struct attn_gradient_plan *plan,
                         const struct attn_gradient_workspace *work, const float *rows,
                         int64_t row_stride, int64_t n, int64_t width);

/* gradient_t, of weights, become those of the masked scores. step as in kernels.h. */
void attn_gradient_normalize(const struct attn_gradient_plan *plan,
                             const struct attn_gradient_workspace *work, const float *delta,
                             int64_t step, int64_t n, int64_t width);

/* support_t becomes the slopes of sparsemax at weights_t. */
void attn_gradient_support(const struct attn_gradient_workspace *work, int64_t n, int64_t width);

/* gradient_t, of masked scores, become those of the scores: through softcap, where there is one. */
void attn_gradient_uncap(const struct attn_gradient_plan *plan,
                         const struct attn_gradient_workspace *work, int64_t n, int64_t width);

/* gradient_t, of scores, go into first_sum_t, and into weight_sum_t where sums_weight; hides: some
 * pair may be hidden, and adds nothing even where the row is not finite. */
void attn_gradient_add(const struct attn_gradient_plan *plan,
                       const struct attn_gradient_workspace *work, const float *rows,
                       int64_t row_stride, int64_t n, int64_t width, bool hides, bool sums_weight);

/* Whether tasks of keys make the gradient of the query too: of a dot product, whose way back is a
 * product as well. Additive scores would need their tanh once more for each of the two, so it is
 * made where the lanes are query rows. */
static inline bool attn_gradient_keys_make_query(const struct attn_gradient_problem *problem)
{
    return problem->attention.additive_weight == NULL && problem->query_gradient.data != NULL;
}

/* A number of columns in whole vectors. */
int64_t attn_gradient_padded(const struct attn_gradient_plan *plan, int64_t columns);

/* The same numbers for keys as lanes (gradient_keys.c), for the mask (gradient_mask.c), for what is
 * summed over all rows (gradient_sums.c), and for query rows (gradient_rows.c): the tasks. */
void attn_gradient_run_rows(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_keys(const struct attn_gradient_plan *plan, int round, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_mask(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_sums(const struct attn_gradient_plan *plan,
                            const struct attn_gradient_rows *rows);

#endif
