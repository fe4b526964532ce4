/* infer_weight_map.c - see infer_weight_map.h. */
#include "infer/infer_weight_map.h"

#include "infer/infer_results.h"

#include <inttypes.h>
#include <string.h>

/* Lists ascend, so the last one tells. */
static bool check_list(const char *pointer, const char *name, const int64_t *list, int64_t count,
                       int64_t end, struct fault *fault)
{
    if (!list || count == 0 || list[count - 1] < end)
        return true;
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "weight_map wants %s %" PRId64 "; there are %" PRId64 ", counted from 0",
                        name, list[count - 1], end);
}

bool infer_check_weight_map(const struct infer_item *item, struct fault *fault)
{
    const struct attn_weight_map *map = &item->weight_map;
    return !infer_has_weight_map(item)
           || (check_list("/weight_map/heads", "head", map->head_list, map->head_count,
                          item->layer.q_heads, fault)
               && check_list("/weight_map/rows", "row", map->row_list, map->row_count, item->q_len,
                             fault));
}

bool infer_plan_weight_map(struct infer_request *request, struct infer_item *item,
                           struct attn_layer_problem *problem, const struct infer_limits *limits,
                           struct fault *fault)
{
    struct attn_weight_map *map = &item->weight_map;
    int64_t shape[3];
    if (!infer_has_weight_map(item))
        return true;
    infer_output_shape(item, INFER_WEIGHTS, shape);
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    const int64_t pooled =
        attn_weight_map_pooled_count(map, item->layer.q_heads, item->q_len, item->kv_len_max);
    if (pooled < 0 || (size_t)pooled > limits->scratch_bytes_max / sizeof(float))
        return fault_set_at(fault, "/weight_map/pool", FAULT_TOO_LARGE,
                            "the pooled map needs more than the %zu bytes that are given to "
                            "compute in",
                            limits->scratch_bytes_max);
    map->values = item->results[INFER_WEIGHTS];
    memset(map->values, 0, count * sizeof *map->values);
    if (map->top_k > 0) {
        map->indices = arena_calloc(&request->arena, count, sizeof *map->indices);
        map->pooled = arena_calloc(&request->arena, (size_t)pooled, sizeof *map->pooled);
        if (!map->indices || !map->pooled)
            return fault_no_memory(fault);
    }
    problem->weights = NULL;
    problem->weight_map = map;
    return true;
}
