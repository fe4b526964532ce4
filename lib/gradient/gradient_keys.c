/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_keys.c - the gradients of keys and values, and of the query of a dot product, a tile of
 * keys at a time.
 *
 * The lanes are keys here, and a tile of keys is combined with the query rows of every query head
 * that shares the key/value head, one head after the other. A tile of weights and its gradients,
 * once computed, serves all three gradients: five products instead of the seven of two separate
 * passes.
 *
 * Queries and keys of a head are divided into as many parts as there are rounds. In round r a task
 * has part c of the keys and part c + r of the queries. So no two tasks of a round write the same
 * number, and each gradient is summed in the order of the rounds, whichever threads run the tasks.
 * Between rounds the sums stay in the caller's outputs. (Partial sums for each part of the keys
 * would need no rounds, but memory for eight or more gradients of the query.) The products are
 * those of the forward pass with the roles exchanged. The scale stays on the query's side, so every
 * score has the same bits as there and no weight can exceed 1. */
#include "base/random.h"
#include "forward/sparsemax.h"
#include "gradient/gradient_internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

struct key_task {
    const struct attn_gradient_plan_full *plan;
    const struct attn_gradient_rows *rows;
    struct attn_problem transposed; /* the problem with a transposed mask, for attn_mask_gather() */
    struct attn_gradient_workspace work;
    int64_t batch, kv_head;
    int64_t first_row, last_row; /* query rows [first_row, last_row) */
    int64_t key, key_count;      /* keys [key, key + key_count) */
    bool is_open;                /* the keys have been transposed and their sums begun */
    bool is_finite; /* every number of these keys is finite; known only where it is needed */
};

/* Query rows of one head that a tile of keys is combined with in one step. */
struct row_step {
    int64_t q_head;
    int64_t row, n;
    const struct key_range *ranges; /* of its rows: the keys that each may see */
    bool hides;                     /* some pair may be hidden */
};

/* The problem with the rows and keys of its mask exchanged. */
static struct attn_problem transpose_mask(const struct attn_problem *attention)
{
    struct attn_problem transposed = *attention;

    transposed.mask.shape[2] = attention->mask.shape[3];
    transposed.mask.shape[3] = attention->mask.shape[2];
    transposed.mask.stride[2] = attention->mask.stride[3];
    transposed.mask.stride[3] = attention->mask.stride[2];
    return transposed;
}

static void key_task_begin(struct key_task *task, const struct attn_gradient_plan_full *plan,
                           int round, int64_t number, const struct attn_gradient_rows *rows,
                           void *workspace)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const int64_t head = number / plan->rounds;
    const int64_t row_part = (number + round) % plan->rounds;

    task->plan = plan;
    task->rows = rows;
    task->transposed = transpose_mask(attention);
    attn_gradient_workspace_cut(&task->work, plan, workspace);
    task->batch = head / attention->key.shape[1];
    task->kv_head = head % attention->key.shape[1];
    task->first_row = row_part * plan->part_rows;
    task->last_row = attn_min(task->first_row + plan->part_rows, attention->query.shape[2]);
    for (int64_t r = 0; r < plan->key_width; r++)
        task->work.ones[r] = 1.0f;
}

/* Load the sums of earlier rounds, or 0. */
static void begin_sum(const struct key_task *task, const struct attn_tensor *gradient, bool is_new,
                      int64_t columns, float *sum_t)
{
    const int64_t width = task->plan->key_width;

    if (is_new || gradient->data == NULL)
        memset(sum_t, 0, (size_t)(columns * width) * sizeof(float));
    else
        task->plan->kernels->transpose_in(
            sum_t, attn_tensor_row(gradient, task->batch, task->kv_head, task->key),
            gradient->stride[2], task->key_count, columns, 1.0f, width);
}

/* Load the tile of keys that begins at task->key. */
static void open_tile(struct key_task *task, bool is_new)
{
    const struct attn_gradient_plan_full *plan = task->plan;
    const struct attn_tensor *key = &plan->problem.attention.key;
    const struct attn_tensor *value = &plan->problem.attention.value;
    const struct attn_gradient_workspace *work = &task->work;
    const float *keys = attn_tensor_row(key, task->batch, task->kv_head, task->key);
    const int64_t width = plan->key_width;

    task->is_open = true;
    plan->kernels->transpose_in(work->first_t, keys, key->stride[2], task->key_count, key->shape[3],
                                1.0f, width);
    plan->kernels->transpose_in(work->second_t,
                                attn_tensor_row(value, task->batch, task->kv_head, task->key),
                                value->stride[2], task->key_count, value->shape[3], 1.0f, width);
    begin_sum(task, &plan->problem.key_gradient, is_new, key->shape[3], work->first_sum_t);
    begin_sum(task, &plan->problem.value_gradient, is_new, value->shape[3], work->second_sum_t);
    if (!attn_gradient_keys_make_query(&plan->problem))
        return;
    plan->kernels->copy_rows(work->key_rows, attn_gradient_padded(plan, key->shape[3]), keys,
                             key->stride[2], task->key_count, key->shape[3], 1.0f);
    task->is_finite =
        plan->kernels->all_finite(keys, key->stride[2], task->key_count, key->shape[3]);
}

