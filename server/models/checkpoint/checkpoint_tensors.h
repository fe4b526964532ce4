/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_tensors.h - the tensors of a layer's attention beside its projections: their names,
 * the norms of query and key, and relative position biases. */
#ifndef ATTND_CHECKPOINT_TENSORS_H
#define ATTND_CHECKPOINT_TENSORS_H

#include "models/checkpoint/checkpoint_layer.h"

/* Writes "model.layers.7.self_attn.q_proj.weight" for layer 7 of the run, part "q_proj" and ending
 * ".weight". */
void checkpoint_name_write(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                           int64_t index, const char *part, const char *ending);

/* Writes the name of a tensor of the block that is not of attention:
 * "model.layers.7.mlp.up_proj.weight" for "mlp.up_proj". */
void checkpoint_name_write_block(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                                 int64_t index, const char *part, const char *ending);

/* Writes the name of the tensor that tells that there is such a layer: its first projection. */
void checkpoint_name_write_layer(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                                 int64_t index);

/* Whether the file has the first projection of that layer, under the run's prefix. */
bool checkpoint_name_has_layer(const struct checkpoint_run *run,
                               const struct model_tensors *tensors, int64_t index);

/* The kind of a layer of the run that has no attention; NULL: it has. */
const char *checkpoint_other_kind(const struct checkpoint_run *run, int64_t index);

/* Finds the prefix under which the file has the stack's first layer of attention; false: there is
 * none. */
bool checkpoint_name_find_prefix(struct checkpoint_run *run, const struct model_tensors *tensors);

/* Sets the norms of query and key of a layer where config.json asks for them. Where it does not, a
 * norm's tensor in the file is a fault. */
bool checkpoint_norm_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         struct model_parameters *parameters, struct fault *fault);

/* Sets the relative position bias of a layer whose family has one, as config.json says: T5's for
 * every head and distance from its table, BERT's from its rows for distances, BEiT's from the
 * layer's own table, the table of all layers, or the sum of both. A table in the file that
 * config.json does not ask for is a fault. */
bool checkpoint_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         struct model_parameters *parameters, struct fault *fault);

/* What a latent layer is besides (checkpoint_latent.c): its heads and its scale, once config.json's
 * other fields are read; its tensors, once its k_proj and o_proj are set. */
bool checkpoint_latent_read(struct checkpoint_layer *read, struct fault *fault);
bool checkpoint_latent_set(struct model_layer *layer, const struct checkpoint_layer *read,
                           struct model_parameters *parameters, struct fault *fault);

/* Sets DeBERTa's rows of every head for relative positions, where the family has them
 * (checkpoint_disentangled.c). adjust: the scale of scores, for its row. */
bool checkpoint_disentangled_set(struct model_layer *layer, const struct checkpoint_layer *read,
                                 struct model_parameters *parameters, struct fault *fault);
bool checkpoint_disentangled_adjust(struct checkpoint_layer *read, struct fault *fault);

/* Whether position_embedding_type of a family with distances asks for them, *by_key too. The fault
 * is a value that is not known. */
bool checkpoint_bias_read_distances(const struct checkpoint_run *run, bool *by_query, bool *by_key,
                                    struct fault *fault);

#endif
