/* SPDX-License-Identifier: Apache-2.0 */
/* layer_gradient.c - the tasks of a layer's gradient.
 *
 * Gradients of rows pass through a projection with the same kernels as rows in the forward pass,
 * with the matrix transposed. So its parameters are read in place, in any dtype. */
#include "layer_gradient.h"

#include "base/internal.h"
#include "layer/layer_gradient_internal.h"

#include "kernels/kernels.h"

#include <string.h>

/* ------------------------------------------------------------------ through a projection -- */

static void clear_rows(float *rows, int64_t row_stride, int64_t row_count, int64_t columns)
{
    for (int64_t i = 0; i < row_count; i++)
        memset(rows + i * row_stride, 0, (size_t)columns * sizeof(float));
}

/* db = sum over rows of dy. */
static void bias_gradient(const struct attn_linear *linear, const float *dy, float *bias,
                          int64_t row_count)
{
    for (int64_t o = 0; o < linear->out; o++) {
        double sum = 0.0;
        for (int64_t i = 0; i < row_count; i++)
            sum += (double)dy[i * linear->out + o];
        bias[o] = (float)sum;
    }
}

/* Run task number *task of one projection. If the projection has fewer tasks, subtract their number
 * from *task and return false. */
static bool run_linear(const struct attn_layer_gradient_plan_full *plan,
                       const struct attn_linear *linear,
                       const struct attn_linear_gradient *gradient, const float *dy, const float *x,
                       float *dx, int64_t row_count, int64_t *task, void *workspace)
{
    const struct attn_linear_task_counts counts =
        attn_linear_task_counts(plan->gradient.kernels, linear, gradient, dx, row_count);
    const struct attn_linear back = attn_linear_back(linear);

    if (*task < counts.input) {
        attn_linear_run(plan->gradient.kernels, &back, dy, dx, row_count, *task, workspace);
        return true;
    }
    *task -= counts.input;
    if (*task < counts.weight) {
        const struct attn_projected_rows rows = { .dy = dy, .x = x, .count = row_count };
        attn_weight_gradient_run(plan->gradient.kernels, linear, &rows, gradient->weight, *task,
                                 workspace);
        return true;
    }
    *task -= counts.weight;
    if (*task < counts.bias) {
        bias_gradient(linear, dy, gradient->bias, row_count);
        return true;
    }
    *task -= counts.bias;
    return false;
}

/* Tasks are numbered through o_proj, then the projections of query, key and value. */
static void run_linears(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                        void *scratch, void *workspace)
{
    const struct attn_layer_gradient_problem *problem = &plan->problem;
    const struct attn_linear *o_proj = &problem->layer.layer->o_proj;
    const int64_t q_len = problem->layer.query.shape[2];
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT];

    if (run_linear(plan, o_proj, &problem->o_proj, problem->context_gradient,
                   attn_scratch_at(scratch, plan->forward.context_offset), NULL, q_len, &task,
                   workspace))
        return;
    attn_layer_operands(&problem->layer, operands);
    attn_operand_gradients(plan, scratch, operands, gradients);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        if (gradients[i].is_projected
            && run_linear(plan, operands[i].linear, &gradients[i].linear, gradients[i].view.data,
                          operands[i].input->data, gradients[i].input, operands[i].input->shape[2],
                          &task, workspace))
            return;
}

/* ---------------------------------------------------------------- the rotary embedding -- */

static void rotate_chunk(const struct attn_layer_problem *problem,
                         const struct attn_operand *operand, const struct attn_tensor *view,
                         int64_t chunk)
{
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t row_count = attn_min(ATTN_LAYER_CHUNK_ROWS, view->shape[2] - first);

    for (int64_t h = 0; h < view->shape[1]; h++)
        attn_operand_rotate(problem, operand, first,
                            &(struct attn_rope_rows){ .data = attn_tensor_row(view, 0, h, first),
                                                      .row_stride = view->stride[2],
                                                      .row_count = row_count,
                                                      .heads = 1,
                                                      .transposed = true });
}

static void run_rotate(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                       void *scratch)
{
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem.layer, operands);
    attn_operand_gradients(plan, scratch, operands, gradients);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        if (!operands[i].is_rotated || !gradients[i].is_wanted)
            continue;
        const int64_t chunks = attn_divide_up(operands[i].input->shape[2], ATTN_LAYER_CHUNK_ROWS);
        if (task < chunks) {
            rotate_chunk(&plan->problem.layer, &operands[i], &gradients[i].view, task);
            return;
        }
        task -= chunks;
    }
}

/* ------------------------------------------------------------------------ the other stages -- */

static void clear(float *numbers, int64_t count)
{
    if (numbers != NULL)
        memset(numbers, 0, (size_t)count * sizeof(float));
}

static void clear_linear(const struct attn_linear *linear,
                         const struct attn_linear_gradient *gradient)
{
    if (gradient->weight != NULL)
        clear_rows(gradient->weight, attn_linear_stride(linear),
                   linear->in_out ? linear->in : linear->out,
                   linear->in_out ? linear->out : linear->in);
    clear(gradient->bias, linear->out);
}

