/* forward_few.c - attention for a few query rows: a token that is being decoded, and the like.
 *
 * The tiles of forward.c have a lane for each query row, most of which would be empty here. A task
 * takes the rows of several heads of one group instead, since they read the same keys and values,
 * and the lanes are numbers of one row (kernels.h). Scores lie as they do in a map, a row of keys
 * for each query row.
 *
 * The keys are cut into chunks whose size follows from the shapes alone. Each chunk has a softmax
 * and a sum of its own, and they are joined in the order of the keys (Dao et al. 2023,
 * Flash-Decoding). So a chunk can be a task of its own, for whoever has workers to spare, and the
 * bits are the same as those of one task that takes the chunks in turn. What happens to one row
 * does not depend on which others share its task. */
#include "convert.h"
#include "dropout.h"
#include "few.h"
#include "internal.h"
#include "mask.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* What a row knows of the keys it has met, [row_count] each; context is [row_count][v_padded]. */
struct state {
    float *max, *sum, *context;
};

struct few_task {
    const struct attn_plan *plan;
    const struct attn_problem *problem;
    const struct attn_kernels *kernels;
    int64_t batch, kv_head;
    int64_t q_head, head_count; /* row h * q_len + i is query row i of head q_head + h */
    int64_t q_len, row_count;
    int64_t head_padded, v_padded, score_stride;

    struct state whole, chunk;
    float *query;    /* [row_count][head_padded], scaled */
    float *scores;   /* [row_count][score_stride] */
    float *bias;     /* [score_stride] */
    float *rescale;  /* [row_count] */
    float *rows;     /* a block of what is not F32, on its way in or out */
    int64_t *low;    /* [q_len]: the keys [low, high) that a row may see, mask apart */
    int64_t *high;

    struct key_range any, every; /* what any row may see, and what every row may see */
    bool needs_map, keeps_weights, needs_softmax; /* as in forward.c */
};

/* Keys [first, first + n). */
struct span {
    int64_t first, n;
};

static bool is_wanted(const struct attn_tensor *output)
{
    return output->data != NULL;
}

static int64_t padded(const struct attn_plan *plan, int64_t columns)
{
    return attn_divide_up(columns, plan->kernels->lanes) * plan->kernels->lanes;
}

/* ------------------------------------------------------------------------------- planning -- */

/* Of one key and its value. */
static int64_t key_value_bytes(const struct attn_problem *problem)
{
    return problem->key.shape[3] * (int64_t)attn_dtype_size(problem->key.dtype)
           + problem->value.shape[3] * (int64_t)attn_dtype_size(problem->value.dtype);
}

/* Keys and values of a chunk are about so many bytes: at the speed of memory some 50 microseconds,
 * beside which it is nothing to begin a task and to join what it found. */
enum { CHUNK_BYTES = 1024 * 1024, CHUNK_KEYS_MIN = 2 * ATTN_FEW_KEYS };

static int64_t choose_chunk(const struct attn_problem *problem)
{
    const int64_t keys = CHUNK_BYTES / key_value_bytes(problem) / ATTN_FEW_KEYS * ATTN_FEW_KEYS;

    return attn_max(keys, CHUNK_KEYS_MIN);
}

bool attn_few_fits(const struct attn_plan *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t head_dim = problem->query.shape[3];
    const int64_t v_head_dim = problem->value.shape[3];
    const int64_t q_len = problem->query.shape[2];

    return q_len > 0 && q_len <= ATTN_FEW_QUERIES && !plan->in_double
           && problem->additive_weight == NULL && problem->options.normalizer == ATTN_SOFTMAX
           && head_dim >= plan->kernels->lanes && v_head_dim >= plan->kernels->lanes
           && head_dim + 2 * v_head_dim <= ATTN_FEW_COLUMNS;
}

void attn_few_choose(struct attn_plan *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t kv_heads = problem->key.shape[1];
    const int64_t group = problem->query.shape[1] / kv_heads;
    const int64_t kv_len = problem->key.shape[2];

    plan->is_few = true;
    plan->q_tile = problem->query.shape[2];
    plan->q_tiles = 1;
    plan->few_heads = attn_min(group, ATTN_FEW_ROWS / plan->q_tile);
    plan->few_tasks = attn_divide_up(group, plan->few_heads);
    plan->task_count = problem->query.shape[0] * kv_heads * plan->few_tasks;
    plan->chunk_keys = choose_chunk(problem);
    plan->chunks = attn_divide_up(kv_len, plan->chunk_keys);
    if (plan->chunks > 1) {
        plan->part_count = plan->task_count * plan->chunks;
        plan->shared_bytes = (size_t)plan->part_count * attn_few_state_bytes(plan);
    }
}

