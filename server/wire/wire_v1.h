/* wire_v1.h - the native API: JSON that a person can type (API_CALLS.md). */
#ifndef ATTND_WIRE_V1_H
#define ATTND_WIRE_V1_H

#include "infer/infer.h"
#include "text/json.h"
#include "text/text.h"

/* Fills request->items from a document, which must stay until the request has been computed. batch:
 * the document is {"requests": [...]} with fields that all requests share, and an item that cannot
 * be read carries its own fault. False only for a fault of the whole document. */
bool wire_v1_read(struct infer_request *request, bool batch, const struct json_document *document,
                  struct fault *fault);

/* Writes the answer of a request that has been computed. */
void wire_v1_write(const struct infer_request *request, struct text *text);

#endif
