/* layer_gradient_internal.h - what the plan of a layer's gradient and its tasks share. */
#ifndef ATTN_LAYER_GRADIENT_INTERNAL_H
#define ATTN_LAYER_GRADIENT_INTERNAL_H

#include "layer_gradient.h"
#include "layer_internal.h"

/* In this order; stages with nothing to do are left out. */
enum attn_layer_gradient_stage {
    ATTN_LAYER_GRADIENT_ZERO,    /* no query rows: every gradient is 0 */
    ATTN_LAYER_GRADIENT_FORWARD, /* projections; attention, where o_proj's weight needs its output
                                  */
    ATTN_LAYER_GRADIENT_CONTEXT, /* chunks of rows: through o_proj -> scratch */
    ATTN_LAYER_GRADIENT_ATTEND,  /* the stages of gradient.h */
    ATTN_LAYER_GRADIENT_TURN,    /* chunks of rows of query and key: out of the rotary embedding */
    ATTN_LAYER_GRADIENT_LINEAR   /* through the projections: inputs, weights, biases */
};

/* Rows of a weight in its own layout that one task sums up. */
enum { ATTN_LAYER_GRADIENT_WEIGHT_ROWS = 128 };

/* The gradient of one of query, key and value as attention gives it. */
struct attn_operand_gradient {
    bool is_wanted;
    bool is_projected; /* attention leaves it in scratch, else where the caller wants it */
    float *input;      /* the caller's output */
    struct attn_linear_gradient linear;
    struct attn_tensor view; /* [1, heads, length, head_dim]; data NULL where it is not wanted */
};

/* Query, key and value, in this order. Where scratch is NULL what lies in it gets some address, so
 * that a plan knows that it is wanted, and nothing more. */
void attn_operand_gradients(const struct attn_layer_gradient_plan *plan, void *scratch,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);

/* What the last stage does with one projection: tasks of chunks of rows of its input, then of rows
 * of its weight, then one for its bias. */
struct attn_linear_task_counts {
    int64_t input, weight, bias;
};

struct attn_linear_task_counts attn_linear_task_counts(const struct attn_linear *linear,
                                                       const struct attn_linear_gradient *gradient,
                                                       const float *input, int64_t row_count);

#endif
