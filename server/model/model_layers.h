/* model_layers.h - a config and the tensors it names, put together to layers. */
#ifndef ATTND_MODEL_LAYERS_H
#define ATTND_MODEL_LAYERS_H

#include "model/model.h"
#include "model/model_config.h"
#include "model/model_parameters.h"

/* Fills layers[config->layers]. Heads and widths that config leaves out are settled by the
 * tensors' shapes; every shape is checked. Tensors that no parameter names are left alone. */
bool model_layers_build(struct model_layer *layers, const struct model_config *config,
                        struct model_parameters *parameters, struct fault *fault);

#endif
