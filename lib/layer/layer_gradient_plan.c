/* SPDX-License-Identifier: Apache-2.0 */
/* layer_gradient_plan.c - check the gradient of a layer's call, lay out its scratch memory and list
 * its stages.
 *
 * The forward plan is that of the same call with its context wanted, so that scratch holds query,
 * key and value projected and rotated. With an o_proj, scratch also holds the context before it and
 * lse, so that attention's gradient starts from these and need not find them again. The output
 * projection itself is never run. */
#include "base/internal.h"
#include "layer/layer_gradient_internal.h"

#include <string.h>

void attn_linear_gradient_split(const struct attn_linear *joined, int64_t columns,
                                const struct attn_linear_gradient *gradient,
                                struct attn_linear_gradient *left,
                                struct attn_linear_gradient *right)
{
    *left = *gradient;
    *right = (struct attn_linear_gradient){ .weight = gradient->weight };
    if (right->weight != NULL)
        right->weight += joined->in_out ? columns * attn_linear_stride(joined) : columns;
}

struct attn_linear_task_counts attn_linear_task_counts(const struct attn_kernels *kernels,
                                                       const struct attn_linear *linear,
                                                       const struct attn_linear_gradient *gradient,
                                                       const float *input, int64_t row_count)
{
    struct attn_linear_task_counts counts = { 0 };
    const struct attn_linear back = attn_linear_back(linear);

    if (input != NULL)
        counts.input = attn_linear_tasks(kernels, &back, row_count);
    if (gradient->weight != NULL)
        counts.weight = attn_divide_up(linear->out, ATTN_LAYER_GRADIENT_OUTPUTS);
    if (gradient->bias != NULL)
        counts.bias = 1;
    return counts;
}

/* -------------------------------------------------------------------------- the checks -- */

static enum attn_status check_linear(const struct attn_linear *linear,
                                     const struct attn_linear_gradient *gradient, const char *name,
                                     const char **where)
{
    RETURN_IF(linear->weight != NULL && attn_block_numbers(linear->dtype) > 1, ATTN_ERR_DTYPE,
              name);
    RETURN_IF(gradient->weight != NULL && linear->weight == NULL, ATTN_ERR_NO_DATA, name);
    RETURN_IF(gradient->bias != NULL && linear->bias == NULL, ATTN_ERR_NO_DATA, name);
    return ATTN_OK;
}

static enum attn_status check_norm(const struct attn_norm *norm,
                                   const struct attn_norm_gradient *gradient, const char *name,
                                   const char **where)
{
    RETURN_IF(gradient->weight != NULL && norm->weight == NULL, ATTN_ERR_NO_DATA, name);
    RETURN_IF(gradient->bias != NULL && (norm->weight == NULL || norm->bias == NULL),
              ATTN_ERR_NO_DATA, name);
    return ATTN_OK;
}

static enum attn_status layer_gradient_check(const struct attn_layer_gradient_problem *problem,
                                             const char **where)
{
    const struct attn_layer *layer = problem->layer.layer;

    RETURN_IF(problem->context_gradient == NULL, ATTN_ERR_NO_DATA, "context_gradient");
    RETURN_IF(problem->layer.partial, ATTN_ERR_OPTION, "layer.partial");
    RETURN_IF(attn_layer_is_latent(layer), ATTN_ERR_OPTION, "layer.latent");
    RETURN_IF_FAILED(check_norm(&layer->q_norm, &problem->q_norm, "q_norm", where));
    RETURN_IF_FAILED(check_norm(&layer->k_norm, &problem->k_norm, "k_norm", where));
    RETURN_IF_FAILED(check_norm(&layer->v_norm, &problem->v_norm, "v_norm", where));
    RETURN_IF_FAILED(check_linear(&layer->q_proj, &problem->q_proj, "q_proj", where));
    RETURN_IF_FAILED(check_linear(&layer->k_proj, &problem->k_proj, "k_proj", where));
    RETURN_IF_FAILED(check_linear(&layer->v_proj, &problem->v_proj, "v_proj", where));
    RETURN_IF_FAILED(check_linear(&layer->o_proj, &problem->o_proj, "o_proj", where));
    RETURN_IF(problem->additive_weight != NULL && layer->additive_weight == NULL, ATTN_ERR_NO_DATA,
              "additive_weight");
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        RETURN_IF(problem->per_head[i] != NULL && problem->layer.per_head[i] == NULL,
                  ATTN_ERR_NO_DATA, attn_per_head_fields[i].name);
    return ATTN_OK;
}

