/* checkpoint_norm.h - the norms of query and key of a published checkpoint, from their tensors. */
#ifndef ATTND_CHECKPOINT_NORM_H
#define ATTND_CHECKPOINT_NORM_H

#include "checkpoint/checkpoint_layer.h"

/* The norms of a layer whose config.json asks for them; a tensor of one where it does not is a
 * contradiction. */
bool checkpoint_norms_set(struct model_layer *layer, const struct checkpoint_layer *read,
                          struct model_parameters *parameters, struct fault *fault);

#endif
