/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_layer.c - reads the fields that the row names and sets what they mean for the layer.
 * Then the row's function adjust() sets what no field says, and the rotary embedding is read last.
 */
#include "models/checkpoint/checkpoint_layer.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_tensors.h"
#include "models/model/model_config.h"

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

/* Reads the layer's type from the list in config.json: "sliding_attention" has a window, and
 * "chunked_attention" chunks. */
static bool read_layer_type(struct checkpoint_layer *layer, const cJSON *types, struct fault *fault)
{
    const cJSON *type =
        layer->index < INT32_MAX ? cJSON_GetArrayItem(types, (int)layer->index) : NULL;
    const char *name = type && cJSON_IsString(type) ? type->valuestring : "nothing";
    const bool may_chunk = layer->run->stack->chunk != NULL;
    layer->has_window = !may_chunk && strcmp(name, "sliding_attention") == 0;
    layer->is_chunked = may_chunk && strcmp(name, "chunked_attention") == 0;
    if (layer->has_window || layer->is_chunked || strcmp(name, "full_attention") == 0
        || (layer->run->stack->other_kind && strcmp(name, "attention") == 0))
        return true;
    return fault_set_at(fault, "/config/layer_types", FAULT_OPTION,
                        "config.json's layer_types has '%.40s' for layer %" PRId64
                        "; expected full_attention or %s_attention",
                        name, layer->index, may_chunk ? "chunked" : "sliding");
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
 * embeddings are made so. An encoder does not look one way. Source: create_causal_mask() of
 * transformers' masking_utils.py. */
static bool read_causal(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    bool is_causal;
    if (!checkpoint_read_flag(section, stack->causal, &layer->config.causal, fault)
        || !checkpoint_read_flag(section, "is_causal=true", &is_causal, fault)
        || !checkpoint_read_flag(section, stack->both_ways, &layer->looks_both_ways, fault))
        return false;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "is_causal"))
        && strcmp(stack->kind, "self") == 0 && !layer->config.causal)
        return fault_set_at(fault, "/config/is_causal", FAULT_OPTION,
                            "config.json's is_causal is true; its family looks both ways");
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

/* Without layer_types the row's adjust() says which layers have no chunks. */
static bool read_chunk(struct checkpoint_layer *layer, const cJSON *types, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    layer->is_chunked = true;
    return (!cJSON_IsArray(types) || read_layer_type(layer, types, fault))
           && checkpoint_read_integer(section, layer->is_chunked ? layer->run->stack->chunk : "=0",
                                      &layer->config.chunk, fault);
}

static bool read_window(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, "layer_types");
    int64_t window;
    if (stack->chunk)
        return read_chunk(layer, types, fault);
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

