/* trace_job.h - a trace as a call (infer/call.h), whatever wire reads its bytes. */
#ifndef ATTND_TRACE_JOB_H
#define ATTND_TRACE_JOB_H

#include "forward/trace_wire.h"
#include "infer/infer_wire.h"

/* In a handler: takes the body, and answers when all is computed. */
void trace_job_handle(struct exchange *exchange, const struct trace_wire *wire);

/* The memory that an inference needs to become a trace (infer_job_handle_in()). */
size_t trace_job_bytes(void);

/* Turns an inference, whose wire has read that it asks for a trace, into one; wire->begin is not
 * called. Limits, arena and the wire's state are those of the inference, whose request has no items
 * yet. */
void trace_job_take(struct infer_call *call, const struct trace_wire *wire);

#endif
