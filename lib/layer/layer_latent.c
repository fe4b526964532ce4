/* SPDX-License-Identifier: Apache-2.0 */
/* layer_latent.c - the stages that a latent layer has besides (layer.h, struct attn_latent).
 *
 *     LATENT_UP     q_proj of the normed rows that q_down left; none without q_down
 *     LATENT_QUERY  for each head the product of its columns without a position and k_up; then
 *                   chunks of rows: the other columns of all heads are copied and rotated
 *     LATENT_VALUE  for each head the product of its sums of rows and v_up
 *
 * Attention between the last two reads rows for keys and for values, and each head has a query of
 * its own. */
#include "base/internal.h"
#include "layer/layer_internal.h"

#include <string.h>

/* Columns of a head of q_proj: first those without a position, then those that are rotated. */
struct head_columns {
    int64_t plain, rotated, all;
};

static struct head_columns head_columns(const struct attn_layer *layer)
{
    const int64_t plain = layer->latent.k_up.in, rotated = layer->head_dim - layer->latent.rank;

    return (struct head_columns){ plain, rotated, plain + rotated };
}

/* ------------------------------------------------------------------------ the checks -- */

static enum attn_status check_linear(const struct attn_linear *linear, int64_t in, int64_t out,
                                     const char *name, const char **where)
{
    const struct attn_product product = {
        .linear = linear, .x_stride = in, .y_stride = out, .kernels = attn_kernels_available()[0]
    };

    RETURN_IF(linear->weight == NULL, ATTN_ERR_NO_DATA, name);
    RETURN_IF(linear->in != in || linear->out != out, ATTN_ERR_SHAPE, name);
    RETURN_IF(attn_product_check(&product, NULL) != ATTN_OK, ATTN_ERR_SHAPE, name);
    return ATTN_OK;
}

static enum attn_status check_step(const struct attn_linear *linear, int64_t step, int64_t heads,
                                   const char *name, const char **where)
{
    int64_t all;

    RETURN_IF(linear->bias != NULL || linear->stride != 0, ATTN_ERR_OPTION, name);
    RETURN_IF(step < 0 || step % attn_block_numbers(linear->dtype) != 0
                  || __builtin_mul_overflow(heads, step, &all),
              ATTN_ERR_STRIDE, name);
    return ATTN_OK;
}

static enum attn_status check_ups(const struct attn_layer *layer, const char **where)
{
    const struct attn_latent *latent = &layer->latent;
    const struct attn_linear *first = attn_layer_first(layer);
    const struct head_columns columns = head_columns(layer);
    int64_t all;

    RETURN_IF(latent->k_up.in < 1 || columns.rotated != layer->rope.dim, ATTN_ERR_SHAPE,
              "layer.latent.k_up");
    RETURN_IF(__builtin_mul_overflow(layer->q_heads, columns.all, &all) || all > INT32_MAX,
              ATTN_ERR_TOO_LARGE, "layer.q_proj");
    RETURN_IF_FAILED(check_linear(&layer->q_proj, first == &layer->q_proj ? first->in : first->out,
                                  all, "layer.q_proj", where));
    RETURN_IF_FAILED(check_step(&latent->k_up, latent->k_up_step, layer->q_heads,
                                "layer.latent.k_up_step", where));
    RETURN_IF_FAILED(check_step(&latent->v_up, latent->v_up_step, layer->q_heads,
                                "layer.latent.v_up_step", where));
    RETURN_IF_FAILED(
        check_linear(&latent->k_up, columns.plain, latent->rank, "layer.latent.k_up", where));
    return check_linear(&latent->v_up, latent->rank, layer->v_head_dim, "layer.latent.v_up", where);
}

enum attn_status attn_latent_check(const struct attn_layer_problem *problem, const char **where)
{
    static const struct attn_norm_names Q_NORM = { "layer.latent.q_norm.eps",
                                                   "layer.latent.q_norm.scope" };
    const struct attn_layer *layer = problem->layer;
    const struct attn_latent *latent = &layer->latent;
    int64_t bytes;

