/* layer_merge.h - merging the partial answers of a layer (layer.h's partial), and then its output
 * projection. merge.h has the formula. */
#ifndef ATTN_LAYER_MERGE_H
#define ATTN_LAYER_MERGE_H

#include "layer.h"
#include "merge.h"

/* The parts of one call. */
struct attn_layer_merge {
    const struct attn_layer *layer; /* its heads, v_head_dim and o_proj count, nothing else */
    const struct attn_part *parts;  /* context [q_heads, q_len, v_head_dim], lse [q_heads, q_len] */
    int64_t part_count;             /* 0 or more */
    int64_t q_len;

    /* Outputs, each dense F32 or NULL. */
    float *context; /* [q_len, d_out] */
    float *lse;     /* [q_heads, q_len] */

    const struct attn_kernels *kernels; /* of o_proj; NULL: the best this CPU can run */
};

/* A plan like that of a call: run it with attn_layer_run(). It borrows merge and what that points
 * at. *where names the field at fault. */
enum attn_status attn_layer_merge_plan_init(struct attn_layer_plan *plan,
                                            const struct attn_layer_merge *merge,
                                            const char **where);

#endif
