/* checkpoint_unknown.h - refuses a family that is not known: what its attention has that nothing
 * here computes, which known family is nearest, and which config to write instead. */
#ifndef ATTND_CHECKPOINT_UNKNOWN_H
#define ATTND_CHECKPOINT_UNKNOWN_H

#include "checkpoint/checkpoint.h"

/* Sets the fault and returns false. is_known: the family is, and the file has other tensors. */
bool checkpoint_unknown_refuse(const struct checkpoint *checkpoint, bool is_known,
                               const struct model_tensors *tensors, struct fault *fault);

#endif
