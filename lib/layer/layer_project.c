/* SPDX-License-Identifier: Apache-2.0 */
/* layer_project.c - the products of rows with the parameters of a layer: the projections of query,
 * key and value, and the output projection.
 *
 * rows/product.c divides a product into tasks. The bits of a row do not depend on the other rows,
 * so the rows of a task may belong to several calls. */
#include "base/internal.h"
#include "layer/layer_internal.h"

#include "kernels/kernels.h"

/* Projections of inputs: those of the operands, then the gate. */
enum { GATE = ATTN_OPERAND_COUNT, INPUT_COUNT };

static int linear_count(enum attn_layer_product product)
{
    return product == ATTN_PRODUCT_INPUTS ? INPUT_COUNT : 1;
}

static const struct attn_linear *linear_of(const struct attn_layer *layer,
                                           enum attn_layer_product product, int index)
{
    const struct attn_linear *const inputs[INPUT_COUNT] = { attn_layer_first(layer), &layer->k_proj,
                                                            &layer->v_proj, &layer->gate_proj };

    return product == ATTN_PRODUCT_INPUTS ? inputs[index] : &layer->o_proj;
}

/* The number of rows of a call that go through a projection. */
static int64_t row_count_of(const struct attn_layer_call *call, enum attn_layer_product product,
                            int index)
{
    const struct attn_layer_problem *problem = &call->plan->problem;
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    if (product == ATTN_PRODUCT_OUTPUT)
        return attn_layer_has_output(problem) ? problem->query.shape[2] : 0;
    if (index == GATE)
        return attn_layer_has_gate(problem) ? problem->query.shape[2] : 0;
    attn_layer_operands(problem, operands);
    if (!operands[index].is_prepared || operands[index].linear->weight == NULL)
        return 0;
    return operands[index].input->shape[2];
}

/* The first row of the inputs and of the outputs; both are dense. */
static void find_rows(const struct attn_layer_call *call, enum attn_layer_product product,
                      int index, const float **x, float **y)
{
    const struct attn_layer_plan_full *plan = attn_layer_plan_full(call->plan);
    const struct attn_layer_problem *problem = &plan->problem;
    const struct attn_tensor *const inputs[INPUT_COUNT] = { &problem->query, &problem->key,
                                                            &problem->value, &problem->query };
    const size_t offsets[INPUT_COUNT] = { plan->q_offset, plan->k_offset, plan->v_offset,
                                          plan->gate_offset };

    if (product == ATTN_PRODUCT_INPUTS) {
        *x = inputs[index]->data;
        *y = attn_scratch_at(call->scratch, offsets[index]);
    } else {
        *x = attn_scratch_at(call->scratch, plan->context_offset);
        *y = problem->context;
    }
}

/* The rows of all calls that go through a projection. */
static int64_t all_rows(const struct attn_layer_call *calls, int count,
                        enum attn_layer_product product, int index)
{
    int64_t rows = 0;

    for (int i = 0; i < count; i++)
        rows += row_count_of(&calls[i], product, index);
    return rows;
}

static int64_t tasks_of(const struct attn_kernels *kernels, const struct attn_linear *linear,
                        int64_t rows)
{
    return rows == 0 ? 0 : attn_linear_tasks(kernels, linear, rows);
}

enum attn_layer_product attn_layer_product(const struct attn_layer_plan *plan, int stage)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);

    if (stage >= full->stage_count)
        return ATTN_PRODUCT_NONE;
    switch ((enum attn_layer_stage)full->stage_kind[stage]) {
    case ATTN_LAYER_PROJECT:
        return ATTN_PRODUCT_INPUTS;
    case ATTN_LAYER_OUTPUT:
        return ATTN_PRODUCT_OUTPUT;
    default:
        return ATTN_PRODUCT_NONE;
    }
}

enum attn_layer_part attn_layer_part(const struct attn_layer_plan *plan, int stage)
{
    switch ((enum attn_layer_stage)attn_layer_plan_full(plan)->stage_kind[stage]) {
    case ATTN_LAYER_PROJECT:
    case ATTN_LAYER_OUTPUT:
    case ATTN_LAYER_LATENT_UP:
    case ATTN_LAYER_LATENT_QUERY:
    case ATTN_LAYER_LATENT_VALUE:
        return ATTN_PART_PRODUCT;
    case ATTN_LAYER_PREPARE:
        return ATTN_PART_ROTARY;
    case ATTN_LAYER_APPEND:
    case ATTN_LAYER_GATE:
        return ATTN_PART_ROWS;
    default:
        return ATTN_PART_ATTENTION;
    }
}

/* A merge has no attention, and no options but those of zeros: its precision is the highest. */
static struct attn_linear_how how_of(const struct attn_layer_plan_full *plan)
{
    return (struct attn_linear_how){ plan->attention.kernels, plan->problem.options.precision };
}

/* Whether a matrix unit computes any of the products of a layer. */
static bool is_matrix(const struct attn_layer *layer, const struct attn_kernels *kernels,
                      enum attn_layer_product product)
{
    for (int index = 0; index < linear_count(product); index++) {
        const struct attn_linear *linear = linear_of(layer, product, index);
        if (linear->weight != NULL && attn_linear_is_matrix(kernels, linear))
            return true;
    }
    return false;
}

enum attn_precision attn_layer_precision(const struct attn_layer_plan *plan)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const struct attn_kernels *kernels = full->attention.kernels;

    for (int stage = 0; stage < full->stage_count; stage++) {
        const enum attn_layer_product product = attn_layer_product(plan, stage);
        if (product != ATTN_PRODUCT_NONE && is_matrix(full->problem.layer, kernels, product))
            return full->problem.options.precision;
    }
    return full->merge != NULL ? ATTN_PRECISION_HIGHEST
                               : attn_plan_precision(attn_plan_given(&full->attention));
}

