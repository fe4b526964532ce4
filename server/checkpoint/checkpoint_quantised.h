/* checkpoint_quantised.h - refuses checkpoints of quantised parameters. */
#ifndef ATTND_CHECKPOINT_QUANTISED_H
#define ATTND_CHECKPOINT_QUANTISED_H

#include "model/model_tensors.h"

/* A checkpoint is refused where config.json, whose root this is, or the names of its tensors say
 * that it is quantised, by GPTQ, AWQ, bitsandbytes and others. The fault is dtype. */
bool checkpoint_quantised_check(const cJSON *root, const struct model_tensors *tensors,
                                struct fault *fault);

#endif
