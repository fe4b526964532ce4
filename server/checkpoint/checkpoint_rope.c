/* checkpoint_rope.c - the rotary embedding of a published checkpoint.
 *
 * Layers with a window may have a theta of their own, and then rope_scaling is not for them. theta
 * stands at the top of config.json or, in newer files, in rope_parameters. The scaling stands in
 * rope_scaling or in rope_parameters, and its members have the names that they have in our own
 * config. So the scaling is translated to our form, and model_rope.c reads and refuses both forms
 * alike. */
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_layer.h"
#include "model/model_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* rope_parameters of the layer: the object itself, or that of the layer's type in it; NULL where
 * the family's theta is always the same. */
static const cJSON *parameters_of(const struct checkpoint_layer *layer)
{
    const cJSON *parameters =
        layer->run->stack->theta && layer->run->stack->theta[0] != '='
            ? cJSON_GetObjectItemCaseSensitive(layer->run->section, "rope_parameters")
            : NULL;
    const cJSON *of_type = cJSON_GetObjectItemCaseSensitive(
        parameters, layer->has_window ? "sliding_attention" : "full_attention");
    return of_type ? of_type : parameters;
}

/* The object that says how the layer's rotary embedding is scaled; NULL: none does. */
static const cJSON *scaling_of(const struct checkpoint_layer *layer)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const bool is_local = layer->has_window && stack->local_theta;
    const cJSON *own =
        is_local || layer->is_unscaled
            ? NULL
            : checkpoint_find_object(layer->run->section,
                                     stack->scaling ? stack->scaling : "rope_scaling");
    return own ? own : parameters_of(layer);
}

/* Reads a number from the scaling, else from rope_parameters; 0: neither has it. */
static bool read_said(const struct checkpoint_layer *layer, const char *name, double *value,
                      struct fault *fault)
{
    return checkpoint_read_number(scaling_of(layer), name, value, fault)
           && (*value > 0 || checkpoint_read_number(parameters_of(layer), name, value, fault));
}

static bool read_theta(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const bool is_local = layer->has_window && stack->local_theta;
    double theta;
    if (layer->config.rope.theta > 0) /* set by the row's adjust() */
        return true;
    if (!read_said(layer, "rope_theta", &theta, fault)
        || (theta == 0
            && !checkpoint_read_number(
                layer->run->section, is_local ? stack->local_theta : stack->theta, &theta, fault)))
        return false;
    layer->config.rope.theta = theta;
    return theta > 0
           || fault_set_at(fault, "/config/rope_theta", FAULT_OPTION,
                           "config.json's rope_theta is 0; expected a number above 0");
}

static bool read_dim(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const int64_t head_dim = layer->config.head_dim;
    double fraction;
    int64_t dim;
    if (!read_said(layer, "partial_rotary_factor", &fraction, fault)
        || (fraction == 0
            && !checkpoint_read_number(section, stack->rotary_fraction, &fraction, fault))
        || !checkpoint_read_integer(section, stack->rotary_dim, &dim, fault))
        return false;
    if (dim == 0)
        dim = fraction > 0 && fraction < 1 ? (int64_t)((double)head_dim * fraction) : head_dim;
    layer->config.rope.dim = dim;
    return (dim > 0 && dim % 2 == 0 && dim <= head_dim)
           || fault_set_at(
               fault, "/config", FAULT_OPTION,
               "config.json turns %" PRId64 " of %" PRId64
               " columns of a head; expected an even number, and no more than there are",
               dim, head_dim);
}

static const cJSON *type_of(const cJSON *scaling)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(scaling, "rope_type");
    return type ? type : cJSON_GetObjectItemCaseSensitive(scaling, "type");
}

/* The rope_type of scaling; NULL: it has none and must, or it is no string. Phi-3 first called
 * longrope "su", and "yarn" too (configuration_phi3.py); llm-foundry's default is "no_scaling". */
