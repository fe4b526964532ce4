/* decode_finish.c - what decoding does after the keys, or after a chunk of them. */
#include "base/random.h"
#include "forward/decode.h"

#include <math.h>

void attn_decode_join(const struct attn_decode_task *task, const struct attn_decode_state *chunk)
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

static void finish_lse(const struct attn_decode_task *task)
{
    const struct attn_tensor *lse = &task->problem->lse;

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = attn_decode_block(task, h, 0, 1);
        int64_t stride;
        float *rows = attn_block_place(lse, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const int64_t r = h * task->q_len + i;
            const double sum = task->whole.sum[r];
            rows[i * stride] = sum == 0.0 ? -INFINITY : (float)(task->whole.max[r] + log(sum));
        }
        attn_block_written(task->kernels, lse, &block, rows);
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

void attn_decode_finish(struct attn_decode_task *task)
{
    if (attn_is_wanted(&task->problem->lse))
        finish_lse(task);
    if (task->plan->largest_weights != NULL)
        keep_largest(task);
    if (attn_is_wanted(&task->problem->context))
        finish_context(task);
    if (attn_is_wanted(&task->problem->weights))
        finish_weights(task);
}
