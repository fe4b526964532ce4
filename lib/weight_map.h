/* SPDX-License-Identifier: Apache-2.0 */
/* weight_map.h - a weight map that is smaller than the whole.
 *
 * The weights [q_heads][q_len][kv_len] are reduced in this order; each step is optional:
 *
 *     heads   selected heads, or one map that is the mean or the maximum of all heads
 *     rows    selected query rows
 *     region  a range of query rows, and a range of keys. Weights stay those of a softmax over all
 *             keys; the others are left out of what follows
 *     pool    the largest weight of each cell of a grid: number i of n is in cell i * cells / n,
 *             rounded down
 *     top_k   the largest of each row, largest first, with their indices; among equal numbers the
 *             lower index comes first. An index is the number of a cell of the grid, or, if columns
 *             are not pooled, the number of a key, counted from key 0 of the problem
 *     spans   in place of pool and top_k: for each of a list of ranges of keys the sum of the row's
 *             weights over it, in double and rounded once
 *
 * The whole map is never stored: a task holds the rows of one tile of queries. The results are made
 * of the same bits as the whole map; a mean is summed in double. */
#ifndef ATTN_WEIGHT_MAP_H
#define ATTN_WEIGHT_MAP_H

#include "attn.h"

/* The numbers from begin to end - 1. */
struct attn_map_range {
    int64_t begin, end;
};

enum attn_map_heads { ATTN_MAP_EACH, ATTN_MAP_MEAN, ATTN_MAP_MAX };

struct attn_weight_map {
    enum attn_map_heads heads;
    const int64_t *head_list; /* [head_count], ascending, without repeats; NULL: all. For EACH */
    int64_t head_count;
    const int64_t *row_list; /* [row_count], ascending, without repeats; NULL: all */
    int64_t row_count;
    struct attn_map_range region_rows, region_keys; /* at least one number of each; {0, 0}: all.
                                                       region_rows is not used with row_list, and
                                                       region_keys not with spans */
    int64_t pool_rows, pool_columns;                /* number of cells, at most; 0: no pooling */
    int64_t top_k;                                  /* at most; 0: all */
    const struct attn_map_range *spans; /* [span_count], in any order, may be empty and overlap;
                                           NULL: none. span_count becomes the number of columns */
    int64_t span_count;

    /* NULL, or given weights of some rows (given.h), [q_heads][q_len]: the map is of these. */
    const float *const *given;

    /* Outputs, dense, of the shape that attn_weight_map_shape() returns. */
    float *values;    /* must be all 0 before the first task */
    int64_t *indices; /* with top_k, else NULL */
    float *pooled; /* attn_weight_map_pooled_count() numbers, if that is not 0; must be all 0 before
                      the first task */
};

/* Write the shape [heads][rows][columns] of the result for a problem of these sizes. */
void attn_weight_map_shape(const struct attn_weight_map *map, int64_t q_heads, int64_t q_len,
                           int64_t kv_len, int64_t shape[3]);

/* How many numbers pooling hands to top_k, if both are used; else 0. -1 on overflow. */
int64_t attn_weight_map_pooled_count(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len);

/* The part of the tiles of query rows that hold a chosen row, from 0 to 1. The other tiles compute
 * no weights for the map. */
double attn_weight_map_share(const struct attn_weight_map *map, const struct attn_plan *plan);

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
