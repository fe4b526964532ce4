/* checkpoint_bias.h - the relative position bias of T5 and families like it, from its table. */
#ifndef ATTND_CHECKPOINT_BIAS_H
#define ATTND_CHECKPOINT_BIAS_H

#include "checkpoint/checkpoint_layer.h"

/* Sets the bias of a layer, for every head and distance of query and key, from the table that the
 * file has under name. */
bool checkpoint_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         const char *name, struct model_parameters *parameters,
                         struct fault *fault);

#endif
