/* SPDX-License-Identifier: Apache-2.0 */
/* layer_plan.c - check the call of a layer, lay out its scratch memory and list its stages.
 *
 * A stage without work is left out, and so is a projection that is the identity: then attention
 * reads the caller's memory. The checks here concern the layer and the caller's tensors.
 * attn_plan_init() checks what a layer shares with attention itself (options, mask, lengths), with
 * the same field names. */
#include "base/internal.h"
#include "layer/layer_internal.h"

#include <math.h>
#include <string.h>

/* -------------------------------------------------------------------------- the checks -- */

enum attn_status attn_layer_check_output(const struct attn_layer *layer, const char **where)
{
    const struct attn_linear *o_proj = &layer->o_proj;

    if (o_proj->weight == NULL)
        return ATTN_OK;
    RETURN_IF(!attn_linear_takes(o_proj->dtype) || attn_linear_turns_blocks(o_proj), ATTN_ERR_DTYPE,
              "layer.o_proj.dtype");
    RETURN_IF(o_proj->in % attn_block_numbers(o_proj->dtype) != 0, ATTN_ERR_SHAPE,
              "layer.o_proj.in");
    RETURN_IF(o_proj->stride % attn_block_numbers(o_proj->dtype) != 0, ATTN_ERR_STRIDE,
              "layer.o_proj.stride");
    RETURN_IF(o_proj->in != layer->q_heads * layer->v_head_dim, ATTN_ERR_SHAPE, "layer.o_proj.in");
    RETURN_IF(o_proj->out < 1, ATTN_ERR_SHAPE, "layer.o_proj.out");
    RETURN_IF(o_proj->out > INT32_MAX, ATTN_ERR_TOO_LARGE, "layer.o_proj.out");
    return ATTN_OK;
}

/* The gate reads the rows that q_proj does. */
static enum attn_status check_gate(const struct attn_layer *layer, const char **where)
{
    const struct attn_linear *gate = &layer->gate_proj;

    if (gate->weight == NULL)
        return ATTN_OK;
    RETURN_IF(layer->q_proj.weight == NULL, ATTN_ERR_NO_DATA, "layer.q_proj");
    RETURN_IF(!attn_linear_takes(gate->dtype) || attn_linear_turns_blocks(gate), ATTN_ERR_DTYPE,
              "layer.gate_proj.dtype");
    RETURN_IF(gate->in != layer->q_proj.in || gate->in % attn_block_numbers(gate->dtype) != 0,
              ATTN_ERR_SHAPE, "layer.gate_proj.in");
    RETURN_IF(gate->out != layer->q_heads * layer->v_head_dim, ATTN_ERR_SHAPE,
              "layer.gate_proj.out");
    RETURN_IF(gate->stride != 0
                  && (gate->stride < (gate->in_out ? gate->out : gate->in)
                      || gate->stride % attn_block_numbers(gate->dtype) != 0),
              ATTN_ERR_STRIDE, "layer.gate_proj.stride");
    RETURN_IF(gate->stride > INT32_MAX, ATTN_ERR_TOO_LARGE, "layer.gate_proj.stride");
    return ATTN_OK;
}

static const struct attn_norm_names Q_NORM = { "layer.q_norm.eps", "layer.q_norm.scope" };
static const struct attn_norm_names K_NORM = { "layer.k_norm.eps", "layer.k_norm.scope" };
static const struct attn_norm_names V_NORM = { "layer.v_norm.eps", "layer.v_norm.scope" };

static enum attn_status check_layer(const struct attn_layer *layer, const char **where)
{
    int64_t columns;

