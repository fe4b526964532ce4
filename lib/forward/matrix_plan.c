/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_plan.c - which problems a matrix unit computes, and how the parts of their numbers lie in
 * memory.
 *
 * Keys and values are cut once for all query rows of a head, a chunk of them in each part of the
 * plan; a join takes JOIN_TILES tiles of query rows, which then read a chunk from a near cache. */
#include "forward/matrix_plan.h"
#include "base/compensated.h"
#include "base/convert.h"
#include "base/internal.h"
#include "forward/matrix_run.h"

#include "kernels/kernels.h"

#include <float.h>
#include <math.h>

/* Beyond these columns a chunk fits no near cache. */
enum { COLUMNS_MAX = 256 };

static const double LOG2_E = 1.4426950408889634;

static int64_t blocks_of(int64_t columns)
{
    return attn_divide_up(columns, ATTN_MATRIX_COLUMNS);
}

/* Do the products of parts take less time than those of floats? */
static bool products_pay(const struct attn_plan_full *plan)
{
    const int max = plan->kernels->matrix->products_max;
    struct attn_matrix matrix;

    attn_matrix_describe(&matrix, plan);
    return max == 0 || matrix.score.count + matrix.context.count <= max;
}

/* Cutting must cost less than the products gain, and no more than a fifth of the columns be
 * padding. */
static bool pays(const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t rows_min = plan->kernels->matrix->rows_min;
    const int64_t columns = problem->query.shape[3] + problem->value.shape[3];
    const int64_t padded = (blocks_of(problem->query.shape[3]) + blocks_of(problem->value.shape[3]))
                           * ATTN_MATRIX_COLUMNS;

    /* The row of a prefix has its bits in problems of any length. */
    return products_pay(plan) && padded * 4 <= columns * 5
           && (problem->options.is_prefix_stable
               || (problem->query.shape[2] >= rows_min && problem->key.shape[2] >= rows_min));
}

static bool overflows(const struct attn_plan_full *plan)
{
    struct attn_matrix matrix;
    int64_t bytes;

    attn_matrix_describe(&matrix, plan);
    return __builtin_mul_overflow(plan->problem.key.shape[0], plan->problem.key.shape[1], &bytes)
           || __builtin_mul_overflow(bytes, matrix.chunks, &bytes)
           || __builtin_mul_overflow(bytes, (int64_t)matrix.chunk_bytes, &bytes);
}

bool attn_matrix_sums_context(const struct attn_problem *problem)
{
    return attn_is_wanted(&problem->context) && !(problem->options.dropout > 0.0f);
}

bool attn_matrix_fits(const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;

    return plan->kernels->matrix != NULL && !plan->in_double && problem->additive_weight == NULL
           && problem->options.normalizer == ATTN_SOFTMAX && problem->query.shape[3] <= COLUMNS_MAX
           && problem->value.shape[3] <= COLUMNS_MAX
           && (attn_matrix_sums_context(problem) || attn_is_wanted(&problem->lse))
           && (plan->kernels->matrix->takes_small || pays(plan)) && !overflows(plan);
}

/* Softcap, ALiBi and biases need scores as they are; and so do masks, where the scale is not
 * positive. */
static void choose_factors(struct attn_matrix *matrix, const struct attn_problem *problem)
{
    const double scale = problem->options.scale;
    const bool needs_scores = problem->options.softcap > 0.0 || problem->alibi_slopes != NULL
                              || (problem->mask.data != NULL && problem->mask.dtype != ATTN_BOOL)
                              || !(scale >= (double)FLT_MIN);
    int exponent = 0;
    double rest;

    frexp(scale, &exponent);
    matrix->query_factor = ldexpf(1.0f, exponent - 1);
    rest = scale / (double)matrix->query_factor;
    if (!isnormal(matrix->query_factor)) {
        matrix->query_factor = 1.0f;
        rest = scale;
    }
    matrix->score_factor = needs_scores ? (float)rest : 1.0f;
    matrix->natural = needs_scores ? 1.0 : rest;
    matrix->to_power = (float)(matrix->natural * LOG2_E);
}

void attn_matrix_describe(struct attn_matrix *matrix, const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const struct attn_matrix_kernels *kernels = plan->kernels->matrix;
    const enum attn_precision precision = problem->options.precision;
    struct attn_matrix_chunk chunk;

    matrix->weight_parts = attn_parts_of(kernels, ATTN_F32, precision);
    matrix->score =
        attn_products_of(attn_parts_of(kernels, problem->key.dtype, precision),
                         attn_parts_of(kernels, problem->query.dtype, precision), precision);
    matrix->context = attn_products_of(attn_parts_of(kernels, problem->value.dtype, precision),
                                       matrix->weight_parts, precision);
    choose_factors(matrix, problem);
    matrix->key_blocks = blocks_of(problem->key.shape[3]);
    matrix->value_blocks = blocks_of(problem->value.shape[3]);
    matrix->chunks =
        attn_divide_up(problem->key.shape[2], (int64_t)ATTN_MATRIX_CHUNK * ATTN_MATRIX_STEP);
    matrix->chunk_bytes = attn_matrix_cut_chunk(matrix, &chunk, NULL);
}

size_t attn_matrix_cut_chunk(const struct attn_matrix *matrix, struct attn_matrix_chunk *chunk,
                             void *memory)
{
    const int64_t blocks = (int64_t)ATTN_MATRIX_CHUNK * ATTN_MATRIX_BLOCK;
    size_t bytes = 0;

    chunk->marks = attn_cut(memory, &bytes, ATTN_MATRIX_CHUNK, sizeof *chunk->marks);
    chunk->keys = attn_cut(memory, &bytes, blocks * matrix->key_blocks * matrix->score.left_parts,
                           sizeof *chunk->keys);
    chunk->values =
        attn_cut(memory, &bytes, blocks * matrix->value_blocks * matrix->context.left_parts,
                 sizeof *chunk->values);
    return bytes;
}

/* -------------------------------------------------------------- the memory of a running task -- */

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
