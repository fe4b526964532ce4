/* matrix_work.c - the memory of a running task of a plan of the matrix unit. */
#include "base/compensated.h"
#include "base/internal.h"
#include "forward/matrix_run.h"

/* What a group has alone. */
static size_t cut_group(const struct attn_matrix_run *run, struct attn_matrix_group *group,
                        void *memory)
{
    const struct attn_problem *problem = &run->plan.problem;
    const int64_t blocks = run->matrix.key_blocks * run->matrix.score.right_parts;
    const int64_t columns = run->matrix.value_blocks * ATTN_MATRIX_COLUMNS;
    const int64_t lost = attn_compensated_is_needed(&run->plan) ? ATTN_MATRIX_LANES : 0;
    struct attn_workspace *work = &group->task.work;
    size_t bytes = 0;

    group->queries = attn_cut(memory, &bytes, blocks * ATTN_MATRIX_BLOCK, sizeof *group->queries);
    group->offset = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    group->base = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    group->odd_context_t =
        attn_cut(memory, &bytes, problem->value.shape[3] * ATTN_MATRIX_LANES, sizeof(float));
    work->context_t = attn_cut(memory, &bytes, columns * ATTN_MATRIX_LANES, sizeof(float));
    work->sum = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    work->rescale = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    work->ranges = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof *work->ranges);
    work->compensated_rescale = attn_cut(memory, &bytes, lost, sizeof(float));
    work->sum_total = attn_cut(memory, &bytes, lost, sizeof(float));
    work->sum_lost = attn_cut(memory, &bytes, lost, sizeof(float));
    work->context_total_t = attn_cut(memory, &bytes, problem->value.shape[3] * lost, sizeof(float));
    work->context_lost_t = attn_cut(memory, &bytes, problem->value.shape[3] * lost, sizeof(float));
    return bytes;
}

/* What groups share, which is used by one at a time. */
static size_t cut_shared(struct attn_matrix_run *run, struct attn_workspace *work, void *memory)
{
    const struct attn_problem *problem = &run->plan.problem;
    const int64_t tile = (int64_t)ATTN_MATRIX_STEP * ATTN_MATRIX_LANES;
    const int64_t weights =
        (int64_t)ATTN_MATRIX_CHUNK * run->matrix.weight_parts * ATTN_MATRIX_BLOCK;
    const int64_t columns = attn_max(problem->query.shape[3], problem->value.shape[3]);
    size_t bytes = 0;

    for (int i = 0; i < 2; i++) {
        run->scores_t[i] = attn_cut(memory, &bytes, tile, sizeof(float));
        run->slots[i].weights = attn_cut(memory, &bytes, weights, sizeof(uint16_t));
    }
    run->odd_scores_t = attn_cut(memory, &bytes, tile, sizeof(float));
    run->sums = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    run->limits = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    run->greatest = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    work->query_t =
        attn_cut(memory, &bytes, problem->query.shape[3] * ATTN_MATRIX_LANES, sizeof(float));
    work->bias_t = attn_cut(memory, &bytes, tile, sizeof(float));
    work->bits = attn_cut(memory, &bytes, ATTN_MATRIX_STEP, sizeof *work->bits);
    work->rows = attn_cut(memory, &bytes, columns * ATTN_MATRIX_LANES, sizeof(float));
    work->factor = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    work->distance = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(float));
    work->tile_low = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(int32_t));
    work->tile_high = attn_cut(memory, &bytes, ATTN_MATRIX_LANES, sizeof(int32_t));
    return bytes;
}

size_t attn_matrix_cut_run(struct attn_matrix_run *run, const struct attn_plan_full *plan,
                           void *memory)
{
    struct attn_workspace shared = { 0 };
    size_t bytes;

    run->plan = *plan;
    run->plan.width = ATTN_MATRIX_LANES;
    run->plan.kv_tile = ATTN_MATRIX_KV_TILE;
    run->kernels = plan->kernels->matrix;
    attn_matrix_describe(&run->matrix, plan);
    bytes = cut_shared(run, &shared, memory);
    for (int i = 0; i < ATTN_MATRIX_GROUPS; i++) {
        run->groups[i].task.work = shared;
        bytes += cut_group(run, &run->groups[i], memory != NULL ? (char *)memory + bytes : NULL);
    }
    run->own_chunk = memory != NULL && plan->packed == NULL ? (char *)memory + bytes : NULL;
    return bytes + run->matrix.chunk_bytes;
}

size_t attn_matrix_workspace_bytes(const struct attn_plan_full *plan)
{
    struct attn_matrix_run run = { 0 };

    return attn_matrix_cut_run(&run, plan, NULL);
}