static int64_t rows_max(const struct attn_plan *plan)
{
    return plan->few_heads * plan->q_tile;
}

/* The next count floats of memory. Where memory is NULL only *offset moves. */
static void *cut(void *memory, size_t *offset, int64_t count, size_t size)
{
    void *part = memory != NULL ? (char *)memory + *offset : NULL;

    *offset += attn_align_up((size_t)count * size);
    return part;
}

static size_t cut_state(const struct attn_plan *plan, struct state *state, void *memory)
{
    const int64_t rows = rows_max(plan);
    size_t bytes = 0;

    state->max = cut(memory, &bytes, rows, sizeof(float));
    state->sum = cut(memory, &bytes, rows, sizeof(float));
    state->context =
        cut(memory, &bytes, rows * padded(plan, plan->problem.value.shape[3]), sizeof(float));
    return bytes;
}

size_t attn_few_state_bytes(const struct attn_plan *plan)
{
    struct state state;

    return cut_state(plan, &state, NULL);
}

static size_t cut_workspace(const struct attn_plan *plan, struct few_task *task, void *memory)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t rows = rows_max(plan);
    const int64_t columns =
        attn_max(problem->query.shape[3], attn_max(problem->value.shape[3], ATTN_FEW_KEYS));
    size_t bytes = 0;

    task->head_padded = padded(plan, problem->query.shape[3]);
    task->v_padded = padded(plan, problem->value.shape[3]);
    /* Whole vectors from any key of a tile on. */
    task->score_stride = ATTN_FEW_KEYS + plan->kernels->lanes;
    task->query = cut(memory, &bytes, rows * task->head_padded, sizeof(float));
    task->scores = cut(memory, &bytes, rows * task->score_stride, sizeof(float));
    task->bias = cut(memory, &bytes, task->score_stride, sizeof(float));
    task->rescale = cut(memory, &bytes, rows, sizeof(float));
    task->rows = cut(memory, &bytes, plan->q_tile * columns, sizeof(float));
    task->low = cut(memory, &bytes, plan->q_tile, sizeof(int64_t));
    task->high = cut(memory, &bytes, plan->q_tile, sizeof(int64_t));
    bytes += cut_state(plan, &task->whole, memory != NULL ? (char *)memory + bytes : NULL);
    bytes += cut_state(plan, &task->chunk, memory != NULL ? (char *)memory + bytes : NULL);
    return bytes;
}

size_t attn_few_workspace_bytes(const struct attn_plan *plan)
{
    struct few_task task;

    return cut_workspace(plan, &task, NULL);
}

/* --------------------------------------------------------------------- before the keys -- */

static void find_ranges(struct few_task *task)
{
    const int64_t kv_len = task->problem->key.shape[2];

    task->any = (struct key_range){ kv_len, 0 };
    task->every = (struct key_range){ 0, kv_len };
    for (int64_t i = 0; i < task->q_len; i++) {
        const struct key_range range = attn_mask_row(task->problem, task->batch, i);
        task->every.low = attn_max(task->every.low, range.low);
        task->every.high = attn_min(task->every.high, range.high);
        if (range.low < range.high) {
            task->any.low = attn_min(task->any.low, range.low);
            task->any.high = attn_max(task->any.high, range.high);
        }
        task->low[i] = range.low;
        task->high[i] = range.high;
    }
    if (task->any.low >= task->any.high)
        task->any = (struct key_range){ 0, 0 };
}

/* columns of the query rows of one head from column on. */
static struct attn_block block_of(const struct few_task *task, int64_t head, int64_t column,
                                  int64_t columns)
{
    return (struct attn_block){ task->batch, task->q_head + head, 0, task->q_len, column, columns };
}

