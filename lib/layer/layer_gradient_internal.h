/* layer_gradient_internal.h - what the plan of a layer's gradient and its tasks share. */
#ifndef ATTN_LAYER_GRADIENT_INTERNAL_H
#define ATTN_LAYER_GRADIENT_INTERNAL_H

#include "layer/layer_internal.h"
#include "layer_gradient.h"

/* In this order; stages with nothing to do are left out. */
enum attn_layer_gradient_stage {
    ATTN_LAYER_GRADIENT_ZERO,     /* no query rows: every gradient is 0 */
    ATTN_LAYER_GRADIENT_FORWARD,  /* projections; attention, where there is an o_proj */
    ATTN_LAYER_GRADIENT_CONTEXT,  /* blocks of rows: through o_proj -> scratch */
    ATTN_LAYER_GRADIENT_ATTEND,   /* the stages of gradient.h */
    ATTN_LAYER_GRADIENT_ROTATE,   /* chunks of rows of query and key: out of the rotary embedding */
    ATTN_LAYER_GRADIENT_NORM,     /* chunks of rows: through norms and out of the clamp */
    ATTN_LAYER_GRADIENT_NORM_SUM, /* of query and key: what the chunks have of its norm */
    ATTN_LAYER_GRADIENT_LINEAR    /* through the projections: inputs, weights, biases */
};

/* Whether attention is run forwards, and goes back from its context and lse, which takes as long as
 * to find them on the way back; o_proj's weight needs the context besides. Whether that is asked
 * for changes no bit: but for sparsemax, which finds its own, attention before an output projection
 * always is. */
static inline bool
attn_layer_gradient_has_forward(const struct attn_layer_gradient_problem *problem)
{
    return problem->layer.layer->o_proj.weight != NULL
           && (problem->o_proj.weight != NULL || problem->layer.options.normalizer == ATTN_SOFTMAX);
}

/* Rows of a weight in its own layout that one task sums up. */
enum { ATTN_LAYER_GRADIENT_WEIGHT_ROWS = 128 };

/* The gradient of one of query, key and value as attention gives it. */
struct attn_operand_gradient {
    bool is_wanted;
    bool is_projected;
    bool is_in_scratch; /* attention leaves it there, else where the caller wants it */
    bool is_changed;    /* by the stage NORM: its rows are normed or clamped */
    float *input;       /* the caller's output */
    struct attn_linear_gradient linear;
    struct attn_norm_gradient norm;
    struct attn_tensor view; /* [1, heads, length, head_dim]; data NULL where it is not wanted */
};

/* Query, key and value, in this order. Where scratch is NULL what lies in it gets some address, so
 * that a plan knows that it is wanted, and nothing more. */
void attn_operand_gradients(const struct attn_layer_gradient_plan *plan, void *scratch,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);

/* Bytes of the sums of every chunk for the norm's gradient; 0 where that is not asked for. */
size_t attn_norm_sums_bytes(const struct attn_operand *operand,
                            const struct attn_operand_gradient *gradient);

/* The stages NORM and NORM_SUM: how many tasks, and one of them. */
int64_t attn_norm_gradient_tasks(const struct attn_operand operands[ATTN_OPERAND_COUNT],
                                 const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);
void attn_norm_gradient_run(const struct attn_layer_gradient_plan *plan, int64_t task,
                            void *scratch);
int64_t attn_norm_sum_tasks(const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);
void attn_norm_sum_run(const struct attn_layer_gradient_plan *plan, int64_t task, void *scratch);

/* What the last stage does with one projection: tasks of rows of its input, then of rows of its
 * weight, then one for its bias. */
struct attn_linear_task_counts {
    int64_t input, weight, bias;
};

struct attn_linear_task_counts attn_linear_task_counts(const struct attn_linear *linear,
                                                       const struct attn_linear_gradient *gradient,
                                                       const float *input, int64_t row_count);

#endif