/* Numbers that are floats can make one that is none: YaRN's, or the root of a tiny one. */
static bool check_scale(const struct checkpoint_layer *layer, struct fault *fault)
{
    return isfinite(layer->config.scale)
           || fault_set_at(fault, "/config", FAULT_OPTION,
                           "config.json makes the scale of scores %g; expected one that a 32-bit "
                           "float holds",
                           (double)layer->config.scale);
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
    layer->has_norms = stack->norms[0] != NULL || stack->norms_are_bare;
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

static bool check_quarters(const struct checkpoint_layer *layer, struct fault *fault)
{
    const int64_t heads = layer->config.q_heads;
    return layer->run->stack->fusion != CHECKPOINT_QUARTERS || heads % 4 == 0
           || fault_set_at(fault, "/config", FAULT_SHAPE,
                           "config.json gives %" PRId64
                           " heads (%.*s); expected a multiple of 4, for the fused tensor has four "
                           "parts of as many heads each",
                           heads,
                           CHECKPOINT_FIELD_NAME(layer->run->section, layer->run->stack->q_heads));
}

/* Checked here because a fused tensor is sliced into kv_heads groups before shapes are checked. */
static bool check_groups(const struct checkpoint_layer *layer, struct fault *fault)
{
    const struct model_config *config = &layer->config;
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    return config->q_heads % config->kv_heads == 0
           || fault_set_at(fault, "/config", FAULT_SHAPE,
                           "config.json gives %" PRId64
                           " query heads (%.*s), no multiple of %" PRId64 " key/value heads (%.*s)",
                           config->q_heads, CHECKPOINT_FIELD_NAME(section, stack->q_heads),
                           config->kv_heads, CHECKPOINT_FIELD_NAME(section, stack->kv_heads));
}

/* --------------------------------------------------------- rotary embedding -- */

/* Layers with a window may have their own theta, and then rope_scaling is not for them. theta
 * is at the top of config.json or, in newer files, in rope_parameters. The scaling is in
 * rope_scaling or in rope_parameters, and its members have the names that they have in our own
 * config. So the scaling is translated to our form, and model_config.c reads and refuses both forms
 * alike. */

/* rope_parameters; NULL where the family's theta is always the same. */
static const cJSON *all_rope_parameters(const struct checkpoint_layer *layer)
{
    return layer->run->stack->theta && layer->run->stack->theta[0] != '='
               ? cJSON_GetObjectItemCaseSensitive(layer->run->section, "rope_parameters")
               : NULL;
}

/* What rope_parameters has for layers of this layer's type; NULL: it is the same for all. */
static const cJSON *rope_parameters_of_type(const struct checkpoint_layer *layer)
{
    return cJSON_GetObjectItemCaseSensitive(
        all_rope_parameters(layer), layer->has_window ? "sliding_attention" : "full_attention");
}

static const cJSON *rope_parameters_of(const struct checkpoint_layer *layer)
{
    const cJSON *of_type = rope_parameters_of_type(layer);
    return of_type ? of_type : all_rope_parameters(layer);
}

/* The object that says how the layer's rotary embedding is scaled; NULL: none does. */
static const cJSON *rope_scaling_of(const struct checkpoint_layer *layer)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    if (layer->has_window && stack->local_theta)
        return rope_parameters_of_type(layer);
    const cJSON *own = layer->is_unscaled ? NULL
                                          : checkpoint_find_object(layer->run->section,
                                                                   stack->scaling ? stack->scaling
                                                                                  : "rope_scaling");
    return own ? own : rope_parameters_of(layer);
}

/* Reads a number from the scaling, else from rope_parameters; 0: neither has it. */
static bool read_rope_number(const struct checkpoint_layer *layer, const char *name, double *value,
                             struct fault *fault)
{
    return checkpoint_read_number(rope_scaling_of(layer), name, value, fault)
           && (*value > 0 || checkpoint_read_number(rope_parameters_of(layer), name, value, fault));
}

static bool read_rope_theta(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const char *field = layer->has_window && stack->local_theta ? stack->local_theta : stack->theta;
    double theta;
    if (layer->config.rope.theta > 0) /* set by the row's adjust() */
        return true;
    if (!read_rope_number(layer, "rope_theta", &theta, fault)
        || (theta == 0 && !checkpoint_read_number(section, field, &theta, fault)))
        return false;
    layer->config.rope.theta = theta;
    return theta > 0
           || fault_set_at(fault, "/config", FAULT_OPTION,
                           "config.json's %.*s is 0; expected a number above 0",
                           CHECKPOINT_FIELD_NAME(section, field));
}

static const cJSON *rope_type_of(const cJSON *scaling)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(scaling, "rope_type");
    return type ? type : cJSON_GetObjectItemCaseSensitive(scaling, "type");
}

/* Gemma 4's: the first pairs of the whole head turn, as many as the factor says. Source:
 * _compute_proportional_rope_parameters() of modeling_rope_utils.py. */