static void read_query(const struct few_task *task)
{
    const struct attn_tensor *query = &task->problem->query;
    const int64_t head_dim = query->shape[3];
    const int64_t lanes = task->kernels->lanes;
    const int64_t whole = head_dim / lanes * lanes;
    const float scale = (float)task->problem->options.scale;

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = block_of(task, h, 0, head_dim);
        int64_t stride;
        const float *rows = attn_block_read(task->kernels, query, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const float *from = rows + i * stride;
            float *to = task->query + (h * task->q_len + i) * task->head_padded;
            for (int64_t d = 0; d < whole; d++)
                to[d] = from[d] * scale;
            /* The last vector ends with the row; what it repeats is 0. */
            const int64_t repeated = task->head_padded - head_dim;
            for (int64_t d = whole; d < task->head_padded; d++)
                to[d] = d - whole < repeated ? 0.0f : from[d - repeated] * scale;
        }
    }
}

static void clear(const struct few_task *task, const struct state *state)
{
    for (int64_t r = 0; r < task->row_count; r++) {
        state->max[r] = -INFINITY;
        state->sum[r] = 0.0f;
    }
    memset(state->context, 0, (size_t)(task->row_count * task->v_padded) * sizeof(float));
}

/* The sinks are what has been seen before the first key. */
static void clear_whole(const struct few_task *task)
{
    clear(task, &task->whole);
    if (task->problem->sinks == NULL)
        return;
    for (int64_t r = 0; r < task->row_count; r++) {
        const float sink = task->problem->sinks[task->q_head + r / task->q_len];
        task->whole.max[r] = sink;
        task->whole.sum[r] = sink == -INFINITY ? 0.0f : 1.0f;
    }
}

static void begin(struct few_task *task, const struct attn_plan *plan,
                  const struct attn_few_heads *heads, void *workspace)
{
    const struct attn_problem *problem = &plan->problem;

    task->plan = plan;
    task->problem = problem;
    task->kernels = plan->kernels;
    cut_workspace(plan, task, workspace);
    task->batch = heads->batch;
    task->q_head = heads->first;
    task->head_count = heads->count;
    task->kv_head = heads->first / (problem->query.shape[1] / problem->key.shape[1]);
    task->q_len = problem->query.shape[2];
    task->row_count = heads->count * task->q_len;
    task->keeps_weights = is_wanted(&problem->weights) && problem->weights.dtype == ATTN_F32;
    task->needs_map = is_wanted(&problem->scores) || is_wanted(&problem->softcapped)
                      || is_wanted(&problem->masked) || task->keeps_weights;
    task->needs_softmax =
        is_wanted(&problem->context) || is_wanted(&problem->lse) || is_wanted(&problem->weights);
    find_ranges(task);
    read_query(task);
}

/* --------------------------------------------------------------------- a tile of keys -- */

static float *scores_of(const struct few_task *task, int64_t row)
{
    return task->scores + row * task->score_stride;
}

static enum attn_numbers kind_of(const struct attn_tensor *tensor)
{
    return tensor->dtype == ATTN_F16    ? ATTN_NUMBERS_F16
           : tensor->dtype == ATTN_BF16 ? ATTN_NUMBERS_BF16
                                        : ATTN_NUMBERS_F32;
}

static const void *row_of(const struct few_task *task, const struct attn_tensor *tensor, int64_t row)
{
    return (const char *)tensor->data
           + attn_tensor_index(tensor, task->batch, task->kv_head, row)
                 * (int64_t)attn_dtype_size(tensor->dtype);
}

static struct attn_ahead ahead_of(const struct few_task *task, const struct attn_tensor *tensor,
                                  int64_t first, int64_t end)
{
    const int64_t size = (int64_t)attn_dtype_size(tensor->dtype);

    if (first >= end)
        return (struct attn_ahead){ 0 };
    return (struct attn_ahead){ row_of(task, tensor, first), tensor->stride[2] * size,
                                tensor->shape[3] * size, attn_min(ATTN_FEW_KEYS, end - first) };
}

/* What some row of the task may see of the tile. */
static struct span visible_part(const struct few_task *task, const struct span *tile)
{
    const int64_t first = attn_max(task->any.low, tile->first);
    const int64_t end = attn_min(task->any.high, tile->first + tile->n);

    return first < end ? (struct span){ first, end - first } : (struct span){ tile->first, 0 };
}

