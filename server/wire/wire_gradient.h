/* wire_gradient.h - POST /v1/attention/gradients as JSON (API_CALLS.md). */
#ifndef ATTND_WIRE_GRADIENT_H
#define ATTND_WIRE_GRADIENT_H

#include "infer/infer.h"
#include "text/json.h"
#include "text/text.h"

/* Reads a single request as wire_v1_read() does, with the further field "context_gradient". */
bool wire_gradient_read(struct infer_request *request, const struct json_document *document,
                        struct fault *fault);

/* Writes the answer of a request that has been computed. */
void wire_gradient_write(const struct infer_request *request, struct text *text);

#endif
