/* gradient_keys.c - the gradients of keys and values, a tile of keys at a time.
 *
 * The lanes are keys here and the query rows pass by, those of every query head that shares the
 * key/value head, one head after the other: so the sum over a group has one order, and no two tasks
 * write one number. The products are the same as in the forward pass with the roles changed; the
 * scale stays on the query's side, so that every score has the same bits as there and no weight
 * can be above 1. */
#include "dropout.h"
#include "gradient_internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

struct key_task {
    const struct attn_gradient_plan *plan;
    const struct attn_gradient_rows *rows;
    struct attn_problem turned; /* the problem as attn_mask_gather() has to see it */
    struct attn_gradient_workspace work;
    int64_t batch, kv_head;
    int64_t key, key_count; /* keys [key, key + key_count) */
};

/* Query rows of one head that a tile of keys meets in one step. */
struct row_step {
    int64_t q_head;
    int64_t row, n;
    bool hides; /* some pair may be hidden */
};

/* The mask with rows and keys in each other's place. */
static struct attn_problem turn_mask(const struct attn_problem *attention)
{
    struct attn_problem turned = *attention;

    turned.mask.shape[2] = attention->mask.shape[3];
    turned.mask.shape[3] = attention->mask.shape[2];
    turned.mask.stride[2] = attention->mask.stride[3];
    turned.mask.stride[3] = attention->mask.stride[2];
    return turned;
}

static void begin(struct key_task *task, const struct attn_gradient_plan *plan, int64_t number,
                  const struct attn_gradient_rows *rows, void *workspace)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *key = &attention->key, *value = &attention->value;
    const int64_t head = number / plan->key_tiles;
    const int64_t width = plan->key_width;
    struct attn_gradient_workspace *work = &task->work;

    task->plan = plan;
    task->rows = rows;
    task->turned = turn_mask(attention);
    attn_gradient_workspace_cut(work, plan, workspace);
    task->batch = head / key->shape[1];
    task->kv_head = head % key->shape[1];
    task->key = number % plan->key_tiles * plan->key_tile;
    task->key_count = attn_min(plan->key_tile, key->shape[2] - task->key);
    plan->kernels->transpose_in(work->first_t,
                                attn_tensor_row(key, task->batch, task->kv_head, task->key),
                                key->stride[2], task->key_count, key->shape[3], 1.0f, width);
    plan->kernels->transpose_in(work->second_t,
                                attn_tensor_row(value, task->batch, task->kv_head, task->key),
                                value->stride[2], task->key_count, value->shape[3], 1.0f, width);
    memset(work->first_sum_t, 0, (size_t)(key->shape[3] * width) * sizeof(float));
    memset(work->second_sum_t, 0, (size_t)(value->shape[3] * width) * sizeof(float));
    for (int64_t r = 0; r < width; r++)
        work->ones[r] = 1.0f;
}

/* Finds what the rows of the step may see; false where none sees any key of the tile. */
static bool find_ranges(const struct key_task *task, struct row_step *step)
{
    const struct attn_problem *attention = &task->plan->problem.attention;
    const int64_t end = task->key + task->key_count;
    bool is_visible = false;

    step->hides = attention->mask.data != NULL || task->rows->thresholds != NULL;
    for (int64_t i = 0; i < step->n; i++) {
        const struct key_range range = attn_mask_row(attention, task->batch, step->row + i);
        task->work.ranges[i] = range;
        is_visible = is_visible || (range.low < end && range.high > task->key);
        step->hides = step->hides || range.low > task->key || range.high < end;
    }
    return is_visible;
}

/* query_rows become the queries of the step times what they are scored with. */
static void scale_queries(const struct key_task *task, const struct row_step *step)
{
    const struct attn_problem *attention = &task->plan->problem.attention;
    const int64_t head_dim = attention->query.shape[3];
    const float factor = attn_gradient_query_factor(attention);

    for (int64_t i = 0; i < step->n; i++) {
        const float *query =
            attn_tensor_row(&attention->query, task->batch, step->q_head, step->row + i);
        float *scaled = task->work.query_rows + i * head_dim;
        for (int64_t d = 0; d < head_dim; d++)
            scaled[d] = query[d] * factor;
    }
}

static void bound(const struct key_task *task, const struct row_step *step)
{
    const int64_t width = task->plan->key_width;

    for (int64_t i = 0; i < step->n; i++) {
        const struct key_range *range = &task->work.ranges[i];
        float *scores = task->work.weights_t + i * width;
        for (int64_t j = 0; j < task->key_count; j++)
            if (task->key + j < range->low || task->key + j >= range->high)
                scores[j] = -INFINITY;
    }
}

/* ALiBi with keys as lanes: from the row to the key, whose size is the same. */
static void add_alibi(const struct key_task *task, const struct row_step *step)
{
    const struct attn_problem *attention = &task->plan->problem.attention;
    float *distance = task->work.distance;

    for (int64_t j = 0; j < task->plan->key_width; j++) {
        attn_mask_distances(attention, task->batch, step->row, task->key + j, 1, &distance[j]);
        distance[j] = -distance[j];
    }
    task->plan->kernels->alibi_tile(task->work.weights_t, attention->alibi_slopes[step->q_head],
                                    distance, 0, step->n, task->plan->key_width);
}