/* ---------------------------------------------------------------------------- the plan -- */

static void add_stage(struct attn_layer_gradient_plan_full *plan,
                      enum attn_layer_gradient_stage kind, int part, int64_t task_count)
{
    if (task_count == 0)
        return;
    plan->stage_kind[plan->stage_count] = (int)kind;
    plan->stage_of_part[plan->stage_count] = part;
    plan->task_count[plan->stage_count++] = task_count;
}

static size_t reserve(struct attn_layer_gradient_plan_full *plan, size_t bytes)
{
    const size_t offset = plan->scratch_bytes;

    plan->scratch_bytes += attn_align_up(bytes);
    return offset;
}

/* The problem of gradient.h, with tensors in scratch that have no address yet. */
static struct attn_gradient_problem
gradient_problem(const struct attn_layer_gradient_plan_full *plan,
                 const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    const struct attn_layer_gradient_problem *problem = &plan->problem;
    const struct attn_layer *layer = problem->layer.layer;
    const struct attn_tensor *mask = &problem->layer.mask;
    struct attn_gradient_problem gradient = {
        .attention = plan->forward.attention.problem,
        .has_forward = attn_layer_gradient_has_forward(problem),
        .context_gradient = attn_tensor_rows((void *)problem->context_gradient, ATTN_F32, 1,
                                             layer->q_heads, problem->layer.query.shape[2],
                                             layer->v_head_dim, layer->q_heads * layer->v_head_dim),
        .query_gradient = gradients[0].view,
        .key_gradient = gradients[1].view,
        .value_gradient = gradients[2].view,
        .additive_weight_gradient = problem->additive_weight,
    };

    memcpy(gradient.per_head_gradient, problem->per_head, sizeof gradient.per_head_gradient);
    gradient.mask_gradient = attn_tensor_dense(problem->mask, ATTN_F32, mask->shape[0],
                                               mask->shape[1], mask->shape[2], mask->shape[3]);
    return gradient;
}

/* Reserve scratch for the gradients of projected operands, for those of the context before o_proj,
 * and for what norms and the clamp need of the forward pass. */
static void lay_out_scratch(struct attn_layer_gradient_plan_full *plan,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    const struct attn_linear *o_proj = &plan->problem.layer.layer->o_proj;
    const int64_t q_len = plan->problem.layer.query.shape[2];

    plan->scratch_bytes = plan->forward.scratch_bytes;
    plan->forward.keeps_lse = attn_layer_gradient_has_forward(&plan->problem);
    if (plan->forward.keeps_lse) {
        const size_t bytes = (size_t)(plan->problem.layer.layer->q_heads * q_len) * sizeof(float);
        plan->forward.lse_offset = reserve(plan, bytes);
        plan->forward.largest_offset = reserve(plan, bytes);
    }
    if (o_proj->weight != NULL)
        plan->context_offset = reserve(plan, (size_t)(q_len * o_proj->in) * sizeof(float));
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const int64_t columns = operands[i].heads * operands[i].head_dim;
        const size_t bytes = (size_t)(operands[i].input->shape[2] * columns) * sizeof(float);
        if (gradients[i].is_in_scratch)
            plan->operand_offset[i] = reserve(plan, bytes);
        if (!gradients[i].is_changed)
            continue;
        plan->forward.keeps_projected[i] = operands[i].has_prepare;
        if (operands[i].has_prepare)
            plan->forward.projected_offset[i] = reserve(plan, bytes);
        plan->norm_offset[i] = reserve(plan, attn_norm_sums_bytes(&operands[i], &gradients[i]));
    }
}

static int64_t linear_tasks(const struct attn_layer_gradient_plan_full *plan,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    const struct attn_linear *o_proj = &plan->problem.layer.layer->o_proj;
    struct attn_linear_task_counts counts =
        attn_linear_task_counts(plan->gradient.kernels, o_proj, &plan->problem.o_proj, NULL, 0);
    int64_t total = counts.weight + counts.bias;

    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        if (!gradients[i].is_projected)
            continue;
        counts = attn_linear_task_counts(plan->gradient.kernels, operands[i].linear,
                                         &gradients[i].linear, gradients[i].input,
                                         operands[i].input->shape[2]);
        total += counts.input + counts.weight + counts.bias;
    }
    return total;
}

