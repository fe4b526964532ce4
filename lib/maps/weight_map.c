/* SPDX-License-Identifier: Apache-2.0 */
/* weight_map.c - reduces rows of weights while a plan computes them.
 *
 * A task runs a task of the plan with the weights output bound to rows in its workspace, and
 * reduces the rows there. So every plan's weights can be reduced, without a second pass. If rows of
 * several tasks meet in one cell, the cell is raised with a compare-and-swap: a maximum does not
 * depend on the order of its numbers.
 *
 * Where it is less work, rows of masked scores are reduced: a greater score never has a smaller
 * weight, since subtracting the maximum, e^x as the kernels compute it, multiplying by 1 / sum, and
 * the rounding of each keep the order. So the greatest are searched among the scores, and only the
 * results are turned into weights, with the same bits as in the whole map. */
#include "weight_map.h"

#include "base/internal.h"
#include "forward/decode.h"
#include "rows.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* --------------------------------------------------------------------- sizes -- */

/* What a map takes from a problem, and its sizes after each step. */
struct map_sizes {
    int64_t heads;           /* of the result */
    int64_t first_row, rows; /* chosen; first_row is 0 with a row_list */
    int64_t first_key, keys; /* kept */
    int64_t cell_rows, cell_columns;
    int64_t columns; /* of the result */
};

/* The numbers that a range chooses of 0 to count - 1. */
static struct attn_map_range chosen_range(const struct attn_map_range *range, int64_t count)
{
    return range->end > 0 ? *range : (struct attn_map_range){ 0, count };
}

static struct map_sizes map_sizes(const struct attn_weight_map *map, int64_t q_heads, int64_t q_len,
                                  int64_t kv_len)
{
    const struct attn_map_range rows = chosen_range(&map->region_rows, q_len);
    const struct attn_map_range keys = chosen_range(&map->region_keys, kv_len);
    struct map_sizes sizes;

    sizes.heads = map->heads != ATTN_MAP_EACH ? 1
                  : map->head_list != NULL    ? map->head_count
                                              : q_heads;
    sizes.first_row = map->row_list != NULL ? 0 : rows.begin;
    sizes.rows = map->row_list != NULL ? map->row_count : rows.end - rows.begin;
    sizes.first_key = keys.begin;
    sizes.keys = keys.end - keys.begin;
    sizes.cell_rows = map->pool_rows > 0 ? attn_min(map->pool_rows, sizes.rows) : sizes.rows;
    sizes.cell_columns =
        map->pool_columns > 0 ? attn_min(map->pool_columns, sizes.keys) : sizes.keys;
    sizes.columns = map->spans != NULL ? map->span_count
                    : map->top_k > 0   ? attn_min(map->top_k, sizes.cell_columns)
                                       : sizes.cell_columns;
    return sizes;
}

static struct map_sizes map_sizes_of_plan(const struct attn_weight_map *map,
                                          const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;

    return map_sizes(map, problem->query.shape[1], problem->query.shape[2], problem->key.shape[2]);
}

/* Can rows of different tasks fall into one cell? */
static bool map_is_shared(const struct map_sizes *sizes)
{
    return sizes->cell_rows < sizes->rows;
}

void attn_weight_map_shape(const struct attn_weight_map *map, int64_t q_heads, int64_t q_len,
                           int64_t kv_len, int64_t shape[3])
{
    const struct map_sizes sizes = map_sizes(map, q_heads, q_len, kv_len);

    shape[0] = sizes.heads;
    shape[1] = sizes.cell_rows;
    shape[2] = sizes.columns;
}

int64_t attn_weight_map_pooled_count(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len)
{
    const struct map_sizes sizes = map_sizes(map, q_heads, q_len, kv_len);
    int64_t count;

    if (!map_is_shared(&sizes) || map->top_k == 0)
        return 0;
    if (__builtin_mul_overflow(sizes.heads, sizes.cell_rows, &count)
        || __builtin_mul_overflow(count, sizes.cell_columns, &count))
        return -1;
    return count;
}

/* ------------------------------------------------------------------------- chosen rows -- */

