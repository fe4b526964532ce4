/* SPDX-License-Identifier: Apache-2.0 */
/* layer_gradient_operands.c - the gradients of a layer's query, key and value: which are wanted,
 * where they are stored, and their way through norms and the clamp.
 *
 * The forward pass has kept the rows from before the norm. A task turns the gradients of a chunk of
 * rows, in place, into gradients of the rows before the norm, and sums, in double, the chunk's part
 * of the gradients of the norm's weight and bias. One task for each of query, key and value then
 * adds the chunks' sums in order. */
#include "base/internal.h"
#include "layer/layer_gradient_internal.h"

#include <math.h>
#include <string.h>

void attn_operand_gradients(const struct attn_layer_gradient_plan_full *plan, void *scratch,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    const struct attn_layer_gradient_problem *problem = &plan->problem;
    float *const inputs[ATTN_OPERAND_COUNT] = { problem->query, problem->key, problem->value };
    const struct attn_linear_gradient linears[ATTN_OPERAND_COUNT] = { problem->q_proj,
                                                                      problem->k_proj,
                                                                      problem->v_proj };
    const struct attn_norm_gradient norms[ATTN_OPERAND_COUNT] = { problem->q_norm, problem->k_norm,
                                                                  problem->v_norm };

    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const struct attn_operand *operand = &operands[i];
        const struct attn_tensor *input = operand->input;
        const int64_t length = input->shape[2];
        struct attn_operand_gradient *gradient = &gradients[i];
        *gradient = (struct attn_operand_gradient){
            .is_projected = operand->linear->weight != NULL,
            .input = inputs[i],
            .linear = linears[i],
            .norm = norms[i],
        };
        gradient->is_wanted = inputs[i] != NULL || linears[i].weight != NULL
                              || linears[i].bias != NULL || norms[i].weight != NULL
                              || norms[i].bias != NULL;
        gradient->is_in_scratch =
            gradient->is_wanted && (gradient->is_projected || inputs[i] == NULL);
        gradient->is_changed =
            gradient->is_wanted
            && (operand->norm != NULL
                || (gradient->is_projected && problem->layer.layer->projected_max > 0));
        if (gradient->is_projected || input->shape[1] == 1)
            gradient->view =
                attn_tensor_rows(NULL, ATTN_F32, 1, operand->heads, length, operand->head_dim,
                                 operand->heads * operand->head_dim);
        else
            gradient->view =
                attn_tensor_dense(NULL, ATTN_F32, 1, operand->heads, length, operand->head_dim);
        if (gradient->is_in_scratch && scratch != NULL)
            gradient->view.data = (char *)scratch + plan->operand_offset[i];
        else if (gradient->is_in_scratch)
            gradient->view.data = (void *)problem->context_gradient;
        else
            gradient->view.data = inputs[i];
    }
}

/* --------------------------------------------------------------- through norms and the clamp -- */

/* ------------------------------------------------------------------------- the sums -- */

static int64_t weight_count(const struct attn_operand *operand)
{
    return operand->norm->scope == ATTN_NORM_HEAD ? operand->head_dim
                                                  : operand->heads * operand->head_dim;
}

static bool has_sums(const struct attn_operand *operand,
                     const struct attn_operand_gradient *gradient)
{
    return operand->norm != NULL && (gradient->norm.weight != NULL || gradient->norm.bias != NULL);
}

static int64_t chunks_of(const struct attn_operand *operand)
{
    return attn_divide_up(operand->input->shape[2], ATTN_LAYER_CHUNK_ROWS);
}

size_t attn_norm_sums_bytes(const struct attn_operand *operand,
                            const struct attn_operand_gradient *gradient)
{
    if (!has_sums(operand, gradient))
        return 0;
    return (size_t)(2 * chunks_of(operand) * weight_count(operand)) * sizeof(double);
}

/* ---------------------------------------------------------------- one group of numbers -- */

/* A norm, the sums of a chunk for its weight and bias (NULL: not wanted), and a group: columns
 * numbers of x. Its gradients are stored a head at a time, heads dy_step numbers apart. */
struct group {
    const struct attn_norm *norm;
    const float *x, *weight;
    float *dy;
    double *weight_sum, *bias_sum;
    int64_t columns, head_dim, dy_step;
};

static float *gradient_at(const struct group *group, int64_t c)
{
    return group->dy + c / group->head_dim * group->dy_step + c % group->head_dim;
}

/* A row that nothing sees has gradient 0, and then the contents of x do not count. */
static bool is_zero(const struct group *group)
{
    for (int64_t c = 0; c < group->columns; c++)
        if (*gradient_at(group, c) != 0.0f)
            return false;
    return true;
}

static void norm_group(const struct group *group)
{
    const struct attn_norm_moments moments =
        attn_norm_moments(group->norm, group->x, group->columns);
    double sum = 0, projection = 0;

    if (is_zero(group))
        return;
    for (int64_t c = 0; c < group->columns; c++) {
        const double dy = (double)*gradient_at(group, c);
        const double n = ((double)group->x[c] - moments.mean) * moments.factor;
        sum += dy * (double)group->weight[c];
        projection += dy * (double)group->weight[c] * n;
        if (group->weight_sum != NULL) {
            group->weight_sum[c] += dy * n;
            group->bias_sum[c] += dy;
        }
    }
    sum = group->norm->is_centred ? sum / (double)group->columns : 0;
    projection /= (double)group->columns;
    for (int64_t c = 0; c < group->columns; c++) {
        float *dy = gradient_at(group, c);
        const double n = ((double)group->x[c] - moments.mean) * moments.factor;
        *dy = (float)(moments.factor
                      * ((double)*dy * (double)group->weight[c] - sum - n * projection));
    }
}

