/* wire_merge.h - POST /v1/attention/merge: partial answers in, the whole out (API_CALLS.md). */
#ifndef ATTND_WIRE_MERGE_H
#define ATTND_WIRE_MERGE_H

#include "infer/infer.h"
#include "text/json.h"
#include "text/text.h"

/* Fills request->items with one merge from a document, which must stay until the request has been
 * computed. */
bool wire_merge_read(struct infer_request *request, const struct json_document *document,
                     struct fault *fault);

/* The same, but "parts" may be missing: a safetensors body has them as tensors. */
bool wire_merge_read_fields(struct infer_request *request, const struct json_document *document,
                            struct fault *fault);

/* Writes the answer of a request that has been computed. */
void wire_merge_write(const struct infer_request *request, struct text *text);

#endif
