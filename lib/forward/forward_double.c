/* SPDX-License-Identifier: Apache-2.0 */
/* forward_double.c - attention in double, a reference to check other implementations.
 *
 * The formulas of attn.h, in the same order, with exp, log and tanh of the C library. A task is a
 * few query rows of one head, which are the lanes of every array. It passes over the keys twice,
 * one tile at a time, so that no whole row of scores is stored:
 *
 *     first pass     scores, softcapped, masked -> their maps; maximum and sum of each row -> lse
 *     second pass    the masked scores again -> weights -> their map and the context
 *
 * Sparsemax passes over the keys some more times between these two. Sums and rounding do not depend
 * on the wanted outputs: a tile begins at a multiple of ATTN_DOUBLE_KEYS, and a hidden key adds
 * 0. */
#include "base/convert.h"
#include "base/internal.h"
#include "base/random.h"
#include "forward/mask.h"
#include "forward/sparsemax.h"

#include <math.h>
#include <string.h>

enum { ROWS = ATTN_DOUBLE_ROWS, KEYS = ATTN_DOUBLE_KEYS };

/* One number for each row, in as many registers as the CPU needs. */
typedef double lanes __attribute__((vector_size(ROWS * sizeof(double))));
typedef int64_t lane_bits __attribute__((vector_size(ROWS * sizeof(int64_t))));

struct double_task {
    const struct attn_plan_full *plan;
    const struct attn_problem *problem;
    int64_t batch, q_head, kv_head;
    int64_t row, row_count;        /* query rows [row, row + row_count) */
    struct key_range ranges[ROWS]; /* the keys that a row may see, before the caller's mask; lanes
                                      without a row see none */
    struct key_range any;          /* the keys that at least one row may see */
    double max[ROWS], sum[ROWS];   /* of masked scores; of exp(masked - max) */
    struct attn_threshold thresholds[ROWS];

    /* In the workspace; each stores the numbers of one column for all rows together. */
    double *query_t;   /* [head_dim][ROWS] */
    double *context_t; /* [v_head_dim][ROWS] */
    double *columns;   /* one key or value */

    double scores_t[KEYS * ROWS]; /* of one tile */
    double line[KEYS];            /* of one row of it */
};

static size_t rows_bytes(int64_t columns)
{
    return (size_t)columns * ROWS * sizeof(double);
}

static size_t cut_task(struct double_task *task, const struct attn_problem *problem, void *memory)
{
    const int64_t head_dim = problem->query.shape[3];
    const int64_t v_head_dim = problem->value.shape[3];
    size_t bytes = 0;

    task->query_t = attn_cut(memory, &bytes, head_dim * ROWS, sizeof(double));
    task->context_t = attn_cut(memory, &bytes, v_head_dim * ROWS, sizeof(double));
    task->columns = attn_cut(memory, &bytes, attn_max(head_dim, v_head_dim), sizeof(double));
    return bytes;
}

size_t attn_double_workspace_bytes(const struct attn_problem *problem)
{
    struct double_task task;

    return cut_task(&task, problem, NULL);
}

/* -------------------------------------------------------------------- before the keys -- */

static void find_ranges(struct double_task *task)
{
    struct key_range every;

    attn_mask_rows(task->problem, task->batch, task->row, task->row_count, task->ranges, &task->any,
                   &every);
    for (int64_t r = task->row_count; r < ROWS; r++)
        task->ranges[r] = (struct key_range){ 0, 0 };
}

static void read_query(struct double_task *task)
{
    const struct attn_tensor *query = &task->problem->query;
    const int64_t head_dim = query->shape[3];

    memset(task->query_t, 0, rows_bytes(head_dim));
    for (int64_t r = 0; r < task->row_count; r++) {
        attn_read_doubles(task->plan->kernels, query->data, query->dtype,
                          attn_tensor_index(query, task->batch, task->q_head, task->row + r), 1,
                          head_dim, task->columns);
        for (int64_t d = 0; d < head_dim; d++)
            task->query_t[d * ROWS + r] = task->columns[d];
    }
}

static void double_task_begin(struct double_task *task, const struct attn_plan_full *plan,
                              int64_t number, void *workspace)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t head = number / plan->q_tiles;
    const int64_t q_heads = problem->query.shape[1];

    task->plan = plan;
    task->problem = problem;
    task->batch = head / q_heads;
    task->q_head = head % q_heads;
    task->kv_head = task->q_head / (q_heads / problem->key.shape[1]);
    task->row = number % plan->q_tiles * plan->q_tile;
    task->row_count = attn_min(plan->q_tile, problem->query.shape[2] - task->row);
    cut_task(task, problem, workspace);
    find_ranges(task);
    read_query(task);
    const double sink = (double)attn_mask_sink(problem, task->q_head);
    for (int64_t r = 0; r < ROWS; r++) {
        task->max[r] = sink;
        task->sum[r] = sink == -INFINITY ? 0.0 : 1.0;
    }
    memset(task->context_t, 0, rows_bytes(problem->value.shape[3]));
}

/* --------------------------------------------------------------------- a tile of keys -- */