    RETURN_IF(layer->q_heads < 1, ATTN_ERR_SHAPE, "layer.q_heads");
    RETURN_IF(layer->kv_heads < 1, ATTN_ERR_SHAPE, "layer.kv_heads");
    RETURN_IF(layer->q_heads % layer->kv_heads != 0, ATTN_ERR_HEADS, "layer.q_heads");
    RETURN_IF(layer->head_dim < 1, ATTN_ERR_SHAPE, "layer.head_dim");
    RETURN_IF(layer->v_head_dim < 1, ATTN_ERR_SHAPE, "layer.v_head_dim");
    RETURN_IF(__builtin_mul_overflow(layer->q_heads, layer->head_dim, &columns)
                  || columns > INT32_MAX,
              ATTN_ERR_TOO_LARGE, "layer.head_dim");
    RETURN_IF(__builtin_mul_overflow(layer->q_heads, layer->v_head_dim, &columns)
                  || columns > INT32_MAX,
              ATTN_ERR_TOO_LARGE, "layer.v_head_dim");
    RETURN_IF_FAILED(check_gate(layer, where));
    RETURN_IF_FAILED(attn_layer_check_output(layer, where));
    RETURN_IF(!(layer->projected_max >= 0 && isfinite(layer->projected_max)), ATTN_ERR_OPTION,
              "layer.projected_max");
    RETURN_IF(layer->norms_follow_rope && layer->projected_max > 0, ATTN_ERR_OPTION,
              "layer.norms_follow_rope");
    RETURN_IF_FAILED(attn_norm_check(&layer->q_norm, &Q_NORM, where));
    RETURN_IF_FAILED(attn_norm_check(&layer->k_norm, &K_NORM, where));
    RETURN_IF_FAILED(attn_norm_check(&layer->v_norm, &V_NORM, where));
    return attn_rope_check(&layer->rope, layer->head_dim - layer->latent.rank, where);
}

static enum attn_status check_projected(const struct attn_operand *operand, const char **where)
{
    const struct attn_tensor *input = operand->input;
    const struct attn_linear *linear = operand->linear;

    RETURN_IF(!attn_linear_takes(linear->dtype) || attn_linear_turns_blocks(linear), ATTN_ERR_DTYPE,
              operand->linear_name);
    RETURN_IF(linear->in % attn_block_numbers(linear->dtype) != 0, ATTN_ERR_SHAPE,
              operand->linear_name);
    RETURN_IF(linear->stride % attn_block_numbers(linear->dtype) != 0, ATTN_ERR_STRIDE,
              operand->linear_name);
    RETURN_IF(linear->out != operand->heads * operand->head_dim, ATTN_ERR_SHAPE,
              operand->linear_name);
    RETURN_IF(linear->in < 1, ATTN_ERR_SHAPE, operand->linear_name);
    RETURN_IF(linear->in > INT32_MAX, ATTN_ERR_TOO_LARGE, operand->linear_name);
    RETURN_IF(linear->stride != 0 && linear->stride < (linear->in_out ? linear->out : linear->in),
              ATTN_ERR_STRIDE, operand->linear_name);
    RETURN_IF(linear->stride > INT32_MAX, ATTN_ERR_TOO_LARGE, operand->linear_name);
    RETURN_IF(input->shape[1] != 1, ATTN_ERR_SHAPE, operand->names->shape[1]);
    RETURN_IF(input->shape[3] != linear->in, ATTN_ERR_SHAPE, operand->names->shape[3]);
    RETURN_IF(input->shape[2] > 1 && input->stride[2] != linear->in, ATTN_ERR_STRIDE,
              operand->names->stride[2]);
    return ATTN_OK;
}

/* Not projected: rows of all heads, or already split into heads. */
static enum attn_status check_identity(const struct attn_operand *operand, const char **where)
{
    const struct attn_tensor *input = operand->input;
    const bool is_cut = input->shape[1] == operand->heads && operand->heads > 1;
    const int64_t columns = is_cut ? operand->head_dim : operand->heads * operand->head_dim;

    RETURN_IF(!is_cut && input->shape[1] != 1, ATTN_ERR_SHAPE, operand->names->shape[1]);
    RETURN_IF(input->shape[3] != columns, ATTN_ERR_SHAPE, operand->names->shape[3]);
    return ATTN_OK;
}

static enum attn_status check_operand(const struct attn_operand *operand, const char **where)
{
    const struct attn_tensor *input = operand->input;
    const int64_t columns = operand->heads * operand->head_dim;
    const bool is_changed =
        operand->linear->weight != NULL || operand->norm != NULL || operand->is_rotated;
    int64_t bytes;

