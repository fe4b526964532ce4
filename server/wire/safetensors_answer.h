/* safetensors_answer.h - the answer of a call as a safetensors file. */
#ifndef ATTND_SAFETENSORS_ANSWER_H
#define ATTND_SAFETENSORS_ANSWER_H

#include "formats/safetensors.h"
#include "infer/call.h"

/* Makes the answer's parts: the head of the file, which is the call's text, and the values of each
 * tensor, sent from their own memory. The list of parts is in the arena. Values of eight bytes
 * should come first, so that all are aligned in the file. */
bool safetensors_answer_make(struct call *call, struct arena *arena,
                             const struct safetensors_tensor *tensors, int64_t tensor_count,
                             const struct safetensors_pair *metadata, int64_t metadata_count,
                             struct fault *fault);

#endif
