/* checkpoint_mpt.h - what MPT's attn_config says beyond the fields of its row. */
#ifndef ATTND_CHECKPOINT_MPT_H
#define ATTND_CHECKPOINT_MPT_H

#include "checkpoint/checkpoint_layer.h"

/* The row's adjust(): sets biases, key/value heads, window and rotary embedding. */
bool checkpoint_mpt_adjust(struct checkpoint_layer *layer, struct fault *fault);

#endif
