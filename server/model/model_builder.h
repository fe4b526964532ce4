/* model_builder.h - the state of a layer while it is built, shared by model_builder.c,
 * model_layers.c and model_scores.c. model_layers_build() builds the layers of a config of our own,
 * checkpoint_build() those of a published checkpoint. */
#ifndef ATTND_MODEL_BUILDER_H
#define ATTND_MODEL_BUILDER_H

#include "model/model.h"
#include "model/model_config.h"
#include "model/model_parameters.h"

enum { MODEL_BUILDER_TEXT_BYTES = 96 }; /* of a shape in a message */

/* Where a published checkpoint keeps a projection: a tensor, or a part of the outputs of a fused
 * tensor. */
struct model_builder_part {
    const char *weight, *bias; /* names of tensors; weight NULL: the identity, bias NULL: none */
    struct model_slice slice;
};

/* A projection as it is in the file. */
struct model_builder_projection {
    const struct safetensors_entry *weight, *bias; /* weight NULL: the identity, bias NULL: none */
    int64_t out, in;                               /* 0 where weight is NULL */
    struct model_slice slice;                      /* of weight and bias */
};

struct model_builder {
    const struct model_config *config;
    struct model_parameters *parameters;
    int64_t layer;
    const struct model_builder_part
        *parts; /* [MODEL_PROJECTION_COUNT]; NULL: tensors have our names */
    struct model_builder_projection projections[MODEL_PARAMETER_COUNT];
    int64_t q_heads, kv_heads, head_dim, v_head_dim;
    struct fault *fault;
};

/* Finds the tensor of a weight or bias. *entry is NULL where the file has none by our name; a
 * tensor that the config or the checkpoint's family names must be there. */
bool model_builder_find(struct model_builder *builder, enum model_projection projection,
                        bool is_bias, const struct safetensors_entry **entry);

/* Sets the fault of a tensor that does not have the expected shape, and returns false. */
bool model_builder_refuse(struct model_builder *builder, const struct safetensors_entry *entry,
                          const char *expected);

#endif
