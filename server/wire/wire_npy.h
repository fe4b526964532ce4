/* wire_npy.h - a call of one array: its query as an .npy file, or its one output as one.
 *
 * Body and answer are independent: JSON or safetensors may come and an .npy file go out, and the
 * reverse. */
#ifndef ATTND_WIRE_NPY_H
#define ATTND_WIRE_NPY_H

#include "infer/infer_wire.h"

/* Notes the form of the body and of the answer: this one, or those of wire_safetensors.h. */
bool wire_npy_begin(struct infer_call *call, const struct exchange *exchange, struct fault *fault);

/* The functions below are for calls that began so. */
bool wire_npy_is_body(const struct infer_call *call);
bool wire_npy_is_answer(const struct infer_call *call);

/* Reads the body into the request's one item, whose query may be a view of it: the body must stay
 * until the request has been computed. */
bool wire_npy_read(struct infer_call *call, struct fault *fault);

/* Checks that the item, which is read, has one output in a dtype that the form has. Without a field
 * "outputs" that is the context. */
bool wire_npy_settle_answer(struct infer_call *call, struct fault *fault);

/* Writes that output as the answer's parts, in the dtype of the query. */
bool wire_npy_write(struct infer_call *call, struct fault *fault);

#endif
