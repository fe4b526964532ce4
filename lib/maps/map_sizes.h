/* map_sizes.h - what a reduced map takes from a problem, and its sizes after each step. */
#ifndef ATTN_MAP_SIZES_H
#define ATTN_MAP_SIZES_H

#include "base/internal.h"
#include "weight_map.h"

struct attn_map_sizes {
    int64_t heads;           /* of the result */
    int64_t first_row, rows; /* chosen; first_row is 0 with a row_list */
    int64_t first_key, keys; /* kept */
    int64_t cell_rows, cell_columns;
    int64_t columns; /* of the result */
};

struct attn_map_sizes attn_map_sizes(const struct attn_weight_map *map, int64_t q_heads,
                                     int64_t q_len, int64_t kv_len);
struct attn_map_sizes attn_map_sizes_of_plan(const struct attn_weight_map *map,
                                             const struct attn_plan_full *plan);

/* Can rows of different tasks fall into one cell? */
bool attn_map_is_shared(const struct attn_map_sizes *sizes);

/* The chosen rows [first, end) that lie in a tile of queries, as indices into the choice. */
struct attn_map_chosen {
    int64_t first, end;
};
struct attn_map_chosen attn_map_chosen(const struct attn_weight_map *map,
                                       const struct attn_plan_full *plan, int64_t tile);

/* The first index of an ascending list whose number is value or more. */
int64_t attn_map_lower_bound(const int64_t *list, int64_t count, int64_t value);

#endif