    if (!attn_layer_is_latent(layer))
        return ATTN_OK;
    RETURN_IF(__builtin_mul_overflow(problem->query.shape[2],
                                     layer->q_heads * layer->head_dim * ATTN_ROW_PARTS_BYTES,
                                     &bytes),
              ATTN_ERR_TOO_LARGE, "query.shape[2]");
    RETURN_IF(layer->kv_heads != 1, ATTN_ERR_HEADS, "layer.kv_heads");
    RETURN_IF(latent->rank >= layer->head_dim, ATTN_ERR_SHAPE, "layer.latent.rank");
    RETURN_IF(layer->v_proj.weight != NULL, ATTN_ERR_OPTION, "layer.v_proj");
    RETURN_IF(layer->gate_proj.weight != NULL, ATTN_ERR_OPTION, "layer.gate_proj");
    RETURN_IF(layer->v_norm.weight != NULL, ATTN_ERR_OPTION, "layer.v_norm");
    RETURN_IF(layer->k_proj.weight == NULL, ATTN_ERR_NO_DATA, "layer.k_proj");
    RETURN_IF(layer->q_norm.weight != NULL, ATTN_ERR_OPTION, "layer.q_norm");
    RETURN_IF(layer->rope.query_growth > 0, ATTN_ERR_OPTION, "layer.rope.query_growth");
    RETURN_IF(layer->projected_max > 0, ATTN_ERR_OPTION, "layer.projected_max");
    RETURN_IF(layer->norms_follow_rope, ATTN_ERR_OPTION, "layer.norms_follow_rope");
    RETURN_IF(layer->additive_weight != NULL, ATTN_ERR_OPTION, "layer.additive_weight");
    RETURN_IF(problem->output_dtype != ATTN_F32, ATTN_ERR_DTYPE, "output_dtype");
    RETURN_IF_FAILED(attn_norm_check(&latent->q_norm, &Q_NORM, where));
    return check_ups(layer, where);
}

/* -------------------------------------------------------------------------- the plan -- */

void attn_latent_lay_out(struct attn_layer_plan_full *plan)
{
    const struct attn_layer *layer = plan->problem.layer;
    const int64_t rows = plan->problem.query.shape[2];

    plan->up_offset = plan->q_offset;
    if (layer->latent.q_down.weight != NULL)
        plan->up_offset = attn_layer_reserve(plan, rows, layer->q_proj.out);
    plan->absorbed_offset = attn_layer_reserve(plan, rows, layer->q_heads * layer->head_dim);
    if (plan->problem.context != NULL)
        plan->sum_offset = attn_layer_reserve(plan, rows, layer->q_heads * layer->latent.rank);
}

struct attn_tensor attn_latent_query(const struct attn_layer_plan_full *plan, void *scratch)
{
    const struct attn_layer *layer = plan->problem.layer;

    return attn_tensor_rows(attn_scratch_at(scratch, plan->absorbed_offset), ATTN_F32, 1,
                            layer->q_heads, plan->problem.query.shape[2], layer->head_dim,
                            layer->q_heads * layer->head_dim);
}

struct attn_tensor attn_latent_sum(const struct attn_layer_plan_full *plan, void *scratch)
{
    const struct attn_layer *layer = plan->problem.layer;
    const int64_t columns = layer->latent.rank;
    float *sums = plan->problem.context != NULL ? attn_scratch_at(scratch, plan->sum_offset) : NULL;

    return attn_tensor_rows(sums, ATTN_F32, 1, layer->q_heads, plan->problem.query.shape[2],
                            columns, layer->q_heads * columns);
}

/* Where the output projection reads it, or the caller. */
struct attn_tensor attn_latent_context(const struct attn_layer_plan_full *plan, void *scratch)
{
    const struct attn_layer_problem *problem = &plan->problem;
    const int64_t heads = problem->layer->q_heads, columns = problem->layer->v_head_dim;
    float *to = attn_layer_has_output(problem) ? attn_scratch_at(scratch, plan->context_offset)
                                               : problem->context;

    if (problem->partial)
        return attn_tensor_dense(to, ATTN_F32, 1, heads, problem->query.shape[2], columns);
    return attn_tensor_rows(to, ATTN_F32, 1, heads, problem->query.shape[2], columns,
                            heads * columns);
}

/* --------------------------------------------------------------------------- tasks -- */

/* A product of all rows of the call, with a weight that begins at its number first. */
struct call_product {
    struct attn_linear linear;
    struct attn_product product;
};

static void set_product(struct call_product *call, const struct attn_layer_plan_full *plan,
                        const struct attn_linear *linear, int64_t first)
{
    call->linear = *linear;
    call->linear.weight = attn_number_at(linear->weight, linear->dtype, first);
    call->product = (struct attn_product){ .linear = &call->linear,
                                           .x_stride = linear->in,
                                           .y_stride = linear->out,
                                           .row_count = plan->problem.query.shape[2],
                                           .kernels = plan->attention.kernels,
                                           .precision = plan->problem.options.precision };
}

static int64_t tasks_of(const struct attn_layer_plan_full *plan, const struct attn_linear *linear)
{
    struct call_product call;

    set_product(&call, plan, linear, 0);
    return attn_product_tasks(&call.product);
}