static bool read_proportional(struct checkpoint_layer *layer, struct fault *fault)
{
    const int64_t head_dim = layer->config.head_dim;
    double fraction;
    if (!read_rope_number(layer, "partial_rotary_factor", &fraction, fault))
        return false;
    layer->config.rope.dim = head_dim;
    layer->config.rope.pairs = fraction > 0 && fraction < 1
                                   ? (int64_t)floor(fraction * (double)head_dim / 2)
                                   : head_dim / 2;
    return (layer->config.rope.pairs > 0 && head_dim % 2 == 0)
           || fault_set_at(fault, "/config", FAULT_OPTION,
                           "config.json turns %g of the %" PRId64
                           " columns of a head (partial_rotary_factor); expected a pair of them "
                           "or more",
                           fraction, head_dim);
}

static bool read_rope_dim(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const int64_t head_dim = layer->config.head_dim;
    const char *field = "partial_rotary_factor";
    const char *type = cJSON_GetStringValue(rope_type_of(rope_scaling_of(layer)));
    double fraction;
    int64_t dim;
    if (type && strcmp(type, "proportional") == 0)
        return read_proportional(layer, fault);
    if (!read_rope_number(layer, field, &fraction, fault))
        return false;
    if (fraction == 0) {
        field = stack->rotary_fraction ? stack->rotary_fraction : stack->head_dim;
        if (!checkpoint_read_number(section, stack->rotary_fraction, &fraction, fault))
            return false;
    }
    if (!checkpoint_read_integer(section, stack->rotary_dim, &dim, fault))
        return false;
    if (dim > 0)
        field = stack->rotary_dim;
    else
        dim = fraction > 0 && fraction < 1 ? (int64_t)((double)head_dim * fraction) : head_dim;
    layer->config.rope.dim = dim;
    return (dim > 0 && dim % 2 == 0 && dim <= head_dim)
           || fault_set_at(
               fault, "/config", FAULT_OPTION,
               "config.json turns %" PRId64 " of %" PRId64
               " columns of a head (%.*s); expected an even number, and no more than there are",
               dim, head_dim, CHECKPOINT_FIELD_NAME(section, field));
}

/* The rope_type of scaling; NULL: it has none and must, or it is no string. Phi-3 first called
 * longrope "su", and "yarn" too (configuration_phi3.py); llm-foundry's default is "no_scaling". */
static const char *rope_name_of(const struct checkpoint_layer *layer, const cJSON *scaling)
{
    const cJSON *type = rope_type_of(scaling);
    const char *name = cJSON_IsString(type) ? type->valuestring : NULL;
    const bool is_long = cJSON_GetObjectItemCaseSensitive(scaling, "long_factor") != NULL;
    if (!type)
        return layer->run->stack->scaling_type        ? layer->run->stack->scaling_type
               : scaling == rope_parameters_of(layer) ? "default"
                                                      : NULL;
    if (!name)
        return NULL;
    return strcmp(name, "su") == 0 || (is_long && strcmp(name, "yarn") == 0) ? "longrope"
           : strcmp(name, "no_scaling") == 0                                 ? "default"
                                                                             : name;
}

