/* wire_safetensors.h - tensors of the native API as a safetensors file, in and out.
 *
 * A call whose body is such a file has its arrays as tensors under the names of the fields
 * and all its other fields as strings of __metadata__. Each way may be taken alone: JSON in
 * and a file out, and the reverse. */
#ifndef ATTND_WIRE_SAFETENSORS_H
#define ATTND_WIRE_SAFETENSORS_H

#include "infer/infer_wire.h"

/* Notes what came and what is wanted: Content-Type, and Accept, which may leave it to what came. */
bool wire_safetensors_begin(struct infer_call *call, const struct exchange *exchange,
                            struct fault *fault);

/* Whether the body is a file, whether the answer is to be one; also where nothing was begun. */
bool wire_safetensors_comes(const struct infer_call *call);
bool wire_safetensors_goes(const struct infer_call *call);

/* Reads the body, which stays where it is, into the request's one item. */
bool wire_safetensors_read(struct infer_call *call, bool gradients, struct fault *fault);

/* The same for a merge: tensors "parts.0.context", "parts.0.lse", "parts.1.context", ... */
bool wire_safetensors_read_merge(struct infer_call *call, struct fault *fault);

/* Writes the item's results, in the dtype that its query came in, as the answer's parts. */
bool wire_safetensors_write(struct infer_call *call, struct fault *fault);
bool wire_safetensors_write_gradients(struct infer_call *call, struct fault *fault);

#endif