    if (operand->is_of_key)
        return ATTN_OK;
    RETURN_IF_FAILED(attn_check_input(input, operand->names, where));
    RETURN_IF(is_changed && input->dtype != ATTN_F32, ATTN_ERR_DTYPE, operand->names->dtype);
    RETURN_IF(input->shape[0] != 1, ATTN_ERR_SHAPE, operand->names->shape[0]);
    RETURN_IF(__builtin_mul_overflow(input->shape[2], columns * ATTN_ROW_PARTS_BYTES, &bytes),
              ATTN_ERR_TOO_LARGE, operand->names->shape[2]);
    return operand->linear->weight != NULL ? check_projected(operand, where)
                                           : check_identity(operand, where);
}

/* Check that the size of the context in bytes does not overflow, before and after the output
 * projection, which is computed in float. */
static enum attn_status check_context(const struct attn_layer_problem *problem, const char **where)
{
    const struct attn_layer *layer = problem->layer;
    const int64_t columns = attn_max(attn_layer_d_out(layer), layer->q_heads * layer->v_head_dim);
    int64_t bytes;

    RETURN_IF(
        __builtin_mul_overflow(problem->query.shape[2], columns * ATTN_ROW_PARTS_BYTES, &bytes),
        ATTN_ERR_TOO_LARGE, "query.shape[2]");
    RETURN_IF(!attn_is_number(problem->output_dtype), ATTN_ERR_DTYPE, "output_dtype");
    RETURN_IF((attn_layer_has_output(problem) || attn_layer_has_gate(problem))
                  && problem->output_dtype != ATTN_F32,
              ATTN_ERR_DTYPE, "output_dtype");
    return ATTN_OK;
}

/* ---------------------------------------------------------------------------- the plan -- */

/* The operand as attention sees it. An operand that will be prepared keeps the caller's address
 * until a task binds it to scratch; a value that nothing needs keeps it and is not read. */
static struct attn_tensor attention_view(const struct attn_operand *operand,
                                         const struct attn_operand *key)
{
    const struct attn_operand *from = operand->is_of_key ? key : operand;
    const int64_t columns = from->heads * from->head_dim;

    if (operand->linear->weight == NULL && !operand->is_prepared)
        return attn_operand_caller_view(operand);
    return attn_tensor_rows(operand->input->data, ATTN_F32, 1, operand->heads,
                            operand->input->shape[2], operand->head_dim, columns);
}

static enum attn_dtype output_dtype(const struct attn_layer_problem *problem,
                                    enum attn_output output)
{
    const bool is_short = attn_dtype_size(problem->output_dtype) < attn_dtype_size(ATTN_F32);
    return output == ATTN_OUTPUT_LSE && is_short ? ATTN_F32 : problem->output_dtype;
}

/* Every output is dense. The context of a call that is not partial has the heads of a row side by
 * side, as an output projection reads them. */
static void bind_outputs(const struct attn_layer_problem *problem, struct attn_problem *attention)
{
    const struct attn_layer *layer = problem->layer;
    const int64_t q_len = problem->query.shape[2];

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        attention->out[i] =
            attn_tensor_dense(problem->out[i], output_dtype(problem, i), 1, layer->q_heads, q_len,
                              attn_output_columns(attention, i));
    if (!problem->partial || attn_layer_is_latent(layer))
        attention->context =
            attn_tensor_rows(problem->context, problem->output_dtype, 1, layer->q_heads, q_len,
                             attention->value.shape[3], layer->q_heads * attention->value.shape[3]);
}

static struct attn_problem attention_problem(const struct attn_layer_problem *problem,
                                             const struct attn_operand operands[ATTN_OPERAND_COUNT])
{
    struct attn_problem attention = {
        .options = problem->options,
        .query = attention_view(&operands[0], &operands[1]),
        .key = attention_view(&operands[1], &operands[1]),
        .value = attention_view(&operands[2], &operands[1]),
        .additive_weight = problem->layer->additive_weight,
        .masking = problem->masking,
        .kernels = problem->kernels,
    };

    if (attn_layer_is_latent(problem->layer))
        attention.query = attn_tensor_rows(
            problem->query.data, ATTN_F32, 1, problem->layer->q_heads, problem->query.shape[2],
            problem->layer->head_dim, problem->layer->q_heads * problem->layer->head_dim);
    if (problem->cache != NULL) {
        attention.key = problem->cache->key;
        attention.value = problem->cache->value;
        if (attention.value.shape[3] == 0) { /* of a latent layer, as the checks say */
            attention.value = attention.key;
            attention.value.shape[3] = problem->layer->latent.rank;
        }
    }
    bind_outputs(problem, &attention);
    return attention;
}