/* The scores of every row of the task, of the tile, go to a map. */
static void store_map(const struct few_task *task, const struct attn_tensor *map,
                      const struct span *tile)
{
    if (!is_wanted(map))
        return;
    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = block_of(task, h, tile->first, tile->n);
        int64_t stride;
        float *rows = attn_block_place(map, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++)
            memcpy(rows + i * stride, scores_of(task, h * task->q_len + i),
                   (size_t)tile->n * sizeof(float));
        attn_block_written(task->kernels, map, &block, rows);
    }
}

static void score(const struct few_task *task, const struct span *tile)
{
    const struct attn_problem *problem = task->problem;
    const struct attn_tensor *key = &problem->key;
    const struct attn_ahead values =
        ahead_of(task, &problem->value, tile->first, tile->first + tile->n);
    const int64_t lanes = task->kernels->lanes;

    task->kernels->few_scores[kind_of(key)](task->scores, task->score_stride, task->query,
                                            task->head_padded, task->row_count,
                                            row_of(task, key, tile->first), key->stride[2], tile->n,
                                            key->shape[3], &values);
    store_map(task, &problem->scores, tile);
    if (problem->options.softcap > 0)
        for (int64_t r = 0; r < task->row_count; r++) {
            float *scores = scores_of(task, r);
            for (int64_t j = tile->n; j < padded(task->plan, tile->n); j++)
                scores[j] = 0.0f;
            task->kernels->softcap_tile(scores, (float)problem->options.softcap,
                                        attn_divide_up(tile->n, lanes), lanes);
        }
    store_map(task, &problem->softcapped, tile);
}

static void add_distances(const struct few_task *task, int64_t row, const struct span *tile)
{
    const float slope = task->problem->alibi_slopes[task->q_head + row / task->q_len];
    float *scores = scores_of(task, row);
    float distance;

    attn_mask_distances(task->problem, task->batch, row % task->q_len, tile->first, 1, &distance);
    for (int64_t j = 0; j < tile->n; j++)
        scores[j] -= slope * fabsf(distance - (float)j);
}

static void hide_others(const struct few_task *task, int64_t row, const struct span *tile)
{
    const int64_t low = attn_min(task->low[row % task->q_len] - tile->first, tile->n);
    const int64_t high = attn_max(task->high[row % task->q_len] - tile->first, 0);
    float *scores = scores_of(task, row);

    for (int64_t j = 0; j < low; j++)
        scores[j] = -INFINITY;
    for (int64_t j = high; j < tile->n; j++)
        scores[j] = -INFINITY;
}

static bool is_cut(const struct few_task *task, const struct span *tile)
{
    return task->every.low > tile->first || task->every.high < tile->first + tile->n;
}

static void mask(const struct few_task *task, const struct span *tile)
{
    const struct attn_problem *problem = task->problem;

    for (int64_t r = 0; r < task->row_count; r++) {
        if (problem->alibi_slopes != NULL)
            add_distances(task, r, tile);
        if (is_cut(task, tile))
            hide_others(task, r, tile);
        if (problem->mask.data != NULL)
            attn_mask_add_row(problem, task->kernels, task->batch, task->q_head + r / task->q_len,
                              r % task->q_len, tile->first, tile->n, task->bias,
                              scores_of(task, r));
    }
}

/* ahead: the keys that come after these values. */
static void add_context(const struct few_task *task, const struct span *tile, const float *weights,
                        const struct attn_ahead *ahead)
{
    const struct attn_problem *problem = task->problem;
    const struct attn_tensor *value = &problem->value;
    const bool hides =
        is_cut(task, tile) || problem->mask.data != NULL || problem->options.dropout > 0;

    task->kernels->few_context[kind_of(value)](
        task->chunk.context, task->v_padded, task->rescale, weights, task->score_stride,
        task->row_count, row_of(task, value, tile->first), value->stride[2], tile->n,
        value->shape[3], ahead, hides);
}

/* The masked scores of the visible part of a tile, the first of them at offset, become weights and
 * go into the chunk. */
static void accumulate(const struct few_task *task, const struct span *tile, int64_t offset,
                       int64_t end)
{
    const struct attn_problem *problem = task->problem;
    const struct attn_ahead keys = ahead_of(task, &problem->key, tile->first + tile->n, end);

    for (int64_t r = 0; r < task->row_count; r++) {
        float *scores = scores_of(task, r) + offset;
        task->kernels->few_softmax(scores, &task->chunk.max[r], &task->chunk.sum[r],
                                   &task->rescale[r], tile->n);
        if (problem->options.dropout > 0)
            attn_dropout_row(problem, task->batch, task->q_head + r / task->q_len, r % task->q_len,
                             tile->first, tile->n, scores, 1);
    }
    if (is_wanted(&problem->context))
        add_context(task, tile, task->scores + offset, &keys);
}

