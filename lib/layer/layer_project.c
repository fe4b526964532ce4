/* layer_project.c - the products of rows with the parameters of a layer: the projections of query,
 * key and value, and the output projection.
 *
 * A task is up to ATTN_PROJECT_ROWS_MAX rows of one projection and enough of its outputs to make a
 * task of a good length. The bits of a row do not depend on the other rows, so tasks can be divided
 * freely, and the rows may belong to several calls. Tasks that share parameters follow each other,
 * while the parameters are still in the caches. */
#include "base/convert.h"
#include "base/internal.h"
#include "layer/layer_internal.h"

#include "kernels/kernels.h"

/* Parameters of one task, at most; and the smallest number of outputs worth a task. */
enum { TASK_PARAMETERS = 1 << 20, TASK_OUTPUTS_MIN = 64 };

static int linear_count(enum attn_layer_product product)
{
    return product == ATTN_PRODUCT_INPUTS ? ATTN_OPERAND_COUNT : 1;
}

static const struct attn_linear *linear_of(const struct attn_layer *layer,
                                           enum attn_layer_product product, int index)
{
    const struct attn_linear *const inputs[ATTN_OPERAND_COUNT] = { &layer->q_proj, &layer->k_proj,
                                                                   &layer->v_proj };

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
    attn_layer_operands(problem, operands);
    if (!operands[index].is_prepared || operands[index].linear->weight == NULL)
        return 0;
    return operands[index].input->shape[2];
}

/* The first row of the inputs and of the outputs; both are dense. */
static void find_rows(const struct attn_layer_call *call, enum attn_layer_product product,
                      int index, const float **x, float **y)
{
    const struct attn_layer_plan *plan = call->plan;
    const struct attn_layer_problem *problem = &plan->problem;
    const struct attn_tensor *const inputs[ATTN_OPERAND_COUNT] = { &problem->query, &problem->key,
                                                                   &problem->value };
    const size_t offsets[ATTN_OPERAND_COUNT] = { plan->q_offset, plan->k_offset, plan->v_offset };

    if (product == ATTN_PRODUCT_INPUTS) {
        *x = inputs[index]->data;
        *y = attn_scratch_at(call->scratch, offsets[index]);
    } else {
        *x = attn_scratch_at(call->scratch, plan->context_offset);
        *y = problem->context;
    }
}

/* Outputs of one task. The first output of every task is aligned like the first output of all. */
static int64_t outputs_of(const struct attn_linear *linear)
{
    const int64_t most = TASK_PARAMETERS / linear->in / TASK_OUTPUTS_MIN * TASK_OUTPUTS_MIN;

    return attn_min(attn_max(most, TASK_OUTPUTS_MIN), ATTN_PROJECT_OUTPUTS_MAX);
}

struct product_tasks {
    int64_t row_blocks, output_blocks;
};

static struct product_tasks tasks_of_rows(const struct attn_linear *linear, int64_t row_count)
{
    return (struct product_tasks){ attn_divide_up(row_count, ATTN_PROJECT_ROWS_MAX),
                                   attn_divide_up(linear->out, outputs_of(linear)) };
}

static struct product_tasks tasks_of(const struct attn_layer_call *calls, int count,
                                     enum attn_layer_product product, int index)
{
    const struct attn_linear *linear = linear_of(calls[0].plan->problem.layer, product, index);
    int64_t rows = 0;

    for (int i = 0; i < count; i++)
        rows += row_count_of(&calls[i], product, index);
    return rows == 0 ? (struct product_tasks){ 0, 0 } : tasks_of_rows(linear, rows);
}

enum attn_layer_product attn_layer_product(const struct attn_layer_plan *plan, int stage)
{
    if (stage >= plan->stage_count)
        return ATTN_PRODUCT_NONE;
    switch ((enum attn_layer_stage)plan->stage_kind[stage]) {
    case ATTN_LAYER_PROJECT:
        return ATTN_PRODUCT_INPUTS;
    case ATTN_LAYER_OUTPUT:
        return ATTN_PRODUCT_OUTPUT;
    default:
        return ATTN_PRODUCT_NONE;
    }
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
    int64_t task_count = 0;