/* The first index of an ascending list whose number is value or more. */
static int64_t map_lower_bound(const int64_t *list, int64_t count, int64_t value)
{
    int64_t low = 0, high = count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The chosen rows [first, end) that lie in a tile of queries, as indices into the choice. */
struct map_chosen {
    int64_t first, end;
};

static struct map_chosen map_chosen(const struct attn_weight_map *map,
                                    const struct attn_plan_full *plan, int64_t tile)
{
    const struct map_sizes sizes = map_sizes_of_plan(map, plan);
    const int64_t first = tile * plan->q_tile;
    const int64_t end = first + plan->q_tile;

    if (map->row_list != NULL)
        return (struct map_chosen){ map_lower_bound(map->row_list, map->row_count, first),
                                    map_lower_bound(map->row_list, map->row_count, end) };
    return (struct map_chosen){ attn_max(first - sizes.first_row, 0),
                                attn_min(end - sizes.first_row, sizes.rows) };
}

double attn_weight_map_share(const struct attn_weight_map *map, const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    int64_t tiles = 0;

    for (int64_t tile = 0; tile < full->q_tiles; tile++) {
        const struct map_chosen chosen = map_chosen(map, full, tile);
        tiles += chosen.first < chosen.end;
    }
    return full->q_tiles > 0 ? (double)tiles / (double)full->q_tiles : 0;
}

/* -------------------------------------------------------------------------- the checks -- */

static bool is_ascending(const int64_t *list, int64_t count, int64_t end)
{
    for (int64_t i = 0; i < count; i++)
        if (list[i] < (i > 0 ? list[i - 1] + 1 : 0) || list[i] >= end)
            return false;
    return true;
}

static bool is_all(const struct attn_map_range *range)
{
    return range->begin == 0 && range->end == 0;
}

/* Does a region choose at least one of 0 to count - 1, and no other? */
static bool is_region(const struct attn_map_range *range, int64_t count)
{
    return is_all(range) || (range->begin >= 0 && range->begin < range->end && range->end <= count);
}

static enum attn_status check_spans(const struct attn_weight_map *map, int64_t kv_len,
                                    const char **where)
{
    if (map->spans == NULL)
        return ATTN_OK;
    RETURN_IF(map->pool_rows > 0 || map->pool_columns > 0 || map->top_k > 0
                  || !is_all(&map->region_keys),
              ATTN_ERR_OPTION, "weight_map.spans");
    RETURN_IF(map->span_count < 0, ATTN_ERR_OPTION, "weight_map.span_count");
    for (int64_t s = 0; s < map->span_count; s++)
        RETURN_IF(map->spans[s].begin < 0 || map->spans[s].begin > map->spans[s].end
                      || map->spans[s].end > kv_len,
                  ATTN_ERR_OPTION, "weight_map.spans");
    return ATTN_OK;
}

static enum attn_status check_choice(const struct attn_weight_map *map,
                                     const struct attn_problem *problem, const char **where)
{
    const int64_t *query = problem->query.shape;

    RETURN_IF(map->heads != ATTN_MAP_EACH && map->head_list != NULL, ATTN_ERR_OPTION,
              "weight_map.heads");
    RETURN_IF(map->head_list != NULL && !is_ascending(map->head_list, map->head_count, query[1]),
              ATTN_ERR_OPTION, "weight_map.head_list");
    RETURN_IF(map->row_list != NULL && !is_ascending(map->row_list, map->row_count, query[2]),
              ATTN_ERR_OPTION, "weight_map.row_list");
    RETURN_IF(!is_region(&map->region_rows, query[2])
                  || (map->row_list != NULL && !is_all(&map->region_rows)),
              ATTN_ERR_OPTION, "weight_map.region_rows");
    RETURN_IF(!is_region(&map->region_keys, problem->key.shape[2]), ATTN_ERR_OPTION,
              "weight_map.region_keys");
    RETURN_IF(map->pool_rows < 0, ATTN_ERR_OPTION, "weight_map.pool_rows");
    RETURN_IF(map->pool_columns < 0, ATTN_ERR_OPTION, "weight_map.pool_columns");
    RETURN_IF(map->top_k < 0, ATTN_ERR_OPTION, "weight_map.top_k");
    return check_spans(map, problem->key.shape[2], where);
}

enum attn_status attn_weight_map_check(const struct attn_weight_map *map,
                                       const struct attn_plan *plan, const char **where)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    const struct attn_problem *problem = &full->problem;
    int64_t bytes, product;

    RETURN_IF(problem->query.shape[0] != 1, ATTN_ERR_SHAPE, "query.shape[0]");
    RETURN_IF(problem->weights.data != NULL, ATTN_ERR_OPTION, "weights");
    RETURN_IF_FAILED(check_choice(map, problem, where));
    const struct map_sizes sizes = map_sizes_of_plan(map, full);
    RETURN_IF(map->values == NULL, ATTN_ERR_NO_DATA, "weight_map.values");
    RETURN_IF(map->top_k > 0 && map->indices == NULL, ATTN_ERR_NO_DATA, "weight_map.indices");
    RETURN_IF(map->top_k > 0 && map_is_shared(&sizes) && map->pooled == NULL, ATTN_ERR_NO_DATA,
              "weight_map.pooled");
    RETURN_IF(__builtin_mul_overflow(sizes.rows, sizes.cell_rows, &product)
                  || __builtin_mul_overflow(problem->key.shape[2], sizes.cell_columns, &product)
                  || __builtin_mul_overflow(problem->key.shape[2], 16 * full->q_tile, &bytes),
              ATTN_ERR_TOO_LARGE, "weight_map");
    return ATTN_OK;
}

