/* SPDX-License-Identifier: Apache-2.0 */
/* infer_results.c - see infer_results.h. */
#include "call/infer_results.h"

#include "base/dtype.h"
#include "call/infer_gradient.h"

#include <inttypes.h>
#include <string.h>

const char *const infer_output_names[ATTN_OUTPUT_COUNT] = {
#define X(NAME, name, columns, step) #name,
    ATTN_OUTPUT_MAP(X)
#undef X
};

size_t infer_selection_count(const struct infer_item *item)
{
    return item->has_selection ? (size_t)(item->layer.q_heads * item->q_len) : 0;
}

bool infer_has_weight_map(const struct infer_item *item)
{
    return item->has_weight_map && item->outputs[ATTN_OUTPUT_WEIGHTS];
}

size_t infer_numbers_per_element(const struct infer_item *item, enum attn_output output)
{
    return output == ATTN_OUTPUT_WEIGHTS && infer_has_weight_map(item) && item->weight_map.top_k > 0
               ? 2
               : 1;
}

int infer_output_shape(const struct infer_item *item, enum attn_output output, int64_t shape[3])
{
    if (output == ATTN_OUTPUT_CONTEXT && (item->partial || item->context_by_heads)) {
        shape[0] = item->layer.q_heads;
        shape[1] = item->q_len;
        shape[2] = item->layer.v_head_dim;
        return 3;
    }
    if (output == ATTN_OUTPUT_CONTEXT) {
        shape[0] = item->q_len;
        shape[1] = item->d_out;
        return 2;
    }
    if (output == ATTN_OUTPUT_WEIGHTS && infer_has_weight_map(item)) {
        attn_weight_map_shape(&item->weight_map, item->layer.q_heads, item->q_len, item->kv_len_max,
                              shape);
        return 3;
    }
    shape[0] = item->layer.q_heads;
    shape[1] = item->q_len;
    shape[2] = item->kv_len_max;
    return attn_output_is_map(output) ? 3 : 2;
}

/* The product of the dimensions, of which each counts as least or more. False on overflow. */
static bool multiply_dimensions(const struct infer_item *item, enum attn_output output,
                                int64_t least, size_t *count)
{
    int64_t shape[3];
    const int rank = infer_output_shape(item, output, shape);
    *count = 1;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(*count, (size_t)(shape[i] > least ? shape[i] : least), count))
            return false;
    return true;
}

bool infer_output_count(const struct infer_item *item, enum attn_output output, size_t *count)
{
    return multiply_dimensions(item, output, 0, count);
}

size_t infer_number_bytes(const struct infer_request *request)
{
    return request->number_bytes ? request->number_bytes : INFER_ANSWER_BYTES_PER_NUMBER;
}

