/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c - the tasks of an attention layer.
 *
 *     PROJECT  blocks of rows and outputs of query, key, value, gate: product, bias, clamp ->
 *              scratch
 *     PREPARE  chunks of rows of query, key and value: norm, rotary embedding, in scratch
 *     LATENT_UP, LATENT_QUERY, LATENT_VALUE  of a latent layer alone, in layer_latent.c
 *     APPEND   chunks of rows of key and value, into the cache
 *     ATTEND   the tasks of one plan of attention, or the tasks of a reduced weight map around
 *              them; for few query rows and many keys first the parts of the tasks, then their
 *              joins
 *     SELECT   the tasks that such a map leaves for after ATTEND
 *     GATE     chunks of rows of the context: times the gates
 *     OUTPUT   blocks of rows and outputs of the context:
 * product and bias
 *
 * layer_project.c has the products. layer_merge.c has the stage that replaces ATTEND when partial
 * answers are merged; layer_cache.c has APPEND. */
#include "layer.h"

#include "base/internal.h"
#include "layer/layer_internal.h"

#include "kernels/kernels.h"

#include <string.h>

/* Copy row_count rows from first on, with any strides of heads, to dense rows of heads *
 * head_dim. */
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

static void rotate_rows(const struct attn_layer_problem *problem,
                        const struct attn_operand *operand, float *y, int64_t first,
                        int64_t row_count)
{
    if (operand->is_rotated)
        attn_operand_rotate(
            problem, operand, first,
            &(struct attn_rope_rows){ .data = y,
                                      .row_stride = operand->heads * operand->head_dim,
                                      .row_count = row_count,
                                      .heads = operand->heads });
}

/* Prepare rows of an operand; rows that are not projected come from the caller. projected is NULL,
 * or the place for a copy of the rows from before the norm. */
static void prepare_chunk(const struct attn_layer_problem *problem,
                          const struct attn_operand *operand, float *prepared, float *projected,
                          int64_t chunk)
{
    const int64_t columns = operand->heads * operand->head_dim;
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t row_count = attn_min(ATTN_LAYER_CHUNK_ROWS, operand->input->shape[2] - first);
    float *y = prepared + first * columns;

    if (operand->linear->weight == NULL)
        copy_rows(operand, y, first, row_count);
    if (problem->layer->norms_follow_rope)
        rotate_rows(problem, operand, y, first, row_count);
    if (projected != NULL)
        memcpy(projected + first * columns, y, (size_t)(row_count * columns) * sizeof(float));
    if (operand->norm != NULL && operand->normed_columns > 0)
        attn_rows_norm(operand->norm, y, columns, y, columns, row_count, operand->normed_columns);
    else if (operand->norm != NULL)
        attn_norm_rows(operand->norm, y, row_count, operand->heads, operand->head_dim);
    if (!problem->layer->norms_follow_rope)
        rotate_rows(problem, operand, y + operand->normed_columns, first, row_count);
}

/* Tasks are numbered through the chunks of query, then those of key. */
static void run_prepare(const struct attn_layer_plan_full *plan, int64_t task, void *scratch)
{
    const size_t offsets[ATTN_OPERAND_COUNT] = { plan->q_offset, plan->k_offset, plan->v_offset };
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        if (!operands[i].has_prepare)
            continue;
        const int64_t chunks = attn_divide_up(operands[i].input->shape[2], ATTN_LAYER_CHUNK_ROWS);
        const bool is_kept = plan->keeps_projected[i];
        if (task < chunks) {
            prepare_chunk(&plan->problem, &operands[i], attn_scratch_at(scratch, offsets[i]),
                          is_kept ? attn_scratch_at(scratch, plan->projected_offset[i]) : NULL,
                          task);
            return;
        }
        task -= chunks;
    }
}

void attn_layer_bind_attention(const struct attn_layer_plan_full *plan, void *scratch,
                               struct attn_plan_full *attention)
{
    struct attn_problem *problem = &attention->problem;
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    *attention = plan->attention;
    attn_layer_operands(&plan->problem, operands);
    if (attn_layer_is_latent(plan->problem.layer))
        problem->query = attn_latent_query(plan, scratch);
    else if (operands[0].is_prepared)
        problem->query.data = attn_scratch_at(scratch, plan->q_offset);
    if (operands[1].is_prepared && plan->problem.cache == NULL)
        problem->key.data = attn_scratch_at(scratch, plan->k_offset);
    if (operands[2].is_prepared && plan->problem.cache == NULL)
        problem->value.data = attn_scratch_at(scratch, plan->v_offset);
    if (attn_layer_is_latent(plan->problem.layer))
        problem->context = attn_latent_sum(plan, scratch);
    else if (attn_layer_has_output(&plan->problem))
        problem->context.data = attn_scratch_at(scratch, plan->context_offset);
    if (plan->keeps_lse) {
        problem->lse.data = attn_scratch_at(scratch, plan->lse_offset);
        attention->largest_weights = attn_scratch_at(scratch, plan->largest_offset);
    }
    if (attention->is_matrix && attention->part_count > 0)
        attention->packed = attn_scratch_at(scratch, plan->shared_offset);
    problem->past_len = &plan->problem.past_len;
}

struct attn_problem attn_layer_attention(const struct attn_layer_plan *plan, void *scratch)
{
    struct attn_plan_full attention;