/* -------------------------------------------------------------------- a chunk of rows -- */

/* Rows of an operand that have a norm or a clamp. */
struct rows {
    const struct attn_operand *operand;
    const struct attn_tensor *dy; /* [1, heads, length, head_dim] */
    const float *x;               /* dense rows, before the norm */
    double *sums;                 /* of the chunk, 2 * weight_count; NULL: not wanted */
    double projected_max;
};

static void norm_row(const struct rows *rows, int64_t row)
{
    const struct attn_operand *operand = rows->operand;
    const struct attn_norm_groups groups =
        attn_norm_groups(operand->norm, operand->heads, operand->head_dim);
    const int64_t count = weight_count(operand);

    for (int64_t g = 0; g < groups.count; g++) {
        const int64_t at = g * groups.weight_step;
        norm_group(&(struct group){
            .norm = operand->norm,
            .x = rows->x + row * operand->heads * operand->head_dim + g * groups.columns,
            .weight = operand->norm->weight + at,
            .dy = attn_tensor_row(rows->dy, 0, g * groups.columns / operand->head_dim, row),
            .weight_sum = rows->sums != NULL ? rows->sums + at : NULL,
            .bias_sum = rows->sums != NULL ? rows->sums + count + at : NULL,
            .columns = groups.columns,
            .head_dim = operand->head_dim,
            .dy_step = rows->dy->stride[1],
        });
    }
}

/* Written so that NaN passes its gradient on. */
static void unclamp_row(const struct rows *rows, int64_t row)
{
    const struct attn_operand *operand = rows->operand;
    const float most = (float)rows->projected_max;

    for (int64_t h = 0; h < operand->heads; h++) {
        const float *x = rows->x + (row * operand->heads + h) * operand->head_dim;
        float *dy = attn_tensor_row(rows->dy, 0, h, row);
        for (int64_t c = 0; c < operand->head_dim; c++)
            if (fabsf(x[c]) >= most)
                dy[c] = 0.0f;
    }
}

static void run_chunk(const struct attn_layer_gradient_plan_full *plan, int which,
                      const struct attn_operand *operand,
                      const struct attn_operand_gradient *gradient, int64_t chunk, void *scratch)
{
    const struct attn_layer_plan_full *forward = &plan->forward;
    const size_t offsets[ATTN_OPERAND_COUNT] = { forward->q_offset, forward->k_offset,
                                                 forward->v_offset };
    const bool is_kept = forward->keeps_projected[which];
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t end = attn_min(first + ATTN_LAYER_CHUNK_ROWS, operand->input->shape[2]);
    struct rows rows = {
        .operand = operand,
        .dy = &gradient->view,
        .x = attn_scratch_at(scratch, is_kept ? forward->projected_offset[which] : offsets[which]),
        .projected_max = plan->problem.layer.layer->projected_max,
    };

    if (has_sums(operand, gradient)) {
        const int64_t count = 2 * weight_count(operand);
        rows.sums = (double *)(void *)((char *)scratch + plan->norm_offset[which]) + chunk * count;
        memset(rows.sums, 0, (size_t)count * sizeof *rows.sums);
    }
    for (int64_t row = first; row < end; row++) {
        if (operand->norm != NULL)
            norm_row(&rows, row);
        if (gradient->is_projected && rows.projected_max > 0)
            unclamp_row(&rows, row);
    }
}

/* -------------------------------------------------------------------------- the stages -- */

int64_t attn_norm_gradient_tasks(const struct attn_operand operands[ATTN_OPERAND_COUNT],
                                 const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    int64_t tasks = 0;

    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        if (gradients[i].is_changed)
            tasks += chunks_of(&operands[i]);
    return tasks;
}

void attn_norm_gradient_run(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                            void *scratch)
{
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem.layer, operands);
    attn_operand_gradients(plan, scratch, operands, gradients);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const int64_t chunks = gradients[i].is_changed ? chunks_of(&operands[i]) : 0;
        if (task < chunks) {
            run_chunk(plan, i, &operands[i], &gradients[i], task, scratch);
            return;
        }
        task -= chunks;
    }
}

int64_t attn_norm_sum_tasks(const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            const struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    int64_t tasks = 0;

    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        tasks += has_sums(&operands[i], &gradients[i]) ? 1 : 0;
    return tasks;
}

void attn_norm_sum_run(const struct attn_layer_gradient_plan_full *plan, int64_t task,
                       void *scratch)
{
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem.layer, operands);
    attn_operand_gradients(plan, scratch, operands, gradients);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        if (!has_sums(&operands[i], &gradients[i]) || task-- > 0)
            continue;
        const int64_t count = weight_count(&operands[i]);
        const double *sums = (const double *)(const void *)((char *)scratch + plan->norm_offset[i]);
        for (int64_t c = 0; c < 2 * count; c++) {
            double sum = 0;
            for (int64_t chunk = 0; chunk < chunks_of(&operands[i]); chunk++)
                sum += sums[chunk * 2 * count + c];
            float *to = c < count ? gradients[i].norm.weight : gradients[i].norm.bias;
            if (to != NULL)
                to[c % count] = (float)sum;
        }
        return;
    }
}
