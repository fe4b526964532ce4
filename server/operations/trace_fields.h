/* trace_fields.h - the tables of what traces may ask for. */
#ifndef ATTND_TRACE_FIELDS_H
#define ATTND_TRACE_FIELDS_H

#include "fields/field.h"
#include "forward/trace_job.h"

/* Into a struct trace_item: of one trace, and of a batch with "requests". */
extern const struct field_table trace_fields, trace_batch_fields;

/* Beside trace_fields, into the same item: of a trace over a session. */
extern const struct field_table trace_session_fields;

/* Reads the body, of the format of call->form, into the request's items. A fault of an item of a
 * batch is its own; false for a fault of the whole body. */
bool trace_fields_read(struct call *call, bool batch, struct fault *fault);

#endif
