/* checkpoint_bias.h - the relative position bias of T5 and its kin, from its table. */
#ifndef ATTND_CHECKPOINT_BIAS_H
#define ATTND_CHECKPOINT_BIAS_H

#include "checkpoint/checkpoint_layer.h"

/* The bias of a layer whose family has one: of every head, by the distance of key and query. name
 * is that of the table. */
bool checkpoint_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         const char *name, struct model_parameters *parameters,
                         struct fault *fault);

#endif
