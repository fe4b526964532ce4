/* map_sizes.c - the shape of a reduced map, and the checks of what it chooses. */
#include "maps/map_sizes.h"

#include "base/internal.h"

/* The numbers that a range chooses of 0 to count - 1. */
static struct attn_map_range chosen_range(const struct attn_map_range *range, int64_t count)
{
    return range->end > 0 ? *range : (struct attn_map_range){ 0, count };
}

struct attn_map_sizes attn_map_sizes(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len)
{
    const struct attn_map_range rows = chosen_range(&map->region_rows, q_len);
    const struct attn_map_range keys = chosen_range(&map->region_keys, kv_len);
    struct attn_map_sizes sizes;

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

struct attn_map_sizes attn_map_sizes_of_plan(const struct attn_weight_map *map,
                                             const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;

    return attn_map_sizes(map, problem->query.shape[1], problem->query.shape[2],
                          problem->key.shape[2]);
}

bool attn_map_is_shared(const struct attn_map_sizes *sizes)
{
    return sizes->cell_rows < sizes->rows;
}

void attn_weight_map_shape(const struct attn_weight_map *map, int64_t q_heads, int64_t q_len,
                           int64_t kv_len, int64_t shape[3])
{
    const struct attn_map_sizes sizes = attn_map_sizes(map, q_heads, q_len, kv_len);

    shape[0] = sizes.heads;
    shape[1] = sizes.cell_rows;
    shape[2] = sizes.columns;
}

int64_t attn_weight_map_pooled_count(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len)
{
    const struct attn_map_sizes sizes = attn_map_sizes(map, q_heads, q_len, kv_len);
    int64_t count;

    if (!attn_map_is_shared(&sizes) || map->top_k == 0)
        return 0;
    if (__builtin_mul_overflow(sizes.heads, sizes.cell_rows, &count)
        || __builtin_mul_overflow(count, sizes.cell_columns, &count))
        return -1;
    return count;
}

/* ------------------------------------------------------------------------- chosen rows -- */

int64_t attn_map_lower_bound(const int64_t *list, int64_t count, int64_t value)
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

struct attn_map_chosen attn_map_chosen(const struct attn_weight_map *map,
                                       const struct attn_plan_full *plan, int64_t tile)
{
    const struct attn_map_sizes sizes = attn_map_sizes_of_plan(map, plan);
    const int64_t first = tile * plan->q_tile;
    const int64_t end = first + plan->q_tile;

    if (map->row_list != NULL)
        return (struct attn_map_chosen){ attn_map_lower_bound(map->row_list, map->row_count, first),
                                         attn_map_lower_bound(map->row_list, map->row_count, end) };
    return (struct attn_map_chosen){ attn_max(first - sizes.first_row, 0),
                                     attn_min(end - sizes.first_row, sizes.rows) };
}

double attn_weight_map_share(const struct attn_weight_map *map, const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    int64_t tiles = 0;

    for (int64_t tile = 0; tile < full->q_tiles; tile++) {
        const struct attn_map_chosen chosen = attn_map_chosen(map, full, tile);
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
    const struct attn_map_sizes sizes = attn_map_sizes_of_plan(map, full);
    RETURN_IF(map->values == NULL, ATTN_ERR_NO_DATA, "weight_map.values");
    RETURN_IF(map->top_k > 0 && map->indices == NULL, ATTN_ERR_NO_DATA, "weight_map.indices");
    RETURN_IF(map->top_k > 0 && attn_map_is_shared(&sizes) && map->pooled == NULL, ATTN_ERR_NO_DATA,
              "weight_map.pooled");
    RETURN_IF(__builtin_mul_overflow(sizes.rows, sizes.cell_rows, &product)
                  || __builtin_mul_overflow(problem->key.shape[2], sizes.cell_columns, &product)
                  || __builtin_mul_overflow(problem->key.shape[2], 16 * full->q_tile, &bytes),
              ATTN_ERR_TOO_LARGE, "weight_map");
    return ATTN_OK;
}
