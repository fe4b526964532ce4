/* model_builder.h - a layer being put together, by model_builder.c, model_layers.c and
 * model_scores.c, for model_layers_build() and for checkpoint_build(). */
#ifndef ATTND_MODEL_BUILDER_H
#define ATTND_MODEL_BUILDER_H

#include "model/model_layers.h"

enum { MODEL_BUILDER_TEXT_BYTES = 96 }; /* of a shape in a message */

/* Where a file has a projection that is not found by its own name: a tensor, or a part of the
 * outputs of one that holds query, key and value together. */
struct model_part {
    const char *weight, *bias; /* names of tensors; NULL: the identity; none */
    struct model_slice slice;
};

/* A projection as it is in the file. */
struct model_builder_projection {
    const struct safetensors_entry *weight, *bias; /* NULL: the identity; none */
    int64_t out, in;                               /* 0 where weight is NULL */
    struct model_slice slice;                      /* of weight and bias */
};

struct model_builder {
    const struct model_config *config;
    struct model_parameters *parameters;
    int64_t layer;
    const struct model_part *parts; /* [MODEL_PROJECTION_COUNT]; NULL: tensors by their names */
    struct model_builder_projection projections[MODEL_PARAMETER_COUNT];
    int64_t q_heads, kv_heads, head_dim, v_head_dim;
    struct fault *fault;
};

/* Fills layer from what config and tensors say of it; heads and widths that are 0 in config are
 * settled by the tensors' shapes, and every shape is checked. first holds the bits of the
 * projections that layer 0 has, set there and compared with by all others. */
bool model_builder_build(struct model_builder *builder, struct model_layer *layer, unsigned *first);

/* *entry is NULL where the file has no such tensor and the config does not name one. */
bool model_builder_find(struct model_builder *builder, enum model_projection projection,
                        bool is_bias, const struct safetensors_entry **entry);

/* The fault of a tensor whose shape is not what is expected; false. */
bool model_builder_refuse(struct model_builder *builder, const struct safetensors_entry *entry,
                          const char *expected);

#endif