bool infer_answer_bytes(const struct infer_request *request, const struct infer_item *item,
                        size_t *bytes)
{
    const size_t number_bytes = infer_number_bytes(request);
    /* As text a list without numbers takes room too, and a shape of no bytes may have any number of
     * heads. */
    const int64_t least = request->number_bytes ? 0 : 1;
    if (__builtin_mul_overflow(infer_selection_count(item), number_bytes, bytes))
        return false;
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        size_t count;
        if (item->outputs[i]
            && (!multiply_dimensions(item, i, least, &count)
                || __builtin_mul_overflow(count, infer_numbers_per_element(item, i), &count)
                || __builtin_mul_overflow(count, number_bytes, &count)
                || __builtin_add_overflow(*bytes, count, bytes)))
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------- dtypes -- */

static bool to_floats(struct infer_request *request, struct array *array, struct fault *fault)
{
    if (!array->data || array->dtype == ATTN_F32)
        return true;
    size_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= (size_t)array->shape[i]; /* no overflow: they are in memory */
    float *values = arena_alloc(request->arena, count * sizeof *values);
    if (!values)
        return fault_no_memory(fault);
    dtype_read(values, array->data, array->dtype, count);
    array->data = values;
    array->dtype = ATTN_F32;
    return true;
}

/* Attention alone takes every dtype; projections, gradients, reduced maps and merging do not. */
static bool takes_every_dtype(const struct infer_request *request, const struct infer_item *item)
{
    return item->model->parameterless && !request->gradients && !item->parts
           && !infer_has_weight_map(item);
}

bool infer_convert_inputs(struct infer_request *request, struct infer_item *item,
                          struct fault *fault)
{
    const struct array *first = item->parts ? &item->parts[0].context : &item->query;
    /* A partial answer is rounded once, when it has been merged. */
    item->answer_dtype = first->data && !item->partial ? first->dtype : ATTN_F32;
    item->result_dtype = ATTN_F32;
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (!to_floats(request, &item->per_head[i], fault))
            return false;
    if (takes_every_dtype(request, item)) {
        item->result_dtype = item->answer_dtype;
        return true;
    }
    for (int64_t i = 0; item->parts && i < item->part_count; i++)
        if (!to_floats(request, &item->parts[i].context, fault)
            || !to_floats(request, &item->parts[i].lse, fault))
            return false;
    return to_floats(request, &item->query, fault) && to_floats(request, &item->key, fault)
           && to_floats(request, &item->value, fault)
           && to_floats(request, &item->context_gradient, fault)
           && (item->mask.dtype == ATTN_BOOL || to_floats(request, &item->mask, fault));
}

enum attn_dtype infer_output_dtype(enum attn_dtype dtype, enum attn_output output)
{
    const bool is_short = attn_dtype_size(dtype) < attn_dtype_size(ATTN_F32);
    return output == ATTN_OUTPUT_LSE && is_short ? ATTN_F32 : dtype;
}

/* Replaces *numbers, count numbers of a dtype, by the same in another. */
static bool convert(struct infer_request *request, void **numbers, size_t count,
                    enum attn_dtype from, enum attn_dtype to, struct fault *fault)
{
    if (from != ATTN_F32) {
        float *values = arena_alloc(request->arena, count * sizeof *values);
        if (!values)
            return fault_no_memory(fault);
        dtype_read(values, *numbers, from, count);
        *numbers = values;
    }
    if (to == ATTN_F32)
        return true;
    void *converted = arena_alloc(request->arena, count * attn_dtype_size(to));
    if (!converted)
        return fault_no_memory(fault);
    dtype_write(converted, to, *numbers, count);
    *numbers = converted;
    return true;
}

bool infer_convert_results(struct infer_request *request, struct infer_item *item,
                           enum attn_dtype dtype, struct fault *fault)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        const enum attn_dtype from = infer_output_dtype(item->result_dtype, i);
        const enum attn_dtype to = infer_output_dtype(dtype, i);
        size_t count = 0;
        if (from == to || !item->results[i] || !infer_output_count(item, i, &count))
            continue;
        count *= request->joined ? (size_t)request->item_count : 1;
        if (!convert(request, &item->results[i], count, from, to, fault))
            return false;
    }
    item->result_dtype = dtype;
    return true;
}

/* ------------------------------------------------------------- weight map -- */

/* Lists ascend, so only the last entry is checked. */
static bool check_list(const char *pointer, const char *name, const int64_t *list, int64_t count,
                       int64_t end, struct fault *fault)
{
    if (!list || count == 0 || list[count - 1] < end)
        return true;
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "weight_map wants %s %" PRId64 "; there are %" PRId64 ", counted from 0",
                        name, list[count - 1], end);
}

static bool check_region(const struct attn_weight_map *map, int64_t q_len, int64_t kv_len,
                         struct fault *fault)
{
    const struct attn_map_range *rows = &map->region_rows, *keys = &map->region_keys;
    if (rows->end > 0 && map->row_list)
        return fault_set_at(fault, "/weight_map/region/rows", FAULT_OPTION,
                            "weight_map has rows and a region of rows; expected one of them");
    if (rows->end > q_len)
        return fault_set_at(fault, "/weight_map/region/rows", FAULT_OPTION,
                            "the region ends before row %" PRId64 "; there are %" PRId64
                            ", counted from 0",
                            rows->end, q_len);
    return keys->end <= kv_len
           || fault_set_at(fault, "/weight_map/region/keys", FAULT_OPTION,
                           "the region ends before key %" PRId64 "; there are %" PRId64
                           ", counted from 0",
                           keys->end, kv_len);
}

