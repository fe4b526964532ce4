/* checkpoint_layer.c - see checkpoint_layer.h.
 *
 * Reads the fields that the row names and sets what they mean for the layer. Then the row's
 * function adjust() sets what no field says, and the rotary embedding is read last. */
#include "checkpoint/checkpoint_layer.h"

#include "checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool read_heads(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    struct model_config *config = &layer->config;
    if (!checkpoint_read_integer(section, stack->width, &layer->width, fault)
        || !checkpoint_read_integer(section, stack->q_heads, &config->q_heads, fault)
        || !checkpoint_read_integer(section, stack->kv_heads, &config->kv_heads, fault)
        || !checkpoint_read_integer(section, stack->head_dim, &config->head_dim, fault))
        return false;
    if (layer->width == 0 || config->q_heads == 0)
        return fault_set_at(fault, "/config", FAULT_OPTION,
                            "config.json gives %" PRId64 " columns (%.*s) and %" PRId64
                            " heads (%.*s); expected 1 or more of each",
                            layer->width, CHECKPOINT_FIELD_NAME(section, stack->width),
                            config->q_heads, CHECKPOINT_FIELD_NAME(section, stack->q_heads));
    if (!config->kv_heads)
        config->kv_heads = config->q_heads;
    if (!config->head_dim && layer->width % config->q_heads != 0)
        return fault_set_at(fault, "/config", FAULT_SHAPE,
                            "config.json gives %" PRId64
                            " columns (%.*s), no multiple of its %" PRId64 " heads (%.*s)",
                            layer->width, CHECKPOINT_FIELD_NAME(section, stack->width),
                            config->q_heads, CHECKPOINT_FIELD_NAME(section, stack->q_heads));
    if (!config->head_dim)
        config->head_dim = layer->width / config->q_heads;
    return true;
}

/* Reads the layer's type from the list in config.json: "sliding_attention" has a window. */
static bool read_layer_type(struct checkpoint_layer *layer, const cJSON *types, struct fault *fault)
{
    const cJSON *type =
        layer->index < INT32_MAX ? cJSON_GetArrayItem(types, (int)layer->index) : NULL;
    const char *name = type && cJSON_IsString(type) ? type->valuestring : "nothing";
    layer->has_window = strcmp(name, "sliding_attention") == 0;
    if (layer->has_window || strcmp(name, "full_attention") == 0)
        return true;
    return fault_set_at(fault, "/config/layer_types", FAULT_OPTION,
                        "config.json's layer_types has '%.40s' for layer %" PRId64
                        "; expected full_attention or sliding_attention",
                        name, layer->index);
}

/* The list must give no windows to a family that has none. */
static bool check_full(struct checkpoint_layer *layer, const cJSON *types, struct fault *fault)
{
    if (!read_layer_type(layer, types, fault))
        return false;
    return !layer->has_window
           || fault_set_at(fault, "/config/layer_types", FAULT_OPTION,
                           "config.json's layer_types has 'sliding_attention' for layer %" PRId64
                           "; expected full_attention, for this family has no windows",
                           layer->index);
}

/* A decoder looks both ways where is_causal is false or a flag of its family says so: models for
 * embeddings are made so. Source: create_causal_mask() of transformers' masking_utils.py. */
static bool read_causal(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    bool is_causal;
    if (!checkpoint_read_flag(section, stack->causal, &layer->config.causal, fault)
        || !checkpoint_read_flag(section, "is_causal=true", &is_causal, fault)
        || !checkpoint_read_flag(section, stack->both_ways, &layer->looks_both_ways, fault))
        return false;
    layer->config.causal = layer->config.causal && is_causal && !layer->looks_both_ways;
    return true;
}

/* A causal row sees window keys, its own and those before it. A row that looks both ways sees
 * window keys on either side of its own; but half of that if it does so because of the family's own
 * flag, for window then counts both sides. Source: create_bidirectional_sliding_window_mask() of
 * masking_utils.py, and Gemma3TextConfig with _bidirectional_window_overlay() of gemma3. */