/* The number of the head's first query row in struct attn_gradient_rows. */
static int64_t first_number(const struct key_task *task, int64_t q_head)
{
    const int64_t *query = task->plan->problem.attention.query.shape;

    return (task->batch * query[1] + q_head) * query[2];
}

/* Does a row that may see the keys of range see a key of the tile? */
static bool sees(const struct key_task *task, const struct key_range *range)
{
    return range->low < task->key + task->key_count && range->high > task->key;
}

/* Find the next rows from *row on that see keys of the tile: at most other_tile rows, of which the
 * first and the last see a key. Moves *row past them. False if there are no more. */
static bool next_rows(const struct key_task *task, int64_t *row, struct row_step *step)
{
    const struct attn_problem *attention = &task->plan->problem.attention;
    const struct key_range *ranges = task->rows->ranges + first_number(task, step->q_head);
    const int64_t end = task->key + task->key_count;

    while (*row < task->last_row && !sees(task, &ranges[*row]))
        ++*row;
    step->row = *row;
    step->n = attn_min(task->plan->other_tile, task->last_row - *row);
    step->ranges = ranges + step->row;
    *row += step->n;
    while (step->n > 0 && !sees(task, &step->ranges[step->n - 1]))
        step->n--;
    step->hides = attention->mask.data != NULL || task->rows->thresholds != NULL;
    for (int64_t i = 0; !step->hides && i < step->n; i++)
        step->hides = attn_range_cuts(&step->ranges[i], task->key, end);
    return step->n > 0;
}

/* Copy the queries of the step to query_rows, times their factor. */
static void scale_queries(const struct key_task *task, const struct row_step *step)
{
    const struct attn_problem *attention = &task->plan->problem.attention;
    const struct attn_tensor *query = &attention->query;

    task->plan->kernels->copy_rows(task->work.query_rows, query->shape[3],
                                   attn_tensor_row(query, task->batch, step->q_head, step->row),
                                   query->stride[2], step->n, query->shape[3],
                                   attn_gradient_query_factor(attention));
}

static void bound(const struct key_task *task, const struct row_step *step)
{
    const int64_t width = task->plan->key_width;

    for (int64_t i = 0; i < step->n; i++) {
        const struct key_range *range = &step->ranges[i];
        float *scores = task->work.weights_t + i * width;
        for (int64_t j = 0; j < task->key_count; j++)
            if (task->key + j < range->low || task->key + j >= range->high)
                scores[j] = -INFINITY;
    }
}

/* ALiBi with keys as lanes: the distance from row to key, which has the same absolute value. */
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

/* Apply dropout to a tile of weights, or of their gradients. */
static void drop(const struct key_task *task, const struct row_step *step, float *tile_t)
{
    const struct attn_problem *attention = &task->plan->problem.attention;

    for (int64_t i = 0; attention->options.dropout > 0.0f && i < step->n; i++)
        attn_dropout_row(attention, task->batch, step->q_head, step->row + i, task->key,
                         task->key_count, tile_t + i * task->plan->key_width, 1);
}

/* Compute the masked scores of the step into weights_t. */
static void score(const struct key_task *task, const struct row_step *step)
{
    const struct attn_gradient_plan_full *plan = task->plan;
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
        attn_mask_gather(&task->transposed, kernels, task->batch, step->q_head, task->key,
                         task->key_count, step->row, n, width, work->bias_t);
        kernels->bias_tile(work->weights_t, work->bias_t, n, width);
    }
}

/* Compute the weights of the step into weights_t, and the gradients of their masked scores into
 * gradient_t. */
static void differentiate(const struct key_task *task, const struct row_step *step)
{
    const struct attn_gradient_plan_full *plan = task->plan;
    const struct attn_kernels *kernels = plan->kernels;
    const struct attn_tensor *context = &plan->problem.context_gradient;
    const struct attn_gradient_workspace *work = &task->work;
    const int64_t first = first_number(task, step->q_head) + step->row;
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
                        context->stride[2], n, context->shape[3], width, NULL);
    drop(task, step, work->gradient_t);
    attn_gradient_normalize(plan, work, task->rows->delta + first, task->rows->delta_low + first, 1,
                            n, width);
}