bool infer_check_weight_map(const struct infer_item *item, struct fault *fault)
{
    const struct attn_weight_map *map = &item->weight_map;
    return !infer_has_weight_map(item)
           || (check_list("/weight_map/heads", "head", map->head_list, map->head_count,
                          item->layer.q_heads, fault)
               && check_list("/weight_map/rows", "row", map->row_list, map->row_count, item->q_len,
                             fault)
               && check_region(map, item->q_len, item->kv_len_max, fault));
}

bool infer_plan_weight_map(struct infer_request *request, struct infer_item *item,
                           struct attn_layer_problem *problem, const struct infer_limits *limits,
                           struct fault *fault)
{
    struct attn_weight_map *map = &item->weight_map;
    int64_t shape[3];
    if (!infer_has_weight_map(item))
        return true;
    infer_output_shape(item, ATTN_OUTPUT_WEIGHTS, shape);
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    const int64_t pooled =
        attn_weight_map_pooled_count(map, item->layer.q_heads, item->q_len, item->kv_len_max);
    if (pooled < 0 || (size_t)pooled > limits->scratch_bytes_max / sizeof(float))
        return fault_set_at(fault, "/weight_map/pool", FAULT_TOO_LARGE,
                            "the pooled map needs more than the %zu bytes that are given to "
                            "compute in",
                            limits->scratch_bytes_max);
    map->values = item->results[ATTN_OUTPUT_WEIGHTS];
    map->given = item->given;
    memset(map->values, 0, count * sizeof *map->values);
    if (map->top_k > 0) {
        if (!map->indices)
            map->indices = arena_alloc(request->arena, count * sizeof *map->indices);
        if (!map->pooled)
            map->pooled = arena_alloc(request->arena, (size_t)pooled * sizeof *map->pooled);
        if (!map->indices || !map->pooled)
            return fault_no_memory(fault);
        memset(map->indices, 0, count * sizeof *map->indices);
        memset(map->pooled, 0, (size_t)pooled * sizeof *map->pooled);
    }
    problem->weights = NULL;
    problem->weight_map = map;
    return true;
}

/* -------------------------------------------------------------- selection -- */

/* What does not go with a selection, in the client's words; NULL: nothing. */
static const char *find_unfit(const struct infer_item *item,
                              const struct attn_layer_problem *problem, const char **pointer)
{
    const struct attn_options *options = &problem->options;
    *pointer = "/outputs";
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (item->outputs[i] && i != ATTN_OUTPUT_CONTEXT && i != ATTN_OUTPUT_LSE)
            return infer_output_names[i];
    *pointer = "/mask";
    if (problem->mask.data || item->mask.data)
        return "a mask";
    *pointer = "/select";
    if (item->model->layers[item->layer_index].relative_bias.values)
        return "a model with relative position bias";
    if (item->layer.additive_weight)
        return "a layer with additive scores";
    if (problem->alibi_slopes)
        return "ALiBi";
    if (options->window_left >= 0)
        return "window_left";
    if (options->chunk > 0)
        return "attention in chunks";
    if (options->dropout > 0)
        return "dropout";
    if (options->normalizer != ATTN_SOFTMAX)
        return "normalizer 'sparsemax'";
    if (options->softmax_precision == ATTN_F64 || problem->query.dtype == ATTN_F64)
        return "arithmetic in double";
    return NULL;
}

static bool allocate_selection(struct infer_request *request, struct infer_item *item,
                               struct fault *fault)
{
    struct attn_selection *selection = &item->selection;
    const size_t rows = (size_t)(item->layer.kv_heads * item->q_len) + 1;
    selection->mass_left =
        arena_calloc(request->arena, infer_selection_count(item) + 1, sizeof *selection->mass_left);
    selection->keys_read = arena_calloc(request->arena, rows, sizeof *selection->keys_read);
    selection->keys_seen = arena_calloc(request->arena, rows, sizeof *selection->keys_seen);
    return (selection->mass_left && selection->keys_read && selection->keys_seen)
           || fault_no_memory(fault);
}

