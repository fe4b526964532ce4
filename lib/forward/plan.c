/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - check a problem once, choose its tiles, lay out the workspace and number the tasks.
 *
 * A task is one tile of query rows of one head. All sizes depend only on the problem's shape and
 * the kernel table, never on the number of threads that run the tasks; so the bits do not
 * either. */
#include "base/compensated.h"
#include "base/internal.h"
#include "forward/decode.h"
#include "forward/matrix_plan.h"
#include "forward/sparsemax.h"

#include "kernels/kernels.h"

/* Keys of one step: a multiple of the 6 and 12 keys that a kernel takes at a time, and few enough
 * that the scores of a tile stay in a near cache. */
enum { KV_TILE = 96 };
_Static_assert((int)KV_TILE <= (int)ATTN_MASK_KEYS_MAX, "the mask of a tile has room for its keys");

/* Beyond this size the tiles of query and context do not fit a near cache, and a task takes fewer
 * query rows. */
enum { QUERY_AND_CONTEXT_BYTES_MAX = 160 * 1024 };

static bool is_double(const struct attn_tensor *tensor)
{
    return tensor->data != NULL && tensor->dtype == ATTN_F64;
}

static bool needs_double(const struct attn_problem *problem)
{
    bool has_double = problem->options.softmax_precision == ATTN_F64 || is_double(&problem->query)
                      || is_double(&problem->key) || is_double(&problem->value)
                      || is_double(&problem->mask);

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        has_double = has_double || is_double(&problem->out[i]);
    return has_double;
}

/* As many tiles as KV_TILE keys would make, but as even as steps of 16 keys allow. A short tile at
 * the end costs as much to begin as a full one; and with 128 keys in two halves, only one tile
 * meets the diagonal of 64 rows. */
static int64_t choose_kv_tile(int64_t kv_len)
{
    enum { STEP = 16 };
    const int64_t tiles = attn_max(attn_divide_up(kv_len, KV_TILE), 1);

    return attn_max(attn_divide_up(kv_len, tiles * STEP), 1) * STEP;
}

static void choose_tiles(struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t lanes = plan->kernels->lanes;
    const int64_t column_bytes =
        (problem->query.shape[3] + problem->value.shape[3]) * (int64_t)sizeof(float);
    int64_t q_tile = ATTN_WIDTH_MAX;

    while (q_tile > lanes && column_bytes * q_tile > QUERY_AND_CONTEXT_BYTES_MAX)
        q_tile /= 2;
    if (plan->in_double)
        q_tile = ATTN_DOUBLE_ROWS;
    plan->q_tile = attn_min(q_tile, attn_max(problem->query.shape[2], 1));
    plan->width = attn_divide_up(plan->q_tile, lanes) * lanes;
    plan->kv_tile = plan->in_double                     ? ATTN_DOUBLE_KEYS
                    : problem->options.is_prefix_stable ? KV_TILE
                                                        : choose_kv_tile(problem->key.shape[2]);
    plan->q_tiles = attn_divide_up(problem->query.shape[2], plan->q_tile);
}

int64_t attn_plan_tile_width(const struct attn_plan_full *plan, int64_t q_tile)
{
    const int64_t lanes = plan->kernels->lanes;
    const int64_t rows =
        attn_min(plan->q_tile, plan->problem.query.shape[2] - q_tile * plan->q_tile);

    return attn_divide_up(rows, lanes) * lanes;
}

/* The numbers of a block of rows * columns, if the tensor is present and needs conversion, or may
 * have to be brought together from pages; else 0. */
static int64_t block_numbers(const struct attn_tensor *tensor, int64_t rows, int64_t columns)
{
    const bool is_moved = tensor->dtype != ATTN_F32 || tensor->pages != NULL;

    return tensor->data != NULL && is_moved ? rows * columns : 0;
}

