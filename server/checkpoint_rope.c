/* checkpoint_rope.c - the rotary embedding of a published checkpoint.
 *
 * Layers with a window may have a theta of their own, and then no rope_scaling. theta stands at the
 * top of config.json or, in newer ones, in rope_parameters; the scaling in rope_scaling or there
 * too, under names that "rope" of our own config has as well. So it is put into the form of ours,
 * and what is read and refused is the same. */
#include "checkpoint_fields.h"
#include "checkpoint_layer.h"
#include "model_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* rope_parameters of the layer: the object itself, or that of the layer's type in it. */
static const cJSON *parameters_of(const struct checkpoint_layer *layer)
{
    const cJSON *parameters =
        cJSON_GetObjectItemCaseSensitive(layer->run->section, "rope_parameters");
    const cJSON *of_type = cJSON_GetObjectItemCaseSensitive(
        parameters, layer->has_window ? "sliding_attention" : "full_attention");
    return of_type ? of_type : parameters;
}

static bool read_theta(struct checkpoint_layer *layer, const cJSON *parameters, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const bool is_local = layer->has_window && stack->local_theta;
    double theta;
    if (!checkpoint_read_number(parameters, "rope_theta", &theta, fault)
        || (theta == 0
            && !checkpoint_read_number(
                layer->run->section, is_local ? stack->local_theta : stack->theta, &theta, fault)))
        return false;
    layer->config.rope.theta = theta;
    return theta > 0
           || fault_set_at(fault, "/config/rope_theta", FAULT_OPTION,
                           "config.json's rope_theta is 0; expected a number above 0");
}

static bool read_dim(struct checkpoint_layer *layer, const cJSON *parameters, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *section = layer->run->section;
    const int64_t head_dim = layer->config.head_dim;
    double fraction;
    int64_t dim;
    if (!checkpoint_read_number(parameters, "partial_rotary_factor", &fraction, fault)
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

/* Phi-3 called longrope "su" at first, and "yarn" too (configuration_phi3.py). */
static const char *name_of(const cJSON *scaling)
{
    const cJSON *type = type_of(scaling);
    const char *name = cJSON_IsString(type) ? type->valuestring : "";
    const bool is_long = cJSON_GetObjectItemCaseSensitive(scaling, "long_factor") != NULL;
    return strcmp(name, "su") == 0 || (is_long && strcmp(name, "yarn") == 0) ? "longrope" : name;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

#define LENGTH "original_max_position_embeddings"

/* The length that the model was trained for, where its type needs it and does not say it itself. */
static bool add_length(const cJSON *section, const char *name, cJSON *copy)
{
    const double own = number_of(section, LENGTH);
    const double length = own > 0 ? own : number_of(section, "max_position_embeddings");
    const bool is_needed =
        strcmp(name, "dynamic") == 0 || strcmp(name, "yarn") == 0 || strcmp(name, "longrope") == 0;
    return !is_needed || length <= 0 || cJSON_GetObjectItemCaseSensitive(copy, LENGTH)
           || cJSON_AddNumberToObject(copy, LENGTH, length);
}

/* Of longrope the factor is how many times the trained length max_position_embeddings is, wherever
 * config.json says the former beside the latter. */
static bool set_factor(const cJSON *section, cJSON *copy)
{
    const double length = number_of(copy, LENGTH);
    const double most = number_of(section, "max_position_embeddings");
    const bool is_said = cJSON_GetObjectItemCaseSensitive(copy, "factor") != NULL;
    if (length <= 0 || most <= 0 || (is_said && number_of(section, LENGTH) <= 0))
        return true;
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "factor");
    return cJSON_AddNumberToObject(copy, "factor", most > length ? most / length : 1) != NULL;
}

/* A copy of scaling in the words of our own config; NULL where there is no memory. */
static cJSON *translate(const cJSON *section, const cJSON *scaling)
{
    static const char *const DROPPED[] = { "rope_theta", "partial_rotary_factor", "finetuned",
                                           "type", "rope_type" };
    const bool is_named = cJSON_IsString(type_of(scaling));
    const char *name = name_of(scaling);
    cJSON *copy = cJSON_Duplicate(scaling, true);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < (is_named ? 5 : 3); i++)
        cJSON_DeleteItemFromObjectCaseSensitive(copy, DROPPED[i]);
    if ((!is_named || cJSON_AddStringToObject(copy, "rope_type", name))
        && add_length(section, name, copy)
        && (strcmp(name, "longrope") != 0 || set_factor(section, copy)))
        return copy;
    cJSON_Delete(copy);
    return NULL;
}

static bool read_scaling(struct checkpoint_layer *layer, const cJSON *parameters,
                         struct fault *fault)
{
    const cJSON *section = layer->run->section;
    const bool is_local = layer->has_window && layer->run->stack->local_theta;
    const cJSON *own = is_local ? NULL : cJSON_GetObjectItemCaseSensitive(section, "rope_scaling");
    const cJSON *scaling = cJSON_IsObject(own) ? own : type_of(parameters) ? parameters : NULL;
    const cJSON *type = type_of(scaling);
    if (!scaling || (cJSON_IsString(type) && strcmp(type->valuestring, "default") == 0))
        return true;
    cJSON *translated = translate(section, scaling);
    if (!translated)
        return fault_no_memory(fault);
    struct model_reader reader = { .config = &layer->config,
                                   .document = layer->run->document,
                                   .name = "rope_scaling",
                                   .fault = fault };
    snprintf(reader.pointer, sizeof reader.pointer, "/config/rope_scaling");
    const bool good = model_rope_read_scaling(&reader, translated);
    cJSON_Delete(translated);
    return good;
}

/* apply_scaling() of llama-models' models/llama3/model.py at 43e87a37feaa, which has no names for
 * its numbers in params.json. */
static const struct attn_rope_scaling LLAMA3 = {
    .type = ATTN_ROPE_LLAMA3,
    .factor = 8,
    .original_max_position_embeddings = 8192,
    .low_freq_factor = 1,
    .high_freq_factor = 4,
};

bool checkpoint_layer_read_rope(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *parameters = parameters_of(layer);
    bool is_llama3;
    if (!stack->theta || layer->has_alibi || (stack->rope_needs_window && !layer->has_window))
        return true;
    if (!checkpoint_read_flag(layer->run->section, stack->llama3_if, &is_llama3, fault))
        return false;
    if (is_llama3)
        layer->config.rope.scaling = LLAMA3;
    layer->config.has_rope = true;
    layer->config.rope.interleaved = stack->interleaved;
    return read_theta(layer, parameters, fault) && read_dim(layer, parameters, fault)
           && read_scaling(layer, parameters, fault);
}