static void clear_norm(const struct attn_norm *norm, const struct attn_norm_gradient *gradient,
                       int64_t heads, int64_t head_dim)
{
    const int64_t count = norm->scope == ATTN_NORM_HEAD ? head_dim : heads * head_dim;

    clear(gradient->weight, count);
    clear(gradient->bias, count);
}

static int64_t count_of(const struct attn_tensor *tensor)
{
    return tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
}

static void run_zero(const struct attn_layer_gradient_problem *problem)
{
    const struct attn_layer *layer = problem->layer.layer;

    clear(problem->query, count_of(&problem->layer.query));
    clear(problem->key, count_of(&problem->layer.key));
    clear(problem->value, count_of(&problem->layer.value));
    clear(problem->mask, count_of(&problem->layer.mask));
    clear_linear(&layer->q_proj, &problem->q_proj);
    clear_linear(&layer->k_proj, &problem->k_proj);
    clear_linear(&layer->v_proj, &problem->v_proj);
    clear_linear(&layer->o_proj, &problem->o_proj);
    clear_norm(&layer->q_norm, &problem->q_norm, layer->q_heads, layer->head_dim);
    clear_norm(&layer->k_norm, &problem->k_norm, layer->kv_heads, layer->head_dim);
    clear_norm(&layer->v_norm, &problem->v_norm, layer->kv_heads, layer->v_head_dim);
    clear(problem->additive_weight, layer->head_dim);
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        clear(problem->per_head[i], layer->q_heads);
}

static void run_context(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                        void *scratch, void *workspace)
{
    const struct attn_linear back = attn_linear_back(&plan->problem.layer.layer->o_proj);

    attn_linear_run(plan->gradient.kernels, &back, plan->problem.context_gradient,
                    attn_scratch_at(scratch, plan->context_offset),
                    plan->problem.layer.query.shape[2], task, workspace);
}

static void run_attend(const struct attn_layer_gradient_plan_full *plan, int stage, int64_t task,
                       void *scratch, void *workspace)
{
    struct attn_gradient_plan_full gradient = plan->gradient;
    struct attn_problem *attention = &gradient.problem.attention;
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem.layer, operands);
    attn_operand_gradients(plan, scratch, operands, gradients);
    if (operands[0].is_prepared)
        attention->query.data = attn_scratch_at(scratch, plan->forward.q_offset);
    if (operands[1].is_prepared)
        attention->key.data = attn_scratch_at(scratch, plan->forward.k_offset);
    if (operands[2].is_prepared)
        attention->value.data = attn_scratch_at(scratch, plan->forward.v_offset);
    if (gradient.problem.has_forward) {
        attention->context.data = attn_scratch_at(scratch, plan->forward.context_offset);
        attention->lse.data = attn_scratch_at(scratch, plan->forward.lse_offset);
        gradient.problem.largest_weights = attn_scratch_at(scratch, plan->forward.largest_offset);
    }
    attention->past_len = &plan->problem.layer.past_len;
    if (plan->problem.layer.layer->o_proj.weight != NULL)
        gradient.problem.context_gradient.data = attn_scratch_at(scratch, plan->context_offset);
    gradient.problem.query_gradient.data = gradients[0].view.data;
    gradient.problem.key_gradient.data = gradients[1].view.data;
    gradient.problem.value_gradient.data = gradients[2].view.data;
    attn_gradient_run(attn_gradient_plan_given(&gradient), stage, task,
                      attn_scratch_at(scratch, plan->rows_offset), workspace);
}

void attn_layer_gradient_run(const struct attn_layer_gradient_plan *plan, int stage, int64_t task,
                             void *scratch, void *workspace)
{
    const struct attn_layer_gradient_plan_full *full = attn_layer_gradient_plan_full(plan);
    const int part = full->stage_of_part[stage];

    switch ((enum attn_layer_gradient_stage)full->stage_kind[stage]) {
    case ATTN_LAYER_GRADIENT_ZERO:
        run_zero(&full->problem);
        break;
    case ATTN_LAYER_GRADIENT_FORWARD:
        attn_layer_run(attn_layer_plan_given(&full->forward), part, task, scratch, workspace);
        break;
    case ATTN_LAYER_GRADIENT_CONTEXT:
        run_context(full, task, scratch, workspace);
        break;
    case ATTN_LAYER_GRADIENT_ATTEND:
        run_attend(full, part, task, scratch, workspace);
        break;
    case ATTN_LAYER_GRADIENT_ROTATE:
        run_rotate(full, task, scratch);
        break;
    case ATTN_LAYER_GRADIENT_NORM:
        attn_norm_gradient_run(full, task, scratch);
        break;
    case ATTN_LAYER_GRADIENT_NORM_SUM:
        attn_norm_sum_run(full, task, scratch);
        break;
    case ATTN_LAYER_GRADIENT_LINEAR:
        run_linears(full, task, scratch, workspace);
        break;
    }
}
