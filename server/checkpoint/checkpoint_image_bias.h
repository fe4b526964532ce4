/* checkpoint_image_bias.h - the relative position bias of BEiT, from its tables. */
#ifndef ATTND_CHECKPOINT_IMAGE_BIAS_H
#define ATTND_CHECKPOINT_IMAGE_BIAS_H

#include "checkpoint/checkpoint_layer.h"

/* The bias of a layer whose family may have one, of the layer's own table, of that of all layers,
 * or the sum of both, as config.json says; a table that it denies is a contradiction. */
bool checkpoint_image_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                               struct model_parameters *parameters, struct fault *fault);

#endif
