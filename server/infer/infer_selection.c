/* infer_selection.c - see infer_selection.h. */
#include "infer/infer_selection.h"

size_t infer_selection_count(const struct infer_item *item)
{
    return item->has_selection ? (size_t)(item->layer.q_heads * item->q_len) : 0;
}

/* What does not go with a selection, in the client's words; NULL: nothing. */
static const char *find_other(const struct infer_item *item,
                              const struct attn_layer_problem *problem, const char **pointer)
{
    const struct attn_options *options = &problem->options;
    *pointer = "/outputs";
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (item->outputs[i] && attn_output_is_map(i))
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
    if (options->dropout > 0)
        return "dropout";
    if (options->normalizer != ATTN_SOFTMAX)
        return "normalizer 'sparsemax'";
    if (options->softmax_precision == ATTN_F64 || problem->query.dtype == ATTN_F64)
        return "arithmetic in double";
    return NULL;
}

static bool allocate(struct infer_request *request, struct infer_item *item, struct fault *fault)
{
    struct attn_selection *selection = &item->selection;
    const size_t rows = (size_t)(item->layer.kv_heads * item->q_len) + 1;
    selection->mass_left = arena_calloc(&request->arena, infer_selection_count(item) + 1,
                                        sizeof *selection->mass_left);
    selection->keys_read = arena_calloc(&request->arena, rows, sizeof *selection->keys_read);
    selection->keys_seen = arena_calloc(&request->arena, rows, sizeof *selection->keys_seen);
    return (selection->mass_left && selection->keys_read && selection->keys_seen)
           || fault_no_memory(fault);
}

bool infer_plan_selection(struct infer_request *request, struct infer_item *item,
                          struct attn_layer_problem *problem, struct fault *fault)
{
    const char *pointer = "";
    if (!item->has_selection)
        return true;
    const char *other = find_other(item, problem, &pointer);
    if (other)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "select does not go with %s; it takes causal, kv_len, softcap and "
                            "sinks, and answers context and lse",
                            other);
    if (item->cache) {
        item->selection.bounds = item->cache->bounds;
        item->selection.bounds_count = item->cache->bounds_count;
    }
    if (!allocate(request, item, fault))
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
