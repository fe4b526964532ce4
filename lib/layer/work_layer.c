/* work_layer.c - see work.h: the stages of a layer around attention, and of its gradient. */
#include "base/internal.h"
#include "layer/layer_gradient_internal.h"
#include "layer/work_internal.h"
#include "layer_merge.h"
#include "work.h"

static void add_linear(const struct attn_linear *linear, int64_t rows, struct attn_work *work)
{
    const double numbers = (double)linear->in * (double)linear->out;

    work->projection_flops += 2 * numbers * (double)rows;
    work->parameter_bytes += numbers * (double)attn_dtype_size(linear->dtype)
                             * (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
}

void attn_product_work(const struct attn_product *product, struct attn_work *work)
{
    const double outputs = (double)product->row_count * (double)product->linear->out;

    work->tasks += (double)attn_product_tasks(product);
    add_linear(product->linear, product->row_count, work);
    if (product->gate != NULL) {
        add_linear(product->gate, product->row_count, work);
        work->moved_numbers += outputs;
    }
    if (product->activation != ATTN_NO_ACTIVATION)
        work->tanhs += outputs;
}

void attn_rows_work(int64_t row_count, int64_t columns, struct attn_work *work)
{
    work->moved_numbers += (double)row_count * (double)columns;
}

static void add_operands(const struct attn_layer_problem *problem, struct attn_work *work)
{
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    attn_layer_operands(problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const struct attn_operand *operand = &operands[i];
        const int64_t rows = operand->input->shape[2];
        const double numbers = (double)rows * (double)operand->heads * (double)operand->head_dim;
        if (!operand->is_prepared)
            continue;
        work->tasks += (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
        if (operand->linear->weight != NULL)
            add_linear(operand->linear, rows, work);
        work->moved_numbers +=
            numbers * ((operand->norm != NULL ? 1 : 0) + (operand->is_rotated ? 1 : 0));
    }
}

/* Rows that are read and written once more, into a cache. */
static void add_append(const struct attn_layer_problem *problem, struct attn_work *work)
{
    const struct attn_layer *layer = problem->layer;
    const double columns = (double)layer->kv_heads * (double)(layer->head_dim + layer->v_head_dim);

    if (problem->cache == NULL)
        return;
    work->tasks += (double)attn_layer_append_tasks(problem);
    work->moved_numbers += (double)problem->key.shape[2] * columns;
}

static void add_output(const struct attn_layer_problem *problem, struct attn_work *work)
{
    const int64_t rows = problem->query.shape[2];

    if (!attn_layer_has_output(problem))
        return;
    work->tasks += (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
    add_linear(&problem->layer->o_proj, rows, work);
}

void attn_layer_product_work(const struct attn_layer_plan *plan, enum attn_layer_product product,
                             struct attn_work *work)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const struct attn_layer_problem *problem = &full->problem;
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    if (product == ATTN_PRODUCT_OUTPUT && attn_layer_has_output(problem))
        add_linear(&problem->layer->o_proj, problem->query.shape[2], work);
    if (product != ATTN_PRODUCT_INPUTS)
        return;
    attn_layer_operands(problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        if (operands[i].is_prepared && operands[i].linear->weight != NULL)
            add_linear(operands[i].linear, operands[i].input->shape[2], work);
}

/* Every part is read once: its context and its lse. */
static void add_merge(const struct attn_layer_plan_full *plan, struct attn_work *work)
{
    const struct attn_layer_merge *merge = plan->merge;
    const double rows = (double)merge->layer->q_heads * (double)merge->q_len;

    work->tasks += (double)plan->task_count[0];
    work->stream_bytes += (double)merge->part_count * rows * ((double)merge->layer->v_head_dim + 1)
                          * (double)sizeof(float);
    work->decode_flops += (double)merge->part_count * rows * 2 * (double)merge->layer->v_head_dim;
    work->decode_pairs += (double)merge->part_count * rows;
}

void attn_layer_work(const struct attn_layer_plan *plan, struct attn_work *work)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const struct attn_layer_problem *problem = &full->problem;

    if (full->stage_count == 0)
        return;
    if (full->merge != NULL) {
        add_merge(full, work);
    } else {
        add_operands(problem, work);
        add_append(problem, work);
        if (problem->weight_map != NULL)
            attn_plan_work_reduced(&full->attention, problem->weight_map, problem->past_len, work);
        else
            attn_plan_work(attn_plan_given(&full->attention), problem->past_len, work);
    }
    add_output(problem, work);
}

/* A projection's gradient takes one product for its input, and one for its weight. */
static void add_linear_gradient(const struct attn_linear *linear,
                                const struct attn_linear_gradient *gradient, bool has_input,
                                int64_t rows, struct attn_work *work)
{
    if (linear->weight == NULL)
        return;
    if (has_input)
        add_linear(linear, rows, work);
    if (gradient->weight != NULL)
        add_linear(linear, rows, work);
}

void attn_layer_gradient_work(const struct attn_layer_gradient_plan *plan, struct attn_work *work)
{
    const struct attn_layer_gradient_plan_full *full = attn_layer_gradient_plan_full(plan);
    const struct attn_layer_gradient_problem *problem = &full->problem;
    const struct attn_layer_problem *layer_problem = &full->forward.problem;
    const struct attn_layer *layer = layer_problem->layer;
    const int64_t q_len = layer_problem->query.shape[2];
    const int64_t kv_len = layer_problem->key.shape[2];

    if (q_len == 0)
        return;
    add_operands(layer_problem, work);
    if (attn_layer_gradient_has_forward(problem))
        attn_plan_work(attn_plan_given(&full->forward.attention), layer_problem->past_len, work);
    attn_gradient_plan_work((const struct attn_gradient_plan *)&full->gradient,
                            layer_problem->past_len, work);
    add_linear_gradient(&layer->o_proj, &problem->o_proj, true, q_len, work);
    add_linear_gradient(&layer->q_proj, &problem->q_proj, problem->query != NULL, q_len, work);
    add_linear_gradient(&layer->k_proj, &problem->k_proj, problem->key != NULL, kv_len, work);
    add_linear_gradient(&layer->v_proj, &problem->v_proj, problem->value != NULL, kv_len, work);
}
