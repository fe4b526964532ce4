/* checkpoint_check.h - refuses published checkpoints of which something is not understood: without
 * it the numbers could be wrong, and nobody would know. */
#ifndef ATTND_CHECKPOINT_CHECK_H
#define ATTND_CHECKPOINT_CHECK_H

#include "checkpoint/checkpoint.h"

/* Refuses a checkpoint that is quantised, by GPTQ, AWQ, bitsandbytes and others, as config.json or
 * the names of its tensors say. The fault is dtype. */
bool checkpoint_check_quantised(const struct checkpoint *checkpoint,
                                const struct model_tensors *tensors, struct fault *fault);

/* Passes fields of config.json that the family's rows read; fields that are null, false or empty;
 * and fields that change no attention, which are listed here for all families and in a row for its
 * own. Any other field is a fault that names it. */
bool checkpoint_check_fields(const struct checkpoint *checkpoint, struct fault *fault);

/* Sets the fault of a family that is not known, or whose tensors the file does not have, and
 * returns false: what the file's attention has that nothing here computes, which known family is
 * nearest, and which config to write instead. */
bool checkpoint_refuse_family(const struct checkpoint *checkpoint,
                              const struct model_tensors *tensors, struct fault *fault);

#endif