static bool is_same_linear(const struct attn_linear *a, const struct attn_linear *b)
{
    return a->weight == b->weight && a->bias == b->bias && a->out == b->out && a->in == b->in
           && a->in_out == b->in_out && attn_linear_stride(a) == attn_linear_stride(b)
           && a->dtype == b->dtype;
}

bool attn_layer_same_product(const struct attn_layer *a, const struct attn_layer *b,
                             enum attn_layer_product product)
{
    for (int index = 0; index < linear_count(product); index++)
        if (!is_same_linear(linear_of(a, product, index), linear_of(b, product, index)))
            return false;
    return product != ATTN_PRODUCT_INPUTS
           || !(a->projected_max < b->projected_max || a->projected_max > b->projected_max);
}

int64_t attn_layer_product_parameters(const struct attn_layer *layer,
                                      enum attn_layer_product product)
{
    int64_t count = 0;

    for (int index = 0; index < linear_count(product); index++) {
        const struct attn_linear *linear = linear_of(layer, product, index);
        if (linear->weight != NULL)
            count += linear->out * linear->in;
    }
    return count;
}

int64_t attn_layer_product_rows(const struct attn_layer_call *call, enum attn_layer_product product)
{
    int64_t rows = 0;

    for (int index = 0; index < linear_count(product); index++)
        rows = attn_max(rows, row_count_of(call, product, index));
    return rows;
}

int64_t attn_layer_product_tasks(const struct attn_layer_call *calls, int count,
                                 enum attn_layer_product product)
{
    const struct attn_kernels *kernels = attn_layer_plan_full(calls[0].plan)->attention.kernels;
    int64_t task_count = 0;

    for (int index = 0; index < linear_count(product); index++)
        task_count += tasks_of(kernels, linear_of(calls[0].plan->problem.layer, product, index),
                               all_rows(calls, count, product, index));
    return task_count;
}

/* Collect the rows of all calls, one call after the other, from row first on, at most
 * ATTN_PROJECT_ROWS_MAX. */
static void gather(const struct attn_layer_call *calls, int count, enum attn_layer_product product,
                   int index, int64_t first, const float *x[ATTN_PROJECT_ROWS_MAX],
                   float *y[ATTN_PROJECT_ROWS_MAX])
{
    const struct attn_linear *linear = linear_of(calls[0].plan->problem.layer, product, index);
    int64_t row_count = 0;

    for (int i = 0; i < count && row_count < ATTN_PROJECT_ROWS_MAX; i++) {
        const int64_t rows = row_count_of(&calls[i], product, index);
        const float *from = NULL;
        float *to = NULL;
        if (first < rows)
            find_rows(&calls[i], product, index, &from, &to);
        for (int64_t r = first; r < rows && row_count < ATTN_PROJECT_ROWS_MAX; r++) {
            x[row_count] = from + r * linear->in;
            y[row_count++] = to + r * linear->out;
        }
        first = attn_max(first - rows, 0);
    }
}

static void run_rows(const struct attn_linear_how *how, const struct attn_linear *linear,
                     const float *const x[ATTN_PROJECT_ROWS_MAX], float *y[ATTN_PROJECT_ROWS_MAX],
                     const struct attn_linear_part *part, double projected_max, void *workspace)
{
    for (int64_t r = 0; r < part->row_count; r++)
        y[r] += part->first_output;
    attn_linear_multiply(how, linear, x, y, part, workspace);
    for (int64_t r = 0; r < part->row_count; r++)
        attn_clamp(y[r], part->output_count, projected_max);
}

void attn_layer_product_run(const struct attn_layer_call *calls, int count,
                            enum attn_layer_product product, int64_t task, void *workspace)
{
    const struct attn_layer *layer = calls[0].plan->problem.layer;
    const struct attn_linear_how how = how_of(attn_layer_plan_full(calls[0].plan));
    const float *x[ATTN_PROJECT_ROWS_MAX] = { NULL };
    float *y[ATTN_PROJECT_ROWS_MAX] = { NULL };

    for (int index = 0; index < linear_count(product); index++) {
        const struct attn_linear *linear = linear_of(layer, product, index);
        const int64_t rows = all_rows(calls, count, product, index);
        const int64_t tasks = tasks_of(how.kernels, linear, rows);
        if (task < tasks) {
            const struct attn_linear_part part = attn_linear_part(how.kernels, linear, rows, task);
            gather(calls, count, product, index, part.first_row, x, y);
            run_rows(&how, linear, x, y, &part,
                     product == ATTN_PRODUCT_INPUTS && index != GATE ? layer->projected_max : 0,
                     workspace);
            return;
        }
        task -= tasks;
    }
}

int64_t attn_linear_tasks(const struct attn_kernels *kernels, const struct attn_linear *linear,
                          int64_t row_count)
{
    return attn_product_tasks(
        &(struct attn_product){ .linear = linear, .row_count = row_count, .kernels = kernels });
}

void attn_linear_run(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     const float *x, float *y, int64_t row_count, int64_t task, void *workspace)
{
    const struct attn_product product = { .linear = linear,
                                          .x = x,
                                          .x_stride = linear->in,
                                          .y = y,
                                          .y_stride = linear->out,
                                          .row_count = row_count,
                                          .kernels = kernels };

    attn_product_run(&product, task, workspace);
}

size_t attn_layer_product_workspace_bytes(void)
{
    return (size_t)ATTN_PROJECT_WORK * sizeof(float);
}