/* Write a tile to a map; a map that is not wanted has no data. */
static void store_map(struct double_task *task, const struct attn_tensor *map, int64_t first,
                      int64_t n)
{
    for (int64_t r = 0; map->data != NULL && r < task->row_count; r++) {
        for (int64_t j = 0; j < n; j++)
            task->line[j] = task->scores_t[j * ROWS + r];
        attn_write_doubles(task->plan->kernels, map->data, map->dtype,
                           attn_tensor_index(map, task->batch, task->q_head, task->row + r) + first,
                           1, n, task->line);
    }
}

/* A row of I8, in pieces, as the floats that it stands for. */
static void read_i8(const struct double_task *task, const struct attn_tensor *tensor,
                    const struct attn_run *run)
{
    enum { PIECE = 64 };
    float piece[PIECE];

    for (int64_t d = 0; d < tensor->shape[3]; d += PIECE) {
        const int64_t n = attn_min(PIECE, tensor->shape[3] - d);
        attn_run_read(task->plan->kernels, tensor, run, 0, d, n, piece);
        for (int64_t i = 0; i < n; i++)
            task->columns[d + i] = (double)piece[i];
    }
}

static const double *read_row(const struct double_task *task, const struct attn_tensor *tensor,
                              int64_t row)
{
    const struct attn_run run = attn_tensor_run(tensor, task->batch, task->kv_head, row, 1);

    if (run.dtype == ATTN_I8)
        read_i8(task, tensor, &run);
    else
        attn_read_doubles(task->plan->kernels, run.row, run.dtype, 0, 1, tensor->shape[3],
                          task->columns);
    return task->columns;
}

/* The scores of one key with every row. */
static void score_key(const struct double_task *task, const double *key, double scores[ROWS])
{
    const float *weight = task->problem->additive_weight;
    const int64_t head_dim = task->problem->key.shape[3];
    lanes sum = { 0 };

    for (int64_t d = 0; d < head_dim; d++) {
        lanes query;
        memcpy(&query, task->query_t + d * ROWS, sizeof query);
        if (weight == NULL) {
            sum += query * key[d];
        } else {
            for (int r = 0; r < ROWS; r++)
                sum[r] += (double)weight[d] * tanh(query[r] + key[d]);
        }
    }
    sum *= task->problem->options.scale;
    memcpy(scores, &sum, sizeof sum);
}

static void softcap(const struct double_task *task, double *scores_t, int64_t n)
{
    const double cap = task->problem->options.softcap;

    for (int64_t i = 0; cap > 0.0 && i < n * ROWS; i++)
        scores_t[i] = cap * tanh(scores_t[i] / cap);
}

/* Hidden scores become -INFINITY, whatever they were. */
static void mask_row(struct double_task *task, int64_t r, int64_t first, int64_t n)
{
    const struct attn_problem *problem = task->problem;
    const struct key_range *range = &task->ranges[r];
    const int64_t row = task->row + r;

    for (int64_t j = 0; j < n; j++)
        task->line[j] = 0.0;
    if (attn_mask_tests_pairs(problem) && r < task->row_count)
        attn_mask_biases(problem, task->plan->kernels, task->batch, task->q_head, row, first, n,
                         task->line);
    if (problem->alibi_slopes != NULL) {
        const double slope = (double)problem->alibi_slopes[task->q_head];
        const double behind = attn_mask_distance(problem, task->batch, row, first);
        for (int64_t j = 0; j < n; j++)
            task->scores_t[j * ROWS + r] -= slope * fabs(behind - (double)j);
    }
    for (int64_t j = 0; j < n; j++) {
        double *score = &task->scores_t[j * ROWS + r];
        const bool is_seen =
            first + j >= range->low && first + j < range->high && task->line[j] != -INFINITY;
        *score = is_seen ? *score + task->line[j] : -INFINITY;
    }
}

/* Compute the masked scores of the tile into scores_t. Its maps go to those of outputs. */
static void score(struct double_task *task, const struct attn_problem *outputs, int64_t first,
                  int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        score_key(task, read_row(task, &task->problem->key, first + j), task->scores_t + j * ROWS);
    store_map(task, &outputs->scores, first, n);
    softcap(task, task->scores_t, n);
    store_map(task, &outputs->softcapped, first, n);
    for (int64_t r = 0; r < ROWS; r++)
        mask_row(task, r, first, n);
    store_map(task, &outputs->masked, first, n);
}

/* ------------------------------------------------------------------------- the passes -- */

/* Call visit for each tile of keys: for all tiles, or only for those that a row may see. */
static void for_tiles(struct double_task *task, bool all, const struct attn_problem *outputs,
                      void (*visit)(struct double_task *task, int64_t first, int64_t n))
{
    const int64_t kv_len = task->problem->key.shape[2];
    const int64_t end = all ? kv_len : task->any.high;

    for (int64_t first = all ? 0 : task->any.low / KEYS * KEYS; first < end; first += KEYS) {
        const int64_t n = attn_min(KEYS, kv_len - first);
        score(task, outputs, first, n);
        visit(task, first, n);
    }
}