    attn_layer_bind_attention(attn_layer_plan_full(plan), scratch, &attention);
    if (attn_layer_is_latent(plan->problem.layer))
        attention.problem.context = attn_latent_context(attn_layer_plan_full(plan), scratch);
    attention.problem.past_len = &plan->problem.past_len;
    return attention.problem;
}

int attn_layer_output_stage(const struct attn_layer_plan *plan)
{
    int stage = plan->stage_count;

    while (stage > 0 && attn_layer_product(plan, stage - 1) == ATTN_PRODUCT_OUTPUT)
        stage--;
    return stage;
}

/* Rows of one head. */
static void run_given(const struct attn_layer_plan_full *plan, int64_t task, void *scratch)
{
    const int64_t q_len = plan->problem.query.shape[2];
    const int64_t chunks = attn_divide_up(q_len, ATTN_LAYER_GIVEN_ROWS);
    const int64_t first = task % chunks * ATTN_LAYER_GIVEN_ROWS;
    struct attn_plan_full attention;

    attn_layer_bind_attention(plan, scratch, &attention);
    attn_given_run(&attention.problem, plan->problem.given, task / chunks, first,
                   attn_min(q_len - first, ATTN_LAYER_GIVEN_ROWS));
}

/* Gates become their sigmoids, in scratch. */
static void run_gate(const struct attn_layer_plan_full *plan, int64_t task, void *scratch)
{
    const struct attn_layer *layer = plan->problem.layer;
    const struct attn_kernels *kernels = plan->attention.kernels;
    const int64_t first = task * ATTN_LAYER_CHUNK_ROWS, columns = layer->gate_proj.out;
    const int64_t end = attn_min(plan->problem.query.shape[2], first + ATTN_LAYER_CHUNK_ROWS);
    struct attn_plan_full attention;

    attn_layer_bind_attention(plan, scratch, &attention);
    for (int64_t i = first; i < end; i++) {
        float *gates = attn_scratch_at(scratch, plan->gate_offset) + i * columns;
        kernels->sigmoid(gates, columns);
        for (int64_t h = 0; h < layer->q_heads; h++)
            kernels->multiply_row(attn_tensor_row(&attention.problem.context, 0, h, i),
                                  gates + h * layer->v_head_dim, layer->v_head_dim);
    }
}

static void run_attend(const struct attn_layer_plan_full *plan, enum attn_layer_stage kind,
                       int64_t task, void *scratch, void *workspace)
{
    struct attn_plan_full bound;
    const struct attn_plan *attention = attn_plan_given(&bound);

    attn_layer_bind_attention(plan, scratch, &bound);
    if (kind == ATTN_LAYER_ATTEND_PART)
        attn_plan_run_part(attention, task, attn_scratch_at(scratch, plan->shared_offset),
                           workspace);
    else if (kind == ATTN_LAYER_ATTEND_JOIN)
        attn_plan_run_join(attention, task, attn_scratch_at(scratch, plan->shared_offset),
                           workspace);
    else if (kind == ATTN_LAYER_BOUND)
        attn_select_bound(plan->problem.selection, attention, task,
                          attn_scratch_at(scratch, plan->shared_offset));
    else if (kind == ATTN_LAYER_ATTEND_SOME)
        attn_select_run(plan->problem.selection, attention, task,
                        attn_scratch_at(scratch, plan->shared_offset), workspace);
    else if (plan->problem.weight_map != NULL)
        attn_weight_map_run(plan->problem.weight_map, attention, task, workspace);
    else
        attn_plan_run(attention, task, workspace);
}

void attn_layer_run(const struct attn_layer_plan *plan, int stage, int64_t task, void *scratch,
                    void *workspace)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const enum attn_layer_stage kind = (enum attn_layer_stage)full->stage_kind[stage];

    switch (kind) {
    case ATTN_LAYER_PROJECT:
    case ATTN_LAYER_OUTPUT:
        attn_layer_product_run(&(struct attn_layer_call){ plan, scratch }, 1,
                               attn_layer_product(plan, stage), task, workspace);
        break;
    case ATTN_LAYER_PREPARE:
        run_prepare(full, task, scratch);
        break;
    case ATTN_LAYER_LATENT_UP:
    case ATTN_LAYER_LATENT_QUERY:
    case ATTN_LAYER_LATENT_VALUE:
        attn_latent_run(full, kind, task, scratch, workspace);
        break;
    case ATTN_LAYER_APPEND:
        attn_layer_run_append(full, task, scratch);
        break;
    case ATTN_LAYER_ATTEND:
    case ATTN_LAYER_ATTEND_PART:
    case ATTN_LAYER_ATTEND_JOIN:
    case ATTN_LAYER_BOUND:
    case ATTN_LAYER_ATTEND_SOME:
        run_attend(full, kind, task, scratch, workspace);
        break;
    case ATTN_LAYER_GIVEN:
        run_given(full, task, scratch);
        break;
    case ATTN_LAYER_GATE:
        run_gate(full, task, scratch);
        break;
    case ATTN_LAYER_MERGE:
        attn_layer_run_merge(full, task, scratch, workspace);
        break;
    case ATTN_LAYER_SELECT:
        attn_weight_map_select(full->problem.weight_map, attn_plan_given(&full->attention), task);
        break;
    }
}
