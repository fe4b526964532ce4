/* layer_merge.h - merge the partial answers of a layer (partial in layer.h), then apply its output
 * projection. merge.h has the formula. */
#ifndef ATTN_LAYER_MERGE_H
#define ATTN_LAYER_MERGE_H

#include "layer.h"
#include "merge.h"

/* The partial answers to one call. */
struct attn_layer_merge {
    const struct attn_layer *layer; /* only its heads, v_head_dim and o_proj are used */
    const struct attn_part *parts;  /* context [q_heads, q_len, v_head_dim], lse [q_heads, q_len] */
    int64_t part_count;             /* 0 or more */
    int64_t q_len;

    /* Outputs, each dense F32 or NULL. */
    float *context; /* [q_len, d_out] */
    float *lse;     /* [q_heads, q_len] */

    const struct attn_kernels *kernels; /* of o_proj; NULL: the best table that this CPU can run */
};

/* Plan the merge; run it with attn_layer_run(). The plan borrows merge and the memory that merge
 * points at. *where names the field at fault. */
enum attn_status attn_layer_merge_plan_init(struct attn_layer_plan *plan,
                                            const struct attn_layer_merge *merge,
                                            const char **where);

#endif
