/* checkpoint_gguf_rope.h - the rotary embedding of a GGUF file, for checkpoint_gguf.c. */
#ifndef ATTND_CHECKPOINT_GGUF_ROPE_H
#define ATTND_CHECKPOINT_GGUF_ROPE_H

#include "models/checkpoint/checkpoint_gguf_row.h"

/* Adds rope_theta, rotary_dim and rope_scaling to the config of file. */
bool checkpoint_gguf_add_rope(const struct checkpoint_gguf_file *file);

#endif