static void add_stage(struct attn_layer_plan_full *plan, enum attn_layer_stage kind,
                      int64_t task_count)
{
    if (task_count == 0)
        return;
    plan->stage_kind[plan->stage_count] = (int)kind;
    plan->task_count[plan->stage_count++] = task_count;
}

/* Where a selection reads all keys, attention is as without it. */
static bool reads_some(const struct attn_layer_plan_full *plan)
{
    const struct attn_selection *selection = plan->problem.selection;

    return selection != NULL
           && !attn_select_reads_all(selection, attn_plan_given(&plan->attention));
}

static enum attn_status check_selection(const struct attn_layer_plan_full *plan, const char **where)
{
    struct attn_plan_full attention = plan->attention;

    RETURN_IF(plan->problem.weight_map != NULL, ATTN_ERR_OPTION, "weights");
    attention.problem.past_len = &plan->problem.past_len;
    return attn_select_check(plan->problem.selection, attn_plan_given(&attention), where);
}

static void add_selection(struct attn_layer_plan_full *plan)
{
    const struct attn_selection *selection = plan->problem.selection;
    const struct attn_plan *attention = attn_plan_given(&plan->attention);

    add_stage(plan, ATTN_LAYER_BOUND, plan->attention.problem.key.shape[1]);
    add_stage(plan, ATTN_LAYER_ATTEND_SOME, attn_select_tasks(attention));
    plan->shared_offset = plan->scratch_bytes;
    plan->scratch_bytes += attn_select_shared_bytes(selection, attention);
    plan->workspace_bytes = attn_select_workspace_bytes(selection, attention);
}

/* A reduced map runs whole tasks of the plan, which then read what parts of the matrix unit have
 * left, but not what those of few rows have. */
static void add_attention(struct attn_layer_plan_full *plan)
{
    const struct attn_plan_full *attention = &plan->attention;
    const struct attn_weight_map *map = plan->problem.weight_map;
    const bool has_parts = attention->part_count > 0 && (map == NULL || attention->is_matrix);

    if (reads_some(plan)) {
        add_selection(plan);
        return;
    }
    if (has_parts) {
        add_stage(plan, ATTN_LAYER_ATTEND_PART, attention->part_count);
        plan->shared_offset = plan->scratch_bytes;
        plan->scratch_bytes += attn_align_up(attention->shared_bytes);
    }
    if (map == NULL) {
        add_stage(plan, has_parts ? ATTN_LAYER_ATTEND_JOIN : ATTN_LAYER_ATTEND,
                  has_parts ? attention->join_count : attention->task_count);
        plan->workspace_bytes =
            has_parts ? attention->part_workspace_bytes : attention->workspace_bytes;
    } else {
        add_stage(plan, ATTN_LAYER_ATTEND, attn_weight_map_tasks(map, attn_plan_given(attention)));
        add_stage(plan, ATTN_LAYER_SELECT,
                  attn_weight_map_select_tasks(map, attn_plan_given(attention)));
        plan->workspace_bytes = attn_weight_map_workspace_bytes(map, attn_plan_given(attention));
    }
}

/* A stage of a latent layer, where the call has it. */
static void add_latent(struct attn_layer_plan_full *plan, enum attn_layer_stage kind)
{
    if (attn_layer_is_latent(plan->problem.layer))
        add_stage(plan, kind, attn_latent_tasks(plan, kind));
}

