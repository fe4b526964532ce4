/* weight_map.h - a smaller weight map than the whole.
 *
 * The weights of [q_heads][q_len][kv_len] are reduced in this order, each step where it is asked
 * for:
 *
 *     heads   chosen ones, or one map that is their mean or their largest
 *     rows    chosen query rows
 *     pool    the largest weight of each cell of a grid: number i of n is in cell i * cells / n,
 *             rounded down
 *     top_k   the largest of each row, largest first, and where they are; of equal ones the lower
 *             index comes first
 *
 * The whole map is never there: a task holds the rows of one tile of queries. What is answered is
 * made of the very bits that the whole map has; a mean is summed in double. */
#ifndef ATTN_WEIGHT_MAP_H
#define ATTN_WEIGHT_MAP_H

#include "attn.h"

enum attn_map_heads { ATTN_MAP_EACH, ATTN_MAP_MEAN, ATTN_MAP_MAX };

struct attn_weight_map {
    enum attn_map_heads heads;
    const int64_t *head_list; /* [head_count], ascending, each once; NULL: all. For EACH */
    int64_t head_count;
    const int64_t *row_list; /* [row_count], ascending, each once; NULL: all */
    int64_t row_count;
    int64_t pool_rows, pool_columns; /* cells at the most; 0: not pooled */
    int64_t top_k;                   /* at the most; 0: all */

    /* Outputs, dense, in the shape that attn_weight_map_shape() says. */
    float *values;    /* all 0 before the first task */
    int64_t *indices; /* with top_k: columns, after pooling; else NULL */
    float *pooled; /* where attn_weight_map_pooled_count() is not 0: so many numbers, all 0 before
                      the first task */
};

/* [heads][rows][columns] of what is answered for a problem of these sizes. */
void attn_weight_map_shape(const struct attn_weight_map *map, int64_t q_heads, int64_t q_len,
                           int64_t kv_len, int64_t shape[3]);

/* The numbers between pooling and top_k, where there are both; -1 on overflow. */
int64_t attn_weight_map_pooled_count(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len);

/* Whether the map can be made of the plan's problem, which has a batch of 1 and no weights among
 * its outputs. As attn_plan_init(); *where is a field of struct attn_weight_map. */
enum attn_status attn_weight_map_check(const struct attn_weight_map *map,
                                       const struct attn_plan *plan, const char **where);

/* In place of the plan's own task_count, workspace_bytes and attn_plan_run(): the tasks compute the
 * plan's other outputs too. */
int64_t attn_weight_map_tasks(const struct attn_weight_map *map, const struct attn_plan *plan);
size_t attn_weight_map_workspace_bytes(const struct attn_weight_map *map,
                                       const struct attn_plan *plan);
void attn_weight_map_run(const struct attn_weight_map *map, const struct attn_plan *plan,
                         int64_t task, void *workspace);

/* After the last of those tasks: tasks that take top_k of what was pooled. 0 where there is nothing
 * left to do. */
int64_t attn_weight_map_select_tasks(const struct attn_weight_map *map,
                                     const struct attn_plan *plan);
void attn_weight_map_select(const struct attn_weight_map *map, const struct attn_plan *plan,
                            int64_t task);

#endif