/* The numbers of the largest block of a task that is converted or brought together. */
static int64_t block_numbers_max(const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    int64_t max = block_numbers(&problem->query, plan->q_tile, problem->query.shape[3]);

    max = attn_max(max, block_numbers(&problem->key, plan->kv_tile, problem->key.shape[3]));
    max = attn_max(max, block_numbers(&problem->value, plan->kv_tile, problem->value.shape[3]));
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        const int64_t columns =
            attn_output_is_map(i) ? plan->kv_tile : attn_output_columns(problem, i);
        max = attn_max(max, block_numbers(&problem->out[i], plan->q_tile, columns));
    }
    return max;
}

size_t attn_workspace_cut(struct attn_workspace *work, const struct attn_plan_full *plan,
                          void *memory)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t width = plan->width;
    const int64_t padding = problem->options.is_prefix_stable ? ATTN_SOFTMAX_KEYS : 0;
    const int64_t scores = (plan->kv_tile + padding) * width;
    size_t bytes = 0;

    work->query_t = attn_cut(memory, &bytes, problem->query.shape[3] * width, sizeof(float));
    work->context_t = attn_cut(memory, &bytes, problem->value.shape[3] * width, sizeof(float));
    work->scores_t = attn_cut(memory, &bytes, scores, sizeof(float));
    work->bias_t = attn_cut(memory, &bytes, problem->mask.data != NULL ? scores : 0, sizeof(float));
    work->bits = attn_cut(memory, &bytes, attn_mask_tests_pairs(problem) ? plan->kv_tile : 0,
                          sizeof *work->bits);
    work->rows = attn_cut(memory, &bytes, block_numbers_max(plan), sizeof(float));
    work->max = attn_cut(memory, &bytes, width, sizeof(float));
    work->sum = attn_cut(memory, &bytes, width, sizeof(float));
    work->rescale = attn_cut(memory, &bytes, width, sizeof(float));
    work->factor = attn_cut(memory, &bytes, width, sizeof(float));
    const int64_t lost = attn_compensated_is_needed(plan) ? width : 0;
    work->compensated_rescale = attn_cut(memory, &bytes, lost, sizeof(float));
    work->sum_total = attn_cut(memory, &bytes, lost, sizeof(float));
    work->sum_lost = attn_cut(memory, &bytes, lost, sizeof(float));
    work->context_total_t = attn_cut(memory, &bytes, problem->value.shape[3] * lost, sizeof(float));
    work->context_lost_t = attn_cut(memory, &bytes, problem->value.shape[3] * lost, sizeof(float));
    work->distance =
        attn_cut(memory, &bytes, problem->alibi_slopes != NULL ? width : 0, sizeof(float));
    work->thresholds =
        attn_cut(memory, &bytes, problem->options.normalizer == ATTN_SPARSEMAX ? width : 0,
                 sizeof *work->thresholds);
    work->ranges = attn_cut(memory, &bytes, width, sizeof *work->ranges);
    work->tile_low = attn_cut(memory, &bytes, width, sizeof(int32_t));
    work->tile_high = attn_cut(memory, &bytes, width, sizeof(int32_t));
    return bytes;
}

enum attn_precision attn_plan_precision(const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    return full->is_matrix ? full->problem.options.precision : ATTN_PRECISION_HIGHEST;
}

enum attn_status attn_plan_make(struct attn_plan_full *plan, const struct attn_problem *problem,
                                const char **where)
{
    struct attn_workspace work;

    RETURN_IF_FAILED(attn_check(problem, where));
    *plan = (struct attn_plan_full){
        .problem = *problem,
        .kernels = problem->kernels != NULL ? problem->kernels : attn_kernels_available()[0],
        .in_double = needs_double(problem),
    };
    choose_tiles(plan);
    plan->task_count = problem->query.shape[0] * problem->query.shape[1] * plan->q_tiles;
    plan->workspace_bytes = plan->in_double ? attn_double_workspace_bytes(problem)
                                            : attn_workspace_cut(&work, plan, NULL);
    if (attn_decode_fits(plan))
        attn_decode_choose(plan);
    else if (attn_matrix_fits(plan))
        attn_matrix_choose(plan);
    return ATTN_OK;
}

enum attn_status attn_plan_init(struct attn_plan *plan, const struct attn_problem *problem,
                                const char **where)
{
    return attn_plan_make((void *)plan, problem, where);
}