static bool is_one_of(const char *name, const char *const names[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

#define LENGTH "original_max_position_embeddings"

static void drop_member(cJSON *copy, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(copy, name);
}

/* Puts the length that the model was trained for into copy, where its type takes one. For dynamic
 * it is the length that the model is made for, whatever copy says. For the others it is the first
 * of: what config.json says beside the scaling, what the scaling says, the length that the model is
 * made for. Source: modeling_rope_utils.py of transformers, _compute_dynamic_ntk_parameters() and
 * standardize_rope_params(). */
static bool set_rope_length(const struct checkpoint_layer *layer, const char *name, cJSON *copy)
{
    static const char *const OTHERS[] = { "yarn", "llama3", "longrope" };
    const bool is_dynamic = strcmp(name, "dynamic") == 0;
    const bool is_said = cJSON_GetObjectItemCaseSensitive(copy, LENGTH) != NULL;
    const double own = is_dynamic ? 0 : layer->original_positions;
    const double length = own > 0 ? own : layer->positions;
    if (!is_dynamic && !is_one_of(name, OTHERS, sizeof OTHERS / sizeof OTHERS[0])) {
        drop_member(copy, LENGTH);
        return true;
    }
    if (length <= 0 || (is_said && own <= 0 && !is_dynamic))
        return true;
    drop_member(copy, LENGTH);
    return cJSON_AddNumberToObject(copy, LENGTH, length) != NULL;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/* The factor of longrope is max_position_embeddings over the length that the model was trained for,
 * where config.json gives that length beside the scaling, or the scaling has no factor. */
static bool set_rope_factor(const struct checkpoint_layer *layer, cJSON *copy)
{
    const double length = number_of(copy, LENGTH), most = layer->positions;
    const bool is_said = cJSON_GetObjectItemCaseSensitive(copy, "factor") != NULL;
    if (length <= 0 || most <= 0 || (is_said && layer->original_positions <= 0))
        return true;
    drop_member(copy, "factor");
    return cJSON_AddNumberToObject(copy, "factor", most > length ? most / length : 1) != NULL;
}

/* Mistral's params.json has its own names for yarn. Source: _remap_mistral_yarn_args() of vLLM's
 * transformers_utils/configs/mistral.py. */
static bool rename_yarn(cJSON *copy)
{
    static const char *const NAMES[][2] = { { "beta", "beta_fast" }, { "alpha", "beta_slow" } };
    const bool is_level = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(copy, "apply_scale"));
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(copy, NAMES[i][0]);
        if (item && !cJSON_AddItemToObject(copy, NAMES[i][1], item)) {
            cJSON_Delete(item);
            return false;
        }
    }
    drop_member(copy, "apply_scale");
    return !is_level || cJSON_AddNumberToObject(copy, "attention_factor", 1);
}

/* PhimoeRotaryEmbedding has a factor for calls up to the length that the model was trained for, and
 * one for longer calls. Where they differ the reader refuses them. */
static bool set_mscales(cJSON *copy)
{
    const double factor = number_of(copy, "short_mscale");
    if (factor <= 0 || factor != number_of(copy, "long_mscale"))
        return true;
    drop_member(copy, "short_mscale");
    drop_member(copy, "long_mscale");
    return cJSON_AddNumberToObject(copy, "attention_factor", factor) != NULL;
}

/* Source: get_llama_4_attn_scale() of ministral3/modeling_ministral3.py. max_position_embeddings
 * stands there beside it, and changes nothing. */
static void use_growth(struct checkpoint_layer *layer, cJSON *copy)
{
    if (!layer->run->stack->queries_grow)
        return;
    layer->config.rope.query_growth = number_of(copy, "llama_4_scaling_beta");
    layer->config.rope.query_length = number_of(copy, LENGTH);
    drop_member(copy, "llama_4_scaling_beta");
    drop_member(copy, "max_position_embeddings");
}

/* HunYuan's alpha makes theta larger at any length, and nothing else of such a scaling counts.
 * Source: HunYuanDenseV1RotaryEmbedding of hunyuan_v1_dense/modular_hunyuan_v1_dense.py. */
static const char *use_alpha(struct checkpoint_layer *layer, const char *name, cJSON *copy)
{
    static const char *const UNUSED[] = { "alpha",     "factor", "beta_fast",
                                          "beta_slow", "mscale", "mscale_all_dim" };
    const double alpha = number_of(copy, "alpha"), dim = (double)layer->config.rope.dim;
    if (!layer->run->stack->alpha_scales_theta || strcmp(name, "dynamic") != 0 || alpha <= 0)
        return name;
    if (dim > 2) /* pair 0 turns as far for any theta */
        layer->config.rope.theta *= pow(alpha, dim / (dim - 2));
    for (size_t i = 0; i < sizeof UNUSED / sizeof UNUSED[0]; i++)
        drop_member(copy, UNUSED[i]);
    return "default";
}

/* A copy of scaling in the form of our own config, the caller's to delete; NULL: no memory. */
static cJSON *translate_scaling(struct checkpoint_layer *layer, const cJSON *scaling)
{
    static const char *const DROPPED[] = { "rope_theta", "partial_rotary_factor", "finetuned" };
    const char *name = rope_name_of(layer, scaling);
    cJSON *copy = cJSON_Duplicate(scaling, true);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < sizeof DROPPED / sizeof DROPPED[0]; i++)
        drop_member(copy, DROPPED[i]);
    if (layer->run->stack->rope_has_sections) {
        drop_member(copy, "mrope_section");
        drop_member(copy, "mrope_interleaved");
    }
    if (!name) /* none, or no string: the reader refuses it */
        return copy;
    drop_member(copy, "type");
    drop_member(copy, "rope_type");
    name = use_alpha(layer, name, copy);
    use_growth(layer, copy);
    if (strcmp(name, "proportional") == 0)
        name = number_of(copy, "factor") > 1 ? "linear" : "default";
    if (strcmp(name, "default") == 0)
        drop_member(copy, "factor");
    if (cJSON_AddStringToObject(copy, "rope_type", name)
        && (!layer->run->stack->scaling_type || rename_yarn(copy))
        && (!layer->run->stack->has_mscales || set_mscales(copy))
        && set_rope_length(layer, name, copy)
        && (strcmp(name, "longrope") != 0 || set_rope_factor(layer, copy)))
        return copy;
    cJSON_Delete(copy);
    return NULL;
}

