/* checkpoint_norm.h - the norms of query and key of a published checkpoint, from their tensors. */
#ifndef ATTND_CHECKPOINT_NORM_H
#define ATTND_CHECKPOINT_NORM_H

#include "checkpoint/checkpoint_layer.h"

/* Sets the norms of a layer where config.json asks for them. Where it does not, a norm's tensor in
 * the file is a fault. */
bool checkpoint_norm_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         struct model_parameters *parameters, struct fault *fault);

#endif
