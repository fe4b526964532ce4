/* SPDX-License-Identifier: Apache-2.0 */
/* decode_plan.c - when decoding is used, how it divides the keys, and the memory of a task.
 *
 * All of it depends on the shapes, the options and the kernel table, never on the number of workers
 * or the wanted outputs; so the bits do not depend on those either. */
#include "base/internal.h"
#include "forward/decode.h"

/* Keys and values of a chunk have about CHUNK_NUMBERS numbers: some 50 microseconds at the speed of
 * memory, beside which the cost of beginning a task and joining its result is negligible. */
enum {
    CHUNK_NUMBERS = 256 * 1024,
    CHUNK_KEYS_MIN = 256,
    CHUNK_KEYS_MAX = 2048,
    CHUNK_KEYS_STEP = 64
};

/* A tile of rows meets at most TILE_KEYS_MAX keys in one task. */
enum { TILE_HEADS_MIN = 8, TILE_KEYS_MAX = 32768 };

static int64_t choose_chunk(const struct attn_problem *problem)
{
    const int64_t columns = problem->key.shape[3] + problem->value.shape[3];
    const int64_t keys = CHUNK_NUMBERS / columns / CHUNK_KEYS_STEP * CHUNK_KEYS_STEP;

    return attn_max(CHUNK_KEYS_MIN, attn_min(keys, CHUNK_KEYS_MAX));
}

const struct attn_kernels *attn_decode_kernels(const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t columns = attn_min(problem->query.shape[3], problem->value.shape[3]);
    const struct attn_kernels *kernels = plan->kernels;

    while (kernels != NULL && kernels->lanes > columns)
        kernels = attn_kernels_shorter(kernels);
    return kernels;
}

/* Nearly as many rows as lanes are faster as a tile whose lanes are rows, if there are heads enough
 * for several threads: a tile's keys are not divided into parts. */
static bool fills_tiles(const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t heads = problem->query.shape[0] * problem->query.shape[1];

    return 8 * problem->query.shape[2] >= 7 * plan->kernels->lanes && heads >= TILE_HEADS_MIN
           && problem->key.shape[2] <= TILE_KEYS_MAX;
}

bool attn_decode_fits(const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const struct attn_kernels *kernels = attn_decode_kernels(plan);
    const int64_t head_dim = problem->query.shape[3];
    const int64_t v_head_dim = problem->value.shape[3];
    const int64_t q_len = problem->query.shape[2];

    return kernels != NULL && q_len > 0 && q_len < kernels->lanes && !fills_tiles(plan)
           && !plan->in_double && !problem->options.is_prefix_stable
           && problem->additive_weight == NULL && problem->options.normalizer == ATTN_SOFTMAX
           && head_dim + 2 * v_head_dim <= ATTN_DECODE_COLUMNS;
}

void attn_decode_choose(struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t kv_heads = problem->key.shape[1];
    const int64_t group = problem->query.shape[1] / kv_heads;
    const int64_t kv_len = problem->key.shape[2];

    struct attn_decode_state state;
    struct attn_decode_task task;

    plan->is_decode = true;
    plan->q_tile = problem->query.shape[2];
    plan->q_tiles = 1;
    plan->decode_heads = attn_min(group, ATTN_DECODE_ROWS / plan->q_tile);
    plan->decode_tasks = attn_divide_up(group, plan->decode_heads);
    plan->task_count = problem->query.shape[0] * kv_heads * plan->decode_tasks;
    plan->chunk_keys = choose_chunk(problem);
    plan->chunks = attn_divide_up(kv_len, plan->chunk_keys);
    plan->workspace_bytes = attn_decode_cut(plan, &task, NULL);
    if (plan->chunks > 1) {
        plan->part_count = plan->task_count * plan->chunks;
        plan->join_count = plan->task_count;
        plan->part_workspace_bytes = plan->workspace_bytes;
        plan->state_bytes = attn_decode_cut_state(plan, &state, NULL);
        plan->shared_bytes = (size_t)plan->part_count * plan->state_bytes;
    }
}

static int64_t rows_max(const struct attn_plan_full *plan)
{
    return plan->decode_heads * plan->q_tile;
}

size_t attn_decode_cut_state(const struct attn_plan_full *plan, struct attn_decode_state *state,
                             void *memory)
{
    const int64_t rows = rows_max(plan);
    size_t bytes = 0;

    state->max = attn_cut(memory, &bytes, rows, sizeof(float));
    state->sum = attn_cut(memory, &bytes, rows, sizeof(float));
    state->context =
        attn_cut(memory, &bytes, rows * attn_decode_padded(plan, plan->problem.value.shape[3]),
                 sizeof(float));
    return bytes;
}

/* Of a tile's keys or values, where they lie in pages; of I8 as F32. */
static int64_t together_bytes(const struct attn_problem *problem)
{
    const struct attn_tensor *const tensors[] = { &problem->key, &problem->value };
    int64_t most = 0;

    for (int i = 0; i < 2; i++)
        if (tensors[i]->pages != NULL) {
            const enum attn_dtype dtype =
                tensors[i]->dtype == ATTN_I8 ? ATTN_F32 : tensors[i]->dtype;
            most = attn_max(most, ATTN_DECODE_KEYS * tensors[i]->shape[3]
                                      * (int64_t)attn_dtype_size(dtype));
        }
    return most;
}

size_t attn_decode_cut(const struct attn_plan_full *plan, struct attn_decode_task *task,
                       void *memory)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t rows = rows_max(plan);
    const int64_t columns =
        attn_max(problem->query.shape[3], attn_max(problem->value.shape[3], ATTN_DECODE_KEYS));
    size_t bytes = 0;

    task->head_padded = attn_decode_padded(plan, problem->query.shape[3]);
    task->v_padded = attn_decode_padded(plan, problem->value.shape[3]);
    /* Room for whole vectors from any key of a tile on. */
    task->score_stride = ATTN_DECODE_KEYS + attn_decode_kernels(plan)->lanes;
    task->query = attn_cut(memory, &bytes, rows * task->head_padded, sizeof(float));
    task->scores = attn_cut(memory, &bytes, rows * task->score_stride, sizeof(float));
    task->sums = attn_cut(memory, &bytes, rows * task->v_padded, sizeof(float));
    task->bias = attn_cut(memory, &bytes, task->score_stride, sizeof(float));
    task->rescale = attn_cut(memory, &bytes, rows, sizeof(float));
    task->rows = attn_cut(memory, &bytes, plan->q_tile * columns, sizeof(float));
    task->together = attn_cut(memory, &bytes, together_bytes(problem), 1);
    task->ranges = attn_cut(memory, &bytes, plan->q_tile, sizeof *task->ranges);
    task->whole.max = attn_cut(memory, &bytes, rows, sizeof(double));
    task->whole.sum = attn_cut(memory, &bytes, rows, sizeof(double));
    task->whole.context = attn_cut(memory, &bytes, rows * task->v_padded, sizeof(double));
    bytes +=
        attn_decode_cut_state(plan, &task->chunk, memory != NULL ? (char *)memory + bytes : NULL);
    return bytes;
}
