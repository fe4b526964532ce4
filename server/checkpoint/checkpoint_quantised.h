/* checkpoint_quantised.h - checkpoints of quantised parameters, told apart from what is taken. */
#ifndef ATTND_CHECKPOINT_QUANTISED_H
#define ATTND_CHECKPOINT_QUANTISED_H

#include "model/model_tensors.h"

/* Refuses what config.json, root, or the names of the tensors say is quantised: GPTQ, AWQ,
 * bitsandbytes and their kin. */
bool checkpoint_quantised_check(const cJSON *root, const struct model_tensors *tensors,
                                struct fault *fault);

#endif