static void list_stages(struct attn_layer_gradient_plan_full *plan,
                        const struct attn_operand operands[ATTN_OPERAND_COUNT],
                        const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    const struct attn_layer_gradient_problem *problem = &plan->problem;
    const struct attn_layer *layer = problem->layer.layer;
    const struct attn_layer_plan_full *forward = &plan->forward;
    int64_t rotate_tasks = 0;

    for (int s = 0; s < forward->stage_count; s++) {
        const enum attn_layer_stage kind = (enum attn_layer_stage)forward->stage_kind[s];
        if (kind == ATTN_LAYER_PROJECT || kind == ATTN_LAYER_PREPARE
            || ((kind == ATTN_LAYER_ATTEND || kind == ATTN_LAYER_ATTEND_PART
                 || kind == ATTN_LAYER_ATTEND_JOIN)
                && attn_layer_gradient_has_forward(problem)))
            add_stage(plan, ATTN_LAYER_GRADIENT_FORWARD, s, forward->task_count[s]);
    }
    if (layer->o_proj.weight != NULL) {
        const struct attn_linear back = attn_linear_back(&layer->o_proj);
        add_stage(plan, ATTN_LAYER_GRADIENT_CONTEXT, 0,
                  attn_linear_tasks(plan->gradient.kernels, &back, problem->layer.query.shape[2]));
    }
    for (int s = 0; s < ATTN_GRADIENT_STAGES; s++)
        add_stage(plan, ATTN_LAYER_GRADIENT_ATTEND, s, plan->gradient.task_count[s]);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        if (operands[i].is_rotated && gradients[i].is_wanted)
            rotate_tasks += attn_divide_up(operands[i].input->shape[2], ATTN_LAYER_CHUNK_ROWS);
    if (!layer->norms_follow_rope)
        add_stage(plan, ATTN_LAYER_GRADIENT_ROTATE, 0, rotate_tasks);
    add_stage(plan, ATTN_LAYER_GRADIENT_NORM, 0, attn_norm_gradient_tasks(operands, gradients));
    if (layer->norms_follow_rope)
        add_stage(plan, ATTN_LAYER_GRADIENT_ROTATE, 0, rotate_tasks);
    add_stage(plan, ATTN_LAYER_GRADIENT_NORM_SUM, 0, attn_norm_sum_tasks(operands, gradients));
    add_stage(plan, ATTN_LAYER_GRADIENT_LINEAR, 0, linear_tasks(plan, operands, gradients));
}

enum attn_status attn_layer_gradient_plan_init(struct attn_layer_gradient_plan *plan,
                                               const struct attn_layer_gradient_problem *problem,
                                               const char **where)
{
    struct attn_layer_gradient_plan_full *full = (void *)plan;
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT];
    struct attn_gradient_problem gradient;

    RETURN_IF_FAILED(layer_gradient_check(problem, where));
    RETURN_IF(problem->layer.cache != NULL, ATTN_ERR_OPTION, "layer.cache");
    RETURN_IF(problem->layer.layer->gate_proj.weight != NULL, ATTN_ERR_OPTION,
              "layer.layer.gate_proj");
    memset(full, 0, sizeof *full);
    full->problem = *problem;
    /* Wanted so that values are projected; nothing is ever written to this address or to that of
     * lse. */
    memset(full->problem.layer.out, 0, sizeof full->problem.layer.out);
    full->problem.layer.context = (float *)problem->context_gradient;
    /* Gradients are those of the formulas in float, and so are the context and lse they take. */
    full->problem.layer.options.precision = ATTN_PRECISION_HIGHEST;
    if (attn_layer_gradient_has_forward(problem))
        full->problem.layer.lse = full->problem.layer.context;
    RETURN_IF_FAILED(attn_layer_plan_init((void *)&full->forward, &full->problem.layer, where));
    attn_layer_operands(&full->problem.layer, operands);
    attn_operand_gradients(full, NULL, operands, gradients);
    lay_out_scratch(full, operands, gradients);
    gradient = gradient_problem(full, gradients);
    RETURN_IF_FAILED(attn_gradient_plan_init((void *)&full->gradient, &gradient, where));
    full->rows_offset = reserve(full, full->gradient.scratch_bytes);
    full->workspace_bytes = full->gradient.workspace_bytes;
    if (full->workspace_bytes < full->forward.workspace_bytes)
        full->workspace_bytes = full->forward.workspace_bytes;
    if (full->workspace_bytes < attn_weight_gradient_workspace_bytes())
        full->workspace_bytes = attn_weight_gradient_workspace_bytes();
    if (problem->layer.query.shape[2] == 0)
        add_stage(full, ATTN_LAYER_GRADIENT_ZERO, 0, 1);
    else
        list_stages(full, operands, gradients);
    return ATTN_OK;
}
