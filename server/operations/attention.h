/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - attention of one layer as an operation: one call, a batch, a merge, gradients.
 *
 * A body of any format becomes items (call/infer.h) by the tables of attention_fields.h, and
 * results are said to the writer of any format. */
#ifndef ATTND_OPERATION_ATTENTION_H
#define ATTND_OPERATION_ATTENTION_H

#include "call/infer_job.h"
#include "operations/attention_fields.h"
#include "operations/operations.h"

/* Reads the body into the request's items (operation_read_items()). */
bool attention_read(struct call *call, struct field_items *items, struct fault *fault);

/* Says what an item has computed, as members of the object that is open. */
void attention_say_results(struct writer *writer, const struct infer_item *item);

/* Computes one small attention from JSON to JSON. A daemon that says it is ready has thereby run
 * all the code once. */
bool attention_warm_up(struct service *service, struct fault *fault);

/* Converts the results to the dtype that the format of the answer has. */
bool attention_finish(struct call *call, struct fault *fault);

#endif
