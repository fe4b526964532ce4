/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf.h - a GGUF file as the checkpoint that it was made from: its metadata becomes a
 * config.json, and its tensors take the names that the family publishes. Everything behind that
 * reads both as it reads a folder of safetensors.
 *
 * Sources: llama.cpp at 0024aa7417ef, gguf-py/gguf/constants.py (keys and names of tensors),
 * convert_hf_to_gguf.py with conversion/ (what becomes which), src/models (what is computed). */
#ifndef ATTND_CHECKPOINT_GGUF_H
#define ATTND_CHECKPOINT_GGUF_H

#include "models/checkpoint/checkpoint.h"

/* Makes *text, a config.json, malloc'd and the caller's, reads it into checkpoint, and renames the
 * tensors, which are those of a GGUF file. On false checkpoint is empty and *text is NULL; the
 * fault names the key or the architecture. */
bool checkpoint_read_gguf(struct checkpoint *checkpoint, char **text, struct model_tensors *tensors,
                          struct fault *fault);

/* Sets model->vectors from the metadata (checkpoint_gguf_vectors.c). False: no memory. */
struct gguf;
bool checkpoint_gguf_vectors_set(struct model *model, const struct gguf *metadata,
                                 struct fault *fault);

#endif
