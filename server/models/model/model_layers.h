/* SPDX-License-Identifier: Apache-2.0 */
/* model_layers.h - builds layers from a config and the tensors that the config names. The
 * score functions general, additive and concat are no dot product of heads: they may leave widths
 * open, as -1, until a call settles them: those of key and query under a concat_proj, whose matrix
 * knows only their sum, and that of a value that is not projected. */
#ifndef ATTND_MODEL_LAYERS_H
#define ATTND_MODEL_LAYERS_H

#include "models/model/model.h"
#include "models/model/model_config.h"
#include "models/model/model_parameters.h"

/* Fills layers[config->layers]. The tensors' shapes settle heads and widths that config leaves out,
 * and every shape is checked. Tensors that belong to no parameter are ignored. */
bool model_layers_build(struct model_layer *layers, const struct model_config *config,
                        struct model_parameters *parameters, struct fault *fault);

/* Where a published checkpoint keeps a projection: a tensor, or a part of the outputs of a fused
 * tensor. */
struct model_builder_part {
    const char *weight, *bias; /* names of tensors; weight NULL: the identity, bias NULL: none */
    struct model_slice slice;
};

/* A projection as it is in the file. */
struct model_builder_projection {
    const struct model_entry *weight, *bias; /* weight NULL: the identity, bias NULL: none */
    int64_t out, in;                         /* 0 where weight is NULL */
    struct model_slice slice;                /* of weight and bias */
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

/* Fills one layer from the config and the tensors of builder, by the same rules. *first is the set
 * of parameters that layer 0 has, 1 << parameter each: building layer 0 sets it, and every other
 * layer must have the same set. */
bool model_layers_build_one(struct model_builder *builder, struct model_layer *layer,
                            unsigned *first);

/* Columns of the inputs of one call; 0: an input without rows, whose width may be any. */
struct model_widths {
    int64_t query, key, value;
};

/* Copies layer layer_index of model, of any score function, to *fitted and settles its open widths
 * by those of a call. Query and key of a concat layer must together be as wide as its matrix takes.
 * Does not compare the widths that the model knows with the call's. On false the fault is shape. */
bool model_scores_fit(struct model_layer *fitted, const struct model *model, int64_t layer_index,
                      const struct model_widths *widths, struct fault *fault);

#endif