/* Of weights, or of their gradients. */
static void drop(const struct key_task *task, const struct row_step *step, float *tile_t)
{
    const struct attn_problem *attention = &task->plan->problem.attention;

    for (int64_t i = 0; attention->options.dropout > 0.0f && i < step->n; i++)
        attn_dropout_row(attention, task->batch, step->q_head, step->row + i, task->key,
                         task->key_count, tile_t + i * task->plan->key_width, 1);
}

/* weights_t become the masked scores of the step. */
static void score(const struct key_task *task, const struct row_step *step)
{
    const struct attn_gradient_plan *plan = task->plan;
    const struct attn_kernels *kernels = plan->kernels;
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_gradient_workspace *work = &task->work;
    const int64_t n = step->n, width = plan->key_width;
    const float softcap = (float)attention->options.softcap;

    attn_gradient_score(plan, work, work->query_rows, attention->query.shape[3], n, width);
    if (softcap > 0.0f) {
        kernels->softcap_tile(work->weights_t, softcap, n, width);
        memcpy(work->capped_t, work->weights_t, (size_t)(n * width) * sizeof(float));
    }
    if (attention->alibi_slopes != NULL)
        add_alibi(task, step);
    if (step->hides)
        bound(task, step);
    if (attention->mask.data != NULL) {
        attn_mask_gather(&task->turned, kernels, task->batch, step->q_head, task->key,
                         task->key_count, step->row, n, width, work->bias_t);
        kernels->bias_tile(work->weights_t, work->bias_t, n, width);
    }
}

/* weights_t become the weights of the step, gradient_t the gradients of their masked scores. */
static void differentiate(const struct key_task *task, const struct row_step *step)
{
    const struct attn_gradient_plan *plan = task->plan;
    const struct attn_kernels *kernels = plan->kernels;
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_tensor *context = &plan->problem.context_gradient;
    const struct attn_gradient_workspace *work = &task->work;
    const int64_t *query = attention->query.shape;
    const int64_t first = (task->batch * query[1] + step->q_head) * query[2] + step->row;
    const int64_t n = step->n, width = plan->key_width;

    score(task, step);
    if (task->rows->thresholds == NULL)
        kernels->weights_tile(work->weights_t, task->rows->max + first, task->rows->factor + first,
                              1, n, width);
    for (int64_t i = 0; task->rows->thresholds != NULL && i < n; i++)
        attn_sparsemax_row(&task->rows->thresholds[first + i], work->weights_t + i * width,
                           task->key_count, 1);
    kernels->score_tile(work->gradient_t, work->second_t,
                        attn_tensor_row(context, task->batch, step->q_head, step->row),
                        context->stride[2], n, context->shape[3], width);
    drop(task, step, work->gradient_t);
    attn_gradient_normalize(plan, work, task->rows->delta + first, 1, n, width);
}

/* second_sum_t += weights_t . gradients of the context, where a hidden pair adds nothing even to a
 * row that is not finite. */
static void add_values(const struct key_task *task, const struct row_step *step)
{
    const struct attn_kernels *kernels = task->plan->kernels;
    const struct attn_tensor *context = &task->plan->problem.context_gradient;
    const float *rows = attn_tensor_row(context, task->batch, step->q_head, step->row);
    const int64_t stride = context->stride[2], columns = context->shape[3];
    const bool guarded = step->hides && !kernels->all_finite(rows, stride, step->n, columns);

    (guarded ? kernels->context_tile_guarded : kernels->context_tile)(
        task->work.second_sum_t, task->work.ones, task->work.weights_t, rows, stride, step->n,
        columns, task->plan->key_width);
}

static void run_step(const struct key_task *task, const struct row_step *step)
{
    const struct attn_gradient_problem *problem = &task->plan->problem;
    const struct attn_gradient_workspace *work = &task->work;

    scale_queries(task, step);
    differentiate(task, step);
    drop(task, step, work->weights_t);
    if (problem->value_gradient.data != NULL)
        add_values(task, step);
    if (problem->key_gradient.data != NULL)
        attn_gradient_add(task->plan, work, work->query_rows, problem->attention.query.shape[3],
                          step->n, task->plan->key_width, step->hides, false);
}

static void store(const struct key_task *task, const struct attn_tensor *gradient,
                  const float *sum_t)
{
    if (gradient->data == NULL)
        return;
    task->plan->kernels->transpose_out(
        attn_tensor_row(gradient, task->batch, task->kv_head, task->key), gradient->stride[2],
        sum_t, NULL, task->key_count, gradient->shape[3], task->plan->key_width);
}

void attn_gradient_run_keys(const struct attn_gradient_plan *plan, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace)
{
    const int64_t *query = plan->problem.attention.query.shape;
    const int64_t group = query[1] / plan->problem.attention.key.shape[1];
    struct key_task keys;

    begin(&keys, plan, task, rows, workspace);
    for (int64_t h = 0; h < group; h++)
        for (int64_t row = 0; row < query[2]; row += plan->other_tile) {
            struct row_step step = {
                .q_head = keys.kv_head * group + h,
                .row = row,
                .n = attn_min(plan->other_tile, query[2] - row),
            };
            if (find_ranges(&keys, &step))
                run_step(&keys, &step);
        }
    store(&keys, &plan->problem.key_gradient, keys.work.first_sum_t);
    store(&keys, &plan->problem.value_gradient, keys.work.second_sum_t);
}