/* One step of the online softmax. NaN is ignored in max and stays in sum. */
static void measure(struct double_task *task, int64_t first, int64_t n)
{
    (void)first;
    for (int64_t r = 0; r < ROWS; r++) {
        double max = task->max[r];
        for (int64_t j = 0; j < n; j++)
            max = task->scores_t[j * ROWS + r] > max ? task->scores_t[j * ROWS + r] : max;
        const double base = max == -INFINITY ? 0.0 : max;
        double sum = task->sum[r] * exp(task->max[r] - base);
        for (int64_t j = 0; j < n; j++)
            sum += exp(task->scores_t[j * ROWS + r] - base);
        task->max[r] = max;
        task->sum[r] = sum;
    }
}

static void see_thresholds(struct double_task *task, int64_t first, int64_t n)
{
    (void)first;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t j = 0; j < n; j++)
            attn_threshold_see(&task->thresholds[r], task->scores_t[j * ROWS + r]);
}

static void find_thresholds(struct double_task *task, const struct attn_problem *nothing)
{
    const double sink = (double)attn_mask_sink(task->problem, task->q_head);
    bool again = true;

    for (int64_t r = 0; r < ROWS; r++)
        attn_threshold_init(&task->thresholds[r], task->max[r], sink);
    while (again) {
        for_tiles(task, false, nothing, see_thresholds);
        again = false;
        for (int64_t r = 0; r < ROWS; r++)
            again = attn_threshold_improve(&task->thresholds[r]) || again;
    }
}

static double weight_of(const struct double_task *task, int64_t r, double masked)
{
    if (task->problem->options.normalizer == ATTN_SPARSEMAX)
        return attn_sparsemax(&task->thresholds[r], masked);
    if (task->sum[r] == 0.0 || masked == -INFINITY)
        return 0.0;
    return exp(masked - (task->max[r] == -INFINITY ? 0.0 : task->max[r])) / task->sum[r];
}

/* A weight of 0 adds nothing, whatever the value is. */
static void add_value(const struct double_task *task, const double *weights, const double *value)
{
    const int64_t v_head_dim = task->problem->value.shape[3];

    lanes weight, context;

    memcpy(&weight, weights, sizeof weight);
    for (int64_t c = 0; c < v_head_dim; c++) {
        memcpy(&context, task->context_t + c * ROWS, sizeof context);
        context += (lanes)((lane_bits)(weight * value[c]) & (weight != 0.0));
        memcpy(task->context_t + c * ROWS, &context, sizeof context);
    }
}

static void weigh(struct double_task *task, int64_t first, int64_t n)
{
    const struct attn_problem *problem = task->problem;

    for (int64_t i = 0; i < n * ROWS; i++)
        task->scores_t[i] = weight_of(task, i % ROWS, task->scores_t[i]);
    for (int64_t r = 0; problem->options.dropout > 0.0f && r < task->row_count; r++)
        attn_dropout_row_double(problem, task->batch, task->q_head, task->row + r, first, n,
                                task->scores_t + r, ROWS);
    store_map(task, &problem->weights, first, n);
    for (int64_t j = 0; problem->context.data != NULL && j < n; j++)
        add_value(task, task->scores_t + j * ROWS, read_row(task, &problem->value, first + j));
}

static void store_number(const struct double_task *task, enum attn_output output)
{
    const struct attn_tensor *numbers = &task->problem->out[output];

    for (int64_t r = 0; numbers->data != NULL && r < task->row_count; r++) {
        const double number = attn_row_number(output, task->max[r], task->sum[r]);
        attn_write_doubles(task->plan->kernels, numbers->data, numbers->dtype,
                           attn_tensor_index(numbers, task->batch, task->q_head, task->row + r), 1,
                           1, &number);
    }
}

static void store_context(const struct double_task *task)
{
    const struct attn_tensor *context = &task->problem->context;

    for (int64_t r = 0; context->data != NULL && r < task->row_count; r++) {
        const int64_t at = attn_tensor_index(context, task->batch, task->q_head, task->row + r);
        for (int64_t c = 0; c < context->shape[3]; c++)
            task->columns[c] = task->context_t[c * ROWS + r];
        attn_write_doubles(task->plan->kernels, context->data, context->dtype, at, 1,
                           context->shape[3], task->columns);
    }
}

void attn_double_run(const struct attn_plan_full *plan, int64_t task, void *workspace)
{
    static const struct attn_problem nothing;
    const struct attn_problem *problem = &plan->problem;
    const bool shows_scores = attn_needs_of(problem).masked;
    struct double_task rows;

    double_task_begin(&rows, plan, task, workspace);
    for_tiles(&rows, shows_scores, problem, measure);
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_output_is_number(i))
            store_number(&rows, i);
    if (problem->context.data == NULL && problem->weights.data == NULL)
        return;
    if (problem->options.normalizer == ATTN_SPARSEMAX)
        find_thresholds(&rows, &nothing);
    for_tiles(&rows, problem->weights.data != NULL, &nothing, weigh);
    store_context(&rows);
}