/* second_sum_t += weights_t . gradients of the context. A hidden pair adds nothing even to a row
 * that is not finite. */
static void add_values(const struct key_task *task, const struct row_step *step)
{
    const struct attn_kernels *kernels = task->plan->kernels;
    const struct attn_tensor *context = &task->plan->problem.context_gradient;
    const float *rows = attn_tensor_row(context, task->batch, step->q_head, step->row);
    const int64_t stride = context->stride[2], columns = context->shape[3];
    const bool guarded = step->hides && !kernels->all_finite(rows, stride, step->n, columns);

    (guarded ? kernels->context_tile_guarded : kernels->context_tile)(
        task->work.second_sum_t, task->work.ones, task->work.weights_t, rows, stride, step->n,
        columns, task->plan->key_width, NULL);
}

/* Add the gradients of the scores, times keys, to the gradient of the query. */
static void add_queries(const struct key_task *task, const struct row_step *step)
{
    const struct attn_gradient_plan_full *plan = task->plan;
    const struct attn_kernels *kernels = plan->kernels;
    const struct attn_tensor *gradient = &plan->problem.query_gradient;
    const struct attn_gradient_workspace *work = &task->work;
    const int64_t padded = attn_gradient_padded(plan, gradient->shape[3]);
    const bool guarded = step->hides && !task->is_finite;

    const float factor = attn_gradient_query_factor(&plan->problem.attention);
    float *sums = attn_tensor_row(gradient, task->batch, step->q_head, step->row);

    if (!guarded && padded == gradient->shape[3]) {
        kernels->add_products(sums, gradient->stride[2], work->key_rows, work->gradient_t,
                              plan->key_width, step->n, task->key_count, padded, factor);
        return;
    }
    if (guarded)
        kernels->score_tile_guarded(work->products, work->key_rows, work->gradient_t,
                                    plan->key_width, step->n, task->key_count, padded);
    else
        kernels->score_tile(work->products, work->key_rows, work->gradient_t, plan->key_width,
                            step->n, task->key_count, padded, NULL);
    kernels->add_rows(sums, gradient->stride[2], work->products, padded, step->n,
                      gradient->shape[3], factor);
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
    attn_gradient_uncap(task->plan, work, step->n, task->plan->key_width);
    if (attn_gradient_keys_make_query(problem))
        add_queries(task, step);
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

/* Combine one tile of keys with all rows of the task. If it is new it is loaded and stored even if
 * no row sees it. */
static void run_tile(struct key_task *task, bool is_new)
{
    const struct attn_gradient_plan_full *plan = task->plan;
    const int64_t group =
        plan->problem.attention.query.shape[1] / plan->problem.attention.key.shape[1];

    task->is_open = false;
    if (is_new)
        open_tile(task, is_new);
    for (int64_t h = 0; h < group; h++) {
        struct row_step step = { .q_head = task->kv_head * group + h };
        for (int64_t row = task->first_row; next_rows(task, &row, &step);) {
            if (!task->is_open)
                open_tile(task, is_new);
            run_step(task, &step);
        }
    }
    if (!task->is_open)
        return;
    store(task, &plan->problem.key_gradient, task->work.first_sum_t);
    store(task, &plan->problem.value_gradient, task->work.second_sum_t);
}

/* The first round in which a part of the keys meets rows. Parts of rows past the last are empty. */
static int first_round(const struct attn_gradient_plan_full *plan, int64_t key_part)
{
    const int64_t row_parts =
        attn_divide_up(plan->problem.attention.query.shape[2], plan->part_rows);

    return key_part < attn_max(row_parts, 1) ? 0 : plan->rounds - (int)key_part;
}

void attn_gradient_run_keys(const struct attn_gradient_plan_full *plan, int round, int64_t task,
                            const struct attn_gradient_rows *rows, void *workspace)
{
    const int64_t kv_len = plan->problem.attention.key.shape[2];
    const int64_t part = task % plan->rounds;
    const int64_t first = part * plan->part_keys;
    const int64_t end = attn_min(first + plan->part_keys, kv_len);
    const bool is_new = round == first_round(plan, part);
    struct key_task keys;

    key_task_begin(&keys, plan, round, task, rows, workspace);
    if (keys.first_row >= keys.last_row && !is_new)
        return;
    for (keys.key = first; keys.key < end; keys.key += plan->key_tile) {
        keys.key_count = attn_min(plan->key_tile, end - keys.key);
        run_tile(&keys, is_new);
    }
}
