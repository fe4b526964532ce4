/* attention.h - attention of one layer as an operation: one call, a batch, a merge, gradients.
 *
 * A body of any format becomes items (call/infer.h) by the tables of attention_fields.h, and
 * results are said to the writer of any format. */
#ifndef ATTND_OPERATION_ATTENTION_H
#define ATTND_OPERATION_ATTENTION_H

#include "call/infer_job.h"
#include "operations/attention_fields.h"

extern const struct operation attention_single, attention_batch, attention_merge,
    attention_gradients;

/* Reads the body into the request's items (operation_read_items()). */
bool attention_read(struct call *call, struct field_items *items, struct fault *fault);

/* Says what an item has computed, as members of the object that is open. */
void attention_say_results(struct writer *writer, const struct infer_item *item);

/* Converts the results to the dtype that the format of the answer has. */
bool attention_finish(struct call *call, struct fault *fault);

#endif
