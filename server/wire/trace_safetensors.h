/* trace_safetensors.h - a trace as a safetensors file, in and out (API_TRACE.md).
 *
 * Of a body, lists of integers and arrays are tensors under the names of the fields, and all other
 * fields are strings of __metadata__. An answer has a tensor for each number that the JSON has,
 * such as "layers.0.weights", and the rest as JSON in __metadata__. */
#ifndef ATTND_TRACE_SAFETENSORS_H
#define ATTND_TRACE_SAFETENSORS_H

#include "forward/trace_wire.h"
#include "wire/safetensors_body.h"

enum {
    TRACE_SAFETENSORS_NUMBER_BYTES = 4, /* of a number of the answer */
    TRACE_SAFETENSORS_MORE_MAX = 2
};

/* Writes the fields of the metadata as the text of a JSON object, which v1_trace_read() reads. */
bool trace_safetensors_fields(struct trace_call *call, const struct safetensors *file,
                              struct text *json, struct fault *fault);

/* Reads the tensors into the request's one item. The body must stay until the request has been
 * computed: tensors may be views of it. */
bool trace_safetensors_tensors(struct trace_call *call, const struct safetensors *file,
                               struct fault *fault);

/* Writes the results of the one item as the answer's parts, with at most
 * TRACE_SAFETENSORS_MORE_MAX more pairs in the metadata. */
bool trace_safetensors_write(struct trace_call *call, const struct safetensors_pair *more,
                             int more_count, struct fault *fault);

#endif
