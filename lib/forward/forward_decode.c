/* SPDX-License-Identifier: Apache-2.0 */
/* forward_decode.c - attention for few query rows, as in decoding a token.
 *
 * The tiles of forward.c have a lane for each query row, and most lanes would be empty here. A
 * decode task takes the rows of several heads of one group instead, since they read the same keys
 * and values, and its lanes are numbers of one row (kernels.h). Scores are stored as in a map, a
 * row of keys for each query row.
 *
 * The keys are divided into chunks whose size depends only on the shapes. Each chunk has its own
 * softmax and sums, and chunks are joined in the order of the keys (Dao et al. 2023,
 * Flash-Decoding). So chunks can be tasks of their own if there are workers to spare, with the same
 * bits as one task that takes the chunks one after the other. The result of a row does not depend
 * on the heads that share its task, nor on rows that see fewer keys at the end. */
#include "base/random.h"
#include "forward/decode.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------- joining chunks -- */

/* Add the result of a chunk to that of the chunks before it. */
static void join_chunk(const struct attn_decode_task *task, const struct attn_decode_state *chunk)
{
    const struct attn_decode_whole *whole = &task->whole;

    for (int64_t r = 0; r < task->row_count; r++) {
        if (chunk->sum[r] == 0.0f)
            continue;
        const double found = (double)chunk->max[r];
        const double max = found > whole->max[r] ? found : whole->max[r];
        const double base = max == -INFINITY ? 0.0 : max;
        const double old = exp(whole->max[r] - base);
        const double new = exp(found - base);
        double *to = whole->context + r * task->v_padded;
        const float *from = chunk->context + r * task->v_padded;
        for (int64_t c = 0; c < task->v_padded; c++)
            to[c] = to[c] * old + (double)from[c] * new;
        whole->sum[r] = whole->sum[r] * old + (double)chunk->sum[r] * new;
        whole->max[r] = max;
    }
}

/* ---------------------------------------------------------------------- after the keys -- */

static void finish_weights_row(const struct attn_decode_task *task, int64_t row, float *weights,
                               int64_t key, int64_t n)
{
    task->kernels->weights_row(weights, (float)task->whole.max[row], (float)task->whole.sum[row],
                               n);
    if (task->problem->options.dropout > 0)
        attn_dropout_row(task->problem, task->batch, task->q_head + row / task->q_len,
                         row % task->q_len, key, n, weights, 1);
}

/* Weights that are not F32: their rows cannot hold the scores, which are computed again. */
static void store_weights(struct attn_decode_task *task)
{
    const int64_t kv_len = task->problem->key.shape[2];

    for (int64_t key = 0; key < kv_len; key += ATTN_DECODE_KEYS) {
        const struct attn_span tile = { key, attn_min(ATTN_DECODE_KEYS, kv_len - key) };
        attn_decode_masked_scores(task, &tile);
        for (int64_t r = 0; r < task->row_count; r++)
            finish_weights_row(task, r, attn_decode_scores(task, r), key, tile.n);
        attn_decode_store_map(task, &task->problem->weights, &tile);
    }
}

static void finish_weights(struct attn_decode_task *task)
{
    const struct attn_tensor *weights = &task->problem->weights;

    if (!task->needs.weight_rows) {
        store_weights(task);
        return;
    }
    for (int64_t r = 0; r < task->row_count; r++)
        finish_weights_row(
            task, r,
            attn_tensor_row(weights, task->batch, task->q_head + r / task->q_len, r % task->q_len),
            0, weights->shape[3]);
}

static void finish_number(const struct attn_decode_task *task, enum attn_output output)
{
    const struct attn_tensor *numbers = &task->problem->out[output];

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = attn_decode_block(task, h, 0, 1);
        int64_t stride;
        float *rows = attn_block_place(numbers, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const int64_t r = h * task->q_len + i;
            rows[i * stride] =
                (float)attn_row_number(output, task->whole.max[r], task->whole.sum[r]);
        }
        attn_block_written(task->kernels, numbers, &block, rows);
    }
}

