/* SPDX-License-Identifier: Apache-2.0 */
/* layer_gradient.h - the vector-Jacobian product of a whole layer: inputs and parameters.
 *
 *     y = x . W^T + b       gives   dx = dy . W      dW = dy^T . x      db = sum over rows of dy
 *
 * around gradient.h. Rotary embedding is undone by the negative angles, times its attention factor.
 * Norms, with n = (x - mean) * r and r = 1/sqrt(mean square + eps), are
 *
 *     y = w n + b           gives   dw = sum dy n    db = sum dy
 *                                   dx = r (w dy - mean(w dy) - n mean(w dy n))
 *
 * without mean(w dy) if the norm is not centred. A clamped number, also one exactly at the bound,
 * has gradient 0. Run it like a layer, stage by stage (layer.h). Equal inputs give equal bits, for
 * any number of threads. A key or value row that no query row sees affects no gradient. */
#ifndef ATTN_LAYER_GRADIENT_H
#define ATTN_LAYER_GRADIENT_H

#include "gradient.h"
#include "layer.h"

/* Gradients of a struct attn_linear, in its layout. Each is NULL if it is not wanted; both are NULL
 * if the projection is the identity. */
struct attn_linear_gradient {
    float *weight; /* [out, in], or [in, out] if in_out; with the row stride of the weight */
    float *bias;   /* [out] */
};

/* Gradients of a struct attn_norm, of the shape of its weight; each NULL if it is not wanted. */
struct attn_norm_gradient {
    float *weight;
    float *bias;
};

/* Split the gradient of joined as attn_linear_split() splits joined: what a layer of the two parts
 * writes to left and right is then the gradient of joined. */
void attn_linear_gradient_split(const struct attn_linear *joined, int64_t columns,
                                const struct attn_linear_gradient *gradient,
                                struct attn_linear_gradient *left,
                                struct attn_linear_gradient *right);

struct attn_layer_gradient_problem {
    /* The call, not partial; its outputs are ignored. */
    struct attn_layer_problem layer;

    const float *context_gradient; /* [q_len, d_out], dense */

    /* Outputs, dense F32, each NULL if it is not wanted. None may overlap an input or another
     * output. */
    float *query; /* these three: of the shape of the input */
    float *key;
    float *value;
    float *mask; /* of the shape of the mask, which must be F32 */
    struct attn_linear_gradient q_proj, k_proj, v_proj, o_proj;
    struct attn_norm_gradient q_norm, k_norm, v_norm;
    float *additive_weight; /* [head_dim] */
    union {
        float *per_head[ATTN_PER_HEAD_COUNT]; /* [q_heads] each */
        struct {
#define X(NAME, name, may_be_none) float *name;
            ATTN_PER_HEAD_MAP(X)
#undef X
        };
    };
};

enum { ATTN_LAYER_GRADIENT_STAGES_MAX = 9 + ATTN_GRADIENT_STAGES };

/* Borrows the problem's memory and the layer; owns nothing. */
struct attn_layer_gradient_plan {
    int stage_count;
    int64_t task_count[ATTN_LAYER_GRADIENT_STAGES_MAX]; /* of each stage, 1 or more */
    size_t scratch_bytes;   /* shared by all tasks of one run, 64-byte aligned; may be 0 */
    size_t workspace_bytes; /* needed besides by each running task, 64-byte aligned; may be 0 */

    struct attn_layer_gradient_problem problem; /* as it was given, without outputs of the call */
    uint64_t own[576];                          /* as in struct attn_plan */
};

/* Everything is checked here, and running cannot fail. Errors as for attn_layer_plan_init() and
 * attn_gradient_plan_init(); ATTN_ERR_NO_DATA for a gradient of something that the layer does not
 * have. */
enum attn_status attn_layer_gradient_plan_init(struct attn_layer_gradient_plan *plan,
                                               const struct attn_layer_gradient_problem *problem,
                                               const char **where);

void attn_layer_gradient_run(const struct attn_layer_gradient_plan *plan, int stage, int64_t task,
                             void *scratch, void *workspace);

#endif