/* --------------------------------------------------------------------------- a row of scores -- */

struct score_row {
    const struct attn_kernels *kernels;
    float max, sum; /* those of softmax_tile() for the row */
};

/* Of 2048 random numbers, 12 reach the bound for k = 8 and 48 that for k = 32. */
enum { CANDIDATES_MAX = 4 * ATTN_BOUND_MAX };

/* The greatest weight of each cell of a row of n masked scores, in place. Number j is in cell j *
 * cells / n; cells <= n. NaN is ignored. */
static void score_row_pool(const struct score_row *row, float *scores, int64_t n, int64_t cells)
{
    row->kernels->greatest_of_cells(scores, scores, n, cells);
    row->kernels->weights_row(scores, row->max, row->sum, cells);
    for (int64_t c = 0; c < cells; c++)
        scores[c] = scores[c] > 0.0f ? scores[c] : 0.0f;
}

/* Find the indices of all scores whose weight may be among the k greatest. Return 0 if there are
 * too many or if that cannot be decided. Equal weights are ordered by index, and different scores
 * may have equal weights. So a score is left out only if k other scores have a strictly greater
 * weight. */
static int64_t find_candidates(const struct score_row *row, const float *scores, int64_t n,
                               int64_t k, int64_t places[CANDIDATES_MAX])
{
    const float bound = row->kernels->bound_of_greatest(scores, n, k);
    const float below = bound - (1e-5f + 1e-6f * fabsf(bound));
    float weights[2] = { bound, below };

    if (isnan(row->sum) || !isfinite(below))
        return 0;
    row->kernels->weights_row(weights, row->max, row->sum, 2);
    if (!(weights[1] < weights[0]))
        return 0;
    const int64_t count = row->kernels->find_reaching(places, CANDIDATES_MAX, scores, n, below);
    return count <= CANDIDATES_MAX ? count : 0;
}