/* The largest score has the weight 1 / sum. */
static void keep_largest(const struct attn_decode_task *task)
{
    const int64_t q_heads = task->problem->query.shape[1];
    float *largest =
        task->plan->largest_weights + (task->batch * q_heads + task->q_head) * task->q_len;

    for (int64_t r = 0; r < task->row_count; r++)
        largest[r] = task->whole.sum[r] == 0.0 ? 0.0f : (float)(1.0 / task->whole.sum[r]);
}

static void finish_context(const struct attn_decode_task *task)
{
    const struct attn_tensor *context = &task->problem->context;
    const int64_t columns = context->shape[3];
    const int64_t lanes = task->kernels->lanes;
    const int64_t whole = columns / lanes * lanes;
    const int64_t repeated = task->v_padded - columns;

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = attn_decode_block(task, h, 0, columns);
        int64_t stride;
        float *rows = attn_block_place(context, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const int64_t r = h * task->q_len + i;
            const double *from = task->whole.context + r * task->v_padded;
            const double sum = task->whole.sum[r];
            const double factor = sum == 0.0 ? 0.0 : 1.0 / sum;
            for (int64_t c = 0; c < columns; c++)
                rows[i * stride + c] = (float)(from[c < whole ? c : c + repeated] * factor);
        }
        attn_block_written(task->kernels, context, &block, rows);
    }
}

/* Compute what needs all keys: a number for each row, context, weights. */
static void finish_rows(struct attn_decode_task *task)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_output_is_number(i) && attn_is_wanted(&task->problem->out[i]))
            finish_number(task, i);
    if (task->plan->largest_weights != NULL)
        keep_largest(task);
    if (attn_is_wanted(&task->problem->context))
        finish_context(task);
    if (attn_is_wanted(&task->problem->weights))
        finish_weights(task);
}

/* --------------------------------------------------------------------- before the keys -- */

static void read_query(const struct attn_decode_task *task)
{
    const struct attn_tensor *query = &task->problem->query;
    const int64_t head_dim = query->shape[3];
    const int64_t lanes = task->kernels->lanes;
    const int64_t whole = head_dim / lanes * lanes;
    const float scale = (float)task->problem->options.scale;

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = attn_decode_block(task, h, 0, head_dim);
        int64_t stride;
        const float *rows = attn_block_read(task->kernels, query, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const float *from = rows + i * stride;
            float *to = task->query + (h * task->q_len + i) * task->head_padded;
            for (int64_t d = 0; d < whole; d++)
                to[d] = from[d] * scale;
            /* The last vector ends with the row; lanes that repeat earlier columns are 0. */
            const int64_t repeated = task->head_padded - head_dim;
            for (int64_t d = whole; d < task->head_padded; d++)
                to[d] = d - whole < repeated ? 0.0f : from[d - repeated] * scale;
        }
    }
}

static void clear_chunk(const struct attn_decode_task *task)
{
    for (int64_t r = 0; r < task->row_count; r++) {
        task->chunk.max[r] = -INFINITY;
        task->chunk.sum[r] = 0.0f;
    }
    memset(task->chunk.context, 0, (size_t)(task->row_count * task->v_padded) * sizeof(float));
}

/* The sinks count as seen before the first key. */
static void clear_whole(const struct attn_decode_task *task)
{
    for (int64_t r = 0; r < task->row_count; r++) {
        const float sink = attn_mask_sink(task->problem, task->q_head + r / task->q_len);
        task->whole.max[r] = (double)sink;
        task->whole.sum[r] = sink == -INFINITY ? 0.0 : 1.0;
    }
    for (int64_t i = 0; i < task->row_count * task->v_padded; i++)
        task->whole.context[i] = 0.0;
}

static int64_t bytes_of(const struct attn_tensor *tensor)
{
    const int64_t *shape = tensor->shape;

    return shape[0] * shape[1] * shape[2] * shape[3] * (int64_t)attn_dtype_size(tensor->dtype);
}

