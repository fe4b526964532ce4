/* gradient_internal.h - what the files of the gradient share.
 *
 * Both kinds of tile are [others][width]. In a tile of rows the lanes are query rows and the
 * others keys, as in the forward pass; in a tile of keys the lanes are keys and the others query
 * rows. So the same kernels make every product, and no sum goes across the lanes of a vector. */
#ifndef ATTN_GRADIENT_INTERNAL_H
#define ATTN_GRADIENT_INTERNAL_H

#include "gradient.h"
#include "internal.h"
#include "mask.h"

/* One number for each query row, [batch * q_heads * q_len]. */
struct attn_gradient_rows {
    float *max;    /* of the row's masked scores */
    float *factor; /* 1 / sum of exp(score - max), 0 for a row that sees nothing */
    float *delta;  /* sum over keys of weight * gradient of the weight */
};

struct attn_gradient_workspace {
    float *first_t;      /* [head_dim][width]: queries times scale, or keys */
    float *second_t;     /* [v_head_dim][width]: gradients of the context, or values */
    float *first_sum_t;  /* [head_dim][width]: gradients of queries, or of keys */
    float *second_sum_t; /* [v_head_dim][width]: gradients of values */
    float *query_rows;   /* [other_tile][head_dim]: the others' queries times scale */
    float *weights_t;    /* [other_tile][width], like the three below */
    float *gradient_t;
    float *capped_t;
    float *bias_t;
    float *max; /* [width], like the four below */
    float *sum;
    float *delta;
    float *rescale;
    float *ones;
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
    int64_t row, row_count; /* query rows [row, row + row_count) */
    struct key_range any;   /* the keys that some row may see */
    struct key_range every; /* the keys that every row may see */
};

/* Transposes queries and gradients of the context, and finds what the rows may see. */
void attn_row_tile_begin(struct attn_row_tile *tile, const struct attn_gradient_plan *plan,
                         int64_t batch, int64_t q_head, int64_t row, void *workspace);

/* weights_t and gradient_t become the weights and the gradients of the masked scores of keys
 * [key, key + n), from work.max, work.sum (as a factor) and work.delta. */
void attn_row_tile_gradient(const struct attn_row_tile *tile, int64_t key, int64_t n);

/* The same numbers for keys as lanes (gradient_keys.c), for the mask (gradient_mask.c), and for
 * query rows (gradient_rows.c): the tasks. */
void attn_gradient_run_rows(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_keys(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);
void attn_gradient_run_mask(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace);

#endif
