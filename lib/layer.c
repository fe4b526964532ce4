/* layer.c - the tasks of an attention layer.
 *
 *     PROJECT  chunks of rows of query, key and value: product, bias, clamp, norm, rotary embedding
 * -> scratch ATTEND   the tasks of one struct attn_plan, or those of a smaller weight map around
 * them; where query rows are few and keys are many the parts of the tasks, and then their joins
 * SELECT what such a map leaves to be done OUTPUT   chunks of rows of the context: product and bias
 *
 * This file and layer_gradient.c are the only ones that know OpenBLAS. */
#include "layer.h"

#include "internal.h"
#include "layer_internal.h"

#include <cblas.h>
#include <string.h>

static float *scratch_at(void *scratch, size_t offset)
{
    return (float *)(void *)((char *)scratch + offset);
}

/* y = x . weight^T + bias for row_count dense rows. */
static void apply_linear(const struct attn_linear *linear, const float *x, float *y,
                         int64_t row_count)
{
    const blasint rows = (blasint)row_count;
    const blasint out = (blasint)linear->out;
    const blasint in = (blasint)linear->in;
    const blasint dense = linear->in_out ? out : in;
    const blasint stride = linear->stride > 0 ? (blasint)linear->stride : dense;

    for (int64_t i = 0; linear->bias != NULL && i < row_count; i++)
        memcpy(y + i * linear->out, linear->bias, (size_t)linear->out * sizeof(float));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, linear->in_out ? CblasNoTrans : CblasTrans, rows, out,
                in, 1.0f, x, in, linear->weight, stride, linear->bias != NULL ? 1.0f : 0.0f, y,
                out);
}

/* row_count rows from first on, wherever their heads lie, to dense rows of heads * head_dim. */
static void copy_rows(const struct attn_operand *operand, float *y, int64_t first,
                      int64_t row_count)
{
    const struct attn_tensor view = attn_operand_caller_view(operand);

    for (int64_t i = 0; i < row_count; i++)
        for (int64_t h = 0; h < operand->heads; h++)
            memcpy(y + (i * operand->heads + h) * operand->head_dim,
                   attn_tensor_row(&view, 0, h, first + i),
                   (size_t)operand->head_dim * sizeof(float));
}

static void project_chunk(const struct attn_layer_problem *problem,
                          const struct attn_operand *operand, float *prepared, int64_t chunk)
{
    const int64_t columns = operand->heads * operand->head_dim;
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t row_count = attn_min(ATTN_LAYER_CHUNK_ROWS, operand->input->shape[2] - first);
    const float *x = operand->input->data;
    float *y = prepared + first * columns;

    if (operand->linear->weight != NULL)
        apply_linear(operand->linear, x + first * operand->linear->in, y, row_count);
    else
        copy_rows(operand, y, first, row_count);
    if (operand->linear->weight != NULL)
        attn_clamp(y, row_count * columns, problem->layer->projected_max);
    if (operand->norm != NULL)
        attn_norm_rows(operand->norm, y, row_count, operand->heads, operand->head_dim);
    if (operand->is_turned)
        attn_operand_turn(problem, operand, first,
                          &(struct attn_rope_rows){ .data = y,
                                                    .row_stride = columns,
                                                    .row_count = row_count,
                                                    .heads = operand->heads });
}

/* Task numbers run through the chunks of query, then of key, then of value. */
static void run_project(const struct attn_layer_plan *plan, int64_t task, void *scratch)
{
    const size_t offsets[ATTN_OPERAND_COUNT] = { plan->q_offset, plan->k_offset, plan->v_offset };
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        if (!operands[i].is_prepared)
            continue;
        const int64_t chunks = attn_divide_up(operands[i].input->shape[2], ATTN_LAYER_CHUNK_ROWS);
        if (task < chunks) {
            project_chunk(&plan->problem, &operands[i], scratch_at(scratch, offsets[i]), task);
            return;
        }
        task -= chunks;
    }
}

static void run_attend(const struct attn_layer_plan *plan, enum attn_layer_stage kind, int64_t task,
                       void *scratch, void *workspace)
{
    struct attn_plan attention = plan->attention;
    struct attn_problem *problem = &attention.problem;
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem, operands);
    if (operands[0].is_prepared)
        problem->query.data = scratch_at(scratch, plan->q_offset);
    if (operands[1].is_prepared)
        problem->key.data = scratch_at(scratch, plan->k_offset);
    if (operands[2].is_prepared)
        problem->value.data = scratch_at(scratch, plan->v_offset);
    if (attn_layer_has_output(&plan->problem))
        problem->context.data = scratch_at(scratch, plan->context_offset);
    problem->past_len = &plan->problem.past_len;
    if (kind == ATTN_LAYER_ATTEND_PART)
        attn_plan_run_part(&attention, task, scratch_at(scratch, plan->shared_offset), workspace);
    else if (kind == ATTN_LAYER_ATTEND_JOIN)
        attn_plan_run_join(&attention, task, scratch_at(scratch, plan->shared_offset), workspace);
    else if (plan->problem.weight_map != NULL)
        attn_weight_map_run(plan->problem.weight_map, &attention, task, workspace);
    else
        attn_plan_run(&attention, task, workspace);
}

static void run_output(const struct attn_layer_plan *plan, int64_t chunk, void *scratch)
{
    const struct attn_linear *o_proj = &plan->problem.layer->o_proj;
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t row_count = attn_min(ATTN_LAYER_CHUNK_ROWS, plan->problem.query.shape[2] - first);

    apply_linear(o_proj, scratch_at(scratch, plan->context_offset) + first * o_proj->in,
                 (float *)plan->problem.context + first * o_proj->out, row_count);
}

void attn_layer_run(const struct attn_layer_plan *plan, int stage, int64_t task, void *scratch,
                    void *workspace)
{
    const enum attn_layer_stage kind = (enum attn_layer_stage)plan->stage_kind[stage];

    switch (kind) {
    case ATTN_LAYER_PROJECT:
        run_project(plan, task, scratch);
        break;
    case ATTN_LAYER_ATTEND:
    case ATTN_LAYER_ATTEND_PART:
    case ATTN_LAYER_ATTEND_JOIN:
        run_attend(plan, kind, task, scratch, workspace);
        break;
    case ATTN_LAYER_MERGE:
        attn_layer_run_merge(plan, task, scratch, workspace);
        break;
    case ATTN_LAYER_SELECT:
        attn_weight_map_select(plan->problem.weight_map, &plan->attention, task);
        break;
    case ATTN_LAYER_OUTPUT:
        run_output(plan, task, scratch);
        break;
    }
}