    for (int index = 0; index < linear_count(product); index++) {
        const struct product_tasks tasks = tasks_of(calls, count, product, index);
        task_count += tasks.row_blocks * tasks.output_blocks;
    }
    return task_count;
}

/* Collect the rows of all calls, one call after the other, from row first on, at most
 * ATTN_PROJECT_ROWS_MAX; return their number. */
static int64_t gather(const struct attn_layer_call *calls, int count,
                      enum attn_layer_product product, int index, int64_t first,
                      const float *x[ATTN_PROJECT_ROWS_MAX], float *y[ATTN_PROJECT_ROWS_MAX])
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
    return row_count;
}

static void run_rows(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     const float *const x[ATTN_PROJECT_ROWS_MAX], float *y[ATTN_PROJECT_ROWS_MAX],
                     int64_t row_count, int64_t first_output, double projected_max, void *workspace)
{
    const int64_t out = attn_min(outputs_of(linear), linear->out - first_output);
    const int64_t stride = attn_linear_stride(linear);
    const void *weight = attn_linear_at(linear, first_output * (linear->in_out ? 1 : stride));
    const enum attn_numbers kind = attn_numbers_of(linear->dtype);
    const float *bias = linear->bias != NULL ? linear->bias + first_output : NULL;

    for (int64_t r = 0; r < row_count; r++)
        y[r] += first_output;
    (linear->in_out ? kernels->project_by_inputs[kind] : kernels->project_by_outputs[kind])(
        y, x, row_count, weight, stride, bias, out, linear->in, workspace);
    for (int64_t r = 0; r < row_count; r++)
        attn_clamp(y[r], out, projected_max);
}

void attn_layer_product_run(const struct attn_layer_call *calls, int count,
                            enum attn_layer_product product, int64_t task, void *workspace)
{
    const struct attn_layer *layer = calls[0].plan->problem.layer;
    const struct attn_kernels *kernels = calls[0].plan->attention.kernels;
    const double projected_max = product == ATTN_PRODUCT_INPUTS ? layer->projected_max : 0;
    const float *x[ATTN_PROJECT_ROWS_MAX];
    float *y[ATTN_PROJECT_ROWS_MAX];

    for (int index = 0; index < linear_count(product); index++) {
        const struct attn_linear *linear = linear_of(layer, product, index);
        const struct product_tasks tasks = tasks_of(calls, count, product, index);
        if (tasks.row_blocks > 0 && task < tasks.row_blocks * tasks.output_blocks) {
            const int64_t first = task % tasks.row_blocks * ATTN_PROJECT_ROWS_MAX;
            const int64_t row_count = gather(calls, count, product, index, first, x, y);
            run_rows(kernels, linear, x, y, row_count, task / tasks.row_blocks * outputs_of(linear),
                     projected_max, workspace);
            return;
        }
        task -= tasks.row_blocks * tasks.output_blocks;
    }
}

int64_t attn_linear_tasks(const struct attn_linear *linear, int64_t row_count)
{
    const struct product_tasks tasks = tasks_of_rows(linear, row_count);

    return tasks.row_blocks * tasks.output_blocks;
}

void attn_linear_run(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     const float *x, float *y, int64_t row_count, int64_t task, void *workspace)
{
    const struct product_tasks tasks = tasks_of_rows(linear, row_count);
    const int64_t first = task % tasks.row_blocks * ATTN_PROJECT_ROWS_MAX;
    const int64_t n = attn_min(ATTN_PROJECT_ROWS_MAX, row_count - first);
    const float *from[ATTN_PROJECT_ROWS_MAX];
    float *to[ATTN_PROJECT_ROWS_MAX];

    for (int64_t r = 0; r < n; r++) {
        from[r] = x + (first + r) * linear->in;
        to[r] = y + (first + r) * linear->out;
    }
    run_rows(kernels, linear, from, to, n, task / tasks.row_blocks * outputs_of(linear), 0,
             workspace);
}

size_t attn_layer_product_workspace_bytes(void)
{
    return (size_t)ATTN_PROJECT_WORK * sizeof(float);
}