static int64_t chunks_of(const struct attn_layer_plan_full *plan)
{
    return attn_divide_up(plan->problem.query.shape[2], ATTN_LAYER_CHUNK_ROWS);
}

int64_t attn_latent_tasks(const struct attn_layer_plan_full *plan, enum attn_layer_stage kind)
{
    const struct attn_layer *layer = plan->problem.layer;

    if (kind == ATTN_LAYER_LATENT_UP)
        return layer->latent.q_down.weight != NULL ? tasks_of(plan, &layer->q_proj) : 0;
    if (kind == ATTN_LAYER_LATENT_QUERY)
        return layer->q_heads * tasks_of(plan, &layer->latent.k_up) + chunks_of(plan);
    return plan->problem.context != NULL ? layer->q_heads * tasks_of(plan, &layer->latent.v_up) : 0;
}

static void run_up(const struct attn_layer_plan_full *plan, int64_t task, void *scratch,
                   void *workspace)
{
    struct call_product call;

    set_product(&call, plan, &plan->problem.layer->q_proj, 0);
    call.product.x = attn_scratch_at(scratch, plan->q_offset);
    call.product.y = attn_scratch_at(scratch, plan->up_offset);
    attn_product_run(&call.product, task, workspace);
}

/* The columns of all heads that have a position, of some rows. */
static void rotate_chunk(const struct attn_layer_plan_full *plan, int64_t chunk, void *scratch)
{
    const struct attn_layer_problem *problem = &plan->problem;
    const struct attn_layer *layer = problem->layer;
    const struct head_columns columns = head_columns(layer);
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t count = attn_min(ATTN_LAYER_CHUNK_ROWS, problem->query.shape[2] - first);
    const float *from = attn_scratch_at(scratch, plan->up_offset) + first * layer->q_proj.out;
    const int64_t row = layer->q_heads * layer->head_dim;
    float *to = attn_scratch_at(scratch, plan->absorbed_offset) + first * row + layer->latent.rank;
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    for (int64_t i = 0; i < count; i++)
        for (int64_t h = 0; h < layer->q_heads; h++)
            memcpy(to + i * row + h * layer->head_dim,
                   from + i * layer->q_proj.out + h * columns.all + columns.plain,
                   (size_t)columns.rotated * sizeof *to);
    attn_layer_operands(problem, operands);
    operands[0].head_dim = layer->head_dim;
    attn_operand_rotate(
        problem, &operands[0], first,
        &(struct attn_rope_rows){
            .data = to, .row_stride = row, .row_count = count, .heads = layer->q_heads });
}

static void run_query(const struct attn_layer_plan_full *plan, int64_t task, void *scratch,
                      void *workspace)
{
    const struct attn_layer *layer = plan->problem.layer;
    const int64_t tasks = tasks_of(plan, &layer->latent.k_up), head = task / tasks;
    struct call_product call;

    if (head >= layer->q_heads) {
        rotate_chunk(plan, task - layer->q_heads * tasks, scratch);
        return;
    }
    set_product(&call, plan, &layer->latent.k_up, head * layer->latent.k_up_step);
    call.product.x = attn_scratch_at(scratch, plan->up_offset) + head * head_columns(layer).all;
    call.product.x_stride = layer->q_proj.out;
    call.product.y = attn_scratch_at(scratch, plan->absorbed_offset) + head * layer->head_dim;
    call.product.y_stride = layer->q_heads * layer->head_dim;
    attn_product_run(&call.product, task % tasks, workspace);
}

static void run_value(const struct attn_layer_plan_full *plan, int64_t task, void *scratch,
                      void *workspace)
{
    const struct attn_latent *latent = &plan->problem.layer->latent;
    const int64_t tasks = tasks_of(plan, &latent->v_up), head = task / tasks;
    const struct attn_tensor sums = attn_latent_sum(plan, scratch);
    const struct attn_tensor context = attn_latent_context(plan, scratch);
    struct call_product call;

    set_product(&call, plan, &latent->v_up, head * latent->v_up_step);
    call.product.x = (const float *)sums.data + head * sums.stride[1];
    call.product.x_stride = sums.stride[2];
    call.product.y = (float *)context.data + head * context.stride[1];
    call.product.y_stride = context.stride[2];
    attn_product_run(&call.product, task % tasks, workspace);
}

void attn_latent_run(const struct attn_layer_plan_full *plan, enum attn_layer_stage kind,
                     int64_t task, void *scratch, void *workspace)
{
    if (kind == ATTN_LAYER_LATENT_UP)
        run_up(plan, task, scratch, workspace);
    else if (kind == ATTN_LAYER_LATENT_QUERY)
        run_query(plan, task, scratch, workspace);
    else
        run_value(plan, task, scratch, workspace);
}
