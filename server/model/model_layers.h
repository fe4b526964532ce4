/* model_layers.h - builds layers from a config and the tensors that the config names. */
#ifndef ATTND_MODEL_LAYERS_H
#define ATTND_MODEL_LAYERS_H

#include "model/model.h"
#include "model/model_config.h"
#include "model/model_parameters.h"

struct model_builder;

/* Fills layers[config->layers]. The tensors' shapes settle heads and widths that config leaves out,
 * and every shape is checked. Tensors that belong to no parameter are ignored. */
bool model_layers_build(struct model_layer *layers, const struct model_config *config,
                        struct model_parameters *parameters, struct fault *fault);

/* Fills one layer from the config and the tensors of builder, by the same rules. *first is the set
 * of parameters that layer 0 has, 1 << parameter each: building layer 0 sets it, and every other
 * layer must have the same set. */
bool model_layers_build_one(struct model_builder *builder, struct model_layer *layer,
                            unsigned *first);

#endif