static void decode_task_begin(struct attn_decode_task *task, const struct attn_plan_full *plan,
                              const struct attn_decode_heads *heads, void *workspace)
{
    const struct attn_problem *problem = &plan->problem;

    task->plan = plan;
    task->problem = problem;
    task->kernels = attn_decode_kernels(plan);
    attn_decode_cut(plan, task, workspace);
    task->batch = heads->batch;
    task->q_head = heads->first;
    task->head_count = heads->count;
    task->kv_head = heads->first / (problem->query.shape[1] / problem->key.shape[1]);
    task->q_len = problem->query.shape[2];
    task->row_count = heads->count * task->q_len;
    task->needs = attn_needs_of(problem);
    task->prefetch =
        bytes_of(&problem->key) + bytes_of(&problem->value) >= ATTN_DECODE_PREFETCH_BYTES;
    attn_mask_rows(problem, task->batch, 0, task->q_len, task->ranges, &task->any, &task->every);
    read_query(task);
}

/* --------------------------------------------------------------------- a tile of keys -- */

static const float ones[ATTN_DECODE_ROWS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* Sum the values of a tile times their weights. Keys that every row sees need no guard. */
void attn_decode_sum_values(const struct attn_decode_task *task, const struct attn_span *tile,
                            const float *weights)
{
    const struct attn_problem *problem = task->problem;
    const struct attn_tensor *value = &problem->value;
    const bool hides = attn_mask_tests_pairs(problem) || problem->options.dropout > 0;
    const struct attn_decode_rows values = attn_decode_rows(task, value, tile);
    const void *next = attn_decode_next_row(task, &problem->key, tile->first + tile->n);
    const int64_t low = task->every.low - tile->first;
    const int64_t high = hides ? 0 : task->every.high - tile->first;

    memset(task->sums, 0, (size_t)(task->row_count * task->v_padded) * sizeof(float));
    if (values.dtype == ATTN_I8)
        task->kernels->decode_context_i8(task->sums, task->v_padded, ones, weights,
                                         task->score_stride, task->row_count, values.rows,
                                         values.stride, tile->n, value->shape[3], next, low, high,
                                         values.scale + values.at);
    else
        task->kernels->decode_context[attn_numbers_of(values.dtype)](
            task->sums, task->v_padded, ones, weights, task->score_stride, task->row_count,
            values.rows, values.stride, tile->n, value->shape[3], next, low, high);
}

/* Add the sums of a tile to those of the chunk: two levels of sums lose less precision than one. */
void attn_decode_add_sums(const struct attn_decode_task *task)
{
    for (int64_t r = 0; r < task->row_count; r++) {
        const float *sums = task->sums + r * task->v_padded;
        task->kernels->decode_context[ATTN_NUMBERS_F32](
            task->chunk.context + r * task->v_padded, task->v_padded, task->rescale + r, ones,
            task->score_stride, 1, sums, task->v_padded, 1, task->v_padded, NULL, 0, 1);
    }
}

/* Turn the masked scores of the visible part of a tile into weights. */
void attn_decode_weigh(const struct attn_decode_task *task, const struct attn_span *tile,
                       float *weights)
{
    const struct attn_problem *problem = task->problem;

    for (int64_t r = 0; r < task->row_count; r++) {
        float *scores = weights + r * task->score_stride;
        task->kernels->decode_softmax(scores, &task->chunk.max[r], &task->chunk.sum[r],
                                      &task->rescale[r], tile->n);
        if (problem->options.dropout > 0)
            attn_dropout_row(problem, task->batch, task->q_head + r / task->q_len, r % task->q_len,
                             tile->first, tile->n, scores, 1);
    }
}

/* Process a tile of keys. If no key is visible, only its maps are written. */
void attn_decode_run_tile(struct attn_decode_task *task, const struct attn_span *whole)
{
    const struct attn_problem *problem = task->problem;
    if (whole->n <= 0)
        return;
    const struct attn_span visible = attn_decode_visible(task, whole);
    const struct attn_span tile = task->needs.pairs ? *whole : visible;
    float *weights = task->scores + (visible.first - tile.first);

    if (tile.n <= 0)
        return;
    if (visible.n > 0 || task->needs.scores)
        attn_decode_score(task, &tile);
    attn_decode_mask(task, &tile);
    attn_decode_store_map(task, &problem->masked, &tile);
    if (task->needs.weight_rows)
        attn_decode_store_map(task, &problem->weights, &tile);
    if (visible.n == 0 || !task->needs.softmax)
        return;
    attn_decode_weigh(task, &visible, weights);
    if (attn_is_wanted(&problem->context)) {
        attn_decode_sum_values(task, &visible, weights);
        attn_decode_add_sums(task);
    }
}

/* --------------------------------------------------------------------- chunks of keys -- */

struct attn_span attn_decode_tile(const struct attn_plan_full *plan, int64_t chunk, int64_t tile)
{
    const int64_t start = chunk * plan->chunk_keys;
    const int64_t end = attn_min(start + plan->chunk_keys, plan->problem.key.shape[2]);
    const int64_t first = start + tile * ATTN_DECODE_KEYS;

    return (struct attn_span){ first, attn_min(ATTN_DECODE_KEYS, end - first) };
}

int64_t attn_decode_chunk_tiles(const struct attn_plan_full *plan)
{
    return attn_divide_up(plan->chunk_keys, ATTN_DECODE_KEYS);
}

static void run_chunk(struct attn_decode_task *task, int64_t number)
{
    clear_chunk(task);
    for (int64_t i = 0; i < attn_decode_chunk_tiles(task->plan); i++) {
        const struct attn_span tile = attn_decode_tile(task->plan, number, i);
        attn_decode_run_tile(task, &tile);
    }
}

/* ------------------------------------------------------------------------------- tasks -- */

/* The heads of one task of the plan. */
static struct attn_decode_heads heads_of(const struct attn_plan_full *plan, int64_t task)
{
    const int64_t kv_heads = plan->problem.key.shape[1];
    const int64_t group = plan->problem.query.shape[1] / kv_heads;
    const int64_t first = task % plan->decode_tasks * plan->decode_heads;
    const int64_t kv_head = task / plan->decode_tasks;

    return (struct attn_decode_heads){ .batch = kv_head / kv_heads,
                                       .first = kv_head % kv_heads * group + first,
                                       .count = attn_min(plan->decode_heads, group - first) };
}

void attn_decode_run_heads(const struct attn_plan_full *plan, const struct attn_decode_heads *heads,
                           void *workspace)
{
    struct attn_decode_task task;

    decode_task_begin(&task, plan, heads, workspace);
    clear_whole(&task);
    for (int64_t i = 0; i < plan->chunks; i++) {
        run_chunk(&task, i);
        join_chunk(&task, &task.chunk);
    }
    finish_rows(&task);
}

void attn_decode_run(const struct attn_plan_full *plan, int64_t number, void *workspace)
{
    const struct attn_decode_heads heads = heads_of(plan, number);

    attn_decode_run_heads(plan, &heads, workspace);
}

void attn_decode_begin_part(struct attn_decode_task *task, const struct attn_plan_full *plan,
                            int64_t part, void *shared, void *workspace)
{
    const struct attn_decode_heads heads = heads_of(plan, part / plan->chunks);

    decode_task_begin(task, plan, &heads, workspace);
    attn_decode_cut_state(plan, &task->chunk, (char *)shared + (size_t)part * plan->state_bytes);
}

void attn_decode_clear_part(const struct attn_decode_task *task)
{
    clear_chunk(task);
}

void attn_decode_run_part(const struct attn_plan_full *plan, int64_t part, void *shared,
                          void *workspace)
{
    struct attn_decode_task task;

    attn_decode_begin_part(&task, plan, part, shared, workspace);
    run_chunk(&task, part % plan->chunks);
}

void attn_decode_run_join(const struct attn_plan_full *plan, int64_t number, void *shared,
                          void *workspace)
{
    const struct attn_decode_heads heads = heads_of(plan, number);
    char *states = (char *)shared + (size_t)(number * plan->chunks) * plan->state_bytes;
    struct attn_decode_task task;

    decode_task_begin(&task, plan, &heads, workspace);
    clear_whole(&task);
    for (int64_t i = 0; i < plan->chunks; i++) {
        attn_decode_cut_state(plan, &task.chunk, states + (size_t)i * plan->state_bytes);
        join_chunk(&task, &task.chunk);
    }
    finish_rows(&task);
}
