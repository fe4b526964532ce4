/* trace_safetensors.h - the answer of a trace as a safetensors file (API_TRACE.md).
 *
 * An answer has a tensor for each number that the JSON has,
 * such as "layers.0.weights", and the rest as JSON in __metadata__. */
#ifndef ATTND_TRACE_SAFETENSORS_H
#define ATTND_TRACE_SAFETENSORS_H

#include "formats/safetensors.h"
#include "forward/trace_wire.h"

enum {
    TRACE_SAFETENSORS_NUMBER_BYTES = 4, /* of a number of the answer */
    TRACE_SAFETENSORS_MORE_MAX = 2
};

/* Writes the results of the one item as the answer's parts, with at most
 * TRACE_SAFETENSORS_MORE_MAX more pairs in the metadata. */
bool trace_safetensors_write(struct trace_call *call, const struct safetensors_pair *more,
                             int more_count, struct fault *fault);

#endif
