/* wire_safetensors.h - tensors of the native API as a safetensors file, in and out.
 *
 * A call whose body is such a file has its arrays as tensors under the names of the fields, and all
 * its other fields as strings of __metadata__. Body and answer are independent: JSON may come and a
 * file go out, and the reverse. */
#ifndef ATTND_WIRE_SAFETENSORS_H
#define ATTND_WIRE_SAFETENSORS_H

#include "format/safetensors.h"
#include "infer/infer_wire.h"
#include "wire/wire_v1.h"

/* Notes the form of the body, from Content-Type, and of the answer, from Accept. An Accept that
 * names neither form leaves the answer in the form of the body. */
bool wire_safetensors_begin(struct infer_call *call, const struct exchange *exchange,
                            struct fault *fault);

/* Whether the body is a file, and whether the answer will be one. False where
 * wire_safetensors_begin() was not called, as for a batch. */
bool wire_safetensors_is_body(const struct infer_call *call);
bool wire_safetensors_is_answer(const struct infer_call *call);

/* Reads the body into the request's one item. The body must stay until the request has been
 * computed: tensors may be views of it. */
bool wire_safetensors_read(struct infer_call *call, bool gradients, struct fault *fault);

/* The same of a form. Tensors of the items of its list are "requests.0.query" and so on, where the
 * list's name is "requests"; a fault of an item is its own. */
bool wire_safetensors_read_form(struct infer_call *call, struct wire_v1_form *form,
                                struct fault *fault);

/* The same for a merge: tensors "parts.0.context", "parts.0.lse", "parts.1.context", ... */
bool wire_safetensors_read_merge(struct infer_call *call, struct fault *fault);

/* Writes the item's results as the answer's parts, in the dtype of its query. */
bool wire_safetensors_write(struct infer_call *call, struct fault *fault);

/* The same with further metadata, at most WIRE_SAFETENSORS_MORE_MAX. */
enum { WIRE_SAFETENSORS_MORE_MAX = 5 };
bool wire_safetensors_write_with(struct infer_call *call, const struct safetensors_pair *more,
                                 int more_count, struct fault *fault);

/* Writes the results of all items: tensors "results.0.context" and so on, where list is "results".
 * Items that have a fault have none. */
bool wire_safetensors_write_list(struct infer_call *call, const char *list,
                                 const struct safetensors_pair *metadata, int metadata_count,
                                 struct fault *fault);
bool wire_safetensors_write_gradients(struct infer_call *call, struct fault *fault);

#endif
