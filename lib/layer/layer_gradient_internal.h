/* SPDX-License-Identifier: Apache-2.0 */
/* layer_gradient_internal.h - what the plan of a layer's gradient and its tasks share. */
#ifndef ATTN_LAYER_GRADIENT_INTERNAL_H
#define ATTN_LAYER_GRADIENT_INTERNAL_H

#include "gradient/gradient_internal.h"
#include "layer/layer_internal.h"
#include "layer_gradient.h"

/* A struct attn_layer_gradient_plan as the library sees it. */
struct __attribute__((may_alias)) attn_layer_gradient_plan_full {
    int stage_count; /* up to problem as in layer_gradient.h */
    int64_t task_count[ATTN_LAYER_GRADIENT_STAGES_MAX];
    size_t scratch_bytes, workspace_bytes;
    struct attn_layer_gradient_problem problem;

    struct attn_layer_plan_full forward;     /* its projections and attention are run again */
    struct attn_gradient_plan_full gradient; /* tensors in scratch get addresses when a task runs */
    int stage_kind[ATTN_LAYER_GRADIENT_STAGES_MAX];
    int stage_of_part[ATTN_LAYER_GRADIENT_STAGES_MAX]; /* the stage's number in the plan that it
                                                          belongs to */
    size_t rows_offset, context_offset;                /* bytes into scratch */
    size_t operand_offset[3];                          /* of query, key and value */
    size_t norm_offset[3]; /* sums of each chunk of their rows for the gradients of their norms */
};

ATTN_FULL_PLAN(attn_layer_gradient_plan, problem)

/* In this order; stages without work are left out. */
enum attn_layer_gradient_stage {
    ATTN_LAYER_GRADIENT_ZERO,     /* no query rows: every gradient is 0 */
    ATTN_LAYER_GRADIENT_FORWARD,  /* projections; also attention, if there is an o_proj */
    ATTN_LAYER_GRADIENT_CONTEXT,  /* blocks of rows: gradients through o_proj -> scratch */
    ATTN_LAYER_GRADIENT_ATTEND,   /* the stages of gradient.h */
    ATTN_LAYER_GRADIENT_ROTATE,   /* chunks of rows of query and key: gradients through the rotary
                                     embedding */
    ATTN_LAYER_GRADIENT_NORM,     /* chunks of rows: gradients through norms and the clamp */
    ATTN_LAYER_GRADIENT_NORM_SUM, /* of each of them: sum the chunks' gradients of the norm */
    ATTN_LAYER_GRADIENT_LINEAR    /* gradients through the projections: inputs, weights, biases */
};

/* Is attention run forwards first, so that its gradient starts from context and lse? This takes as
 * long as finding them again in the gradient, and o_proj's weight needs the context anyway. The
 * answer must not depend on which gradients are wanted, because that would change bits. So
 * attention before an output projection is always run, except with sparsemax, which does not use
 * them. */
static inline bool
attn_layer_gradient_has_forward(const struct attn_layer_gradient_problem *problem)
{
    return problem->layer.layer->o_proj.weight != NULL
           && (problem->o_proj.weight != NULL || problem->layer.options.normalizer == ATTN_SOFTMAX);
}

/* Outputs of a projection for which one task sums the gradient of the weight. */
enum { ATTN_LAYER_GRADIENT_OUTPUTS = 128 };

/* Rows x that went into a projection, and the gradients dy of what came out of it; dense. */
struct attn_projected_rows {
    const float *dy; /* [count][out] */
    const float *x;  /* [count][in]; NaN or infinity adds nothing where its row of dy is 0 */
    int64_t count;
};

/* Write dy^T . x to the rows, or columns, of a weight's gradient that belong to the task's outputs,
 * in the layout of the weight. */
void attn_weight_gradient_run(const struct attn_kernels *kernels, const struct attn_linear *linear,
                              const struct attn_projected_rows *rows, float *weight, int64_t task,
                              void *workspace);
size_t attn_weight_gradient_workspace_bytes(void);

/* The gradient of query, key or value as attention computes it. */
struct attn_operand_gradient {
    bool is_wanted;
    bool is_projected;
    bool is_in_scratch; /* attention writes it to scratch, else to the caller's output */
    bool is_changed;    /* by the stage NORM: its rows have a norm or a clamp */
    float *input;       /* the caller's output */
    struct attn_linear_gradient linear;
    struct attn_norm_gradient norm;
    struct attn_tensor view; /* [1, heads, length, head_dim]; data is NULL if it is not wanted */
};

/* Query, key and value, in this order. If scratch is NULL, a gradient in scratch gets a placeholder
 * address that only tells a plan that it is wanted. */
void attn_operand_gradients(const struct attn_layer_gradient_plan_full *plan, void *scratch,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);

/* Bytes of the sums of every chunk for the norm's gradient; 0 if it is not wanted. */
size_t attn_norm_sums_bytes(const struct attn_operand *operand,
                            const struct attn_operand_gradient *gradient);

/* The stages NORM and NORM_SUM: the number of tasks, and one of them. */
int64_t attn_norm_gradient_tasks(const struct attn_operand operands[ATTN_OPERAND_COUNT],
                                 const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);
void attn_norm_gradient_run(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                            void *scratch);
int64_t attn_norm_sum_tasks(const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT]);
void attn_norm_sum_run(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                       void *scratch);

/* The tasks of the last stage for one projection: tasks for rows of its input, then for rows of its
 * weight, then one for its bias. */
struct attn_linear_task_counts {
    int64_t input, weight, bias;
};

struct attn_linear_task_counts attn_linear_task_counts(const struct attn_kernels *kernels,
                                                       const struct attn_linear *linear,
                                                       const struct attn_linear_gradient *gradient,
                                                       const float *input, int64_t row_count);

#endif
