/* layer_gradient.h - the vector-Jacobian product of a whole layer: inputs and parameters.
 *
 *     y = x . W^T + b       gives   dx = dy . W      dW = dy^T . x      db = sum over rows of dy
 *
 * around gradient.h, rotary embedding turned back by the same angles, times its attention factor,
 * and norms, of which with n = (x - mean) * r, r being 1/sqrt(mean square + eps),
 *
 *     y = w n + b           gives   dw = sum dy n    db = sum dy
 *                                   dx = r (w dy - mean(w dy) - n mean(w dy n))
 *
 * without mean(w dy) where it is not centred. What is clamped, to the bound itself too, passes on
 * 0. Run like a layer, stage by stage (layer.h). Equal inputs give equal bits, however many threads
 * run the tasks. What a key or value row holds that no query row sees reaches no gradient. */
#ifndef ATTN_LAYER_GRADIENT_H
#define ATTN_LAYER_GRADIENT_H

#include "gradient.h"
#include "layer.h"

/* Of a struct attn_linear, in its layout; each NULL where it is not asked for, and both where the
 * projection is the identity. */
struct attn_linear_gradient {
    float
        *weight; /* [out, in], or [in, out] where in_out; from row to row as far as the weight's */
    float *bias; /* [out] */
};

/* Of a struct attn_norm, of the shape of its weight; each NULL where it is not asked for. */
struct attn_norm_gradient {
    float *weight;
    float *bias;
};

/* The parts of joined's gradient, numbers that attn_linear_split() cuts in the same way: what is
 * left by a layer of the two parts in left and right is the gradient of joined. */
void attn_linear_gradient_split(const struct attn_linear *joined, int64_t columns,
                                const struct attn_linear_gradient *gradient,
                                struct attn_linear_gradient *left,
                                struct attn_linear_gradient *right);

struct attn_layer_gradient_problem {
    /* The call, not partial; its outputs are not looked at. */
    struct attn_layer_problem layer;

    const float *context_gradient; /* [q_len, d_out], dense */

    /* Outputs, dense F32, each NULL where it is not asked for. None may overlap another or an
     * input. */
    float *query; /* these three: of the shape of the input */
    float *key;
    float *value;
    float *mask; /* of the shape of the mask, which must be F32 */
    struct attn_linear_gradient q_proj, k_proj, v_proj, o_proj;
    struct attn_norm_gradient q_norm, k_norm;
    float *additive_weight; /* [head_dim] */
    float *alibi_slopes;    /* [q_heads], like the one below */
    float *sinks;
};

enum { ATTN_LAYER_GRADIENT_STAGES_MAX = 9 + ATTN_GRADIENT_STAGES };

/* Borrows the problem's memory and the layer; owns nothing. Read the first four fields, leave the
 * rest alone. */
struct attn_layer_gradient_plan {
    int stage_count;
    int64_t task_count[ATTN_LAYER_GRADIENT_STAGES_MAX]; /* of each stage, 1 or more */
    size_t scratch_bytes;   /* shared by all tasks of one run, 64-byte aligned; may be 0 */
    size_t workspace_bytes; /* what one running task needs besides, 64-byte aligned; may be 0 */

    struct attn_layer_gradient_problem problem;
    struct attn_layer_plan forward;     /* of which the projections and attention are run */
    struct attn_gradient_plan gradient; /* its tensors in scratch are bound when a task runs */
    int stage_kind[ATTN_LAYER_GRADIENT_STAGES_MAX];
    int stage_of_part[ATTN_LAYER_GRADIENT_STAGES_MAX]; /* in the plan that the stage is part of */
    size_t rows_offset, context_offset;                /* into scratch, in bytes */
    size_t operand_offset[3];                          /* of query, key and value */
    size_t norm_offset[2]; /* sums of each chunk of query and key for their norms' gradients */
};

/* Everything is checked here and running cannot fail. Errors as of attn_layer_plan_init() and
 * attn_gradient_plan_init(); ATTN_ERR_NO_DATA for a gradient of what the layer does not have. */
enum attn_status attn_layer_gradient_plan_init(struct attn_layer_gradient_plan *plan,
                                               const struct attn_layer_gradient_problem *problem,
                                               const char **where);

void attn_layer_gradient_run(const struct attn_layer_gradient_plan *plan, int stage, int64_t task,
                             void *scratch, void *workspace);

#endif