static const char *name_of(const struct checkpoint_layer *layer, const cJSON *scaling)
{
    const cJSON *type = type_of(scaling);
    const char *name = cJSON_IsString(type) ? type->valuestring : NULL;
    const bool is_long = cJSON_GetObjectItemCaseSensitive(scaling, "long_factor") != NULL;
    if (!type)
        return layer->run->stack->scaling_type   ? layer->run->stack->scaling_type
               : scaling == parameters_of(layer) ? "default"
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

static void drop(cJSON *copy, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(copy, name);
}

/* Puts the length that the model was trained for into copy, where its type takes one. For dynamic
 * it is the length that the model is made for, whatever copy says. For the others it is the first
 * of: what config.json says beside the scaling, what the scaling says, the length that the model is
 * made for. Source: modeling_rope_utils.py of transformers, _compute_dynamic_ntk_parameters() and
 * standardize_rope_params(). */
static bool set_length(const struct checkpoint_layer *layer, const char *name, cJSON *copy)
{
    static const char *const OTHERS[] = { "yarn", "llama3", "longrope" };
    const bool is_dynamic = strcmp(name, "dynamic") == 0;
    const bool is_said = cJSON_GetObjectItemCaseSensitive(copy, LENGTH) != NULL;
    const double own = is_dynamic ? 0 : layer->original_positions;
    const double length = own > 0 ? own : layer->positions;
    if (!is_dynamic && !is_one_of(name, OTHERS, sizeof OTHERS / sizeof OTHERS[0])) {
        drop(copy, LENGTH);
        return true;
    }
    if (length <= 0 || (is_said && own <= 0 && !is_dynamic))
        return true;
    drop(copy, LENGTH);
    return cJSON_AddNumberToObject(copy, LENGTH, length) != NULL;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/* The factor of longrope is max_position_embeddings over the length that the model was trained for,
 * where config.json gives that length beside the scaling, or the scaling has no factor. */
static bool set_factor(const struct checkpoint_layer *layer, cJSON *copy)
{
    const double length = number_of(copy, LENGTH), most = layer->positions;
    const bool is_said = cJSON_GetObjectItemCaseSensitive(copy, "factor") != NULL;
    if (length <= 0 || most <= 0 || (is_said && layer->original_positions <= 0))
        return true;
    drop(copy, "factor");
    return cJSON_AddNumberToObject(copy, "factor", most > length ? most / length : 1) != NULL;
}

/* Mistral's params.json has names of its own for yarn. Source: _remap_mistral_yarn_args() of vLLM's
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
    drop(copy, "apply_scale");
    return !is_level || cJSON_AddNumberToObject(copy, "attention_factor", 1);
}

/* A copy of scaling in the form of our own config, the caller's to delete; NULL: no memory. */
static cJSON *translate(const struct checkpoint_layer *layer, const cJSON *scaling)
{
    static const char *const DROPPED[] = { "rope_theta", "partial_rotary_factor", "finetuned" };
    const char *name = name_of(layer, scaling);
    cJSON *copy = cJSON_Duplicate(scaling, true);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < sizeof DROPPED / sizeof DROPPED[0]; i++)
        drop(copy, DROPPED[i]);
    if (!name) /* none, or no string: the reader refuses it */
        return copy;
    drop(copy, "type");
    drop(copy, "rope_type");
    if (strcmp(name, "default") == 0)
        drop(copy, "factor");
    if (cJSON_AddStringToObject(copy, "rope_type", name)
        && (!layer->run->stack->scaling_type || rename_yarn(copy)) && set_length(layer, name, copy)
        && (strcmp(name, "longrope") != 0 || set_factor(layer, copy)))
        return copy;
    cJSON_Delete(copy);
    return NULL;
}

static bool read_scaling(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const cJSON *scaling = scaling_of(layer);
    if (!scaling)
        return true;
    if (!checkpoint_read_number(section, stack->positions, &layer->positions, fault)
        || !checkpoint_read_number(section,
                                   stack->original_positions ? stack->original_positions : LENGTH,
                                   &layer->original_positions, fault))
        return false;
    cJSON *translated = translate(layer, scaling);
    if (!translated)
        return fault_no_memory(fault);
    struct model_reader reader = { .config = &layer->config,
                                   .document = layer->run->document,
                                   .name = scaling->string,
                                   .fault = fault };
    snprintf(reader.pointer, sizeof reader.pointer, "/config/%s", scaling->string);
    const bool good = model_rope_read_scaling(&reader, translated);
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

bool checkpoint_rope_read(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    bool is_llama3, is_rotary;
    if (!checkpoint_read_flag(layer->run->section, stack->rope_if ? stack->rope_if : "=true",
                              &is_rotary, fault))
        return false;
    if (!stack->theta || !is_rotary || layer->has_alibi
        || (stack->rope_needs_window && !layer->has_window))
        return true;
    if (!checkpoint_read_flag(layer->run->section, stack->llama3_if, &is_llama3, fault))
        return false;
    if (is_llama3)
        layer->config.rope.scaling = LLAMA3;
    layer->config.has_rope = true;
    layer->config.rope.interleaved = stack->interleaved;
    return read_theta(layer, fault) && read_dim(layer, fault)
           && (stack->theta[0] == '=' || read_scaling(layer, fault));
}