/* attn_top_k() of the weights of n masked scores, k <= ATTN_BOUND_MAX. Overwrites scores. */
static void score_row_top_k(const struct score_row *row, float *scores, int64_t n, int64_t k,
                            float *values, int64_t *indices)
{
    int64_t places[CANDIDATES_MAX];
    float candidates[CANDIDATES_MAX];
    const int64_t count = find_candidates(row, scores, n, k, places);

    if (count == 0) {
        row->kernels->weights_row(scores, row->max, row->sum, n);
        attn_top_k(scores, n, k, values, indices);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        candidates[i] = scores[places[i]];
    row->kernels->weights_row(candidates, row->max, row->sum, count);
    attn_top_k(candidates, count, k, values, indices);
    for (int64_t i = 0; i < k; i++)
        indices[i] = places[indices[i]];
}

/* ----------------------------------------------------------------------- the workspace -- */

/* Follows the plan's own workspace; for each row of the tile kv_len columns. sum and max share
 * their memory, since a map needs at most one of them. */
struct workspace {
    float *rows; /* weights of one head */
    double *sum; /* for MEAN */
    float *max;  /* for MAX */
};

static size_t row_numbers(const struct attn_plan_full *plan)
{
    return (size_t)(plan->q_tile * plan->problem.key.shape[2]);
}

/* Where the rows that are reduced over heads begin, in bytes. */
static size_t reduced_offset(const struct attn_plan_full *plan)
{
    return attn_align_up(plan->workspace_bytes) + attn_align_up(row_numbers(plan) * sizeof(float));
}

static size_t reduced_bytes(const struct attn_weight_map *map, const struct attn_plan_full *plan)
{
    const size_t size = map->heads == ATTN_MAP_MEAN  ? sizeof(double)
                        : map->heads == ATTN_MAP_MAX ? sizeof(float)
                                                     : 0;

    return row_numbers(plan) * size;
}

static struct workspace open_workspace(const struct attn_plan_full *plan, void *memory)
{
    void *rows = (char *)memory + attn_align_up(plan->workspace_bytes);
    void *reduced = (char *)memory + reduced_offset(plan);

    return (struct workspace){ .rows = rows, .sum = reduced, .max = reduced };
}

size_t attn_weight_map_workspace_bytes(const struct attn_weight_map *map,
                                       const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    return reduced_offset(full) + attn_align_up(reduced_bytes(map, full));
}

/* -------------------------------------------------------------- from a row to the result -- */

static void raise(float *cell, float value)
{
    float old;

    __atomic_load(cell, &old, __ATOMIC_RELAXED);
    while (
        old < value
        && !__atomic_compare_exchange(cell, &old, &value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* In place: a cell is never written before its first number is read. Weights are not negative; NaN
 * is ignored. */
static void pool_columns(float *row, int64_t columns, int64_t cells)
{
    for (int64_t c = 0; c < cells; c++) {
        const int64_t end = attn_divide_up((c + 1) * columns, cells);
        float max = 0.0f;
        for (int64_t j = attn_divide_up(c * columns, cells); j < end; j++)
            max = row[j] > max ? row[j] : max;
        row[c] = max;
    }
}

/* The sum of n numbers, in an order that depends on n alone. Eight sums side by side hide the
 * latency of an addition. */
static double sum_of(const float *numbers, int64_t n)
{
    double sums[8] = { 0 };
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += (double)numbers[i + k];
    for (; i < n; i++)
        sums[0] += (double)numbers[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3]))
           + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

static void deliver_spans(const struct attn_weight_map *map, const float *row, float *values)
{
    for (int64_t s = 0; s < map->span_count; s++)
        values[s] =
            (float)sum_of(row + map->spans[s].begin, map->spans[s].end - map->spans[s].begin);
}

/* Without pooling, columns are keys of the whole row. */
static void number_keys(const struct attn_weight_map *map, const struct map_sizes *sizes,
                        int64_t *indices)
{
    for (int64_t i = 0; map->pool_columns == 0 && i < sizes->columns; i++)
        indices[i] += sizes->first_key;
}

static void deliver_top_k(const struct attn_weight_map *map, const struct map_sizes *sizes,
                          int64_t cell, float *row, const struct score_row *scores)
{
    float *values = map->values + cell * sizes->columns;
    int64_t *indices = map->indices + cell * sizes->columns;

    if (sizes->cell_columns == sizes->keys && scores != NULL)
        score_row_top_k(scores, row, sizes->keys, sizes->columns, values, indices);
    else
        attn_top_k(row, sizes->cell_columns, sizes->columns, values, indices);
    number_keys(map, sizes, indices);
}

/* Reduce row i of the chosen rows and add it to the result. Overwrites row. scores is NULL if row
 * holds weights. */
static void deliver(const struct attn_weight_map *map, const struct map_sizes *sizes, int64_t head,
                    int64_t i, float *row, const struct score_row *scores)
{
    const bool shared = map_is_shared(sizes);
    const int64_t columns = sizes->cell_columns;
    const int64_t cell =
        head * sizes->cell_rows + (shared ? i * sizes->cell_rows / sizes->rows : i);
    float *values = map->values + cell * sizes->columns;

    row += sizes->first_key;
    if (columns < sizes->keys && scores != NULL)
        score_row_pool(scores, row, sizes->keys, columns);
    else if (columns < sizes->keys)
        pool_columns(row, sizes->keys, columns);
    if (map->spans != NULL) {
        deliver_spans(map, row, values);
    } else if (shared) {
        float *cells = map->top_k > 0 ? map->pooled + cell * columns : values;
        for (int64_t c = 0; c < columns; c++)
            raise(&cells[c], row[c]);
    } else if (map->top_k > 0) {
        deliver_top_k(map, sizes, cell, row, scores);
    } else {
        memcpy(values, row, (size_t)columns * sizeof *row);
    }
}

/* --------------------------------------------------------------------------- the tasks -- */

/* The row within its tile of chosen row i. */
static int64_t row_of_tile(const struct attn_weight_map *map, const struct attn_plan_full *plan,
                           int64_t i)
{
    return (map->row_list != NULL ? map->row_list[i] : map->region_rows.begin + i) % plan->q_tile;
}

static size_t offset_of(const struct attn_weight_map *map, const struct attn_plan_full *plan,
                        int64_t i)
{
    return (size_t)(row_of_tile(map, plan, i) * plan->problem.key.shape[2]);
}

/* Is it less work to reduce rows of scores than rows of weights? */
static bool takes_scores(const struct attn_weight_map *map, const struct attn_plan_full *plan,
                         const struct map_sizes *sizes)
{
    const struct attn_options *options = &plan->problem.options;
    const bool pools = sizes->cell_columns < sizes->keys;
    const bool selects =
        map->top_k > 0 && !map_is_shared(sizes) && sizes->columns <= ATTN_BOUND_MAX;

    return map->heads == ATTN_MAP_EACH && map->given == NULL && (pools || selects)
           && !plan->is_decode && !plan->in_double && options->normalizer == ATTN_SOFTMAX
           && options->dropout == 0.0f;
}

/* Run one task of the plan; its weights, or masked scores, go to rows, unless rows is NULL. */
static void run_plan(const struct attn_plan_full *plan, int64_t head, int64_t tile, void *workspace,
                     float *rows, bool keeps_scores)
{
    const int64_t kv_len = plan->problem.key.shape[2];
    struct attn_plan_full bound = *plan;

    bound.keeps_scores = keeps_scores;
    if (rows != NULL) {
        /* The plan counts rows from the first query; this memory begins at the first row of the
         * tile. */
        const size_t before = (size_t)(tile * plan->q_tile * kv_len) * sizeof *rows;
        bound.problem.weights =
            attn_tensor_dense((void *)((uintptr_t)rows - before), ATTN_F32, 1,
                              plan->problem.query.shape[1], plan->problem.query.shape[2], kv_len);
        bound.problem.weights.stride[1] = 0;
    } else if (!attn_wants_output(&plan->problem)) {
        return;
    }
    if (plan->is_decode) {
        const struct attn_decode_heads one = { head / plan->problem.query.shape[1],
                                               head % plan->problem.query.shape[1], 1 };
        attn_decode_run_heads(&bound, &one, workspace);
    } else {
        attn_plan_run(attn_plan_given(&bound), head * plan->q_tiles + tile, workspace);
    }
}

/* Put the given weights in place of those of the rows that have some. */
static void give_rows(const struct attn_weight_map *map, const struct attn_plan_full *plan,
                      int64_t head, int64_t tile, float *rows)
{
    const int64_t kv_len = plan->problem.key.shape[2], q_len = plan->problem.query.shape[2];
    const int64_t first = tile * plan->q_tile;

    for (int64_t r = 0; r < plan->q_tile && first + r < q_len; r++) {
        const float *weights = map->given[head * q_len + first + r];
        if (weights != NULL)
            memcpy(rows + r * kv_len, weights, (size_t)kv_len * sizeof *rows);
    }
}

/* The index of head in the result, or -1. */
static int64_t chosen_head(const struct attn_weight_map *map, int64_t head)
{
    if (map->head_list == NULL)
        return head;
    const int64_t i = map_lower_bound(map->head_list, map->head_count, head);
    return i < map->head_count && map->head_list[i] == head ? i : -1;
}

static void run_each(const struct attn_weight_map *map, const struct attn_plan_full *plan,
                     int64_t task, void *workspace)
{
    const struct map_sizes sizes = map_sizes_of_plan(map, plan);
    const int64_t head = task / plan->q_tiles;
    const int64_t tile = task % plan->q_tiles;
    const int64_t number = chosen_head(map, head);
    const struct map_chosen chosen = map_chosen(map, plan, tile);
    const bool is_wanted = number >= 0 && chosen.first < chosen.end;
    const bool has_scores = is_wanted && takes_scores(map, plan, &sizes);
    const struct workspace work = open_workspace(plan, workspace);
    struct attn_plan_full narrow = *plan;
    struct attn_workspace sums;

    narrow.width = attn_plan_tile_width(plan, tile);
    run_plan(plan, head, tile, workspace, is_wanted ? work.rows : NULL, has_scores);
    if (is_wanted && map->given != NULL)
        give_rows(map, plan, head, tile, work.rows);
    attn_workspace_cut(&sums, &narrow, workspace);
    for (int64_t i = chosen.first; is_wanted && i < chosen.end; i++) {
        const int64_t r = row_of_tile(map, plan, i);
        const struct score_row scores = { plan->kernels, has_scores ? sums.max[r] : 0.0f,
                                          has_scores ? sums.sum[r] : 0.0f };
        deliver(map, &sizes, number, i, work.rows + offset_of(map, plan, i),
                has_scores ? &scores : NULL);
    }
}

static void add_head(const struct attn_weight_map *map, const struct workspace *work, size_t offset,
                     int64_t kv_len)
{
    const float *row = work->rows + offset;

    if (map->heads == ATTN_MAP_MEAN)
        for (int64_t j = 0; j < kv_len; j++)
            work->sum[offset + (size_t)j] += (double)row[j];
    else
        for (int64_t j = 0; j < kv_len; j++)
            if (row[j] > work->max[offset + (size_t)j])
                work->max[offset + (size_t)j] = row[j];
}

/* Turn the sums or maxima over all heads into the row. */
static float *reduced_row(const struct attn_weight_map *map, const struct workspace *work,
                          size_t offset, int64_t kv_len, int64_t q_heads)
{
    float *row = work->rows + offset;

    if (map->heads == ATTN_MAP_MAX)
        return work->max + offset;
    for (int64_t j = 0; j < kv_len; j++)
        row[j] = (float)(work->sum[offset + (size_t)j] / (double)q_heads);
    return row;
}

/* Set the sums or maxima of a chosen row to 0. */
static void clear_row(const struct attn_weight_map *map, const struct workspace *work,
                      size_t offset, int64_t kv_len)
{
    if (map->heads == ATTN_MAP_MEAN)
        memset(work->sum + offset, 0, (size_t)kv_len * sizeof *work->sum);
    else
        memset(work->max + offset, 0, (size_t)kv_len * sizeof *work->max);
}

static void run_all_heads(const struct attn_weight_map *map, const struct attn_plan_full *plan,
                          int64_t tile, void *workspace)
{
    const struct map_sizes sizes = map_sizes_of_plan(map, plan);
    const int64_t kv_len = plan->problem.key.shape[2];
    const int64_t q_heads = plan->problem.query.shape[1];
    const struct map_chosen chosen = map_chosen(map, plan, tile);
    const bool is_wanted = chosen.first < chosen.end;
    const struct workspace work = open_workspace(plan, workspace);

    for (int64_t i = chosen.first; i < chosen.end; i++)
        clear_row(map, &work, offset_of(map, plan, i), kv_len);
    for (int64_t head = 0; head < q_heads; head++) {
        run_plan(plan, head, tile, workspace, is_wanted ? work.rows : NULL, false);
        if (is_wanted && map->given != NULL)
            give_rows(map, plan, head, tile, work.rows);
        for (int64_t i = chosen.first; i < chosen.end; i++)
            add_head(map, &work, offset_of(map, plan, i), kv_len);
    }
    for (int64_t i = chosen.first; i < chosen.end; i++)
        deliver(map, &sizes, 0, i,
                reduced_row(map, &work, offset_of(map, plan, i), kv_len, q_heads), NULL);
}

int64_t attn_weight_map_tasks(const struct attn_weight_map *map, const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    const int64_t heads = full->problem.query.shape[0] * full->problem.query.shape[1];

    return map->heads == ATTN_MAP_EACH ? heads * full->q_tiles : full->q_tiles;
}

void attn_weight_map_run(const struct attn_weight_map *map, const struct attn_plan *plan,
                         int64_t task, void *workspace)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    if (map->heads == ATTN_MAP_EACH)
        run_each(map, full, task, workspace);
    else
        run_all_heads(map, full, task, workspace);
}

int64_t attn_weight_map_select_tasks(const struct attn_weight_map *map,
                                     const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    const struct map_sizes sizes = map_sizes_of_plan(map, full);

    return map_is_shared(&sizes) && map->top_k > 0 ? sizes.heads * sizes.cell_rows : 0;
}

void attn_weight_map_select(const struct attn_weight_map *map, const struct attn_plan *plan,
                            int64_t task)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    const struct map_sizes sizes = map_sizes_of_plan(map, full);

    attn_top_k(map->pooled + task * sizes.cell_columns, sizes.cell_columns, sizes.columns,
               map->values + task * sizes.columns, map->indices + task * sizes.columns);
    number_keys(map, &sizes, map->indices + task * sizes.columns);
}
