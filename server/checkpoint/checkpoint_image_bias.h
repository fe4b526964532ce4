/* checkpoint_image_bias.h - the relative position bias of BEiT, from its tables. */
#ifndef ATTND_CHECKPOINT_IMAGE_BIAS_H
#define ATTND_CHECKPOINT_IMAGE_BIAS_H

#include "checkpoint/checkpoint_layer.h"

/* Sets the bias of a layer as config.json says: from the layer's own table, the table of all
 * layers, or the sum of both. Does nothing where the family has none. A table in the file that
 * config.json does not ask for is a fault. */
bool checkpoint_image_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                               struct model_parameters *parameters, struct fault *fault);

#endif