static bool read_rope_scaling(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const cJSON *scaling = rope_scaling_of(layer);
    if (!scaling)
        return true;
    if (!checkpoint_read_number(section, stack->positions, &layer->positions, fault)
        || !checkpoint_read_number(section,
                                   stack->original_positions ? stack->original_positions : LENGTH,
                                   &layer->original_positions, fault))
        return false;
    cJSON *translated = translate_scaling(layer, scaling);
    if (!translated)
        return fault_no_memory(fault);
    const bool good = model_config_read_scaling(&layer->config, layer->run->document,
                                                scaling->string, translated, fault);
    cJSON_Delete(translated);
    return good;
}

/* Source: apply_scaling() of llama-models' models/llama3/model.py at 43e87a37feaa. params.json has
 * only a flag for these numbers. */
static const struct attn_rope_scaling LLAMA3 = {
    .type = ATTN_ROPE_LLAMA3,
    .factor = 8,
    .original_max_position_embeddings = 8192,
    .low_freq_factor = 1,
    .high_freq_factor = 4,
};

static bool read_rope(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    bool is_llama3, is_rotary;
    if (!checkpoint_read_flag(layer->run->section, stack->rope_if ? stack->rope_if : "=true",
                              &is_rotary, fault))
        return false;
    if (!stack->theta || !is_rotary || layer->has_alibi || layer->lacks_rope
        || (stack->rope_needs_window && !layer->has_window))
        return true;
    if (!checkpoint_read_flag(layer->run->section, stack->llama3_if, &is_llama3, fault))
        return false;
    if (is_llama3)
        layer->config.rope.scaling = LLAMA3;
    layer->config.has_rope = true;
    layer->config.rope.interleaved = stack->interleaved;
    return read_rope_theta(layer, fault) && read_rope_dim(layer, fault)
           && (stack->theta[0] == '=' || read_rope_scaling(layer, fault));
}

/* --------------------------------------------------------------- the layer -- */

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
           && checkpoint_latent_read(layer, fault)
           && (!stack->adjust || stack->adjust(layer, fault)) && check_scale(layer, fault)
           && check_groups(layer, fault) && check_quarters(layer, fault) && read_rope(layer, fault);
}
