/* checkpoint_pass.h - builds what surrounds the attention layers of a published checkpoint. */
#ifndef ATTND_CHECKPOINT_PASS_H
#define ATTND_CHECKPOINT_PASS_H

#include "checkpoint/checkpoint.h"

/* Builds the pass of a checkpoint whose layers are built. On true either *forward is set, or
 * *reason says in one sentence why there is none: both lie in the arena of parameters. The fault is
 * memory. */
bool checkpoint_pass_build(const struct model_forward **forward, const char **reason,
                           const struct checkpoint *checkpoint, const struct model_layer *layers,
                           struct model_parameters *parameters, struct fault *fault);

#endif