static void lay_out(struct attn_layer_plan_full *plan,
                    const struct attn_operand operands[ATTN_OPERAND_COUNT])
{
    const struct attn_layer_problem *problem = &plan->problem;
    const struct attn_layer *layer = problem->layer;
    const int64_t q_len = problem->query.shape[2];
    size_t *const offsets[ATTN_OPERAND_COUNT] = { &plan->q_offset, &plan->k_offset,
                                                  &plan->v_offset };
    const struct attn_layer_call call = { attn_layer_plan_given(plan), NULL };
    int64_t chunks = 0;

    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const int64_t length = operands[i].input->shape[2];
        if (operands[i].is_of_key)
            *offsets[i] = plan->k_offset;
        if (!operands[i].is_prepared || operands[i].is_of_key)
            continue;
        *offsets[i] = attn_layer_reserve(plan, length, operands[i].heads * operands[i].head_dim);
        if (operands[i].has_prepare)
            chunks += attn_divide_up(length, ATTN_LAYER_CHUNK_ROWS);
    }
    if (attn_layer_has_gate(problem))
        plan->gate_offset = attn_layer_reserve(plan, q_len, layer->gate_proj.out);
    add_stage(plan, ATTN_LAYER_PROJECT, attn_layer_product_tasks(&call, 1, ATTN_PRODUCT_INPUTS));
    add_stage(plan, ATTN_LAYER_PREPARE, chunks);
    if (attn_layer_is_latent(layer))
        attn_latent_lay_out(plan);
    add_latent(plan, ATTN_LAYER_LATENT_UP);
    add_latent(plan, ATTN_LAYER_LATENT_QUERY);
    add_stage(plan, ATTN_LAYER_APPEND, attn_layer_append_tasks(problem));
    add_attention(plan);
    if (problem->given != NULL)
        add_stage(plan, ATTN_LAYER_GIVEN,
                  layer->q_heads * attn_divide_up(q_len, ATTN_LAYER_GIVEN_ROWS));
    add_latent(plan, ATTN_LAYER_LATENT_VALUE);
    if (attn_layer_has_gate(problem))
        add_stage(plan, ATTN_LAYER_GATE, attn_divide_up(q_len, ATTN_LAYER_CHUNK_ROWS));
    if (attn_layer_has_output(problem)) {
        plan->context_offset = attn_layer_reserve(plan, q_len, layer->o_proj.in);
        add_stage(plan, ATTN_LAYER_OUTPUT, attn_layer_product_tasks(&call, 1, ATTN_PRODUCT_OUTPUT));
    }
    for (int stage = 0; stage < plan->stage_count; stage++)
        if ((attn_layer_product(attn_layer_plan_given(plan), stage) != ATTN_PRODUCT_NONE
             || attn_layer_is_latent(layer))
            && plan->workspace_bytes < attn_layer_product_workspace_bytes())
            plan->workspace_bytes = attn_layer_product_workspace_bytes();
}

static bool is_asked(const struct attn_layer_problem *problem)
{
    bool is_wanted = problem->weight_map != NULL;

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        is_wanted = is_wanted || problem->out[i] != NULL;
    return is_wanted;
}

enum attn_status attn_layer_plan_init(struct attn_layer_plan *plan,
                                      const struct attn_layer_problem *problem, const char **where)
{
    struct attn_layer_plan_full *full = (void *)plan;
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_problem attention;

    RETURN_IF_FAILED(check_layer(problem->layer, where));
    RETURN_IF_FAILED(attn_latent_check(problem, where));
    attn_layer_operands(problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        RETURN_IF_FAILED(check_operand(&operands[i], where));
    RETURN_IF_FAILED(check_context(problem, where));
    RETURN_IF_FAILED(attn_layer_check_cache(problem, where));
    memset(full, 0, sizeof *full);
    full->problem = *problem;
    attention = attention_problem(problem, operands);
    RETURN_IF_FAILED(attn_plan_make(&full->attention, &attention, where));
    if (problem->weight_map != NULL)
        RETURN_IF_FAILED(
            attn_weight_map_check(problem->weight_map, attn_plan_given(&full->attention), where));
    if (problem->selection != NULL)
        RETURN_IF_FAILED(check_selection(full, where));
    RETURN_IF(problem->given != NULL && problem->selection != NULL, ATTN_ERR_OPTION, "given");
    RETURN_IF(problem->given != NULL && full->attention.in_double, ATTN_ERR_DTYPE, "given");
    if ((is_asked(problem) && problem->query.shape[2] > 0) || attn_layer_append_tasks(problem) > 0)
        lay_out(full, operands);
    return ATTN_OK;
}
