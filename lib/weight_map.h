/* weight_map.h - a weight map that is smaller than the whole.
 *
 * The weights [q_heads][q_len][kv_len] are reduced in this order; each step is optional:
 *
 *     heads   selected heads, or one map that is the mean or the maximum of all heads
 *     rows    selected query rows
 *     pool    the largest weight of each cell of a grid: number i of n is in cell i * cells / n,
 *             rounded down
 *     top_k   the largest of each row, largest first, with their indices; among equal numbers the
 *             lower index comes first
 *
 * The whole map is never stored: a task holds the rows of one tile of queries. The results are made
 * of the same bits as the whole map; a mean is summed in double. */
#ifndef ATTN_WEIGHT_MAP_H
#define ATTN_WEIGHT_MAP_H

#include "attn.h"

enum attn_map_heads { ATTN_MAP_EACH, ATTN_MAP_MEAN, ATTN_MAP_MAX };

struct attn_weight_map {
    enum attn_map_heads heads;
    const int64_t *head_list; /* [head_count], ascending, without repeats; NULL: all. For EACH */
    int64_t head_count;
    const int64_t *row_list; /* [row_count], ascending, without repeats; NULL: all */
    int64_t row_count;
    int64_t pool_rows, pool_columns; /* number of cells, at most; 0: no pooling */
    int64_t top_k;                   /* at most; 0: all */

    /* Outputs, dense, of the shape that attn_weight_map_shape() returns. */
    float *values;    /* must be all 0 before the first task */
    int64_t *indices; /* with top_k: column indices, after pooling; else NULL */
    float *pooled; /* attn_weight_map_pooled_count() numbers, if that is not 0; must be all 0 before
                      the first task */
};

/* Write the shape [heads][rows][columns] of the result for a problem of these sizes. */
void attn_weight_map_shape(const struct attn_weight_map *map, int64_t q_heads, int64_t q_len,
                           int64_t kv_len, int64_t shape[3]);

/* How many numbers pooling hands to top_k, if both are used; else 0. -1 on overflow. */
int64_t attn_weight_map_pooled_count(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len);

/* Check that the map can be made of the plan's problem, which must have batch 1 and no weights
 * output. Errors as for attn_plan_init(); *where names a field of struct attn_weight_map. */
enum attn_status attn_weight_map_check(const struct attn_weight_map *map,
                                       const struct attn_plan *plan, const char **where);

/* Use these three in place of the plan's task_count, workspace_bytes and attn_plan_run(). The tasks
 * compute the plan's other outputs too. */
int64_t attn_weight_map_tasks(const struct attn_weight_map *map, const struct attn_plan *plan);
size_t attn_weight_map_workspace_bytes(const struct attn_weight_map *map,
                                       const struct attn_plan *plan);
void attn_weight_map_run(const struct attn_weight_map *map, const struct attn_plan *plan,
                         int64_t task, void *workspace);

/* After the last of those tasks: tasks that take top_k of the pooled numbers. 0 tasks if nothing is
 * left to do. */
int64_t attn_weight_map_select_tasks(const struct attn_weight_map *map,
                                     const struct attn_plan *plan);
void attn_weight_map_select(const struct attn_weight_map *map, const struct attn_plan *plan,
                            int64_t task);

#endif
