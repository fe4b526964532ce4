/* checkpoint_bias.h - the relative position bias of T5 and of BERT, and of families like them, from
 * tables. */
#ifndef ATTND_CHECKPOINT_BIAS_H
#define ATTND_CHECKPOINT_BIAS_H

#include "checkpoint/checkpoint_layer.h"

/* Sets the bias of a layer, for every head and distance of query and key, from the table that the
 * file has under name. */
bool checkpoint_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         const char *name, struct model_parameters *parameters,
                         struct fault *fault);

/* Whether position_embedding_type of a family with distances asks for them, *by_key too. The fault
 * is a value that is not known. */
bool checkpoint_bias_read_distances(const struct checkpoint_run *run, bool *by_query, bool *by_key,
                                    struct fault *fault);

/* Sets the bias of a layer from its rows for distances, where it has some. */
bool checkpoint_bias_set_distances(struct model_layer *layer, const struct checkpoint_layer *read,
                                   struct model_parameters *parameters, struct fault *fault);

#endif