static void hide_all(const struct few_task *task, const struct span *tile)
{
    for (int64_t r = 0; r < task->row_count; r++)
        for (int64_t j = 0; j < tile->n; j++)
            scores_of(task, r)[j] = -INFINITY;
}

/* end: of the keys of this chunk. */
static void run_tile(const struct few_task *task, const struct span *whole, int64_t end)
{
    const struct attn_problem *problem = task->problem;
    const struct span visible = visible_part(task, whole);
    const struct span tile = task->needs_map ? *whole : visible;

    if (visible.n > 0 || is_wanted(&problem->scores) || is_wanted(&problem->softcapped))
        score(task, &tile);
    if (visible.n > 0)
        mask(task, &tile);
    else
        hide_all(task, &tile);
    store_map(task, &problem->masked, &tile);
    if (task->keeps_weights)
        store_map(task, &problem->weights, &tile);
    if (visible.n > 0 && task->needs_softmax)
        accumulate(task, &visible, visible.first - tile.first, end);
}

/* --------------------------------------------------------------------- chunks of keys -- */

static void run_chunk(const struct few_task *task, int64_t number)
{
    const struct attn_plan *plan = task->plan;
    const int64_t start = number * plan->chunk_keys;
    const int64_t end = attn_min(start + plan->chunk_keys, task->problem->key.shape[2]);

    clear(task, &task->chunk);
    for (int64_t key = start; key < end; key += ATTN_FEW_KEYS) {
        const struct span tile = { key, attn_min(ATTN_FEW_KEYS, end - key) };
        if (task->needs_map || visible_part(task, &tile).n > 0)
            run_tile(task, &tile, attn_min(end, task->needs_map ? end : task->any.high));
    }
}

/* What a chunk has found joins what was found in the chunks before it. */
static void join(const struct few_task *task, const struct state *chunk)
{
    const struct state *whole = &task->whole;

    for (int64_t r = 0; r < task->row_count; r++) {
        if (chunk->sum[r] == 0.0f)
            continue;
        const float max = attn_greater(whole->max[r], chunk->max[r]);
        const float base = max == -INFINITY ? 0.0f : max;
        const float old = expf(whole->max[r] - base);
        const float new = expf(chunk->max[r] - base);
        float *to = whole->context + r * task->v_padded;
        const float *from = chunk->context + r * task->v_padded;
        for (int64_t c = 0; c < task->v_padded; c++)
            to[c] = to[c] * old + from[c] * new;
        whole->sum[r] = whole->sum[r] * old + chunk->sum[r] * new;
        whole->max[r] = max;
    }
}

/* ---------------------------------------------------------------------- after the keys -- */

static void finish_weights_row(const struct few_task *task, int64_t row, float *weights,
                               int64_t key, int64_t n)
{
    task->kernels->weights_row(weights, task->whole.max[row], task->whole.sum[row], n);
    if (task->problem->options.dropout > 0)
        attn_dropout_row(task->problem, task->batch, task->q_head + row / task->q_len,
                         row % task->q_len, key, n, weights, 1);
}

/* Weights that are not F32: their rows could not hold the scores, which are computed again. */
static void store_weights(const struct few_task *task)
{
    const int64_t kv_len = task->problem->key.shape[2];

    for (int64_t key = 0; key < kv_len; key += ATTN_FEW_KEYS) {
        const struct span tile = { key, attn_min(ATTN_FEW_KEYS, kv_len - key) };
        if (visible_part(task, &tile).n > 0) {
            score(task, &tile);
            mask(task, &tile);
        } else {
            hide_all(task, &tile);
        }
        for (int64_t r = 0; r < task->row_count; r++)
            finish_weights_row(task, r, scores_of(task, r), key, tile.n);
        store_map(task, &task->problem->weights, &tile);
    }
}