static void set_window(struct checkpoint_layer *layer, int64_t window)
{
    struct model_config *config = &layer->config;
    layer->has_window = layer->has_window && window > 0;
    if (!layer->has_window)
        return;
    config->window_left = config->causal           ? window - 1
                          : layer->looks_both_ways ? window / 2
                                                   : window;
    if (!config->causal)
        config->window_right = config->window_left;
}

static bool read_window(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, "layer_types");
    int64_t window;
    if (!stack->window)
        return !cJSON_IsArray(types) || check_full(layer, types, fault);
    if (!checkpoint_read_integer(section, stack->window, &window, fault))
        return false;
    layer->has_window = !stack->has_window || stack->has_window(section, layer->index);
    if (cJSON_IsArray(types) && !read_layer_type(layer, types, fault))
        return false;
    set_window(layer, window);
    return true;
}

static bool read_scale(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    double scale, scaled_by, softcap;
    if (!checkpoint_read_number(section, stack->scale, &scale, fault)
        || !checkpoint_read_number(section, stack->scale_from, &scaled_by, fault)
        || !checkpoint_read_number(section, stack->softcap, &softcap, fault))
        return false;
    layer->config.has_scale = stack->unscaled || scale > 0 || scaled_by > 0;
    layer->config.scale = stack->unscaled ? 1.0f
                          : scale > 0     ? (float)scale
                          : scaled_by > 0 ? (float)(1 / sqrt(scaled_by))
                                          : 1.0f;
    layer->config.softcap = (float)softcap;
    return true;
}

static bool read_biases(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    bool has_more;
    if (!checkpoint_read_flag(layer->run->section, stack->more_biases_if, &has_more, fault))
        return false;
    layer->biases = stack->biases | (has_more ? stack->more_biases : 0);
    return true;
}

/* The norms of query and key, and the clipping before them. */
static bool read_norms(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    layer->has_norms = stack->norms[0] != NULL;
    return checkpoint_read_number(section, stack->clip, &layer->clip, fault)
           && checkpoint_read_number(section, stack->norm_eps, &layer->norm_eps, fault)
           && (!stack->norms_if
               || checkpoint_read_flag(section, stack->norms_if, &layer->has_norms, fault));
}

static bool read_alibi(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    return checkpoint_read_flag(section, stack->alibi, &layer->has_alibi, fault)
           && checkpoint_read_number(section, stack->alibi_max ? stack->alibi_max : "=8",
                                     &layer->alibi_max, fault);
}

static bool check_refused(const struct checkpoint_layer *layer, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    const cJSON *node = checkpoint_find_set(layer->run->section, layer->run->stack->refused);
    if (!node)
        return true;
    snprintf(pointer, sizeof pointer, "/config/%s", node->string);
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "config.json sets %s, which changes the attention of this family in a way "
                        "that is not computed here; a config of ours with \"tensors\" serves the "
                        "same projections without it",
                        node->string);
}

/* Checked here because a fused tensor is sliced into kv_heads groups before shapes are checked. */
static bool check_groups(const struct checkpoint_layer *layer, struct fault *fault)
{
    const struct model_config *config = &layer->config;
    return config->q_heads % config->kv_heads == 0
           || fault_set_at(fault, "/config", FAULT_SHAPE,
                           "config.json gives %" PRId64 " query heads, no multiple of %" PRId64
                           " key/value heads",
                           config->q_heads, config->kv_heads);
}

bool checkpoint_layer_read(struct checkpoint_layer *layer, const struct checkpoint_run *run,
                           int64_t index, struct fault *fault)
{
    const struct checkpoint_stack *stack = run->stack;
    *layer = (struct checkpoint_layer){
        .run = run,
        .index = index,
        .config = {
            .attention = model_attention_find("scaled_dot_product"),
            .layers = 1,
            .window_left = -1,
            .window_right = -1,
            .in_out = stack->in_out,
        },
    };
    return check_refused(layer, fault) && read_heads(layer, fault) && read_causal(layer, fault)
           && read_alibi(layer, fault) && read_norms(layer, fault) && read_window(layer, fault)
           && read_scale(layer, fault) && read_biases(layer, fault)
           && (!stack->adjust || stack->adjust(layer, fault)) && check_groups(layer, fault)
           && checkpoint_rope_read(layer, fault);
}
