/* wire_v1.h - the native API: JSON that a person can type (API_CALLS.md). */
#ifndef ATTND_WIRE_V1_H
#define ATTND_WIRE_V1_H

#include "infer/infer.h"
#include "text/json.h"
#include "text/text.h"
#include "wire/v1_reader.h"

/* A body of an endpoint that takes more than POST /v1/attention. */
struct wire_v1_form {
    const char *list;           /* name of the array of items; NULL: the body is one item */
    bool list_may_lack;         /* the body is one item then */
    const struct v1_more *more; /* NULL: nothing */
    void *asked; /* in: one with its defaults; out: [item_count]. As more says, or NULL */
};

/* Fills request->items from a document, which must stay until the request has been computed. batch:
 * the document is {"requests": [...]} with fields that all requests share, and an item that cannot
 * be read carries its own fault. False only for a fault of the whole document. */
bool wire_v1_read(struct infer_request *request, bool batch, const struct json_document *document,
                  struct fault *fault);

/* The same of such a form. A fault of an item is its own. */
bool wire_v1_read_form(struct infer_request *request, struct wire_v1_form *form,
                       const struct json_document *document, struct fault *fault);

/* Writes the outputs of an item as members of an object that has others before them. */
void wire_v1_write_outputs(const struct infer_item *item, struct text *text);

/* The same of those that are no tensors, for an answer whose tensors are elsewhere. */
void wire_v1_write_beside_tensors(const struct infer_item *item, struct text *text);

/* Writes the answer of a request that has been computed. */
void wire_v1_write(const struct infer_request *request, struct text *text);

#endif
