/* model_builder.c - finds the tensors of a layer while it is built, or refuses them. */
#include "model/model_builder.h"

#include <inttypes.h>
#include <stdio.h>

enum { SHAPE_DIMENSIONS_SHOWN = 4 };

/* "[64, 32]" */
static const char *shape_text(const struct safetensors_entry *entry,
                              char text[MODEL_BUILDER_TEXT_BYTES])
{
    uint64_t shape[SHAPE_DIMENSIONS_SHOWN];
    const int64_t shown =
        entry->rank < SHAPE_DIMENSIONS_SHOWN ? entry->rank : SHAPE_DIMENSIONS_SHOWN;
    size_t used = 1;
    safetensors_shape(entry, shape, shown);
    text[0] = '[';
    for (int64_t i = 0; i < shown; i++)
        used += (size_t)snprintf(text + used, MODEL_BUILDER_TEXT_BYTES - used, "%s%" PRIu64,
                                 i > 0 ? ", " : "", shape[i]);
    snprintf(text + used, MODEL_BUILDER_TEXT_BYTES - used, "%s]",
             entry->rank > shown ? ", ..." : "");
    return text;
}

bool model_builder_refuse(struct model_builder *builder, const struct safetensors_entry *entry,
                          const char *expected)
{
    char shape[MODEL_BUILDER_TEXT_BYTES], pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/parameters/%s", entry->name);
    return fault_set_at(builder->fault, pointer, FAULT_SHAPE,
                        "tensor '%.60s' has shape %s; expected %s", entry->name,
                        shape_text(entry, shape), expected);
}

/* A published checkpoint must have every tensor that its family has. */
static bool find_part(struct model_builder *builder, const struct model_builder_part *part,
                      bool is_bias, const struct safetensors_entry **entry)
{
    const char *name = is_bias ? part->bias : part->weight;
    *entry =
        name ? model_tensors_require(builder->parameters->tensors, name, builder->fault) : NULL;
    return *entry || !name;
}

bool model_builder_find(struct model_builder *builder, enum model_projection projection,
                        bool is_bias, const struct safetensors_entry **entry)
{
    char name[MODEL_NAMES_BYTES];
    if (builder->parts)
        return find_part(builder, &builder->parts[projection], is_bias, entry);
    model_names_write(name, builder->layer, builder->config->layers, projection, is_bias);
    const char *tensor = model_config_tensor(builder->config, name);
    *entry = model_tensors_find(builder->parameters->tensors, tensor);
    if (!*entry && tensor != name)
        return fault_set_at(builder->fault, "/config/tensors", FAULT_FIELD,
                            "%s is '%.60s' in \"tensors\", and the file has no tensor of that name",
                            name, tensor);
    return true;
}
