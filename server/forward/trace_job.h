/* trace_job.h - a trace as a call (infer/call.h), whatever wire its bytes come by. */
#ifndef ATTND_TRACE_JOB_H
#define ATTND_TRACE_JOB_H

#include "forward/trace_wire.h"

/* In a handler: takes the body, and answers when all is computed. */
void trace_job_handle(struct exchange *exchange, const struct trace_wire *wire);

#endif
