/* checkpoint_name.h - writes the names of a layer's tensors. */
#ifndef ATTND_CHECKPOINT_NAME_H
#define ATTND_CHECKPOINT_NAME_H

#include "checkpoint/checkpoint.h"

/* Writes "model.layers.7.self_attn.q_proj.weight" for layer 7 of the run, part "q_proj" and ending
 * ".weight". */
void checkpoint_name_write(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                           int64_t index, const char *part, const char *ending);

/* The same with layer in place of the layer of the run's stack: "model.layers.7.mlp.up_proj.weight"
 * for "layers.%.mlp.", 7, "up_proj" and ".weight". */
void checkpoint_name_write_in(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                              const char *layer, int64_t index, const char *part,
                              const char *ending);

/* Whether the file has the first projection of that layer, under the run's prefix. */
bool checkpoint_name_has_layer(const struct checkpoint_run *run,
                               const struct model_tensors *tensors, int64_t index);

/* Finds the prefix under which the file has the stack's first layer; false: there is none. */
bool checkpoint_name_find_prefix(struct checkpoint_run *run, const struct model_tensors *tensors);

#endif
