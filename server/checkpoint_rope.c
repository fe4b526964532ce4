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

/* A copy of scaling in the words of our own config; NULL where there is no memory. */
static cJSON *translate(const cJSON *section, const cJSON *scaling)
{
    static const char *const DROPPED[] = { "type", "rope_theta", "partial_rotary_factor",
                                           "finetuned" };
    static const char LENGTH[] = "original_max_position_embeddings";
    cJSON *copy = cJSON_Duplicate(scaling, true);
    const cJSON *type = type_of(copy);
    if (!copy)
        return NULL;
    const bool needs_length =
        cJSON_IsString(type)
        && (strcmp(type->valuestring, "dynamic") == 0 || strcmp(type->valuestring, "yarn") == 0);
    const cJSON *length = cJSON_GetObjectItemCaseSensitive(section, LENGTH);
    if (!cJSON_IsNumber(length))
        length = cJSON_GetObjectItemCaseSensitive(section, "max_position_embeddings");
    bool good = true;
    if (cJSON_IsString(type) && !cJSON_GetObjectItemCaseSensitive(copy, "rope_type"))
        good = cJSON_AddStringToObject(copy, "rope_type", type->valuestring) != NULL;
    if (needs_length && !cJSON_GetObjectItemCaseSensitive(copy, LENGTH) && cJSON_IsNumber(length))
        good = good && cJSON_AddNumberToObject(copy, LENGTH, length->valuedouble);
    for (size_t i = 0; i < sizeof DROPPED / sizeof DROPPED[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(copy, DROPPED[i]);
    if (good)
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
                                   .name = "rope_scaling",
                                   .fault = fault };
    snprintf(reader.pointer, sizeof reader.pointer, "/config/rope_scaling");
    const bool good = model_rope_read_scaling(&reader, translated);
    cJSON_Delete(translated);
    return good;
}

bool checkpoint_layer_read_rope(struct checkpoint_layer *layer, struct fault *fault)
{
    const struct checkpoint_stack *stack = layer->run->stack;
    const cJSON *parameters = parameters_of(layer);
    if (!stack->theta || layer->has_alibi)
        return true;
    layer->config.has_rope = true;
    layer->config.rope.interleaved = stack->interleaved;
    return read_theta(layer, parameters, fault) && read_dim(layer, parameters, fault)
           && read_scaling(layer, parameters, fault);
}