bool infer_plan_selection(struct infer_request *request, struct infer_item *item,
                          struct attn_layer_problem *problem, struct fault *fault)
{
    const char *pointer = "";
    if (!item->has_selection)
        return true;
    const char *other = find_unfit(item, problem, &pointer);
    if (other)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "select does not go with %s; it takes causal, kv_len, softcap and "
                            "sinks, and answers context and lse",
                            other);
    if (item->cache) {
        item->selection.bounds = item->cache->bounds;
        item->selection.bounds_count = item->cache->bounds_count;
    }
    if (!allocate_selection(request, item, fault))
        return false;
    problem->selection = &item->selection;
    return true;
}

void infer_selection_keys(const struct infer_item *item, int64_t *read, int64_t *seen)
{
    *read = *seen = 0;
    for (int64_t i = 0; i < item->layer.kv_heads * item->q_len; i++) {
        *read += item->selection.keys_read[i];
        *seen += item->selection.keys_seen[i];
    }
}

/* ------------------------------------------------------------------ tasks -- */

int64_t infer_tasks_count(const struct infer_item *item, int stage)
{
    if (item->gradient)
        return stage < item->gradient->plan.stage_count ? item->gradient->plan.task_count[stage]
                                                        : 0;
    return stage < item->plan.stage_count ? item->plan.task_count[stage] : 0;
}

void infer_tasks_run(const struct infer_item *item, int stage, int64_t task, void *workspace)
{
    if (item->gradient)
        attn_layer_gradient_run(&item->gradient->plan, stage, task, item->scratch, workspace);
    else
        attn_layer_run(&item->plan, stage, task, item->scratch, workspace);
}

size_t infer_tasks_scratch_bytes(const struct infer_item *item)
{
    return item->gradient ? item->gradient->plan.scratch_bytes : item->plan.scratch_bytes;
}

size_t infer_tasks_workspace_bytes(const struct infer_item *item)
{
    return item->gradient ? item->gradient->plan.workspace_bytes : item->plan.workspace_bytes;
}

/* ----------------------------------------------------------------- memory -- */

/* For every item of a joined request at once, else for one item. */
static void *allocate_results(struct infer_request *request, size_t size)
{
    if (request->joined && __builtin_mul_overflow(size, (size_t)request->item_count, &size))
        return NULL;
    return arena_alloc(request->arena, size);
}

bool infer_allocate_results(struct infer_request *request, struct infer_item *item,
                            struct fault *fault)
{
    const struct infer_item *first = request->items; /* NULL: of no request, as in a pass */
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        size_t count, size;
        if (!item->outputs[i] || item->results[i])
            continue;
        if (!infer_output_count(item, i, &count))
            return fault_no_memory(fault);
        size = count * attn_dtype_size(infer_output_dtype(item->result_dtype, i));
        if (request->joined && item != first)
            item->results[i] = (char *)first->results[i] + (size_t)(item - first) * size;
        else
            item->results[i] = allocate_results(request, size);
        if (!item->results[i])
            return fault_no_memory(fault);
    }
    return true;
}

bool infer_allocate_scratch(struct infer_request *request, struct infer_item *item,
                            const struct infer_limits *limits, struct fault *fault)
{
    const size_t scratch_bytes = infer_tasks_scratch_bytes(item);
    const size_t workspace_bytes = infer_tasks_workspace_bytes(item);
    size_t workspaces = 0;
    if (workspace_bytes > limits->workspace_bytes)
        workspaces = workspace_bytes * (size_t)limits->worker_count;
    if (scratch_bytes > limits->scratch_bytes_max || workspaces > limits->scratch_bytes_max)
        return fault_set(fault, FAULT_TOO_LARGE,
                         "the request needs %zu bytes to compute in; at most %zu are given",
                         scratch_bytes + workspaces, limits->scratch_bytes_max);
    if (scratch_bytes) {
        item->scratch = arena_alloc(request->arena, scratch_bytes);
        if (!item->scratch)
            return fault_no_memory(fault);
    }
    if (workspaces) {
        item->workspaces = arena_alloc(request->arena, workspaces);
        if (!item->workspaces)
            return fault_no_memory(fault);
    }
    return true;
}