static void finish_weights(const struct few_task *task)
{
    const struct attn_tensor *weights = &task->problem->weights;

    if (!task->keeps_weights) {
        store_weights(task);
        return;
    }
    for (int64_t r = 0; r < task->row_count; r++)
        finish_weights_row(task, r,
                           attn_tensor_row(weights, task->batch, task->q_head + r / task->q_len,
                                           r % task->q_len),
                           0, weights->shape[3]);
}

static void finish_lse(const struct few_task *task)
{
    const struct attn_tensor *lse = &task->problem->lse;

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = block_of(task, h, 0, 1);
        int64_t stride;
        float *rows = attn_block_place(lse, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const int64_t r = h * task->q_len + i;
            const float sum = task->whole.sum[r];
            rows[i * stride] =
                sum == 0.0f ? -INFINITY : (float)((double)task->whole.max[r] + log((double)sum));
        }
        attn_block_written(task->kernels, lse, &block, rows);
    }
}

static void finish_context(const struct few_task *task)
{
    const struct attn_tensor *context = &task->problem->context;
    const int64_t columns = context->shape[3];
    const int64_t lanes = task->kernels->lanes;
    const int64_t whole = columns / lanes * lanes;
    const int64_t repeated = task->v_padded - columns;

    for (int64_t h = 0; h < task->head_count; h++) {
        const struct attn_block block = block_of(task, h, 0, columns);
        int64_t stride;
        float *rows = attn_block_place(context, &block, task->rows, &stride);
        for (int64_t i = 0; i < task->q_len; i++) {
            const int64_t r = h * task->q_len + i;
            const float *from = task->whole.context + r * task->v_padded;
            const float sum = task->whole.sum[r];
            const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
            for (int64_t c = 0; c < columns; c++)
                rows[i * stride + c] = from[c < whole ? c : c + repeated] * factor;
        }
        attn_block_written(task->kernels, context, &block, rows);
    }
}

static void finish(const struct few_task *task)
{
    if (is_wanted(&task->problem->lse))
        finish_lse(task);
    if (is_wanted(&task->problem->context))
        finish_context(task);
    if (is_wanted(&task->problem->weights))
        finish_weights(task);
}

/* ------------------------------------------------------------------------------- tasks -- */

/* The heads of one task of the plan. */
static struct attn_few_heads heads_of(const struct attn_plan *plan, int64_t task)
{
    const int64_t kv_heads = plan->problem.key.shape[1];
    const int64_t group = plan->problem.query.shape[1] / kv_heads;
    const int64_t first = task % plan->few_tasks * plan->few_heads;
    const int64_t kv_head = task / plan->few_tasks;

    return (struct attn_few_heads){ .batch = kv_head / kv_heads,
                                    .first = kv_head % kv_heads * group + first,
                                    .count = attn_min(plan->few_heads, group - first) };
}

void attn_few_run_heads(const struct attn_plan *plan, const struct attn_few_heads *heads,
                        void *workspace)
{
    struct few_task task;

    begin(&task, plan, heads, workspace);
    clear_whole(&task);
    for (int64_t i = 0; i < plan->chunks; i++) {
        run_chunk(&task, i);
        join(&task, &task.chunk);
    }
    finish(&task);
}

void attn_few_run(const struct attn_plan *plan, int64_t number, void *workspace)
{
    const struct attn_few_heads heads = heads_of(plan, number);

    attn_few_run_heads(plan, &heads, workspace);
}

void attn_plan_run_part(const struct attn_plan *plan, int64_t part, void *shared, void *workspace)
{
    const struct attn_few_heads heads = heads_of(plan, part / plan->chunks);
    struct few_task task;

    begin(&task, plan, &heads, workspace);
    cut_state(plan, &task.chunk, (char *)shared + (size_t)part * attn_few_state_bytes(plan));
    run_chunk(&task, part % plan->chunks);
}

void attn_plan_run_join(const struct attn_plan *plan, int64_t number, void *shared, void *workspace)
{
    const struct attn_few_heads heads = heads_of(plan, number);
    char *states =
        (char *)shared + (size_t)(number * plan->chunks) * attn_few_state_bytes(plan);
    struct few_task task;

    begin(&task, plan, &heads, workspace);
    clear_whole(&task);
    for (int64_t i = 0; i < plan->chunks; i++) {
        cut_state(plan, &task.chunk, states + (size_t)i * attn_few_state_bytes(plan));
        join(&task, &task.chunk);
    }
    finish(&task);
}
