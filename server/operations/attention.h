/* attention.h - attention of one layer as an operation: one call, a batch, a merge, gradients.
 *
 * A body of any format becomes items (infer/infer.h) by the tables of attention_fields.h, and
 * results are said to the writer of any format. */
#ifndef ATTND_OPERATION_ATTENTION_H
#define ATTND_OPERATION_ATTENTION_H

#include "formats/writer.h"
#include "infer/infer_wire.h"
#include "operations/attention_fields.h"

extern const struct infer_wire attention_single, attention_batch, attention_merge,
    attention_gradients;

/* In begin of a call: notes the format of the body, from Content-Type, and that of the answer, from
 * Accept. An Accept that names no format leaves the answer in that of the body. */
bool attention_begin(struct infer_call *call, const struct exchange *exchange, struct fault *fault);

/* Reads the body into the request's items, by items->target.table and what items says besides. A
 * fault of an item of a list is its own; false for a fault of the whole body. The body must stay
 * until the request has been computed where its format keeps bytes, and is dropped elsewhere. */
bool attention_read(struct infer_call *call, struct field_items *items, struct fault *fault);

/* Says what an item has computed, as members of the object that is open. */
void attention_say_results(struct writer *writer, const struct infer_item *item);

/* Writes the answer by what say says, with the results converted to the dtype that the format
 * has. */
bool attention_write(struct infer_call *call,
                     void (*say)(const struct call *call, struct writer *writer),
                     struct fault *fault);

#endif
